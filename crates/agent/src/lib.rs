//! The agent: executes own runs. It sends requests to models, runs tools in a sandbox, requests approvals as the policy
//! requires, and enforces budgets.
//!
//! It reports results to the engine and reads the next step from the log; it has no state of its own that is not in the
//! log. It must never depend on faces or stores. Start with `worker`; [`model`] is the interface to providers, and
//! [`tool`] the interface to tools.
//!
//! On Windows only settings are read and checked: nothing there confines commands, and `paths` needs Unix. What executes runs
//! is not compiled.
#![cfg_attr(not(unix), allow(dead_code, reason = "settings are read, and nothing executes them"))]

#[cfg(unix)]
mod agent;
#[cfg(unix)]
mod approval_request;
mod approved;
#[cfg(unix)]
mod budget;
#[cfg(unix)]
mod call_input;
#[cfg(unix)]
mod calls;
#[cfg(unix)]
mod child_run;
#[cfg(unix)]
mod client;
#[cfg(unix)]
pub mod conversation;
#[cfg(unix)]
mod conversation_cache;
#[cfg(unix)]
mod ending;
#[cfg(unix)]
mod execute;
mod experimental;
#[cfg(unix)]
mod foreign;
#[cfg(unix)]
mod git;
mod headers;
mod held;
#[cfg(unix)]
mod hooked;
pub mod hooks;
#[cfg(unix)]
mod instructions;
pub mod limits;
pub mod mcp;
pub mod model;
#[cfg(unix)]
mod model_images;
#[cfg(unix)]
mod patch;
#[cfg(unix)]
mod patching;
#[cfg(not(unix))]
#[path = "settings_only/paths.rs"]
pub mod paths;
#[cfg(unix)]
pub mod paths;
#[cfg(unix)]
mod perform;
pub mod policy;
#[cfg(unix)]
mod provision;
#[cfg(unix)]
mod reach;
#[cfg(unix)]
mod read_back;
#[cfg(unix)]
mod refused_context;
#[cfg(unix)]
mod request;
#[cfg(unix)]
mod response_blocks;
#[cfg(not(unix))]
#[path = "settings_only/sandbox.rs"]
pub mod sandbox;
#[cfg(unix)]
pub mod sandbox;
pub mod schema;
#[cfg(unix)]
mod sweep;
mod system;
#[cfg(unix)]
mod throttle;
#[cfg(unix)]
mod together;
pub mod toml_error;
pub mod tool;
pub mod tools;
#[cfg(unix)]
mod turn;
#[cfg(unix)]
mod turn_instructions;
pub mod web;
mod work_places;
#[cfg(unix)]
mod worker;
#[cfg(unix)]
mod workspace;

#[cfg(unix)]
pub use agent::{Agent, Settings};
pub use experimental::Experimental;
pub use system::{CommandFacts, SystemFacts, WorkspaceFacts, default_system};
#[cfg(unix)]
pub use workspace::Workspaces;
