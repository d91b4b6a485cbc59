//! The scripted producer: correct on every surface, and with one fault at a time.
#![allow(clippy::unwrap_used, reason = "in a test a surprise is a panic")]

mod peer;
mod probe;
mod surfaces;

use peer::{Peer, Surface, everything, http};
use recount_aaep_kit::World;
use recount_aaep_kit::aaep::session::{Checker, Options};
use recount_aaep_kit::conformance::requirements::Requirement;
use recount_aaep_kit::scenario::Scenario;
use recount_aaep_kit::scripted::{Behaviour, Fault, Scripted};
use serde_json::{Value, json};

/// The findings of the strict checker in a conversation.
fn findings(lines: &[String]) -> Vec<String> {
    let mut checker = Checker::new(Options::default());
    for (at, line) in lines.iter().enumerate() {
        checker.text(at + 1, line);
    }
    checker.finish();
    let describe = |finding: &recount_aaep_kit::aaep::rule::Finding| {
        format!("{finding}\n  in {}", lines.get(finding.line - 1).map_or("", String::as_str))
    };
    let found = checker.take();
    found.iter().filter(|finding| !MEANT.contains(&finding.rule.id)).map(describe).collect()
}

/// Expected findings: these tests use short timeouts, and the context of the extension on joined events is not
/// fetched.
const MEANT: [&str; 2] = ["prompt.timeout_advice", "extension.unresolved"];

async fn right() -> Scripted {
    Scripted::start(&World::real(), Behaviour::default()).await.unwrap()
}

/// Plays every scenario for one subscriber and checks the whole conversation.
async fn plays_all(
    surface: Surface,
    capabilities: Option<Value>,
    confirm: Value,
    clarify: Value,
    meant: &[&str],
) {
    let behaviour = Behaviour { timeout_seconds: 1, ..Behaviour::default() };
    let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
    let mut peer = Peer::open(producer.base(), surface, capabilities).await;
    for scenario in Scenario::ALL {
        peer.input(scenario.text()).await;
        let events = peer.through(&confirm, &clarify).await;
        let last = events.last().unwrap_or_else(|| panic!("{scenario:?} over {surface:?}: no events"));
        assert!(
            last["type"].as_str().unwrap().contains("session."),
            "{scenario:?} over {surface:?} has no end: {last}"
        );
    }
    let mut found = findings(&peer.lines);
    found.retain(|finding| !meant.iter().any(|rule| finding.contains(rule)));
    assert!(found.is_empty(), "over {surface:?}:\n{}", found.join("\n"));
    producer.stop().await;
}

#[tokio::test]
async fn every_scenario_is_right_on_every_surface_when_prompts_are_accepted() {
    for surface in Surface::ALL {
        plays_all(surface, None, json!({"decision": "accept"}), json!({"response": "Lima"}), &[]).await;
    }
}

#[tokio::test]
async fn every_scenario_is_right_when_prompts_are_rejected_and_after_a_handshake() {
    for surface in Surface::ALL {
        plays_all(
            surface,
            Some(everything()),
            json!({"decision": "reject"}),
            json!({"response": "Oslo"}),
            &[],
        )
        .await;
    }
}

#[tokio::test]
async fn every_scenario_is_valid_without_replies() {
    for surface in [Surface::Legacy, Surface::Versioned] {
        plays_all(surface, Some(everything()), Value::Null, Value::Null, &[]).await;
    }
}

#[tokio::test]
async fn every_scenario_is_right_within_narrow_terms() {
    let narrow = json!({"max_events_per_second": 50, "coalesce_boundaries": ["paragraph", "completion"],
        "supports_confirmation_reply": true, "preferred_verbosity": "terse", "cognitive_load": "low"});
    // A prompt overtakes a change of state that the rate holds back.
    // While many events wait, the states of a session are merged, also across its calls and texts (0058).
    let meant =
        ["warning prompt.state", "warning state.handoff", "warning state.tool", "warning state.output"];
    for surface in Surface::ALL {
        plays_all(surface, Some(narrow.clone()), json!({"decision": "accept"}), Value::Null, &meant).await;
    }
}

#[tokio::test]
async fn requests_without_the_token_are_refused_everywhere() {
    let behaviour = Behaviour { token: Some("open-sesame".into()), ..Behaviour::default() };
    let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
    let (base, http) = (producer.base(), http());
    for path in [
        "/events",
        "/healthz",
        "/ws",
        "/aaep/v1/events?subscription_id=sub_1",
        "/aaep/v1/ws",
        "/.well-known/aaep-manifest.json",
    ] {
        assert_eq!(http.get(format!("{base}{path}")).send().await.unwrap().status(), 401, "{path}");
    }
    for path in ["/messages", "/sessions", "/aaep/v1/subscriptions", "/aaep/v1/replies"] {
        let answer = http.post(format!("{base}{path}")).bearer_auth("open").body("{}").send().await.unwrap();
        assert_eq!(answer.status(), 401, "{path}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    }
    for surface in Surface::ALL {
        let mut peer = Peer::with_token(base, surface, None, Some("open-sesame")).await;
        peer.input(Scenario::Brief.text()).await;
        assert_eq!(peer.through(&Value::Null, &Value::Null).await.len(), 5, "{surface:?}");
    }
    producer.stop().await;
}

#[tokio::test]
async fn a_disconnected_reader_resumes_without_loss() {
    for surface in [Surface::Legacy, Surface::Versioned] {
        let producer = right().await;
        let mut peer = Peer::open(producer.base(), surface, Some(everything())).await;
        peer.input(Scenario::LongStream.text()).await;
        for _ in 0..20 {
            peer.next().await.unwrap();
        }
        peer.cut().await;
        let last = peer.ids.last().unwrap().clone();
        peer.resume(&last).await;
        peer.through(&Value::Null, &Value::Null).await;
        let found = findings(&peer.lines);
        assert!(found.is_empty(), "over {surface:?}:\n{}", found.join("\n"));
        producer.stop().await;
    }
}

#[tokio::test]
async fn a_late_subscriber_gets_the_current_state_and_can_answer() {
    for surface in Surface::ALL {
        let behaviour = Behaviour { timeout_seconds: 30, ..Behaviour::default() };
        let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
        let mut first = Peer::open(producer.base(), Surface::Versioned, Some(everything())).await;
        first.input(Scenario::Irreversible.text()).await;
        for _ in 0..3 {
            first.next().await.unwrap();
        }
        let mut late = Peer::open(producer.base(), surface, None).await;
        let events = late.through(&json!({"decision": "accept"}), &Value::Null).await;
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert_eq!(
            kinds[..3],
            ["aaep:agent.session.started", "aaep:agent.state.changed", "aaep:agent.awaiting.confirmation",]
        );
        assert_eq!(events[1]["to_state"], "awaiting_input");
        assert!(kinds.contains(&"aaep:agent.tool.invoked"), "{kinds:?}");
        assert!(findings(&late.lines).is_empty(), "over {surface:?}:\n{}", findings(&late.lines).join("\n"));
        first.through(&Value::Null, &Value::Null).await;
        assert!(findings(&first.lines).is_empty(), "{}", findings(&first.lines).join("\n"));
        producer.stop().await;
    }
}

#[tokio::test]
async fn a_prompt_without_answering_subscribers_is_not_executed() {
    let behaviour = Behaviour { timeout_seconds: 600, ..Behaviour::default() };
    let producer = Scripted::start(&World::real(), behaviour).await.unwrap();
    // Another subscriber listens and cannot reply.
    let deaf = json!({"supports_confirmation_reply": false});
    let mut listens = Peer::open(producer.base(), Surface::Versioned, Some(deaf)).await;
    for surface in Surface::ALL {
        let mut peer = Peer::open(producer.base(), surface, None).await;
        peer.input(Scenario::Irreversible.text()).await;
        while peer.next().await.unwrap()["type"] != "aaep:agent.awaiting.confirmation" {}
        peer.cut().await;
        let events = listens.through(&Value::Null, &Value::Null).await;
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        assert!(!kinds.contains(&"aaep:agent.tool.invoked"), "over {surface:?}: {kinds:?}");
        assert_eq!(events[2]["to_state"], "deciding", "over {surface:?}: {events:?}");
    }
    producer.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "full: mutants"]
async fn every_fault_shows_and_a_right_producer_is_the_same_each_time() {
    use futures_util::{StreamExt as _, stream};
    let only = std::env::var("ONLY").unwrap_or_default();
    let looks = Fault::ALL.iter().filter(|fault| fault.name().contains(&only)).map(|fault| async move {
        let fault = *fault;
        let right = probe::behaviour(fault);
        let wrong = Behaviour { fault: Some(fault), ..right.clone() };
        let once = probe::observe(fault, right.clone()).await;
        let again = probe::observe(fault, right).await;
        let wrong = probe::observe(fault, wrong).await;
        (fault, once, again, wrong)
    });
    let mut looks = stream::iter(looks).buffer_unordered(16);
    let mut amiss = Vec::new();
    while let Some((fault, once, again, wrong)) = looks.next().await {
        if once != again {
            amiss.push(format!(
                "{}: a right producer is not the same each time:\n{once}\n{again}",
                fault.name()
            ));
        } else if once == wrong {
            amiss.push(format!("{}: nothing shows:\n{once}", fault.name()));
        }
        if !only.is_empty() {
            println!("right: {once}\nwrong: {wrong}");
        }
    }
    assert!(amiss.is_empty(), "{}", amiss.join("\n"));
}

#[test]
fn every_fault_has_a_description_and_breaks_a_requirement_of_its_level() {
    assert!(Fault::ALL.len() >= 45);
    let mut names = std::collections::BTreeSet::new();
    for fault in Fault::ALL {
        let requirement =
            Requirement::named(fault.requirement()).unwrap_or_else(|| panic!("{}", fault.name()));
        assert!(requirement.concerns_producers(), "{}", fault.name());
        assert!(fault.level() >= requirement.level, "{}: {}", fault.name(), requirement.level);
        assert!(fault.description().ends_with('.') && names.insert(fault.name()));
    }
}
