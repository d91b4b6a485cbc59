//! How far exports of the log are: a position by name, kept in the store itself, so that a copy, a backup or another
//! owner of it continues at the right place.

use recount_log::{Append, Guard};

use crate::admin::handle::AdminHandle;
use crate::ground::rows;
use crate::{Error, boxed};

impl AdminHandle {
    /// The stored position of an export.
    #[boxed]
    pub async fn cursor(&self, export: &str) -> Result<Option<u64>, Error> {
        self.catalogue().row(rows::CURSORS, export).await
    }

    #[boxed]
    pub async fn set_cursor(&self, export: &str, position: u64) -> Result<(), Error> {
        let row = rows::put(rows::CURSORS, export, Guard::Any, &position);
        let changed = self.ground().store().append(Append { rows: vec![row], ..Append::default() }).await;
        Ok(changed.map(drop)?)
    }
}
