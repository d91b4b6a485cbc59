//! Operating systems for which there is no sandbox: this program is never started as a warden.
//!
//! [`super::Sandbox::probe`] refuses every layer there but `off`, so none of this is reached by a command.

use std::process::ExitCode;

/// The first argument of a warden, where there are wardens.
pub(crate) const WORD: &str = "__sandbox";

pub(crate) fn enter() -> Option<ExitCode> {
    None
}

/// Nothing is held for sandboxes.
pub(crate) type Bounds = ();

pub(crate) fn take_bounds() {}

/// The same of memory.
pub(crate) fn bounds_memory() -> bool {
    false
}

pub(crate) fn bounds_processes() -> bool {
    false
}

pub(crate) fn drops_root() -> bool {
    false
}

pub(crate) fn has_landlock() -> bool {
    false
}
