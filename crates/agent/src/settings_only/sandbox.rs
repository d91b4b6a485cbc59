//! Settings of the sandbox, where Recount has none.
//!
//! `crate::sandbox` is this module on Windows.

#[path = "../sandbox/limits.rs"]
pub mod limits;
#[path = "../sandbox/settings.rs"]
mod settings;

use std::process::ExitCode;

pub use self::NoSandbox as Sandbox;
pub use self::settings::{Mode, SandboxSettings};

/// None can exist.
#[derive(Debug)]
pub enum NoSandbox {}

/// This program is never started as a warden.
pub fn entrance() -> Option<ExitCode> {
    None
}
