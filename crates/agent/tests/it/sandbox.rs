//! Commands in a sandbox: what they can do, and what they try in vain. Every test of a layer runs on both.

mod ending;
mod escape;
mod git;
mod ground;
mod input;
mod output;
mod room;
mod shell;
