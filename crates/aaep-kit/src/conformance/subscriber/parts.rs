//! The parts of a subscriber test, in their order. Each sends something and checks the response.

pub(super) mod end;
pub(super) mod flow;
pub(super) mod hello;
pub(super) mod line;
pub(super) mod person;
pub(super) mod prompts;
pub(super) mod survive;
