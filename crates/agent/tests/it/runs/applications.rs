//! Tools that an application carries out itself, and tools of ours that it enabled without trusting them.

use recount_engine::{ClientTool, Order, OrderChange};
use recount_event::{Event, ForeignId, Json, Payload, RunId};
use recount_run::{CallAnswer, CallSaid, Command};

use crate::runs::scene::{Scene, asked, count, course, first, refusals, results, types};

pub(crate) fn client_tool(name: &str) -> ClientTool {
    ClientTool {
        name: name.into(),
        title: None,
        description: format!("does {name}"),
        parameters: Json::parse(r#"{"type":"object","properties":{"city":{"type":"string"}}}"#).unwrap(),
    }
}

/// An order of an application that brings one tool.
fn weather() -> Order {
    Order { client_tools: vec![client_tool("weather")], tools: Some(vec![]), ..Order::default() }
}

/// The call that was proposed for a tool.
pub(crate) fn call_of(events: &[Event], tool: &str) -> ForeignId {
    let proposed = |event: &Event| match event.payload() {
        Payload::AssistantToolCallProposed(call) if call.tool_name == tool => Some(call.tool_call_id.clone()),
        _ => None,
    };
    events.iter().find_map(proposed).unwrap_or_else(|| panic!("nobody called {tool}: {:?}", types(events)))
}

pub(crate) fn output(tool_call_id: ForeignId, output: &str) -> CallAnswer {
    let said = CallSaid::Output { output: Json::parse(output).unwrap(), text: output.to_owned() };
    CallAnswer { tool_call_id, said }
}

pub(crate) async fn answer(scene: &Scene, run: RunId, answers: Vec<CallAnswer>, config: Option<Json>) {
    let (by, via) = ("ann".into(), "aap".into());
    let command = Command::AnswerCalls { answers, by, via, config, lenient: false };
    scene.engine.write().submit(run, command).await.unwrap();
}

const WEATHER: &str = r#"
[[turn]]
text = "I look."
call = [{ name = "weather", input = { city = "Oslo" } }]
[[turn]]
when = "rain"
text = "Take a coat."
"#;

#[tokio::test]
async fn a_call_of_an_applications_tool_is_handed_over_and_its_result_is_what_the_model_hears() {
    let scene = Scene::with(WEATHER).await;
    let run = scene.ask_for("go out?", weather(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let invoked = first!(events, ToolInvoked);
    assert_eq!(invoked.executor.unwrap().as_str(), "client");
    assert_eq!((invoked.turn_index, invoked.args_summary.as_deref()), (Some(0), Some(r#"{"city":"Oslo"}"#)));
    let waits_for = first!(events, RunWaiting).waits_for;
    assert_eq!((waits_for.len(), waits_for[0].kind.as_str()), (1, "client_tool"));
    assert_eq!(waits_for[0].id, call_of(&events, "weather"));
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], None).await;
    let events = scene.ended(run).await;
    assert_eq!(
        course(&events),
        [
            "assistant.tool_call_proposed",
            "turn.completed",
            "tool.invoked",
            "run.waiting",
            "tool.completed",
            "run.continued",
            "assistant.final_answer",
            "turn.completed",
            "run.finished",
        ]
    );
    assert_eq!(results(&events), [("rain".to_owned(), false)]);
    assert_eq!(first!(events, AssistantFinalAnswer).summary, "Take a coat.");
}

#[tokio::test]
async fn an_applications_result_is_waited_for_across_a_restart() {
    let mut scene = Scene::with(WEATHER).await;
    let run = scene.ask_for("go out?", weather(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    scene.restart().await;
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], None).await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    assert_eq!((count(&events, "gap.run_disconnected"), count(&events, "tool.invoked")), (0, 1));
}

#[tokio::test]
async fn a_call_that_an_application_has_is_cancelled_with_its_run() {
    let scene = Scene::with(WEATHER).await;
    let run = scene.ask_for("go out?", weather(), None, None).await;
    scene.until(run, "run.waiting").await;
    scene.cancel(run).await;
    let events = scene.ended(run).await;
    assert_eq!(refusals(&events), [("cancelled".to_owned(), "enough".to_owned())]);
    assert_eq!(types(&events).last(), Some(&"run.cancelled"));
}

const MIXED: &str = r#"
[[turn]]
text = "All at once."
call = [
  { name = "weather", input = { city = "Oslo" } },
  { name = "glob", input = { pattern = "*" } },
  { name = "write_file", input = { path = "a.txt", content = "one" } },
  { name = "ask_user", input = { question = "Which one?" } },
  { name = "weather", raw = "[1]" },
]
[[turn]]
text = "Done."
"#;

fn mixed() -> Order {
    let tools = ["glob", "write_file", "ask_user"].map(str::to_owned);
    Order {
        client_tools: vec![client_tool("weather")],
        tools: Some(tools.into()),
        ask_first: vec!["write_file".into(), "ask_user".into()],
        ..Order::default()
    }
}

/// P-042, P-049: what needs nobody is done first, then all that needs the application is open at once, and a question
/// is asked when that is answered.
#[tokio::test]
async fn permissions_and_calls_of_the_application_are_open_together_and_questions_come_behind_them() {
    let scene = Scene::with(MIXED).await;
    let run = scene.ask_for("go", mixed(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    assert_eq!(
        course(&events)[6..],
        [
            "tool.refused",
            "tool.invoked",
            "tool.started",
            "tool.glob.completed",
            "tool.completed",
            "approval.requested",
            "tool.invoked",
            "run.waiting",
        ],
        "{:?}",
        course(&events)
    );
    assert_eq!(first!(events, ToolRefused).code.as_str(), "invalid_input");
    let asked = first!(events, ApprovalRequested);
    assert!(asked.policy_reason.unwrap().contains("without trusting it"));
    assert_eq!(asked.default_decision.unwrap().as_str(), "reject");
    let mut kinds: Vec<String> =
        first!(events, RunWaiting).waits_for.iter().map(|open| open.kind.as_str().to_owned()).collect();
    kinds.sort();
    assert_eq!(kinds, ["approval", "client_tool"]);
    let granted = CallAnswer { tool_call_id: call_of(&events, "write_file"), said: CallSaid::Granted };
    let after = events.last().map(|event| event.sequence);
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\""), granted], None).await;
    let events = scene.until_after(run, after, "run.waiting").await;
    let question = first!(events, ClarificationRequested);
    // What was allowed is done before anything else is asked.
    assert_eq!(count(&events, "tool.file_write.applied"), 1);
    scene.answer(run, question.clarification_id, "\"the blue one\"").await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    let told: Vec<String> = results(&events).into_iter().map(|(text, _)| text).collect();
    assert_eq!((told[0].as_str(), told[3].as_str()), ("rain", "the blue one"));
}

/// P-050: who answers some of what is open is told of the rest, and the model is not asked.
#[tokio::test]
async fn what_is_answered_in_part_waits_for_the_rest() {
    let mut scene = Scene::with(MIXED).await;
    let run = scene.ask_for("go", mixed(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let after = events.last().map(|event| event.sequence);
    let granted = CallAnswer { tool_call_id: call_of(&events, "write_file"), said: CallSaid::Granted };
    answer(&scene, run, vec![granted], None).await;
    let rest = scene.until_after(run, after, "run.waiting").await;
    assert_eq!(types(&rest), ["approval.resolved", "run.continued", "run.waiting"]);
    scene.restart().await;
    let after = rest.last().map(|event| event.sequence);
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], None).await;
    let events = scene.until_after(run, after, "run.waiting").await;
    assert_eq!(count(&events, "tool.file_write.applied"), 1, "{:?}", types(&events));
    assert_eq!(count(&events, "clarification.requested"), 1);
}

/// P-046: what the policy would let pass is asked about, what it blocks stays blocked.
#[tokio::test]
async fn an_untrusted_tool_runs_with_leave_only() {
    let script =
        "[[turn]]\ncall = [{ name = 'glob', input = { pattern = '*' } }]\n[[turn]]\ntext = 'Done.'\n";
    for approve in [true, false] {
        let scene = Scene::with(script).await;
        let order = Order { ask_first: vec!["glob".into()], ..Order::default() };
        let run = scene.ask_for("go", order, None, None).await;
        let events = scene.until(run, "run.waiting").await;
        assert_eq!(count(&events, "tool.invoked"), 0);
        scene.decide(run, &events, approve).await;
        let events = scene.ended(run).await;
        assert_eq!(count(&events, "tool.invoked"), usize::from(approve));
        assert_eq!(results(&events)[0].1, !approve);
    }
    let block = "[[rules]]\nid = 'no'\ntool = 'glob'\naction = 'block'\n";
    let scene = Scene::under(script, block, 8).await;
    let order = Order { ask_first: vec!["glob".into()], ..Order::default() };
    let run = scene.ask_for("go", order, None, None).await;
    assert_eq!(refusals(&scene.ended(run).await)[0].0, "blocked");
}

#[tokio::test]
async fn tools_of_an_application_that_cannot_be_told_apart_are_refused() {
    let scene = Scene::with("[[turn]]\ntext = 'Hello.'").await;
    let mut wrong = client_tool("list");
    wrong.parameters = Json::parse("[]").unwrap();
    let refused = [
        (vec![client_tool("glob")], None, "glob"),
        (vec![client_tool("ask_user")], Some(vec![]), "ask_user"),
        (vec![client_tool("x"), client_tool("x")], Some(vec![]), "two tools"),
        (vec![client_tool("")], Some(vec![]), "1 to 128"),
        (vec![client_tool(&"n".repeat(129))], Some(vec![]), "1 to 128"),
        (vec![client_tool("a\nb")], Some(vec![]), "control"),
        (vec![wrong], Some(vec![]), "send an object"),
    ];
    for (client_tools, tools, why) in refused {
        let order = Order { client_tools, tools, ..Order::default() };
        let error = scene.try_queue(asked("hello"), order, None, None).await.unwrap_err();
        let recount_engine::Error::Rejected(no) = error else { panic!("{error}") };
        assert_eq!(no.code.as_str(), "order_refused");
        assert!(no.message.contains(why), "{}", no.message);
    }
    // A name of ours is free where ours is not to be used.
    let order = Order { client_tools: vec![client_tool("glob")], tools: Some(vec![]), ..Order::default() };
    scene.try_queue(asked("hello"), order, None, None).await.unwrap();
}

/// P-059, P-060: what is chosen with an answer holds from there on, also after a restart.
#[tokio::test]
async fn what_is_chosen_anew_with_an_answer_holds_from_there_on() {
    let script = r#"
[[turn]]
call = [{ name = "weather", input = { city = "Oslo" } }]
[[turn]]
call = [{ name = "tide" }, { name = "weather" }]
[[turn]]
text = "Done."
"#;
    let mut scene = Scene::with(script).await;
    let run = scene.ask_for("go", weather(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let changed = Order { client_tools: vec![client_tool("tide")], ..weather() };
    let change = OrderChange::to(Some("play/it".into()), &changed).written();
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], Some(change)).await;
    let after = events.last().map(|event| event.sequence);
    let events = scene.until_after(run, after, "run.waiting").await;
    assert_eq!(first!(events, ToolRefused).code.as_str(), "unknown_tool");
    scene.restart().await;
    answer(&scene, run, vec![output(call_of(&events, "tide"), "\"low\"")], None).await;
    assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.finished"));
}

/// P-060: leave that was given before a tool was taken away is worth nothing any more, whatever else is waited for.
#[tokio::test]
async fn a_call_that_was_allowed_is_not_carried_out_when_its_tool_was_taken_away_since() {
    let mut scene = Scene::with(MIXED).await;
    let run = scene.ask_for("go", mixed(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let granted = CallAnswer { tool_call_id: call_of(&events, "write_file"), said: CallSaid::Granted };
    answer(&scene, run, vec![granted], None).await;
    scene.restart().await;
    let less = Order { tools: Some(vec!["glob".into()]), ask_first: vec![], ..mixed() };
    let change = OrderChange::to(None, &less).written();
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], Some(change)).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "tool.file_write.applied"), 0, "{:?}", types(&events));
    assert_eq!(first!(events, ToolFailed).code.as_deref(), Some("not_offered"));
    assert_eq!(count(&events, "clarification.requested"), 0);
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

/// Providers take plain names only, and want to hear that an input is an object.
#[tokio::test]
async fn a_tool_by_any_name_is_called_by_its_application_s_own() {
    let script = r#"
[[turn]]
call = [{ name = "fs_read_2", input = { city = "Oslo" } }, { name = "fs_read" }, { name = "of what?" }]
[[turn]]
text = "Done."
"#;
    let scene = Scene::with(script).await;
    let mut bare = client_tool("fs.read");
    bare.parameters = Json::parse("{}").unwrap();
    let order =
        Order { client_tools: vec![bare, client_tool("fs_read")], tools: Some(vec![]), ..Order::default() };
    let run = scene.ask_for("go", order, None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let invoked: Vec<String> = events
        .iter()
        .filter_map(|event| match event.payload() {
            Payload::ToolInvoked(invoked) => Some(invoked.tool_name.clone()),
            _ => None,
        })
        .collect();
    assert_eq!(invoked, ["fs.read", "fs_read"]);
    assert_eq!(first!(events, ToolRefused).tool_name, "of what?");
}

/// Wherever a process dies, what waits for the application still waits, nothing is carried out twice, and every call has
/// one end.
#[tokio::test]
async fn a_process_may_die_behind_any_event_of_a_step_with_calls_of_every_sort() {
    let mut reached = 0;
    for dies_behind in 1_u64.. {
        let mut scene = Scene::with(MIXED).await;
        let run = scene.ask_for("go", mixed(), None, None).await;
        let mut after = None;
        let mut has_died = false;
        let events = loop {
            let mut heard = scene.engine.read().follow_events(run, after).await.unwrap();
            let mut waits = None;
            let mut last = after;
            while waits.is_none() {
                let Some(news) = heard.next().await.unwrap() else { break };
                last = news.last().map(|event| event.sequence);
                if !has_died && last >= Some(dies_behind) {
                    has_died = true;
                    reached = dies_behind;
                    scene.restart().await;
                    heard = scene.engine.read().follow_events(run, last).await.unwrap();
                }
                waits = news.iter().rev().find_map(|event| match event.payload() {
                    Payload::RunWaiting(waiting) => Some(waiting.waits_for.clone()),
                    _ => None,
                });
            }
            let Some(waits) = waits else { break scene.all(run).await };
            after = last;
            let events = scene.all(run).await;
            match waits[0].kind.as_str() {
                "clarification" => scene.answer(run, waits[0].id.clone(), "\"blue\"").await,
                _ => {
                    let granted =
                        CallAnswer { tool_call_id: call_of(&events, "write_file"), said: CallSaid::Granted };
                    let rain = output(call_of(&events, "weather"), "\"rain\"");
                    answer(&scene, run, vec![rain, granted], None).await;
                }
            }
        };
        assert_eq!(types(&events).last(), Some(&"run.finished"), "{dies_behind}: {:?}", types(&events));
        let ids = |wanted: fn(&Payload) -> Option<&ForeignId>| {
            let mut ids: Vec<ForeignId> =
                events.iter().filter_map(|event| wanted(event.payload()).cloned()).collect();
            ids.sort();
            ids
        };
        let proposed = ids(|payload| match payload {
            Payload::AssistantToolCallProposed(call) => Some(&call.tool_call_id),
            _ => None,
        });
        let settled = ids(|payload| match payload {
            Payload::ToolRefused(refused) => Some(&refused.tool_call_id),
            Payload::ToolCompleted(ended) | Payload::ToolFailed(ended) => Some(&ended.tool_call_id),
            _ => None,
        });
        let mut invoked = ids(|payload| match payload {
            Payload::ToolInvoked(invoked) => Some(&invoked.tool_call_id),
            _ => None,
        });
        assert_eq!(proposed, settled, "{dies_behind}");
        let count = invoked.len();
        invoked.dedup();
        assert_eq!(count, invoked.len(), "{dies_behind}");
        if !has_died {
            break;
        }
    }
    assert!(reached > 25, "{reached}");
}
