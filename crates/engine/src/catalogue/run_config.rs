//! What is asked of one of our own runs beside the words of the request: it is written to `run.queued` as `config`,
//! so that what held for a run can be read from its log alone.
//!
//! Written by faces, read by the performer. The engine itself only passes it on.

use std::collections::BTreeMap;

use recount_event::{ForeignId, Json, RunId};
use serde::{Deserialize, Serialize};

/// See the file's head. What is missing is the performer's to choose; what it chose is filled in before the run is
/// queued.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Order {
    /// What the model is told before the conversation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// Whether the `AGENTS.md` files of the workspace are read; as the server has it when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_instructions: Option<bool>,
    /// The tools that the model may call, by name; all when missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u64>,
    /// How many turns the run may complete; then its budget is used up.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget_turns: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_output_tokens: Option<u32>,
    /// The folder that the workspace is made of: copied in mode `clone`, worked in in mode `in_place`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_source: Option<String>,
    /// Mode `clone`: whether what git is told to ignore is copied, too.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub copy_ignored: bool,
    /// Whether commands may use the network.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub network: bool,
    /// How long a command may take, and how much it may write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_bytes_max: Option<u64>,
    /// Runs of kind `shell`: the command, for `sh`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Runs of kind `git`: what follows `git`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<Vec<String>>,
    /// Runs of kind `file`: a file tool and its input.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<FileOrder>,
    /// Tools that may only be called with a person's leave, whatever the policy says: those that an application
    /// enabled without trusting them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ask_first: Vec<String>,
    /// Tools that the application carries out itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tools: Vec<ClientTool>,
    /// What was chosen of the agent's options, but for what is secret.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// Options whose values are sealed with the session, by what they are for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<Purpose, String>,
    /// Whether what the model thinks is told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub thinking: bool,
    /// From how many tokens on, estimated, the beginning of the conversation is shortened for the model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compact_above: Option<u64>,
    /// The request as content blocks, where it is more than its text: texts, pictures by artifact or by address.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<Json>,
    /// Files and pictures that belong to the request, by artifact.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub attachments: Vec<Attached>,
    /// The run that started this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spawned_by: Option<SpawnedBy>,
    /// Why the run is a branch of the one that it goes on from, where it does not go on from its last settled place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// How commands are kept apart from the rest of the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
    /// The policy in force, by a digest of its text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
}

/// The run that started another, by which of its calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpawnedBy {
    pub run_id: RunId,
    pub tool_call_id: ForeignId,
    /// How many runs are above the started one.
    pub depth: u64,
}

/// A tool that an application carries out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientTool {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    pub description: String,
    /// A JSON Schema of its input.
    pub parameters: Json,
}

/// What the value of a secret option is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Who asks the model's provider.
    ApiKey,
}

/// What a run of kind `file` does: one call of one of the file tools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileOrder {
    /// `read_file`, `write_file`, `edit_file`, `multi_edit`, `glob` or `grep`.
    pub tool: String,
    pub input: Json,
}

/// Something that came with a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    pub artifact_id: ForeignId,
    pub mime: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// What holds from some place of a run on, where an application chose anew when it answered: it is written to
/// `run.continued` as `config`, whole, so that nobody has to add changes up.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OrderChange {
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

impl OrderChange {
    /// All that may change, as an order has it.
    pub fn to(model: Option<String>, order: &Order) -> Self {
        OrderChange {
            model,
            system: order.system.clone(),
            tools: order.tools.clone(),
            ask_first: order.ask_first.clone(),
            client_tools: order.client_tools.clone(),
            options: order.options.clone(),
            secrets: order.secrets.clone(),
            max_turns: order.max_turns,
            max_output_tokens: order.max_output_tokens,
        }
    }

    /// As `run.continued` holds it.
    pub fn written(&self) -> Json {
        Json::of(self).expect("a change can be written as JSON")
    }

    pub fn read(config: &Json) -> Result<OrderChange, serde_json::Error> {
        serde_json::from_str(config.text())
    }
}

impl Order {
    /// The order as it holds after a change. The model is not part of an order, and left to the caller.
    pub fn changed(&self, change: OrderChange) -> Order {
        let OrderChange {
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
        Order {
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

    /// As `run.queued` holds it.
    pub fn written(&self) -> Json {
        Json::of(self).expect("a run configuration can be written as JSON")
    }

    /// What a `run.queued` says; what it does not say is missing here. `Err` when it is no order.
    pub fn read(config: Option<&Json>) -> Result<Order, serde_json::Error> {
        config.map_or_else(|| Ok(Order::default()), |config| serde_json::from_str(config.text()))
    }
}
