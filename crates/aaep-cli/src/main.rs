//! The program `aaep`: developer tools for any producer or subscriber of the Agent Accessibility Event Protocol.
//!
//! Each verb is a file in `command/`; [`command`] has the table of verbs. This program must not know runs or Recount's
//! own protocols.

mod command;
mod failure;
mod invocation;

fn main() -> std::process::ExitCode {
    command::run()
}
