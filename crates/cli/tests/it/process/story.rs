//! A small run of a foreign agent, to be appended over HTTP.

use recount_client::Client;
use recount_client::request::{AgentName, AppendEvents, CreateRun, NewEvent, Producer};
use serde_json::value::RawValue;

pub(crate) type StoryEvent = (&'static str, &'static str);

/// Up to the middle of a turn.
pub(crate) const BEGINNING: &[StoryEvent] = &[
    ("run.started", r#"{"worker_id":"w1"}"#),
    ("turn.started", r#"{"turn_index":0,"model":"some-model"}"#),
    ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"Hello "}"#),
    ("assistant.text_delta", r#"{"turn_index":0,"block_index":0,"delta":"there"}"#),
    ("assistant.text_complete", r#"{"turn_index":0,"block_index":0,"text":"Hello there"}"#),
];

/// A call that asks for permission.
pub(crate) const ASKING: &[StoryEvent] = &[
    (
        "assistant.tool_call_proposed",
        r#"{"turn_index":0,"tool_call_id":"call_1","tool_name":"shell_exec","input":{"command":"ls"}}"#,
    ),
    ("turn.completed", r#"{"turn_index":0,"stop_reason":"tool_use"}"#),
    (
        "approval.requested",
        r#"{"approval_id":"appr_1","tool_call_id":"call_1","kind":"shell","summary":"run ls"}"#,
    ),
];

/// The call itself, and the ending.
pub(crate) const ENDING: &[StoryEvent] = &[
    ("tool.invoked", r#"{"tool_call_id":"call_1","tool_name":"shell_exec"}"#),
    (
        "tool.completed",
        r#"{"tool_call_id":"call_1","tool_name":"shell_exec","summary":"exited with status 0","duration_ms":312}"#,
    ),
    ("ext.acme.thing", r#"{"any":[1,"\u001b[31mred"]}"#),
    ("run.finished", r#"{"final_status":"completed"}"#),
];

pub(crate) async fn create(client: &Client, title: &str) -> String {
    let request = CreateRun {
        kind: "external".to_owned(),
        title: Some(title.to_owned()),
        request_text: Some("say hello".to_owned()),
        agent: Some(AgentName { name: "tester".to_owned(), ..AgentName::default() }),
        ..CreateRun::default()
    };
    client.create_run(&request).await.expect("a run can be created").id
}

pub(crate) fn batch(seq: u64, events: &[StoryEvent]) -> AppendEvents {
    let event = |(event_type, data): &StoryEvent| NewEvent {
        event_type: (*event_type).to_owned(),
        data: RawValue::from_string((*data).to_owned()).expect("the data is JSON"),
    };
    let producer = Producer { id: "tester".to_owned(), epoch: 1, seq };
    AppendEvents { producer, events: events.iter().map(event).collect() }
}

pub(crate) async fn append(client: &Client, run: &str, seq: u64, events: &[StoryEvent]) {
    client.append_run_events(run, &batch(seq, events)).await.expect("the events follow the rules");
}

/// A run from its beginning to its ending.
pub(crate) async fn whole(client: &Client, title: &str) -> String {
    let run = create(client, title).await;
    append(client, &run, 0, BEGINNING).await;
    append(client, &run, 1, &[("turn.completed", r#"{"turn_index":0,"stop_reason":"end_turn"}"#)]).await;
    append(client, &run, 2, &[("run.finished", r#"{"final_status":"completed"}"#)]).await;
    run
}
