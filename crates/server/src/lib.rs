//! The assembly: configuration, the choice of store and faces, the guard, the listener, shutdown.
//!
//! Only this crate (and the simulation) names the plugs. It must never know the rules.

pub mod access;
mod agents;
pub mod amounts;
mod applications;
mod audit;
pub mod backup;
mod config;
mod connection;
pub mod contract;
pub mod doctor;
mod doors;
pub mod export;
mod files;
mod guard;
mod health;
pub mod limits;
mod listen;
mod logging;
mod metrics;
mod redaction;
mod running;
pub mod salvage;
mod settings;
mod start;
mod tokens;
pub mod verify;
mod web;

pub use agents::default_system_prompt;
pub use config::{Aap, Agents, Config, Options, Runs};
pub use files::Files;
pub use recount_agent::sandbox::entrance as sandbox_entrance;
pub use redaction::Redaction;
pub use running::{Home, Running};
pub use settings::{Setting, Source};
pub use start::{Inside, StartError, Unfinished, default_data, serve, start_inside};
