//! `aaep`: tools for developers of the Agent Accessibility Event Protocol, for producers and subscribers of any make.
//!
//! Each verb is a file in `command/`; [`command`] has the table of them. This program must not know runs, or Recount's own protocols.

mod command;
mod failure;
mod invocation;

fn main() -> std::process::ExitCode {
    command::run()
}
