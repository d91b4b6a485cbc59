//! Tests of what takes long, on a clock that the test advances.

use std::sync::Arc;

use recount_world::{ManualClock, SeededEntropy, Tasks, World};
use serde_json::Value;

use super::room::{Read, Room};
use super::subscription::ProducerSurface;
use super::{Behaviour, judge};
use crate::scenario::Scenario;

/// Plays a scenario that nobody answers, half a second at a time; what is told, and when, in milliseconds since it
/// began.
async fn play_scenario(behaviour: Behaviour, scenario: Scenario) -> Vec<(u64, Value)> {
    let began_ms = 1_779_632_000_000;
    let clock = Arc::new(ManualClock::at(began_ms));
    let entropy = Arc::new(SeededEntropy::new(7));
    let world = World { clock: clock.clone(), entropy, tasks: Tasks::new() };
    let room = Room::new(world, behaviour, "http://127.0.0.1:1".into());
    let id = room.open(ProducerSurface::Versioned, room.implied()).unwrap();
    let reader = room.attach(&id).unwrap();
    judge::begin(&room, scenario.text()).unwrap();
    let mut events: Vec<(u64, Value)> = Vec::new();
    for at_ms in (0..).step_by(500) {
        clock.set(began_ms + at_ms);
        room.tick();
        // The session has this thread to itself until it waits again.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        while let Read::Message(sent) = room.read(&id, reader, events.len() as u64) {
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
    let expected = [
        (0, "Delete the customer's record for good. The record and its history cannot be brought back."),
        (60_000, "Half of the time to answer is left."),
        (108_000, "A tenth of the time to answer is left."),
        (120_000, "There was no answer in time, so it is not done."),
        (120_000, "Nothing was done."),
    ];
    assert_eq!(shown, expected.map(|(at, text)| (at, text.to_owned())));
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
    let room: Arc<Room> = Room::new(World::real(), Behaviour::default(), "http://127.0.0.1:1".into());
    let id = room.open(ProducerSurface::Versioned, room.implied()).unwrap();
    room.attach(&id).unwrap();
    for _ in 0..crate::limits::SCRIPTED_SESSIONS_MAX {
        judge::begin(&room, Scenario::Confirm.text()).unwrap();
    }
    assert!(judge::begin(&room, Scenario::Confirm.text()).is_none());
    room.close(&id);
    let mut ticks = room.ticks();
    while room.lock().playing > 0 {
        ticks.changed().await.unwrap();
    }
    assert!(judge::begin(&room, Scenario::Brief.text()).is_some());
}
