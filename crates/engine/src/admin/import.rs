//! Imports a run from another store: checks it as a whole, then writes it with its ids and bytes, or writes nothing.
//!
//! The records must be what an engine would have written: in canonical form, with a chain that matches the stated
//! head, and legal by the audit. This module must not depend on the format of export files. Start with [`import`].

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use recount_event::{Code, Event, PromptEvent, RunId, TaskId, codec, door, time};
use recount_log::chain::ChainValue;
use recount_log::{Append, AppendError, Guard, RowPut, Store, StreamAppend, Tail};
use recount_run::{PromptKind, Rejection, State};

use crate::admin::handle::AdminHandle;
use crate::boxed;
use crate::catalogue::fold::{Fold, next_deadline};
use crate::catalogue::prompt_rows;
use crate::catalogue::sessions;
use crate::ground::error::{run_erased, session_erased, task_erased};
use crate::ground::{journal, rows};
use crate::{Error, TaskRow, limits};

/// A run to import: its stored events, and their stated number and head.
#[derive(Debug, Clone)]
pub struct Import {
    pub run: RunId,
    /// The stated number of events.
    pub events: u64,
    /// The stated chain value over the events, in hex.
    pub head: String,
    pub records: Vec<Bytes>,
}

/// A run that is in the store after an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportedRun {
    pub run: RunId,
    pub events: u64,
    pub head: String,
    /// Position of the last event.
    pub position: u64,
    /// Whether this import wrote the run. `false`: it was in the store before, with the same events.
    pub is_new: bool,
}

/// Imports a run into a store without an open engine. With an engine, use [`AdminHandle::import`].
#[boxed]
pub async fn import(store: &dyn Store, import: Import) -> Result<ImportedRun, Error> {
    judge_and_append(store, import).await.map(|outcome| outcome.imported)
}

/// The result of an import, and the state that the engine needs of the run.
pub(crate) struct ImportOutcome {
    pub(crate) imported: ImportedRun,
    pub(crate) ended: bool,
    pub(crate) deadline: Option<u64>,
}

pub(crate) async fn judge_and_append(store: &dyn Store, import: Import) -> Result<ImportOutcome, Error> {
    verify_digest(&import).await?;
    if let Some(tail) = store.tail(&journal::stream_of(import.run)).await? {
        return check_existing(&import, &tail);
    }
    check_size(&import, &[])?;
    let events = read(&import).await?;
    if let Some(illegal) = recount_run::audit(&events) {
        let of = events.get(illegal.index).map(|event| event.type_name().to_owned());
        return Err(refused(illegal.index, of, illegal.rule, illegal.message));
    }
    let Some(first) = events.first() else { return Err(without_events(import.run)) };
    let mut state = State::blank(first.run_id, first.task_id, first.session_id);
    let mut fold = Fold::new(first.run_id, first.task_id, first.session_id);
    let mut catalogue = Catalogue::default();
    for slice in events.chunks(limits::IMPORT_SLICE_EVENTS) {
        for event in slice {
            recount_run::apply(&mut state, event);
            fold.event(event);
        }
        catalogue.add(fold.rows(&state));
        yield_to_tasks(slice.len() - 1).await;
    }
    for event in &events {
        let Some(PromptEvent { kind, id, .. }) = PromptEvent::requested(event.payload()) else { continue };
        if prompt_rows::is_taken(store, kind, id).await? {
            return Err(id_taken(kind, id));
        }
    }
    drop(events);
    append(store, &import, &state, catalogue.puts()).await
}

/// The catalogue rows of a run after all its events.
#[derive(Default)]
struct Catalogue(BTreeMap<(Arc<str>, Arc<str>), RowPut>);

impl Catalogue {
    fn add(&mut self, puts: Vec<RowPut>) {
        for mut put in puts {
            let key = (put.space.clone(), put.key.clone());
            // The guard that makes an id unique stays with its row.
            if self.0.get(&key).is_some_and(|before| before.guard == Guard::Absent) {
                put.guard = Guard::Absent;
            }
            self.0.insert(key, put);
        }
    }

    /// Leaves out deletions: a new run has no rows to delete, and only the run that made its task active may release
    /// it.
    fn puts(self) -> Vec<RowPut> {
        self.0.into_values().filter(|put| put.value.is_some()).collect()
    }
}

/// Checks the number of events and the head.
async fn verify_digest(import: &Import) -> Result<(), Error> {
    let (run, count) = (import.run, import.records.len() as u64);
    if count != import.events {
        return Err(Error::rejected(
            Code::ExportAltered,
            format!("the export of {run} has {count} events, but its header says {}", import.events),
        ));
    }
    if count == 0 {
        return Err(without_events(run));
    }
    let mut head = ChainValue::start(&run.to_string());
    for (index, record) in import.records.iter().enumerate() {
        yield_to_tasks(index).await;
        head = head.then(record);
    }
    let head = head.to_string();
    if head != import.head {
        return Err(Error::rejected(
            Code::ExportAltered,
            format!(
                "the events of {run} have the head {head}, but the header of the export says {}: the export \
                 was changed",
                import.head
            ),
        ));
    }
    Ok(())
}

fn without_events(run: RunId) -> Error {
    Error::rejected(Code::BodyMalformed, format!("the export of {run} has no events; send a complete export"))
}

/// Accepts a run that is in the store with the same events, and refuses one with other events.
fn check_existing(import: &Import, tail: &Tail) -> Result<ImportOutcome, Error> {
    let run = import.run;
    if tail.erased {
        return Err(run_erased(run));
    }
    if tail.next_sequence == import.events && tail.head.to_string() == import.head {
        let imported = ImportedRun {
            run,
            events: import.events,
            head: import.head.clone(),
            position: tail.last_position,
            is_new: false,
        };
        return Ok(ImportOutcome { imported, ended: false, deadline: None });
    }
    Err(Error::rejected(
        Code::RunExists,
        format!(
            "{run} already exists with {} events and head {}; the export has {} events and head {}",
            tail.next_sequence, tail.head, import.events, import.head
        ),
    ))
}

/// Checks that the run fits one append.
fn check_size(import: &Import, rows: &[RowPut]) -> Result<(), Error> {
    let row_bytes = |put: &RowPut| put.space.len() + put.key.len() + put.value.as_ref().map_or(0, Bytes::len);
    let name = import.run.to_string().len();
    let bytes = name
        + import.records.iter().map(Bytes::len).sum::<usize>()
        + rows.iter().map(row_bytes).sum::<usize>();
    let entries = import.records.len() + rows.len();
    for (what, found, max, limit) in [
        ("events and rows", entries, limits::IMPORT_ENTRIES_MAX, "IMPORT_ENTRIES_MAX"),
        ("bytes", bytes, limits::IMPORT_BYTES_MAX, "IMPORT_BYTES_MAX"),
    ] {
        if found > max {
            return Err(Error::rejected(
                Code::LimitReached,
                format!("{} has {found} {what}; the limit for an import is {max} ({limit})", import.run),
            ));
        }
    }
    Ok(())
}

async fn read(import: &Import) -> Result<Vec<Event>, Error> {
    let mut events = Vec::with_capacity(import.records.len());
    for (index, record) in import.records.iter().enumerate() {
        yield_to_tasks(index).await;
        let event = decode_canonical(record).map_err(|why| refused(index, None, "event.well_formed", why))?;
        if event.run_id != import.run {
            let why = format!("the event belongs to {}, not to {}", event.run_id, import.run);
            return Err(refused(index, Some(event.type_name().to_owned()), "envelope.ids", why));
        }
        events.push(event);
    }
    Ok(events)
}

/// Yields to other tasks at regular intervals.
async fn yield_to_tasks(index: usize) {
    if index % limits::IMPORT_SLICE_EVENTS == limits::IMPORT_SLICE_EVENTS - 1 {
        tokio::task::yield_now().await;
    }
}

/// Decodes an event and checks that it is in the canonical form of the log.
fn decode_canonical(record: &[u8]) -> Result<Event, String> {
    let event = codec::decode(record).map_err(|why| why.to_string())?;
    if codec::encode(&event) != record {
        return Err("the envelope is not in the canonical form of the log".into());
    }
    let data = event.body.verbatim.as_deref().unwrap_or_default();
    let max = recount_event::limits::DATA_BYTES_MAX;
    if data.len() > max {
        return Err(format!("data has {} bytes; the limit is {max} (DATA_BYTES_MAX)", data.len()));
    }
    let unknown = event.extra.iter().map(|(name, value)| (name.as_ref(), value.as_ref()));
    for (name, text) in std::iter::once(("data", data)).chain(unknown) {
        match door::compact(text) {
            Ok(compact) if compact == text => {}
            Ok(_) => return Err(format!("{name} has whitespace outside strings; export the run again")),
            Err(why) => return Err(format!("{name} is invalid: {why}")),
        }
    }
    if let Some(breach) = event.payload().breach() {
        return Err(breach);
    }
    // Ids increase within a run, so later ids must be possible.
    if event.event_id.ulid().timestamp_ms() >> 47 == 1 {
        return Err(format!("the event id {} is too high: no later id could follow", event.event_id));
    }
    Ok(event)
}

fn refused(index: usize, type_name: Option<String>, rule: &'static str, why: impl Into<String>) -> Error {
    Error::Rejected(Rejection {
        code: Code::EventRefused,
        message: format!("event {index} of the import: {}", why.into()),
        index: Some(index),
        type_name,
        rule: Some(rule),
    })
}

async fn append(
    store: &dyn Store,
    import: &Import,
    state: &State,
    catalogue: Vec<RowPut>,
) -> Result<ImportOutcome, Error> {
    let stream = journal::stream_of(import.run);
    for _ in 0..limits::IMPORT_TRIES {
        let mut rows = catalogue.clone();
        if let Some(task) = state.task_id() {
            rows.extend(task_rows(store, state, task).await?);
        }
        if let Some(session) = state.session_id() {
            rows.push(rows::must_be_absent(rows::SESSIONS_ERASED, session.to_string()));
            rows.extend(sessions::record_of(store, state, session).await?);
        }
        rows.push(rows::put(rows::IMPORTED, import.run.to_string(), Guard::Any, &()));
        check_size(import, &rows)?;
        let records =
            StreamAppend { stream: stream.clone(), expected_tail: 0, records: import.records.clone() };
        match store.append(Append { streams: vec![records], rows, ..Append::default() }).await {
            Ok(committed) => {
                let Some(landed) = committed.streams.first() else {
                    return Err(Error::bug("an append of one stream landed in none"));
                };
                let imported = ImportedRun {
                    run: import.run,
                    events: import.events,
                    head: import.head.clone(),
                    position: landed.first_position + (landed.last_sequence - landed.first_sequence),
                    is_new: true,
                };
                return Ok(ImportOutcome {
                    imported,
                    ended: state.is_ended(),
                    deadline: next_deadline(state),
                });
            }
            // Another request imported the run at the same time.
            Err(AppendError::TailMoved { .. }) => {
                if let Some(tail) = store.tail(&stream).await? {
                    return check_existing(import, &tail);
                }
            }
            // Another request wrote the task or the session at the same time.
            Err(AppendError::GuardFailed { space, .. })
                if space == rows::TASKS || space == rows::SESSIONS => {}
            Err(AppendError::GuardFailed { space, key, .. }) => return Err(guard_error(&space, &key)),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::too_many_at_once(&format!("the task or session of {}", import.run)))
}

/// The rows of the task: its record, if it has none, and the active run, if this run has not ended.
async fn task_rows(store: &dyn Store, state: &State, task: TaskId) -> Result<Vec<RowPut>, Error> {
    let mut found = vec![rows::must_be_absent(rows::TASKS_ERASED, task.to_string())];
    let key = rows::tenant_key(task);
    if store.row(rows::TASKS, &key).await?.is_none() {
        let summary = state.summary();
        let row = TaskRow {
            id: task,
            title: summary.title,
            created_at: time::format_ms(summary.created_ms),
            budget_micros_usd: state.queued().and_then(|queued| queued.task_budget_micros_usd),
            budget_tokens: state.queued().and_then(|queued| queued.task_budget_tokens),
        };
        found.push(rows::put(rows::TASKS, key, Guard::Absent, &row));
    }
    if !state.is_ended() {
        let run = state.run_id().to_string();
        found.push(rows::put(rows::TASK_ACTIVE, task.to_string(), Guard::Absent, &run));
    }
    Ok(found)
}

fn id_taken(kind: PromptKind, id: &str) -> Error {
    let message = format!("the {} id {id:?} is already in use by another run", kind.as_str());
    Error::rejected(Code::IdTaken, message)
}

fn guard_error(space: &str, key: &str) -> Error {
    let id = key.rsplit('/').next().unwrap_or(key);
    match space {
        rows::APPROVALS => id_taken(PromptKind::Approval, id),
        rows::TASKS_ERASED => task_erased(id),
        rows::SESSIONS_ERASED => session_erased(id),
        rows::TASK_ACTIVE => Error::rejected(
            Code::TaskBusy,
            format!("task {id} already has an active run; wait for it to end or cancel it"),
        ),
        _ => Error::bug(format!("unexpected guard of the row {space}/{key}")),
    }
}

impl AdminHandle {
    /// Imports a run with its ids and bytes, or writes nothing.
    #[boxed]
    pub async fn import(&self, import: Import) -> Result<ImportedRun, Error> {
        let run = import.run;
        self.write().context.fresh.forget_latest_runs();
        match judge_and_append(self.ground().store(), import).await {
            Ok(ImportOutcome { imported, ended, deadline }) => {
                if imported.is_new {
                    if ended {
                        self.read().publisher.mark_ended(&journal::stream_of(run), imported.events);
                    }
                    self.write().context.timers.set(run, deadline, &self.ground().world);
                }
                Ok(imported)
            }
            Err(error) => {
                // The append may have happened. If it has not, the check finds nothing.
                if matches!(error, Error::Failed(_)) {
                    self.write().context.timers.look_again(run, &self.ground().world);
                }
                Err(error)
            }
        }
    }
}
