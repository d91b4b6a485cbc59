//! Why a session of a producer refused a method call. The caller may go on: the session is as it was before.

use crate::build;

/// Why nothing was emitted.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Misuse {
    #[error("the session has not started; call `start` first")]
    NotStarted,
    #[error("the session has started already; make a new one for another request")]
    AlreadyStarted,
    #[error("the session has ended; make a new one for another request")]
    Ended,
    #[error("a prompt is open; wait for its reply, advance the time to its deadline, or withdraw it")]
    PromptOpen,
    #[error("no prompt is open, so there is nothing to withdraw")]
    NoPromptOpen,
    #[error("{0} calls are open; end them first, with `timeout` where they were given up")]
    CallsOpen(usize),
    #[error("{0} outputs have no last piece; finish them first")]
    OutputsOpen(usize),
    #[error(
        "prompt {0} was accepted and its call was not made; make it, or end with an error that says why not"
    )]
    AcceptedNotDone(u64),
    #[error("no open call has the number {0}; use the handle that `begin_call` returned, once")]
    CallUnknown(u64),
    #[error(
        "no open output has the number {0}; use the handle that `open_output` returned, until it is finished"
    )]
    OutputUnknown(u64),
    #[error("the call was started as `{started}` and is ended as `{ended}`; repeat its name")]
    ToolRenamed { started: String, ended: String },
    #[error("the {0} is given by the session; leave it out")]
    IdGiven(&'static str),
    #[error("`{0}` cannot be undone or has high risk; ask with `confirm` and use `begin_confirmed_call`")]
    ConfirmationRequired(String),
    #[error(
        "`{0}` cannot be undone and shows no `args_summary`; add one, so that people know what they accept"
    )]
    ArgumentsNotShown(String),
    #[error(
        "`{0}` cannot be undone or has high risk, so nothing may be done when nobody answers; use `reject`"
    )]
    DefaultAccepts(String),
    #[error("prompt {0} was not accepted, or its call was made already; one acceptance allows one call")]
    NotAccepted(u64),
    #[error(
        "prompt {0} was accepted for another call; make the call with the arguments that the prompt showed"
    )]
    ArgumentsChanged(u64),
    #[error("the state `{0}` is announced by the session itself; choose another word")]
    ManagedState(String),
    #[error("{most} {what} are open, which is the most; end one first")]
    LimitReached { what: &'static str, most: usize },
    #[error(transparent)]
    Invalid(#[from] build::Refused),
}
