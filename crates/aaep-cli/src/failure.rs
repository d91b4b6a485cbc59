//! Failures of verbs and their exit statuses. Start at [`Failure`].

use std::fmt;
use std::process::ExitCode;

use recount_command_line::clean;
use recount_command_line::output::{OutputError, aside};

/// The exit statuses, as printed by `aaep help`.
pub(crate) const EXIT_STATUSES: &str = "\
Exit status:
  0  success
  1  a rule or requirement is broken, the request was refused, or no event was captured
  2  invalid command line, or a file that cannot be used
  3  the producer or subscriber is unreachable
  5  the program itself failed, such as a port that is in use";

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The producer or subscriber refused the request.
    Refused(String),
    Usage(String),
    /// The result is negative and is already printed as data.
    Negative,
    Unreachable(String),
    /// A failure of this program or of the machine.
    Internal(String),
    /// The reader has closed the output, so no more work remains.
    OutputClosed,
}

impl Failure {
    fn status(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Refused(_) | Failure::Negative => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Internal(_) => 5,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(why)
            | Failure::Usage(why)
            | Failure::Unreachable(why)
            | Failure::Internal(why) => f.write_str(why),
            Failure::Negative | Failure::OutputClosed => Ok(()),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(why: OutputError) -> Self {
        if why.is_closed() { Failure::OutputClosed } else { Failure::Internal(why.to_string()) }
    }
}

impl From<std::io::Error> for Failure {
    fn from(why: std::io::Error) -> Self {
        OutputError::from(why).into()
    }
}

/// Prints a failure on stderr and returns its exit status.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let why = failure.to_string();
    if !why.is_empty() {
        aside(&format!("aaep: {}\n", clean::line(&why)));
    }
    ExitCode::from(failure.status())
}
