//! Writes a story down: short-hand in, stored events out. The same short-hand gives the same bytes.
//!
//! In the JSON of a story, `@call.ls` (or any other prefix) stands for an id, `@at.5000` for an instant that
//! many milliseconds after the start, `@digest.ls` for the digest of a proposed call, `@run.file` for the run
//! of another story and `@art.file/patch` for an id of another story.

use std::collections::BTreeMap;

use base64::Engine as _;
use recount_event::codec::encode;
use recount_event::digest::call_digest;
use recount_event::family::run::Driver;
use recount_event::{
    Draft, Event, EventId, Minter, Payload, RunId, SessionId, Stamp, TaskId, door, time,
};
use serde_json::Value;
use ulid::Ulid;
