//! A client for producers of the Agent Accessibility Event Protocol: [`link`] connects over HTTP, over a WebSocket or
//! to a child process, receives messages and sends replies; [`glance`] reads a few fields of a message.
//!
//! This crate must not know what events mean or how received messages are used. Start at [`link::Link`].

pub mod glance;
pub mod limits;
pub mod link;
