//! The parts of a trial, in the order in which they come; each says something to the subscriber and looks what becomes
//! of it.

pub(super) mod end;
pub(super) mod flow;
pub(super) mod hello;
pub(super) mod line;
pub(super) mod person;
pub(super) mod prompts;
pub(super) mod survive;
