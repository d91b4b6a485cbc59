//! Limits of one run. At each, the command is refused with `limit_reached`.
//!
//! They bound what is reported, never what closes: a run at every limit can still be answered, cancelled
//! and ended. [`crate::audit`] does not know them, so that a log written under other limits stays readable.

/// Calls proposed, invoked or announced by an approval, and not yet settled; one more is refused.
pub const CALLS_OPEN_MAX: usize = 256;

/// Calls of a run, settled ones included; one more is refused.
pub const CALLS_MAX: u64 = 200_000;

/// Text and thinking blocks open at once; one more is refused.
pub const BLOCKS_OPEN_MAX: usize = 16;

/// Text and thinking blocks of one turn, its retries included; one more is refused.
pub const BLOCKS_PER_TURN_MAX: usize = 4_096;

/// Bytes of one text or thinking block; the piece that would go beyond is refused. Half of what one event
/// may hold, so that the whole text, written down, still fits in the event that completes it.
pub const TEXT_BLOCK_BYTES_MAX: usize = 512 << 10;

/// Approvals, questions and handoffs without an outcome; one more is refused.
pub const PROMPTS_OPEN_MAX: usize = 64;

/// Approvals, questions and handoffs of a run; one more is refused.
pub const PROMPTS_MAX: u64 = 100_000;

/// Seconds that extensions may add to the deadline of one prompt, all together; more is refused. A day is the longest
/// time that a prompt has in the accessibility event protocol.
pub const EXTENSION_SECONDS_MAX: u64 = 86_400;

/// Extensions of one prompt; one more is refused, so that a client cannot fill the log of a run with them.
pub const EXTENSIONS_MAX: u64 = 100;

/// Turns started in a run, retries included; one more is refused.
pub const TURNS_MAX: u64 = 100_000;

/// Different thresholds at which a run may warn of its budget; one more is refused.
pub const WARNINGS_MAX: usize = 100;

/// Events reported in one batch; a longer one is refused.
pub const BATCH_DRAFTS_MAX: usize = 10_000;

/// Bytes of a name, comment or reason that comes with a command; a longer one is refused.
pub const WORDS_BYTES_MAX: usize = 16 << 10;

/// Bytes of an answer to a question; a longer one is refused.
pub const RESPONSE_BYTES_MAX: usize = 256 << 10;

/// Bytes of a call's result from an application; more is refused. Half of what one event may hold.
pub const OUTPUT_BYTES_MAX: usize = 512 << 10;

/// Bytes of what an answer changes of the configuration of a run; more is refused.
pub const CONFIG_BYTES_MAX: usize = 512 << 10;

/// The share of a task's budget at which a run of ours warns once, in percent; `budget_warned` of `run.queued`
/// speaks of it.
pub const BUDGET_WARNING_PCT: u64 = 80;
