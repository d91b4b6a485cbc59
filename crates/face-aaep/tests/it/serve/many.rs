//! Forty runs and six subscriptions to each, three of them with 1, 2 and 5 events per second: whatever happens in a run,
//! each listener receives a valid session with every decision. Checked by `verify`, which does not use the validator of
//! the product.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recount_event::{ForeignId, Json, PromptKind};
use recount_run::Command;
use recount_world::World;
use serde_json::{Value, json};

use crate::serve::stage::{Listener, Run, Stage, request};
use crate::serve::verify::{Agreed, Arrival, Facts, findings};

const START_MS: u64 = 1_777_803_825_000;

/// Runs; `--full` plays ten times as many.
const RUNS: u64 = 40;

/// Runs that found faults: a listener came back while text of blanks only was not sent yet.
const FOUND: [u64; 2] = [221, 354];

/// What a listener subscribes with, and whether it loses its connection now and then.
const LISTENERS: [(&str, bool); 6] = [
    (r#"{"max_events_per_second":1}"#, false),
    (r#"{"max_events_per_second":2}"#, false),
    (r#"{"max_events_per_second":5}"#, false),
    (r#"{"cognitive_load":"low","preferred_verbosity":"terse"}"#, false),
    (r#"{}"#, true),
    (r#"{"supports_confirmation_reply":false,"supports_clarification_reply":false}"#, false),
];

const WORDS: [&str; 8] = ["It ", "rains. ", "Take ", "a coat, ", "please. ", "\n\n", "Ünï ", "👩\u{200D}💻 "];

/// Numbers that repeat for a seed.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, count: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % count
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One subscription to one run: what it has received, and its present id.
#[derive(Default)]
struct Ear {
    received: Mutex<Vec<Arrival>>,
    subscription: Mutex<String>,
}

impl Ear {
    /// The newest token for a prompt with this text, once it has arrived.
    async fn token(&self, text: &str) -> String {
        loop {
            let found = lock(&self.received).iter().rev().find_map(|arrival| {
                let prompt = [&arrival.event["action"], &arrival.event["question"]];
                let is_it = prompt.iter().any(|field| field.as_str() == Some(text));
                is_it.then(|| arrival.event["reply_token"].as_str().unwrap_or_default().to_owned())
            });
            match found.filter(|token| !token.is_empty()) {
                Some(token) => return token,
                None => wait(5).await,
            }
        }
    }
}

async fn wait(millis: u64) {
    tokio::time::sleep(Duration::from_millis(millis)).await;
}

/// Listens to a run until it ends. With `breaks`, the connection is lost after some events, and the listener goes on with
/// a new subscription after the last event that it received.
async fn listen(stage: Arc<Stage>, ear: Arc<Ear>, run: String, wish: Value, breaks: bool) {
    let operator = stage.operator();
    let began = recount_world::moment();
    let wish = request(wish, json!({ "run_id": run, "from": "start" }));
    let mut last: Option<String> = None;
    let (mut numbers, mut known) = (Numbers(1), BTreeSet::new());
    loop {
        let location = stage.subscribe(&operator, &wish).await;
        location.split_once("subscription_id=").unwrap().1.clone_into(&mut lock(&ear.subscription));
        let mut listener: Listener = stage.listen(&operator, &location, last.as_deref()).await;
        let mut events_left = if breaks { 1 + numbers.below(9) } else { u64::MAX };
        while events_left > 0 {
            let Some(next) = listener.next().await else { return };
            last = next.id.clone().or(last);
            // After a loss an event may come again.
            if !known.insert(next.event.envelope.event_id.clone()) {
                assert!(breaks, "{next:?}");
                continue;
            }
            events_left -= 1;
            let event: Value = serde_json::from_str(&next.event.to_json()).unwrap();
            let at_ms = u64::try_from(began.elapsed().as_millis()).unwrap();
            let is_last = next.event.kind().is_some_and(recount_aaep::Kind::is_terminal);
            lock(&ear.received).push(Arrival { at_ms, event });
            if is_last {
                assert!(breaks || listener.next().await.is_none(), "the stream ends with the session");
                return;
            }
        }
        wait(200).await;
    }
}

/// A run with what happens in it.
struct Play {
    stage: Arc<Stage>,
    run: Run,
    ears: Vec<Arc<Ear>>,
    numbers: Numbers,
    began: tokio::time::Instant,
    facts: Facts,
    names: u32,
}

impl Play {
    async fn pause(&mut self, least: u64, below: u64) {
        let more = self.numbers.below(below);
        wait(least + more).await;
    }

    fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    fn decided(&mut self, word: &str) {
        let at_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        self.facts.decisions.push((at_ms, word.to_owned()));
    }

    async fn write(&mut self) {
        for _ in 0..=self.numbers.below(12) {
            let word = WORDS[usize::try_from(self.numbers.below(8)).unwrap()];
            self.run.write(word).await;
            self.facts.text.push_str(word);
            self.pause(0, 150).await;
        }
    }

    async fn call(&mut self, id: &str, stakes: &Value) {
        self.facts.calls += 1;
        let mut call =
            json!({ "tool_call_id": id, "tool_name": "work", "kind": "custom", "args_summary": "it" });
        call.as_object_mut().unwrap().extend(stakes.as_object().unwrap().clone());
        self.run.report(&[("tool.invoked", call)]).await;
        self.pause(0, 400).await;
        self.run.report(&[("tool.completed", json!({ "tool_call_id": id, "tool_name": "work" }))]).await;
    }

    /// Asks for a permission and returns the ids of the approval and its call.
    async fn ask(&mut self, stakes: &Value) -> (String, String) {
        let (approval, call) = (self.name("gate"), self.name("call"));
        let mut data = json!({
            "approval_id": approval, "tool_call_id": call, "kind": "work", "summary": "work",
            "action": format!("Open {approval}."), "consequence": "It is open.", "timeout_seconds": 30,
        });
        data.as_object_mut().unwrap().extend(stakes.as_object().unwrap().clone());
        self.run.report(&[("approval.requested", data)]).await;
        (approval, call)
    }

    /// A client of another face decides, or a listener, or the timeout if no other prompt is open.
    async fn decide(&mut self, approval: &str, is_alone: bool) -> bool {
        let how = self.numbers.below(if is_alone { 8 } else { 7 });
        let approve = how.is_multiple_of(2);
        match how {
            0..5 => {
                let command = Command::ResolveApproval {
                    approval_id: ForeignId::parse(approval).unwrap(),
                    approve,
                    by: "console".into(),
                    comment: None,
                    remember: None,
                };
                self.decided("console");
                self.stage.engine.write().submit(self.run.id, command).await.unwrap();
                approve
            }
            5..7 => {
                let at = usize::try_from(self.numbers.below(5)).unwrap();
                let ear = self.ears[at].clone();
                let token = ear.token(&format!("Open {approval}.")).await;
                let reply = json!({
                    "type": "confirmation.reply", "reply_token": token, "subscription_id": *lock(&ear.subscription),
                    "decision": if approve { "accept" } else { "reject" },
                    "timestamp": recount_event::time::format_ms(self.stage.world.clock.now_ms()),
                });
                let before = self.facts.decisions.len();
                self.decided("operator");
                self.stage.post(&self.stage.operator(), "/aaep/v1/replies", &reply).await;
                wait(5).await;
                let id = ForeignId::parse(approval).unwrap();
                let row = self.stage.engine.read().prompt(PromptKind::Approval, &id).await.unwrap().unwrap();
                if row.is_pending() {
                    // The subscription ended in this moment, and its token with it.
                    self.facts.decisions.truncate(before);
                    return Box::pin(self.decide(approval, is_alone)).await;
                }
                approve
            }
            _ => {
                wait(30_000).await;
                self.decided("time");
                false
            }
        }
    }

    async fn question(&mut self) {
        let question = self.name("q");
        self.run.ask_question(&question).await;
        self.pause(50, 800).await;
        self.decided("caller");
        let command = Command::AnswerClarification {
            clarification_id: ForeignId::parse(&question).unwrap(),
            response: Json::of(&"a").unwrap(),
            blocks: None,
            by: "caller".into(),
            config: None,
        };
        self.stage.engine.write().submit(self.run.id, command).await.unwrap();
    }

    async fn handoff(&mut self) {
        let id = self.name("h");
        let data = json!({ "handoff_id": id, "reason": "I am stuck", "target_kind": "human" });
        self.run.report(&[("handoff.requested", data)]).await;
        self.facts.handoffs += 1;
        self.pause(50, 500).await;
        let handoff_id = ForeignId::parse(&id).unwrap();
        let command = Command::AcknowledgeHandoff { handoff_id, by: "dana".into(), comment: None };
        self.stage.engine.write().submit(self.run.id, command).await.unwrap();
        self.pause(50, 500).await;
    }

    async fn step(&mut self) {
        let stakes = [
            json!({}),
            json!({ "risk_level": "low" }),
            json!({ "irreversible": true, "risk_level": "high" }),
        ];
        let stakes = &stakes[usize::try_from(self.numbers.below(3)).unwrap()];
        match self.numbers.below(9) {
            0..2 => self.write().await,
            2 => {
                let call = self.name("call");
                self.call(&call, stakes).await;
            }
            3..6 => {
                let (approval, call) = self.ask(stakes).await;
                self.pause(50, 900).await;
                if self.decide(&approval, true).await {
                    self.call(&call, stakes).await;
                }
            }
            6 => {
                // Two prompts are open at once.
                let (one, other) = (self.ask(stakes).await, self.ask(stakes).await);
                for (approval, call) in [other, one] {
                    self.pause(50, 300).await;
                    if self.decide(&approval, false).await {
                        self.call(&call, stakes).await;
                    }
                }
            }
            7 => self.question().await,
            _ => self.handoff().await,
        }
        self.pause(0, 300).await;
    }

    async fn end(&mut self) {
        self.facts.ending = match self.numbers.below(3) {
            0 => {
                let data =
                    json!({ "code": "tool_failed", "message": "The tool failed.", "retriable": false });
                self.run.fail(data).await;
                "session.errored"
            }
            _ => {
                self.run.finish().await;
                "session.completed"
            }
        };
    }
}

#[allow(clippy::disallowed_methods, reason = "the listeners are no part of the server")]
async fn play(seed: u64) -> Vec<String> {
    let stage = Arc::new(Stage::seeded(World::seeded(seed, START_MS)).await);
    let run = stage.run().await;
    let id = run.id.to_string();
    let ears: Vec<Arc<Ear>> = LISTENERS.iter().map(|_| Arc::new(Ear::default())).collect();
    let listeners: Vec<_> = LISTENERS
        .iter()
        .zip(&ears)
        .map(|((wish, breaks), ear)| {
            let mut capabilities = json!({
                "supports_confirmation_reply": true, "supports_clarification_reply": true,
                "supported_conformance_levels": [1, 2, 3],
            });
            let wish: Value = serde_json::from_str(wish).unwrap();
            capabilities.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
            tokio::spawn(listen(stage.clone(), ear.clone(), id.clone(), capabilities, *breaks))
        })
        .collect();
    let began = recount_world::moment();
    let numbers = Numbers(seed);
    let mut play = Play { stage, run, ears: ears.clone(), numbers, began, facts: Facts::default(), names: 0 };
    wait(10).await;
    for _ in 0..6 + play.numbers.below(8) {
        play.step().await;
    }
    play.end().await;
    for listener in listeners {
        listener.await.unwrap();
    }
    let mut found = Vec::new();
    for ((wish, breaks), ear) in LISTENERS.iter().zip(&ears) {
        let terms: Value = serde_json::from_str(wish).unwrap();
        let agreed = Agreed {
            rate: terms["max_events_per_second"].as_u64().and_then(|rate| u32::try_from(rate).ok()),
            replies: terms["supports_confirmation_reply"] != false,
            reconnects: *breaks,
        };
        let of_one = findings(&lock(&ear.received), &play.facts, agreed);
        found.extend(of_one.into_iter().map(|finding| format!("run {seed}, {wish}: {finding}")));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn every_listener_of_every_run_receives_a_valid_session_with_each_decision() {
    let mut found = Vec::new();
    for seed in FOUND.into_iter().chain(1..=recount_tier::times(RUNS)) {
        found.extend(play(seed).await);
    }
    assert!(
        found.is_empty(),
        "{} findings, the first:\n{}",
        found.len(),
        found[..found.len().min(12)].join("\n")
    );
}
