//! Encrypted originals of masked data, for the worker that executes them.
//!
//! A call runs with the unmasked input of the model, while the log has the masked one. The original is stored before
//! the call is proposed, and the append that settles the call deletes it
//! ([`crate::catalogue::fold`]). The key is outside of the store, so a copy of the database alone
//! reveals nothing; a copy of the data folder has both. Without the original a call is refused; it never runs with a
//! masked input.

use recount_event::{Code, ForeignId, RunId};
use recount_log::{Append, RowPut};

use crate::boxed;
use crate::ground::rows;
use crate::write::context::WriteContext;
use crate::write::handle::WriteHandle;
use crate::{Error, limits};

impl WriteHandle {
    /// Stores the original of a call or a patch. It is durable when this returns; call it before the event is
    /// reported.
    #[boxed]
    pub async fn seal(&self, run: RunId, id: &ForeignId, original: &[u8]) -> Result<(), Error> {
        if original.len() > limits::SEALED_BYTES_MAX {
            let (found, most) = (original.len(), limits::SEALED_BYTES_MAX);
            let message =
                format!("the original of {id} has {found} bytes; the limit is {most} (SEALED_BYTES_MAX)");
            return Err(Error::rejected(Code::LimitReached, message));
        }
        let row = self.sealed_row(&rows::sealed_key(run, id), original)?;
        self.ground().store().append(Append { rows: vec![row], ..Append::default() }).await?;
        Ok(())
    }

    /// The original of a call or a patch; `None` if it was not sealed or is settled.
    #[boxed]
    pub async fn unseal(&self, run: RunId, id: &ForeignId) -> Result<Option<Vec<u8>>, Error> {
        self.unseal_at(&rows::sealed_key(run, id)).await
    }

    /// The row of an encrypted original. It can be read only with the same key.
    pub(crate) fn sealed_row(&self, key: &str, original: &[u8]) -> Result<RowPut, Error> {
        self.context.seal.row(&self.ground().world, key, original)
    }

    pub(crate) async fn unseal_at(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.context.unseal_at(key).await
    }

    /// Deletes an original. That of a call is deleted automatically when the call is settled.
    #[boxed]
    pub async fn forget_sealed(&self, run: RunId, id: &ForeignId) -> Result<(), Error> {
        let rows = vec![rows::delete(rows::SEALED, rows::sealed_key(run, id))];
        self.ground().store().append(Append { rows, ..Append::default() }).await?;
        Ok(())
    }
}

impl WriteContext {
    pub(crate) async fn unseal_at(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let row = self.ground.store.row(rows::SEALED, key).await?;
        row.map(|row| self.seal.original(&self.ground.world, &row)).transpose()
    }
}
