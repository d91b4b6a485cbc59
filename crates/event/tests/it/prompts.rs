//! Every event of a prompt names the prompt, and no other event does.

use recount_event::codec::decode;
use recount_event::{PromptEvent, PromptKind, PromptStep};
use serde_json::Value;

use crate::fixtures;

#[test]
fn the_type_and_the_id_of_an_event_name_its_prompt() {
    let mut kinds = Vec::new();
    for (name, stored) in fixtures::all() {
        let event = decode(stored.as_bytes()).unwrap();
        let (family, what) = event.type_name().split_once('.').unwrap();
        let kind = PromptKind::ALL.into_iter().find(|kind| kind.as_str() == family);
        let data: Value = serde_json::from_str::<Value>(&stored).unwrap()["data"].take();
        let found = PromptEvent::of(event.payload());
        let requested = PromptEvent::requested(event.payload());
        assert_eq!(requested, found.filter(|_| what == "requested"), "{name}");
        let Some(kind) = kind else {
            assert_eq!(found, None, "{name}");
            continue;
        };
        let found = found.unwrap_or_else(|| panic!("{name} names no prompt"));
        let step = match what {
            "requested" => PromptStep::Requested,
            "extended" => PromptStep::Extended(data["expires_at"].as_str().unwrap()),
            _ => PromptStep::Settled,
        };
        assert_eq!((found.kind, found.step), (kind, step), "{name}");
        assert_eq!(Some(found.id.as_str()), data[format!("{}_id", kind.as_str())].as_str(), "{name}");
        assert_eq!(found.name(), kind.named(found.id), "{name}");
        kinds.push(kind);
    }
    assert!(PromptKind::ALL.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}
