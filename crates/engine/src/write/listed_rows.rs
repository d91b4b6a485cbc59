//! Finds the list rows of a run whose events are damaged. This reads whole spaces, so it is used only for such runs.
//! It must not know the reason.

use recount_event::{EventId, ForeignId, RunId, SessionId, TaskId};
use recount_log::{Row, RowPut, Store};
use recount_run::PromptKind;
use serde::Deserialize;

use crate::catalogue::prompt_rows::prompt_rows;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::{ArtifactRow, Error, limits};

/// The task and session of a run, and the key under which its prior run finds it.
#[derive(Debug, Default)]
pub(super) struct Relations {
    pub(super) task: Option<TaskId>,
    pub(super) session: Option<SessionId>,
    pub(super) successor_key: Option<String>,
}

/// A list row of a run.
pub(super) enum ListedRow {
    /// A row that only has to be deleted.
    Plain(RowPut),
    Artifact(Box<ArtifactRow>),
}

/// The common field of prompt and change rows.
#[derive(Deserialize)]
struct RunIdField {
    run_id: RunId,
}

#[derive(Deserialize)]
struct PromptIds {
    id: ForeignId,
    event_id: EventId,
}

/// Reads the relations from the indexes of runs.
pub(super) async fn relations(store: &dyn Store, run: RunId) -> Result<Relations, Error> {
    let mut found = Relations::default();
    let name = format!("/{run}");
    for space in [rows::TASK_RUNS, rows::SESSION_RUNS, rows::RUN_SUCCESSORS] {
        let mut pages = RowPages::new(store, space, limits::PAGE_EVENTS);
        while let Some(page) = pages.next().await? {
            for row in page.rows {
                let Some(before) = row.key.strip_suffix(&name) else { continue };
                let owner = before.rsplit('/').next().unwrap_or_default();
                match space {
                    rows::TASK_RUNS => found.task = owner.parse().ok(),
                    rows::SESSION_RUNS => found.session = owner.parse().ok(),
                    _ => found.successor_key = Some(row.key.to_string()),
                }
            }
        }
    }
    Ok(found)
}

/// The list rows of a run, at most `max`, without its own row and its [`relations`].
pub(super) async fn listed(store: &dyn Store, run: RunId, max: usize) -> Result<Vec<ListedRow>, Error> {
    let mut found = Vec::new();
    for kind in PromptKind::ALL {
        let space = rows::prompts(kind).each;
        collect_rows(store, space, run, max, &mut found, |row| {
            let plain = rows::delete(space, row.key.clone());
            let prompt = serde_json::from_slice(&row.value).ok();
            let listed = prompt.map(|PromptIds { id, event_id }| prompt_rows(kind, &id, event_id));
            listed.into_iter().flatten().chain([plain]).map(ListedRow::Plain).collect()
        })
        .await?;
    }
    collect_rows(store, rows::ARTIFACT_CHANGES, run, max, &mut found, |row| {
        vec![ListedRow::Plain(rows::delete(rows::ARTIFACT_CHANGES, row.key.clone()))]
    })
    .await?;
    collect_rows(store, rows::ARTIFACTS, run, max, &mut found, |row| {
        match serde_json::from_slice(&row.value) {
            Ok(artifact) => vec![ListedRow::Artifact(artifact)],
            Err(_) => vec![ListedRow::Plain(rows::delete(rows::ARTIFACTS, row.key.clone()))],
        }
    })
    .await?;
    Ok(found)
}

/// Adds the rows for each undamaged row of a run in a space, up to `max`.
async fn collect_rows(
    store: &dyn Store,
    space: &str,
    run: RunId,
    max: usize,
    found: &mut Vec<ListedRow>,
    listed: impl Fn(&Row) -> Vec<ListedRow>,
) -> Result<(), Error> {
    let mut pages = RowPages::new(store, space, limits::PAGE_EVENTS);
    while let Some(page) = pages.next().await? {
        for row in page.rows {
            if found.len() >= max {
                return Ok(());
            }
            if serde_json::from_slice(&row.value).is_ok_and(|RunIdField { run_id }| run_id == run) {
                found.extend(listed(&row));
            }
        }
        // Spaces may be large.
        tokio::task::yield_now().await;
    }
    Ok(())
}
