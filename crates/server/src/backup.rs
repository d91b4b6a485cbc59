//! Backups of the whole store: `POST /admin/backups` while a server runs, [`offline`] while none does.
//!
//! A server writes only below `backups` in its own data folder; the operator moves the copy elsewhere. A copy gets its
//! name when it is complete and synced (`unfinished.rs`), and each store in it has a marker.

mod unfinished;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, StatusCode};
use recount_api::admin::{Backup, MakeBackup};
use recount_api::reply::One;
use recount_event::{Code, time};
use recount_face_aep::Refusal;
use recount_log::FaultKind;
use tokio::sync::Semaphore;

use crate::admin_json::{json, read_or_default};
use crate::database_url::DatabaseUrl;
use crate::stores::{Stores, missing_store};
use crate::tenant_folder::{folder_within, list_tenants, loss_of_tenants, tenant_folders};
use crate::tenants::Tenants;
use crate::{StartError, limits};

pub(crate) use self::unfinished::{clear, discard, is_unfinished, leftovers};
pub use self::unfinished::{finish, unfinished};

/// What to do about stores in a database.
const OF_DATABASE: &str = "back it up with pg_dump or pg_basebackup, and archive its write-ahead log for \
                           point-in-time recovery";

/// The folder of backups.
const FOLDER: &str = "backups";

#[derive(Clone)]
pub(crate) struct Backups {
    tenants: Arc<Tenants>,
    folder: PathBuf,
    /// The database that has the stores, if one does. Then this server does not copy them.
    database: Option<DatabaseUrl>,
    one_at_a_time: Arc<Semaphore>,
}

impl Backups {
    pub(crate) fn new(tenants: Arc<Tenants>, stores: &Stores) -> Self {
        let one_at_a_time = Arc::new(Semaphore::new(limits::BACKUPS_MAX));
        let (folder, database) = (stores.data().join(FOLDER), stores.database().cloned());
        Backups { tenants, folder, database, one_at_a_time }
    }
}

pub(crate) async fn make(
    State(backups): State<Backups>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    if let Some(refusal) = recount_face_aep::encoded(&headers) {
        return Err(refusal);
    }
    let request: MakeBackup = read_or_default(&headers, body).await?;
    if let Some(url) = &backups.database {
        let detail = format!("the stores of this server are in the database {url}; {OF_DATABASE}");
        return Err(Refusal::new(Code::BackupUnsupported, detail));
    }
    let name = match request.name {
        Some(name) if is_plain(&name) => name,
        Some(name) => {
            let shown: String = name.chars().take(80).collect();
            return Err(Refusal::new(
                Code::BodyMalformed,
                format!(
                    "invalid name {shown:?}; use letters, digits, - and _, at most {} characters",
                    limits::BACKUP_NAME_MAX
                ),
            ));
        }
        None => {
            time::format_ms(backups.tenants.default_engine().world().clock.now_ms()).replace([':', '.'], "-")
        }
    };
    let path = backups.folder.join(&name);
    let Ok(_place) = backups.one_at_a_time.try_acquire() else {
        return Err(Refusal::new(
            Code::StoreBusy,
            "another backup is in progress; try again after it has finished",
        ));
    };
    if path.symlink_metadata().is_ok() {
        return Err(Refusal::new(
            Code::IdTaken,
            format!("the backup {name:?} already exists; choose another name"),
        ));
    }
    // The name may be that of a failed copy that could not be removed.
    discard(&path);
    let copied = backups.tenants.backup(&unfinished(&path)).await.map_err(Refusal::from).and_then(|()| {
        list_tenants(&unfinished(&path)).map_err(|why| {
            Refusal::new(Code::StoreUnavailable, format!("cannot list the tenants of the backup: {why}"))
        })
    });
    if let Err(refusal) = copied {
        discard(&path);
        return Err(refusal);
    }
    finish(&path).map_err(|why| {
        discard(&path);
        let detail = format!("cannot rename the backup to {}: {why}", path.display());
        Refusal::new(Code::StoreUnavailable, detail)
    })?;
    let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    tracing::info!(path, "a backup was created");
    let reply = One::new("backup", Backup { name, path });
    Ok(json(StatusCode::CREATED, &reply))
}

/// Whether a name is a plain folder name on every system.
fn is_plain(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= limits::BACKUP_NAME_MAX;
    fits && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

/// Copies a data folder that no server holds to a new folder. The original is not changed, even if it is of an older
/// release. A damaged folder is not copied.
pub fn offline(data: &Path, to: &Path) -> Result<(), StartError> {
    let unfinished = unfinished(to);
    if unfinished.symlink_metadata().is_ok() {
        return Err(StartError::usage(format!(
            "{} is an unfinished backup; delete it unless a backup is running",
            unfinished.display()
        )));
    }
    let copied = copy_stores(data, &unfinished).and_then(|()| {
        let failed = |why| StartError::failed(format!("cannot rename the backup to {}: {why}", to.display()));
        finish(to).map_err(failed)
    });
    if copied.is_err() {
        discard(to);
    }
    copied
}

fn copy_stores(data: &Path, to: &Path) -> Result<(), StartError> {
    if !data.join("recount.db").is_file() {
        return Err(missing_store(data, OF_DATABASE));
    }
    let failed = |why: &dyn std::fmt::Display| StartError::failed(why.to_string());
    let copy = |data: &Path, to: &Path| {
        recount_log_sqlite::copy(data, to).map_err(|fault| match fault.kind {
            FaultKind::Corrupt => StartError::damaged(fault.message),
            _ => failed(&fault),
        })
    };
    copy(data, to)?;
    for (name, folder) in tenant_folders(data).map_err(|why| failed(&why))? {
        copy(&folder, &folder_within(to, &name))?;
    }
    if let Some(loss) = loss_of_tenants(data).map_err(|why| failed(&why))? {
        return Err(StartError::damaged(loss));
    }
    list_tenants(to).map_err(|why| failed(&why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        for good in ["a", "2026-11-21T17-20-00-000Z", "before_upgrade"] {
            assert!(is_plain(good), "{good}");
        }
        let long = "x".repeat(limits::BACKUP_NAME_MAX + 1);
        for bad in ["", ".", "..", "../x", "/x", "a/b", "a\\b", "a b", "a\0", "ä", ".a", &long] {
            assert!(!is_plain(bad), "{bad}");
        }
    }
}
