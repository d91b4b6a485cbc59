//! Limits of hooks. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// Hooks of a configuration; more are refused when it is read.
pub const HOOKS_MAX: usize = 32;

/// Characters of the name of a hook; a longer one is refused when the configuration is read.
pub const HOOK_NAME_CHARS_MAX: usize = 64;

/// How long a hook has for one call, where the settings do not say; then it is killed and has failed.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The longest of these times that settings may say; a longer one is refused when the configuration is read.
pub const HOOK_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Bytes that a hook may write to standard output and standard error together; then it is killed and has failed.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a hook's reason that the log and the model get; the rest is left out.
pub const HOOK_REASON_BYTES_MAX: usize = 4 << 10;
