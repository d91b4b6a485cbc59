//! Tests of the JSON Schemas: the exported files are current, and an independent validator agrees with the rules that
//! are marked `in_schema`. `RECOUNT_BLESS=1` writes the files.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use jsonschema::{Retrieve, Uri, Validator};
use proptest::prelude::*;
use recount_aaep::json::Reader;
use recount_aaep::lex;
use recount_aaep::rule::{Findings, Profile, check_message, check_text, message_kind};
use recount_aaep::{Reading, schema};
use serde_json::{Value, json};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

struct Offline;

impl Retrieve for Offline {
    fn retrieve(&self, uri: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        schema::resolve(uri.as_str()).ok_or_else(|| format!("`{uri}` is not ours").into())
    }
}

fn validator(schema: &Value) -> Validator {
    jsonschema::options().with_retriever(Offline).build(schema).unwrap()
}

static EVENT: LazyLock<Validator> =
    LazyLock::new(|| validator(&schema::resolve("urn:recount:aaep:v1:event").unwrap()));

#[test]
fn the_exported_schemas_are_current() {
    let mut stale = Vec::new();
    let mut expected = BTreeSet::new();
    for exported in schema::all() {
        let path = folder(&exported.path);
        expected.insert(path.clone());
        if std::env::var_os("RECOUNT_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, exported.text()).unwrap();
        } else if std::fs::read_to_string(&path).unwrap_or_default() != exported.text() {
            stale.push(exported.path);
        }
    }
    assert!(stale.is_empty(), "bless these: {stale:?}");
    assert!(expected.len() >= 12 + 8 + 3);
}

#[test]
fn the_protocols_own_ids_resolve_offline() {
    for kind in recount_aaep::Kind::ALL {
        let id = format!("{}core/{}.schema.json", schema::OFFICIAL, kind.name());
        assert!(schema::resolve(&id).is_some(), "{id}");
    }
    for name in ["envelope", "handshake/subscription.request", "reply/confirmation.reply"] {
        assert!(schema::resolve(&format!("{}{name}.schema.json", schema::OFFICIAL)).is_some(), "{name}");
    }
    assert_eq!(schema::resolve("https://example.org/envelope.schema.json"), None);
    assert_eq!(schema::resolve(&format!("{}core/agent.purple.schema.json", schema::OFFICIAL)), None);
}

#[test]
fn the_published_handoff_schema_accepts_its_examples() {
    let path = folder("testdata/handoff/agent.handoff.requested.schema.json");
    let given: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let published = validator(&given);
    let examples = given["examples"].as_array().unwrap();
    assert_eq!(examples.len(), 3);
    for example in examples {
        assert!(published.is_valid(example), "its own schema accepts {example}");
        let errors = check_text(&example.to_string(), Profile::Compat);
        assert!(
            errors.iter().all(|finding| finding.severity < recount_aaep::rule::Severity::Error),
            "{errors:?}"
        );
        let mut normal = example.clone();
        normal["urgency"] = json!("normal");
        assert!(!published.is_valid(&normal), "the schema itself requires critical");
        let mut nameless = example.clone();
        nameless["producer"] = json!({});
        assert!(!published.is_valid(&nameless), "the envelope it refers to is ours");
    }
}

/// Whether a text breaks no rule that is marked `in_schema`.
fn by_rules(text: &str) -> bool {
    !check_text(text, Profile::Strict).iter().any(|finding| finding.rule.in_schema)
}

fn corpus() -> Vec<(String, Value)> {
    let files = std::fs::read_dir(folder("testdata/events")).unwrap();
    let mut events: Vec<(String, Value)> = files
        .filter_map(|file| {
            let path = file.unwrap().path();
            let value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).ok()?;
            Some((path.file_name().unwrap().to_string_lossy().into_owned(), value))
        })
        .collect();
    events.sort_by(|one, two| one.0.cmp(&two.0));
    events
}

#[test]
fn schemas_and_rules_agree_on_the_corpus() {
    for (name, event) in corpus() {
        let valid = EVENT.is_valid(&event);
        assert_eq!(valid, by_rules(&event.to_string()), "{name}");
    }
}

/// Values near the limits of some field.
fn values() -> impl Strategy<Value = Value> {
    let words = prop::sample::select(vec![
        "",
        "accept",
        "reject",
        "critical",
        "normal",
        "low",
        "high",
        "en",
        "en_US",
        "zh-Hant-TW",
        "irreversible",
        "reversible",
        "idle",
        "thinking",
        "evt_1",
        "sess_1",
        "rpl_1",
        "call_1",
        "out_1",
        "text/plain",
        "sentence",
        "success",
        "human",
        "user",
        "transient",
        "https://example.org/x",
        "1.0.0",
        "99.0.0",
        "Latn",
        "numeric",
        "multiple_choice",
        "2026-05-24T14:22:11.342Z",
        "2026-02-29T14:22:11.342Z",
        "2026-05-24T14:22:11Z",
        "2026-05-24T14:22:11.3Z",
        "aaep:agent.tool.invoked",
        "medai:alert",
        "aaep:agent.purple",
        "https://aaep-protocol.org/context/v1",
        "https://aaep-protocol.org/types/agent.tool.completed",
    ])
    .prop_map(Value::from);
    let scalar = prop_oneof![
        4 => words,
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => prop::sample::select(vec![-1, 0, 1, 2, 50, 100, 101, 1_000, 86_400, 86_401, 86_400_000, 86_400_001])
            .prop_map(Value::from),
        1 => prop::sample::select(vec![0.5, 1.0, 100.0, -0.0, 60.5]).prop_map(Value::from),
        1 => "\\PC{0,12}".prop_map(Value::from),
        1 => (0_usize..3).prop_map(|at| Value::from("é".repeat([64, 65, 4_097][at]))),
    ];
    scalar.prop_recursive(2, 8, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((names(), inner), 0..3)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

fn names() -> impl Strategy<Value = String> {
    let known: Vec<String> =
        recount_aaep::field::Field::ALL.iter().map(|field| field.name().to_owned()).collect();
    prop_oneof![
        6 => prop::sample::select(known),
        3 => prop::sample::select(vec![
            "agent_id", "agent_version", "primary_language", "text_direction", "value", "label", "percent", "step",
            "summary_normal_yo", "action_yo-NG", "amount_raw", "aaep_foo", "aaep_foo_raw", "@id", "medai", "rdf",
            "summary_normal_raw", "custom", "", "description_formatted", "reason_EN",
        ]).prop_map(str::to_owned),
        1 => "[a-z_@]{0,8}",
    ]
}

/// Makes one change somewhere in an event.
fn change(event: &mut Value, depth: usize, pick: &[usize], name: &str, value: &Value, how: u8) {
    let key = pick.first().copied().unwrap_or(0);
    match event {
        Value::Object(map) => {
            let inner = map.keys().nth(key % map.len().max(1)).cloned();
            match (how, inner) {
                (0, Some(inner)) => drop(map.remove(&inner)),
                (1, _) => drop(map.insert(name.to_owned(), value.clone())),
                (2, Some(inner)) => drop(map.insert(inner, value.clone())),
                (_, Some(inner)) => {
                    let container = matches!(map[&inner], Value::Object(_) | Value::Array(_));
                    if container && depth < 4 {
                        change(
                            map.get_mut(&inner).unwrap(),
                            depth + 1,
                            &pick[1.min(pick.len())..],
                            name,
                            value,
                            how % 3,
                        );
                    } else {
                        map.insert(inner, value.clone());
                    }
                }
                (_, None) => drop(map.insert(name.to_owned(), value.clone())),
            }
        }
        Value::Array(items) if !items.is_empty() => {
            let at = key % items.len();
            match how {
                0 => drop(items.remove(at)),
                1 => items.push(value.clone()),
                _ => items[at] = value.clone(),
            }
        }
        other => *other = value.clone(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, ..ProptestConfig::default() })]

    #[test]
    fn schemas_and_rules_agree_on_changed_events(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((prop::collection::vec(0_usize..40, 3), names(), values(), 0_u8..4), 1..3),
    ) {
        static CORPUS: LazyLock<Vec<(String, Value)>> = LazyLock::new(corpus);
        let (name, event) = at.get(&CORPUS);
        let mut event = event.clone();
        for (pick, name, value, how) in &changes {
            change(&mut event, 0, pick, name, value, *how);
        }
        let text = event.to_string();
        prop_assert_eq!(EVENT.is_valid(&event), by_rules(&text), "{}: {} gives {:?}", name, text, check_text(&text, Profile::Strict));
    }

    #[test]
    fn schemas_and_rules_agree_on_changed_messages(
        at in any::<prop::sample::Index>(),
        changes in prop::collection::vec((prop::collection::vec(0_usize..40, 3), names(), values(), 0_u8..4), 0..3),
    ) {
        static MESSAGES: LazyLock<Vec<(Value, Validator)>> = LazyLock::new(|| {
            messages().into_iter().map(|message| {
                let name = message["type"].as_str().unwrap().trim_start_matches("aaep:");
                let schema = schema::resolve(&format!("urn:recount:aaep:v1:{name}")).unwrap();
                (message, validator(&schema))
            }).collect()
        });
        let (message, validator) = at.get(&MESSAGES);
        let mut changed = message.clone();
        for (pick, name, value, how) in &changes {
            change(&mut changed, 0, pick, name, value, *how);
        }
        changed["type"] = message["type"].clone();
        let text = changed.to_string();
        let findings = message_findings(&text);
        prop_assert_eq!(validator.is_valid(&changed), findings.is_empty(), "{}: {:?}", text, findings);
    }

    #[test]
    fn patterns_and_tests_of_strings_agree(
        which in any::<prop::sample::Index>(),
        cut in any::<prop::sample::Index>(),
        put in prop::sample::select(vec!["", "a", "A", "9", "_", "-", ".", ":", "/", "é", " ", "\n", "T", "Z", "+", "00"]),
        drop in 0_usize..3,
    ) {
        static ALL: LazyLock<Vec<Validator>> =
            LazyLock::new(|| lex::ALL.iter().map(|lex| validator(&json!({"pattern": lex.pattern}))).collect());
        let at = which.index(lex::ALL.len());
        let lex = lex::ALL[at];
        let place = cut.index(lex.example.len() + 1);
        let end = (place + drop).min(lex.example.len());
        let text = format!("{}{put}{}", &lex.example[..place], &lex.example[end..]);
        prop_assert_eq!(ALL[at].is_valid(&json!(text)), (lex.test)(&text), "{} of {:?}", lex.name, text);
    }

    #[test]
    fn tags_and_moments_agree_with_their_patterns(
        tag in "[a-zA-Z]{1,9}(-[a-zA-Z0-9]{0,9}){0,4}",
        year in 1895_u32..2105, month in 0_u32..14, day in 0_u32..33, hour in 0_u32..26, second in 57_u32..63,
    ) {
        static TAG: LazyLock<Validator> = LazyLock::new(|| validator(&json!({"pattern": lex::BCP47.pattern})));
        static MOMENT: LazyLock<Validator> = LazyLock::new(|| validator(&json!({"pattern": lex::MOMENT.pattern})));
        prop_assert_eq!(TAG.is_valid(&json!(tag)), (lex::BCP47.test)(&tag), "{}", tag);
        let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:59:{second:02}Z");
        prop_assert_eq!(MOMENT.is_valid(&json!(text)), (lex::MOMENT.test)(&text), "{}", text);
    }
}

/// A message of each kind with all fields.
fn messages() -> Vec<Value> {
    let capabilities = json!({
        "max_events_per_second": 5, "preferred_verbosity": "terse", "languages": ["en", "yo-NG"],
        "supports_confirmation_reply": true, "supports_clarification_reply": false,
        "coalesce_boundaries": ["sentence", "completion"],
        "event_filters": {"include": ["aaep:agent.*"], "exclude": ["aaep:agent.progress.updated"]},
        "supported_conformance_levels": [1, 2], "supported_extensions": ["https://example.org/x"],
        "cognitive_load": "low", "pace_wpm": 180, "accept_signed_manifests_only": false, "medai": {"a": 1},
    });
    let producer = json!({"agent_id": "planner", "agent_version": "1"});
    let moment = "2026-05-24T14:22:11.342Z";
    let extensions = json!({"medai": {}});
    vec![
        json!({"type": "subscription.request", "aaep_version": "1.0.0", "subscriber_id": "a", "capabilities": capabilities,
            "subscriber_name": "A", "subscriber_version": "1", "subscriber_manifest_uri": "https://example.org/m",
            "correlation_id": "x", "extensions": extensions}),
        json!({"type": "aaep:subscription.accepted", "subscription_id": "sub_1", "aaep_version": "1.0.0",
            "producer": producer, "honored_capabilities": capabilities, "manifest_uri": "https://example.org/m",
            "signed_manifest": "a.b.c", "negotiation_notes": ""}),
        json!({"type": "subscription.rejected", "reason_code": "rate_limit", "reason_message": "Later.",
            "retry_after_seconds": 30, "alternative_manifest_uri": "https://example.org/m"}),
        json!({"type": "subscription.renegotiate", "subscription_id": "sub_1", "capabilities": capabilities}),
        json!({"type": "subscription.close", "subscription_id": "sub_1", "reason_code": "done", "reason_message": ""}),
        json!({"type": "confirmation.reply", "reply_token": "rpl_1", "decision": "accept", "subscription_id": "sub_1",
            "timestamp": moment, "decided_by": "ada", "decision_rationale": "Yes.", "modified_action": {"amount": 5}}),
        json!({"type": "clarification.reply", "reply_token": "rpl_1", "response": "65", "subscription_id": "sub_1",
            "timestamp": moment, "decided_by": "ada", "confidence": 0.5, "correlation_id": "x"}),
        json!({"@context": "https://aaep-protocol.org/context/v1", "type": "aaep:producer.manifest", "agent_id": "a",
            "agent_version": "1", "agent_name": "A", "aaep_versions_supported": ["1.0.0"],
            "conformance_levels_supported": [1, 2, 3], "transports_supported": ["sse"], "languages_supported": ["en"],
            "event_types_emitted": ["aaep:agent.*"], "extensions_supported": ["https://example.org/x"],
            "default_verbosity": "normal", "max_concurrent_subscriptions": 9, "contact": "a@example.org",
            "endpoints": {}, "framing": "ndjson", "states": ["idle"], "multi_agent_pattern": "linked"}),
    ]
}

fn message_findings(text: &str) -> Vec<recount_aaep::rule::Finding> {
    let mut reader = Reader::new();
    let reading = Reading::of(reader.read(text).unwrap()).unwrap();
    let mut findings = Findings::new(Profile::Strict);
    check_message(message_kind(&reading).unwrap(), &reading, &mut findings);
    findings.take()
}

#[test]
fn full_messages_are_valid_and_round_trip() {
    for message in messages() {
        let text = message.to_string();
        assert_eq!(message_findings(&text), Vec::new());
        let read = recount_aaep::Message::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert!(!matches!(read, recount_aaep::Message::Event(_)));
        let mut written: Value = serde_json::from_str(&read.to_json()).unwrap();
        written["type"] = message["type"].clone();
        assert_eq!(written, message);
        assert!(recount_aaep::build::message(read).is_ok());
    }
}

#[test]
fn messages_agree_with_their_schemas() {
    let cases = [
        (r#"{"type":"subscription.close","subscription_id":"sub_1"}"#, true),
        (r#"{"type":"subscription.close","subscription_id":"sub-1"}"#, false),
        (
            r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"a","capabilities":{}}"#,
            true,
        ),
        (
            r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"a","capabilities":{"zz":{}}}"#,
            true,
        ),
        (
            r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"a","capabilities":{"zz":1}}"#,
            false,
        ),
        (
            r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"a","capabilities":{"languages":["en_US"]}}"#,
            false,
        ),
        (
            r#"{"type":"subscription.renegotiate","subscription_id":"sub_1","capabilities":{"pace_wpm":49}}"#,
            false,
        ),
        (r#"{"type":"subscription.rejected","reason_code":"new","reason_message":"No."}"#, true),
        (
            r#"{"type":"clarification.reply","reply_token":"rpl_1","response":7,"subscription_id":"sub_1","timestamp":"2026-05-24T14:22:11.342Z"}"#,
            true,
        ),
        (
            r#"{"type":"clarification.reply","reply_token":"rpl_1","response":null,"subscription_id":"sub_1","timestamp":"2026-05-24T14:22:11.342Z"}"#,
            false,
        ),
        (r#"{"type":"aaep:producer.manifest","agent_id":"a"}"#, false),
    ];
    for (text, expected) in cases {
        let mut reader = Reader::new();
        let reading = Reading::of(reader.read(text).unwrap()).unwrap();
        let kind = message_kind(&reading).unwrap();
        let mut findings = Findings::new(Profile::Strict);
        check_message(kind, &reading, &mut findings);
        let schema = schema::resolve(&format!("urn:recount:aaep:v1:{}", kind.name())).unwrap();
        let value: Value = serde_json::from_str(text).unwrap();
        assert_eq!(findings.is_empty(), expected, "{text}: {:?}", findings.take());
        assert_eq!(validator(&schema).is_valid(&value), expected, "{text}");
    }
}
