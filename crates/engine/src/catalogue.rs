//! The catalogue: folds of the log that lists are read from. Rebuildable at any time.
//!
//! A row is written only when what it says has changed, so streaming text costs no row. [`Fold`] serves
//! both the writer, as events happen, and the rebuild, as they are read back.

mod artifacts;
mod prompts;
mod repair;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use recount_event::family::run::{Driver, Queued};
use recount_event::{Event, Payload, RunId, SessionId, TaskId, time};
use recount_log::{Append, Guard, Row, RowPut, RowRange, Store, StreamKey};
use recount_run::limits::BUDGET_WARNING_PCT;
use recount_run::{PromptKind, State, Summary};
use serde::{Deserialize, Serialize};

pub use self::artifacts::ArtifactRow;
pub(crate) use self::artifacts::{ArtifactChange, leaves};
use self::prompts::Prompts;
pub use self::prompts::{ApprovalRow, ClarificationRow, HandoffRow};
pub(crate) use self::prompts::{PromptRow, asked_for, prompt_rows};
pub(crate) use self::repair::Repairs;
use crate::engine::read_row;
use crate::{Error, journal, limits, rows, sealed, sessions};

/// Which folds these are. It grows when a fold is added or says something else; then the catalogue of a store
/// that was written before is made again.
pub(crate) const VERSION: u64 = 5;

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
    /// Tokens used, like the cost with those of earlier runs of the chain.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub input_tokens: u64,
    #[serde(default, skip_serializing_if = "is_zero")]
    pub output_tokens: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace_mode: Option<String>,
    /// The budget of its task as it was when the run began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_micros_usd: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prior_run_id: Option<String>,
    /// Whether the warning of the task's budget was given, in this run or before.
    #[serde(default, skip_serializing_if = "is_false")]
    pub budget_warned: bool,
    /// Prompts that somebody must answer.
    pub pending: Vec<String>,
    pub pending_approvals: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_clarifications: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_handoffs: Vec<String>,
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

/// Turns the events of one run into catalogue rows.
pub(crate) struct Fold {
    run: RunId,
    task: Option<TaskId>,
    session: Option<SessionId>,
    /// Whether events before the first that was taken in were pruned.
    begins_late: Option<bool>,
    /// Whether we drive the run, so that something of it may be sealed.
    is_own: bool,
    /// Whether anything came since rows were asked for that they may tell of.
    touched: bool,
    prompts: Prompts,
    /// What the row of the run was made of, but for the number of events, which it does not tell.
    seen: Option<(u64, bool, Summary)>,
    written_run: Option<RunRow>,
    written_deadline: Option<u64>,
    changes: Vec<RowPut>,
}

impl Fold {
    pub(crate) fn new(run: RunId, task: Option<TaskId>, session: Option<SessionId>) -> Self {
        Fold {
            run,
            task,
            session,
            begins_late: None,
            is_own: false,
            touched: false,
            prompts: Prompts::of(run, task),
            seen: None,
            written_run: None,
            written_deadline: None,
            changes: Vec::new(),
        }
    }

    /// Takes in one event. Call [`Fold::rows`] after a batch.
    pub(crate) fn event(&mut self, event: &Event) {
        let begins_late = *self.begins_late.get_or_insert(event.sequence > 0);
        self.touched |= begins_late || !is_only_told(event.payload());
        for put in self.prompts.event(event, begins_late) {
            self.put(put);
        }
        for put in artifacts::rows(event) {
            self.put(put);
        }
        if let Payload::RunQueued(queued) = event.payload() {
            self.is_own = queued.driver == Driver::Own;
        }
        if self.is_own {
            sealed::settled(event).into_iter().for_each(|put| self.put(put));
        }
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
        let now = standing(state);
        if self.seen.as_ref() != Some(&now) {
            self.run_row(run_row(state, &now.2));
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
        self.seen.as_ref() == Some(&standing(state)) && next_deadline(state) == self.written_deadline
    }

    /// The run's own row as [`Fold::rows`] gave it last.
    pub(crate) fn run(&self) -> Option<&RunRow> {
        self.written_run.as_ref()
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
            if self.written_run.is_none()
                && let Some(session) = self.session
            {
                let key = format!("{}{}", rows::session_runs_prefix(session), self.run);
                self.changes.push(rows::put(rows::SESSION_RUNS, key, Guard::Any, &()));
            }
            let is_own = row.driver == Driver::Own.as_str();
            if is_own && self.written_run.is_none() && !row.has_ended() {
                self.changes.push(rows::put(rows::OWN_OPEN, row.id.as_str(), Guard::Any, &()));
            }
            let ended_now = row.has_ended() && !self.written_run.as_ref().is_some_and(RunRow::has_ended);
            if ended_now && let Some(task) = self.task {
                self.changes.push(rows::delete(rows::TASK_ACTIVE, task.to_string()));
            }
            if is_own && ended_now && self.written_run.is_some() {
                self.changes.push(rows::delete(rows::OWN_OPEN, row.id.as_str()));
                if let Some(session) = self.session {
                    self.changes.push(rows::delete(rows::SESSION_ACTIVE, session.to_string()));
                }
            }
            self.changes.push(rows::put(rows::RUNS, rows::tenant_key(&row.id), Guard::Any, &row));
            self.written_run = Some(row);
        }
    }
}

/// What the row of a run is made of.
fn standing(state: &State) -> (u64, bool, Summary) {
    let warned = state.budget_warned(BUDGET_WARNING_PCT);
    (state.first_sequence(), warned, Summary { next_sequence: 0, ..state.summary() })
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

/// Rows by space and key.
type Folded = BTreeMap<(String, String), Bytes>;

/// What the catalogue would say if it were made anew from the log: `(space, key) → value`, ordered.
pub(crate) async fn fold_again(store: &dyn Store) -> Result<Folded, Error> {
    let mut folded = Folded::new();
    let mut after = None;
    loop {
        let streams = store.streams(after.take(), limits::PAGE_EVENTS).await?;
        let Some(last) = streams.last() else { return Ok(folded) };
        after = Some(last.clone());
        for stream in &streams {
            let Some((puts, _)) = fold_run(store, stream).await? else { continue };
            for put in puts {
                if let Some(value) = put.value {
                    folded.insert((put.space.to_string(), put.key.to_string()), value);
                }
            }
        }
    }
}

/// The catalogue rows of one run, from its events, and where it stands.
async fn fold_run(store: &dyn Store, stream: &StreamKey) -> Result<Option<(Vec<RowPut>, State)>, Error> {
    let mut fold: Option<Fold> = None;
    let state = journal::replay(store, stream, |event| {
        fold.get_or_insert_with(|| Fold::new(event.run_id, event.task_id, event.session_id)).event(event);
    })
    .await?;
    let (Some(state), Some(mut fold)) = (state, fold) else { return Ok(None) };
    let of_catalogue = |put: &RowPut| rows::CATALOGUE.contains(&&*put.space);
    let rows = fold.rows(&state).into_iter().filter(of_catalogue).collect();
    Ok(Some((rows, state)))
}

/// Which folds there are, as the store notes it. Stores that note nothing have those of the first version.
async fn version_of(store: &dyn Store) -> Result<u64, Error> {
    match store.row(rows::FOLDS, rows::FOLDS_VERSION).await? {
        Some(row) => read_row(rows::FOLDS, &row.key, &row.value),
        None => Ok(1),
    }
}

/// Makes the catalogue again when it is gone although there are runs, and when another release made it, with
/// other folds. Rows are written with the events they fold, so it is never merely behind. That it is done is
/// noted last: whoever dies before makes it again.
pub(crate) async fn restore(store: &dyn Store) -> Result<(), Error> {
    let version = version_of(store).await?;
    let is_new = store.streams(None, 1).await?.is_empty();
    if !is_new && rows_of(store, rows::RUNS, None, 1).await?.is_empty() {
        tracing::warn!("the catalogue is gone; it is made again from the log");
    } else if version == VERSION {
        return Ok(());
    } else if !is_new {
        tracing::info!(version, "the catalogue is of another release; it is made again from the log");
    }
    let mut made = Vec::new();
    let mut sessions = BTreeSet::new();
    let mut after = None;
    loop {
        let streams = store.streams(after.take(), limits::PAGE_EVENTS).await?;
        let Some(last) = streams.last() else { break };
        after = Some(last.clone());
        for stream in &streams {
            let Some((mut rows, state)) = fold_run(store, stream).await? else { continue };
            for put in &mut rows {
                put.guard = Guard::Any;
            }
            made.append(&mut rows);
            // There were runs in sessions before there were records of them.
            if let Some(session) = state.session_id()
                && sessions.insert(session)
            {
                made.extend(sessions::record_of(store, &state, session).await?);
            }
            if made.len() >= limits::RESTORE_ROWS {
                let rows = std::mem::take(&mut made);
                store.append(Append { rows, ..Append::default() }).await?;
            }
        }
    }
    made.push(rows::put(rows::FOLDS, rows::FOLDS_VERSION, Guard::Any, &VERSION));
    store.append(Append { rows: made, ..Append::default() }).await?;
    Ok(())
}

/// What the catalogue says that the log does not, and the other way about, as sentences. Reads everything.
pub async fn check(store: &dyn Store) -> Result<Vec<String>, Error> {
    let mut expected = fold_again(store).await?;
    // What another release made is right as it made it, until an engine starts and makes it again; what came
    // in since then is as it is made now.
    let version = version_of(store).await?;
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
                    Some(value) if as_before(version, space, &row.key, &value)?.contains(&row.value) => {}
                    Some(_) => problems.push(format!("the row {space}/{} is not what the log says", row.key)),
                    None => {
                        problems.push(format!("the row {space}/{} stands for nothing in the log", row.key))
                    }
                }
            }
        }
    }
    let missing = expected.keys().filter(|(space, _)| is_made_in(version, space));
    problems.extend(missing.map(|(space, key)| format!("the row {space}/{key} is missing")));
    Ok(problems)
}

/// Whether a version of the catalogue has a fold.
fn is_made_in(version: u64, space: &str) -> bool {
    version >= VERSION
        || rows::CATALOGUE_VERSION_1.contains(&space)
        || version >= 2 && rows::CATALOGUE_VERSION_2.contains(&space)
        || version >= 3 && space == rows::OWN_OPEN
}

/// A row as folds of other releases made it: until the third only approvals were told apart among the prompts,
/// until the fourth a run did not say what it works with, and until the fifth not whether it warned.
fn as_before(version: u64, space: &str, key: &str, value: &Bytes) -> Result<Vec<Bytes>, Error> {
    if version >= VERSION {
        return Ok(Vec::new());
    }
    if space != rows::RUNS {
        return Ok(vec![value.clone()]);
    }
    let row: RunRow = read_row(space, key, value)?;
    let fourth = RunRow { budget_warned: false, ..row };
    let third = RunRow {
        input_tokens: 0,
        output_tokens: 0,
        model: None,
        provider: None,
        workspace_path: None,
        workspace_mode: None,
        budget_micros_usd: None,
        budget_tokens: None,
        prior_run_id: None,
        ..fourth.clone()
    };
    let first = RunRow { pending_clarifications: Vec::new(), pending_handoffs: Vec::new(), ..third.clone() };
    Ok([fourth, third, first].iter().map(rows::written).collect())
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
    let pending = |kind: Option<PromptKind>| -> Vec<String> {
        let wanted = summary.prompts.iter().filter(|prompt| kind.is_none_or(|kind| prompt.kind == kind));
        wanted.map(|prompt| prompt.id.to_string()).collect()
    };
    let ending = summary.ending.as_ref();
    let first_sequence = state.first_sequence();
    let queued = state.queued();
    let said = |part: fn(&Queued) -> &Option<String>| queued.and_then(|queued| part(queued).clone());
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
        input_tokens: summary.totals.input_tokens,
        output_tokens: summary.totals.output_tokens,
        model: said(|queued| &queued.model),
        provider: said(|queued| &queued.provider),
        workspace_path: said(|queued| &queued.workspace_path),
        workspace_mode: said(|queued| &queued.workspace_mode),
        budget_micros_usd: queued.and_then(|queued| queued.task_budget_micros_usd),
        budget_tokens: queued.and_then(|queued| queued.task_budget_tokens),
        prior_run_id: said(|queued| &queued.prior_run_id),
        budget_warned: state.budget_warned(BUDGET_WARNING_PCT),
        pending: pending(None),
        pending_approvals: pending(Some(PromptKind::Approval)),
        pending_clarifications: pending(Some(PromptKind::Clarification)),
        pending_handoffs: pending(Some(PromptKind::Handoff)),
        first_sequence,
        only_ending_left: first_sequence > 0 && state.ending_sequence() == Some(first_sequence),
    }
}
