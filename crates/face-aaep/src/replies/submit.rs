//! Checks one message and submits its command. Start with [`handle`].
//!
//! The checks run in the order of the protocol: sender, token, prompt, deadline, answer. The writer of the run decides
//! between simultaneous replies.

use recount_aaep::Kind;
use recount_aaep::wire::Timestamp;
use recount_engine::{Error, PromptRow, Scope};
use recount_event::{Code, ForeignId, PromptKind, RunId, time};
use recount_run::{CancelledBy, Command};

use super::check::{self, Question};
use crate::limits;
use crate::project::run_of;
use crate::reply_state::{
    ControlAction, ControlRequest, Outcome, PromptReply, PromptShape, Received, ReplyAttempt, Shown,
};
use crate::subscription::Subscription;

/// Why a message has no effect, with the known facts about its prompt.
struct Stopped {
    outcome: Outcome,
    run: Option<RunId>,
    prompt: Option<ForeignId>,
}

impl From<Outcome> for Stopped {
    fn from(outcome: Outcome) -> Self {
        Stopped { outcome, run: None, prompt: None }
    }
}

/// Executes a message, if it is valid.
pub(super) async fn handle(subscription: &Subscription, received: Received) -> ReplyAttempt {
    let Received { reply, at_ms } = received;
    let done = match &reply {
        PromptReply::Control(control) => control_run(subscription, control).await,
        reply => answer(subscription, reply, at_ms).await,
    };
    let caller = subscription.caller();
    let (outcome, run, prompt) = match done {
        Ok((run, prompt)) => (Outcome::Accepted, Some(run), prompt),
        Err(Stopped { outcome, run, prompt }) => (outcome, run, prompt),
    };
    ReplyAttempt {
        subscription: subscription.id().as_str().to_owned(),
        by: caller.name.clone(),
        caller_id: caller.id.clone(),
        message: reply.kind(),
        run,
        prompt,
        decided_by: match reply {
            PromptReply::Confirmation(reply) => reply.decided_by,
            PromptReply::Clarification(reply) => reply.decided_by,
            PromptReply::Extend(_) | PromptReply::Control(_) => None,
        },
        outcome,
    }
}

async fn answer(
    subscription: &Subscription,
    reply: &PromptReply,
    at_ms: u64,
) -> Result<(RunId, Option<ForeignId>), Stopped> {
    if !subscription.caller().may(Scope::Approve) {
        return Err(Outcome::NotEntitled.into());
    }
    let shown = reply.token().and_then(|token| subscription.replies().shown().find(token).cloned());
    let shown = shown.ok_or(Outcome::TokenUnknown)?;
    let kind = match shown.shape {
        PromptShape::Confirmation => Kind::AwaitingConfirmation,
        PromptShape::Clarification => Kind::AwaitingClarification,
    };
    let stopped = |outcome, prompt| Stopped { outcome, run: Some(shown.run), prompt };
    if !subscription.terms().replies(kind) {
        return Err(stopped(Outcome::NotEntitled, None));
    }
    let sent_at = match reply {
        PromptReply::Confirmation(reply) => Some(&reply.timestamp),
        PromptReply::Clarification(reply) => Some(&reply.timestamp),
        PromptReply::Extend(_) | PromptReply::Control(_) => None,
    };
    if sent_at.is_some_and(|sent_at| is_off(sent_at, at_ms)) {
        return Err(stopped(Outcome::ClockOff, None));
    }
    let row = find_open(subscription, &shown).await.ok_or_else(|| stopped(Outcome::Failed, None))?;
    let row = row.ok_or_else(|| stopped(Outcome::NotPending, None))?;
    let id = row.id().clone();
    if row.expires_at().and_then(time::parse_ms).is_some_and(|deadline_ms| at_ms >= deadline_ms) {
        return Err(stopped(Outcome::Late, Some(id)));
    }
    let by = subscription.caller().name.clone();
    let command = command(reply, &row, &id, by).ok_or_else(|| stopped(Outcome::Invalid, Some(id.clone())))?;
    match subscription.engine().write().submit(shown.run, command).await {
        Ok(_) => Ok((shown.run, Some(id))),
        Err(error) => Err(stopped(outcome(&error), Some(id))),
    }
}

/// The command of a reply; `None` if the prompt does not take it.
fn command(reply: &PromptReply, row: &PromptRow, id: &ForeignId, by: String) -> Option<Command> {
    Some(match (reply, row) {
        (PromptReply::Confirmation(reply), PromptRow::Approval(_)) => {
            let decided = check::decision(reply)?;
            Command::ResolveApproval {
                approval_id: id.clone(),
                approve: decided.approve,
                by,
                comment: decided.comment,
                remember: None,
            }
        }
        (PromptReply::Clarification(reply), PromptRow::Clarification(row)) => {
            let question =
                Question { kinds: row.accepted_response_kinds.as_deref(), choices: row.choices.as_deref() };
            let response = check::response(&question, &reply.response)?;
            let clarification_id = id.clone();
            Command::AnswerClarification { clarification_id, response, by, blocks: None, config: None }
        }
        (PromptReply::Extend(extend), row) => {
            Command::ExtendPrompt { kind: row.kind(), id: id.clone(), seconds: extend.seconds, by }
        }
        _ => return None,
    })
}

/// The prompt from the catalogue, if it is open. The outer `None`: the store cannot be read.
pub(super) async fn find_open(subscription: &Subscription, shown: &Shown) -> Option<Option<PromptRow>> {
    let engine = subscription.engine();
    let Some(run) = engine.catalogue().run(shown.run).await.ok()? else { return Some(None) };
    let (kind, pending) = match shown.shape {
        PromptShape::Confirmation => (PromptKind::Approval, &run.pending_approvals),
        PromptShape::Clarification => (PromptKind::Clarification, &run.pending_clarifications),
    };
    let mut ids = pending.iter().filter_map(|id| ForeignId::parse(id).ok());
    let Some(id) = ids.find(|id| subscription.replies().tokens().of(shown.run, id).as_str() == shown.first)
    else {
        return Some(None);
    };
    Some(engine.read().prompt(kind, &id).await.ok()?.filter(PromptRow::is_pending))
}

/// Cancels a run that the subscription covers, or accepts or declines its handoff.
async fn control_run(
    subscription: &Subscription,
    control: &ControlRequest,
) -> Result<(RunId, Option<ForeignId>), Stopped> {
    let caller = subscription.caller();
    let required = if control.action == ControlAction::Cancel { Scope::Run } else { Scope::Approve };
    if !caller.may(required) {
        return Err(Outcome::NotEntitled.into());
    }
    let run = run_of(control.session_id.as_str()).ok_or(Outcome::RunForeign)?;
    let stopped = |outcome| Stopped { outcome, run: Some(run), prompt: None };
    if subscription.options().run.is_some_and(|subscribed| subscribed != run) {
        return Err(stopped(Outcome::RunForeign));
    }
    let row = subscription.engine().catalogue().run(run).await.map_err(|_| stopped(Outcome::Failed))?;
    let seen = row.is_some_and(|row| caller.narrowing.admits(row.task_id, row.session_id));
    if !seen {
        return Err(stopped(Outcome::RunForeign));
    }
    let reason = control.reason.as_deref().map(str::trim).filter(|reason| !reason.is_empty());
    let (by, reason) = (caller.name.clone(), reason.map(str::to_owned));
    let handoff = control.handoff_id.as_deref().and_then(|id| ForeignId::parse(id).ok());
    let command = match (control.action, handoff.clone()) {
        (ControlAction::Cancel, _) => {
            let reason = reason.unwrap_or_else(|| format!("cancelled by {by}"));
            Command::Cancel { by: CancelledBy::Operator, reason }
        }
        (_, None) => return Err(stopped(Outcome::Invalid)),
        (ControlAction::AcceptHandoff, Some(handoff_id)) => {
            Command::AcknowledgeHandoff { handoff_id, by, comment: reason }
        }
        (ControlAction::DeclineHandoff, Some(handoff_id)) => {
            Command::RejectHandoff { handoff_id, by, reason }
        }
    };
    match subscription.engine().write().submit(run, command).await {
        Ok(_) => Ok((run, handoff)),
        Err(error) => Err(Stopped { prompt: handoff, ..stopped(outcome(&error)) }),
    }
}

/// Whether the sender's time is a day or more away from the server's. Nothing else depends on the sender's time.
fn is_off(sent_at: &Timestamp, at_ms: u64) -> bool {
    let at_ms = i64::try_from(at_ms).unwrap_or(i64::MAX);
    sent_at.millis().abs_diff(at_ms) > limits::REPLY_CLOCK_SKEW_MS_MAX
}

fn outcome(error: &Error) -> Outcome {
    match error {
        Error::Rejected(rejection) => match rejection.code {
            Code::ApprovalNotPending | Code::ClarificationNotPending | Code::RunEnded => Outcome::NotPending,
            _ => Outcome::Refused,
        },
        _ => Outcome::Failed,
    }
}
