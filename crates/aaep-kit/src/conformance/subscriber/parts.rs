//! The parts of a subscriber test, in order. Each sends something and checks the response.

pub(super) mod ending;
pub(super) mod handshake;
pub(super) mod load;
pub(super) mod person;
pub(super) mod prompts;
pub(super) mod reconnect;
pub(super) mod unusual_input;
