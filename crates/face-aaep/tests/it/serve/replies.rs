//! Tests of replies, extensions and control messages of listeners: which have an effect, and that the sender cannot see
//! it.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use recount_aaep::Body;
use recount_aaep::wire::{AwaitingConfirmation, ReplyToken, StateChanged};
use recount_engine::{ApprovalRow, Narrowing, PromptRow, RequestContext, Scope};
use recount_event::{ForeignId, PromptKind, RunId};
use recount_face_aaep::{AttemptLog, Outcome, ReplyAttempt};
use recount_run::{CancelledBy, Command};
use recount_world::World;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::serve::stage::{Listener, ReceivedEvent, Run, Stage, request};

const START_MS: u64 = 1_777_803_825_000;

/// A log that a test reads.
#[derive(Default)]
struct Attempts {
    seen: Mutex<Vec<ReplyAttempt>>,
    counted: Mutex<Vec<Outcome>>,
    changed: Notify,
}

impl AttemptLog for Attempts {
    fn record<'a>(&'a self, attempt: ReplyAttempt) -> Pin<Box<dyn Future<Output = ()> + Send + 'a>> {
        self.seen.lock().unwrap().push(attempt);
        self.changed.notify_waiters();
        Box::pin(async {})
    }

    fn count(&self, outcome: Outcome) {
        self.counted.lock().unwrap().push(outcome);
        self.changed.notify_waiters();
    }
}

struct Scene {
    stage: Stage,
    log: Arc<Attempts>,
}

impl Scene {
    async fn new() -> Scene {
        let log = Arc::new(Attempts::default());
        Scene { stage: Stage::logging(World::seeded(7, START_MS), log.clone()).await, log }
    }

    /// All outcomes, as soon as there are so many.
    async fn outcomes(&self, count: usize) -> Vec<Outcome> {
        loop {
            let changed = self.log.changed.notified();
            let seen: Vec<Outcome> = self.log.seen.lock().unwrap().iter().map(|seen| seen.outcome).collect();
            if seen.len() >= count {
                return seen;
            }
            tokio::time::timeout(Duration::from_secs(30), changed).await.expect("an attempt is recorded");
        }
    }

    /// A subscription to a run that replies, and its stream.
    async fn follow(&self, visitor: &RequestContext, run: RunId) -> Follower {
        Follower::of(&self.stage, visitor, run).await
    }

    async fn approval(&self) -> ApprovalRow {
        match self.stage.engine.read().prompt(PromptKind::Approval, &id("a1")).await.unwrap() {
            Some(PromptRow::Approval(row)) => *row,
            other => panic!("{other:?} is not an approval"),
        }
    }

    async fn send(&self, visitor: &RequestContext, message: &Value) {
        send(&self.stage, visitor, message).await;
    }
}

/// Sends a message; whatever it causes, the response is the same.
async fn send(stage: &Stage, visitor: &RequestContext, message: &Value) {
    let (status, body) = stage.post(visitor, "/aaep/v1/replies", message).await.json().await;
    assert_eq!((status, body), (204, json!("")), "{message}");
}

struct Follower {
    id: String,
    visitor: RequestContext,
    listener: Listener,
}

impl Follower {
    async fn of(stage: &Stage, visitor: &RequestContext, run: RunId) -> Follower {
        let able = json!({ "supports_confirmation_reply": true, "supports_clarification_reply": true });
        Follower::with(stage, visitor, run, able).await
    }

    async fn with(stage: &Stage, visitor: &RequestContext, run: RunId, capabilities: Value) -> Follower {
        let location = stage.subscribe(visitor, &request(capabilities, json!({ "run_id": run }))).await;
        let listener = stage.listen(visitor, &location, None).await;
        let (_, id) = location.split_once("subscription_id=").unwrap();
        Follower { id: id.to_owned(), visitor: visitor.clone(), listener }
    }

    /// A subscription with these options that resumes after an event which another one received.
    async fn resuming(stage: &Stage, visitor: &RequestContext, own: Value, after: Option<&str>) -> Follower {
        let able = json!({ "supports_confirmation_reply": true, "supports_clarification_reply": true });
        let location = stage.subscribe(visitor, &request(able, own)).await;
        let listener = stage.listen(visitor, &location, after).await;
        let (_, id) = location.split_once("subscription_id=").unwrap();
        Follower { id: id.to_owned(), visitor: visitor.clone(), listener }
    }

    /// Listens up to the next confirmation.
    async fn prompt(&mut self) -> AwaitingConfirmation {
        confirmation(&self.prompt_event().await)
    }

    async fn prompt_event(&mut self) -> ReceivedEvent {
        self.listener.until(|body| matches!(body, Body::AwaitingConfirmation(_))).await.pop().unwrap()
    }

    /// Reads until the run no longer waits for an answer, and returns the sentence with the reason.
    async fn withdrawal(&mut self) -> String {
        let left = |body: &Body| matches!(body, Body::StateChanged(StateChanged { from_state, to_state, .. }) if from_state == "awaiting_input" && to_state != "awaiting_input");
        let received = self.listener.until(left).await;
        received.last().and_then(|received| received.event.summaries.normal.clone()).unwrap_or_default()
    }

    fn reply(&self, token: &str, decision: &str) -> Value {
        json!({
            "type": "confirmation.reply", "reply_token": token, "decision": decision,
            "subscription_id": self.id, "timestamp": recount_event::time::format_ms(START_MS),
        })
    }

    fn answer(&self, token: &str, response: Value) -> Value {
        json!({
            "type": "clarification.reply", "reply_token": token, "response": response,
            "subscription_id": self.id, "timestamp": recount_event::time::format_ms(START_MS),
        })
    }

    fn extend(&self, token: &str, seconds: u64) -> Value {
        json!({ "type": "recount.extend", "subscription_id": self.id, "reply_token": token, "seconds": seconds })
    }

    fn control(&self, run: RunId) -> Value {
        let session = run.to_string().replace("run_", "sess_");
        json!({ "type": "recount.control", "subscription_id": self.id, "session_id": session, "action": "cancel" })
    }
}

fn confirmation(received: &ReceivedEvent) -> AwaitingConfirmation {
    match &received.event.body {
        Body::AwaitingConfirmation(ask) => ask.clone(),
        other => panic!("{other:?}"),
    }
}

/// When the default of a prompt applies.
fn deadline_ms(received: &ReceivedEvent) -> i64 {
    let seconds = i64::from(confirmation(received).timeout_seconds);
    received.event.envelope.timestamp.millis() + seconds * 1_000
}

/// A run with an open approval request, and an operator's subscription that was shown it.
struct ApprovalScene {
    scene: Scene,
    run: Run,
    operator: RequestContext,
    follower: Follower,
    ask: AwaitingConfirmation,
    token: ReplyToken,
}

impl ApprovalScene {
    /// `seconds` until the request times out.
    async fn new(seconds: u64) -> ApprovalScene {
        let scene = Scene::new().await;
        let mut run = scene.stage.run().await;
        let operator = scene.stage.operator();
        let mut follower = scene.follow(&operator, run.id).await;
        asks(&mut run, seconds).await;
        let ask = follower.prompt().await;
        ApprovalScene { scene, run, operator, follower, token: ask.reply_token.clone(), ask }
    }
}

/// The answer of another face.
fn rejection_from_the_console() -> Command {
    Command::ResolveApproval {
        approval_id: id("a1"),
        approve: false,
        by: "console".into(),
        comment: None,
        remember: None,
    }
}

fn id(text: &str) -> ForeignId {
    ForeignId::parse(text).unwrap()
}

async fn asks(run: &mut Run, seconds: u64) {
    let request_data = json!({
        "approval_id": "a1", "tool_call_id": "c1", "kind": "shell_exec", "summary": "rm -rf build",
        "action": "Delete the folder build.", "consequence": "It has to be built again.", "timeout_seconds": seconds,
    });
    run.report(&[("approval.requested", request_data)]).await;
}

#[tokio::test(start_paused = true)]
async fn a_reply_decides_and_the_log_names_its_sender() {
    let scene = Scene::new().await;
    let mut run = scene.stage.run().await;
    let (ann, _valid) = scene.stage.visitor("tok_ann", &[Scope::Read, Scope::Approve], Narrowing::default());
    let mut follower = scene.follow(&ann, run.id).await;
    asks(&mut run, 60).await;
    let token = follower.prompt().await.reply_token;
    let mut reply = follower.reply(token.as_str(), "accept");
    reply["decided_by"] = json!("Ann Example");
    reply["decision_rationale"] = json!("go ahead");
    scene.send(&ann, &reply).await;
    assert_eq!(scene.outcomes(1).await, [Outcome::Accepted]);
    let sentence = follower.withdrawal().await;
    assert!(sentence.contains("tok_ann") && sentence.contains("go ahead"), "{sentence}");
    let row = scene.approval().await;
    assert_eq!((row.status.as_str(), row.decided_by.as_deref()), ("approved", Some("tok_ann")));

    let attempts = format!("{:?}", scene.log.seen.lock().unwrap());
    for fact in ["Ann Example", "confirmation.reply", "tok_ann", "a1", &run.id.to_string(), &follower.id] {
        assert!(attempts.contains(fact), "{fact} is missing: {attempts}");
    }
    assert!(!attempts.contains("rpl_"), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn replies_without_effect_get_the_same_response() {
    let scene = Scene::new().await;
    let mut run = scene.stage.run().await;
    let operator = scene.stage.operator();
    let mut follower = scene.follow(&operator, run.id).await;
    let mut other = scene.follow(&operator, run.id).await;
    asks(&mut run, 60).await;
    let (token, foreign) = (follower.prompt().await.reply_token, other.prompt().await.reply_token);
    assert_ne!(token, foreign, "each subscription has a token of its own");
    let mut off = follower.reply(token.as_str(), "accept");
    off["timestamp"] = json!("2001-01-01T00:00:00.000Z");
    for (message, outcome) in [
        (follower.reply(foreign.as_str(), "accept"), Outcome::TokenUnknown),
        (follower.reply("rpl_00000000000000000000000000000000", "accept"), Outcome::TokenUnknown),
        (follower.answer(token.as_str(), json!("yes")), Outcome::Invalid),
        (follower.reply(token.as_str(), "yes"), Outcome::Invalid),
        (off, Outcome::ClockOff),
        (follower.extend(foreign.as_str(), 60), Outcome::TokenUnknown),
        (follower.extend(token.as_str(), 0), Outcome::Refused),
        (follower.extend(token.as_str(), 1_000_000), Outcome::Refused),
    ] {
        let before = scene.log.seen.lock().unwrap().len();
        scene.send(&operator, &message).await;
        assert_eq!(scene.outcomes(before + 1).await.last(), Some(&outcome), "{message}");
    }
    // So are those for subscriptions of others and for those that are not there, and the trail has them.
    let (eve, _valid) = scene.stage.visitor("tok_eve", &[Scope::Read, Scope::Approve], Narrowing::default());
    let before = scene.log.seen.lock().unwrap().len();
    scene.send(&eve, &follower.reply(token.as_str(), "accept")).await;
    let mut nowhere = follower.reply(token.as_str(), "accept");
    nowhere["subscription_id"] = json!("sub_nowhere");
    scene.send(&operator, &nowhere).await;
    assert_eq!(scene.outcomes(before + 2).await[before..], [Outcome::SubscriptionForeign; 2]);
    let senders: Vec<String> =
        scene.log.seen.lock().unwrap()[before..].iter().map(|it| it.by.clone()).collect();
    assert_eq!(BTreeSet::from_iter(senders), BTreeSet::from(["tok_eve".to_owned(), "operator".to_owned()]));
    let before = before + 2;
    for unfit in [json!({}), json!({ "type": "confirmation.reply" }), json!({ "type": "recount.extend" })] {
        let (status, _) = scene.stage.post(&operator, "/aaep/v1/replies", &unfit).await.json().await;
        assert_eq!(status, 400, "{unfit}");
    }
    assert_eq!(scene.approval().await.status, "pending");
    // All of them were looked at before this one.
    scene.send(&operator, &follower.reply(token.as_str(), "reject")).await;
    assert_eq!(scene.outcomes(before + 1).await[before..], [Outcome::Accepted]);
    assert_eq!(scene.approval().await.status, "rejected");
}

#[tokio::test(start_paused = true)]
async fn the_first_answer_of_any_face_wins_and_all_listeners_receive_it() {
    for round in 0..8 {
        let scene = Scene::new().await;
        let mut run = scene.stage.run().await;
        let operator = scene.stage.operator();
        let mut first = scene.follow(&operator, run.id).await;
        let mut second = scene.follow(&operator, run.id).await;
        asks(&mut run, 60).await;
        let tokens = (first.prompt().await.reply_token, second.prompt().await.reply_token);
        let native = async {
            for _ in 0..round {
                tokio::task::yield_now().await;
            }
            scene.stage.engine.write().submit(run.id, rejection_from_the_console()).await
        };
        let (one, two) =
            (first.reply(tokens.0.as_str(), "accept"), second.reply(tokens.1.as_str(), "accept"));
        let (native, (), ()) = tokio::join!(native, scene.send(&operator, &one), scene.send(&operator, &two));
        let outcomes = scene.outcomes(2).await;
        let accepted = outcomes.iter().filter(|outcome| **outcome == Outcome::Accepted).count();
        assert_eq!(accepted + usize::from(native.is_ok()), 1, "{outcomes:?} and {native:?}");
        assert!(
            outcomes.iter().all(|it| matches!(it, Outcome::Accepted | Outcome::NotPending)),
            "{outcomes:?}"
        );
        let row = scene.approval().await;
        let wanted = if native.is_ok() { ("rejected", "console") } else { ("approved", "operator") };
        assert_eq!((row.status.as_str(), row.decided_by.as_deref()), (wanted.0, Some(wanted.1)));
        let received = first.withdrawal().await;
        assert_eq!(received, second.withdrawal().await);
        assert!(received.contains(wanted.1), "{received}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_of_a_hundred_replies_has_an_effect() {
    let scene = Scene::new().await;
    let mut run = scene.stage.run().await;
    let operator = scene.stage.operator();
    let mut followers = [scene.follow(&operator, run.id).await, scene.follow(&operator, run.id).await];
    asks(&mut run, 60).await;
    let mut replies = Vec::new();
    for follower in &mut followers {
        let token = follower.prompt().await.reply_token;
        replies.push(follower.reply(token.as_str(), "accept"));
    }
    for number in 0..100 {
        scene.send(&operator, &replies[number % 2]).await;
    }
    let handled = || {
        let seen = scene.log.seen.lock().unwrap().iter().map(|seen| seen.outcome).collect::<Vec<_>>();
        let counted = scene.log.counted.lock().unwrap().clone();
        [seen, counted].concat()
    };
    while handled().len() < 100 {
        tokio::time::timeout(Duration::from_secs(30), scene.log.changed.notified()).await.ok();
    }
    let handled = handled();
    assert_eq!(handled.iter().filter(|outcome| **outcome == Outcome::Accepted).count(), 1);
    let events = scene.stage.engine.read().read_run(run.id, None, 100).await.unwrap();
    let text = format!("{events:?}");
    assert_eq!(text.matches("approval.resolved").count(), 1, "{text}");
    // Of many without effect only the first are recorded one by one.
    assert!(scene.log.seen.lock().unwrap().len() <= 2 * 16 + 1);
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_valid_once_and_not_after_the_prompt_closed() {
    let ApprovalScene { scene, operator, follower, token, .. } = ApprovalScene::new(60).await;
    let reply = follower.reply(token.as_str(), "accept");
    scene.send(&operator, &reply).await;
    scene.send(&operator, &reply).await;
    assert_eq!(scene.outcomes(2).await, [Outcome::Accepted, Outcome::NotPending]);

    // Withdrawn: the run was cancelled while the prompt was open.
    let mut run = scene.stage.run().await;
    let mut follower = scene.follow(&operator, run.id).await;
    let request_data = json!({ "approval_id": "a2", "tool_call_id": "c1", "kind": "tool", "summary": "s", "timeout_seconds": 60 });
    run.report(&[("approval.requested", request_data)]).await;
    let token = follower.prompt().await.reply_token;
    let cancel = Command::Cancel { by: CancelledBy::Operator, reason: "enough".into() };
    scene.stage.engine.write().submit(run.id, cancel).await.unwrap();
    scene.send(&operator, &follower.reply(token.as_str(), "accept")).await;
    assert_eq!(scene.outcomes(3).await[2], Outcome::NotPending);
    let row = scene.stage.engine.read().prompt(PromptKind::Approval, &id("a2")).await.unwrap().unwrap();
    assert_eq!(row.status(), "cancelled");
}

#[tokio::test(start_paused = true)]
async fn the_servers_clock_decides_what_is_late() {
    let ApprovalScene { scene, operator, follower, token, .. } = ApprovalScene::new(60).await;
    tokio::time::sleep(Duration::from_secs(61)).await;
    // The reply names a time before the deadline, which does not help.
    scene.send(&operator, &follower.reply(token.as_str(), "accept")).await;
    let outcome = scene.outcomes(1).await[0];
    assert!(matches!(outcome, Outcome::Late | Outcome::NotPending), "{outcome:?}");
    assert_ne!(scene.approval().await.status, "approved");
}

#[tokio::test(start_paused = true)]
async fn an_extension_repeats_the_prompt_with_another_token() {
    let ApprovalScene { scene, operator, mut follower, ask: first, .. } = ApprovalScene::new(60).await;
    tokio::time::sleep(Duration::from_secs(50)).await;
    scene.send(&operator, &follower.extend(first.reply_token.as_str(), 600)).await;
    let sentence = follower.withdrawal().await;
    assert_eq!(sentence, "operator extended the time to answer by 10 minutes.");
    let second = follower.prompt().await;
    assert_eq!((second.action, second.timeout_seconds), (first.action, 610));
    assert_ne!(second.reply_token, first.reply_token);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(scene.approval().await.status, "pending");
    scene.send(&operator, &follower.reply(first.reply_token.as_str(), "accept")).await;
    scene.send(&operator, &follower.reply(second.reply_token.as_str(), "reject")).await;
    let wanted = [Outcome::Accepted, Outcome::TokenUnknown, Outcome::Accepted];
    assert_eq!(scene.outcomes(3).await, wanted);
    assert_eq!(scene.approval().await.status, "rejected");
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_a_prompt_is_answered_on_a_new_subscription() {
    let ApprovalScene { scene, run, operator, follower, token: before, .. } = ApprovalScene::new(60).await;

    let stage = scene.stage.restarted();
    send(&stage, &operator, &follower.reply(before.as_str(), "accept")).await;
    let mut again = Follower::of(&stage, &operator, run.id).await;
    let token = again.prompt().await.reply_token;
    assert_ne!(token, before);
    assert_eq!(stage.state.figures().subscriptions, 1, "the former subscription is removed");
    send(&stage, &operator, &again.reply(before.as_str(), "accept")).await;
    assert_eq!(scene.approval().await.status, "pending");
    send(&stage, &operator, &again.reply(token.as_str(), "reject")).await;
    again.withdrawal().await;
    assert_eq!(scene.approval().await.status, "rejected");
}

/// The server was restarted, the subscription expired, or another device goes on: the listener knows the last event, and
/// the subscription is new. Twice, because a listener skips events whose ids it knows.
#[tokio::test(start_paused = true)]
async fn an_open_prompt_is_emitted_again_on_a_new_subscription_that_resumes() {
    for (of_one, from, restarts) in [
        (true, "now", true),
        (true, "now", false),
        (true, "start", true),
        (false, "now", true),
        (false, "now", false),
    ] {
        let case = format!("one run: {of_one}, from {from}, restarts: {restarts}");
        let scene = Scene::new().await;
        let mut run = scene.stage.run().await;
        let operator = scene.stage.operator();
        let own = if of_one { json!({ "run_id": run.id, "from": from }) } else { json!({}) };
        let mut follower = Follower::resuming(&scene.stage, &operator, own.clone(), None).await;
        asks(&mut run, 600).await;
        let first = follower.prompt_event().await;
        let mut ids = BTreeSet::from([first.event.envelope.event_id.clone()]);
        let mut token = confirmation(&first).reply_token;
        let restarted = [scene.stage.restarted(), scene.stage.restarted()];
        for other in &restarted {
            let stage = if restarts { other } else { &scene.stage };
            drop(follower);
            tokio::time::sleep(Duration::from_secs(90)).await;
            follower = Follower::resuming(stage, &operator, own.clone(), first.id.as_deref()).await;
            let again = follower.prompt_event().await;
            assert!(ids.insert(again.event.envelope.event_id.clone()), "{case}: {again:?}");
            assert_eq!(again.id, None, "{case}: nothing is resumed after it");
            let moved_ms = deadline_ms(&again) - deadline_ms(&first);
            assert!((-1_000..=0).contains(&moved_ms), "{case}: the deadline moved by {moved_ms} ms");
            assert_ne!(confirmation(&again).reply_token, token, "{case}");
            token = confirmation(&again).reply_token;
        }
        let stage = if restarts { &restarted[1] } else { &scene.stage };
        send(stage, &operator, &follower.reply(token.as_str(), "accept")).await;
        let sentence = follower.withdrawal().await;
        assert!(sentence.contains("operator"), "{case}: {sentence}");
        assert_eq!(scene.approval().await.status, "approved", "{case}");
    }
}

/// A subscription to all runs joins a limited number of them, but every run that waits.
#[tokio::test(start_paused = true)]
async fn a_waiting_run_is_joined_however_many_newer_ones_are_active() {
    let scene = Scene::new().await;
    let mut waiting = scene.stage.run().await;
    asks(&mut waiting, 600).await;
    for _ in 0..=recount_face_aaep::limits::RUNS_JOINED_MAX {
        scene.stage.run().await;
    }
    let operator = scene.stage.operator();
    let restarted = scene.stage.restarted();
    for (stage, after) in [(&scene.stage, None), (&scene.stage, Some("evt_0")), (&restarted, Some("evt_0"))] {
        let mut follower = Follower::resuming(stage, &operator, json!({}), after).await;
        assert_eq!(follower.prompt().await.action, "Delete the folder build.");
    }
}

#[tokio::test(start_paused = true)]
async fn a_prompt_is_not_emitted_again_if_it_is_settled_or_its_token_is_known() {
    let ApprovalScene { scene, mut run, operator, mut follower, .. } = ApprovalScene::new(600).await;
    run.write("It rains. Take").await;
    let received = follower.listener.until(|body| matches!(body, Body::OutputStreaming(_))).await;
    let last = received.last().unwrap().id.clone();
    // The subscription that was shown the prompt goes on: its token is valid.
    let location = format!("/aaep/v1/events?subscription_id={}", follower.id);
    let mut again = scene.stage.listen(&operator, &location, last.as_deref()).await;
    // A new one does not get what was settled in the meantime, but learns the outcome.
    scene.stage.engine.write().submit(run.id, rejection_from_the_console()).await.unwrap();
    let mut new =
        Follower::resuming(&scene.stage, &operator, json!({ "run_id": run.id }), last.as_deref()).await;
    for listener in [&mut again, &mut new.listener] {
        let left =
            |body: &Body| matches!(body, Body::StateChanged(change) if change.from_state == "awaiting_input");
        let received = listener.until(left).await;
        assert!(!received.iter().any(|received| received.event.to_json().contains("rpl_")), "{received:?}");
        assert!(received.last().unwrap().event.to_json().contains("console"), "{received:?}");
    }
}

/// A prompt goes ahead of events that wait for the rate, so the id of its frame is of an earlier event.
#[tokio::test(start_paused = true)]
async fn a_prompt_that_passed_the_rate_is_emitted_again_too() {
    let scene = Scene::new().await;
    let mut run = scene.stage.run().await;
    let operator = scene.stage.operator();
    let slow = json!({ "supports_confirmation_reply": true, "max_events_per_second": 1 });
    let mut follower = Follower::with(&scene.stage, &operator, run.id, slow).await;
    for number in 0..20 {
        let call =
            json!({ "tool_call_id": format!("look{number}"), "tool_name": "look_up", "kind": "custom" });
        run.report(&[("tool.invoked", call)]).await;
    }
    asks(&mut run, 600).await;
    let first = follower.prompt_event().await;
    assert_ne!(first.id.as_deref(), Some(first.event.envelope.event_id.as_str()), "calls wait before it");
    let own = json!({ "run_id": run.id });
    let mut again = Follower::resuming(&scene.stage, &operator, own, first.id.as_deref()).await;
    let token = again.prompt().await.reply_token;
    send(&scene.stage, &operator, &again.reply(token.as_str(), "reject")).await;
    assert!(again.withdrawal().await.contains("operator"));
    assert_eq!(scene.approval().await.status, "rejected");
}

#[tokio::test(start_paused = true)]
async fn only_callers_that_may_answer_receive_a_token() {
    let scene = Scene::new().await;
    let mut run = scene.stage.run().await;
    let (reader, _valid) = scene.stage.visitor("tok_reader", &[Scope::Read], Narrowing::default());
    let operator = scene.stage.operator();
    let unable = Follower::with(&scene.stage, &operator, run.id, json!({})).await;
    let not_allowed = scene.follow(&reader, run.id).await;
    let mut able = scene.follow(&operator, run.id).await;
    asks(&mut run, 60).await;
    let token = able.prompt().await.reply_token;
    for mut follower in [unable, not_allowed] {
        let is_informational = |body: &Body| matches!(body, Body::StateChanged(changed) if changed.from_state == "awaiting_input" && changed.to_state == "awaiting_input");
        let received: Vec<ReceivedEvent> = follower.listener.until(is_informational).await;
        let last = &received.last().unwrap().event;
        assert!(
            last.summaries.normal.as_ref().is_some_and(|text| text.contains("Delete the folder")),
            "{last}"
        );
        assert!(received.iter().all(|received| !received.event.to_json().contains("rpl_")));
        let visitor = follower.visitor.clone();
        scene.send(&visitor, &follower.reply(token.as_str(), "accept")).await;
    }
    assert_eq!(scene.outcomes(2).await, [Outcome::TokenUnknown, Outcome::NotEntitled]);
    assert_eq!(scene.approval().await.status, "pending");
}

#[tokio::test(start_paused = true)]
async fn a_subscription_to_all_runs_answers_what_it_is_shown() {
    let scene = Scene::new().await;
    let operator = scene.stage.operator();
    let able = json!({ "supports_confirmation_reply": true });
    let location = scene.stage.subscribe(&operator, &request(able, json!({}))).await;
    let listener = scene.stage.listen(&operator, &location, None).await;
    let (_, subscription) = location.split_once("subscription_id=").unwrap();
    let mut follower = Follower { id: subscription.to_owned(), visitor: operator.clone(), listener };
    let mut run = scene.stage.run().await;
    asks(&mut run, 60).await;
    let token = follower.prompt().await.reply_token;
    scene.send(&operator, &follower.reply(token.as_str(), "accept")).await;
    assert_eq!(scene.outcomes(1).await, [Outcome::Accepted]);
    follower.withdrawal().await;
    assert_eq!(scene.approval().await.status, "approved");
    scene.send(&operator, &follower.control(run.id)).await;
    assert_eq!(scene.outcomes(2).await[1], Outcome::Accepted);
}

#[tokio::test(start_paused = true)]
async fn a_changed_action_is_a_rejection() {
    let ApprovalScene { scene, operator, follower, token, .. } = ApprovalScene::new(60).await;
    let mut reply = follower.reply(token.as_str(), "accept");
    reply["modified_action"] = json!({ "action": "Delete half of it." });
    scene.send(&operator, &reply).await;
    assert_eq!(scene.outcomes(1).await, [Outcome::Accepted]);
    let row = scene.approval().await;
    assert_eq!(row.status, "rejected");
    assert!(row.comment.as_ref().is_some_and(|why| why.contains("changed action")), "{row:?}");
}

#[tokio::test(start_paused = true)]
async fn a_question_stays_open_until_an_answer_fits() {
    let scene = Scene::new().await;
    let mut run = scene.stage.run().await;
    let operator = scene.stage.operator();
    let mut follower = scene.follow(&operator, run.id).await;
    let request_data = json!({
        "clarification_id": "q1", "question": "How many?", "accepted_response_kinds": ["numeric"],
        "choices": [{ "value": "60", "label": "sixty" }, { "value": "65", "label": "more" }], "timeout_seconds": 60,
    });
    run.report(&[("clarification.requested", request_data)]).await;
    let received = follower.listener.until(|body| matches!(body, Body::AwaitingClarification(_))).await;
    let Some(Body::AwaitingClarification(ask)) = received.last().map(|received| &received.event.body) else {
        panic!("{received:?}")
    };
    let token = ask.reply_token.as_str();
    let empty = scene.stage.post(&operator, "/aaep/v1/replies", &follower.answer(token, json!(""))).await;
    assert_eq!(empty.status, 400, "the schema requires a character");
    for wrong in [json!("67.5"), json!(true), json!("sixty")] {
        scene.send(&operator, &follower.answer(token, wrong)).await;
    }
    scene.send(&operator, &follower.answer(token, json!(67))).await;
    assert_eq!(scene.outcomes(4).await, [[Outcome::Invalid; 3].as_slice(), &[Outcome::Accepted]].concat());
    let row = scene.stage.engine.read().prompt(PromptKind::Clarification, &id("q1")).await.unwrap();
    let Some(PromptRow::Clarification(row)) = row else { panic!("{row:?} is not a question") };
    assert_eq!(row.response.unwrap().text(), "67");
    assert_eq!(row.answered_by.as_deref(), Some("operator"));
}

#[tokio::test(start_paused = true)]
async fn a_listener_cancels_the_run_that_it_covers() {
    let scene = Scene::new().await;
    let (run, other) = (scene.stage.run().await, scene.stage.run().await);
    let operator = scene.stage.operator();
    let (reader, _valid) =
        scene.stage.visitor("tok_reader", &[Scope::Read, Scope::Approve], Narrowing::default());
    let mut follower = scene.follow(&operator, run.id).await;
    let helpless = scene.follow(&reader, run.id).await;
    scene.send(&operator, &follower.control(other.id)).await;
    scene.send(&reader, &helpless.control(run.id)).await;
    let refused = scene.outcomes(2).await;
    assert!(refused.contains(&Outcome::RunForeign) && refused.contains(&Outcome::NotEntitled), "{refused:?}");
    scene.send(&operator, &follower.control(run.id)).await;
    assert_eq!(scene.outcomes(3).await[2], Outcome::Accepted);
    let received = follower.listener.rest().await;
    assert!(matches!(received.last().unwrap().event.body, Body::SessionCancelled(_)), "{received:?}");
    assert!(scene.stage.engine.catalogue().run(other.id).await.unwrap().unwrap().ended_at.is_none());
}

/// The protocol has no reply to a handoff; this producer's own message names the one that was shown.
#[tokio::test(start_paused = true)]
async fn a_listener_accepts_or_declines_a_handoff() {
    for (action, status, sentence) in [
        ("accept_handoff", "acknowledged", "operator takes over"),
        ("decline_handoff", "rejected", "operator did not take over"),
    ] {
        let scene = Scene::new().await;
        let mut run = scene.stage.run().await;
        let operator = scene.stage.operator();
        let (reader, _valid) = scene.stage.visitor("tok_reader", &[Scope::Read], Narrowing::default());
        let mut follower = scene.follow(&operator, run.id).await;
        let helpless = scene.follow(&reader, run.id).await;
        let handoff = json!({ "handoff_id": "h:1", "reason": "I am stuck", "target_kind": "human" });
        run.report(&[("handoff.requested", handoff)]).await;
        let received = follower.listener.until(|body| matches!(body, Body::HandoffRequested(_))).await;
        let event: Value = serde_json::from_str(&received.last().unwrap().event.to_json()).unwrap();
        let shown = &event["extensions"]["recount"]["handoff_id"];
        assert_eq!(shown, "h:1");
        let control = |follower: &Follower, handoff: Value| {
            let mut control = follower.control(run.id);
            control["action"] = json!(action);
            control["handoff_id"] = handoff;
            control
        };
        scene.send(&reader, &control(&helpless, shown.clone())).await;
        scene.send(&operator, &control(&follower, json!(null))).await;
        scene.send(&operator, &control(&follower, json!("h:2"))).await;
        scene.send(&operator, &control(&follower, shown.clone())).await;
        let outcomes = scene.outcomes(4).await;
        assert!(
            outcomes.contains(&Outcome::NotEntitled) && outcomes.contains(&Outcome::Invalid),
            "{outcomes:?}"
        );
        assert_eq!(
            outcomes.iter().filter(|outcome| **outcome == Outcome::Accepted).count(),
            1,
            "{outcomes:?}"
        );
        let row = scene.stage.engine.read().prompt(PromptKind::Handoff, &id("h:1")).await.unwrap().unwrap();
        assert_eq!(row.status(), status);
        let received = follower
            .listener
            .until(|body| matches!(body, Body::StateChanged(change) if change.from_state == "handing_off"))
            .await;
        let text = received.last().unwrap().event.summaries.normal.clone().unwrap();
        assert!(text.contains(sentence), "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_remaining_time_of_a_long_open_prompt_is_reported_at_a_half_and_a_tenth() {
    let ApprovalScene { scene, mut run, operator, mut follower, token, .. } = ApprovalScene::new(120).await;
    let is_progress = |body: &Body| matches!(body, Body::ProgressUpdated(_));
    let began = recount_world::moment();
    for (seconds, sentence) in
        [(60, "60 seconds are left to answer."), (108, "12 seconds are left to answer.")]
    {
        // A test waits half a minute for an event.
        tokio::time::sleep_until(began + Duration::from_secs(seconds - 20)).await;
        let received = follower.listener.until(is_progress).await;
        let last = received.last().unwrap();
        assert_eq!(last.event.summaries.normal.as_deref(), Some(sentence));
        assert_eq!(last.id, None, "a stream is not resumed after it");
        let at = began.elapsed().as_secs();
        assert!((seconds - 1..=seconds + 1).contains(&at), "{sentence} at {at} s");
    }
    scene.send(&operator, &follower.reply(token.as_str(), "accept")).await;
    follower.withdrawal().await;

    // A prompt that is answered in time has no countdown.
    let request_data = json!({ "approval_id": "a2", "tool_call_id": "c2", "kind": "tool", "summary": "s", "timeout_seconds": 600 });
    run.report(&[("approval.requested", request_data)]).await;
    let token = follower.prompt().await.reply_token;
    scene.send(&operator, &follower.reply(token.as_str(), "reject")).await;
    follower.withdrawal().await;
    tokio::time::sleep(Duration::from_secs(590)).await;
    run.finish().await;
    let received = follower.listener.rest().await;
    assert!(!received.iter().any(|received| is_progress(&received.event.body)), "{received:?}");
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_leaves_decides_nothing() {
    let ApprovalScene { scene, run, operator, mut follower, token, .. } = ApprovalScene::new(600).await;
    let reply = follower.reply(token.as_str(), "accept");
    let close = json!({ "type": "subscription.close", "subscription_id": follower.id });
    scene.send(&operator, &close).await;
    follower.listener.rest().await;
    drop(follower);
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(scene.approval().await.status, "pending");
    // Its token went with it.
    scene.send(&operator, &reply).await;
    scene.stage.engine.write().submit(run.id, rejection_from_the_console()).await.unwrap();
    assert_eq!(scene.approval().await.decided_by.as_deref(), Some("console"));
}
