//! The configuration of an own run. It is stored as `config` in `run.queued`, so that the log alone says how a run
//! was configured.
//!
//! Faces write it and the performer reads it. The engine only passes it on.

use std::collections::BTreeMap;

use recount_event::{ForeignId, Json, RunId};
use serde::{Deserialize, Serialize};

/// The configuration of an own run. The performer chooses missing options and fills them in before the run is queued.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfig {
    /// The system prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Whether the `AGENTS.md` files of the workspace are read; the server's default if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_instructions: Option<bool>,
    /// The tools that the model may call, by name; all if missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// How many turns the run may complete before its budget is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The source folder of the workspace: copied in mode `clone`, used directly in mode `in_place`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_source: Option<String>,
    /// Mode `clone`: whether files that git ignores are copied too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copy_ignored: bool,
    /// Whether commands may use the network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
    /// The limits of a command: run time, and bytes of output.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes_max: Option<u64>,
    /// Runs of kind `shell`: the command for `sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Runs of kind `git`: the arguments of `git`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Runs of kind `file`: a file tool and its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileCall>,
    /// Tools that always need approval, regardless of the policy: those that an application enabled without trusting
    /// them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask_first: Vec<String>,
    /// Tools that the application executes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// The option values, except secret ones.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// The options whose values are sealed with the session, by purpose.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<Purpose, String>,
    /// Whether the thinking of the model is reported.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thinking: bool,
    /// The estimated number of tokens above which the beginning of the conversation is shortened.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_above: Option<u64>,
    /// The request as content blocks, if it is more than text: texts and images by artifact or URL.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Json>,
    /// Files and images of the request, by artifact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attachment>,
    /// The run that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SpawnedBy>,
    /// Why the run is a branch of its predecessor, if it does not continue from the last settled event.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The files that the workspace starts with, in a copy of its own; otherwise those of its folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_from: Option<FilesFrom>,
    /// The sandbox for commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The digest of the policy in force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The files at one event of an earlier run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilesFrom {
    pub run_id: RunId,
    pub sequence: u64,
    /// The copy that the run worked in.
    pub workspace_path: String,
    /// The name of the recorded files.
    pub snapshot: String,
}

/// The run that started another run, and the tool call that did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedBy {
    pub run_id: RunId,
    pub tool_call_id: ForeignId,
    /// The number of ancestors of the started run.
    pub depth: u64,
}

/// A tool that an application executes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    /// A JSON Schema of the input.
    pub parameters: Json,
}

/// The purpose of a secret option.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// The key for the model's provider.
    ApiKey,
}

/// The call of a run of kind `file`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileCall {
    /// `read_file`, `write_file`, `edit_file`, `multi_edit`, `glob` or `grep`.
    pub tool: String,
    pub input: Json,
}

/// A file or image that was sent with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub artifact_id: ForeignId,
    pub mime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// The changed part of a configuration, when an application changes it with an answer. It is stored as `config` in
/// `run.continued`, complete, so that readers need not combine changes.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunConfigChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    pub tools: Option<Vec<String>>,
    pub ask_first: Vec<String>,
    pub client_tools: Vec<ClientTool>,
    pub options: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<Purpose, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
}

impl RunConfigChange {
    /// The part of a configuration that can change.
    pub fn from_config(model: Option<String>, config: &RunConfig) -> Self {
        RunConfigChange {
            model,
            system: config.system.clone(),
            tools: config.tools.clone(),
            ask_first: config.ask_first.clone(),
            client_tools: config.client_tools.clone(),
            options: config.options.clone(),
            secrets: config.secrets.clone(),
            max_turns: config.max_turns,
            max_output_tokens: config.max_output_tokens,
        }
    }

    /// The JSON in `run.continued`.
    pub fn written(&self) -> Json {
        Json::of(self).expect("a change can be written as JSON")
    }

    pub fn from_json(json: &Json) -> Result<RunConfigChange, serde_json::Error> {
        serde_json::from_str(json.text())
    }
}

impl RunConfig {
    /// The configuration after a change. The model is not part of it; the caller sets the model.
    pub fn changed(&self, change: RunConfigChange) -> RunConfig {
        let RunConfigChange {
            model: _,
            system,
            tools,
            ask_first,
            client_tools,
            options,
            secrets,
            max_turns,
            max_output_tokens,
        } = change;
        RunConfig {
            system,
            tools,
            ask_first,
            client_tools,
            options,
            secrets,
            max_turns,
            max_output_tokens,
            ..self.clone()
        }
    }

    /// The JSON in `run.queued`.
    pub fn written(&self) -> Json {
        Json::of(self).expect("a run configuration can be written as JSON")
    }

    /// Reads the JSON of `run.queued`. Missing options stay missing.
    pub fn from_json(config: Option<&Json>) -> Result<RunConfig, serde_json::Error> {
        config.map_or_else(|| Ok(RunConfig::default()), |config| serde_json::from_str(config.text()))
    }
}
