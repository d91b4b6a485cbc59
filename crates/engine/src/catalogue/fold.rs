//! Folds the events of a run into catalogue rows.
//!
//! A row is written only when it changes, so streamed text writes no rows. [`Fold`] serves the writer, as events are
//! appended, and the rebuild, as they are read back.

use recount_event::family::run::{Driver, Queued};
use recount_event::{Event, ForeignId, Payload, RunId, SessionId, TaskId, time};
use recount_log::{Guard, RowPut};
use recount_run::limits::BUDGET_WARNING_PCT;
use recount_run::{PromptKind, State, Summary};
use serde::Deserialize;

use crate::catalogue::artifact_rows;
use crate::catalogue::prompt_rows::{PromptWait, Prompts};
use crate::ground::rows;
use crate::{RunRow, limits};

/// The event in which a recorder names its source.
const SOURCE_EVENT: &str = "ext.recount.source";

/// Folds the events of one run into catalogue rows.
pub(crate) struct Fold {
    run: RunId,
    task: Option<TaskId>,
    session: Option<SessionId>,
    /// Whether events before the first one were pruned.
    begins_late: Option<bool>,
    /// Whether it is an own run, so that originals may be sealed.
    is_own: bool,
    /// Whether an event since the last call of `rows` may have changed a row.
    touched: bool,
    recorder: RecorderFields,
    prompts: Prompts,
    /// The inputs of the last run row, without the number of events.
    written_key: Option<(u64, bool, Summary)>,
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
            recorder: RecorderFields::default(),
            prompts: Prompts::of(run, task),
            written_key: None,
            written_run: None,
            written_deadline: None,
            changes: Vec::new(),
        }
    }

    /// Adds one event. Call [`Fold::rows`] after a batch.
    pub(crate) fn event(&mut self, event: &Event) {
        let begins_late = *self.begins_late.get_or_insert(event.sequence > 0);
        self.touched |= begins_late || !leaves_rows_unchanged(event.payload());
        self.touched |= self.recorder.event(event);
        for put in self.prompts.event(event, begins_late) {
            self.put(put);
        }
        for put in artifact_rows::rows(event) {
            self.put(put);
        }
        if let Payload::RunQueued(queued) = event.payload() {
            self.is_own = queued.driver == Driver::Own;
        }
        if self.is_own {
            sealed_deletion(event).into_iter().for_each(|put| self.put(put));
        }
    }

    /// Replaces an earlier change of the same row: a request that is decided in the same batch is written once, as
    /// decided, and keeps the guard that makes its id unique.
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

    /// The prompts that were settled since the last call.
    pub(crate) fn take_waits(&mut self) -> Vec<PromptWait> {
        self.prompts.take_waits()
    }

    /// The rows that changed since the last call, including the run's own row.
    pub(crate) fn rows(&mut self, state: &State) -> Vec<RowPut> {
        // Most events are output and do not change the summary.
        if !std::mem::take(&mut self.touched) && self.written_key.is_some() {
            debug_assert!(
                self.is_up_to_date(state),
                "{} changed by an event that must not change it",
                self.run
            );
            return std::mem::take(&mut self.changes);
        }
        let now = summary_key(state);
        if self.written_key.as_ref() != Some(&now) || self.recorder.take_changed() {
            self.run_row(run_row(state, &now.2, &self.recorder));
            self.written_key = Some(now);
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
        self.written_key.as_ref() == Some(&summary_key(state))
            && next_deadline(state) == self.written_deadline
    }

    /// Writes the run's own row if it has changed.
    fn run_row(&mut self, row: RunRow) {
        let before = self.written_run.as_ref();
        if before == Some(&row) {
            return;
        }
        let is_own = row.driver == Driver::Own.as_str();
        let run = self.run;
        if before.is_none() {
            let listed = [
                (rows::TASK_RUNS, self.task.map(|task| format!("{}{run}", rows::task_runs_prefix(task)))),
                (
                    rows::SESSION_RUNS,
                    self.session.map(|chat| format!("{}{run}", rows::session_runs_prefix(chat))),
                ),
                (rows::RUN_SUCCESSORS, successor_key(row.prior_run_id.as_deref(), run)),
                (rows::OWN_OPEN, (is_own && !row.has_ended()).then(|| run.to_string())),
            ];
            let put = |(space, key): (_, Option<String>)| Some(rows::put(space, key?, Guard::Any, &()));
            self.changes.extend(listed.into_iter().filter_map(put));
        }
        if row.has_ended() && !before.is_some_and(RunRow::has_ended) {
            let was_open = is_own && before.is_some();
            let ended = [
                (rows::TASK_ACTIVE, self.task.map(|task| task.to_string())),
                (rows::OWN_OPEN, was_open.then(|| run.to_string())),
                (rows::SESSION_ACTIVE, self.session.filter(|_| was_open).map(|chat| chat.to_string())),
            ];
            let delete = |(space, key): (_, Option<String>)| Some(rows::delete(space, key?));
            self.changes.extend(ended.into_iter().filter_map(delete));
        }
        self.changes.push(rows::put(rows::RUNS, rows::tenant_key(run), Guard::Any, &row));
        self.written_run = Some(row);
    }
}

/// Facts of a run row that the rules do not track: the source of an external run, and the number of turns without cost.
#[derive(Default)]
pub(crate) struct RecorderFields {
    pub(crate) source: Option<String>,
    pub(crate) unpriced_turns: u64,
    is_external: bool,
    changed: bool,
}

/// The fields of a source event that a row shows.
#[derive(Deserialize)]
struct Source {
    source: String,
}

impl RecorderFields {
    /// Adds one event, and returns whether a fact changed.
    pub(crate) fn event(&mut self, event: &Event) -> bool {
        let changes = match event.payload() {
            Payload::RunQueued(queued) => {
                self.is_external = queued.driver == Driver::External;
                false
            }
            Payload::Opaque(other)
                if self.is_external && self.source.is_none() && &*other.type_name == SOURCE_EVENT =>
            {
                self.source = source(&other.data);
                self.source.is_some()
            }
            Payload::TurnCompleted(turn) if turn.cost_micros_usd.is_none() => {
                self.unpriced_turns += 1;
                true
            }
            // A rebuilt catalogue does not see the pruned events.
            Payload::GapEventsPruned(_) => {
                self.source = None;
                self.unpriced_turns = 0;
                true
            }
            _ => false,
        };
        self.changed |= changes;
        changes
    }

    /// Whether a fact changed since the last call.
    pub(crate) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }
}

/// Deletes the sealed original of a call that is settled, or of a patch that is closed.
fn sealed_deletion(event: &Event) -> Option<RowPut> {
    let id = match event.payload() {
        Payload::ToolRefused(refused) => &refused.tool_call_id,
        Payload::ToolCompleted(ended)
        | Payload::ToolFailed(ended)
        | Payload::ToolCancelled(ended)
        | Payload::ToolTimedOut(ended) => &ended.tool_call_id,
        Payload::ArtifactUpdated(updated) if updated.field == "status" => &updated.artifact_id,
        _ => return None,
    };
    Some(rows::delete(rows::SEALED, rows::sealed_key(event.run_id, id)))
}

/// The key under which the prior run finds this run. `None` if the prior run has no valid id, as in some imports.
pub(crate) fn successor_key(prior: Option<&str>, run: RunId) -> Option<String> {
    let prior: RunId = prior?.parse().ok()?;
    Some(format!("{}{run}", rows::within(prior)))
}

/// The inputs of the run row.
fn summary_key(state: &State) -> (u64, bool, Summary) {
    let warned = state.budget_warned(BUDGET_WARNING_PCT);
    (state.first_sequence(), warned, Summary { next_sequence: 0, ..state.summary() })
}

/// Whether an event cannot change a row. `true` only for the most frequent of these events.
fn leaves_rows_unchanged(payload: &Payload) -> bool {
    matches!(
        payload,
        Payload::AssistantTextDelta(_)
            | Payload::AssistantThinkingDelta(_)
            | Payload::ToolShellOutputChunk(_)
            | Payload::ErrorUpstream(_)
            | Payload::Opaque(_)
    )
}

/// The next deadline of a run.
pub(crate) fn next_deadline(state: &State) -> Option<u64> {
    recount_run::outstanding(state).timers.iter().map(|timer| timer.at_ms).min()
}

pub(crate) fn run_row(state: &State, summary: &Summary, recorder: &RecorderFields) -> RunRow {
    let pending = |kind: Option<PromptKind>| -> Vec<ForeignId> {
        let matching = summary.prompts.iter().filter(|prompt| kind.is_none_or(|kind| prompt.kind == kind));
        matching.map(|prompt| prompt.id.clone()).collect()
    };
    let ending = summary.ending.as_ref();
    let first_sequence = state.first_sequence();
    let queued = state.queued();
    // Pruning does not keep these fields.
    let prior = |part: fn(&Queued) -> Option<u64>| match queued {
        Some(queued) if first_sequence == 0 => part(queued).unwrap_or(0),
        _ => 0,
    };
    let agent = summary.agent.as_ref();
    let field = |part: fn(&Queued) -> &Option<String>| queued.and_then(|queued| part(queued).clone());
    RunRow {
        id: state.run_id(),
        task_id: state.task_id(),
        session_id: state.session_id(),
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
        prior_cost_micros_usd: prior(|queued| queued.prior_cost_micros_usd),
        prior_input_tokens: prior(|queued| queued.prior_input_tokens),
        prior_output_tokens: prior(|queued| queued.prior_output_tokens),
        unpriced_turns: recorder.unpriced_turns,
        agent_name: agent.map(|agent| agent.name.clone()),
        agent_version: agent.and_then(|agent| agent.version.clone()),
        source: recorder.source.clone(),
        input_tokens: summary.totals.input_tokens,
        output_tokens: summary.totals.output_tokens,
        model: field(|queued| &queued.model),
        provider: field(|queued| &queued.provider),
        workspace_path: field(|queued| &queued.workspace_path),
        workspace_mode: field(|queued| &queued.workspace_mode),
        budget_micros_usd: queued.and_then(|queued| queued.task_budget_micros_usd),
        budget_tokens: queued.and_then(|queued| queued.task_budget_tokens),
        prior_run_id: field(|queued| &queued.prior_run_id),
        budget_warned: state.budget_warned(BUDGET_WARNING_PCT),
        pending: pending(None),
        pending_approvals: pending(Some(PromptKind::Approval)),
        pending_clarifications: pending(Some(PromptKind::Clarification)),
        pending_handoffs: pending(Some(PromptKind::Handoff)),
        first_sequence,
        only_ending_left: first_sequence > 0 && state.ending_sequence() == Some(first_sequence),
    }
}

/// The name of a source. `None` if it is empty or too long.
fn source(data: &str) -> Option<String> {
    let Source { source } = serde_json::from_str(data).ok()?;
    let fits = !source.trim().is_empty() && source.chars().count() <= limits::SOURCE_CHARS_MAX;
    fits.then_some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_text_is_a_source() {
        let data = |name: &str| format!(r#"{{"source":"{name}","version":"2.1","shows":["text"]}}"#);
        assert_eq!(source(&data("claude-code-hooks")).as_deref(), Some("claude-code-hooks"));
        assert_eq!(source(&data(&"x".repeat(limits::SOURCE_CHARS_MAX))).map(|name| name.len()), Some(64));
        for none in [data(" "), data(&"x".repeat(65)), "{}".into(), r#"{"source":1}"#.into(), "[]".into()] {
            assert_eq!(source(&none), None, "{none}");
        }
    }
}
