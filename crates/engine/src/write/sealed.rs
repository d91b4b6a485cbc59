//! What was masked before it was appended, as it came: encrypted, and only for the worker that carries it out.
//!
//! A call runs with the input that the model gave, secrets and all, while the log holds the masked one. The original
//! lies here from before the call is proposed until it is settled: the append that settles it deletes it
//! ([`crate::catalogue::sealed_rows::settled`]). The key lies outside of the
//! store, so that a copy of the database tells nothing; a copy of the whole data folder has both. Without the original a call is refused, never run with stars in it.

use recount_event::{Code, ForeignId, RunId};
use recount_log::{Append, RowPut};

use crate::boxed;
use crate::catalogue::sealed_rows::key_of;
use crate::ground::rows;
use crate::write::handle::WriteHandle;
use crate::write::room::WriteRoom;
use crate::{Error, limits};

impl WriteHandle {
    /// Keeps what a call, or a patch, was before it was masked. Durable when answered, and to be asked for before
    /// the event is reported.
    #[boxed]
    pub async fn seal(&self, run: RunId, id: &ForeignId, original: &[u8]) -> Result<(), Error> {
        if original.len() > limits::SEALED_BYTES_MAX {
            let (found, most) = (original.len(), limits::SEALED_BYTES_MAX);
            let message =
                format!("the original of {id} has {found} bytes; the limit is {most} (SEALED_BYTES_MAX)");
            return Err(Error::rejected(Code::LimitReached, message));
        }
        let row = self.sealed_row(&key_of(run, id), original)?;
        self.ground().store().append(Append { rows: vec![row], ..Append::default() }).await?;
        Ok(())
    }

    /// What a call, or a patch, was before it was masked; `None` when nothing was sealed, or it is settled.
    #[boxed]
    pub async fn unseal(&self, run: RunId, id: &ForeignId) -> Result<Option<Vec<u8>>, Error> {
        self.unseal_at(&key_of(run, id)).await
    }

    /// The row that keeps something sealed. Only under the same key can it be read.
    pub(crate) fn sealed_row(&self, key: &str, original: &[u8]) -> Result<RowPut, Error> {
        self.room.seal.row(&self.ground().world, key, original)
    }

    pub(crate) async fn unseal_at(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        self.room.unseal_at(key).await
    }

    /// Forgets an original that is not needed any more. That of a call goes by itself when the call is settled.
    #[boxed]
    pub async fn forget_sealed(&self, run: RunId, id: &ForeignId) -> Result<(), Error> {
        let rows = vec![rows::delete(rows::SEALED, key_of(run, id))];
        self.ground().store().append(Append { rows, ..Append::default() }).await?;
        Ok(())
    }
}

impl WriteRoom {
    pub(crate) async fn unseal_at(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let row = self.ground.store.row(rows::SEALED, key).await?;
        row.map(|row| self.seal.original(&self.ground.world, &row)).transpose()
    }
}
