//! Hooks: programs of the operator that run before and after tool calls (`PreToolUse`, `PostToolUse`).
//!
//! A hook before a call may veto it. A hook after a call changes nothing. Both read the stored bytes of the call's
//! event, or the JSON object of Claude Code's hooks, see [`claude`]. Start at [`Hooks`], the configured hooks, and at
//! [`HookedCall`], one call and its hooks.
//!
//! The module must not depend on workers.

#[cfg(unix)]
mod call;
#[cfg(unix)]
mod claude;
mod hook;
pub mod limits;
mod matcher;
mod names;
#[cfg(unix)]
mod process;
#[cfg(unix)]
mod ruling;
mod settings;

#[cfg(unix)]
pub(crate) use self::call::{HookContext, HookedCall};
pub use self::hook::Hooks;
pub use self::settings::{HookCommand, HookEvent, HookSettings, HookSettingsError, HookStyle, OnFailure};
