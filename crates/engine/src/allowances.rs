//! Allowances: a yes that holds for later calls, too, in a run, a session or a workspace.
//!
//! One is made by the append that resolves its approval and goes when it is taken back, or with the run that it was
//! given in, whose words it holds. It is found by a keyed digest of everything that the person said yes to, so
//! another call, or the same call under other conditions, never matches. This knows neither tools nor policies: who
//! judges a call asks [`Engine::allowed`]. See `docs/decisions/0043`.

use recount_event::family::approval::{AllowanceScope, Requested};
use recount_event::{Code, Event, ForeignId, Payload, RunId, time};
use recount_log::{Append, AppendError, Guard, RowPut, RowRange, Store};
use recount_run::State;
use serde::{Deserialize, Serialize};

use crate::engine::read_row;
use crate::erase::taking_away;
use crate::writer::{Tools, Writer};
use crate::{Engine, Error, ListQuery, Listed, Narrowing, Order, limits, rows};

/// See the file's head.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AllowanceRow {
    pub id: String,
    pub scope: AllowanceScope,
    /// The run that it was given in.
    pub run_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// That run's session, whatever the scope is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_id: Option<String>,
    /// The folder that a scope of `workspace` is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    pub approval_id: String,
    /// The tool.
    pub kind: String,
    pub summary: String,
    /// What was shown to who gave it, with secrets masked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_kind: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preview_size_bytes: Option<u64>,
    pub given_by: String,
    pub given_at: String,
    /// Under which key [`rows::ALLOWANCES_HELD`] names it.
    pub held: String,
}

/// Which allowances are wanted. The default takes all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowanceFilter {
    pub scope: Option<AllowanceScope>,
    /// Given in this run.
    pub run: Option<String>,
    /// Given in a run of this session.
    pub session: Option<String>,
}

impl AllowanceFilter {
    fn takes(&self, row: &AllowanceRow) -> bool {
        self.scope.is_none_or(|scope| scope == row.scope)
            && self.run.as_ref().is_none_or(|run| *run == row.run_id)
            && self.session.as_ref().is_none_or(|session| Some(session) == row.session_id.as_ref())
    }
}

/// What an allowance of this scope is bound to beside its digest, in this run: `None` where the run has no such thing.
fn owner(state: &State, scope: AllowanceScope) -> Option<[String; 2]> {
    let queued = state.queued()?;
    // The same words in another folder are another call.
    let place = || queued.workspace_path.clone().unwrap_or_default();
    match scope {
        AllowanceScope::Run => Some([state.run_id().to_string(), place()]),
        AllowanceScope::Session => Some([state.session_id()?.to_string(), place()]),
        AllowanceScope::Workspace => {
            let source = Order::read(queued.config.as_ref()).ok()?.workspace_source?;
            Some([source, String::new()])
        }
    }
}

fn held_key(scope: AllowanceScope, owner: &[String; 2], digest: &str) -> String {
    let mut hasher = blake3::Hasher::new();
    for part in [&owner[0], &owner[1], digest] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    rows::tenant_key(format!("{scope}/{}", hasher.finalize().to_hex()))
}

fn run_key(run: &str, id: &str) -> String {
    format!("{run}/{id}")
}

/// What takes an allowance away. The row that finds it goes only as it is in this version: where there is none, another
/// allowance has its place by now.
fn gone(row: &AllowanceRow, held: Option<u64>) -> Vec<RowPut> {
    let mut rows = vec![
        rows::delete(rows::ALLOWANCES, rows::tenant_key(&row.id)),
        rows::delete(rows::RUN_ALLOWANCES, run_key(&row.run_id, &row.id)),
    ];
    if let Some(version) = held {
        let delete = rows::delete(rows::ALLOWANCES_HELD, row.held.as_str());
        rows.push(RowPut { guard: Guard::Version(version), ..delete });
    }
    rows
}

/// The version of the row that finds an allowance, while it is this one that it finds.
async fn found_at(store: &dyn Store, row: &AllowanceRow) -> Result<Option<u64>, Error> {
    Ok(held(store, &row.held).await?.filter(|(id, _)| *id == row.id).map(|(_, version)| version))
}

async fn named(store: &dyn Store, id: &str) -> Result<Option<AllowanceRow>, Error> {
    let Some(row) = store.row(rows::ALLOWANCES, &rows::tenant_key(id)).await? else { return Ok(None) };
    read_row(rows::ALLOWANCES, &row.key, &row.value).map(Some)
}

/// The allowance that stands under a key, and the version of the row that says so.
async fn held(store: &dyn Store, key: &str) -> Result<Option<(String, u64)>, Error> {
    let Some(row) = store.row(rows::ALLOWANCES_HELD, key).await? else { return Ok(None) };
    Ok(Some((read_row(rows::ALLOWANCES_HELD, &row.key, &row.value)?, row.version)))
}

impl Tools {
    /// The rows of the allowances that these events make, for the append that holds them. `before` is the run without
    /// them; `pending` are the rows that the same append already has.
    pub(crate) async fn allowances_made(
        &self,
        before: &State,
        events: &[Event],
        pending: &mut Vec<RowPut>,
    ) -> Result<(), Error> {
        for event in events {
            let Payload::ApprovalResolved(resolved) = event.payload() else { continue };
            let Some(id) = &resolved.allowance_id else { continue };
            let scope = AllowanceScope::ALL
                .iter()
                .copied()
                .find(|scope| resolved.scope.as_deref() == Some(scope.as_str()))
                .ok_or_else(|| Error::bug(format!("{id} has no scope")))?;
            let asked = before.approval(&resolved.approval_id);
            let (asked, digest) =
                asked.and_then(|asked| Some((asked, asked.allowance_digest.as_deref()?))).ok_or_else(
                    || Error::bug(format!("{id} is made by no request that can be remembered")),
                )?;
            let Some(owner) = owner(before, scope) else {
                let message = format!(
                    "{} works in no folder that later runs share: send run or session",
                    before.run_id()
                );
                return Err(Error::rejected(Code::AllowanceRefused, message));
            };
            let key = held_key(scope, &owner, digest);
            let row = AllowanceRow {
                workspace: (scope == AllowanceScope::Workspace).then(|| owner[0].clone()),
                given_by: resolved.by.clone(),
                given_at: time::format_ms(event.occurred_ms),
                ..row_of(before, id, scope, asked, key)
            };
            self.allow(row, pending).await?;
        }
        Ok(())
    }

    async fn allow(&self, row: AllowanceRow, pending: &mut Vec<RowPut>) -> Result<(), Error> {
        let is_held = |put: &RowPut| &*put.space == rows::ALLOWANCES_HELD && *put.key == *row.held;
        let mut guard = Guard::Absent;
        if let Some(at) = pending.iter().position(is_held) {
            // Two requests for the same call were answered in one append: the later one stands for both.
            let put = pending.remove(at);
            if let Some(value) = &put.value {
                let other: String = read_row(rows::ALLOWANCES_HELD, &put.key, value)?;
                let (named, of_run) = (rows::tenant_key(&other), run_key(&row.run_id, &other));
                pending.retain(|put| *put.key != *named && *put.key != *of_run);
            }
            guard = put.guard;
        } else if let Some((other, version)) = held(&*self.store, &row.held).await? {
            guard = Guard::Version(version);
            if let Some(other) = named(&*self.store, &other).await? {
                pending.extend(gone(&other, None));
            }
        }
        pending.push(rows::put(rows::ALLOWANCES_HELD, row.held.as_str(), guard, &row.id));
        let key = run_key(&row.run_id, &row.id);
        pending.push(rows::put(rows::RUN_ALLOWANCES, key, Guard::Any, &row.id));
        pending.push(rows::put(rows::ALLOWANCES, rows::tenant_key(&row.id), Guard::Any, &row));
        Ok(())
    }
}

fn row_of(
    state: &State,
    id: &ForeignId,
    scope: AllowanceScope,
    asked: &Requested,
    held: String,
) -> AllowanceRow {
    AllowanceRow {
        id: id.to_string(),
        scope,
        run_id: state.run_id().to_string(),
        task_id: state.task_id().map(|task| task.to_string()),
        session_id: state.session_id().map(|session| session.to_string()),
        workspace: None,
        approval_id: asked.approval_id.to_string(),
        kind: asked.kind.clone(),
        summary: asked.summary.clone(),
        preview: asked.preview.clone(),
        preview_kind: asked.preview_kind.clone(),
        preview_size_bytes: asked.preview_size_bytes,
        given_by: String::new(),
        given_at: String::new(),
        held,
    }
}

impl Engine {
    /// By what a call is known again: everything that a person says yes to. Keyed with a key that lies outside of the
    /// store, so that nobody learns from it what was masked.
    pub fn allowance_digest(&self, parts: &[&str]) -> String {
        self.tools.seal.digest(&self.tools.world, parts)
    }

    /// The allowance by which this run need not ask, the narrowest first.
    pub async fn allowed(&self, state: &State, digest: &str) -> Result<Option<AllowanceRow>, Error> {
        for scope in AllowanceScope::ALL {
            let Some(owner) = owner(state, *scope) else { continue };
            let key = held_key(*scope, &owner, digest);
            let Some((id, _)) = held(self.store(), &key).await? else { continue };
            if let Some(row) = named(self.store(), &id).await?.filter(|row| row.held == key) {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    pub async fn allowance(&self, id: &ForeignId) -> Result<Option<AllowanceRow>, Error> {
        named(self.store(), id).await
    }

    /// What is remembered, the newest request first.
    pub async fn list_allowances(
        &self,
        query: &ListQuery,
        filter: &AllowanceFilter,
        within: &Narrowing,
    ) -> Result<Listed<AllowanceRow>, Error> {
        let admits = |row: &AllowanceRow| {
            let task = row.task_id.as_ref().and_then(|task| task.parse().ok());
            let session = row.session_id.as_ref().and_then(|session| session.parse().ok());
            within.is_none() || within.admits(task, session)
        };
        let is_filtered = *filter != AllowanceFilter::default() || !within.is_none();
        let wants = |row: &AllowanceRow| admits(row) && filter.takes(row);
        let prefix = rows::tenant_key("");
        let listed = self.list_where(rows::ALLOWANCES, &prefix, query, is_filtered, wants).await;
        listed.map(Listed::from)
    }

    /// Takes an allowance back: from here on calls like it are asked about again. Answers what it was.
    pub async fn take_back(&self, id: &ForeignId) -> Result<AllowanceRow, Error> {
        let missing = || Error::rejected(Code::AllowanceNotFound, format!("there is no allowance {id}"));
        for _ in 0..limits::TAKE_BACK_TRIES {
            let row = self.allowance(id).await?.ok_or_else(missing)?;
            let rows = gone(&row, found_at(self.store(), &row).await?);
            match self.store().append(taking_away(rows)).await {
                Ok(_) => return Ok(row),
                // The same call was allowed once more at this moment.
                Err(AppendError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::too_many_at_once("the allowance"))
    }
}

impl Writer {
    /// Takes away what was given in a run that is being erased, whatever its scope: it holds words of the run.
    pub(crate) async fn forget_allowances(&self, store: &dyn Store, run: RunId) -> Result<(), Error> {
        let mut moved = 0;
        loop {
            let range = RowRange {
                space: rows::RUN_ALLOWANCES.into(),
                prefix: format!("{run}/").into(),
                after: None,
                backwards: false,
                limit: limits::ERASE_PAGE,
            };
            let page = store.rows(range).await?;
            if page.is_empty() {
                return Ok(());
            }
            let mut append = Append::default();
            for index in page {
                let id: String = read_row(rows::RUN_ALLOWANCES, &index.key, &index.value)?;
                match named(store, &id).await? {
                    Some(row) => append.rows.extend(gone(&row, found_at(store, &row).await?)),
                    None => append.rows.push(rows::delete(rows::RUN_ALLOWANCES, index.key)),
                }
            }
            match store.append(taking_away(append.rows)).await {
                Ok(_) => moved = 0,
                // Another run was given one of them at this moment.
                Err(AppendError::GuardFailed { .. }) if moved < limits::TAKE_BACK_TRIES => moved += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
