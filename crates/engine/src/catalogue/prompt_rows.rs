//! Prompts (approvals, clarifications, handoffs) as rows: one row each, and two index rows in request order.
//!
//! A row is written when a prompt is requested, extended and settled. Other details of a prompt are only in its events.
//! [`PromptRow`] has what is common to all kinds; each kind has a stored form of its own.

use std::collections::BTreeMap;

use recount_event::family::approval::{Decision, DefaultDecision};
use recount_event::family::clarification::Applied;
use recount_event::family::{approval, clarification, handoff};
use recount_event::{
    Event, EventId, ForeignId, Json, Payload, PromptEvent, PromptKind, PromptName, PromptStep, RunId, TaskId,
    time,
};
use recount_log::{Guard, Row, RowPut, RowRange, Store};
use serde::{Deserialize, Deserializer, Serialize};

use crate::Error;
use crate::ground::error::damaged_row;
use crate::ground::rows;

/// A prompt and its result, in the stored form of its kind.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(untagged)]
pub enum PromptRow {
    Approval(Box<ApprovalRow>),
    Clarification(Box<ClarificationRow>),
    Handoff(Box<HandoffRow>),
}

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

/// The value of an expression that is the same for the rows of all kinds.
macro_rules! of_any {
    ($prompt:expr, $row:ident => $value:expr) => {
        match $prompt {
            PromptRow::Approval($row) => $value,
            PromptRow::Clarification($row) => $value,
            PromptRow::Handoff($row) => $value,
        }
    };
}

impl PromptRow {
    pub fn kind(&self) -> PromptKind {
        match self {
            PromptRow::Approval(_) => PromptKind::Approval,
            PromptRow::Clarification(_) => PromptKind::Clarification,
            PromptRow::Handoff(_) => PromptKind::Handoff,
        }
    }

    pub fn id(&self) -> &ForeignId {
        of_any!(self, row => &row.id)
    }

    /// The requesting event; lists have this order.
    pub fn event_id(&self) -> EventId {
        of_any!(self, row => row.event_id)
    }

    pub fn run_id(&self) -> RunId {
        of_any!(self, row => row.run_id)
    }

    pub fn is_pending(&self) -> bool {
        self.status() == "pending"
    }

    pub fn status(&self) -> &str {
        of_any!(self, row => &row.status)
    }

    pub fn expires_at(&self) -> Option<&str> {
        of_any!(self, row => row.expires_at.as_deref())
    }

    pub(crate) fn parse(kind: PromptKind, value: &[u8]) -> Result<Self, serde_json::Error> {
        Ok(match kind {
            PromptKind::Approval => PromptRow::Approval(serde_json::from_slice(value)?),
            PromptKind::Clarification => PromptRow::Clarification(serde_json::from_slice(value)?),
            PromptKind::Handoff => PromptRow::Handoff(serde_json::from_slice(value)?),
        })
    }

    pub(crate) fn read(kind: PromptKind, row: &Row) -> Result<Self, Error> {
        PromptRow::parse(kind, &row.value).map_err(|why| damaged_row(rows::prompts(kind).each, &row.key, why))
    }

    /// Stores the prompt under its id.
    fn put(&self, guard: Guard) -> RowPut {
        let key = rows::prompt_key(self.kind(), self.id(), self.event_id());
        rows::put(rows::prompts(self.kind()).each, key, guard, self)
    }

    /// A prompt was requested.
    fn opened(&self) -> Vec<RowPut> {
        let spaces = rows::prompts(self.kind());
        let listed = rows::tenant_key(self.event_id());
        // The row of an approval makes its id unique.
        let guard = if self.kind() == PromptKind::Approval { Guard::Absent } else { Guard::Any };
        vec![
            self.put(guard),
            rows::put(spaces.listed, listed.clone(), Guard::Any, self.id()),
            rows::put(spaces.pending, listed, Guard::Any, self.id()),
        ]
    }

    /// A pending prompt was extended or settled.
    fn changed(&self) -> Vec<RowPut> {
        let mut puts = vec![self.put(Guard::Any)];
        if !self.is_pending() {
            let pending = rows::prompts(self.kind()).pending;
            puts.push(rows::delete(pending, rows::tenant_key(self.event_id())));
        }
        puts
    }

    /// Applies the event that settles the prompt.
    fn settle(&mut self, payload: &Payload, at: String) {
        match (self, payload) {
            (PromptRow::Approval(row), Payload::ApprovalResolved(resolved)) => {
                let status = resolved.decision.as_str();
                row.status = status.into();
                row.decision = Some(status.into());
                row.decided_by = Some(resolved.by.clone());
                row.decided_at = Some(at);
                row.comment = non_empty(&resolved.comment);
                row.allowance_id = resolved.allowance_id.clone();
                row.allowance_scope = resolved.allowance_id.as_ref().and(resolved.scope.clone());
            }
            (PromptRow::Approval(row), Payload::ApprovalTimedOut(timed_out)) => {
                row.status = "timed_out".into();
                row.decision = Some(timed_out.decision.unwrap_or(Decision::Rejected).as_str().into());
                row.decided_by = timed_out.by.clone();
                row.decided_at = Some(at);
            }
            (PromptRow::Clarification(row), Payload::ClarificationAnswered(answered)) => {
                row.status = "answered".into();
                row.response = Some(answered.response.clone());
                row.answered_by = Some(answered.by.clone());
                row.answered_at = Some(at);
            }
            (PromptRow::Clarification(row), Payload::ClarificationTimedOut(timed_out)) => {
                // Only a question that reached its deadline has a duration.
                let withdrawn =
                    timed_out.after_seconds.is_none() && timed_out.applied == Applied::Unavailable;
                row.status = if withdrawn { "cancelled" } else { "timed_out" }.into();
                row.response = match timed_out.applied {
                    Applied::Default => row.default_response.clone(),
                    Applied::Unavailable => None,
                };
                row.answered_by = timed_out.by.clone();
                row.answered_at = Some(at);
            }
            (PromptRow::Handoff(row), payload) => {
                let (status, by, comment) = match payload {
                    Payload::HandoffAcknowledged(taken) => ("acknowledged", Some(&taken.by), &taken.comment),
                    Payload::HandoffRejected(refused) => ("rejected", Some(&refused.by), &refused.reason),
                    _ => ("timed_out", None, &None),
                };
                row.status = status.into();
                row.answered_by = by.cloned();
                row.answered_at = Some(at);
                row.comment = non_empty(comment);
            }
            _ => debug_assert!(false, "the event settles a prompt of another kind"),
        }
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

/// How long a prompt waited for a person.
#[derive(Debug, Clone)]
pub(crate) struct PromptWait {
    pub(crate) kind: PromptKind,
    /// Its last status; one of few.
    pub(crate) outcome: String,
    pub(crate) ms: u64,
}

/// The pending prompts of one run.
pub(crate) struct Prompts {
    run: RunId,
    task: Option<TaskId>,
    pending: BTreeMap<PromptName, PromptRow>,
    /// Of prompts that were settled since they were last taken.
    waits: Vec<PromptWait>,
}

impl Prompts {
    pub(super) fn of(run: RunId, task: Option<TaskId>) -> Self {
        Prompts { run, task, pending: BTreeMap::new(), waits: Vec::new() }
    }

    pub(super) fn take_waits(&mut self) -> Vec<PromptWait> {
        std::mem::take(&mut self.waits)
    }

    /// The rows that an event changes. A prompt of a run that `begins_late` may have been pruned with its rows.
    pub(super) fn event(&mut self, event: &Event, begins_late: bool) -> Vec<RowPut> {
        let Some(prompt) = PromptEvent::of(event.payload()) else { return Vec::new() };
        let at = time::format_ms(event.occurred_ms);
        if let Some(row) = self.requested(event, &at) {
            let puts = row.opened();
            self.pending.insert(prompt.name(), row);
            return puts;
        }
        let Some(mut row) = self.pending.remove(&prompt.name()) else {
            debug_assert!(begins_late, "the rules let only pending prompts be extended or settled");
            return Vec::new();
        };
        match prompt.step {
            PromptStep::Extended(until) => of_any!(&mut row, row => row.expires_at = Some(until.to_owned())),
            PromptStep::Requested | PromptStep::Settled => {
                row.settle(event.payload(), at);
                let requested_ms = of_any!(&row, row => time::parse_stored_ms(&row.requested_at));
                let requested_ms = requested_ms.unwrap_or(event.occurred_ms);
                let ms = event.occurred_ms.saturating_sub(requested_ms);
                self.waits.push(PromptWait { kind: row.kind(), outcome: row.status().to_owned(), ms });
            }
        }
        let puts = row.changed();
        if row.is_pending() {
            self.pending.insert(prompt.name(), row);
        }
        puts
    }

    fn requested(&self, event: &Event, at: &str) -> Option<PromptRow> {
        Some(match event.payload() {
            Payload::ApprovalRequested(request) => {
                PromptRow::Approval(Box::new(self.approval(event, request, at)))
            }
            Payload::ClarificationRequested(request) => {
                PromptRow::Clarification(Box::new(self.clarification(event, request, at)))
            }
            Payload::HandoffRequested(request) => {
                PromptRow::Handoff(Box::new(self.handoff(event, request, at)))
            }
            _ => return None,
        })
    }

    fn approval(&self, event: &Event, request: &approval::Requested, at: &str) -> ApprovalRow {
        ApprovalRow {
            id: request.approval_id.clone(),
            event_id: event.event_id,
            run_id: self.run,
            task_id: self.task,
            tool_call_id: request.tool_call_id.clone(),
            kind: request.kind.clone(),
            summary: request.summary.clone(),
            status: "pending".into(),
            requested_at: at.into(),
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

    fn clarification(&self, event: &Event, request: &clarification::Requested, at: &str) -> ClarificationRow {
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
            requested_at: at.into(),
            expires_at: expires(event, request.timeout_seconds, request.expires_at.as_ref()),
            response: None,
            answered_by: None,
            answered_at: None,
        }
    }

    fn handoff(&self, event: &Event, request: &handoff::Requested, at: &str) -> HandoffRow {
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
            requested_at: at.into(),
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

/// The stored rows with this id, at most `limit`. In older stores two runs may use one id, except for approvals.
pub(crate) async fn stored(
    store: &dyn Store,
    kind: PromptKind,
    id: &str,
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let space = rows::prompts(kind).each;
    if kind == PromptKind::Approval {
        return Ok(store.row(space, &rows::tenant_key(id)).await?.into_iter().collect());
    }
    let prefix = rows::prompt_prefix(id).into();
    Ok(store.rows(RowRange { space: space.into(), prefix, after: None, backwards: false, limit }).await?)
}

/// Whether a stored prompt has this id. Prompts are answered by id alone, so ids are unique in the store.
pub(crate) async fn is_taken(store: &dyn Store, kind: PromptKind, id: &str) -> Result<bool, Error> {
    Ok(!stored(store, kind, id, 1).await?.is_empty())
}

/// The rejection of a prompt id that is in use.
pub(crate) fn id_taken(kind: PromptKind, id: &str) -> Error {
    let what = kind.as_str();
    Error::rejected(
        recount_event::Code::IdTaken,
        format!("the {what} id {id:?} is already in use; choose another id"),
    )
}
