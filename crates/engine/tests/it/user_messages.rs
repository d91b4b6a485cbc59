//! User messages: they start runs, supersede waiting runs or answer them; overrides of the setup are stored in the
//! same append or not at all.

use std::collections::BTreeMap;

use recount_engine::{
    IdempotencyKey, NewRun, NewSetup, Overrides, RequestResult, RunReply, Setup, SupersededRun, ToolRef,
    UserMessage,
};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, Json, RunId, SessionId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use recount_run::{CallAnswer, CallResolution, Command};

use crate::scene::{Scene, code, drafts};

pub(crate) async fn create_session(scene: &Scene) -> SessionId {
    let setup = Setup { agent: "clerk".into(), ..Setup::default() };
    let secrets = BTreeMap::from([("key".to_owned(), "first".to_owned())]);
    let setup = Setup { secrets: ["key".to_owned()].into(), ..setup };
    let new = NewSetup { setup, secrets, ..NewSetup::default() };
    scene.engine.write().create_setup(new, None).await.unwrap().id
}

pub(crate) fn new_run(text: &str) -> NewRun {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.request_text = Some(text.into());
    NewRun { queued, task: None, session: None, resumed_from: None }
}

async fn user_message(scene: &Scene, session: SessionId, text: &str) -> UserMessage {
    let before = scene.engine.catalogue().setup(session).await.unwrap();
    UserMessage { session, new: new_run(text), before, overrides: Overrides::default(), supersedes: None }
}

pub(crate) async fn send(scene: &Scene, session: SessionId, text: &str) -> RunId {
    scene.engine.write().send_message(user_message(scene, session, text).await, None).await.unwrap().0
}

pub(crate) fn overrides_with(language: &str, key: &str) -> Overrides {
    Overrides {
        options: BTreeMap::from([("language".to_owned(), language.to_owned())]),
        secrets: BTreeMap::from([("key".to_owned(), key.to_owned())]),
        ..Overrides::default()
    }
}

/// The part of the setup that [`overrides_with`] changes.
async fn saved_overrides(scene: &Scene, session: SessionId) -> (Option<String>, String) {
    let setup = scene.engine.catalogue().setup(session).await.unwrap().unwrap().setup;
    let key = scene.engine.write().secret_option(session, "key").await.unwrap().unwrap();
    (setup.options.get("language").cloned(), key)
}

pub(crate) async fn progress(scene: &Scene, run: RunId, events: &[(&str, &str)]) {
    let command = Command::Progress { drafts: drafts(events) };
    scene.engine.write().submit(run, command).await.unwrap();
}

/// Events of a run that waits for one call of the application.
const UP_TO_A_CALL: [(&str, &str); 6] = [
    ("run.started", "{}"),
    ("turn.started", r#"{"turn_index":0}"#),
    (
        "assistant.tool_call_proposed",
        r#"{"turn_index":0,"tool_call_id":"call_1","tool_name":"look","input":{}}"#,
    ),
    ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use"}"#),
    ("tool.invoked", r#"{"tool_call_id":"call_1","tool_name":"look","input":{},"executor":"client"}"#),
    ("run.waiting", r#"{"for":[{"kind":"client_tool","id":"call_1"}]}"#),
];

fn output(text: &str) -> Command {
    let output = Json::parse(&format!("{text:?}")).unwrap();
    let resolution = CallResolution::Output { output, text: text.into() };
    Command::AnswerCalls {
        answers: vec![CallAnswer { tool_call_id: ForeignId::parse("call_1").unwrap(), resolution }],
        by: "ann".into(),
        via: "aap".into(),
        config: None,
        lenient: false,
    }
}

pub(crate) async fn waiting(scene: &Scene, session: SessionId) -> RunId {
    let run = send(scene, session, "look").await;
    progress(scene, run, &UP_TO_A_CALL).await;
    run
}

fn supersedes(run: RunId) -> Option<SupersededRun> {
    Some(SupersededRun { run, reason: "the user sent another message".into() })
}

const ENDED: [&str; 9] = [
    "run.queued",
    "run.started",
    "turn.started",
    "assistant.tool_call_proposed",
    "turn.completed",
    "tool.invoked",
    "run.waiting",
    "tool.cancelled",
    "run.cancelled",
];

#[tokio::test(start_paused = true)]
async fn a_message_starts_a_run_and_its_overrides_persist() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let mut first = user_message(&scene, session, "hello").await;
    first.overrides = overrides_with("Dutch", "second");
    let idempotency = IdempotencyKey { key: "k".into(), body: "b".into() };
    let appends = scene.store.appends();
    let (run, receipt) = scene.engine.write().send_message(first, Some(&idempotency)).await.unwrap();
    assert_eq!(scene.store.appends() - appends, 1, "all in one append");
    assert_eq!((receipt.first_sequence, receipt.last_sequence), (0, 0));
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(run));
    assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
    let recount_engine::RequestState::Executed(_, result) =
        scene.engine.write().claim_request(&idempotency).await.unwrap()
    else {
        panic!("the run was created")
    };
    assert_eq!(result, RequestResult::Run(run));
    let events = scene.events(run).await;
    assert_eq!(events[0].session_id, Some(session));
    let busy = scene.engine.write().send_message(user_message(&scene, session, "again").await, None).await;
    assert_eq!(code(busy), Code::SessionBusy);
    scene.cancel(run).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    send(&scene, session, "again").await;
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn overrides_of_concurrent_messages_both_persist() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let mut stale = user_message(&scene, session, "hello").await;
    let mut other = user_message(&scene, session, "hello").await;
    other.overrides.tools = Some(vec![ToolRef { name: "look".into(), trust: Some(true) }]);
    let (run, _) = scene.engine.write().send_message(other, None).await.unwrap();
    scene.cancel(run).await.unwrap();
    stale.overrides = overrides_with("Dutch", "second");
    scene.engine.write().send_message(stale, None).await.unwrap();
    let setup = scene.engine.catalogue().setup(session).await.unwrap().unwrap().setup;
    assert_eq!(setup.tools.unwrap()[0].name, "look");
    assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
}

#[tokio::test(start_paused = true)]
async fn a_message_supersedes_a_waiting_run() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let old = waiting(&scene, session).await;
    let mut reader = scene.engine.read().follow_events(old, None).await.unwrap();
    let mut message = user_message(&scene, session, "never mind").await;
    (message.overrides, message.supersedes) = (overrides_with("Dutch", "second"), supersedes(old));
    let appends = scene.store.appends();
    let (new, receipt) = scene.engine.write().send_message(message, None).await.unwrap();
    assert_eq!(scene.store.appends() - appends, 1, "all in one append");
    assert_eq!((receipt.first_sequence, receipt.last_sequence), (0, 0));
    assert_eq!(scene.types(old).await, ENDED);
    assert_eq!(scene.types(new).await, ["run.queued"]);
    assert_eq!(receipt.position, scene.engine.read().last_position().await.unwrap());
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(new));
    assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
    let mut delivered = 0;
    while let Some(events) = reader.next().await.unwrap() {
        delivered += events.len();
    }
    assert_eq!(delivered, ENDED.len(), "a follower gets the ending");
    // The ended run does not release the session of the new one.
    assert_eq!(code(scene.cancel(old).await), Code::RunEnded);
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(new));
    scene.cancel(new).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answered_run_is_not_superseded() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let old = waiting(&scene, session).await;
    let mut message = user_message(&scene, session, "never mind").await;
    (message.overrides, message.supersedes) = (overrides_with("Dutch", "second"), supersedes(old));
    scene.engine.write().submit(old, output("a tree")).await.unwrap();
    let position = scene.engine.read().last_position().await.unwrap();
    assert_eq!(code(scene.engine.write().send_message(message.clone(), None).await), Code::SessionBusy);
    assert_eq!(scene.engine.read().last_position().await.unwrap(), position);
    assert_eq!(saved_overrides(&scene, session).await, (None, "first".into()));
    // An ended run need not be superseded.
    scene.cancel(old).await.unwrap();
    let (new, _) = scene.engine.write().send_message(message, None).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(new));
    assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_superseding_writes_both_runs_or_neither() {
    for (fault, happens) in [
        (AppendFault::Refuse(FaultKind::Io), false),
        (AppendFault::Panic, false),
        (AppendFault::PanicAfter, true),
        (AppendFault::LoseAnswer, true),
        (AppendFault::Unobserved, true),
    ] {
        let mut scene = Scene::new().await;
        let session = create_session(&scene).await;
        let old = waiting(&scene, session).await;
        let mut message = user_message(&scene, session, "never mind").await;
        (message.overrides, message.supersedes) = (overrides_with("Dutch", "second"), supersedes(old));
        scene.store.next_appends([fault]);
        assert!(scene.engine.write().send_message(message, None).await.is_err());
        for _ in 0..2 {
            let active = scene.engine.catalogue().active_run(session).await.unwrap().unwrap();
            if happens {
                assert_eq!(scene.types(old).await, ENDED);
                assert_eq!(scene.types(active).await, ["run.queued"]);
                assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
            } else {
                assert_eq!(active, old);
                assert_eq!(scene.types(old).await, ENDED[..7]);
                assert_eq!(saved_overrides(&scene, session).await, (None, "first".into()));
            }
            scene.check().await;
            // The same after a restart; before it, the writer continues from the log.
            scene.reopen().await;
        }
        let active = scene.engine.catalogue().active_run(session).await.unwrap().unwrap();
        scene.cancel(active).await.unwrap();
        assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_continues_the_run_and_its_overrides_persist() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let run = waiting(&scene, session).await;
    let before = scene.engine.catalogue().setup(session).await.unwrap();
    let overrides = overrides_with("Dutch", "second");
    let reply = RunReply { session, run, command: output("a tree"), before, overrides };
    let appends = scene.store.appends();
    let receipt = scene.engine.write().reply(reply.clone(), None).await.unwrap().unwrap();
    assert_eq!(scene.store.appends() - appends, 1, "all in one append");
    let types = scene.types(run).await;
    let (first, last) = (receipt.first_sequence as usize, receipt.last_sequence as usize);
    assert_eq!(types[first..=last], ["tool.completed", "run.continued"]);
    assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
    // A refusal changes nothing, is not stored, and the writer continues.
    let idempotency = IdempotencyKey { key: "k".into(), body: "b".into() };
    let late = RunReply { overrides: Overrides::default(), ..reply.clone() };
    assert_eq!(code(scene.engine.write().reply(late, Some(&idempotency)).await), Code::CallNotPending);
    assert!(matches!(
        scene.engine.write().claim_request(&idempotency).await.unwrap(),
        recount_engine::RequestState::New(_)
    ));
    let again = RunReply { overrides: overrides_with("Greek", "third"), ..reply };
    assert_eq!(code(scene.engine.write().reply(again, None).await), Code::CallNotPending);
    assert_eq!(saved_overrides(&scene, session).await, (Some("Dutch".into()), "second".into()));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_answer_does_not_change_the_setup() {
    for (fault, happens) in [
        (AppendFault::Refuse(FaultKind::Io), false),
        (AppendFault::Panic, false),
        (AppendFault::PanicAfter, true),
        (AppendFault::LoseAnswer, true),
    ] {
        let mut scene = Scene::new().await;
        let session = create_session(&scene).await;
        let run = waiting(&scene, session).await;
        let before = scene.engine.catalogue().setup(session).await.unwrap();
        let overrides = overrides_with("Dutch", "second");
        scene.store.next_appends([fault]);
        let reply = RunReply { session, run, command: output("a tree"), before, overrides };
        let idempotency = IdempotencyKey { key: "k".into(), body: "b".into() };
        assert!(scene.engine.write().reply(reply, Some(&idempotency)).await.is_err());
        scene.reopen().await;
        // The result is stored in the same append, or not at all.
        let state = scene.engine.write().claim_request(&idempotency).await.unwrap();
        let result =
            if let recount_engine::RequestState::Executed(_, result) = state { Some(result) } else { None };
        let sequence = scene.types(run).await.len() as u64 - 1;
        assert_eq!(result, happens.then_some(RequestResult::ChangedAt(run, sequence)));
        let is_continued = scene.types(run).await.last().unwrap() == "run.continued";
        let changed = saved_overrides(&scene, session).await == (Some("Dutch".into()), "second".into());
        assert_eq!((is_continued, changed), (happens, happens));
    }
}

#[tokio::test(start_paused = true)]
async fn messages_in_a_deleted_session_are_refused() {
    let scene = Scene::new().await;
    let session = create_session(&scene).await;
    let old = waiting(&scene, session).await;
    let mut message = user_message(&scene, session, "hello").await;
    let mut superseding = message.clone();
    superseding.supersedes = supersedes(old);
    let before = message.before.clone();
    scene.engine.admin().delete_session(session, "ann").await.unwrap();
    for overrides in [Overrides::default(), overrides_with("Dutch", "second")] {
        (message.overrides, superseding.overrides) = (overrides.clone(), overrides.clone());
        assert_eq!(code(scene.engine.write().send_message(message.clone(), None).await), Code::SessionErased);
        let refused = code(scene.engine.write().send_message(superseding.clone(), None).await);
        assert!(matches!(refused, Code::RunErased | Code::SessionErased), "{refused:?}");
        let command = output("a tree");
        let reply = RunReply { session, run: old, command, before: before.clone(), overrides };
        let refused = code(scene.engine.write().reply(reply, None).await);
        assert!(matches!(refused, Code::RunErased | Code::SessionErased), "{refused:?}");
    }
    let unknown: SessionId = "chat_01HZX3Q0M0000000000000000C".parse().unwrap();
    let unknown = UserMessage { session: unknown, before: None, ..message };
    assert_eq!(code(scene.engine.write().send_message(unknown, None).await), Code::SessionNotFound);
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    assert_eq!(scene.engine.write().secret_option(session, "key").await.unwrap(), None);
    scene.check().await;
}
