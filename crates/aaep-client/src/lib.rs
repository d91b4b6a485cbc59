//! A client of any producer of the Agent Accessibility Event Protocol: [`link`] connects to one over HTTP, over a
//! WebSocket or as a command, receives its messages and sends replies; [`glance`] reads a few fields of a message.
//!
//! It must not know what events mean, or what a message is received for.

pub mod glance;
pub mod limits;
pub mod link;
