//! The configuration of an own run in requests: the fields that several requests share.
//!
//! Look at [`RunConfig`]. Which field is allowed for which kind of run is not decided here; the face refuses
//! what does not fit.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{foreign_id_schema, object};

/// The fields of a request that configure a run.
#[derive(Debug, Clone, Default)]
pub struct RunConfig {
    pub model: Option<String>,
    pub system: Option<String>,
    pub workspace_instructions: Option<bool>,
    pub tools: Option<Vec<String>>,
    pub max_turns: Option<u64>,
    pub budget_turns: Option<u64>,
    pub max_output_tokens: Option<u32>,
    pub workspace: Option<String>,
    pub workspace_mode: Option<String>,
    pub copy_ignored: Option<bool>,
    pub network: Option<bool>,
    pub timeout_seconds: Option<u64>,
    pub output_bytes_max: Option<u64>,
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    pub file: Option<FileOrder>,
    pub attachments: Option<Vec<Attachment>>,
    pub resume: Option<String>,
    pub from_sequence: Option<u64>,
}

/// One call of a file tool.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FileOrder {
    #[schemars(extend("enum" = ["read_file", "write_file", "edit_file", "multi_edit", "glob", "grep"]))]
    pub tool: String,
    /// The input of the tool.
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    pub input: Box<RawValue>,
}

/// An attachment of the request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attachment {
    /// An existing artifact.
    #[schemars(schema_with = "foreign_id_schema")]
    pub artifact_id: String,
    /// The original file name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Reads a thing from an object, where it is one at all.
pub(super) fn file_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<FileOrder>, D::Error> {
    super::object_or_none(deserializer)
}

/// Reads each of a list from an object.
pub(super) fn attachments_or_none<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Vec<Attachment>>, D::Error> {
    #[derive(Deserialize)]
    struct OneAttachment(#[serde(deserialize_with = "object")] Attachment);
    let several = Option::<Vec<OneAttachment>>::deserialize(deserializer)?;
    Ok(several.map(|several| several.into_iter().map(|OneAttachment(one)| one).collect()))
}

/// A request with these fields of its own, followed by those of an [`RunConfig`].
macro_rules! ordering {
    ($(#[$about:meta])* pub struct $name:ident { $($own:tt)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($own)*
            /// Kind `agent_loop`: the model, as `provider/model` or by a name that one provider has; the server's
            /// default if missing.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub model: Option<String>,
            /// Kind `agent_loop`: the system prompt, instead of the default one.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub system: Option<String>,
            /// Kind `agent_loop`: `false` leaves the `AGENTS.md` files of the workspace unread.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub workspace_instructions: Option<bool>,
            /// Kind `agent_loop`: the names of the tools that the model may call; all if missing, none if empty.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub tools: Option<Vec<String>>,
            /// Kind `agent_loop`: how many turns the run may have.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1))]
            pub max_turns: Option<u64>,
            /// Kind `agent_loop`: how many turns the run may complete before it ends with `budget_exceeded`. A budget in
            /// money for a model without a price needs this or `budget_tokens` of the task.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1))]
            pub budget_turns: Option<u64>,
            /// Kind `agent_loop`: the length limit of one answer of the model.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1, max = 4_294_967_295_u32))]
            pub max_output_tokens: Option<u32>,
            /// The folder to work on, as an absolute path; an empty one if missing.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub workspace: Option<String>,
            /// `clone` (the default): work on a copy; `in_place`: on the folder itself.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(extend("enum" = ["clone", "in_place", null]))]
            pub workspace_mode: Option<String>,
            /// Mode `clone`: also copy what git ignores.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub copy_ignored: Option<bool>,
            /// Whether commands may use the network.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub network: Option<bool>,
            /// How long one command may take.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1))]
            pub timeout_seconds: Option<u64>,
            /// How much output one command may write before it is stopped.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            #[schemars(range(min = 1))]
            pub output_bytes_max: Option<u64>,
            /// Kind `shell`: the command, for `sh`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub command: Option<String>,
            /// Kind `git`: the arguments of `git`.
            #[serde(default, skip_serializing_if = "Option::is_none")]
            pub args: Option<Vec<String>>,
            /// Kind `file`: a file tool and its input.
            #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "run_config::file_or_none")]
            pub file: Option<FileOrder>,
            /// Kind `agent_loop`: files and images that belong to the request.
            #[serde(
                default, skip_serializing_if = "Option::is_none", deserialize_with = "run_config::attachments_or_none"
            )]
            pub attachments: Option<Vec<Attachment>>,
        }

        impl $name {
            /// What the run is to do, taken out.
            pub fn take_run_config(&mut self) -> RunConfig {
                RunConfig {
                    model: self.model.take(),
                    system: self.system.take(),
                    workspace_instructions: self.workspace_instructions.take(),
                    tools: self.tools.take(),
                    max_turns: self.max_turns.take(),
                    budget_turns: self.budget_turns.take(),
                    max_output_tokens: self.max_output_tokens.take(),
                    workspace: self.workspace.take(),
                    workspace_mode: self.workspace_mode.take(),
                    copy_ignored: self.copy_ignored.take(),
                    network: self.network.take(),
                    timeout_seconds: self.timeout_seconds.take(),
                    output_bytes_max: self.output_bytes_max.take(),
                    command: self.command.take(),
                    args: self.args.take(),
                    file: self.file.take(),
                    attachments: self.attachments.take(),
                    ..RunConfig::default()
                }
            }
        }
    };
}
pub(super) use ordering;
