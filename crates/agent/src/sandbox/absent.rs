//! Operating systems for which there is no sandbox: this program is never started as a warden.
//!
//! [`super::Sandbox::probe`] refuses every layer there but `off`, so none of this is reached by a command.

use std::process::ExitCode;

/// The first argument of a warden, where there are wardens.
pub(crate) const WORD: &str = "__sandbox";

pub(crate) fn enter() -> Option<ExitCode> {
    None
}

pub(crate) fn bounds_processes() -> bool {
    false
}
