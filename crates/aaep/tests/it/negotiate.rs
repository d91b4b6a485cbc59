//! Tests of handshakes on the producer's side: tables and properties.

use proptest::prelude::*;
use recount_aaep::language::nearness;
use recount_aaep::negotiate::{
    Extension, HandshakeOutcome, Offer, Reason, Terms, evaluate, evaluate_text, exceeded_capabilities,
    renegotiate,
};
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::{
    Boundary, Capabilities, EventFilters, Pace, Producer, SubscriptionId, SubscriptionRequest, Verbosity,
};
use recount_aaep::{Kind, Message, build};
use serde_json::{Value, json};

fn offer() -> Offer {
    let mut offer = Offer::new(Producer::named("planner"), "en-US");
    offer.languages = vec!["en-US".into(), "yo-NG".into(), "fr".into()];
    offer.max_events_per_second = Some(20);
    offer.extensions = vec![Extension::new("https://example.org/medai/v1", "medai")];
    offer.known_extensions = vec![
        Extension::new("https://example.org/medai/v2", "medai"),
        Extension::new("https://example.org/tutor", "tutor"),
    ];
    offer
}

fn asking(version: &str, capabilities: &Value) -> String {
    json!({"type": "subscription.request", "aaep_version": version, "subscriber_id": "reader",
        "capabilities": capabilities, "correlation_id": "trace-1"})
    .to_string()
}

fn agreed(capabilities: &Value) -> Terms {
    match evaluate_text(&offer(), &asking("1.0.0", capabilities)) {
        HandshakeOutcome::Accepted(terms) => *terms,
        HandshakeOutcome::Rejected(refusal) => panic!("{capabilities}: {refusal:?}"),
    }
}

/// R-203, G-22, G-23.
#[test]
fn versions_are_supported_or_refused() {
    for (version, spoken, noted) in [
        ("1.0.0", true, false),
        ("1.4.2", true, true),
        ("1.0.0-rc.1", true, true),
        ("0.1.0-draft", true, true),
        ("0.1.0", false, false),
        ("0.2.0-draft", false, false),
        ("2.0.0", false, false),
        ("10.0.0", false, false),
        ("99.99.99", false, false),
        ("1.0", false, false),
        ("1", false, false),
        ("1.0.0+build", false, false),
        ("", false, false),
        ("one", false, false),
    ] {
        match evaluate_text(&offer(), &asking(version, &json!({}))) {
            HandshakeOutcome::Accepted(terms) => {
                assert!(spoken, "{version}");
                assert_eq!(terms.notes().iter().any(|note| note.contains(version)), noted, "{version}");
                let message = terms.to_message(&offer(), SubscriptionId::new("sub_1").unwrap());
                assert_eq!(message.aaep_version, "1.0.0");
                assert_eq!(message.correlation_id.as_deref(), Some("trace-1"));
            }
            HandshakeOutcome::Rejected(refusal) => {
                assert!(!spoken, "{version}: {refusal:?}");
                assert_eq!(refusal.code, Reason::VersionUnsupported, "{version}");
                assert_eq!(refusal.to_message().correlation_id.as_deref(), Some("trace-1"));
            }
        }
    }
}

/// Requested and honored capabilities: R-112, R-125, G-30 to G-32.
#[test]
fn requested_capabilities_are_honored_as_specified() {
    // The reply capabilities are always present, because their default is false.
    let no = |mut more: Value| {
        more["supports_confirmation_reply"] = false.into();
        more["supports_clarification_reply"] = false.into();
        more
    };
    for (wish, honored) in [
        (json!({}), no(json!({"max_events_per_second": 20, "languages": ["en-US"]}))),
        (
            json!({"max_events_per_second": 5}),
            no(json!({"max_events_per_second": 5, "languages": ["en-US"]})),
        ),
        (
            json!({"max_events_per_second": 50}),
            no(json!({"max_events_per_second": 20, "languages": ["en-US"]})),
        ),
        (
            json!({"max_events_per_second": 2.0, "pace_wpm": 180.0}),
            no(json!({"max_events_per_second": 2, "languages": ["en-US"], "pace_wpm": 180})),
        ),
        (
            json!({"languages": ["tlh", "yo", "fr-CA"]}),
            no(json!({"max_events_per_second": 20, "languages": ["yo", "fr-CA"]})),
        ),
        (json!({"languages": ["tlh"]}), no(json!({"max_events_per_second": 20}))),
        (
            json!({"coalesce_boundaries": ["word", "paragraph"]}),
            no(
                json!({"max_events_per_second": 20, "languages": ["en-US"], "coalesce_boundaries": ["word", "paragraph"]}),
            ),
        ),
        (
            json!({"supports_confirmation_reply": true, "supported_conformance_levels": [1, 2, 3]}),
            json!({"max_events_per_second": 20, "languages": ["en-US"], "supports_confirmation_reply": true,
                "supports_clarification_reply": false, "supported_conformance_levels": [1, 2, 3]}),
        ),
        (
            json!({"supports_clarification_reply": true}),
            json!({"max_events_per_second": 20, "languages": ["en-US"], "supports_confirmation_reply": false,
                "supports_clarification_reply": true}),
        ),
        (
            json!({"supports_confirmation_reply": true, "supported_conformance_levels": [1]}),
            no(
                json!({"max_events_per_second": 20, "languages": ["en-US"], "supported_conformance_levels": [1]}),
            ),
        ),
        (
            json!({"supported_extensions": ["https://example.org/medai/v1", "https://example.org/other"]}),
            no(json!({"max_events_per_second": 20, "languages": ["en-US"],
                "supported_extensions": ["https://example.org/medai/v1"]})),
        ),
        // R-114
        (json!({"zz": {"a": 1}}), no(json!({"max_events_per_second": 20, "languages": ["en-US"]}))),
        (
            json!({"event_filters": {"include": ["aaep:agent.tool.*"]}, "cognitive_load": "low"}),
            no(json!({"max_events_per_second": 20, "languages": ["en-US"], "cognitive_load": "low",
                "event_filters": {"include": ["aaep:agent.tool.*"]}})),
        ),
    ] {
        assert_eq!(serde_json::to_value(agreed(&wish).honored()).unwrap(), honored, "{wish}");
    }
}

#[test]
fn indistinguishable_boundaries_are_kept() {
    let mut offer = offer();
    offer.boundaries = vec![Boundary::Sentence, Boundary::Completion];
    let honored = |wish: &Value| {
        let terms = evaluate_text(&offer, &asking("1.0.0", wish)).accepted().unwrap();
        terms.honored().coalesce_boundaries.clone()
    };
    assert_eq!(honored(&json!({})), None, "the default needs no words");
    assert_eq!(
        honored(&json!({"coalesce_boundaries": ["word", "sentence"]})),
        Some(vec![Boundary::Sentence])
    );
    assert_eq!(honored(&json!({"coalesce_boundaries": ["word"]})), Some(vec![Boundary::Word]), "G-32");
}

/// G-28, G-32: the notes explain differences to people.
#[test]
fn differences_are_noted() {
    for (wish, word) in [
        (json!({"event_filters": {"exclude": ["aaep:agent.session.*"]}}), "session.started"),
        (json!({"event_filters": {"include": ["aaep:agent.tool.*"]}}), "session.completed"),
        (json!({"languages": ["tlh"]}), "en-US"),
        (json!({"max_events_per_second": 21}), "At most 20"),
        (json!({"supported_conformance_levels": [1], "supports_confirmation_reply": true}), "level 2"),
    ] {
        let terms = agreed(&wish);
        let message = terms.to_message(&offer(), SubscriptionId::new("sub_1").unwrap());
        assert!(message.negotiation_notes.as_deref().unwrap().contains(word), "{wish}: {:?}", terms.notes());
    }
    assert_eq!(agreed(&json!({"max_events_per_second": 3})).notes(), [""; 0]);
}

/// R-111, R-113, R-128, R-131: every invalid request gets a code.
#[test]
fn invalid_requests_are_refused_with_a_reason() {
    let medai = ["https://example.org/medai/v1", "https://example.org/medai/v2"];
    for (text, code, word) in [
        (
            asking("1.0.0", &json!({"accept_signed_manifests_only": true})),
            "manifest_signature_required",
            "signed",
        ),
        (asking("1.0.0", &json!({"supported_extensions": medai})), "capabilities_incompatible", "`medai`"),
        (
            asking("1.0.0", &json!({"max_events_per_second": 0})),
            "capabilities_incompatible",
            "max_events_per_second",
        ),
        (
            asking("1.0.0", &json!({"max_events_per_second": "5"})),
            "capabilities_incompatible",
            "max_events_per_second",
        ),
        (asking("1.0.0", &json!({"pace_wpm": 5})), "capabilities_incompatible", "pace_wpm"),
        (
            asking("1.0.0", &json!({"coalesce_boundaries": []})),
            "capabilities_incompatible",
            "coalesce_boundaries",
        ),
        (asking("1.0.0", &json!({"coalesce_boundaries": ["line"]})), "capabilities_incompatible", "line"),
        (
            asking("1.9.0", &json!({"coalesce_boundaries": ["line"]})),
            "capabilities_incompatible",
            "coalesce_boundaries",
        ),
        (asking("1.0.0", &json!({"languages": []})), "capabilities_incompatible", "languages"),
        (asking("1.0.0", &json!({"loudness": 7})), "capabilities_incompatible", "loudness"),
        (asking("1.0.0", &json!([])), "capabilities_incompatible", "capabilities"),
        (
            r#"{"type":"subscription.request","aaep_version":"1.0.0","subscriber_id":"r"}"#.into(),
            "capabilities_incompatible",
            "capabilities",
        ),
        (
            r#"{"type":"subscription.request","aaep_version":"1.0.0","capabilities":{}}"#.into(),
            "unknown",
            "subscriber_id",
        ),
        (r#"{"type":"subscription.request","capabilities":{}}"#.into(), "version_unsupported", "1.0.0"),
        (
            r#"{"type":"subscription.close","subscription_id":"sub_1"}"#.into(),
            "unknown",
            "subscription.close",
        ),
        ("{\"type\":".into(), "unknown", "is not valid"),
        ("[]".into(), "unknown", "object"),
        (String::new(), "unknown", "is not valid"),
        (r#"{"type":"subscription.request","type":"subscription.request"}"#.into(), "unknown", "twice"),
    ] {
        let refusal = evaluate_text(&offer(), &text).rejected().unwrap_or_else(|| panic!("{text}"));
        assert_eq!(refusal.code.as_str(), code, "{text}: {}", refusal.message);
        assert!(refusal.message.contains(word), "{text}: {}", refusal.message);
        assert!(build::message(refusal.to_message()).is_ok(), "{text}");
    }
    let full = Offer { full: Some(30), ..offer() };
    let refusal = evaluate_text(&full, &asking("1.0.0", &json!({}))).rejected().unwrap();
    assert_eq!((refusal.code, refusal.retry_after_seconds), (Reason::RateLimit, Some(30)));
    assert_eq!(refusal.to_message().retry_after_seconds, Some(30));

    let signed = Offer { signed_manifest: Some("aa.bb.cc".into()), ..offer() };
    let terms = evaluate_text(&signed, &asking("1.0.0", &json!({"accept_signed_manifests_only": true})));
    assert_eq!(terms.accepted().unwrap().honored().accept_signed_manifests_only, Some(true));
}

/// R-204: additions of a later version are ignored, not rejected.
#[test]
fn unknown_fields_of_a_later_version_are_ignored() {
    let text = json!({"type": "subscription.request", "aaep_version": "1.3.0", "subscriber_id": "r", "mood": 1,
        "capabilities": {"loudness": 7, "preferred_verbosity": "brief", "cognitive_load": "tiny",
            "coalesce_boundaries": ["line", "word"], "max_events_per_second": 3}});
    let terms = evaluate_text(&offer(), &text.to_string()).accepted().unwrap();
    assert_eq!(terms.boundaries(), [Boundary::Word]);
    assert_eq!((terms.verbosity(), terms.cognitive_load()), (&Verbosity::Normal, &Pace::Medium));
    assert_eq!(terms.events_per_second(), Some(3));
    let message = terms.to_message(&offer(), SubscriptionId::new("sub_1").unwrap());
    assert!(build::message(message).is_ok());
}

/// R-120: omitted fields keep their values; the whole request is evaluated again.
#[test]
fn a_renegotiation_keeps_omitted_values() {
    let terms = agreed(
        &json!({"max_events_per_second": 10, "languages": ["yo"], "supports_confirmation_reply": true}),
    );
    let wish = |wish: Value| serde_json::from_value::<Capabilities>(wish).unwrap();
    let slower =
        renegotiate(&offer(), &terms, &wish(json!({"max_events_per_second": 1}))).accepted().unwrap();
    assert_eq!(slower.events_per_second(), Some(1));
    assert_eq!(slower.languages(), ["yo"]);
    assert!(slower.replies(Kind::AwaitingConfirmation) && !slower.replies(Kind::AwaitingClarification));
    // Faster again: the requested rate counts, not the honored one.
    let faster =
        renegotiate(&offer(), &slower, &wish(json!({"max_events_per_second": 15}))).accepted().unwrap();
    assert_eq!(faster.events_per_second(), Some(15));
    let same = renegotiate(&offer(), &terms, &Capabilities::default()).accepted().unwrap();
    assert_eq!(same.honored(), terms.honored());
    let no = renegotiate(&offer(), &terms, &wish(json!({"accept_signed_manifests_only": true})));
    assert_eq!(no.rejected().unwrap().code, Reason::ManifestSignatureRequired);
    // The limit of subscriptions does not affect an existing one.
    let full = Offer { full: Some(9), ..offer() };
    assert!(renegotiate(&full, &terms, &wish(json!({"pace_wpm": 100}))).accepted().is_some());
}

#[test]
fn renegotiations_do_not_accumulate() {
    let mut terms = agreed(&json!({}));
    for at in 0..2_000 {
        let mut wish = Capabilities::default();
        wish.extensions.insert(format!("x{at}"), json!({"a": 1}));
        terms = renegotiate(&offer(), &terms, &wish).accepted().unwrap();
    }
    assert!(terms.requested().extensions.is_empty() && terms.notes().len() <= 8, "{terms:?}");
}

/// G-30.
#[test]
fn replies_are_supported_without_a_handshake() {
    let terms = Terms::implied(&offer());
    assert!(terms.replies(Kind::AwaitingConfirmation) && terms.replies(Kind::AwaitingClarification));
    assert_eq!(terms.boundaries(), [Boundary::Sentence, Boundary::Completion]);
    assert!(terms.passes_filters("aaep:agent.state.changed") && !terms.passes_filters("medai:alert"));
}

/// G-20, R-006, R-117.
#[test]
fn filters_match_as_specified() {
    let filters = |include: &[&str], exclude: &[&str]| EventFilters {
        include: (!include.is_empty()).then(|| include.iter().map(|&pattern| pattern.into()).collect()),
        exclude: Some(exclude.iter().map(|&pattern| pattern.into()).collect()),
    };
    for (include, exclude, name, passes) in [
        (&[][..], &[][..], "aaep:agent.tool.invoked", true),
        (&[], &[], "medai:alert", false),
        (&["*"], &[], "medai:alert", true),
        (&["aaep:agent.*"], &[], "aaep:agent.tool.invoked", true),
        (&["aaep:agent.tool.*"], &["aaep:agent.tool.completed"], "aaep:agent.tool.completed", false),
        (&["aaep:agent.tool.completed"], &["aaep:agent.tool.*"], "aaep:agent.tool.completed", false),
        (&["aaep:agent.tool.*"], &[], "aaep:agent.toolbox", false),
        (&["medai:alert.*"], &[], "medai:alert", true),
        (&["aaep:*.invoked"], &[], "aaep:agent.tool.invoked", false),
        (&["https://aaep-protocol.org/types/agent.tool.*"], &[], "aaep:agent.tool.invoked", true),
        (&[], &["https://aaep-protocol.org/types/agent.tool.invoked"], "aaep:agent.tool.invoked", false),
        (&["aaep:agent.tool.*"], &[], "https://aaep-protocol.org/types/agent.tool.invoked", true),
    ] {
        assert_eq!(filters(include, exclude).pass(name), passes, "{include:?} {exclude:?} {name}");
    }
}

fn boundary() -> impl Strategy<Value = &'static str> {
    prop::sample::select(vec!["none", "word", "sentence", "paragraph", "completion"])
}

const TAGS: [&str; 10] =
    ["en", "en-US", "en-GB", "fr", "fr-CA", "yo-NG", "zh-Hant-TW", "zh-Hans", "tlh", "es-419"];
const PATTERNS: [&str; 8] = [
    "*",
    "aaep:agent.*",
    "aaep:agent.tool.*",
    "aaep:agent.tool.invoked",
    "aaep:agent.session.*",
    "aaep:agent.state.changed",
    "medai:*",
    "medai:alert",
];
const URIS: [&str; 4] = [
    "https://example.org/medai/v1",
    "https://example.org/medai/v2",
    "https://example.org/tutor",
    "https://example.org/nobody",
];

fn some_of(all: &'static [&'static str], most: usize) -> impl Strategy<Value = Vec<String>> {
    prop::sample::subsequence(all.to_vec(), 0..=most.min(all.len()))
        .prop_shuffle()
        .prop_map(|list| list.into_iter().map(str::to_owned).collect())
}

prop_compose! {
    fn wish()(
        rate in prop::option::of(1_u32..60),
        languages in prop::option::of(some_of(&TAGS, 5).prop_filter("not empty", |list| !list.is_empty())),
        replies in (any::<Option<bool>>(), any::<Option<bool>>()),
        boundaries in prop::option::of(prop::collection::btree_set(boundary(), 1..5)),
        filters in prop::option::of((prop::option::of(some_of(&PATTERNS, 3)), prop::option::of(some_of(&PATTERNS, 3)))),
        levels in prop::option::of(prop::sample::subsequence(vec![1_u8, 2, 3], 0..=3)),
        extensions in prop::option::of(some_of(&URIS, 3)),
        tone in (prop::option::of(prop::sample::select(vec!["terse", "normal", "detailed"])),
            prop::option::of(prop::sample::select(vec!["low", "medium", "high"])), prop::option::of(50_u32..=1_000)),
        signed in any::<Option<bool>>(),
    ) -> Capabilities {
        Capabilities {
            max_events_per_second: rate,
            languages,
            supports_confirmation_reply: replies.0,
            supports_clarification_reply: replies.1,
            coalesce_boundaries: boundaries.map(|set| set.into_iter().map(Boundary::from).collect()),
            event_filters: filters.map(|(include, exclude)| EventFilters { include, exclude }),
            supported_conformance_levels: levels,
            supported_extensions: extensions,
            preferred_verbosity: tone.0.map(Verbosity::from),
            cognitive_load: tone.1.map(Pace::from),
            pace_wpm: tone.2,
            accept_signed_manifests_only: signed,
            extensions: std::collections::BTreeMap::new(),
        }
    }
}

prop_compose! {
    fn any_offer()(
        rate in prop::option::of(1_u32..60),
        languages in some_of(&TAGS, 5),
        primary in prop::sample::select(TAGS.to_vec()),
        level in 1_u8..=3,
        replies in any::<(bool, bool)>(),
        boundaries in prop::collection::btree_set(boundary(), 0..5),
        extensions in some_of(&URIS, 4),
        signed in any::<bool>(),
    ) -> Offer {
        let mut offer = Offer::new(Producer::named("planner"), primary);
        offer.max_events_per_second = rate;
        offer.languages = languages;
        offer.level = level;
        (offer.confirmations, offer.clarifications) = replies;
        offer.boundaries = boundaries.into_iter().map(Boundary::from).collect();
        let prefix = |uri: &str| if uri.contains("medai") { "medai" } else { "tutor" };
        offer.extensions = extensions.iter().map(|uri| Extension::new(uri.as_str(), prefix(uri))).collect();
        offer.signed_manifest = signed.then(|| "aa.bb.cc".into());
        offer
    }
}

/// R-112, reimplemented independently: no capability exceeds the request or the offer.
fn within(offer: &Offer, requested: &Capabilities, terms: &Terms) -> Result<(), TestCaseError> {
    let honored = terms.honored();
    let rate = honored.max_events_per_second;
    for most in [requested.max_events_per_second, offer.max_events_per_second].into_iter().flatten() {
        prop_assert!(rate.is_some_and(|rate| rate <= most), "{rate:?} of {most}");
    }
    let wishes = requested.languages.clone().unwrap_or_else(|| vec!["en-US".into()]);
    if let Some(languages) = &honored.languages {
        prop_assert!(!languages.is_empty() && languages.iter().all(|tag| wishes.contains(tag)));
        let spoken = |tag: &String| {
            let all = offer.languages.iter().chain(std::iter::once(&offer.primary_language));
            all.into_iter().any(|offered| nearness(tag, offered).is_some())
        };
        prop_assert!(languages.iter().all(spoken));
    }
    let default = [Boundary::Sentence, Boundary::Completion];
    let boundaries = requested.coalesce_boundaries.as_deref().unwrap_or(&default);
    prop_assert!(!terms.boundaries().is_empty());
    prop_assert!(terms.boundaries().iter().all(|boundary| boundaries.contains(boundary)));
    let levels = requested.supported_conformance_levels.clone().unwrap_or_else(|| vec![1]);
    if let Some(honored) = &honored.supported_conformance_levels {
        prop_assert!(honored.iter().all(|level| levels.contains(level) && *level <= offer.level));
    }
    if let Some(uris) = &honored.supported_extensions {
        prop_assert!(uris.iter().all(|uri| requested.supported_extensions.as_ref().unwrap().contains(uri)));
    }
    prop_assert!(
        honored.supports_confirmation_reply != Some(true)
            || (requested.supports_confirmation_reply == Some(true) && offer.confirmations)
    );
    prop_assert!(
        honored.supports_clarification_reply != Some(true)
            || (requested.supports_clarification_reply == Some(true) && offer.clarifications)
    );
    prop_assert!(
        requested.accept_signed_manifests_only != Some(true)
            || honored.accept_signed_manifests_only == Some(true)
    );
    let names = Kind::ALL.iter().map(|kind| kind.compact()).chain(["medai:alert", "medai:x", "tutor:hint"]);
    let requested_filters = requested.event_filters.clone().unwrap_or_default();
    for name in names {
        prop_assert!(!terms.passes_filters(name) || requested_filters.pass(name), "{name}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_honoured_beyond_the_request(requested in wish(), offer in any_offer(), change in wish()) {
        let request = SubscriptionRequest::new("1.0.0".into(), "reader".into(), requested.clone());
        match evaluate(&offer, &request) {
            HandshakeOutcome::Accepted(terms) => {
                within(&offer, &requested, &terms)?;
                prop_assert_eq!(exceeded_capabilities(&requested, terms.honored()), Vec::<&str>::new());
                // The message is valid, and the checker has no findings.
                let message = terms.to_message(&offer, SubscriptionId::new("sub_1").unwrap());
                let message = build::message(message).map_err(|refused| TestCaseError::fail(refused.to_string()))?;
                let mut checker = Checker::new(Options::default());
                checker.text(1, &Message::from(request).to_json());
                checker.text(2, &message.to_json());
                prop_assert_eq!(checker.take(), Vec::new());
                // The same holds after a renegotiation.
                if let HandshakeOutcome::Accepted(changed) = renegotiate(&offer, &terms, &change) {
                    within(&offer, changed.requested(), &changed)?;
                    prop_assert_eq!(exceeded_capabilities(changed.requested(), changed.honored()), Vec::<&str>::new());
                }
            }
            HandshakeOutcome::Rejected(refusal) => {
                let signed = requested.accept_signed_manifests_only == Some(true) && offer.signed_manifest.is_none();
                let prefixes = requested.supported_extensions.iter().flatten().filter(|uri| {
                    offer.extensions.iter().any(|known| known.uri == **uri)
                });
                let collides = prefixes.count() > 1;
                prop_assert!(signed || collides, "{refusal:?}");
            }
        }
    }

    /// R-111: any text gets a response.
    #[test]
    fn any_request_gets_a_response(text in prop_oneof!["\\PC{0,60}", "[\\[\\]{}\",:0-9a-e.]{0,60}"], version in "\\PC{0,9}") {
        let refusal = evaluate_text(&offer(), &text).rejected();
        prop_assert!(build::message(refusal.unwrap().to_message()).is_ok());
        if let HandshakeOutcome::Rejected(refusal) = evaluate_text(&offer(), &asking(&version, &json!({"a": {}}))) {
            prop_assert!(build::message(refusal.to_message()).is_ok());
        }
    }

    /// Filters that do not exceed the request pass no other name.
    #[test]
    fn filter_comparison_matches_filter_behaviour(one in wish(), two in wish(), name in prop::sample::select(PATTERNS.to_vec()),
        rest in "[a-z.]{0,4}") {
        let name = format!("{}{rest}", name.trim_end_matches('*'));
        let passes = |wish: &Capabilities| wish.event_filters.clone().unwrap_or_default().pass(&name);
        if !exceeded_capabilities(&one, &two).contains(&"event_filters") {
            prop_assert!(!passes(&two) || passes(&one), "{name}");
        }
    }
}
