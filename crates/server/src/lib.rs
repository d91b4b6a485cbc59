//! The assembly: configuration, the choice of store and faces, the guard, the listener, shutdown.
//!
//! Only this crate (and the simulation) names the plugs. It must never know the rules.

mod config;
pub mod export;
mod guard;
mod health;
pub mod limits;
mod listen;
mod logging;
mod running;
mod start;
pub mod verify;
mod web;

pub use config::{Config, Options};
pub use running::Running;
pub use start::{StartError, serve};
