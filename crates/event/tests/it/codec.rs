//! Written, read and written again: the same event, the same bytes.

use proptest::prelude::*;
use recount_event::codec::{DecodeError, Envelope, decode, encode};
use recount_event::{Draft, Event, EventId, Payload, RunId, SessionId, TaskId, door, time};
use ulid::Ulid;

use crate::json_text::{self, Node};
use crate::{fixtures, rfc};

/// Any body: a known type with unknown fields, an extension, or our own payload.
fn draft() -> impl Strategy<Value = Draft> {
    let known: Vec<Draft> = fixtures::all()
        .into_iter()
        .map(|(_, stored)| decode(stored.as_bytes()).unwrap().body)
        .chain(
            rfc::payloads().into_iter().map(|(_, type_name, data)| door::draft(&type_name, &data).unwrap()),
        )
        .collect();
    let known = prop::sample::select(known);
    let with_more = (known.clone(), json_text::object()).prop_map(|(draft, more)| {
        let data = draft.verbatim.expect("it was decoded");
        let more = more.tight();
        let comma = if data.len() > 2 && more.len() > 2 { "," } else { "" };
        let joined = format!("{}{comma}{}", &data[..data.len() - 1], &more[1..]);
        door::draft(draft.payload.type_name(), &joined).unwrap()
    });
    let own = known.prop_map(|draft| match draft.payload {
        opaque @ Payload::Opaque(_) => Draft { payload: opaque, verbatim: draft.verbatim },
        payload => payload.into(),
    });
    let extension = ("ext(\\.[a-z][a-z0-9_]{0,8}){1,3}", json_text::object())
        .prop_map(|(type_name, data)| door::draft(&type_name, &data.tight()).unwrap());
    prop_oneof![with_more, own, extension]
}

fn extra() -> impl Strategy<Value = Vec<(Box<str>, Box<str>)>> {
    let value = json_text::node().prop_map(|node: Node| node.tight().into_boxed_str());
    prop::collection::btree_map(any::<String>(), value, 0..3).prop_map(|fields| {
        let unknown = fields.into_iter().map(|(name, value)| (format!("x{name}").into_boxed_str(), value));
        unknown.collect()
    })
}

fn event() -> impl Strategy<Value = Event> {
    let ids = (any::<u128>(), any::<u128>(), any::<Option<u128>>(), any::<Option<u128>>());
    (ids, 0..1_u64 << 53, 0..=time::LAST_MS, draft(), extra()).prop_map(
        |((event_id, run_id, task_id, session_id), sequence, occurred_ms, body, extra)| Event {
            event_id: EventId::new(Ulid(event_id)),
            run_id: RunId::new(Ulid(run_id)),
            task_id: task_id.map(Ulid).map(TaskId::new),
            session_id: session_id.map(Ulid).map(SessionId::new),
            sequence,
            occurred_ms,
            body,
            extra,
        },
    )
}

proptest! {
    #[test]
    fn an_encoded_event_decodes_to_the_same_event(event in event()) {
        let bytes = encode(&event);
        let read = decode(&bytes).unwrap();
        prop_assert_eq!(&encode(&read), &bytes);
        prop_assert_eq!(&read.body.payload, &event.body.payload);
        // An event of our own had no text yet; one that was read has.
        let verbatim = event.body.verbatim.clone().unwrap_or_else(|| event.payload().write().into());
        let body = Draft { payload: event.body.payload.clone(), verbatim: Some(verbatim) };
        prop_assert_eq!(read, Event { body, ..event });
    }

    #[test]
    fn an_encoded_event_is_compact(event in event()) {
        let text = String::from_utf8(encode(&event)).unwrap();
        prop_assert_eq!(door::compact(&text).unwrap(), text);
    }

    #[test]
    fn the_envelope_can_be_read_alone(event in event()) {
        let bytes = encode(&event);
        let envelope = Envelope::read(&bytes).unwrap();
        prop_assert_eq!(envelope.sequence, event.sequence);
        prop_assert_eq!(envelope.occurred_ms, event.occurred_ms);
        prop_assert_eq!(envelope.type_name.as_ref(), event.type_name());
        prop_assert_eq!(envelope.run_id, event.run_id);
        prop_assert_eq!(envelope.extra, event.extra);
    }

    #[test]
    fn random_bytes_are_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }

    #[test]
    fn one_byte_changed_never_panics(event in event(), place in any::<prop::sample::Index>(), other in any::<u8>()) {
        let mut bytes = encode(&event);
        let place = place.index(bytes.len());
        bytes[place] = other;
        if let Ok(read) = decode(&bytes) {
            decode(&encode(&read)).unwrap();
        }
    }
}

#[test]
fn invalid_envelopes_are_refused() {
    let good = fixtures::all().into_iter().find(|(name, _)| name == "run.checkpoint_saved").unwrap().1;
    let error = |text: &str| decode(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(
        decode(good.replacen("\"1\"", "\"2\"", 1).as_bytes()),
        Err(DecodeError::SchemaVersion("2".into()))
    );
    let twice = good.replacen("\"sequence\":", "\"sequence\":1,\"sequence\":", 1);
    assert!(error(&twice).contains("sequence is duplicated"), "{}", error(&twice));
    let twice = good.replacen("\"data\":", "\"later\":1,\"l\\u0061ter\":2,\"data\":", 1);
    assert!(error(&twice).contains("\"later\" is duplicated"), "{}", error(&twice));
    let many: String = (0..65).map(|number| format!("\"later_{number}\":0,")).collect();
    let many = good.replacen("\"data\":", &format!("{many}\"data\":"), 1);
    assert!(error(&many).contains("too many unknown fields"), "{}", error(&many));
    let list = good.replacen("\"data\":{", "\"data\":[{", 1) + "]";
    assert!(decode(list.as_bytes()).is_err());
    let list = good.replacen("{\"checkpoint_id\":", "[", 1).replacen("\"}}", "\"]}", 1);
    assert!(error(&list).contains("data is not an object"), "{}", error(&list));
    assert!(error("[]").contains("not an event envelope"), "{}", error("[]"));
    assert!(decode(&good.as_bytes()[..good.len() - 1]).is_err());
    assert!(decode(format!("{good}x").as_bytes()).is_err());
    assert!(decode(format!("{good}\n").as_bytes()).is_ok(), "a line of a file may end in a newline");
}

#[test]
fn depth_in_stored_bytes_does_not_overflow_the_stack() {
    let good = fixtures::all().into_iter().find(|(name, _)| name == "ext.acme.deploy_started").unwrap().1;
    let deep = format!("{}1{}", "[".repeat(1_000_000), "]".repeat(1_000_000));
    for text in [
        good.replacen("\"data\":{", &format!("\"data\":{{\"deep\":{deep},"), 1),
        good.replacen("\"data\":{", &format!("\"deep\":{deep},\"data\":{{"), 1),
    ] {
        let event = decode(text.as_bytes()).unwrap();
        assert_eq!(encode(&event).len(), text.len());
    }
}
