//! What is asked of people, as lists show it: a row each, and two that list it in the order of asking.
//!
//! A row is written when a person is asked and once more when it is settled. What else an event says of a
//! prompt is to be read from the event.

use std::collections::BTreeMap;

use recount_event::family::approval::{Decision, DefaultDecision};
use recount_event::family::clarification::Applied;
use recount_event::family::{approval, clarification, handoff};
use recount_event::{Event, EventId, ForeignId, Json, Payload, RunId, TaskId, time};
use recount_log::{Guard, RowPut, RowRange};
use recount_run::PromptKind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;
use crate::ground::rows;

/// A request for permission and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    pub id: ForeignId,
    /// The event that asked; lists are in its order.
    pub event_id: EventId,
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub tool_call_id: ForeignId,
    pub kind: String,
    pub summary: String,
    pub status: String,
    pub requested_at: String,
    pub expires_at: Option<String>,
    pub default_decision: String,
    pub policy_reason: Option<String>,
    pub risk_level: Option<String>,
    pub action: Option<String>,
    pub consequence: Option<String>,
    pub irreversible: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_digest: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_artifact_id: Option<ForeignId>,
    pub decision: Option<String>,
    pub decided_by: Option<String>,
    pub decided_at: Option<String>,
    pub comment: Option<String>,
    /// Whether a yes to it may hold for later calls, too.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_be_remembered: bool,
    /// The allowance that the decision made, and how far it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_id: Option<ForeignId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_scope: Option<String>,
}

/// A question and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClarificationRow {
    pub id: ForeignId,
    /// The event that asked; lists are in its order.
    pub event_id: EventId,
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub tool_call_id: Option<ForeignId>,
    pub question: String,
    pub context: Option<String>,
    pub accepted_response_kinds: Option<Vec<String>>,
    pub choices: Option<Vec<Json>>,
    /// What is taken for the answer when none comes.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default_response: Option<Json>,
    /// `pending`, `answered`, `timed_out`, or `cancelled` where it was withdrawn.
    pub status: String,
    pub requested_at: String,
    pub expires_at: Option<String>,
    /// The answer, or what was taken for it.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub response: Option<Json>,
    pub answered_by: Option<String>,
    pub answered_at: Option<String>,
}

/// A handoff and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffRow {
    pub id: ForeignId,
    /// The event that asked; lists are in its order. What was packed for who takes over is told by it alone,
    /// because it may be large.
    pub event_id: EventId,
    pub sequence: u64,
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub tool_call_id: Option<ForeignId>,
    pub reason: String,
    pub target_kind: String,
    pub target_uri: Option<String>,
    pub urgency: Option<String>,
    pub summary_terse: Option<String>,
    pub summary_normal: Option<String>,
    pub summary_detailed: Option<String>,
    /// `pending`, `acknowledged`, `rejected` or `timed_out`.
    pub status: String,
    pub requested_at: String,
    pub expires_at: Option<String>,
    pub answered_by: Option<String>,
    pub answered_at: Option<String>,
    /// What was said with it: the comment of who took over, the reason of who did not.
    pub comment: Option<String>,
}

/// A JSON `null` is a value, too.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// What lists need to know of a row.
pub(crate) trait PromptRow: Serialize + DeserializeOwned {
    const KIND: PromptKind;

    fn id(&self) -> &ForeignId;

    fn event_id(&self) -> EventId;

    fn status(&self) -> &str;

    fn set_expiry(&mut self, at: &str);
}

macro_rules! prompt_row {
    ($row:ident, $kind:ident) => {
        impl PromptRow for $row {
            const KIND: PromptKind = PromptKind::$kind;

            fn id(&self) -> &ForeignId {
                &self.id
            }

            fn event_id(&self) -> EventId {
                self.event_id
            }

            fn status(&self) -> &str {
                &self.status
            }

            fn set_expiry(&mut self, at: &str) {
                self.expires_at = Some(at.to_owned());
            }
        }
    };
}

prompt_row!(ApprovalRow, Approval);

prompt_row!(ClarificationRow, Clarification);

prompt_row!(HandoffRow, Handoff);

/// The prompt that an event asks, if it does: its kind and its name.
pub(crate) fn asked_for(payload: &Payload) -> Option<(PromptKind, &str)> {
    match payload {
        Payload::ApprovalRequested(asked) => Some((PromptKind::Approval, &asked.approval_id)),
        Payload::ClarificationRequested(asked) => Some((PromptKind::Clarification, &asked.clarification_id)),
        Payload::HandoffRequested(asked) => Some((PromptKind::Handoff, &asked.handoff_id)),
        _ => None,
    }
}

/// The rows of a prompt, for when nothing is left to tell of it.
pub(crate) fn prompt_rows(kind: PromptKind, id: &str, asked: EventId) -> [RowPut; 3] {
    let spaces = rows::prompts(kind);
    let listed = rows::tenant_key(asked);
    [
        rows::delete(spaces.each, rows::prompt_key(kind, id, asked)),
        rows::delete(spaces.listed, listed.clone()),
        rows::delete(spaces.pending, listed),
    ]
}

/// The prompts of one run that are open.
pub(crate) struct Prompts {
    run: RunId,
    task: Option<TaskId>,
    approvals: BTreeMap<ForeignId, ApprovalRow>,
    clarifications: BTreeMap<ForeignId, ClarificationRow>,
    handoffs: BTreeMap<ForeignId, HandoffRow>,
}

impl Prompts {
    pub(super) fn of(run: RunId, task: Option<TaskId>) -> Self {
        Prompts {
            run,
            task,
            approvals: BTreeMap::new(),
            clarifications: BTreeMap::new(),
            handoffs: BTreeMap::new(),
        }
    }

    /// The rows that an event changes. A prompt of a run that `begins_late` may have been pruned, and left the
    /// lists with that.
    pub(super) fn event(&mut self, event: &Event, begins_late: bool) -> Vec<RowPut> {
        // Only the few that rows tell of are worth the words.
        let at = || time::format_ms(event.occurred_ms);
        match event.payload() {
            Payload::ApprovalRequested(asked) => {
                let row = self.approval(event, asked, at());
                let puts = opened(&row);
                self.approvals.insert(row.id.clone(), row);
                puts
            }
            Payload::ApprovalResolved(resolved) => {
                let status = resolved.decision.as_str();
                let settled = self.approvals.remove(&*resolved.approval_id).map(|row| ApprovalRow {
                    status: status.into(),
                    decision: Some(status.into()),
                    decided_by: Some(resolved.by.clone()),
                    decided_at: Some(at()),
                    comment: words(&resolved.comment),
                    allowance_id: resolved.allowance_id.clone(),
                    allowance_scope: resolved.allowance_id.as_ref().and(resolved.scope.clone()),
                    ..row
                });
                closed(settled, begins_late)
            }
            Payload::ApprovalExtended(more) => {
                extended(self.approvals.get_mut(&*more.approval_id), &more.expires_at, begins_late)
            }
            Payload::ClarificationExtended(more) => {
                extended(self.clarifications.get_mut(&*more.clarification_id), &more.expires_at, begins_late)
            }
            Payload::HandoffExtended(more) => {
                extended(self.handoffs.get_mut(&*more.handoff_id), &more.expires_at, begins_late)
            }
            Payload::ApprovalTimedOut(missed) => {
                let settled = self.approvals.remove(&*missed.approval_id).map(|row| ApprovalRow {
                    status: "timed_out".into(),
                    decision: Some(missed.decision.unwrap_or(Decision::Rejected).as_str().into()),
                    decided_by: missed.by.clone(),
                    decided_at: Some(at()),
                    ..row
                });
                closed(settled, begins_late)
            }
            Payload::ClarificationRequested(asked) => {
                let row = self.clarification(event, asked, at());
                let puts = opened(&row);
                self.clarifications.insert(row.id.clone(), row);
                puts
            }
            Payload::ClarificationAnswered(answered) => {
                let open = self.clarifications.remove(&*answered.clarification_id);
                let settled = open.map(|row| ClarificationRow {
                    status: "answered".into(),
                    response: Some(answered.response.clone()),
                    answered_by: Some(answered.by.clone()),
                    answered_at: Some(at()),
                    ..row
                });
                closed(settled, begins_late)
            }
            Payload::ClarificationTimedOut(missed) => {
                let settled = self.clarifications.remove(&*missed.clarification_id).map(|row| {
                    // Only a question whose time was over says how long it stood.
                    let withdrawn = missed.after_seconds.is_none() && missed.applied == Applied::Unavailable;
                    ClarificationRow {
                        status: if withdrawn { "cancelled" } else { "timed_out" }.into(),
                        response: match missed.applied {
                            Applied::Default => row.default_response.clone(),
                            Applied::Unavailable => None,
                        },
                        answered_by: missed.by.clone(),
                        answered_at: Some(at()),
                        ..row
                    }
                });
                closed(settled, begins_late)
            }
            Payload::HandoffRequested(asked) => {
                let row = self.handoff(event, asked, at());
                let puts = opened(&row);
                self.handoffs.insert(row.id.clone(), row);
                puts
            }
            Payload::HandoffAcknowledged(taken) => {
                let (by, comment) = (Some(taken.by.clone()), words(&taken.comment));
                self.handed_off(&taken.handoff_id, "acknowledged", by, at(), comment, begins_late)
            }
            Payload::HandoffRejected(refused) => {
                let (by, reason) = (Some(refused.by.clone()), words(&refused.reason));
                self.handed_off(&refused.handoff_id, "rejected", by, at(), reason, begins_late)
            }
            Payload::HandoffTimedOut(missed) => {
                self.handed_off(&missed.handoff_id, "timed_out", None, at(), None, begins_late)
            }
            _ => Vec::new(),
        }
    }

    fn handed_off(
        &mut self,
        id: &str,
        status: &str,
        by: Option<String>,
        at: String,
        comment: Option<String>,
        begins_late: bool,
    ) -> Vec<RowPut> {
        let settled = self.handoffs.remove(id).map(|row| HandoffRow {
            status: status.into(),
            answered_by: by,
            answered_at: Some(at),
            comment,
            ..row
        });
        closed(settled, begins_late)
    }

    fn approval(&self, event: &Event, asked: &approval::Requested, at: String) -> ApprovalRow {
        ApprovalRow {
            id: asked.approval_id.clone(),
            event_id: event.event_id,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: asked.tool_call_id.clone(),
            kind: asked.kind.clone(),
            summary: asked.summary.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires(event, asked.timeout_seconds, asked.expires_at.as_ref()),
            default_decision: asked.default_decision.unwrap_or(DefaultDecision::Reject).as_str().into(),
            policy_reason: asked.policy_reason.clone(),
            risk_level: asked.risk_level.map(|level| level.as_str().into()),
            action: asked.action.clone(),
            consequence: asked.consequence.clone(),
            irreversible: asked.irreversible,
            call_digest: asked.call_digest.clone(),
            preview: asked.preview.clone(),
            preview_kind: asked.preview_kind.clone(),
            preview_size_bytes: asked.preview_size_bytes,
            preview_artifact_id: asked.preview_artifact_id.clone(),
            decision: None,
            decided_by: None,
            decided_at: None,
            comment: None,
            can_be_remembered: asked.allowance_digest.is_some() && !asked.is_grave(),
            allowance_id: None,
            allowance_scope: None,
        }
    }

    fn clarification(&self, event: &Event, asked: &clarification::Requested, at: String) -> ClarificationRow {
        ClarificationRow {
            id: asked.clarification_id.clone(),
            event_id: event.event_id,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: asked.tool_call_id.clone(),
            question: asked.question.clone(),
            context: asked.context.clone(),
            accepted_response_kinds: asked.accepted_response_kinds.clone(),
            choices: asked.choices.clone(),
            default_response: asked.default_response.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires(event, asked.timeout_seconds, asked.expires_at.as_ref()),
            response: None,
            answered_by: None,
            answered_at: None,
        }
    }

    fn handoff(&self, event: &Event, asked: &handoff::Requested, at: String) -> HandoffRow {
        HandoffRow {
            id: asked.handoff_id.clone(),
            event_id: event.event_id,
            sequence: event.sequence,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: asked.tool_call_id.clone(),
            reason: asked.reason.clone(),
            target_kind: asked.target_kind.as_str().into(),
            target_uri: asked.target_uri.clone(),
            urgency: asked.urgency_for_handoff.map(|urgency| urgency.as_str().into()),
            summary_terse: asked.summary_terse.clone(),
            summary_normal: asked.summary_normal.clone(),
            summary_detailed: asked.summary_detailed.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires(event, asked.timeout_seconds, asked.expires_at.as_ref()),
            answered_by: None,
            answered_at: None,
            comment: None,
        }
    }
}

fn words(said: &Option<String>) -> Option<String> {
    said.clone().filter(|said| !said.is_empty())
}

/// By the time allowed, counted from when it was asked; else by the instant named.
fn expires(event: &Event, timeout_seconds: Option<u64>, expires_at: Option<&String>) -> Option<String> {
    let after = |seconds: u64| event.occurred_ms.saturating_add(seconds.saturating_mul(1000));
    timeout_seconds.map(|seconds| time::format_ms(after(seconds))).or_else(|| expires_at.cloned())
}

/// A person is asked.
fn opened<T: PromptRow>(row: &T) -> Vec<RowPut> {
    let spaces = rows::prompts(T::KIND);
    let listed = rows::tenant_key(row.event_id());
    // The ids of approvals are held unique by their rows.
    let guard = if T::KIND == PromptKind::Approval { Guard::Absent } else { Guard::Any };
    vec![
        rows::put(spaces.each, rows::prompt_key(T::KIND, row.id(), row.event_id()), guard, row),
        rows::put(spaces.listed, listed.clone(), Guard::Any, row.id()),
        rows::put(spaces.pending, listed, Guard::Any, row.id()),
    ]
}

/// The deadline of a pending prompt has moved.
fn extended<T: PromptRow>(row: Option<&mut T>, expires_at: &str, begins_late: bool) -> Vec<RowPut> {
    let Some(row) = row else {
        debug_assert!(begins_late, "the rules let only pending prompts be extended");
        return Vec::new();
    };
    row.set_expiry(expires_at);
    let spaces = rows::prompts(T::KIND);
    vec![rows::put(spaces.each, rows::prompt_key(T::KIND, row.id(), row.event_id()), Guard::Any, &*row)]
}

/// Nobody needs to answer any more.
fn closed<T: PromptRow>(settled: Option<T>, begins_late: bool) -> Vec<RowPut> {
    let Some(row) = settled else {
        debug_assert!(begins_late, "the rules let only pending prompts be settled");
        return Vec::new();
    };
    let spaces = rows::prompts(T::KIND);
    vec![
        rows::put(spaces.each, rows::prompt_key(T::KIND, row.id(), row.event_id()), Guard::Any, &row),
        rows::delete(spaces.pending, rows::tenant_key(row.event_id())),
    ]
}

/// Whether a person was asked under this id before, and was not forgotten. Prompts are answered by their id
/// alone, so an id names one in the whole store.
pub(crate) async fn is_taken(
    store: &dyn recount_log::Store,
    kind: PromptKind,
    id: &str,
) -> Result<bool, Error> {
    let space = rows::prompts(kind).each;
    if kind == PromptKind::Approval {
        return Ok(store.row(space, &rows::tenant_key(id)).await?.is_some());
    }
    let prefix = rows::prompt_prefix(id).into();
    let range = RowRange { space: space.into(), prefix, after: None, backwards: false, limit: 1 };
    Ok(!store.rows(range).await?.is_empty())
}

/// Why a prompt may not be called so.
pub(crate) fn taken(kind: PromptKind, id: &str) -> Error {
    let what = kind.as_str();
    Error::rejected(
        recount_event::Code::IdTaken,
        format!("the {what} id {id:?} is already in use; choose another id"),
    )
}
