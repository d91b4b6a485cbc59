//! Allowances ("Always allow this"): what they cover, for whom, and what still needs approval.

use std::sync::Arc;

use recount_engine::{
    AllowanceFilter, ListQuery, Narrowing, NewSetup, NewTask, Redactor, RunConfig, Setup as Chosen,
};
use recount_event::family::approval::AllowanceScope;
use recount_event::family::run::RunKind;
use recount_event::{Code, Event, ForeignId, Payload, RunId, SessionId, TaskId};
use recount_redact::Secret;

use crate::runs::scene::{Scene, Setup, count, first, model_run, refusals, types};

/// A policy under which everything needs approval.
pub(crate) const ASK_ALL: &str = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\n";

fn turns(calls: &[&str]) -> String {
    let turns: Vec<String> = calls.iter().map(|call| format!("[[turn]]\ncall = [{call}]\n")).collect();
    format!("{}[[turn]]\ntext = 'Done.'\n", turns.concat())
}

fn meets_call(what: &str) -> String {
    format!("{{ name = 'meets', input = {{ say = '{what}' }} }}")
}

async fn scene(calls: &[&str]) -> Scene {
    Scene::with_policy(&turns(calls), ASK_ALL, 8).await
}

/// Approves the open request with an allowance, and waits for the end or for the next request.
async fn always(scene: &Scene, run: RunId, scope: AllowanceScope) -> Vec<Event> {
    let events = scene.until(run, "run.waiting").await;
    scene.always(run, &events, scope).await.unwrap();
    let after = events.last().unwrap().sequence;
    scene.until_after(run, Some(after), "run.waiting").await
}

async fn task(scene: &Scene) -> TaskId {
    scene.engine.write().create_task_keyed(NewTask::default(), None, None).await.unwrap().0.id
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

/// Whether a run ends without an approval request.
async fn goes_through(scene: &Scene, run: RunId) -> bool {
    let events = scene.until(run, "run.waiting").await;
    let needs_approval = count(&events, "approval.requested") > 0;
    if needs_approval {
        scene.approve_all(run).await;
    }
    !needs_approval
}

#[tokio::test]
async fn an_allowed_call_needs_no_second_approval_and_the_log_names_the_approver() {
    let scene = scene(&[&meets_call("x"), &meets_call("x"), &meets_call("y")]).await;
    let run = scene.start("go").await;
    let events = always(&scene, run, AllowanceScope::Run).await;
    let resolved = first!(events, ApprovalResolved);
    assert_eq!(resolved.scope.as_deref(), Some("run"));
    let id = resolved.allowance_id.unwrap();
    // The second call was allowed; the third has another input.
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
async fn a_call_whose_allowance_is_revoked_while_it_waits_does_nothing() {
    let policy = "[[rules]]\nid = \"toy\"\ntool = \"meets\"\naction = \"ask\"\n".to_owned();
    let script = turns(&[&meets_call("x")]);
    let scene = Scene::with_setup(Setup { script, policy, tools_at_once: 1, ..Setup::default() }).await;
    let run = scene.start("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    let long = RunConfig { command: Some("echo here; sleep 600".into()), ..RunConfig::default() };
    let busy = scene.call(RunKind::Shell, long).await;
    scene.until(busy, "tool.shell.output_chunk").await;
    let waits = scene.start("go").await;
    let events = scene.until(waits, "run.throttled").await;
    assert_eq!((count(&events, "tool.invoked"), count(&events, "approval.requested")), (1, 0));
    let id = ForeignId::parse(&listed(&scene).await[0].id).unwrap();
    scene.engine.write().revoke_allowance(&id).await.unwrap();
    scene.cancel(busy).await;
    let events = scene.ended(waits).await;
    let failed = first!(events, ToolFailed);
    let error = failed.error.as_deref().unwrap();
    assert!(error.contains("revoked before the call began"), "{failed:?}");
    assert_eq!(count(&events, "tool.completed"), 0);
}

#[tokio::test]
async fn each_scope_covers_exactly_its_runs() {
    for (scope, in_session, elsewhere) in [
        (AllowanceScope::Run, false, false),
        (AllowanceScope::Session, true, false),
        (AllowanceScope::Workspace, true, true),
    ] {
        let scene = scene(&[&meets_call("x")]).await;
        let session = session(&scene).await;
        let run = scene.start_with("go", RunConfig::default(), None, Some(session)).await;
        always(&scene, run, scope).await;
        scene.ended(run).await;
        let run = scene.start_with("again", RunConfig::default(), None, Some(session)).await;
        assert_eq!(goes_through(&scene, run).await, in_session, "{scope} in its session");
        let run = scene.start("go").await;
        assert_eq!(goes_through(&scene, run).await, elsewhere, "{scope} elsewhere");
    }
}

#[tokio::test]
async fn another_folder_mode_or_network_access_needs_another_approval() {
    let scene = scene(&[&meets_call("x")]).await;
    let run = scene.start("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    let other = scene.work().join("other");
    std::fs::create_dir(&other).unwrap();
    let order = RunConfig { workspace_source: Some(other.display().to_string()), ..RunConfig::default() };
    let run = scene.start_with("go", order, None, None).await;
    assert!(!goes_through(&scene, run).await, "in another folder");
    let mut queued = model_run("go");
    queued.workspace_mode = Some("in_place".into());
    let run = scene.queue(queued, RunConfig::default(), None, None).await;
    assert!(!goes_through(&scene, run).await, "in place");
}

#[tokio::test]
async fn an_edit_with_other_bytes_needs_another_approval() {
    let write = "{ name = 'write_file', input = { path = 'a.txt', content = \"one\\n\" } }";
    let scene = scene(&[write, write]).await;
    let run = scene.start("go").await;
    // The second call would overwrite a file that exists by now.
    let events = always(&scene, run, AllowanceScope::Run).await;
    assert_eq!(count(&events, "approval.requested"), 1, "{:?}", types(&events));
    scene.cancel(run).await;
    scene.ended(run).await;
}

#[tokio::test]
async fn grave_calls_cannot_be_remembered_and_blocking_rules_still_block() {
    let grave = "[[rules]]\nid = \"all\"\ntool = \"*\"\naction = \"ask\"\nrisk = \"high\"\n";
    let mut scene = Scene::with_policy(&turns(&[&meets_call("x")]), grave, 8).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(first!(events, ApprovalRequested).allowance_digest, None);
    let refused = scene.always(run, &events, AllowanceScope::Run).await.unwrap_err();
    assert_eq!(refused.code(), Code::AllowanceRefused, "{refused}");
    // Nothing was decided.
    scene.setup.policy = ASK_ALL.to_owned();
    scene.decide(run, &events, true).await;
    scene.ended(run).await;
    scene.restart().await;
    let run = scene.start("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    // A later policy makes the allowed call high-risk, and the one after it blocks it.
    scene.setup.policy = grave.to_owned();
    scene.restart().await;
    let run = scene.start("go").await;
    assert!(!goes_through(&scene, run).await);
    scene.setup.policy = "[[rules]]\nid = \"no\"\ntool = \"*\"\naction = \"block\"\n".to_owned();
    scene.restart().await;
    let run = scene.start("go").await;
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events)[0].0, "blocked");
}

#[tokio::test]
async fn a_scope_that_the_run_lacks_is_refused_and_nothing_is_decided() {
    let scene = scene(&[&meets_call("x")]).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "run.waiting").await;
    let refused = scene.always(run, &events, AllowanceScope::Session).await.unwrap_err();
    assert_eq!(refused.code(), Code::AllowanceRefused, "{refused}");
    assert!(refused.to_string().contains("belongs to no session"), "{refused}");
    scene.decide(run, &events, true).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, ApprovalResolved).allowance_id, None);
}

#[tokio::test]
async fn an_allowance_survives_a_restart_until_it_is_revoked() {
    let mut scene = scene(&[&meets_call("x")]).await;
    let run = scene.start("go").await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    scene.restart().await;
    let run = scene.start("go").await;
    assert!(goes_through(&scene, run).await);
    let id = ForeignId::parse(&listed(&scene).await[0].id).unwrap();
    assert_eq!(scene.engine.write().revoke_allowance(&id).await.unwrap().given_by, "ann");
    assert_eq!(scene.engine.write().revoke_allowance(&id).await.unwrap_err().code(), Code::AllowanceNotFound);
    let run = scene.start("go").await;
    assert!(!goes_through(&scene, run).await);
    assert!(listed(&scene).await.is_empty());
}

#[tokio::test]
async fn the_same_allowance_is_stored_once() {
    let both = format!("{}, {}", meets_call("x"), meets_call("x"));
    let scene = scene(&[&both]).await;
    let run = scene.start("go").await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(count(&events, "approval.requested"), 2);
    scene.always(run, &events, AllowanceScope::Workspace).await.unwrap();
    let second = crate::runs::scene::approval_ids(&events)[1..].to_vec();
    let events: Vec<Event> = events
        .into_iter()
        .filter(|event| match event.payload() {
            Payload::ApprovalRequested(request) => second.contains(&request.approval_id),
            _ => false,
        })
        .collect();
    scene.always(run, &events, AllowanceScope::Workspace).await.unwrap();
    scene.ended(run).await;
    let left = listed(&scene).await;
    assert_eq!(left.len(), 1, "{left:#?}");
    scene.engine.write().revoke_allowance(&ForeignId::parse(&left[0].id).unwrap()).await.unwrap();
    let run = scene.start("go").await;
    assert!(!goes_through(&scene, run).await);
}

#[tokio::test]
async fn an_allowance_is_erased_with_its_run() {
    let scene = scene(&[&meets_call("x")]).await;
    let task = task(&scene).await;
    let run = scene.start_with("go", RunConfig::default(), Some(task), None).await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    scene.engine.admin().delete_task(task, "ann").await.unwrap();
    assert!(listed(&scene).await.is_empty());
    let run = scene.start("go").await;
    assert!(!goes_through(&scene, run).await);
}

#[tokio::test]
async fn calls_that_differ_only_in_a_secret_are_distinct_and_the_secret_is_not_stored() {
    const ONE: &str = "canary-3c1f9b52d07e";
    const OTHER: &str = "canary-9d07e3c1f9b5";
    let secrets = [ONE, OTHER].map(|secret| Secret::new(secret).unwrap()).to_vec();
    let redactor = Arc::new(Redactor::new(secrets, true));
    let script = turns(&[&meets_call(ONE), &meets_call(ONE), &meets_call(OTHER)]);
    let setup = Setup { script, policy: ASK_ALL.to_owned(), redactor, ..Setup::default() };
    let scene = Scene::with_setup(setup).await;
    let run = scene.start("go").await;
    let events = always(&scene, run, AllowanceScope::Run).await;
    assert_eq!(count(&events, "tool.completed"), 2, "{:?}", types(&events));
    assert_eq!(count(&events, "approval.requested"), 1);
    assert!(!scene.disk.has_seen(ONE) && !scene.disk.has_seen(OTHER));
    // The stored allowance shows what the person saw.
    assert!(listed(&scene).await[0].preview.as_ref().is_some_and(|preview| preview.contains("***")));
    scene.cancel(run).await;
    scene.ended(run).await;
}

#[tokio::test]
async fn a_run_of_one_call_uses_allowances_too() {
    use recount_engine::FileCall;
    use recount_event::family::run::RunKind;
    let scene = scene(&[]).await;
    scene.put("a.txt", "one\n");
    let input = recount_event::Json::parse(r#"{"path":"a.txt"}"#).unwrap();
    let order =
        RunConfig { file: Some(FileCall { tool: "read_file".into(), input }), ..RunConfig::default() };
    let run = scene.call(RunKind::File, order.clone()).await;
    always(&scene, run, AllowanceScope::Workspace).await;
    scene.ended(run).await;
    let run = scene.call(RunKind::File, order).await;
    let events = scene.ended(run).await;
    assert_eq!(first!(events, ToolInvoked).allowed_by.as_deref(), Some("ann"));
    assert_eq!((count(&events, "approval.requested"), count(&events, "tool.completed")), (0, 1));
}
