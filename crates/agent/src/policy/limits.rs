//! Limits of policy files, and of command lines that the policy judges. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use crate::limits::COMMAND_BYTES_MAX;

/// Commands of one command line that are judged one by one; a line with more cannot be judged in full, so people are
/// asked about it.
pub const COMMANDS_MAX: usize = 200;

/// How deep commands may stand in one another; a line with deeper ones cannot be judged in full, so people are asked
/// about it.
pub const COMMAND_DEPTH_MAX: usize = 8;

/// Programs that run a command one in another, as `sudo env nice ls` has three; a line with more cannot be judged in
/// full, so people are asked about it.
pub const COMMAND_WRAPPERS_MAX: usize = 8;

/// Bytes of text and words that are gone through to read one command line, counted each time; a line that needs more
/// cannot be judged in full, so people are asked about it. The longest line may be read about eight times, once for each
/// command that is part of another.
pub const COMMAND_STEPS_MAX: usize = 8 * COMMAND_BYTES_MAX;

/// Bytes of a policy's file; a larger one is refused.
pub const POLICY_BYTES_MAX: usize = 256 * 1024;

/// Rules of a policy; one with more is refused.
pub const POLICY_RULES_MAX: usize = 500;

/// Characters of a rule's id; a longer one is refused.
pub const RULE_ID_CHARS_MAX: usize = 64;

/// Characters of any other text in a rule; a longer one is refused.
pub const RULE_TEXT_CHARS_MAX: usize = 500;

/// How long people have to answer when a rule does not say.
pub const APPROVAL_TIMEOUT_SECONDS: u64 = 3_600;
