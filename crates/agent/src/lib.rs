//! The agent: executes own runs. It sends requests to models, runs tools in a sandbox, requests approvals as the policy
//! requires, and enforces budgets.
//!
//! It reports results to the engine and reads the next step from the log; it has no state of its own that is not in the
//! log. It must never depend on faces or stores. Start with `worker`; [`model`] is the interface to providers, and
//! [`tool`] the interface to tools.

mod agent;
mod approval_request;
mod approved;
mod budget;
mod call_input;
mod calls;
mod child_run;
mod client;
pub mod conversation;
mod conversation_cache;
mod ending;
mod execute;
mod foreign;
mod git;
mod headers;
mod held;
mod hooked;
pub mod hooks;
mod instructions;
pub mod limits;
pub mod mcp;
pub mod model;
mod model_images;
mod patch;
mod patching;
pub mod paths;
mod perform;
pub mod policy;
mod provision;
mod reach;
mod read_back;
mod refused_context;
mod request;
mod response_blocks;
pub mod sandbox;
pub mod schema;
mod sweep;
mod system;
mod throttle;
mod together;
pub mod tool;
pub mod tools;
mod turn;
mod turn_instructions;
pub mod web;
mod work_places;
mod worker;
mod workspace;

pub use agent::{Agent, Experimental, Settings};
pub use system::{CommandFacts, SystemFacts, WorkspaceFacts, default_system};
pub use workspace::Workspaces;
