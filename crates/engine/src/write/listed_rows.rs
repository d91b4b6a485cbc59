//! What the lists hold of a run, looked for in the lists: where its events are damaged, nothing else tells it. Whole spaces
//! are read for that, so only such a run is looked for here. It must not know why.

use recount_event::{EventId, ForeignId, RunId, SessionId, TaskId};
use recount_log::{Row, RowPut, Store};
use recount_run::PromptKind;
use serde::Deserialize;

use crate::catalogue::prompt_rows::prompt_rows;
use crate::ground::row_pages::RowPages;
use crate::ground::rows;
use crate::{ArtifactRow, Error, limits};

/// Of which task and session a run is, and under which key the run before it finds it.
#[derive(Debug, Default)]
pub(super) struct Relations {
    pub(super) task: Option<TaskId>,
    pub(super) session: Option<SessionId>,
    pub(super) successor_key: Option<String>,
}

/// Something of a run in the lists.
pub(super) enum ListedRow {
    /// A row that only has to go.
    Plain(RowPut),
    Artifact(Box<ArtifactRow>),
}

/// What rows of prompts and changes have in common.
#[derive(Deserialize)]
struct OfRun {
    run_id: RunId,
}

#[derive(Deserialize)]
struct Asked {
    id: ForeignId,
    event_id: EventId,
}

/// As the indexes of runs tell it.
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

/// What is listed of a run, at most `max`; its own row and what [`relations`] tells are not among it.
pub(super) async fn listed(store: &dyn Store, run: RunId, max: usize) -> Result<Vec<ListedRow>, Error> {
    let mut found = Vec::new();
    for kind in PromptKind::ALL {
        let space = rows::prompts(kind).each;
        gather(store, space, run, max, &mut found, |row| {
            let plain = rows::delete(space, row.key.clone());
            let asked = serde_json::from_slice(&row.value).ok();
            let listed = asked.map(|Asked { id, event_id }| prompt_rows(kind, &id, event_id));
            listed.into_iter().flatten().chain([plain]).map(ListedRow::Plain).collect()
        })
        .await?;
    }
    gather(store, rows::ARTIFACT_CHANGES, run, max, &mut found, |row| {
        vec![ListedRow::Plain(rows::delete(rows::ARTIFACT_CHANGES, row.key.clone()))]
    })
    .await?;
    gather(store, rows::ARTIFACTS, run, max, &mut found, |row| match serde_json::from_slice(&row.value) {
        Ok(artifact) => vec![ListedRow::Artifact(artifact)],
        Err(_) => vec![ListedRow::Plain(rows::delete(rows::ARTIFACTS, row.key.clone()))],
    })
    .await?;
    Ok(found)
}

/// Adds what each whole row of a space stands for that is of a run, until there is enough.
async fn gather(
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
            if serde_json::from_slice(&row.value).is_ok_and(|OfRun { run_id }| run_id == run) {
                found.extend(listed(&row));
            }
        }
        // Spaces may be long, and others have work to do.
        tokio::task::yield_now().await;
    }
    Ok(())
}
