//! Tests of commands in a sandbox: what works and what is prevented. Every test of a layer runs on both layers.

mod ending;
mod escape;
mod fixture;
mod git;
mod input;
mod output;
mod quota;
mod shell;
