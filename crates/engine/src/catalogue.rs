//! The catalogue: folds of the log that lists are read from. Rebuildable at any time.
//!
//! A row is written only when what it says has changed, so streaming text costs no row. [`Fold`] serves
//! both the writer, as events happen, and the rebuild, as they are read back.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use recount_event::family::approval::{Decision, DefaultDecision, Requested};
use recount_event::{Event, EventId, Payload, RunId, TaskId, time};
use recount_log::{Append, Guard, Row, RowPut, RowRange, Store, StreamKey};
use recount_run::{PromptKind, State, Summary};
use serde::{Deserialize, Serialize};

use crate::{Error, journal, limits, rows};

/// A run as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunRow {
    pub id: String,
    pub task_id: Option<String>,
    pub session_id: Option<String>,
    pub kind: String,
    pub driver: String,
    pub status: String,
    pub title: Option<String>,
    pub created_at: String,
    pub started_at: Option<String>,
    pub ended_at: Option<String>,
    pub ending: Option<String>,
    pub message: Option<String>,
    pub turns: u64,
    pub cost_micros_usd: u64,
    /// Prompts that somebody must answer.
    pub pending: Vec<String>,
    pub pending_approvals: Vec<String>,
    /// The first event that is left; not 0 once the run was pruned.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub first_sequence: u64,
    /// Whether everything before the ending was pruned, so that no more can be.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only_ending_left: bool,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_false(is: &bool) -> bool {
    !is
}

impl RunRow {
    pub fn has_ended(&self) -> bool {
        self.ended_at.is_some()
    }
}

/// A task as it was asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TaskRow {
    pub id: String,
    pub title: Option<String>,
    pub created_at: String,
}

/// A request for permission and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRow {
    pub id: String,
    /// The event that asked; lists are in its order.
    pub event_id: String,
    pub run_id: String,
    pub task_id: Option<String>,
    pub tool_call_id: String,
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
    pub decision: Option<String>,
    pub decided_by: Option<String>,
    pub decided_at: Option<String>,
    pub comment: Option<String>,
}

/// Turns the events of one run into catalogue rows.
pub(crate) struct Fold {
    run: RunId,
    task: Option<TaskId>,
    /// Whether events before the first that was taken in were pruned.
    begins_late: Option<bool>,
    /// Whether anything came since rows were asked for that they may tell of.
    touched: bool,
    open_approvals: BTreeMap<String, ApprovalRow>,
    /// What the row of the run was made of, but for the number of events, which it does not tell.
    seen: Option<(u64, Summary)>,
    written_run: Option<RunRow>,
    written_deadline: Option<u64>,
    changes: Vec<RowPut>,
}

impl Fold {
    pub(crate) fn new(run: RunId, task: Option<TaskId>) -> Self {
        Fold {
            run,
            task,
            begins_late: None,
            touched: false,
            open_approvals: BTreeMap::new(),
            seen: None,
            written_run: None,
            written_deadline: None,
            changes: Vec::new(),
        }
    }

    /// Takes in one event. Call [`Fold::rows`] after a batch.
    pub(crate) fn event(&mut self, event: &Event) {
        // Only the few that the catalogue tells of are worth the words.
        let at = || time::format_ms(event.occurred_ms);
        let begins_late = *self.begins_late.get_or_insert(event.sequence > 0);
        self.touched |= begins_late || !is_only_told(event.payload());
        match event.payload() {
            Payload::ApprovalRequested(requested) => self.requested(event, requested, at()),
            Payload::ApprovalResolved(resolved) => {
                let comment = resolved.comment.clone();
                let status = resolved.decision.as_str();
                self.decided(&resolved.approval_id, status, status, Some(resolved.by.clone()), at(), comment);
            }
            Payload::ApprovalTimedOut(missed) => {
                let decision = missed.decision.unwrap_or(Decision::Rejected).as_str();
                self.decided(&missed.approval_id, "timed_out", decision, missed.by.clone(), at(), None);
            }
            _ => {}
        }
    }

    fn requested(&mut self, event: &Event, requested: &Requested, at: String) {
        let expires = requested
            .timeout_seconds
            .map(|seconds| time::format_ms(event.occurred_ms.saturating_add(seconds.saturating_mul(1000))));
        let default = requested.default_decision.unwrap_or(DefaultDecision::Reject);
        let row = ApprovalRow {
            id: requested.approval_id.to_string(),
            event_id: event.event_id.to_string(),
            run_id: self.run.to_string(),
            task_id: self.task.map(|task| task.to_string()),
            tool_call_id: requested.tool_call_id.to_string(),
            kind: requested.kind.clone(),
            summary: requested.summary.clone(),
            status: "pending".into(),
            requested_at: at,
            expires_at: expires.or_else(|| requested.expires_at.clone()),
            default_decision: default.as_str().into(),
            policy_reason: requested.policy_reason.clone(),
            risk_level: requested.risk_level.map(|level| level.as_str().into()),
            action: requested.action.clone(),
            consequence: requested.consequence.clone(),
            irreversible: requested.irreversible,
            decision: None,
            decided_by: None,
            decided_at: None,
            comment: None,
        };
        self.put(rows::put(rows::APPROVALS, rows::tenant_key(&row.id), Guard::Absent, &row));
        let key = rows::tenant_key(&row.event_id);
        self.put(rows::put(rows::APPROVALS_LISTED, key.clone(), Guard::Any, &row.id));
        self.put(rows::put(rows::APPROVALS_PENDING, key, Guard::Any, &row.id));
        self.open_approvals.insert(row.id.clone(), row);
    }

    fn decided(
        &mut self,
        id: &str,
        status: &str,
        decision: &str,
        by: Option<String>,
        at: String,
        comment: Option<String>,
    ) {
        let Some(mut row) = self.open_approvals.remove(id) else {
            // The request was pruned, and left the lists with that.
            debug_assert_eq!(self.begins_late, Some(true), "the rules let only pending approvals be decided");
            return;
        };
        row.status = status.into();
        row.decision = Some(decision.into());
        row.decided_by = by;
        row.decided_at = Some(at);
        row.comment = comment.filter(|comment| !comment.is_empty());
        self.put(rows::put(rows::APPROVALS, rows::tenant_key(id), Guard::Any, &row));
        self.put(rows::delete(rows::APPROVALS_PENDING, rows::tenant_key(&row.event_id)));
    }

    /// One put a row: a request that is decided in the same batch is written once, as decided, and keeps
    /// the guard that makes its id unique.
    fn put(&mut self, mut put: RowPut) {
        let same = |other: &RowPut| other.space == put.space && other.key == put.key;
        if let Some(place) = self.changes.iter().position(same) {
            if self.changes[place].guard == Guard::Absent {
                put.guard = Guard::Absent;
            }
            self.changes[place] = put;
        } else {
            self.changes.push(put);
        }
    }

    /// The rows that changed since the last call, the run's own included when its summary did.
    pub(crate) fn rows(&mut self, state: &State) -> Vec<RowPut> {
        // Most of what comes is output, and says nothing of where the run stands: not worth a summary each.
        if !std::mem::take(&mut self.touched) && self.seen.is_some() {
            debug_assert!(self.is_up_to_date(state), "{} changed by what is only told", self.run);
            return std::mem::take(&mut self.changes);
        }
        let now = (state.first_sequence(), Summary { next_sequence: 0, ..state.summary() });
        if self.seen.as_ref() != Some(&now) {
            self.run_row(run_row(state, &now.1));
            self.seen = Some(now);
        }
        let deadline = next_deadline(state);
        if deadline != self.written_deadline {
            let key = self.run.to_string();
            self.changes.push(match deadline {
                Some(at) => rows::put(rows::DEADLINES, key, Guard::Any, &at),
                None => rows::delete(rows::DEADLINES, key),
            });
            self.written_deadline = deadline;
        }
        std::mem::take(&mut self.changes)
    }

    fn is_up_to_date(&self, state: &State) -> bool {
        let now = (state.first_sequence(), Summary { next_sequence: 0, ..state.summary() });
        self.seen.as_ref() == Some(&now) && next_deadline(state) == self.written_deadline
    }

    /// Writes the run's own row, unless it says what it said before.
    fn run_row(&mut self, row: RunRow) {
        if self.written_run.as_ref() != Some(&row) {
            if self.written_run.is_none()
                && let Some(task) = self.task
            {
                let key = format!("{}{}", rows::task_runs_prefix(task), self.run);
                self.changes.push(rows::put(rows::TASK_RUNS, key, Guard::Any, &()));
            }
            let ended_now = row.has_ended() && !self.written_run.as_ref().is_some_and(RunRow::has_ended);
            if ended_now && let Some(task) = self.task {
                self.changes.push(rows::delete(rows::TASK_ACTIVE, task.to_string()));
            }
            self.changes.push(rows::put(rows::RUNS, rows::tenant_key(&row.id), Guard::Any, &row));
            self.written_run = Some(row);
        }
    }
}

/// Whether an event leaves everything as it was that rows are made of. `true` only for the most frequent of
/// those that do.
fn is_only_told(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::AssistantTextDelta(_)
            | Payload::AssistantThinkingDelta(_)
            | Payload::ToolShellOutputChunk(_)
            | Payload::ErrorUpstream(_)
            | Payload::Opaque(_)
    )
}

/// What the catalogue would say if it were made anew from the log: `(space, key) → value`, ordered.
pub(crate) async fn fold_again(store: &dyn Store) -> Result<BTreeMap<(String, String), Bytes>, Error> {
    let mut folded = BTreeMap::new();
    let mut after = None;
    loop {
        let streams = store.streams(after.take(), limits::PAGE_EVENTS).await?;
        let Some(last) = streams.last() else { return Ok(folded) };
        after = Some(last.clone());
        for stream in &streams {
            for put in fold_run(store, stream).await? {
                if let Some(value) = put.value {
                    folded.insert((put.space.to_string(), put.key.to_string()), value);
                }
            }
        }
    }
}

/// The rows of a request for permission, for when nothing is left to tell of it.
pub(crate) fn approval_rows(approval: &str, event: EventId) -> [RowPut; 3] {
    let listed = rows::tenant_key(event);
    [
        rows::delete(rows::APPROVALS, rows::tenant_key(approval)),
        rows::delete(rows::APPROVALS_LISTED, listed.clone()),
        rows::delete(rows::APPROVALS_PENDING, listed),
    ]
}

/// The catalogue rows of one run, from its events.
async fn fold_run(store: &dyn Store, stream: &StreamKey) -> Result<Vec<RowPut>, Error> {
    let mut fold: Option<Fold> = None;
    let state = journal::replay(store, stream, |event| {
        fold.get_or_insert_with(|| Fold::new(event.run_id, event.task_id)).event(event);
    })
    .await?;
    let (Some(state), Some(mut fold)) = (state, fold) else { return Ok(Vec::new()) };
    let of_catalogue = |put: &RowPut| rows::CATALOGUE.contains(&&*put.space);
    Ok(fold.rows(&state).into_iter().filter(of_catalogue).collect())
}

/// Makes the catalogue again when it is gone although there are runs. Rows are written with the events they
/// fold, so it is never merely behind.
pub(crate) async fn restore(store: &dyn Store) -> Result<(), Error> {
    let first = store.streams(None, 1).await?;
    if first.is_empty() || !rows_of(store, rows::RUNS, None, 1).await?.is_empty() {
        return Ok(());
    }
    tracing::warn!("the catalogue is gone; it is made again from the log");
    let mut after = None;
    loop {
        let streams = store.streams(after.take(), limits::PAGE_EVENTS).await?;
        let Some(last) = streams.last() else { return Ok(()) };
        after = Some(last.clone());
        for stream in &streams {
            let mut rows = fold_run(store, stream).await?;
            for put in &mut rows {
                put.guard = Guard::Any;
            }
            store.append(Append { rows, ..Append::default() }).await?;
        }
    }
}

/// What the catalogue says that the log does not, and the other way about, as sentences. Reads everything.
pub async fn check(store: &dyn Store) -> Result<Vec<String>, Error> {
    let mut expected = fold_again(store).await?;
    let mut problems = Vec::new();
    for space in rows::CATALOGUE {
        let mut after = None;
        loop {
            let page = rows_of(store, space, after.take(), limits::PAGE_EVENTS).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.key.clone());
            for row in page {
                match expected.remove(&(space.to_owned(), row.key.to_string())) {
                    Some(value) if value == row.value => {}
                    Some(_) => problems.push(format!("the row {space}/{} is not what the log says", row.key)),
                    None => {
                        problems.push(format!("the row {space}/{} stands for nothing in the log", row.key))
                    }
                }
            }
        }
    }
    problems.extend(expected.keys().map(|(space, key)| format!("the row {space}/{key} is missing")));
    Ok(problems)
}

async fn rows_of(
    store: &dyn Store,
    space: &str,
    after: Option<Arc<str>>,
    limit: usize,
) -> Result<Vec<Row>, Error> {
    let range = RowRange { space: space.into(), prefix: "".into(), after, backwards: false, limit };
    Ok(store.rows(range).await?)
}

/// When the run must be looked at next.
pub(crate) fn next_deadline(state: &State) -> Option<u64> {
    recount_run::outstanding(state).timers.iter().map(|timer| timer.at_ms).min()
}

fn run_row(state: &State, summary: &Summary) -> RunRow {
    let prompts = || summary.prompts.iter();
    let ending = summary.ending.as_ref();
    let first_sequence = state.first_sequence();
    RunRow {
        id: state.run_id().to_string(),
        task_id: state.task_id().map(|id| id.to_string()),
        session_id: state.session_id().map(|id| id.to_string()),
        kind: summary.kind.as_str().into(),
        driver: summary.driver.as_str().into(),
        status: summary.status.as_str().into(),
        title: summary.title.clone(),
        created_at: time::format_ms(summary.created_ms),
        started_at: summary.started_ms.map(time::format_ms),
        ended_at: summary.ended_ms.map(time::format_ms),
        ending: ending.map(|ending| ending.code.clone()),
        message: ending.and_then(|ending| ending.message.clone()).filter(|message| !message.is_empty()),
        turns: summary.turns,
        cost_micros_usd: summary.totals.cost_micros_usd,
        pending: prompts().map(|prompt| prompt.id.to_string()).collect(),
        pending_approvals: prompts()
            .filter(|prompt| prompt.kind == PromptKind::Approval)
            .map(|prompt| prompt.id.to_string())
            .collect(),
        first_sequence,
        only_ending_left: first_sequence > 0 && state.ending_sequence() == Some(first_sequence),
    }
}
