//! Compares the projection of each event type with the registry's column for this protocol, and tests cases that usual
//! runs do not have.

use std::path::Path;

use proptest::prelude::*;
use recount_event::codec::decode;
use recount_event::{Event, EventId, Payload, registry};
use recount_face_aap::project::{Gathered, Mode, Pictures, Projector, opens_segment};
use serde_json::{Value, json};

use super::projected::bytes;
use super::reader::read;

/// An event in its place.
fn event(sequence: u64, payload: Payload) -> Event {
    Event {
        event_id: format!("evt_01HZX3Q0M0{sequence:016}").parse::<EventId>().unwrap(),
        run_id: "run_01HZX3Q0M0000000000000000A".parse().unwrap(),
        task_id: None,
        session_id: None,
        sequence,
        occurred_ms: 1_777_803_825_000 + sequence,
        body: payload.into(),
        extra: Vec::new(),
    }
}

/// One event a line: a type and its data, with single quotes for double ones.
fn script(text: &str) -> Vec<Event> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let payloads = lines.map(|line| {
        let (type_name, data) = line.split_once(' ').unwrap();
        Payload::read(type_name, &data.replace('\'', "\"")).unwrap_or_else(|why| panic!("{line}: {why}"))
    });
    (0..).zip(payloads).map(|(sequence, payload)| event(sequence, payload)).collect()
}

const QUEUED: &str = "run.queued {'kind':'agent_loop','prior_run_id':null}";

/// The names and data of the frames of a script, from the opening at `opening` on.
fn projected(mode: Mode, opening: u64, text: &str) -> Vec<(String, Value)> {
    let mut projector = Projector::new(mode, opening);
    script(text)
        .iter()
        .flat_map(|event| projector.event(event))
        .map(|frame| {
            let event = frame.event(&Pictures::default());
            (event.name().to_owned(), serde_json::to_value(&event).unwrap())
        })
        .collect()
}

fn names(mode: Mode, opening: u64, text: &str) -> Vec<String> {
    projected(mode, opening, text).into_iter().map(|(name, _)| name).collect()
}

/// The meaning of the registry's words for this protocol: what is sent in pieces, and what in whole blocks.
fn meant(words: &str) -> [&'static [&'static str]; 2] {
    match words {
        words if words.starts_with("silent") => [&[], &[]],
        "segment opens: turn_start" => [&["turn_start"], &["turn_start"]],
        "remembered: its stop_reason is the segment's" | "usage of turn_stop" => [&[], &[]],
        "text_delta" => [&["text_delta"], &[]],
        "thinking_delta" => [&["thinking_delta"], &[]],
        "text; in delta mode one delta when it had none" => [&["text_delta"], &["text"]],
        "thinking" => [&["thinking_delta"], &["thinking"]],
        words if words.starts_with("tool_call;") => [&["tool_call"], &["tool_call"]],
        words if words.starts_with("tool_result") => [&["tool_result"], &["tool_result"]],
        words if words.starts_with("turn_stop") => [&["turn_stop"], &["turn_stop"]],
        other => panic!("{other:?} is a new answer: add what it means here"),
    }
}

/// One event of each type.
fn fixtures() -> Vec<Event> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/events");
    let read = |row: &registry::Row| {
        let text = std::fs::read_to_string(folder.join(format!("{}.json", row.type_name))).unwrap();
        decode(text.trim_end().as_bytes()).unwrap()
    };
    registry::TABLE.iter().map(read).collect()
}

#[test]
fn every_event_type_is_projected_as_the_registry_states() {
    for (row, mut fixture) in registry::TABLE.iter().zip(fixtures()) {
        let Value::Object(data) = serde_json::from_str(&fixture.payload().write()).unwrap() else {
            unreachable!()
        };
        for (mode, expected) in [Mode::Delta, Mode::Message].into_iter().zip(meant(row.aap)) {
            let mut before = script(QUEUED);
            let completed =
                Payload::read("turn.completed", r#"{"turn_index":0,"stop_reason":"end_turn"}"#).unwrap();
            // Outcomes are sent for calls that the model proposed.
            if let (Some(id), false) =
                (data.get("tool_call_id"), row.type_name == "assistant.tool_call_proposed")
            {
                let name = data.get("tool_name").and_then(Value::as_str).unwrap_or("f");
                let call = json!({"turn_index": 0, "tool_call_id": id, "tool_name": name, "input": {}});
                let proposed = Payload::read("assistant.tool_call_proposed", &call.to_string()).unwrap();
                before.push(event(1, proposed));
                before.push(event(2, completed.clone()));
            }
            let opens = row.type_name == "run.queued";
            // Whole blocks of the model are sent when its turn is complete.
            let counts = row.type_name.starts_with("assistant.");
            fixture.sequence = if opens { 0 } else { before.len() as u64 };
            let mut projector = Projector::new(mode, 0);
            if !opens {
                before.iter().for_each(|event| drop(projector.event(event)));
            }
            let mut frames = projector.event(&fixture);
            if counts {
                frames.extend(projector.event(&event(fixture.sequence + 1, completed)));
            }
            let names: Vec<&str> =
                frames.iter().map(|frame| frame.event(&Pictures::default()).name()).collect();
            assert_eq!(names, expected, "{} in {mode:?}", row.type_name);
            assert_eq!(opens_segment(&fixture), matches!(row.type_name, "run.queued" | "run.continued"));
            // Outside of a segment no frames are sent.
            let mut behind = Projector::new(mode, 1_000);
            assert_eq!(behind.event(&fixture), []);
            let over = Payload::read("run.finished", r#"{"final_status":"completed"}"#).unwrap();
            projector.event(&event(fixture.sequence + 2, over));
            assert!(projector.is_over());
            fixture.sequence += 3;
            assert_eq!(projector.event(&fixture), [], "{} behind the close", row.type_name);
        }
    }
}

/// A log of another release, or without its beginning, is projected as far as possible. No order of events gives a
/// stream that clients cannot read.
fn a_stream_in_any_order(order: &[usize], fixtures: &[Event], mode: Mode) {
    let mut projector = Projector::new(mode, 0);
    let mut gathered = Gathered::new(0);
    let mut frames = Vec::new();
    for (sequence, at) in (0..).zip(order) {
        let mut event = fixtures[at % fixtures.len()].clone();
        event.sequence = sequence;
        frames.extend(projector.event(&event));
        gathered.event(&event);
    }
    let received = read(&bytes(&frames));
    let named = |name: &str| received.iter().filter(|frame| frame.event == name).count();
    assert_eq!(named("turn_start"), usize::from(!order.is_empty()));
    assert_eq!(named("turn_stop"), usize::from(projector.is_over()));
    assert!(received.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(received.last().is_some_and(|last| last.event == "turn_stop"), projector.is_over());
    assert_eq!(gathered.is_over(), projector.is_over());
    assert_eq!(gathered.response(&Pictures::default()).is_some(), projector.is_over());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_order_of_events_breaks_a_stream(order in proptest::collection::vec(any::<usize>(), 0..60)) {
        let fixtures = fixtures();
        for mode in [Mode::Delta, Mode::Message] {
            a_stream_in_any_order(&order, &fixtures, mode);
        }
    }
}

/// P-038: a call that the application executes gets no result frame, whatever its outcome.
#[test]
fn a_call_that_the_client_executes_has_no_result() {
    for end in ["tool.completed", "tool.failed", "tool.cancelled", "tool.timed_out"] {
        let text = format!(
            "{QUEUED}
             assistant.tool_call_proposed {{'turn_index':0,'tool_call_id':'c','tool_name':'f','input':{{}}}}
             tool.invoked {{'tool_call_id':'c','tool_name':'f','turn_index':0,'executor':'client'}}
             {end} {{'tool_call_id':'c','tool_name':'f','output':'x'}}"
        );
        assert_eq!(names(Mode::Message, 0, &text), ["turn_start", "tool_call"], "{end}");
        let by_the_server = text.replace("client", "server");
        assert_eq!(
            names(Mode::Message, 0, &by_the_server),
            ["turn_start", "tool_call", "tool_result"],
            "{end}"
        );
    }
}

/// A call that no model proposed, such as a command of a user, is not part of the conversation.
#[test]
fn calls_that_were_not_proposed_are_silent() {
    let text = format!(
        "{QUEUED}
         tool.invoked {{'tool_call_id':'c','tool_name':'f'}}
         tool.completed {{'tool_call_id':'c','tool_name':'f','output':'x'}}
         tool.refused {{'tool_call_id':'d','tool_name':'f','code':'denied','message':'no'}}"
    );
    assert_eq!(names(Mode::Message, 0, &text), ["turn_start"]);
}

/// P-047, P-048: the results come first in the turn that the answers open.
#[test]
fn allowed_and_denied_calls_are_reported_in_the_turn_of_the_answer() {
    let text = "run.continued {'by':'app'}
         tool.invoked {'tool_call_id':'c','tool_name':'f','turn_index':0}
         tool.refused {'tool_call_id':'d','tool_name':'f','code':'denied','message':'Tool call denied: no'}
         tool.completed {'tool_call_id':'c','tool_name':'f','output':'x'}";
    let frames = projected(Mode::Delta, 0, text);
    let results: Vec<&Value> = frames.iter().skip(1).map(|(_, data)| data).collect();
    assert_eq!(
        results,
        [
            &json!({"toolCallId": "d", "content": "Tool call denied: no"}),
            &json!({"toolCallId": "c", "content": "x"})
        ]
    );
}

/// P-039, P-055, and how pictures are sent.
#[test]
fn inputs_are_objects_and_outputs_are_texts_or_blocks() {
    for (input, shown) in [
        ("{'a':1}", json!({"a": 1})),
        ("null", json!({})),
        ("7", json!({"input": 7})),
        ("[1]", json!({"input": [1]})),
    ] {
        let text = format!(
            "{QUEUED}\nassistant.tool_call_proposed {{'turn_index':0,'tool_call_id':'c','tool_name':'f','input':{input}}}
             turn.completed {{'turn_index':0,'stop_reason':'tool_use'}}"
        );
        assert_eq!(projected(Mode::Delta, 0, &text)[1].1["input"], shown, "{input}");
    }
    for (output, shown) in [
        ("'output':'x'", json!("x")),
        ("'output':''", json!("")),
        ("'output':'','error':'e'", json!("")),
        ("'error':'e','summary':'s'", json!("e")),
        ("'summary':'s'", json!("s")),
        ("'code':'c'", json!("")),
        ("'output':{'a':[1,2]}", json!("{\"a\":[1,2]}")),
        ("'output':null", json!("")),
        ("'output':7", json!("7")),
        ("'output':[]", json!("[]")),
        ("'output':[{'type':'text','text':'x'}]", json!([{"type": "text", "text": "x"}])),
        ("'output':[{'type':'text','text':'x'},1]", json!("[{\"type\":\"text\",\"text\":\"x\"},1]")),
        ("'output':[{'type':'chart','of':1}]", json!("[{\"type\":\"chart\",\"of\":1}]")),
        (
            "'output':[{'type':'image','url':'https://x.example/'}]",
            json!([{"type": "image", "url": "https://x.example/"}]),
        ),
        (
            "'output':[{'type':'image','artifact_id':'art_1','mime':'image/png'}]",
            json!([{"type": "text", "text": "[image art_1 is no longer stored]"}]),
        ),
    ] {
        let text = format!(
            "{QUEUED}
             assistant.tool_call_proposed {{'turn_index':0,'tool_call_id':'c','tool_name':'f','input':{{}}}}
             tool.invoked {{'tool_call_id':'c','tool_name':'f','turn_index':0}}
             tool.failed {{'tool_call_id':'c','tool_name':'f',{output}}}"
        );
        assert_eq!(projected(Mode::Delta, 0, &text)[2].1["content"], shown, "{output}");
    }
}

/// P-031: a block that was sent in pieces is not sent again, and another one is sent as one piece.
#[test]
fn a_block_is_sent_once() {
    let text = format!(
        "{QUEUED}
         assistant.thinking_delta {{'turn_index':0,'block_index':0,'delta':'hm'}}
         assistant.thinking_complete {{'turn_index':0,'block_index':0,'text':'hm'}}
         assistant.text_delta {{'turn_index':0,'block_index':1,'delta':''}}
         assistant.text_delta {{'turn_index':0,'block_index':1,'delta':'a'}}
         assistant.text_complete {{'turn_index':0,'block_index':1,'text':'a'}}
         assistant.text_complete {{'turn_index':0,'block_index':2,'text':'b'}}
         assistant.text_complete {{'turn_index':0,'block_index':3,'text':''}}
         turn.completed {{'turn_index':0,'stop_reason':'end_turn'}}
         assistant.text_complete {{'turn_index':1,'block_index':1,'text':'c'}}
         turn.completed {{'turn_index':1,'stop_reason':'end_turn'}}"
    );
    let words = |mode| {
        let frames = projected(mode, 0, &text).into_iter().skip(1);
        frames.map(|(name, data)| format!("{name} {data}")).collect::<Vec<_>>()
    };
    assert_eq!(
        words(Mode::Delta),
        [
            r#"thinking_delta {"delta":"hm"}"#,
            r#"text_delta {"delta":"a"}"#,
            r#"text_delta {"delta":"b"}"#,
            r#"text_delta {"delta":"c"}"#
        ]
    );
    assert_eq!(
        words(Mode::Message),
        [
            r#"thinking {"thinking":"hm"}"#,
            r#"text {"text":"a"}"#,
            r#"text {"text":"b"}"#,
            r#"text {"text":"c"}"#
        ]
    );
}

/// P-033, P-034, P-035.
#[test]
fn a_turn_stops_for_the_reason_that_the_model_or_the_run_had() {
    let completed = |reason: &str| format!("turn.completed {{'turn_index':0,'stop_reason':'{reason}'}}\n");
    let finished = "run.finished {'final_status':'completed'}";
    for (end, reason, error) in [
        (finished.to_owned(), "end_turn", None),
        (completed("end_turn") + finished, "end_turn", None),
        (completed("tool_use") + finished, "end_turn", None),
        (completed("max_tokens") + finished, "max_tokens", None),
        (completed("refusal") + finished, "refusal", None),
        (completed("refusal") + &completed("end_turn") + finished, "end_turn", None),
        (
            completed("error") + finished,
            "error",
            Some(
                json!({"code": "model_error", "message": "the model stopped with an error", "retryable": true}),
            ),
        ),
        (
            completed("end_turn") + "run.failed {'code':'turns_used_up','message':'m','retriable':false}",
            "error",
            Some(json!({"code": "turns_used_up", "message": "m", "retryable": false})),
        ),
        (
            "run.cancelled {'by':'operator','reason':'enough'}".to_owned(),
            "error",
            Some(json!({"code": "cancelled", "message": "enough", "retryable": false})),
        ),
        ("run.waiting {'for':[{'kind':'client_tool','id':'c'}]}".to_owned(), "tool_use", None),
        (
            "run.waiting {'for':[{'kind':'handoff','id':'h'},{'kind':'approval','id':'a'}]}".to_owned(),
            "tool_use",
            None,
        ),
    ] {
        let frames = projected(Mode::Delta, 0, &format!("{QUEUED}\n{end}"));
        let (name, stop) = frames.last().unwrap();
        assert_eq!((name.as_str(), stop["stopReason"].as_str()), ("turn_stop", Some(reason)), "{end}");
        assert_eq!(stop.get("error"), error.as_ref(), "{end}");
    }
}

/// A turn that failed twice and then succeeded: in blocks only the final response is sent, in pieces the earlier text
/// is retracted with a note and a count.
#[test]
fn an_abandoned_response_is_omitted_in_blocks_and_retracted_in_pieces() {
    let attempt = |block: u64, text: &str| {
        format!(
            "turn.started {{'turn_index':0}}
             assistant.text_delta {{'turn_index':0,'block_index':{block},'delta':'{text}'}}
             assistant.text_complete {{'turn_index':0,'block_index':{block},'text':'{text}','aborted':true}}
             turn.failed {{'turn_index':0,'code':'model_cut','message':'m','will_retry':true}}\n"
        )
    };
    let text = format!(
        "{QUEUED}\n{}{}
         turn.started {{'turn_index':0}}
         assistant.text_delta {{'turn_index':0,'block_index':2,'delta':'It ends in June.'}}
         assistant.text_complete {{'turn_index':0,'block_index':2,'text':'It ends in June.'}}
         turn.completed {{'turn_index':0,'stop_reason':'end_turn'}}
         run.finished {{'final_status':'completed'}}",
        attempt(0, "It énds "),
        attempt(1, "It ends in"),
    );
    let words = |mode| {
        let frames = projected(mode, 0, &text).into_iter().filter(|(name, _)| !name.starts_with("turn_"));
        frames.collect::<Vec<_>>()
    };
    let named = |name: &str, data: Value| (name.to_owned(), data);
    assert_eq!(words(Mode::Message), [named("text", json!({"text": "It ends in June."}))]);
    let note = "\n\n[The response was cut off here and starts again.]\n\n";
    assert_eq!(
        words(Mode::Delta),
        [
            named("text_delta", json!({"delta": "It énds "})),
            named("text_delta", json!({"delta": note, "retracts": 8})),
            named("text_delta", json!({"delta": "It ends in"})),
            named("text_delta", json!({"delta": note, "retracts": 10})),
            named("text_delta", json!({"delta": "It ends in June."})),
        ]
    );
}
