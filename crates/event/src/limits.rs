//! Limits of an event and its parts, and what happens at each.

/// Nesting of JSON from outside; deeper is refused.
pub const JSON_DEPTH_MAX: usize = 64;

/// Integers must stay below this in size (2^53), so that every reader counts alike; larger is refused.
pub const INTEGER_MAX: u64 = 1 << 53;

/// Bytes of one event's `data`; more is refused. Larger things are artifacts.
pub const DATA_BYTES_MAX: usize = 1 << 20;

/// Length of an identifier chosen by a producer; longer is refused.
pub const FOREIGN_ID_BYTES_MAX: usize = 128;

/// Length of an event type's name; longer is refused.
pub const TYPE_NAME_BYTES_MAX: usize = 128;

/// Envelope fields that this release does not know; an envelope with more is not read.
pub const ENVELOPE_FIELDS_EXTRA_MAX: usize = 64;

/// Invalid fields that the refusal of an event names; for the rest it gives their number.
pub const FAULTS_NAMED_MAX: usize = 20;
