//! The accessibility face: any run as a session of AAEP, for people who listen.
//!
//! [`project`] says what each event of a run is to a listener, [`speech`] says it in the listener's language. Neither
//! reads a clock, draws randomness or does I/O. It must never know stores, agents or other faces.

pub mod limits;
pub mod project;
pub mod speech;
