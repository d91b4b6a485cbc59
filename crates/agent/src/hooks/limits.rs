//! Limits of hooks. Each constant documents what happens when it is reached.

use std::time::Duration;

/// Hooks of a configuration. More are refused when it is read.
pub const HOOKS_MAX: usize = 32;

/// Characters of the name of a hook. A longer one is refused when the configuration is read.
pub const HOOK_NAME_CHARS_MAX: usize = 64;

/// Default time of a hook for one call. Then it is killed and has failed.
pub const HOOK_TIMEOUT: Duration = Duration::from_secs(60);

/// The maximum of these times. A longer one is refused when the configuration is read.
pub const HOOK_TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// Bytes that a hook may write to standard output and standard error together. Beyond it the hook is killed and has
/// failed.
pub const HOOK_OUTPUT_BYTES_MAX: usize = 1 << 20;

/// Bytes of a hook's reason in the log and for the model. The rest is omitted.
pub const HOOK_REASON_BYTES_MAX: usize = 4 << 10;
