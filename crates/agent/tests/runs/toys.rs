//! Tools that do what no tool should: panic, hang, and count how often they are carried out; and a model that panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::BoxFuture;
use recount_agent::model::{Capability, Model, Reply, Request};
use recount_agent::tool::{Assessment, How, Job, Outcome, Targets, Tool};
use recount_agent::tools::Tools;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde_json::{Value, json};

/// What the toys have in common, which outlives the agent that has them.
#[derive(Clone, Default)]
pub(crate) struct Box {
    /// How often each was carried out.
    pub(crate) panics: Arc<AtomicUsize>,
    pub(crate) hangs: Arc<AtomicUsize>,
}

impl Box {
    pub(crate) fn put_into(&self, tools: &mut Tools) {
        tools.add(Toy { name: "panics", carried_out: self.panics.clone() });
        tools.add(Toy { name: "hangs", carried_out: self.hangs.clone() });
    }
}

struct Toy {
    name: &'static str,
    carried_out: Arc<AtomicUsize>,
}

impl Tool for Toy {
    fn name(&self) -> &'static str {
        self.name
    }

    fn kind(&self) -> &'static str {
        "search"
    }

    fn description(&self) -> &'static str {
        "A toy."
    }

    fn schema(&self) -> Value {
        json!({
            "type": "object",
            "properties": { "times": { "type": "integer" } },
            "additionalProperties": false
        })
    }

    fn assess(&self, _input: &Value) -> Assessment {
        Assessment {
            risk: RiskLevel::Low,
            reversibility: Reversibility::Reversible,
            summary: self.name.to_owned(),
            action: "Play.".to_owned(),
            consequence: "None.".to_owned(),
            targets: Targets::default(),
            writes: false,
        }
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        std::boxed::Box::pin(async move {
            let before = self.carried_out.fetch_add(1, Ordering::SeqCst) as u64;
            let times = job.input.get("times").and_then(Value::as_u64).unwrap_or(u64::MAX);
            match self.name {
                "panics" if before < times => panic!("a toy that panics"),
                "hangs" if before < times => job.cancel.cancelled().await,
                _ => {}
            }
            let (how, output) = (How::Completed, "played".to_owned());
            Outcome { how, summary: output.clone(), output, events: Vec::new(), artifact: None, image: None }
        })
    }
}

/// A provider whose every answer takes its worker down.
pub(crate) struct Broken;

impl Model for Broken {
    fn begin(&self, _request: Arc<Request>) -> std::boxed::Box<dyn Reply> {
        panic!("a model that panics")
    }

    fn can(&self, _model: &str, _capability: Capability) -> bool {
        true
    }
}
