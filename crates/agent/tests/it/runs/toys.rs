//! Test tools: they panic, hang, count their executions, or wait for each other; and a model that panics.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use recount_agent::model::{Capability, Model, Reply, Request};
use recount_agent::tool::{Assessment, Job, Outcome, OutcomeStatus, Targets, Tool};
use recount_agent::tools::Tools;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde_json::{Value, json};

/// The state of the test tools, which outlives the agent.
#[derive(Clone, Default)]
pub(crate) struct Box {
    /// How often each one ran.
    pub(crate) panics: Arc<AtomicUsize>,
    pub(crate) hangs: Arc<AtomicUsize>,
    pub(crate) meeting: Arc<Meeting>,
    /// The input with which `reads_back` calls `read_result`.
    pub(crate) reads_back: Arc<Mutex<Value>>,
}

/// Where concurrent calls wait for each other.
#[derive(Default)]
pub(crate) struct Meeting {
    /// Calls that are inside now, and the maximum so far.
    pub(crate) inside: AtomicUsize,
    pub(crate) most: AtomicUsize,
    /// Calls that changed something while another call was inside.
    pub(crate) disturbed: AtomicUsize,
    /// The number of calls that have entered so far.
    came: tokio::sync::watch::Sender<usize>,
}

impl Meeting {
    fn come(&self) -> usize {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        self.came.send_modify(|came| *came += 1);
        inside
    }

    fn go(&self) {
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns when this number of calls has entered.
    pub(crate) async fn came(&self, count: usize) {
        let mut came = self.came.subscribe();
        came.wait_for(|came| *came >= count).await.unwrap();
    }
}

impl Box {
    pub(crate) fn put_into(&self, tools: &mut Tools) {
        tools.add(Toy { name: "panics", carried_out: self.panics.clone() });
        tools.add(Toy { name: "hangs", carried_out: self.hangs.clone() });
        tools.add(Meets { name: "meets", meeting: self.meeting.clone() });
        tools.add(crate::runs::patches::Proposes);
        let tool = tools.get("read_result").unwrap().clone();
        tools.add(ReadsBack { tool, input: self.reads_back.clone() });
        tools.add(Meets { name: "alone", meeting: self.meeting.clone() });
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
            let (status, output) = (OutcomeStatus::Completed, "played".to_owned());
            Outcome {
                status,
                summary: output.clone(),
                output,
                events: Vec::new(),
                artifact: None,
                image: None,
            }
        })
    }
}

/// Calls `read_result` with an input that a script cannot know, because call ids are random.
struct ReadsBack {
    tool: Arc<dyn Tool>,
    input: Arc<Mutex<Value>>,
}

impl Tool for ReadsBack {
    fn name(&self) -> &'static str {
        "reads_back"
    }

    fn kind(&self) -> &'static str {
        "run"
    }

    fn description(&self) -> &'static str {
        "Reads a result again."
    }

    fn schema(&self) -> Value {
        json!({ "type": "object", "additionalProperties": false })
    }

    fn assess(&self, input: &Value) -> Assessment {
        self.tool.assess(input)
    }

    fn run<'a>(&'a self, job: Job<'a>) -> BoxFuture<'a, Outcome> {
        std::boxed::Box::pin(async move {
            // A job borrows its input for as long as everything else.
            let input: &'static Value =
                std::boxed::Box::leak(std::boxed::Box::new(self.input.lock().unwrap().clone()));
            assert_eq!(recount_agent::schema::check(&self.tool.schema(), input), Ok(()));
            self.tool.run(Job { input, ..job }).await
        })
    }
}

/// `meets` is read-only: it waits until a number of calls have entered, and returns its text. `alone` changes
/// something.
struct Meets {
    name: &'static str,
    meeting: Arc<Meeting>,
}

impl Tool for Meets {
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
            "properties": { "wait_for": { "type": "integer" }, "say": { "type": "string" } },
            "additionalProperties": false
        })
    }

    fn reads_only(&self) -> bool {
        self.name == "meets"
    }

    fn assess(&self, _input: &Value) -> Assessment {
        Assessment {
            risk: RiskLevel::Low,
            reversibility: Reversibility::Reversible,
            summary: self.name.to_owned(),
            action: "Meet.".to_owned(),
            consequence: "None.".to_owned(),
            targets: Targets::default(),
            writes: self.name == "alone",
        }
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        std::boxed::Box::pin(async move {
            let inside = self.meeting.come();
            if self.name == "alone" && inside > 1 {
                self.meeting.disturbed.fetch_add(1, Ordering::SeqCst);
            }
            let wanted = job.input.get("wait_for").and_then(Value::as_u64).unwrap_or(0) as usize;
            let status = tokio::select! {
                () = self.meeting.came(wanted) => OutcomeStatus::Completed,
                () = job.cancel.cancelled() => OutcomeStatus::Cancelled,
            };
            // Gives a concurrent call the time to enter.
            tokio::task::yield_now().await;
            self.meeting.go();
            let output = job.input.get("say").and_then(Value::as_str).unwrap_or("met").to_owned();
            Outcome {
                status,
                summary: output.clone(),
                output,
                events: Vec::new(),
                artifact: None,
                image: None,
            }
        })
    }
}

/// A provider whose every response makes its worker panic.
pub(crate) struct Broken;

impl Model for Broken {
    fn begin(&self, _request: Arc<Request>) -> std::boxed::Box<dyn Reply> {
        panic!("a model that panics")
    }

    fn can(&self, _model: &str, _capability: Capability) -> bool {
        true
    }
}
