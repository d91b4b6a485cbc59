//! What is said in a session: messages begin runs, take the place of runs that wait, or are answers to them; what
//! changes of the setup with it lasts, or nothing has happened.

use std::collections::BTreeMap;

use recount_engine::{
    Answering, Made, NewRun, NewSetup, Once, Overrides, Saying, Setup, Superseded, ToolRef,
};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, ForeignId, Json, RunId, SessionId};
use recount_faulty_store::AppendFault;
use recount_log::FaultKind;
use recount_run::{CallAnswer, CallResolution, Command};

use crate::scene::{Scene, code, drafts};

pub(crate) async fn begin(scene: &Scene) -> SessionId {
    let setup = Setup { agent: "clerk".into(), ..Setup::default() };
    let secrets = BTreeMap::from([("key".to_owned(), "first".to_owned())]);
    let setup = Setup { secrets: ["key".to_owned()].into(), ..setup };
    let new = NewSetup { setup, secrets, ..NewSetup::default() };
    scene.engine.write().create_setup(new, None).await.unwrap().id
}

pub(crate) fn message(words: &str) -> NewRun {
    let mut queued = Queued::new(RunKind::AgentLoop);
    queued.request_text = Some(words.into());
    NewRun { queued, task: None, session: None, resumed_from: None }
}

async fn saying(scene: &Scene, session: SessionId, words: &str) -> Saying {
    let before = scene.engine.catalogue().setup(session).await.unwrap();
    Saying { session, new: message(words), before, overrides: Overrides::default(), supersedes: None }
}

pub(crate) async fn say(scene: &Scene, session: SessionId, words: &str) -> RunId {
    scene.engine.write().say(saying(scene, session, words).await, None).await.unwrap().0
}

pub(crate) fn speaking(language: &str, key: &str) -> Overrides {
    Overrides {
        options: BTreeMap::from([("language".to_owned(), language.to_owned())]),
        secrets: BTreeMap::from([("key".to_owned(), key.to_owned())]),
        ..Overrides::default()
    }
}

/// What of the setup was changed by [`speaking`].
async fn spoken(scene: &Scene, session: SessionId) -> (Option<String>, String) {
    let setup = scene.engine.catalogue().setup(session).await.unwrap().unwrap().setup;
    let key = scene.engine.write().secret_option(session, "key").await.unwrap().unwrap();
    (setup.options.get("language").cloned(), key)
}

pub(crate) async fn progress(scene: &Scene, run: RunId, events: &[(&str, &str)]) {
    let command = Command::Progress { drafts: drafts(events) };
    scene.engine.write().submit(run, command).await.unwrap();
}

/// A run that waits for an application: one call is its own to carry out.
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
    let run = say(scene, session, "look").await;
    progress(scene, run, &UP_TO_A_CALL).await;
    run
}

fn supersedes(run: RunId) -> Option<Superseded> {
    Some(Superseded { run, reason: "something else was said".into() })
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
async fn a_message_begins_a_run_and_what_changes_with_it_lasts() {
    let scene = Scene::new().await;
    let session = begin(&scene).await;
    let mut first = saying(&scene, session, "hello").await;
    first.overrides = speaking("Dutch", "second");
    let once = Once { key: "k".into(), body: "b".into() };
    let appends = scene.store.appends();
    let (run, receipt) = scene.engine.write().say(first, Some(&once)).await.unwrap();
    assert_eq!(scene.store.appends() - appends, 1, "all in one");
    assert_eq!((receipt.first_sequence, receipt.last_sequence), (0, 0));
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(run));
    assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
    let recount_engine::Standing::Made(_, made) = scene.engine.write().take_up(&once).await.unwrap() else {
        panic!("it was made")
    };
    assert_eq!(made, Made::Run(run));
    let events = scene.events(run).await;
    assert_eq!(events[0].session_id, Some(session));
    let busy = scene.engine.write().say(saying(&scene, session, "again").await, None).await;
    assert_eq!(code(busy), Code::SessionBusy);
    scene.cancel(run).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    say(&scene, session, "again").await;
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn overrides_of_two_at_a_time_both_last() {
    let scene = Scene::new().await;
    let session = begin(&scene).await;
    let mut stale = saying(&scene, session, "hello").await;
    let mut other = saying(&scene, session, "hello").await;
    other.overrides.tools = Some(vec![ToolRef { name: "look".into(), trust: Some(true) }]);
    let (run, _) = scene.engine.write().say(other, None).await.unwrap();
    scene.cancel(run).await.unwrap();
    stale.overrides = speaking("Dutch", "second");
    scene.engine.write().say(stale, None).await.unwrap();
    let setup = scene.engine.catalogue().setup(session).await.unwrap().unwrap().setup;
    assert_eq!(setup.tools.unwrap()[0].name, "look");
    assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
}

#[tokio::test(start_paused = true)]
async fn a_message_takes_the_place_of_a_run_that_waits() {
    let scene = Scene::new().await;
    let session = begin(&scene).await;
    let old = waiting(&scene, session).await;
    let mut reader = scene.engine.read().follow_events(old, None).await.unwrap();
    let mut said = saying(&scene, session, "never mind").await;
    (said.overrides, said.supersedes) = (speaking("Dutch", "second"), supersedes(old));
    let appends = scene.store.appends();
    let (new, receipt) = scene.engine.write().say(said, None).await.unwrap();
    assert_eq!(scene.store.appends() - appends, 1, "all in one");
    assert_eq!((receipt.first_sequence, receipt.last_sequence), (0, 0));
    assert_eq!(scene.types(old).await, ENDED);
    assert_eq!(scene.types(new).await, ["run.queued"]);
    assert_eq!(receipt.position, scene.engine.read().last_position().await.unwrap());
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(new));
    assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
    let mut told = 0;
    while let Some(events) = reader.next().await.unwrap() {
        told += events.len();
    }
    assert_eq!(told, ENDED.len(), "who followed is told of the end");
    // The one that ended does not free the session of the one that has it now.
    assert_eq!(code(scene.cancel(old).await), Code::RunEnded);
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(new));
    scene.cancel(new).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_was_answered_meanwhile_is_not_superseded() {
    let scene = Scene::new().await;
    let session = begin(&scene).await;
    let old = waiting(&scene, session).await;
    let mut said = saying(&scene, session, "never mind").await;
    (said.overrides, said.supersedes) = (speaking("Dutch", "second"), supersedes(old));
    scene.engine.write().submit(old, output("a tree")).await.unwrap();
    let position = scene.engine.read().last_position().await.unwrap();
    assert_eq!(code(scene.engine.write().say(said.clone(), None).await), Code::SessionBusy);
    assert_eq!(scene.engine.read().last_position().await.unwrap(), position);
    assert_eq!(spoken(&scene, session).await, (None, "first".into()));
    // One that has ended meanwhile needs no superseding.
    scene.cancel(old).await.unwrap();
    let (new, _) = scene.engine.write().say(said, None).await.unwrap();
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), Some(new));
    assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_superseding_leaves_both_or_neither() {
    for (fate, happens) in [
        (AppendFault::Refuse(FaultKind::Io), false),
        (AppendFault::Panic, false),
        (AppendFault::PanicAfter, true),
        (AppendFault::LoseAnswer, true),
        (AppendFault::Unobserved, true),
    ] {
        let mut scene = Scene::new().await;
        let session = begin(&scene).await;
        let old = waiting(&scene, session).await;
        let mut said = saying(&scene, session, "never mind").await;
        (said.overrides, said.supersedes) = (speaking("Dutch", "second"), supersedes(old));
        scene.store.next_appends([fate]);
        assert!(scene.engine.write().say(said, None).await.is_err());
        for _ in 0..2 {
            let active = scene.engine.catalogue().active_run(session).await.unwrap().unwrap();
            if happens {
                assert_eq!(scene.types(old).await, ENDED);
                assert_eq!(scene.types(active).await, ["run.queued"]);
                assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
            } else {
                assert_eq!(active, old);
                assert_eq!(scene.types(old).await, ENDED[..7]);
                assert_eq!(spoken(&scene, session).await, (None, "first".into()));
            }
            scene.check().await;
            // The same in the next process, and in this one the writer goes on with what the log says.
            scene.reopen().await;
        }
        let active = scene.engine.catalogue().active_run(session).await.unwrap().unwrap();
        scene.cancel(active).await.unwrap();
        assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_lets_the_run_go_on_and_what_changes_with_it_lasts() {
    let scene = Scene::new().await;
    let session = begin(&scene).await;
    let run = waiting(&scene, session).await;
    let before = scene.engine.catalogue().setup(session).await.unwrap();
    let overrides = speaking("Dutch", "second");
    let answering = Answering { session, run, command: output("a tree"), before, overrides };
    let appends = scene.store.appends();
    let receipt = scene.engine.write().answer(answering.clone(), None).await.unwrap().unwrap();
    assert_eq!(scene.store.appends() - appends, 1, "all in one");
    let types = scene.types(run).await;
    let (first, last) = (receipt.first_sequence as usize, receipt.last_sequence as usize);
    assert_eq!(types[first..=last], ["tool.completed", "run.continued"]);
    assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
    // What is refused changes nothing, is not remembered, and the writer goes on.
    let once = Once { key: "k".into(), body: "b".into() };
    let late = Answering { overrides: Overrides::default(), ..answering.clone() };
    assert_eq!(code(scene.engine.write().answer(late, Some(&once)).await), Code::CallNotPending);
    assert!(matches!(scene.engine.write().take_up(&once).await.unwrap(), recount_engine::Standing::New(_)));
    let again = Answering { overrides: speaking("Greek", "third"), ..answering };
    assert_eq!(code(scene.engine.write().answer(again, None).await), Code::CallNotPending);
    assert_eq!(spoken(&scene, session).await, (Some("Dutch".into()), "second".into()));
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_fails_leaves_the_setup_as_it_was() {
    for (fate, happens) in [
        (AppendFault::Refuse(FaultKind::Io), false),
        (AppendFault::Panic, false),
        (AppendFault::PanicAfter, true),
        (AppendFault::LoseAnswer, true),
    ] {
        let mut scene = Scene::new().await;
        let session = begin(&scene).await;
        let run = waiting(&scene, session).await;
        let before = scene.engine.catalogue().setup(session).await.unwrap();
        let overrides = speaking("Dutch", "second");
        scene.store.next_appends([fate]);
        let answering = Answering { session, run, command: output("a tree"), before, overrides };
        let once = Once { key: "k".into(), body: "b".into() };
        assert!(scene.engine.write().answer(answering, Some(&once)).await.is_err());
        scene.reopen().await;
        // What was answered is remembered in the same moment, or not at all.
        let standing = scene.engine.write().take_up(&once).await.unwrap();
        let made = if let recount_engine::Standing::Made(_, made) = standing { Some(made) } else { None };
        let sequence = scene.types(run).await.len() as u64 - 1;
        assert_eq!(made, happens.then_some(Made::At(run, sequence)));
        let goes_on = scene.types(run).await.last().unwrap() == "run.continued";
        let changed = spoken(&scene, session).await == (Some("Dutch".into()), "second".into());
        assert_eq!((goes_on, changed), (happens, happens));
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_said_in_a_session_that_is_deleted() {
    let scene = Scene::new().await;
    let session = begin(&scene).await;
    let old = waiting(&scene, session).await;
    let mut said = saying(&scene, session, "hello").await;
    let mut superseding = said.clone();
    superseding.supersedes = supersedes(old);
    let before = said.before.clone();
    scene.engine.admin().delete_session(session, "ann").await.unwrap();
    for overrides in [Overrides::default(), speaking("Dutch", "second")] {
        (said.overrides, superseding.overrides) = (overrides.clone(), overrides.clone());
        assert_eq!(code(scene.engine.write().say(said.clone(), None).await), Code::SessionErased);
        let gone = code(scene.engine.write().say(superseding.clone(), None).await);
        assert!(matches!(gone, Code::RunErased | Code::SessionErased), "{gone:?}");
        let command = output("a tree");
        let answering = Answering { session, run: old, command, before: before.clone(), overrides };
        let gone = code(scene.engine.write().answer(answering, None).await);
        assert!(matches!(gone, Code::RunErased | Code::SessionErased), "{gone:?}");
    }
    let unknown: SessionId = "chat_01HZX3Q0M0000000000000000C".parse().unwrap();
    let nobody = Saying { session: unknown, before: None, ..said };
    assert_eq!(code(scene.engine.write().say(nobody, None).await), Code::SessionNotFound);
    assert_eq!(scene.engine.catalogue().active_run(session).await.unwrap(), None);
    assert_eq!(scene.engine.write().secret_option(session, "key").await.unwrap(), None);
    scene.check().await;
}
