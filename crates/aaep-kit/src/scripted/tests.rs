//! Tests of long waits, with a clock that the test advances.

use std::sync::Arc;

use recount_world::{ManualClock, SeededEntropy, Tasks, World};
use serde_json::Value;

use super::hub::{Hub, NextMessage};
use super::subscription::ProducerSurface;
use super::{Behaviour, messages};
use crate::scenario::Scenario;

/// Plays a scenario without replies in steps of half a second; returns the events with their times in milliseconds
/// since the start.
async fn play_scenario(behaviour: Behaviour, scenario: Scenario) -> Vec<(u64, Value)> {
    let began_ms = 1_779_632_000_000;
    let clock = Arc::new(ManualClock::at(began_ms));
    let entropy = Arc::new(SeededEntropy::new(7));
    let world = World { clock: clock.clone(), entropy, tasks: Tasks::new() };
    let hub = Hub::new(world, behaviour, "http://127.0.0.1:1".into());
    let id = hub.open(ProducerSurface::Versioned, hub.default_terms()).unwrap();
    let reader = hub.attach(&id).unwrap();
    messages::begin(&hub, scenario.text()).unwrap();
    let mut events: Vec<(u64, Value)> = Vec::new();
    for at_ms in (0..).step_by(500) {
        clock.set(began_ms + at_ms);
        hub.tick();
        // The session has this thread to itself until it waits again.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        while let NextMessage::Message(sent) = hub.read(&id, reader, events.len() as u64) {
            events.push((at_ms, serde_json::from_str(&sent.text).unwrap()));
        }
        if events.last().is_some_and(|(_, event)| event["type"] == "aaep:agent.session.completed") {
            break;
        }
    }
    events
}

//
#[tokio::test]
async fn a_long_prompt_counts_down_and_takes_its_default_when_its_time_is_up() {
    let behaviour = Behaviour { timeout_seconds: 120, ..Behaviour::default() };
    let events = play_scenario(behaviour, Scenario::Irreversible).await;
    let shown: Vec<(u64, String)> = events
        .iter()
        .map(|(at, event)| (*at, event["summary_normal"].as_str().unwrap().to_owned()))
        .skip(2)
        .collect();
    let reserved_stream = [
        (0, "Delete the customer's record for good. The record and its history cannot be brought back."),
        (60_000, "Half of the time to answer is left."),
        (108_000, "A tenth of the time to answer is left."),
        (120_000, "There was no answer in time, so it is not done."),
        (120_000, "Nothing was done."),
    ];
    assert_eq!(shown, reserved_stream.map(|(at, text)| (at, text.to_owned())));
    assert_eq!(events[4].1["eta_ms"], 12_000);
}

#[tokio::test]
async fn a_short_prompt_has_no_countdown() {
    let behaviour = Behaviour { timeout_seconds: 60, ..Behaviour::default() };
    let events = play_scenario(behaviour, Scenario::Clarify).await;
    assert_eq!(events.len(), 5, "{events:?}");
    assert_eq!(events[3].0, 60_000);
}

#[tokio::test]
async fn sessions_beyond_the_bound_are_refused_and_their_places_come_back() {
    let hub: Arc<Hub> = Hub::new(World::real(), Behaviour::default(), "http://127.0.0.1:1".into());
    let id = hub.open(ProducerSurface::Versioned, hub.default_terms()).unwrap();
    hub.attach(&id).unwrap();
    for _ in 0..crate::limits::SCRIPTED_SESSIONS_MAX {
        messages::begin(&hub, Scenario::Confirm.text()).unwrap();
    }
    assert!(messages::begin(&hub, Scenario::Confirm.text()).is_none());
    hub.close(&id);
    let mut ticks = hub.ticks();
    while hub.lock().playing > 0 {
        ticks.changed().await.unwrap();
    }
    assert!(messages::begin(&hub, Scenario::Brief.text()).is_some());
}
