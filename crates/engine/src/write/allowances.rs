//! Allowances: a yes that holds for later calls, too, in a run, a session or a workspace.
//!
//! One is made by the append that resolves its approval and goes when it is taken back, or with the run that it was
//! given in, whose words it holds. It is found by a keyed digest of everything that the person said yes to, so
//! another call, or the same call under other conditions, never matches. This knows neither tools nor policies: who
//! judges a call asks [`WriteHandle::allowed`]. See `docs/decisions/0043`.

use recount_event::family::approval::{AllowanceScope, Requested};
use recount_event::{Code, Event, ForeignId, Payload, RunId, time};
use recount_log::{Append, AppendError, Guard, RowPut, RowRange, Store};
use recount_run::State;

use crate::boxed;
use crate::catalogue::allowances::{found_at, gone, held, held_key, named, owner, run_key};
use crate::catalogue::table::read_row;
use crate::ground::rows;
use crate::ground::rows::taking_away;
use crate::write::handle::WriteHandle;
use crate::write::room::WriteRoom;
use crate::write::run_writer::Writer;
use crate::{AllowanceRow, Error, limits};

impl WriteRoom {
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
                    || Error::bug(format!("{id} does not come from a request that can be remembered")),
                )?;
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
                let other: ForeignId = read_row(rows::ALLOWANCES_HELD, &put.key, value)?;
                let (named, of_run) = (rows::tenant_key(&other), run_key(row.run_id, &other));
                pending.retain(|put| *put.key != *named && *put.key != *of_run);
            }
            guard = put.guard;
        } else if let Some((other, version)) = held(self.ground.store(), &row.held).await? {
            guard = Guard::Version(version);
            if let Some(other) = named(self.ground.store(), &other).await? {
                pending.extend(gone(&other, None));
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
    asked: &Requested,
    held: String,
) -> AllowanceRow {
    AllowanceRow {
        id: id.clone(),
        scope,
        run_id: state.run_id(),
        task_id: state.task_id(),
        session_id: state.session_id(),
        workspace: None,
        approval_id: asked.approval_id.clone(),
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

impl WriteHandle {
    /// By what a call is known again: everything that a person says yes to. Keyed with a key that lies outside of the
    /// store, so that nobody learns from it what was masked.
    pub fn allowance_digest(&self, parts: &[&str]) -> String {
        self.room.seal.digest(&self.ground().world, parts)
    }

    /// Takes an allowance back: from here on calls like it are asked about again. Answers what it was.
    #[boxed]
    pub async fn take_back(&self, id: &ForeignId) -> Result<AllowanceRow, Error> {
        let missing = || Error::rejected(Code::AllowanceNotFound, format!("allowance {id} not found"));
        for _ in 0..limits::TAKE_BACK_TRIES {
            let row = self.catalogue().allowance(id).await?.ok_or_else(missing)?;
            let rows = gone(&row, found_at(self.ground().store(), &row).await?);
            match self.ground().store().append(taking_away(rows)).await {
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
                let id: ForeignId = read_row(rows::RUN_ALLOWANCES, &index.key, &index.value)?;
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
