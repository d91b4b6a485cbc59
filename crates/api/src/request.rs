//! Request bodies.

mod run_config;

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use recount_event::limits;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use self::run_config::ordering;
pub use self::run_config::{Attachment, FileOrder, RunConfig};
pub use crate::prompt::{
    AcknowledgeHandoff, AllowanceScope, AnswerClarification, ExtendPrompt, RejectHandoff, ResolveApproval,
    Verdict,
};

/// The form of an id that a producer chooses.
pub(crate) fn foreign_id() -> Value {
    let most = limits::FOREIGN_ID_BYTES_MAX;
    // Dots alone are refused, because paths have them.
    json!({ "type": "string", "pattern": "^(?!\\.{1,2}$)[A-Za-z0-9._:-]+$", "minLength": 1, "maxLength": most })
}

fn foreign_id_schema(_: &mut SchemaGenerator) -> Schema {
    Schema::try_from(foreign_id()).expect("it is an object")
}

ordering! {
    /// `POST /v1/tasks`
    pub struct CreateTask {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        /// If given, the task's first run is created with it; the fields below are for that run.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("enum" = ["agent_loop", "shell", "git", "file", "external", null]))]
        pub kind: Option<String>,
        /// The request, in the user's words.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_text: Option<String>,
        /// Kind `agent_loop`: an agent of this server; other fields of the request override its configuration.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_or_none")]
        pub agent: Option<AgentName>,
        /// The budget for all runs of the task, in millionths of a US dollar.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 9_007_199_254_740_991_u64))]
        pub budget_micros_usd: Option<u64>,
        /// The token budget for all runs of the task.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(range(max = 9_007_199_254_740_991_u64))]
        pub budget_tokens: Option<u64>,
    }
}

/// `PATCH /v1/tasks/{task}`: the changes. At least one of these; none can be removed.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1))]
pub struct ChangeTask {
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schemars(with = "String")]
    pub title: Option<String>,
    /// Not less than before; the first one bounds a task without a budget.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schemars(with = "u64", range(max = 9_007_199_254_740_991_u64))]
    pub budget_micros_usd: Option<u64>,
    /// The same for tokens.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "not_null")]
    #[schemars(with = "u64", range(max = 9_007_199_254_740_991_u64))]
    pub budget_tokens: Option<u64>,
}

/// Refuses `null`: these fields cannot be removed.
fn not_null<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

ordering! {
    /// `POST /v1/runs` and `POST /v1/tasks/{task}/runs`
    pub struct CreateRun {
        /// This server executes `agent_loop`, `shell`, `git` and `file`; with `external` another program
        /// reports its own events.
        #[schemars(extend("enum" = ["agent_loop", "shell", "git", "file", "external"]))]
        pub kind: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("pattern" = "^task_[0-7][0-9A-HJKMNP-TV-Z]{25}$"))]
        pub task_id: Option<String>,
        /// An existing session; its runs are listed, kept and deleted together.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("pattern" = "^chat_[0-7][0-9A-HJKMNP-TV-Z]{25}$"))]
        pub session_id: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub title: Option<String>,
        /// The request, in the user's words. With kind `agent_loop` the model gets it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub request_text: Option<String>,
        /// Kind `external`: the program that reports. Kind `agent_loop`: an agent of this server; other fields
        /// of the request override its configuration.
        #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "object_or_none")]
        pub agent: Option<AgentName>,
        /// Kind `agent_loop`: an ended run of the same task or session, to continue from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("pattern" = "^run_[0-7][0-9A-HJKMNP-TV-Z]{25}$"))]
        pub resume: Option<String>,
        /// With `resume`: the last event of that run to continue from; its end if missing.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pub from_sequence: Option<u64>,
        /// With `from_sequence`: the files to start with. `restore` (the default): those at that event, in a new copy.
        /// `current`: those of the earlier run's folder as they are now, in that folder.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[schemars(extend("enum" = ["restore", "current", null]))]
        pub files: Option<String>,
    }
}

/// `POST /v1/runs/{run}/retry`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRun {
    /// Another model than that of the earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// `POST /v1/runs/{run}/resume`; the body is optional. Without a place it resumes from the last checkpoint, and with
/// a further request from the end.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResumeRun {
    /// A checkpoint of the run to branch from; not together with `from_sequence`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint_id: Option<String>,
    /// The last event of the run to continue from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_sequence: Option<u64>,
    /// A further request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_text: Option<String>,
    /// Another model than that of the earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many turns the new run may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u64>,
    /// The files to start with. `restore` (the default): those at this place, in a new copy; at the last checkpoint only
    /// if the folder has changed since. `current`: those of the earlier run's folder as they are now, in that folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["restore", "current", null]))]
    pub files: Option<String>,
}

/// `POST /v1/runs/{run}/continue`: a new prompt after the end of a run.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ContinueRun {
    /// What the agent is to do next.
    pub prompt: String,
    /// Artifacts that belong to the prompt.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "run_config::attachments_or_none"
    )]
    pub attachments: Option<Vec<Attachment>>,
    /// Another model than that of the earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many turns the new run may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u64>,
}

/// `POST /v1/runs/{run}/retry-from-turn`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetryRunFromTurn {
    /// The first turn to repeat: the model is called again for it.
    pub turn_index: u64,
    /// Another model than that of the earlier run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// How many turns the new run may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u64>,
    /// The files to start with. `restore` (the default): those at this place, in a new copy. `current`: those of
    /// the earlier run's folder as they are now, in that folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["restore", "current", null]))]
    pub files: Option<String>,
}

/// `POST /v1/sessions/{session}/messages`: a message, which a run of kind `agent_loop` answers.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SendMessage {
    pub text: String,
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "run_config::attachments_or_none"
    )]
    pub attachments: Option<Vec<Attachment>>,
    /// As for a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub max_turns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 4_294_967_295_u32))]
    pub max_output_tokens: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["clone", "in_place", null]))]
    pub workspace_mode: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub timeout_seconds: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub output_bytes_max: Option<u64>,
}

impl SendMessage {
    /// The configuration of the run, besides answering the text.
    pub fn into_run_config(self) -> RunConfig {
        RunConfig {
            attachments: self.attachments,
            model: self.model,
            system: self.system,
            tools: self.tools,
            max_turns: self.max_turns,
            max_output_tokens: self.max_output_tokens,
            workspace: self.workspace,
            workspace_mode: self.workspace_mode,
            network: self.network,
            timeout_seconds: self.timeout_seconds,
            output_bytes_max: self.output_bytes_max,
            ..RunConfig::default()
        }
    }
}

/// The program that reports, or an agent of this server with its options.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentName {
    pub name: String,
    /// Kind `external`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Kind `agent_loop`: the agent's tools to enable. All if missing; then the policy alone decides which calls
    /// need an approval.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "tools_or_none")]
    pub tools: Option<Vec<EnabledTool>>,
    /// Kind `agent_loop`: values of the agent's options, except secret ones, which only sessions of applications have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<BTreeMap<String, String>>,
}

/// A tool of an agent.
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnabledTool {
    pub name: String,
    /// Whether it may be called without an approval; `false` if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trust: Option<bool>,
}

/// Reads each of a list from an object.
fn tools_or_none<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<EnabledTool>>, D::Error> {
    #[derive(Deserialize)]
    struct OneTool(#[serde(deserialize_with = "object")] EnabledTool);
    let several = Option::<Vec<OneTool>>::deserialize(deserializer)?;
    Ok(several.map(|several| several.into_iter().map(|OneTool(one)| one).collect()))
}

/// `POST /v1/runs/{run}/events`
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AppendEvents {
    #[serde(deserialize_with = "object")]
    pub producer: Producer,
    #[serde(deserialize_with = "objects")]
    #[schemars(length(min = 1))]
    pub events: Vec<NewEvent>,
}

/// The program, its instance and the batch: the triple that makes it safe to resend a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Producer {
    #[schemars(schema_with = "foreign_id_schema")]
    pub id: String,
    /// Each new instance uses a higher epoch; from then on older ones are rejected.
    pub epoch: u64,
    /// 0 for the first batch of an epoch, then one more for each batch.
    pub seq: u64,
}

/// One event to append. `data` is stored unchanged, except for whitespace.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewEvent {
    #[serde(rename = "type")]
    pub event_type: String,
    #[schemars(with = "serde_json::Map<String, Value>")]
    pub data: Box<RawValue>,
}

/// `POST /v1/runs/{run}/cancel` and `POST /v1/tasks/{task}/cancel`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cancel {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /v1/runs/{run}/apply`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApplyRun {
    /// A new branch of the folder's git repository, for one commit with the changes. If missing, the files of the
    /// folder are changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The changed paths to apply, each with everything below it. If empty, all changes are applied.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<String>,
    /// What is done with changes that conflict with the folder: `refuse` (the default) writes nothing; `skip` writes the
    /// other changes; `mark` also writes both versions of a file, between conflict markers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["refuse", "skip", "mark", null]))]
    pub conflicts: Option<String>,
    /// The `digest` of the changes that were shown. If they are no longer the same, nothing is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shown_digest: Option<String>,
}

/// `POST /v1/artifacts/{artifact}/apply`, `/reject` and `/revert`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChangePatch {
    /// Why; recorded with the run that does it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /v1/runs/{run}/prune`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PruneRun {
    /// The first event to keep; the ending if missing or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<u64>,
    /// Only return what would be removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// `POST /v1/prune`: what to keep. At least one of these.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("anyOf" = any_amount()))]
pub struct Prune {
    /// How long a run is kept complete after it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age_seconds: Option<u64>,
    /// The maximum number of events in the whole store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_events: Option<u64>,
    /// The maximum number of bytes of events in the whole store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_bytes: Option<u64>,
    /// Only return what would be pruned, by all requests together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<bool>,
}

/// One of the amounts is there and is not null.
fn any_amount() -> Value {
    let required = |name: &str| json!({ "required": [name], "properties": { name: { "type": "integer" } } });
    json!([required("max_age_seconds"), required("max_events"), required("max_bytes")])
}

/// `POST /v1/sessions`; the body is optional.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateSession {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
}

/// Reads a thing from an object and nothing else: a derived reader would take a list of its fields, too.
pub struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);

        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = Object<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
                T::deserialize(MapAccessDeserializer::new(map)).map(Object)
            }
        }

        deserializer.deserialize_map(Fields(PhantomData))
    }
}

fn object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
    Object::deserialize(deserializer).map(|Object(thing)| thing)
}

fn object_or_none<'de, T, D>(deserializer: D) -> Result<Option<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::<Object<T>>::deserialize(deserializer)?.map(|Object(thing)| thing))
}

fn objects<'de, T: Deserialize<'de>, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
    let things = Vec::<Object<T>>::deserialize(deserializer)?;
    Ok(things.into_iter().map(|Object(thing)| thing).collect())
}
