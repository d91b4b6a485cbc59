//! Errors of method calls on a producer's session. The session is unchanged after an error.

use crate::build;

/// Why a method call was rejected.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Misuse {
    #[error("the session has not started; call `start` first")]
    NotStarted,
    #[error("the session has already started; create a new one for another request")]
    AlreadyStarted,
    #[error("the session has ended; create a new one for another request")]
    Ended,
    #[error("a prompt is open; wait for its reply, advance the time to its deadline, or withdraw it")]
    PromptOpen,
    #[error("no prompt is open, so none can be withdrawn")]
    NoPromptOpen,
    #[error("{0} calls are open; end them first, with `timeout` for abandoned calls")]
    CallsOpen(usize),
    #[error("{0} outputs have no last chunk; finish them first")]
    OutputsOpen(usize),
    #[error(
        "prompt {0} was accepted but its call did not follow; make the call, or end with an error that says \
         why not"
    )]
    AcceptedNotDone(u64),
    #[error("no open call has the number {0}; use the handle that `begin_call` returned, once")]
    CallUnknown(u64),
    #[error(
        "no open output has the number {0}; use the handle that `open_output` returned, until it is finished"
    )]
    OutputUnknown(u64),
    #[error("the call was started as `{started}` but ended as `{ended}`; use the same name")]
    ToolRenamed { started: String, ended: String },
    #[error("the session sets the {0}; leave it out")]
    IdGiven(&'static str),
    #[error(
        "`{0}` cannot be undone or has high risk; request confirmation with `confirm` and use \
         `begin_confirmed_call`"
    )]
    ConfirmationRequired(String),
    #[error(
        "`{0}` cannot be undone but has no `args_summary`; add one, so that people know what they accept"
    )]
    ArgumentsNotShown(String),
    #[error("`{0}` cannot be undone or has high risk, so its default must be `reject`")]
    DefaultAccepts(String),
    #[error("prompt {0} was not accepted, or its call was already made; one acceptance allows one call")]
    NotAccepted(u64),
    #[error(
        "prompt {0} was accepted for another call; make the call with the arguments that the prompt showed"
    )]
    ArgumentsChanged(u64),
    #[error("the session announces the state `{0}` itself; choose another name")]
    ManagedState(String),
    #[error("the limit of {most} open {what} is reached; end one first")]
    LimitReached { what: &'static str, most: usize },
    #[error(transparent)]
    Invalid(#[from] build::BuildError),
}
