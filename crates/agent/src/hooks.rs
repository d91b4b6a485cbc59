//! Hooks: programs of the operator that are run before and after tool calls (`PreToolUse`, `PostToolUse`).
//!
//! A hook before a call may veto it. A hook after a call changes nothing. Both read the stored bytes of the call's
//! event, or the JSON object of Claude Code's hooks, see [`claude`]. Look at [`Hooks`], what is configured, and at
//! [`HookedCall`], one call and the hooks that are about it.
//!
//! It must never know workers.

mod call;
mod claude;
mod hook;
pub mod limits;
mod matcher;
mod names;
mod process;
mod ruling;
mod settings;

pub(crate) use self::call::{HookPlace, HookedCall};
pub use self::hook::Hooks;
pub use self::settings::{HookCommand, HookEvent, HookSettings, HookSettingsError, HookStyle, OnFailure};
