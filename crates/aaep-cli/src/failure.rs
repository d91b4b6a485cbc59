//! Why a verb fails, and the exit status of each failure. See [`Failure`].

use std::fmt;
use std::process::ExitCode;

use recount_command_line::clean;
use recount_command_line::output::{OutputError, aside};

/// The statuses, as `aaep help` prints them.
pub(crate) const EXIT_STATUSES: &str = "\
Exit status:
  0  success
  1  a rule or requirement is broken, the request was refused, or no event was captured
  2  invalid command line, or a file that cannot be used
  3  the producer or subscriber is unreachable
  5  the program itself failed, such as a port that is in use";

/// Why a verb did not do what was requested.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The other side refused.
    Refused(String),
    Usage(String),
    /// The result is negative, and was printed as data.
    No,
    Unreachable(String),
    /// Something within this program or this machine.
    Own(String),
    /// The reader of the output has closed it, so there is nothing left to do.
    OutputClosed,
}

impl Failure {
    fn status(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Refused(_) | Failure::No => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Own(_) => 5,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(why) | Failure::Usage(why) | Failure::Unreachable(why) | Failure::Own(why) => {
                f.write_str(why)
            }
            Failure::No | Failure::OutputClosed => Ok(()),
        }
    }
}

impl From<OutputError> for Failure {
    fn from(why: OutputError) -> Self {
        if why.is_closed() { Failure::OutputClosed } else { Failure::Own(why.to_string()) }
    }
}

impl From<std::io::Error> for Failure {
    fn from(why: std::io::Error) -> Self {
        OutputError::from(why).into()
    }
}

/// Reports a failure on stderr, and its status to the shell.
pub(crate) fn report(outcome: Result<(), Failure>) -> ExitCode {
    let Err(failure) = outcome else { return ExitCode::SUCCESS };
    let why = failure.to_string();
    if !why.is_empty() {
        aside(&format!("aaep: {}\n", clean::line(&why)));
    }
    ExitCode::from(failure.status())
}
