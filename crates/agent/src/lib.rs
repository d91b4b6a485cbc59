//! The agent: does what our own runs are owed. Asks models, runs tools in a sandbox, asks people first where
//! the policy says so, and keeps to the budget.
//!
//! [`model`] is what every provider looks like from here, [`tool`] what every tool does. It reports what it
//! did to the engine and learns from the log what comes next; it holds no truth of its own.
//!
//! It must never know faces or stores.

mod agent;
mod approved;
mod budget;
mod call_input;
mod calls;
mod child_run;
mod client;
pub mod conversation;
mod ending;
mod execute;
mod foreign;
mod git;
mod given;
mod headers;
mod held;
mod hooked;
pub mod hooks;
mod instructions;
mod leave;
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
mod recall;
mod refused_context;
mod request;
mod said;
pub mod sandbox;
pub mod schema;
mod sweep;
mod system;
mod throttle;
mod together;
pub mod tool;
pub mod tools;
mod turn;
pub mod web;
mod work_places;
mod worker;
mod workspace;

pub use agent::{Agent, Experimental, Settings};
pub use system::{CommandFacts, SystemFacts, WorkspaceFacts, default_system};
pub use workspace::Workspaces;
