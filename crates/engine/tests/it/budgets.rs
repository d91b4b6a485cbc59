//! Budgets of tasks: each own run is queued with the budget and the earlier usage, and a budget is only raised.

use futures_util::future::join_all;
use recount_engine::{NewRun, NewTask, TaskChange};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Payload, RunId, TaskId};

use crate::artifacts::progress;
use crate::scene::{Scene, code, drafts};

async fn task(scene: &Scene, micros_usd: Option<u64>) -> TaskId {
    let new = NewTask { title: None, budget_micros_usd: micros_usd, budget_tokens: None };
    scene.engine.write().create_task_keyed(new, None, None).await.unwrap().0.id
}

async fn queue(scene: &Scene, task: TaskId) -> Result<RunId, recount_engine::Error> {
    let new = NewRun {
        queued: Queued::new(RunKind::AgentLoop),
        task: Some(task),
        session: None,
        resumed_from: None,
    };
    scene.engine.write().create_run(new).await.map(|(run, _)| run)
}

async fn queued(scene: &Scene, run: RunId) -> Queued {
    match scene.events(run).await[0].payload() {
        Payload::RunQueued(queued) => (**queued).clone(),
        other => panic!("{} is first", other.type_name()),
    }
}

/// Uses this much in one turn, and ends.
async fn spend(scene: &Scene, run: RunId, before: [u64; 3], used: [u64; 3], warn: bool) {
    let [input, output, cost] = used;
    let sum: Vec<u64> = before.iter().zip(used).map(|(before, used)| before + used).collect();
    let completed = format!(
        r#"{{"turn_index":0,"stop_reason":"end_turn","input_tokens":{input},"output_tokens":{output},"cost_micros_usd":{cost}}}"#
    );
    let tick = format!(
        r#"{{"cumulative_input_tokens":{},"cumulative_output_tokens":{},"cumulative_cost_micros_usd":{}}}"#,
        sum[0], sum[1], sum[2]
    );
    let warning = format!(
        r#"{{"threshold_pct":80,"cumulative_cost_micros_usd":{},"task_budget_micros_usd":100}}"#,
        sum[2]
    );
    let mut events = vec![
        ("run.started", "{}"),
        ("turn.started", r#"{"turn_index":0}"#),
        ("turn.completed", completed.as_str()),
        ("cost.tick", tick.as_str()),
    ];
    if warn {
        events.push(("cost.budget_warning", warning.as_str()));
    }
    events.push(("run.finished", r#"{"final_status":"completed"}"#));
    progress(scene, run, drafts(&events)).await;
}

#[tokio::test(start_paused = true)]
async fn each_run_is_queued_with_the_budget_and_usage_of_its_task() {
    let mut scene = Scene::new().await;
    let task = task(&scene, Some(100)).await;
    let first = queue(&scene, task).await.unwrap();
    let queued_event = queued(&scene, first).await;
    assert_eq!(
        (queued_event.task_budget_micros_usd, queued_event.prior_cost_micros_usd, queued_event.prior_run_id),
        (Some(100), None, None)
    );
    assert_eq!(code(queue(&scene, task).await), Code::TaskBusy);
    spend(&scene, first, [0; 3], [7, 5, 85], true).await;
    scene.check().await;
    scene.reopen().await;
    let budget = scene.engine.catalogue().task_budget(task).await.unwrap();
    assert_eq!((budget.micros_usd_left(), budget.tokens_used(), budget.tokens_left()), (Some(15), 12, None));
    let second = queue(&scene, task).await.unwrap();
    let queued_event = queued(&scene, second).await;
    assert_eq!(queued_event.prior_run_id, Some(first.to_string()));
    assert_eq!((queued_event.prior_input_tokens, queued_event.prior_output_tokens), (Some(7), Some(5)));
    assert_eq!((queued_event.prior_cost_micros_usd, queued_event.budget_warned), (Some(85), Some(true)));
    spend(&scene, second, [7, 5, 85], [1, 1, 5], false).await;
    let budget = scene.engine.catalogue().task_budget(task).await.unwrap();
    assert_eq!((budget.spent_micros_usd, budget.input_tokens, budget.warned), (90, 8, true));
    // A pruned run still has its usage.
    scene.engine.admin().prune(second, None, "test").await.unwrap();
    scene.check().await;
    scene.reopen().await;
    assert_eq!(scene.engine.catalogue().task_budget(task).await.unwrap(), budget);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_can_only_be_raised_also_during_concurrent_changes() {
    let scene = Scene::new().await;
    let task = task(&scene, Some(100)).await;
    let raise_to = |micros: u64| TaskChange { budget_micros_usd: Some(micros), ..TaskChange::default() };
    let refused = scene.engine.write().change_task(task, raise_to(99)).await.unwrap_err();
    assert_eq!(refused.code(), Code::BudgetNotRaised);
    assert!(refused.to_string().contains("99") && refused.to_string().contains("100"), "{refused}");
    let raises: Vec<TaskChange> = (100..108).map(raise_to).collect();
    let answers =
        join_all(raises.into_iter().map(|change| scene.engine.write().change_task(task, change))).await;
    assert!(answers.iter().all(|answer| match answer {
        Ok(_) => true,
        Err(error) => [Code::BudgetNotRaised, Code::StoreBusy].contains(&error.code()),
    }));
    let row = scene.engine.catalogue().task(task).await.unwrap().unwrap();
    assert!(row.budget_micros_usd >= Some(101), "{row:?}");
    let tokens = TaskChange { budget_tokens: Some(5), title: Some("t".into()), ..TaskChange::default() };
    let row = scene.engine.write().change_task(task, tokens).await.unwrap();
    assert_eq!((row.budget_tokens, row.title.as_deref()), (Some(5), Some("t")));
    // A run is queued with the current budget.
    let (run, raised) =
        tokio::join!(queue(&scene, task), scene.engine.write().change_task(task, raise_to(500)));
    raised.unwrap();
    let queued_event = queued(&scene, run.unwrap()).await;
    assert_eq!(queued_event.task_budget_tokens, Some(5));
    let unknown = "task_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
    assert_eq!(code(scene.engine.write().change_task(unknown, raise_to(1)).await), Code::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn of_many_concurrent_runs_one_is_queued_with_the_full_usage() {
    let scene = Scene::new().await;
    let task = task(&scene, None).await;
    for round in 0..3 {
        let runs = join_all((0..10).map(|_| queue(&scene, task))).await;
        let mut created: Vec<RunId> = runs.into_iter().filter_map(Result::ok).collect();
        assert_eq!(created.len(), 1);
        let run = created.remove(0);
        let queued_event = queued(&scene, run).await;
        assert_eq!(queued_event.prior_cost_micros_usd.unwrap_or(0), round * 10);
        spend(&scene, run, [0, 0, round * 10], [0, 0, 10], false).await;
    }
    scene.check().await;
}
