//! "Always allow this": what is remembered, for whom, and what is asked about all the same.

use std::sync::Arc;

use recount_engine::{
    AllowanceFilter, ListQuery, Narrowing, NewSetup, NewTask, Order, Redactor, Setup as Chosen,
};
use recount_event::family::approval::AllowanceScope;
use recount_event::family::run::RunKind;
use recount_event::{Code, Event, ForeignId, Payload, RunId, SessionId, TaskId};
use recount_redact::Secret;

use crate::runs::scene::{Scene, Setup, asked, count, first, refusals, types};

/// Everything is to be asked about.
pub(crate) const ASK_ALL: &str = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";

fn turns(calls: &[&str]) -> String {
    let turns: Vec<String> = calls.iter().map(|call| format!("[[turn]]\ncall = [{call}]\n")).collect();
    format!("{}[[turn]]\ntext = 'Done.'\n", turns.concat())
}

fn say(what: &str) -> String {
    format!("{{ name = 'meets', input = {{ say = '{what}' }} }}")
}

async fn scene(calls: &[&str]) -> Scene {
    Scene::under(&turns(calls), ASK_ALL, 8).await
}

/// Answers the request that a run stands at for good, and waits for the end or for the next request.
async fn always(scene: &Scene, run: RunId, scope: AllowanceScope) -> Vec<Event> {
    let events = scene.until(run, "run.waiting").await;
    scene.always(run, &events, scope).await.unwrap();
    let after = events.last().unwrap().sequence;
    scene.until_after(run, Some(after), "run.waiting").await
}

async fn task(scene: &Scene) -> TaskId {
    scene.engine.write().create_task_once(NewTask::default(), None, None).await.unwrap().0.id
}

async fn session(scene: &Scene) -> SessionId {
    let setup = Chosen { agent: "clerk".into(), ..Chosen::default() };
    scene.engine.write().create_setup(NewSetup { setup, ..NewSetup::default() }, None).await.unwrap().id
}

async fn listed(scene: &Scene) -> Vec<recount_engine::AllowanceRow> {
    let query = ListQuery { limit: 10, ..ListQuery::default() };
    let (filter, within) = (AllowanceFilter::default(), Narrowing::default());
    scene.engine.catalogue().list_allowances(&query, &filter, &within).await.unwrap().items
}

/// Whether a run gets to its end without anybody being asked.
async fn goes_through(scene: &Scene, run: RunId) -> bool {
    let events = scene.until(run, "run.waiting").await;
    let asked = count(&events, "approval.requested") > 0;
    if asked {
        scene.nod(run).await;
    }
    !asked
}

#[tokio::test]
async fn the_same_call_is_not_asked_about_again_and_the_log_says_by_whose_leave() {
    let scene = scene(&[&say("x"), &say("x"), &say("y")]).await;
    let run = scene.ask("go").await;
    let events = always(&scene, run, AllowanceScope::Run).await;
    let resolved = first!(events, ApprovalResolved);
    assert_eq!(resolved.scope.as_deref(), Some("run"));
    let id = resolved.allowance_id.unwrap();
    // The second call went through; the third says something else.
    assert_eq!(count(&events, "tool.completed"), 2, "{:?}", types(&events));
    assert_eq!(count(&events, "approval.requested"), 1);
    let by: Vec<_> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ToolInvoked(invoked) => {
                Some((invoked.allowance_id.clone(), invoked.allowance_scope, invoked.allowed_by.clone()))
            }
            _ => None,
        })
        .collect();
    let allowed = (Some(id.clone()), Some(AllowanceScope::Run), Some("ann".to_owned()));
    assert_eq!(by, [(None, None, None), allowed]);
    let row = &listed(&scene).await[0];
    assert_eq!((row.id.as_str(), row.given_by.as_str(), row.kind.as_str()), (&*id, "ann", "meets"));
    assert!(row.preview.as_ref().is_some_and(|preview| preview.contains("\"x\"")), "{row:?}");
    scene.cancel(run).await;
    scene.ended(run).await;
}

#[tokio::test]
async fn a_call_that_waits_while_its_allowance_is_taken_back_does_nothing() {
    let policy = "[[rules]]\nid = \"toy\"\ntool = \"meets\"\naction = \"ask\"\n".to_owned();
    let script = turns(&[&say("x")]);
    let scene = Scene::of(Setup { script, policy, tools_at_once: 1, ..Setup::default() }).await;
    let run = scene.ask("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    let long = Order { command: Some("echo here; sleep 600".into()), ..Order::default() };
    let busy = scene.call(RunKind::Shell, long).await;
    scene.until(busy, "tool.shell.output_chunk").await;
    let waits = scene.ask("go").await;
    let events = scene.until(waits, "run.throttled").await;
    assert_eq!((count(&events, "tool.invoked"), count(&events, "approval.requested")), (1, 0));
    let id = ForeignId::parse(&listed(&scene).await[0].id).unwrap();
    scene.engine.write().take_back(&id).await.unwrap();
    scene.cancel(busy).await;
    let events = scene.ended(waits).await;
    let failed = first!(events, ToolFailed);
    let error = failed.error.as_deref().unwrap();
    assert!(error.contains("taken back before it began"), "{failed:?}");
    assert_eq!(count(&events, "tool.completed"), 0);
}

#[tokio::test]
async fn each_scope_reaches_as_far_as_it_says() {
    for (scope, in_session, elsewhere) in [
        (AllowanceScope::Run, false, false),
        (AllowanceScope::Session, true, false),
        (AllowanceScope::Workspace, true, true),
    ] {
        let scene = scene(&[&say("x")]).await;
        let session = session(&scene).await;
        let run = scene.ask_for("go", Order::default(), None, Some(session)).await;
        always(&scene, run, scope).await;
        scene.ended(run).await;
        let run = scene.ask_for("again", Order::default(), None, Some(session)).await;
        assert_eq!(goes_through(&scene, run).await, in_session, "{scope} in its session");
        let run = scene.ask("go").await;
        assert_eq!(goes_through(&scene, run).await, elsewhere, "{scope} elsewhere");
    }
}

#[tokio::test]
async fn another_folder_another_mode_or_the_network_is_another_call() {
    let scene = scene(&[&say("x")]).await;
    let run = scene.ask("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    let other = scene.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let order = Order { workspace_source: Some(other.display().to_string()), ..Order::default() };
    let run = scene.ask_for("go", order, None, None).await;
    assert!(!goes_through(&scene, run).await, "in another folder");
    let mut queued = asked("go");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, Order::default(), None, None).await;
    assert!(!goes_through(&scene, run).await, "in place");
}

#[tokio::test]
async fn an_edit_whose_bytes_differ_is_another_call() {
    let write = "{ name = 'write_file', input = { path = 'a.txt', content = \"one\\n\" } }";
    let scene = scene(&[write, write]).await;
    let run = scene.ask("go").await;
    // The second would write over a file that is there by now.
    let events = always(&scene, run, AllowanceScope::Run).await;
    assert_eq!(count(&events, "approval.requested"), 1, "{:?}", types(&events));
    scene.cancel(run).await;
    scene.ended(run).await;
}

#[tokio::test]
async fn what_is_grave_cannot_be_remembered_and_a_rule_that_blocks_still_blocks() {
    let grave = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\nrisk = \"high\"\n";
    let mut scene = Scene::under(&turns(&[&say("x")]), grave, 8).await;
    let run = scene.ask("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(first!(events, ApprovalRequested).allowance_digest, None);
    let refused = scene.always(run, &events, AllowanceScope::Run).await.unwrap_err();
    assert_eq!(refused.code(), Code::AllowanceRefused, "{refused}");
    // It was not answered at all.
    scene.setup.policy = ASK_ALL.to_owned();
    scene.decide(run, &events, true).await;
    scene.ended(run).await;
    scene.restart().await;
    let run = scene.ask("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    // What was allowed is of high risk by a later policy, and blocked by the one after it.
    scene.setup.policy = grave.to_owned();
    scene.restart().await;
    let run = scene.ask("go").await;
    assert!(!goes_through(&scene, run).await);
    scene.setup.policy = "[[rules]]\nid = \"no\"\ntool = \"*\"\naction = \"block\"\n".to_owned();
    scene.restart().await;
    let run = scene.ask("go").await;
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events)[0].0, "blocked");
}

#[tokio::test]
async fn a_scope_that_a_run_does_not_have_is_refused_and_nothing_is_decided() {
    let scene = scene(&[&say("x")]).await;
    let run = scene.ask("go").await;
    let events = scene.until(run, "run.waiting").await;
    let refused = scene.always(run, &events, AllowanceScope::Session).await.unwrap_err();
    assert_eq!(refused.code(), Code::AllowanceRefused, "{refused}");
    assert!(refused.to_string().contains("belongs to no session"), "{refused}");
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, ApprovalResolved).allowance_id, None);
}

#[tokio::test]
async fn an_allowance_outlives_a_restart_until_it_is_taken_back() {
    let mut scene = scene(&[&say("x")]).await;
    let run = scene.ask("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    scene.restart().await;
    let run = scene.ask("go").await;
    assert!(goes_through(&scene, run).await);
    let id = ForeignId::parse(&listed(&scene).await[0].id).unwrap();
    assert_eq!(scene.engine.write().take_back(&id).await.unwrap().given_by, "ann");
    assert_eq!(scene.engine.write().take_back(&id).await.unwrap_err().code(), Code::AllowanceNotFound);
    let run = scene.ask("go").await;
    assert!(!goes_through(&scene, run).await);
    assert!(listed(&scene).await.is_empty());
}

#[tokio::test]
async fn the_same_allowance_given_again_is_one() {
    let both = format!("{}, {}", say("x"), say("x"));
    let scene = scene(&[&both]).await;
    let run = scene.ask("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(count(&events, "approval.requested"), 2);
    scene.always(run, &events, AllowanceScope::Workspace).await.unwrap();
    let second = crate::runs::scene::asked_for(&events)[1..].to_vec();
    let events: Vec<Event> = events
        .into_iter()
        .filter(|event| match event.payload() {
            Payload::ApprovalRequested(asked) => second.contains(&asked.approval_id),
            _ => false,
        })
        .collect();
    scene.always(run, &events, AllowanceScope::Workspace).await.unwrap();
    scene.ended(run).await;
    let left = listed(&scene).await;
    assert_eq!(left.len(), 1, "{left:#?}");
    scene.engine.write().take_back(&ForeignId::parse(&left[0].id).unwrap()).await.unwrap();
    let run = scene.ask("go").await;
    assert!(!goes_through(&scene, run).await);
}

#[tokio::test]
async fn an_allowance_goes_with_the_run_that_it_was_given_in() {
    let scene = scene(&[&say("x")]).await;
    let task = task(&scene).await;
    let run = scene.ask_for("go", Order::default(), Some(task), None).await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    scene.engine.admin().delete_task(task, "ann").await.unwrap();
    assert!(listed(&scene).await.is_empty());
    let run = scene.ask("go").await;
    assert!(!goes_through(&scene, run).await);
}

#[tokio::test]
async fn two_calls_that_differ_in_a_secret_alone_are_two_and_the_secret_is_nowhere() {
    const ONE: &str = "canary-3c1f9b52d07e";
    const OTHER: &str = "canary-9d07e3c1f9b5";
    let secrets = [ONE, OTHER].map(|secret| Secret::new(secret).unwrap()).to_vec();
    let redactor = Arc::new(Redactor::new(secrets, true));
    let script = turns(&[&say(ONE), &say(ONE), &say(OTHER)]);
    let setup = Setup { script, policy: ASK_ALL.to_owned(), redactor, ..Setup::default() };
    let scene = Scene::of(setup).await;
    let run = scene.ask("go").await;
    let events = always(&scene, run, AllowanceScope::Run).await;
    assert_eq!(count(&events, "tool.completed"), 2, "{:?}", types(&events));
    assert_eq!(count(&events, "approval.requested"), 1);
    assert!(!scene.disk.has_seen(ONE) && !scene.disk.has_seen(OTHER));
    // What is remembered shows what the person was shown.
    assert!(listed(&scene).await[0].preview.as_ref().is_some_and(|preview| preview.contains("***")));
    scene.cancel(run).await;
    scene.ended(run).await;
}

#[tokio::test]
async fn a_run_that_is_one_call_asks_no_more_than_others() {
    use recount_engine::FileOrder;
    use recount_event::family::run::RunKind;
    let scene = scene(&[]).await;
    scene.put("a.txt", "one\n");
    let input = recount_event::Json::parse(r#"{"path":"a.txt"}"#).unwrap();
    let order = Order { file: Some(FileOrder { tool: "read_file".into(), input }), ..Order::default() };
    let run = scene.call(RunKind::File, order.clone()).await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    let run = scene.call(RunKind::File, order).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, ToolInvoked).allowed_by.as_deref(), Some("ann"));
    assert_eq!((count(&events, "approval.requested"), count(&events, "tool.completed")), (0, 1));
}
