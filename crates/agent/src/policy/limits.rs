//! Limits of policy files, and of command lines that the policy judges. Each constant documents what happens when it is
//! reached.

use crate::limits::COMMAND_BYTES_MAX;

/// Commands of one command line that are judged one by one. A line with more cannot be judged completely, so it needs
/// approval.
pub const COMMANDS_MAX: usize = 200;

/// Nesting depth of commands. A line with deeper nesting cannot be judged completely, so it needs approval.
pub const COMMAND_DEPTH_MAX: usize = 8;

/// Nested programs that run a command: `sudo env nice ls` has three. A line with more cannot be judged completely, so
/// it needs approval.
pub const COMMAND_WRAPPERS_MAX: usize = 8;

/// Words that count as the command of a program that is named among the arguments of another program. Later words do not
/// count.
pub const NAMED_WORDS_MAX: usize = 24;

/// Bytes of text and words that are processed to read one command line, counted each time. A line that needs more
/// cannot be judged completely, so it needs approval. The longest line may be read about eight times, once for each
/// command that is part of another.
pub const COMMAND_STEPS_MAX: usize = 8 * COMMAND_BYTES_MAX;

/// Bytes of a policy file. A larger one is refused.
pub const POLICY_BYTES_MAX: usize = 256 * 1024;

/// Rules of a policy. A policy with more is refused.
pub const POLICY_RULES_MAX: usize = 500;

/// Characters of a rule's id. A longer one is refused.
pub const RULE_ID_CHARS_MAX: usize = 64;

/// Characters of any other text in a rule. A longer one is refused.
pub const RULE_TEXT_CHARS_MAX: usize = 500;

/// Default time for a person to approve a call. Then the rule's default applies.
pub const APPROVAL_TIMEOUT_SECONDS: u64 = 3_600;
