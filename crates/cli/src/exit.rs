//! How the program ends: each exit status has one meaning, and a failure is reported on stderr.

use std::process::ExitCode;

use crate::failure::Failure;
use crate::output::aside;
use crate::render::clean;

/// The statuses, as `recount help` prints them.
pub(crate) const TABLE: &str = "\
Exit status:
  0      success, or the followed run finished
  1      the request was refused, a check found problems, or the followed run failed
  2      invalid command line or configuration
  3      the server is unreachable
  4      the response is not from a Recount server of a compatible release
  5      the program itself failed, such as a server that cannot start
  6      the followed run was cancelled
  7      the export is complete except for events that were pruned
  128+N  the command of a run of kind shell or git was terminated by signal N";

/// Reports a failure on stderr, and its status to the shell.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let why = failure.to_string();
    if !why.is_empty() {
        aside(&format!("recount: {}\n", clean::line(&why)));
    }
    ExitCode::from(failure.status())
}
