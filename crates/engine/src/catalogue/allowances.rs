//! Allowances as rows: approvals that also apply to later calls in a run, a session or a workspace. A call finds its
//! allowance by a keyed digest of everything that was approved. It changes nothing; see `write::allowances`.

use recount_event::digest::digest_of;
use recount_event::family::approval::AllowanceScope;
use recount_event::{ForeignId, RunId, SessionId, TaskId};
use recount_log::{Guard, RowPut, Store};
use recount_run::State;
use serde::{Deserialize, Serialize};

use crate::boxed;
use crate::catalogue::handle::CatalogueHandle;
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::{Error, ListPage, ListQuery, Narrowing, RunConfig};

/// An approval that also applies to later calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllowanceRow {
    pub id: ForeignId,
    pub scope: AllowanceScope,
    /// The run in which it was given.
    pub run_id: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<TaskId>,
    /// The session of that run, for any scope.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// The folder, for the scope `workspace`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    pub approval_id: ForeignId,
    /// The name of the tool.
    pub kind: String,
    pub summary: String,
    /// The preview that the approver saw, with secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    pub given_by: String,
    pub given_at: String,
    /// Its key in [`rows::ALLOWANCES_HELD`].
    pub held: String,
}

/// Selects allowances. The default selects all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowanceFilter {
    pub scope: Option<AllowanceScope>,
    /// Given in this run.
    pub run: Option<RunId>,
    /// Given in a run of this session.
    pub session: Option<SessionId>,
}

impl AllowanceFilter {
    fn takes(&self, row: &AllowanceRow) -> bool {
        self.scope.is_none_or(|scope| scope == row.scope)
            && self.run.is_none_or(|run| run == row.run_id)
            && self.session.is_none_or(|session| Some(session) == row.session_id)
    }
}

impl CatalogueHandle {
    /// The allowance that approves a call of this run, the narrowest scope first.
    #[boxed]
    pub async fn allowed(&self, state: &State, digest: &str) -> Result<Option<AllowanceRow>, Error> {
        for scope in AllowanceScope::ALL {
            let Some(owner) = owner(state, *scope) else { continue };
            let key = held_key(*scope, &owner, digest);
            let Some((id, _)) = held(self.ground().store(), &key).await? else { continue };
            if let Some(row) = named(self.ground().store(), &id).await?.filter(|row| row.held == key) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    #[boxed]
    pub async fn allowance(&self, id: &ForeignId) -> Result<Option<AllowanceRow>, Error> {
        named(self.ground().store(), id).await
    }

    /// Allowances, newest first.
    #[boxed]
    pub async fn list_allowances(
        &self,
        query: &ListQuery,
        filter: &AllowanceFilter,
        within: &Narrowing,
    ) -> Result<ListPage<AllowanceRow>, Error> {
        let admits = |row: &AllowanceRow| within.admits(row.task_id, row.session_id);
        let is_filtered = *filter != AllowanceFilter::default() || !within.is_none();
        let matches = |row: &AllowanceRow| admits(row) && filter.takes(row);
        let prefix = rows::tenant_key("");
        let listed = self.list_where(rows::ALLOWANCES, &prefix, query, is_filtered, matches).await;
        listed.map(ListPage::without_keys)
    }
}

/// The owner of an allowance of this scope in this run; part of its key. `None` if the run has no such owner.
pub(crate) fn owner(state: &State, scope: AllowanceScope) -> Option<[String; 2]> {
    let queued = state.queued()?;
    // The same call in another folder is another call.
    let place = || queued.workspace_path.clone().unwrap_or_default();
    match scope {
        AllowanceScope::Run => Some([state.run_id().to_string(), place()]),
        AllowanceScope::Session => Some([state.session_id()?.to_string(), place()]),
        AllowanceScope::Workspace => {
            let source = RunConfig::from_json(queued.config.as_ref()).ok()?.workspace_source?;
            Some([source, String::new()])
        }
    }
}

pub(crate) fn held_key(scope: AllowanceScope, owner: &[String; 2], digest: &str) -> String {
    rows::tenant_key(format!("{scope}/{}", digest_of(&[&owner[0], &owner[1], digest])))
}

pub(crate) fn run_key(run: RunId, id: &ForeignId) -> String {
    format!("{run}/{id}")
}

/// Deletes an allowance. `held` is the version of the row that finds it; without it, that row belongs to another
/// allowance and stays.
pub(crate) fn deletions(row: &AllowanceRow, held: Option<u64>) -> Vec<RowPut> {
    let mut rows = vec![
        rows::delete(rows::ALLOWANCES, rows::tenant_key(&row.id)),
        rows::delete(rows::RUN_ALLOWANCES, run_key(row.run_id, &row.id)),
    ];
    if let Some(version) = held {
        let delete = rows::delete(rows::ALLOWANCES_HELD, row.held.as_str());
        rows.push(RowPut { guard: Guard::Version(version), ..delete });
    }
    rows
}

/// The version of the row that finds this allowance. `None` if that row finds another one.
pub(crate) async fn held_version(store: &dyn Store, row: &AllowanceRow) -> Result<Option<u64>, Error> {
    Ok(held(store, &row.held).await?.filter(|(id, _)| *id == row.id).map(|(_, version)| version))
}

pub(crate) async fn named(store: &dyn Store, id: &str) -> Result<Option<AllowanceRow>, Error> {
    let Some(row) = store.row(rows::ALLOWANCES, &rows::tenant_key(id)).await? else { return Ok(None) };
    read_row(rows::ALLOWANCES, &row.key, &row.value).map(Some)
}

/// The allowance under a key, and the version of the row that names it.
pub(crate) async fn held(store: &dyn Store, key: &str) -> Result<Option<(ForeignId, u64)>, Error> {
    let Some(row) = store.row(rows::ALLOWANCES_HELD, key).await? else { return Ok(None) };
    Ok(Some((read_row(rows::ALLOWANCES_HELD, &row.key, &row.value)?, row.version)))
}
