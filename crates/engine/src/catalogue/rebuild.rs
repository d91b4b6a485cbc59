//! Rebuilds the catalogue from the log, and compares the two. It must not know who uses the store. Start with
//! [`restore`] and [`check`].

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use bytes::Bytes;
use recount_log::{
    Append, AppendError, FaultKind, Guard, ReadResult as _, Row, RowPut, RowRange, Store, StreamKey,
};
use recount_run::State;

use crate::boxed;
use crate::catalogue::fold::Fold;
use crate::catalogue::sessions;
use crate::catalogue::table::read_row;
use crate::ground::row_pages::RowPages;
use crate::ground::{journal, rows};
use crate::{Error, RunRow, limits};

/// The version of the folds. It increases when a fold is added or changed; the catalogue of an older store is then
/// rebuilt.
pub(crate) const VERSION: u64 = 7;

/// Rows by space and key.
type FoldedRows = BTreeMap<(String, String), Bytes>;

/// The catalogue as computed from the log: `(space, key) → value`, ordered.
pub(crate) async fn fold_again(store: &dyn Store) -> Result<FoldedRows, Error> {
    let mut folded = FoldedRows::new();
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

/// The catalogue rows of one run, computed from its events, and its state.
pub(crate) async fn fold_run(
    store: &dyn Store,
    stream: &StreamKey,
) -> Result<Option<(Vec<RowPut>, State)>, Error> {
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

/// The version of the folds in the store. A store without this record has version 1.
async fn version_of(store: &dyn Store) -> Result<u64, Error> {
    match store.row(rows::FOLDS, rows::FOLDS_VERSION).await? {
        Some(row) => read_row(rows::FOLDS, &row.key, &row.value),
        None => Ok(1),
    }
}

/// Rebuilds the catalogue if it is missing although there are runs, or if another release wrote it with other folds.
/// Rows are written with the events that they fold, so the catalogue is never only out of date. The version is
/// written last: after a crash before that, the catalogue is rebuilt again.
pub(crate) async fn restore(store: &dyn Store) -> Result<(), Error> {
    let version = version_of(store).await?;
    let is_new = store.streams(None, 1).await?.is_empty();
    let first = RowPages::new(store, rows::RUNS, 1).next().await?.unwrap_or_default();
    if !is_new && first.rows.is_empty() && first.damaged.is_empty() {
        tracing::warn!("the catalogue is missing; rebuilding it from the log");
    } else if version == VERSION {
        return Ok(());
    } else if !is_new {
        tracing::info!(version, "the catalogue was written by another release; rebuilding it from the log");
    }
    let mut new_rows = Vec::new();
    let mut sessions = BTreeSet::new();
    let mut after = None;
    loop {
        let streams = store.streams(after.take(), limits::PAGE_EVENTS).await?;
        let Some(last) = streams.last() else { break };
        after = Some(last.clone());
        for stream in &streams {
            let folded = fold_run(store, stream).await.readable()?;
            // One damaged run does not block the start. Its existing rows stay.
            let report = |error| tracing::error!(%stream, %error, "a run is damaged, so lists may omit it");
            let Some((mut rows, state)) = folded.whole_or(report).flatten() else { continue };
            for put in &mut rows {
                put.guard = Guard::Any;
            }
            new_rows.append(&mut rows);
            // Older stores have runs in sessions without a session record.
            if let Some(session) = state.session_id()
                && sessions.insert(session)
            {
                new_rows.extend(sessions::record_of(store, &state, session).await?);
            }
            if new_rows.len() >= limits::RESTORE_ROWS {
                let rows = std::mem::take(&mut new_rows);
                store.append(Append { rows, ..Append::default() }).await?;
            }
        }
    }
    new_rows.push(rows::put(rows::FOLDS, rows::FOLDS_VERSION, Guard::Any, &VERSION));
    match store.append(Append { rows: new_rows, ..Append::default() }).await {
        Ok(_) => Ok(()),
        // A later start writes the version. Reads work; appends are refused until there is space.
        Err(AppendError::Fault(fault)) if is_new && fault.kind == FaultKind::Full => {
            tracing::warn!(%fault, "the disk is full; the new store accepts no events yet");
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}

/// The differences between catalogue and log, as sentences. Reads everything.
#[boxed]
pub async fn check(store: &dyn Store) -> Result<Vec<String>, Error> {
    let mut expected = fold_again(store).await?;
    // Rows of another release are correct as that release wrote them, until an engine rebuilds them. Newer rows have
    // the current form.
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
                    Some(_) => problems.push(format!("the row {space}/{} does not match the log", row.key)),
                    None => problems
                        .push(format!("the row {space}/{} does not belong to anything in the log", row.key)),
                }
            }
        }
    }
    let missing = expected.keys().filter(|(space, _)| writes_space(version, space));
    problems.extend(missing.map(|(space, key)| format!("the row {space}/{key} is missing")));
    Ok(problems)
}

/// Whether a version of the catalogue has a fold.
fn writes_space(version: u64, space: &str) -> bool {
    version >= 6
        || rows::CATALOGUE_VERSION_1.contains(&space)
        || version >= 2 && rows::CATALOGUE_VERSION_2.contains(&space)
        || version >= 3 && space == rows::OWN_OPEN
        || version >= 5 && space != rows::RUN_SUCCESSORS
}

/// The forms of a row in older versions. Up to version 3 a run row lists only approvals among the prompts; up to 4 it
/// has no model, provider, workspace or budget; up to 5 no budget warning. Version 6 added a fold and changed no row.
/// Up to 6 a run row has no agent, source or usage of earlier runs.
fn as_before(version: u64, space: &str, key: &str, value: &Bytes) -> Result<Vec<Bytes>, Error> {
    if version >= 7 {
        return Ok(Vec::new());
    }
    if space != rows::RUNS {
        return Ok(if version >= 5 { Vec::new() } else { vec![value.clone()] });
    }
    let row: RunRow = read_row(space, key, value)?;
    let sixth = RunRow {
        prior_cost_micros_usd: 0,
        prior_input_tokens: 0,
        prior_output_tokens: 0,
        unpriced_turns: 0,
        agent_name: None,
        agent_version: None,
        source: None,
        ..row
    };
    if version >= 5 {
        return Ok(vec![rows::written(&sixth)]);
    }
    let fourth = RunRow { budget_warned: false, ..sixth };
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
