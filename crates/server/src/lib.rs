//! The server: assembles configuration, stores, faces, guard, listener and shutdown.
//!
//! Only this crate (and the simulation) names the implementations of stores and faces. It must never know the rules.

pub mod access;
mod admin_json;
mod agents;
pub mod amounts;
mod applications;
mod assembly;
mod audit;
pub mod backup;
mod config;
mod conformance_agent;
mod connection;
mod connection_limits;
pub mod contract;
mod database_url;
mod decide;
pub mod doctor;
mod encryption;
mod error;
pub mod export;
mod files;
mod forwarding;
mod guard;
mod health;
mod hosting;
mod idle_connections;
pub mod limits;
mod listen;
mod listeners;
mod logging;
mod metrics;
pub mod migrate;
mod outgoing;
mod ownership;
#[cfg(unix)]
mod passed_sockets;
mod peer;
mod plain_page;
mod redaction;
mod refusing;
mod removals;
mod running;
pub mod salvage;
mod seal;
mod settings;
mod sign_in;
mod signing_keys;
mod spread;
mod standby;
mod start;
mod stores;
mod tenant_folder;
mod tenants;
mod tls;
mod tokens;
#[cfg(unix)]
mod unix_socket;
mod upgradable;
pub mod verify;

/// The servers that share a database, and the stores they own.
pub mod nodes {
    pub use recount_log_postgres::{NodeRow, StoreRow, Survey};

    pub use crate::stores::survey;
}
mod web;
mod webhooks;

/// Futures are boxed so that their bodies are compiled here, once (`docs/decisions/0085`).
pub(crate) use async_recursion::async_recursion as boxed;

pub use agents::default_system_prompt;
pub use config::{Aaep, Aap, Agents, Bind, Config, Options, Runs, Webhooks};
pub use database_url::DatabaseUrl;
pub use error::StartError;
pub use files::Files;
pub use recount_agent::sandbox::entrance as sandbox_entrance;
pub use redaction::Redaction;
pub use running::Running;
pub use settings::{Setting, Source};
pub use start::{EmbeddedServer, Unfinished, has_default_store, serve, start_embedded};
pub use stores::{Durability, SqliteSettings, Stores};
