//! Our own runs from beginning to end: a real engine on a store in memory, real tools in real folders, and models that
//! play scripts, or recordings of providers on real sockets.

#![allow(clippy::unwrap_used)]

mod allowances;
mod applications;
mod beginnings;
mod bounds;
mod budgets;
mod calls;
mod chats;
mod child_runs;
mod compacted;
mod crashes;
mod damaged;
mod disk_stories;
mod disks;
mod endings;
mod experimental;
mod foreign_hooks;
mod given;
mod hooks;
mod hostile;
mod kept_outputs;
mod kinds;
mod leave;
mod listeners;
mod long;
mod mcp;
mod past;
mod patches;
mod people;
mod pictures;
mod plain;
mod providers;
mod recovery;
mod salvaged;
mod scene;
mod secrets;
mod seen;
mod shortened;
mod together;
mod tools;
mod toys;
mod waits;
mod web;
mod workspaces;
