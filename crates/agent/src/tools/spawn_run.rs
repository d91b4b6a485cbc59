//! `spawn_run`: a part of the work goes to a run of its own, whose answer is the output of the call.
//!
//! Look at [`SpawnRun`]. The tool only says what is wanted; the worker starts the run and waits for it (`child_run`).

use futures_util::future::BoxFuture;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::limits::SUMMARY_CHARS_MAX;
use crate::tool::{Assessment, Job, Outcome, Targets, Tool};
use crate::tools::ending::{Stop, cut};
use crate::tools::input;
use crate::tools::limits;

/// The tool's name.
pub const SPAWN_RUN: &str = "spawn_run";

pub(crate) struct SpawnRun;

/// What the run is to do, and within which bounds.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct WantedRun {
    pub(crate) prompt: String,
    pub(crate) title: Option<String>,
    pub(crate) tools: Option<Vec<String>>,
    pub(crate) max_turns: Option<u64>,
    pub(crate) budget_micros_usd: Option<u64>,
    pub(crate) budget_tokens: Option<u64>,
}

impl WantedRun {
    /// Reads an input that fits the schema.
    pub(crate) fn read(input: &Value) -> Result<WantedRun, Stop> {
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
        "Starts another agent run for a part of the work and waits for it: the result is its final answer. It works in \
         the same folder and sees nothing of this conversation, so say in the prompt all that it needs to know. It \
         spends from your budget."
    }

    fn schema(&self) -> Value {
        let amount =
            |description: &str| json!({ "type": "integer", "minimum": 1, "description": description });
        input::schema(
            json!({
                "prompt": {
                    "type": "string", "minLength": 1, "maxLength": limits::CHILD_RUN_PROMPT_BYTES_MAX,
                    "description": "What the run is to do, with all that it needs to know."
                },
                "title": {
                    "type": "string", "minLength": 1, "maxLength": SUMMARY_CHARS_MAX,
                    "description": "A few words for people who look at the list of runs."
                },
                "tools": {
                    "type": "array", "items": { "type": "string" }, "maxItems": limits::CHILD_RUN_TOOLS_MAX,
                    "description": "The tools that it may call, of your own. All of them when missing."
                },
                "max_turns": amount("How many turns it may take."),
                "budget_micros_usd": amount("What it may cost, in millionths of a US dollar. Never more than what is left of your budget."),
                "budget_tokens": amount("How many tokens it may use. Never more than what is left of your budget.")
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
            action: "Start another run of the agent.".to_owned(),
            consequence: "It calls a model and tools within the budget and the rules of this run.".to_owned(),
            targets: Targets::default(),
            writes: true,
        }
    }

    fn run<'a>(&'a self, _job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async { Stop::failed("not_started", "a run is started by the worker of this one").into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_is_read_as_the_schema_has_it() {
        let input = json!({ "prompt": "look", "tools": ["grep"], "max_turns": 3, "budget_tokens": 900 });
        assert_eq!(crate::schema::check(&SpawnRun.schema(), &input), Ok(()));
        let wanted = WantedRun::read(&input).unwrap();
        assert_eq!(
            (wanted.prompt.as_str(), wanted.max_turns, wanted.budget_tokens),
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
