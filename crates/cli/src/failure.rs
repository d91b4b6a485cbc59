//! Why a verb failed, and its exit status. Start at [`Failure`].

use std::fmt;

use recount_client::ClientError;
use recount_client::aap::AapError;
use recount_command_line::output::OutputError;

/// Why a verb failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server rejected the request.
    Refused(String),
    /// Stored bytes are not what was written.
    Damaged(String),
    /// There is no such run, or it was erased.
    Missing(String),
    /// The arguments are invalid.
    Usage(String),
    /// The result is negative, and was printed as data.
    No,
    Unreachable(String),
    Protocol(String),
    /// Something on our side of the wire.
    Own(String),
    /// The output is closed, so nothing more can be done.
    OutputClosed,
    /// The run that was followed was cancelled by another client, which was printed as data.
    Cancelled,
    /// Everything was exported that is there, and the beginning of a run is not, which was printed.
    Pruned,
    /// This signal ended the command of the run, which was printed as data.
    Signal(u8),
    /// Interrupted from the keyboard, after the position was printed.
    Interrupted,
}

impl Failure {
    /// See [`crate::exit::TABLE`].
    pub(crate) fn status(&self) -> u8 {
        match self {
            Failure::OutputClosed => 0,
            Failure::Refused(_) | Failure::Damaged(_) | Failure::Missing(_) | Failure::No => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::Protocol(_) => 4,
            Failure::Own(_) => 5,
            Failure::Cancelled => 6,
            Failure::Pruned => 7,
            // What shells show for a program that a signal ended.
            Failure::Signal(number) => 128_u8.saturating_add(*number),
            // What shells show for programs that SIGINT ended.
            Failure::Interrupted => 130,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Refused(why)
            | Failure::Damaged(why)
            | Failure::Missing(why)
            | Failure::Usage(why)
            | Failure::Unreachable(why)
            | Failure::Protocol(why)
            | Failure::Own(why) => f.write_str(why),
            Failure::No
            | Failure::Cancelled
            | Failure::Pruned
            | Failure::Signal(_)
            | Failure::OutputClosed
            | Failure::Interrupted => Ok(()),
        }
    }
}

impl From<ClientError> for Failure {
    fn from(why: ClientError) -> Self {
        match &why {
            ClientError::Problem(problem) => match &*problem.code {
                "run_damaged" | "store_corrupt" => Failure::Damaged(why.to_string()),
                "token_missing" => Failure::Refused(format!(
                    "{why}; use --token or RECOUNT_TOKEN, or recount login if the server has sign-in"
                )),
                "run_erased" | "run_not_found" => Failure::Missing(why.to_string()),
                _ => Failure::Refused(why.to_string()),
            },
            ClientError::Unreachable { .. } => {
                Failure::Unreachable(format!("{why}; start a server with recount serve, or check --url"))
            }
            ClientError::Unusable(_) => Failure::Usage(why.to_string()),
            ClientError::Protocol { .. } => Failure::Protocol(why.to_string()),
        }
    }
}

impl From<AapError> for Failure {
    fn from(why: AapError) -> Self {
        match &why {
            AapError::Refused { status: 401, .. } => Failure::Refused(format!(
                "{why}; the server requires a token: use --token-file FILE, or RECOUNT_TOKEN for the server at --url"
            )),
            AapError::Refused { .. } | AapError::BrokenOff { .. } => Failure::Refused(why.to_string()),
            AapError::Unreachable { .. } => {
                Failure::Unreachable(format!("{why}; is a server running there?"))
            }
            AapError::Unusable(_) => Failure::Usage(why.to_string()),
            AapError::Protocol { .. } => Failure::Protocol(why.to_string()),
        }
    }
}

impl From<recount_server::StartError> for Failure {
    fn from(why: recount_server::StartError) -> Self {
        match why.exit_code() {
            2 => Failure::Usage(why.to_string()),
            3 => Failure::Damaged(why.to_string()),
            _ => Failure::Own(why.to_string()),
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
