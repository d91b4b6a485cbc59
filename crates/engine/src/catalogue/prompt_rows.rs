//! Prompts (approvals, clarifications, handoffs) as rows: one row each, and two index rows in request order.
//!
//! A row is written when a prompt is requested and again when it is settled. Other details of a prompt are only in
//! its events.

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

/// An approval request and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    pub id: ForeignId,
    /// The requesting event; lists have this order.
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
    /// Whether it is withdrawn at the deadline, and `default_decision` has no effect.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub withdrawn_at_deadline: bool,
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
    /// Whether an approval may also apply to later calls.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub can_be_remembered: bool,
    /// The allowance that the decision created, and its scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_id: Option<ForeignId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance_scope: Option<String>,
}

/// A clarification request and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClarificationRow {
    pub id: ForeignId,
    /// The requesting event; lists have this order.
    pub event_id: EventId,
    pub run_id: RunId,
    pub task_id: Option<TaskId>,
    pub tool_call_id: Option<ForeignId>,
    pub question: String,
    pub context: Option<String>,
    pub accepted_response_kinds: Option<Vec<String>>,
    pub choices: Option<Vec<Json>>,
    /// The response that applies at the deadline.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub default_response: Option<Json>,
    /// `pending`, `answered`, `timed_out` or `cancelled`.
    pub status: String,
    pub requested_at: String,
    pub expires_at: Option<String>,
    /// The response, or the default that applied.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub response: Option<Json>,
    pub answered_by: Option<String>,
    pub answered_at: Option<String>,
}

/// A handoff and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HandoffRow {
    pub id: ForeignId,
    /// The requesting event; lists have this order. Only the event has the packaged context, because it may be large.
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
    /// The comment of the acknowledgement, or the reason of the rejection.
    pub comment: Option<String>,
}

/// JSON `null` is a value, not a missing field.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    Json::deserialize(deserializer).map(Some)
}

/// The common fields of prompt rows.
pub trait PromptRow: Serialize + DeserializeOwned {
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

/// The kind and id of the prompt that an event requests.
pub(crate) fn requested_prompt(payload: &Payload) -> Option<(PromptKind, &str)> {
    match payload {
        Payload::ApprovalRequested(request) => Some((PromptKind::Approval, &request.approval_id)),
        Payload::ClarificationRequested(request) => {
            Some((PromptKind::Clarification, &request.clarification_id))
        }
        Payload::HandoffRequested(request) => Some((PromptKind::Handoff, &request.handoff_id)),
        _ => None,
    }
}

/// Deletes the rows of a prompt.
pub(crate) fn prompt_rows(kind: PromptKind, id: &str, event_id: EventId) -> [RowPut; 3] {
    let spaces = rows::prompts(kind);
    let listed = rows::tenant_key(event_id);
    [
        rows::delete(spaces.each, rows::prompt_key(kind, id, event_id)),
        rows::delete(spaces.listed, listed.clone()),
        rows::delete(spaces.pending, listed),
    ]
}

/// The pending prompts of one run.
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

    /// The rows that an event changes. A prompt of a run that `begins_late` may have been pruned with its rows.
    pub(super) fn event(&mut self, event: &Event, begins_late: bool) -> Vec<RowPut> {
        // Formatted only for events that change a row.
        let at = || time::format_ms(event.occurred_ms);
        match event.payload() {
            Payload::ApprovalRequested(request) => {
                let row = self.approval(event, request, at());
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
                    comment: non_empty(&resolved.comment),
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
            Payload::ApprovalTimedOut(timed_out) => {
                let settled = self.approvals.remove(&*timed_out.approval_id).map(|row| ApprovalRow {
                    status: "timed_out".into(),
                    decision: Some(timed_out.decision.unwrap_or(Decision::Rejected).as_str().into()),
                    decided_by: timed_out.by.clone(),
                    decided_at: Some(at()),
                    ..row
                });
                closed(settled, begins_late)
            }
            Payload::ClarificationRequested(request) => {
                let row = self.clarification(event, request, at());
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
            Payload::ClarificationTimedOut(timed_out) => {
                let settled = self.clarifications.remove(&*timed_out.clarification_id).map(|row| {
                    // Only a question that reached its deadline has a duration.
                    let withdrawn =
                        timed_out.after_seconds.is_none() && timed_out.applied == Applied::Unavailable;
                    ClarificationRow {
                        status: if withdrawn { "cancelled" } else { "timed_out" }.into(),
                        response: match timed_out.applied {
                            Applied::Default => row.default_response.clone(),
                            Applied::Unavailable => None,
                        },
                        answered_by: timed_out.by.clone(),
                        answered_at: Some(at()),
                        ..row
                    }
                });
                closed(settled, begins_late)
            }
            Payload::HandoffRequested(request) => {
                let row = self.handoff(event, request, at());
                let puts = opened(&row);
                self.handoffs.insert(row.id.clone(), row);
                puts
            }
            Payload::HandoffAcknowledged(acknowledged) => {
                let (by, comment) = (Some(acknowledged.by.clone()), non_empty(&acknowledged.comment));
                self.settle_handoff(&acknowledged.handoff_id, "acknowledged", by, at(), comment, begins_late)
            }
            Payload::HandoffRejected(refused) => {
                let (by, reason) = (Some(refused.by.clone()), non_empty(&refused.reason));
                self.settle_handoff(&refused.handoff_id, "rejected", by, at(), reason, begins_late)
            }
            Payload::HandoffTimedOut(timed_out) => {
                self.settle_handoff(&timed_out.handoff_id, "timed_out", None, at(), None, begins_late)
            }
            _ => Vec::new(),
        }
    }

    fn settle_handoff(
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

    fn approval(&self, event: &Event, request: &approval::Requested, at: String) -> ApprovalRow {
        ApprovalRow {
            id: request.approval_id.clone(),
            event_id: event.event_id,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: request.tool_call_id.clone(),
            kind: request.kind.clone(),
            summary: request.summary.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires(event, request.timeout_seconds, request.expires_at.as_ref()),
            default_decision: request.default_decision.unwrap_or(DefaultDecision::Reject).as_str().into(),
            withdrawn_at_deadline: request.withdrawn_at_deadline == Some(true),
            policy_reason: request.policy_reason.clone(),
            risk_level: request.risk_level.map(|level| level.as_str().into()),
            action: request.action.clone(),
            consequence: request.consequence.clone(),
            irreversible: request.irreversible,
            call_digest: request.call_digest.clone(),
            preview: request.preview.clone(),
            preview_kind: request.preview_kind.clone(),
            preview_size_bytes: request.preview_size_bytes,
            preview_artifact_id: request.preview_artifact_id.clone(),
            decision: None,
            decided_by: None,
            decided_at: None,
            comment: None,
            can_be_remembered: request.allowance_digest.is_some() && !request.is_grave(),
            allowance_id: None,
            allowance_scope: None,
        }
    }

    fn clarification(
        &self,
        event: &Event,
        request: &clarification::Requested,
        at: String,
    ) -> ClarificationRow {
        ClarificationRow {
            id: request.clarification_id.clone(),
            event_id: event.event_id,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: request.tool_call_id.clone(),
            question: request.question.clone(),
            context: request.context.clone(),
            accepted_response_kinds: request.accepted_response_kinds.clone(),
            choices: request.choices.clone(),
            default_response: request.default_response.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires(event, request.timeout_seconds, request.expires_at.as_ref()),
            response: None,
            answered_by: None,
            answered_at: None,
        }
    }

    fn handoff(&self, event: &Event, request: &handoff::Requested, at: String) -> HandoffRow {
        HandoffRow {
            id: request.handoff_id.clone(),
            event_id: event.event_id,
            sequence: event.sequence,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: request.tool_call_id.clone(),
            reason: request.reason.clone(),
            target_kind: request.target_kind.as_str().into(),
            target_uri: request.target_uri.clone(),
            urgency: request.urgency_for_handoff.map(|urgency| urgency.as_str().into()),
            summary_terse: request.summary_terse.clone(),
            summary_normal: request.summary_normal.clone(),
            summary_detailed: request.summary_detailed.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires(event, request.timeout_seconds, request.expires_at.as_ref()),
            answered_by: None,
            answered_at: None,
            comment: None,
        }
    }
}

fn non_empty(text: &Option<String>) -> Option<String> {
    text.clone().filter(|text| !text.is_empty())
}

/// The timeout after the request, or the stated time.
fn expires(event: &Event, timeout_seconds: Option<u64>, expires_at: Option<&String>) -> Option<String> {
    let after = |seconds: u64| event.occurred_ms.saturating_add(seconds.saturating_mul(1000));
    timeout_seconds.map(|seconds| time::format_ms(after(seconds))).or_else(|| expires_at.cloned())
}

/// A prompt was requested.
fn opened<T: PromptRow>(row: &T) -> Vec<RowPut> {
    let spaces = rows::prompts(T::KIND);
    let listed = rows::tenant_key(row.event_id());
    // The row of an approval makes its id unique.
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

/// A prompt was settled.
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

/// Whether a stored prompt has this id. Prompts are answered by id alone, so ids are unique in the store.
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

/// The rejection of a prompt id that is in use.
pub(crate) fn id_taken(kind: PromptKind, id: &str) -> Error {
    let what = kind.as_str();
    Error::rejected(
        recount_event::Code::IdTaken,
        format!("the {what} id {id:?} is already in use; choose another id"),
    )
}
