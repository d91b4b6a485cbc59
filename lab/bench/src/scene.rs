//! The load: events of 400 stored bytes that carry the moment they were due, and the bodies that hold them.
//!
//! The type may occur any number of times in a run and leaves no state, so that a run of
//! a million is as legal as one of ten.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use recount_event::{Draft, door};

pub(crate) const TYPE: &str = "error.upstream";

/// Bytes of a stored event, envelope and all.
pub(crate) const STORED_BYTES: usize = 400;

/// What the envelope takes of [`STORED_BYTES`] while sequences have five or six digits.
const ENVELOPE_BYTES: usize = 199;

/// Text before the digits of the due time in every event.
pub(crate) const MARK: &[u8] = b"due=";
/// Digits of a due time.
pub(crate) const MARK_DIGITS: usize = 19;

/// The `data` of one event.
pub(crate) fn data(due_ns: u64) -> String {
    let mut text = String::with_capacity(STORED_BYTES);
    write!(text, r#"{{"provider":"p","retriable":true,"message":"due={due_ns:019} "#)
        .expect("strings take what is written");
    let length = STORED_BYTES - ENVELOPE_BYTES;
    while text.len() + 2 < length {
        text.push(if text.len().is_multiple_of(8) { ' ' } else { 'm' });
    }
    text.push_str("\"}");
    text
}

pub(crate) fn draft(due_ns: u64) -> Result<Draft> {
    door::draft(TYPE, &data(due_ns)).context("the bench makes legal events")
}

pub(crate) fn started() -> Result<Draft> {
    door::draft("run.started", "{}").context("a run may start")
}

/// The event that ends a run.
pub(crate) fn ending() -> (&'static str, String) {
    ("run.finished", r#"{"final_status":"completed"}"#.to_owned())
}

/// A batch as producers send it.
pub(crate) fn batch(epoch: u64, seq: u64, events: &[(&str, String)]) -> Vec<u8> {
    let mut body = format!(r#"{{"producer":{{"id":"bench","epoch":{epoch},"seq":{seq}}},"events":["#);
    for (at, (name, data)) in events.iter().enumerate() {
        if at > 0 {
            body.push(',');
        }
        write!(body, r#"{{"type":"{name}","data":{data}}}"#).expect("strings take what is written");
    }
    body.push_str("]}");
    body.into_bytes()
}

/// A batch of `count` events that are all due now.
pub(crate) fn plain_batch(seq: u64, count: usize, due_ns: u64) -> Vec<u8> {
    let events: Vec<_> = (0..count).map(|_| (TYPE, data(due_ns))).collect();
    batch(0, seq, &events)
}

/// The first batch of a run.
pub(crate) fn first_batch() -> Vec<u8> {
    batch(0, 0, &[("run.started", "{}".to_owned())])
}

/// A stored event for yardsticks: the same length and the same form of the due time.
pub(crate) fn stored(sequence: u64, due_ns: u64) -> Vec<u8> {
    let mut text = format!(
        r#"{{"schema_version":"1","event_id":"evt_01JAAAAAAAAAAAAAAAAAAAAAAA","run_id":"run_01JAAAAAAAAAAAAAAAAAAAAAAA","sequence":{sequence},"occurred_at":"2026-01-01T00:00:00.000Z","type":"{TYPE}","data":"#
    );
    text.push_str(&data(due_ns));
    text.push('}');
    text.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_event_has_400_bytes() {
        let long = stored(123_456, 1).len();
        assert!(long.abs_diff(STORED_BYTES) <= 4, "{long}");
    }

    #[test]
    fn the_load_events_are_accepted() {
        draft(u64::MAX >> 1).unwrap();
        started().unwrap();
    }
}
