//! Allowances: approvals that also apply to later calls in a run, a session or a workspace.
//!
//! The append that resolves an approval creates its allowance. It is deleted when it is revoked, or with its run,
//! whose texts it contains. It is found by a keyed digest of everything that was approved, so another call, or the
//! same call under other conditions, never matches. It must not depend on tools or policies; see
//! [`crate::CatalogueHandle::allowed`] and `docs/decisions/0043`.

use recount_event::family::approval::{AllowanceScope, Requested};
use recount_event::{Code, Event, ForeignId, Payload, RunId, time};
use recount_log::{Append, AppendError, Guard, RowPut, RowRange, Store};
use recount_run::State;

use crate::boxed;
use crate::catalogue::allowances::{deletions, held, held_key, held_version, named, owner, run_key};
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::ground::rows::deletion;
use crate::write::context::WriteContext;
use crate::write::handle::WriteHandle;
use crate::write::writer::Writer;
use crate::{AllowanceRow, Error, limits};

impl WriteContext {
    /// The rows of the allowances that these events create, for the same append. `before` is the run without the
    /// events; `pending` are the rows of the append so far.
    pub(crate) async fn add_created_allowances(
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
            let request = before.approval(&resolved.approval_id);
            let (request, digest) = request
                .and_then(|request| Some((request, request.allowance_digest.as_deref()?)))
                .ok_or_else(|| {
                    Error::bug(format!("{id} does not come from a request that can be remembered"))
                })?;
            let Some(owner) = owner(before, scope) else {
                let message = format!(
                    "{} has no folder that later runs share: send the scope run or session",
                    before.run_id()
                );
                return Err(Error::rejected(Code::AllowanceRefused, message));
            };
            let key = held_key(scope, &owner, digest);
            let row = AllowanceRow {
                workspace: (scope == AllowanceScope::Workspace).then(|| owner[0].clone()),
                given_by: resolved.by.clone(),
                given_at: time::format_ms(event.occurred_ms),
                ..row_of(before, id, scope, request, key)
            };
            self.allow(row, pending).await?;
        }
        Ok(())
    }

    async fn allow(&self, row: AllowanceRow, pending: &mut Vec<RowPut>) -> Result<(), Error> {
        let is_held = |put: &RowPut| &*put.space == rows::ALLOWANCES_HELD && *put.key == *row.held;
        let mut guard = Guard::Absent;
        if let Some(at) = pending.iter().position(is_held) {
            // One append resolves two requests for the same call: the later one replaces the earlier one.
            let put = pending.remove(at);
            if let Some(value) = &put.value {
                let other: ForeignId = read_row(rows::ALLOWANCES_HELD, &put.key, value)?;
                let (named, of_run) = (rows::tenant_key(&other), run_key(row.run_id, &other));
                pending.retain(|put| *put.key != *named && *put.key != *of_run);
            }
            guard = put.guard;
        } else if let Some((other, version)) = held(self.ground.store(), &row.held).await? {
            guard = Guard::Version(version);
            if let Some(other) = named(self.ground.store(), &other).await? {
                pending.extend(deletions(&other, None));
            }
        }
        pending.push(rows::put(rows::ALLOWANCES_HELD, row.held.as_str(), guard, &row.id));
        let key = run_key(row.run_id, &row.id);
        pending.push(rows::put(rows::RUN_ALLOWANCES, key, Guard::Any, &row.id));
        pending.push(rows::put(rows::ALLOWANCES, rows::tenant_key(&row.id), Guard::Any, &row));
        Ok(())
    }
}

fn row_of(
    state: &State,
    id: &ForeignId,
    scope: AllowanceScope,
    request: &Requested,
    held: String,
) -> AllowanceRow {
    AllowanceRow {
        id: id.clone(),
        scope,
        run_id: state.run_id(),
        task_id: state.task_id(),
        session_id: state.session_id(),
        workspace: None,
        approval_id: request.approval_id.clone(),
        kind: request.kind.clone(),
        summary: request.summary.clone(),
        preview: request.preview.clone(),
        preview_kind: request.preview_kind.clone(),
        preview_size_bytes: request.preview_size_bytes,
        given_by: String::new(),
        given_at: String::new(),
        held,
    }
}

impl WriteHandle {
    /// A keyed digest that identifies a call: everything that is approved. The key is outside of the store, so the
    /// digest does not reveal masked data.
    pub fn allowance_digest(&self, parts: &[&str]) -> String {
        self.context.seal.digest(&self.ground().world, parts)
    }

    /// Revokes an allowance: later calls need approval again. Returns the allowance.
    #[boxed]
    pub async fn revoke_allowance(&self, id: &ForeignId) -> Result<AllowanceRow, Error> {
        let missing = || Error::rejected(Code::AllowanceNotFound, format!("allowance {id} not found"));
        for _ in 0..limits::REVOKE_TRIES {
            let row = self.catalogue().allowance(id).await?.ok_or_else(missing)?;
            let rows = deletions(&row, held_version(self.ground().store(), &row).await?);
            match self.ground().store().append(deletion(rows)).await {
                Ok(_) => return Ok(row),
                // The same call was approved again at this moment.
                Err(AppendError::GuardFailed { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::too_many_at_once("the allowance"))
    }
}

impl Writer {
    /// Deletes the allowances given in a run that is being erased, regardless of scope, because they contain its
    /// texts.
    pub(crate) async fn forget_allowances(&self, store: &dyn Store, run: RunId) -> Result<(), Error> {
        let mut moved = 0;
        loop {
            let range = RowRange::first(rows::RUN_ALLOWANCES, format!("{run}/"), limits::ERASE_PAGE);
            let page = store.rows(range).await?;
            if page.is_empty() {
                return Ok(());
            }
            let mut append = Append::default();
            for index in page {
                let id: ForeignId = read_row(rows::RUN_ALLOWANCES, &index.key, &index.value)?;
                match named(store, &id).await? {
                    Some(row) => append.rows.extend(deletions(&row, held_version(store, &row).await?)),
                    None => append.rows.push(rows::delete(rows::RUN_ALLOWANCES, index.key)),
                }
            }
            match store.append(deletion(append.rows)).await {
                Ok(_) => moved = 0,
                // Another run got one of these allowances at this moment.
                Err(AppendError::GuardFailed { .. }) if moved < limits::REVOKE_TRIES => moved += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }
}
