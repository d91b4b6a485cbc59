//! The `spawn_run` tool: delegates a subtask to a child run, whose final message is the output of the call.
//!
//! Start at [`SpawnRun`]. The tool only parses the request; the worker starts the run and waits for it (`child_run`).

use futures_util::future::BoxFuture;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::SUMMARY_CHARS_MAX;
use crate::tool::{Assessment, Job, Outcome, Targets, Tool};
use crate::tools::ending::{CallFailure, cut};
use crate::tools::input;
use crate::tools::limits;

/// The tool's name.
pub const SPAWN_RUN: &str = "spawn_run";

pub(crate) struct SpawnRun;

/// The task of the child run, and its limits.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct ChildRunInput {
    pub(crate) prompt: String,
    pub(crate) title: Option<String>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) max_turns: Option<u64>,
    pub(crate) budget_micros_usd: Option<u64>,
    pub(crate) budget_tokens: Option<u64>,
}

impl ChildRunInput {
    /// Parses an input that is valid for the schema.
    pub(crate) fn read(input: &Value) -> Result<ChildRunInput, CallFailure> {
        input::read(input)
    }
}

impl Tool for SpawnRun {
    fn name(&self) -> &'static str {
        SPAWN_RUN
    }

    fn kind(&self) -> &'static str {
        "run"
    }

    fn description(&self) -> &'static str {
        "Starts another agent run for a subtask, waits for it and returns its final message. It works in the \
         same folder but does not see this conversation, so put everything it needs into the prompt. It uses \
         your budget."
    }

    fn schema(&self) -> Value {
        let amount =
            |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
        input::schema(
            json!({
                "prompt": {
                    "type": "string", "minLength": 1, "maxLength": limits::CHILD_RUN_PROMPT_BYTES_MAX,
                    "description": "The subtask, with everything the other run needs to know."
                },
                "title": {
                    "type": "string", "minLength": 1, "maxLength": SUMMARY_CHARS_MAX,
                    "description": "A short title for the list of runs."
                },
                "tools": {
                    "type": "array", "items": { "type": "string" }, "maxItems": limits::CHILD_RUN_TOOLS_MAX,
                    "description": "The tools that it may call, a subset of yours. Default: all of yours."
                },
                "max_turns": amount("The maximum number of turns."),
                "budget_micros_usd": amount(
                    "Maximum cost, in millionths of a US dollar. Limited to your remaining budget."),
                "budget_tokens": amount("Maximum number of tokens. Limited to your remaining budget.")
            }),
            &["prompt"],
        )
    }

    fn spawns(&self) -> bool {
        true
    }

    fn assess(&self, input: &Value) -> Assessment {
        let title = input.get("title").and_then(Value::as_str);
        let summary = title.unwrap_or_else(|| input::text(input, "prompt"));
        Assessment {
            risk: RiskLevel::Medium,
            reversibility: Reversibility::Reversible,
            summary: cut(summary, SUMMARY_CHARS_MAX),
            action: "Start another agent run.".to_owned(),
            consequence: "Calls a model and tools within this run's budget and permissions.".to_owned(),
            targets: Targets::default(),
            writes: true,
        }
    }

    fn run<'a>(&'a self, _job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            CallFailure::failed("not_started", "the worker of this run starts child runs").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_parsed_if_it_is_valid_for_the_schema() {
        let input = json!({ "prompt": "look", "tools": ["grep"], "max_turns": 3, "budget_tokens": 900 });
        assert_eq!(crate::schema::check(&SpawnRun.schema(), &input), Ok(()));
        let parsed = ChildRunInput::read(&input).unwrap();
        assert_eq!(
            (parsed.prompt.as_str(), parsed.max_turns, parsed.budget_tokens),
            ("look", Some(3), Some(900))
        );
        for wrong in [
            json!({}),
            json!({ "prompt": "" }),
            json!({ "prompt": "look", "budget_tokens": 0 }),
            json!({ "prompt": "look", "depth": 9 }),
        ] {
            assert!(crate::schema::check(&SpawnRun.schema(), &wrong).is_err(), "{wrong}");
        }
        let assessed = SpawnRun.assess(&input);
        assert!(assessed.writes && assessed.summary == "look");
    }
}
