//! Client tools, which an application executes itself, and built-in tools that it enabled without trust.

use recount_engine::{ClientTool, RunConfig, RunConfigChange};
use recount_event::{Event, ForeignId, Json, Payload, RunId};
use recount_run::{CallAnswer, CallResolution, Command};

use crate::runs::scene::{Scene, count, course, first, model_run, refusals, results, types};

pub(crate) fn client_tool(name: &str) -> ClientTool {
    ClientTool {
        name: name.into(),
        title: None,
        description: format!("does {name}"),
        parameters: Json::parse(r#"{"type":"object","properties":{"city":{"type":"string"}}}"#).unwrap(),
    }
}

/// The order of an application that brings one tool.
fn weather() -> RunConfig {
    RunConfig { client_tools: vec![client_tool("weather")], tools: Some(vec![]), ..RunConfig::default() }
}

/// The id of the call that was proposed for a tool.
pub(crate) fn call_of(events: &[Event], tool: &str) -> ForeignId {
    let proposed = |event: &Event| match event.payload() {
        Payload::AssistantToolCallProposed(call) if call.tool_name == tool => Some(call.tool_call_id.clone()),
        _ => None,
    };
    events.iter().find_map(proposed).unwrap_or_else(|| panic!("{tool} was not called: {:?}", types(events)))
}

pub(crate) fn output(tool_call_id: ForeignId, output: &str) -> CallAnswer {
    let resolution = CallResolution::Output { output: Json::parse(output).unwrap(), text: output.to_owned() };
    CallAnswer { tool_call_id, resolution }
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
async fn a_client_call_is_handed_over_and_its_result_reaches_the_model() {
    let scene = Scene::with(WEATHER).await;
    let run = scene.start_with("go out?", weather(), None, None).await;
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
async fn the_result_of_a_client_call_is_awaited_across_a_restart() {
    let mut scene = Scene::with(WEATHER).await;
    let run = scene.start_with("go out?", weather(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    scene.restart().await;
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], None).await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    assert_eq!((count(&events, "gap.run_disconnected"), count(&events, "tool.invoked")), (0, 1));
}

#[tokio::test]
async fn a_client_call_is_cancelled_with_its_run() {
    let scene = Scene::with(WEATHER).await;
    let run = scene.start_with("go out?", weather(), None, None).await;
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

fn mixed() -> RunConfig {
    let tools = ["glob", "write_file", "ask_user"].map(str::to_owned);
    RunConfig {
        client_tools: vec![client_tool("weather")],
        tools: Some(tools.into()),
        ask_first: vec!["write_file".into(), "ask_user".into()],
        ..RunConfig::default()
    }
}

/// P-042, P-049: calls that need no response run first, then all client calls and approvals are open at once, and
/// questions are asked after the responses.
#[tokio::test]
async fn approvals_and_client_calls_are_open_together_and_questions_follow() {
    let scene = Scene::with(MIXED).await;
    let run = scene.start_with("go", mixed(), None, None).await;
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
    let request = first!(events, ApprovalRequested);
    assert!(request.policy_reason.unwrap().contains("with approval required"));
    assert_eq!(request.default_decision.unwrap().as_str(), "reject");
    let mut kinds: Vec<String> =
        first!(events, RunWaiting).waits_for.iter().map(|open| open.kind.as_str().to_owned()).collect();
    kinds.sort();
    assert_eq!(kinds, ["approval", "client_tool"]);
    let granted =
        CallAnswer { tool_call_id: call_of(&events, "write_file"), resolution: CallResolution::Granted };
    let after = events.last().map(|event| event.sequence);
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\""), granted], None).await;
    let events = scene.until_after(run, after, "run.waiting").await;
    let question = first!(events, ClarificationRequested);
    // The allowed call runs before anything else is requested.
    assert_eq!(count(&events, "tool.file_write.applied"), 1);
    scene.answer(run, question.clarification_id, "\"the blue one\"").await;
    let events = scene.ended(run).await;
    assert_eq!(types(&events).last(), Some(&"run.finished"));
    let texts: Vec<String> = results(&events).into_iter().map(|(text, _)| text).collect();
    assert_eq!((texts[0].as_str(), texts[3].as_str()), ("rain", "the blue one"));
}

/// P-050: after a partial response the rest stays open, and the model is not called.
#[tokio::test]
async fn a_partial_response_waits_for_the_rest() {
    let mut scene = Scene::with(MIXED).await;
    let run = scene.start_with("go", mixed(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let after = events.last().map(|event| event.sequence);
    let granted =
        CallAnswer { tool_call_id: call_of(&events, "write_file"), resolution: CallResolution::Granted };
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

/// P-046: calls that the policy would allow need approval, and blocked ones stay blocked.
#[tokio::test]
async fn an_untrusted_tool_needs_approval() {
    let script =
        "[[turn]]\ncall = [{ name = 'glob', input = { pattern = '*' } }]\n[[turn]]\ntext = 'Done.'\n";
    for approve in [true, false] {
        let scene = Scene::with(script).await;
        let order = RunConfig { ask_first: vec!["glob".into()], ..RunConfig::default() };
        let run = scene.start_with("go", order, None, None).await;
        let events = scene.until(run, "run.waiting").await;
        assert_eq!(count(&events, "tool.invoked"), 0);
        scene.decide(run, &events, approve).await;
        let events = scene.ended(run).await;
        assert_eq!(count(&events, "tool.invoked"), usize::from(approve));
        assert_eq!(results(&events)[0].1, !approve);
    }
    let block = "[[rules]]\nid = 'no'\ntool = 'glob'\naction = 'block'\n";
    let scene = Scene::with_policy(script, block, 8).await;
    let order = RunConfig { ask_first: vec!["glob".into()], ..RunConfig::default() };
    let run = scene.start_with("go", order, None, None).await;
    assert_eq!(refusals(&scene.ended(run).await)[0].0, "blocked");
}

#[tokio::test]
async fn ambiguous_client_tools_are_refused() {
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
        let order = RunConfig { client_tools, tools, ..RunConfig::default() };
        let error = scene.try_queue(model_run("hello"), order, None, None).await.unwrap_err();
        let recount_engine::Error::Rejected(no) = error else { panic!("{error}") };
        assert_eq!(no.code.as_str(), "order_refused");
        assert!(no.message.contains(why), "{}", no.message);
    }
    // The name of a built-in tool is free if that tool is not enabled.
    let order =
        RunConfig { client_tools: vec![client_tool("glob")], tools: Some(vec![]), ..RunConfig::default() };
    scene.try_queue(model_run("hello"), order, None, None).await.unwrap();
}

/// P-059, P-060: settings sent with a response hold from there on, also after a restart.
#[tokio::test]
async fn settings_sent_with_a_response_hold_from_there_on() {
    let script = r#"
[[turn]]
call = [{ name = "weather", input = { city = "Oslo" } }]
[[turn]]
call = [{ name = "tide" }, { name = "weather" }]
[[turn]]
text = "Done."
"#;
    let mut scene = Scene::with(script).await;
    let run = scene.start_with("go", weather(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let changed = RunConfig { client_tools: vec![client_tool("tide")], ..weather() };
    let change = RunConfigChange::from_config(Some("play/it".into()), &changed).written();
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], Some(change)).await;
    let after = events.last().map(|event| event.sequence);
    let events = scene.until_after(run, after, "run.waiting").await;
    assert_eq!(first!(events, ToolRefused).code.as_str(), "unknown_tool");
    scene.restart().await;
    answer(&scene, run, vec![output(call_of(&events, "tide"), "\"low\"")], None).await;
    assert_eq!(types(&scene.ended(run).await).last(), Some(&"run.finished"));
}

/// P-060: an approval given before its tool was removed is void, even if the run waits for something else.
#[tokio::test]
async fn an_allowed_call_does_not_run_after_its_tool_was_removed() {
    let mut scene = Scene::with(MIXED).await;
    let run = scene.start_with("go", mixed(), None, None).await;
    let events = scene.until(run, "run.waiting").await;
    let granted =
        CallAnswer { tool_call_id: call_of(&events, "write_file"), resolution: CallResolution::Granted };
    answer(&scene, run, vec![granted], None).await;
    scene.restart().await;
    let less = RunConfig { tools: Some(vec!["glob".into()]), ask_first: vec![], ..mixed() };
    let change = RunConfigChange::from_config(None, &less).written();
    answer(&scene, run, vec![output(call_of(&events, "weather"), "\"rain\"")], Some(change)).await;
    let events = scene.ended(run).await;
    assert_eq!(count(&events, "tool.file_write.applied"), 0, "{:?}", types(&events));
    assert_eq!(first!(events, ToolFailed).code.as_deref(), Some("not_offered"));
    assert_eq!(count(&events, "clarification.requested"), 0);
    assert_eq!(types(&events).last(), Some(&"run.finished"));
}

/// Providers accept only plain names, and require an object schema.
#[tokio::test]
async fn client_tools_with_unusual_names_are_called_by_their_own_name() {
    let script = r#"
[[turn]]
call = [{ name = "fs_read_2", input = { city = "Oslo" } }, { name = "fs_read" }, { name = "of what?" }]
[[turn]]
text = "Done."
"#;
    let scene = Scene::with(script).await;
    let mut bare = client_tool("fs.read");
    bare.parameters = Json::parse("{}").unwrap();
    let order = RunConfig {
        client_tools: vec![bare, client_tool("fs_read")],
        tools: Some(vec![]),
        ..RunConfig::default()
    };
    let run = scene.start_with("go", order, None, None).await;
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

/// After a crash at any event, client calls are still open, nothing runs twice, and every call has one outcome.
#[tokio::test]
async fn a_crash_after_any_event_of_a_step_with_all_kinds_of_calls_is_recovered() {
    let mut reached = 0;
    for dies_after in 1_u64.. {
        let mut scene = Scene::with(MIXED).await;
        let run = scene.start_with("go", mixed(), None, None).await;
        let mut after = None;
        let mut has_died = false;
        let events = loop {
            let mut follower = scene.engine.read().follow_events(run, after).await.unwrap();
            let mut waits = None;
            let mut last = after;
            while waits.is_none() {
                let Some(news) = follower.next().await.unwrap() else { break };
                last = news.last().map(|event| event.sequence);
                if !has_died && last >= Some(dies_after) {
                    has_died = true;
                    reached = dies_after;
                    scene.restart().await;
                    follower = scene.engine.read().follow_events(run, last).await.unwrap();
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
                    let granted = CallAnswer {
                        tool_call_id: call_of(&events, "write_file"),
                        resolution: CallResolution::Granted,
                    };
                    let rain = output(call_of(&events, "weather"), "\"rain\"");
                    answer(&scene, run, vec![rain, granted], None).await;
                }
            }
        };
        assert_eq!(types(&events).last(), Some(&"run.finished"), "{dies_after}: {:?}", types(&events));
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
        assert_eq!(proposed, settled, "{dies_after}");
        let count = invoked.len();
        invoked.dedup();
        assert_eq!(count, invoked.len(), "{dies_after}");
        if !has_died {
            break;
        }
    }
    assert!(reached > 25, "{reached}");
}
