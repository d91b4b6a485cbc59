//! Stubs for operating systems without a sandbox. This program is never started as a warden there.
//!
//! [`super::Sandbox::probe`] refuses every layer but `off` there, so no command reaches this code.

use std::process::ExitCode;

/// The first argument of a warden, as on Linux.
pub(crate) const WARDEN_ARGUMENT: &str = "__sandbox";

pub(crate) fn enter() -> Option<ExitCode> {
    None
}

/// No limits are held for sandboxes.
pub(crate) type ControlGroupGuard = ();

pub(crate) fn acquire_group_guard() {}

pub(crate) fn limits_memory() -> bool {
    false
}

pub(crate) fn limits_processes() -> bool {
    false
}

pub(crate) fn drops_root() -> bool {
    false
}

pub(crate) fn has_landlock() -> bool {
    false
}
