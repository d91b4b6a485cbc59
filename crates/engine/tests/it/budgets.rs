//! What a task may spend: told to each run of ours with what those before it have spent, and only ever raised.

use futures_util::future::join_all;
use recount_engine::{NewRun, NewTask, Raise};
use recount_event::family::run::{Queued, RunKind};
use recount_event::{Code, Payload, RunId, TaskId};

use crate::artifacts::say;
use crate::scene::{Scene, code, drafts};

async fn task(scene: &Scene, micros_usd: Option<u64>) -> TaskId {
    let new = NewTask { title: None, budget_micros_usd: micros_usd, budget_tokens: None };
    scene.engine.write().create_task_once(new, None, None).await.unwrap().0.id
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

/// Spends so much in one turn, and ends.
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
    say(scene, run, drafts(&events)).await;
}

#[tokio::test(start_paused = true)]
async fn each_run_is_told_what_its_task_may_spend_and_has_spent() {
    let mut scene = Scene::new().await;
    let task = task(&scene, Some(100)).await;
    let first = queue(&scene, task).await.unwrap();
    let told = queued(&scene, first).await;
    assert_eq!(
        (told.task_budget_micros_usd, told.prior_cost_micros_usd, told.prior_run_id),
        (Some(100), None, None)
    );
    assert_eq!(code(queue(&scene, task).await), Code::TaskBusy);
    spend(&scene, first, [0; 3], [7, 5, 85], true).await;
    scene.check().await;
    scene.reopen().await;
    let budget = scene.engine.catalogue().task_budget(task).await.unwrap();
    assert_eq!((budget.micros_usd_left(), budget.tokens_used(), budget.tokens_left()), (Some(15), 12, None));
    let second = queue(&scene, task).await.unwrap();
    let told = queued(&scene, second).await;
    assert_eq!(told.prior_run_id, Some(first.to_string()));
    assert_eq!((told.prior_input_tokens, told.prior_output_tokens), (Some(7), Some(5)));
    assert_eq!((told.prior_cost_micros_usd, told.budget_warned), (Some(85), Some(true)));
    spend(&scene, second, [7, 5, 85], [1, 1, 5], false).await;
    let budget = scene.engine.catalogue().task_budget(task).await.unwrap();
    assert_eq!((budget.spent_micros_usd, budget.input_tokens, budget.warned), (90, 8, true));
    // A run whose beginning is gone still says what was spent.
    scene.engine.admin().prune(second, None, "test").await.unwrap();
    scene.check().await;
    scene.reopen().await;
    assert_eq!(scene.engine.catalogue().task_budget(task).await.unwrap(), budget);
    scene.check().await;
}

#[tokio::test(start_paused = true)]
async fn a_budget_is_only_raised_and_may_be_raised_while_others_change_the_task() {
    let scene = Scene::new().await;
    let task = task(&scene, Some(100)).await;
    let raise = |micros: u64| Raise { budget_micros_usd: Some(micros), ..Raise::default() };
    let refused = scene.engine.write().change_task(task, raise(99)).await.unwrap_err();
    assert_eq!(refused.code(), Code::BudgetNotRaised);
    assert!(refused.to_string().contains("99") && refused.to_string().contains("100"), "{refused}");
    let raises: Vec<Raise> = (100..108).map(raise).collect();
    let answers =
        join_all(raises.into_iter().map(|raise| scene.engine.write().change_task(task, raise))).await;
    assert!(answers.iter().all(|answer| match answer {
        Ok(_) => true,
        Err(error) => [Code::BudgetNotRaised, Code::StoreBusy].contains(&error.code()),
    }));
    let row = scene.engine.catalogue().task(task).await.unwrap().unwrap();
    assert!(row.budget_micros_usd >= Some(101), "{row:?}");
    let tokens = Raise { budget_tokens: Some(5), title: Some("t".into()), ..Raise::default() };
    let row = scene.engine.write().change_task(task, tokens).await.unwrap();
    assert_eq!((row.budget_tokens, row.title.as_deref()), (Some(5), Some("t")));
    // A run is told what holds when it is queued.
    let (run, raised) = tokio::join!(queue(&scene, task), scene.engine.write().change_task(task, raise(500)));
    raised.unwrap();
    let told = queued(&scene, run.unwrap()).await;
    assert_eq!(told.task_budget_tokens, Some(5));
    let nobody = "task_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
    assert_eq!(code(scene.engine.write().change_task(nobody, raise(1)).await), Code::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn of_many_runs_at_once_one_is_queued_with_all_that_was_spent() {
    let scene = Scene::new().await;
    let task = task(&scene, None).await;
    for round in 0..3 {
        let runs = join_all((0..10).map(|_| queue(&scene, task))).await;
        let mut made: Vec<RunId> = runs.into_iter().filter_map(Result::ok).collect();
        assert_eq!(made.len(), 1);
        let run = made.remove(0);
        let told = queued(&scene, run).await;
        assert_eq!(told.prior_cost_micros_usd.unwrap_or(0), round * 10);
        spend(&scene, run, [0, 0, round * 10], [0, 0, 10], false).await;
    }
    scene.check().await;
}
