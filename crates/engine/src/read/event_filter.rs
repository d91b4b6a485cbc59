//! Filters the events of the feed.
//!
//! Ids and types are matched against the envelope; kind and status against the current row of the run. The cursor of
//! a reader also advances over hidden events.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use recount_event::codec::Envelope;
use recount_event::{RunId, SessionId, TaskId};
use recount_log::{FeedRecord, Store};

use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, Narrowing, RunRow};

/// A pattern for event types: a full name, or a prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypePattern {
    Exactly(String),
    /// All types with this prefix, which ends with a dot or is empty.
    Below(String),
}

impl TypePattern {
    /// Whether a type matches.
    pub fn takes(&self, type_name: &str) -> bool {
        match self {
            TypePattern::Exactly(name) => name == type_name,
            TypePattern::Below(prefix) => type_name.starts_with(prefix.as_str()),
        }
    }
}

/// Selects events. An empty field matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    pub types: Vec<TypePattern>,
    pub runs: BTreeSet<RunId>,
    pub tasks: BTreeSet<TaskId>,
    pub sessions: BTreeSet<SessionId>,
    pub kinds: BTreeSet<String>,
    pub statuses: BTreeSet<String>,
    /// The tasks and sessions that the reader may access.
    pub within: Narrowing,
}

impl EventFilter {
    /// Whether all events match.
    pub fn is_open(&self) -> bool {
        *self == EventFilter::default()
    }

    fn takes(&self, envelope: &Envelope<'_>) -> bool {
        let matches = |name| self.types.is_empty() || self.types.iter().any(|pattern| pattern.takes(name));
        let among_runs = self.runs.is_empty() || self.runs.contains(&envelope.run_id);
        let among_tasks =
            self.tasks.is_empty() || envelope.task_id.is_some_and(|task| self.tasks.contains(&task));
        let among_sessions = self.sessions.is_empty()
            || envelope.session_id.is_some_and(|session| self.sessions.contains(&session));
        among_runs
            && among_tasks
            && among_sessions
            && self.within.admits(envelope.task_id, envelope.session_id)
            && matches(&envelope.type_name)
    }

    fn needs_rows(&self) -> bool {
        !self.kinds.is_empty() || !self.statuses.is_empty()
    }

    fn takes_run(&self, row: &RunRow) -> bool {
        (self.kinds.is_empty() || self.kinds.contains(&row.kind))
            && (self.statuses.is_empty() || self.statuses.contains(&row.status))
    }
}

/// Selects the matching records of the feed.
#[derive(Clone)]
pub(crate) struct FeedFilter {
    filter: Arc<EventFilter>,
    store: Arc<dyn Store>,
}

impl FeedFilter {
    pub(crate) fn new(filter: EventFilter, store: Arc<dyn Store>) -> Self {
        FeedFilter { filter: Arc::new(filter), store }
    }

    pub(crate) async fn select(&self, found: Vec<FeedRecord>) -> Result<Vec<FeedRecord>, Error> {
        let mut wanted = Vec::new();
        let mut runs: HashMap<RunId, bool> = HashMap::new();
        for found in found {
            let envelope = Envelope::read(&found.record.bytes).map_err(|why| {
                Error::bug(format!("the event at position {} cannot be read: {why}", found.record.position))
            })?;
            if !self.filter.takes(&envelope) {
                continue;
            }
            if self.filter.needs_rows() {
                let run = envelope.run_id;
                let takes = match runs.get(&run) {
                    Some(takes) => *takes,
                    None => {
                        let takes = self.takes_run(run).await?;
                        runs.insert(run, takes);
                        takes
                    }
                };
                if !takes {
                    continue;
                }
            }
            wanted.push(found);
        }
        Ok(wanted)
    }

    async fn takes_run(&self, run: RunId) -> Result<bool, Error> {
        let Some(row) = self.store.row(rows::RUNS, &rows::tenant_key(run)).await? else { return Ok(false) };
        let row: RunRow = read_row(rows::RUNS, &row.key, &row.value)?;
        Ok(self.filter.takes_run(&row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_match_by_name_or_prefix() {
        let below = |text: &str| TypePattern::Below(text.into());
        let exactly = |text: &str| TypePattern::Exactly(text.into());
        for (pattern, name, takes) in [
            (exactly("tool.completed"), "tool.completed", true),
            (exactly("tool"), "tool.completed", false),
            (below("tool."), "tool.shell.exited", true),
            (below("tool.shell."), "tool.completed", false),
            (below("tool."), "toolbox.opened", false),
            (below(""), "anything.else", true),
        ] {
            assert_eq!(pattern.takes(name), takes, "{pattern:?} {name}");
        }
    }

    #[test]
    fn all_parts_of_a_filter_must_match() {
        let run = "run_01JZZZZZZZZZZZZZZZZZZZZZZZ";
        let task = "task_01JZZZZZZZZZZZZZZZZZZZZZZZ";
        let text = format!(
            r#"{{"schema_version":"1","event_id":"evt_01JZZZZZZZZZZZZZZZZZZZZZZZ","run_id":"{run}","task_id":"{task}","sequence":0,"occurred_at":"2026-01-01T00:00:00.000Z","type":"run.started","data":{{}}}}"#
        );
        let envelope = Envelope::read(text.as_bytes()).unwrap();
        let types = vec![TypePattern::Below("run.".into())];
        let tasks: BTreeSet<TaskId> = [task.parse().unwrap()].into();
        let other: BTreeSet<TaskId> = ["task_01JYYYYYYYYYYYYYYYYYYYYYYY".parse().unwrap()].into();
        assert!(EventFilter::default().is_open() && EventFilter::default().takes(&envelope));
        let filter = EventFilter { types: types.clone(), tasks: tasks.clone(), ..EventFilter::default() };
        assert!(filter.takes(&envelope));
        assert!(!EventFilter { tasks: other.clone(), ..filter.clone() }.takes(&envelope));
        assert!(
            !EventFilter {
                sessions: ["chat_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap()].into(),
                ..filter.clone()
            }
            .takes(&envelope)
        );
        let within = |tasks| Narrowing { tasks, ..Narrowing::default() };
        assert!(EventFilter { within: within(tasks), ..filter.clone() }.takes(&envelope));
        assert!(!EventFilter { within: within(other), ..filter }.takes(&envelope));
    }
}
