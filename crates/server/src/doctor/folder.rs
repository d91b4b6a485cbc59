//! Health checks of a data folder: its stores, its permissions, the free space of its disk.

use std::path::Path;

use recount_api::admin::Check;
use recount_log::{Fault, FaultKind};
use recount_log_sqlite::{SCHEMA, glance, inspect, is_high_water_damaged, kept_logs};
use recount_world::platform::{self, DiskSpace};

use super::{DamageAdvice, bytes, clock_check, files, priority, versions};
use crate::stores::{database_of, sqlite_words};
use crate::tenant_folder::{loss_of_tenants, tenant_folders};
use crate::{Files, audit, backup, limits};

/// The advice about damage in a data folder.
pub(super) const ADVICE: DamageAdvice = DamageAdvice { damage: DAMAGE, lost: LOST };

/// The advice about damage.
const DAMAGE: &str = "stop the server, copy the folder unchanged, check it with `recount verify --data`, and replace it by a backup";

/// The advice about missing bytes of artifacts.
const LOST: &str = "restore the file below blobs/ from a backup; without a backup the bytes are lost and requests for them fail";

/// Checks a data folder that no server holds, damaged or not, and changes nothing. With `full` every byte is read.
pub fn offline(data: &Path, full: bool) -> Vec<Check> {
    let mut checks = Vec::new();
    versions(&mut checks, &sqlite_words());
    store(&mut checks, data, full);
    tenants(&mut checks, data, full);
    checks.push(clock_check(recount_world::World::real().clock.now_ms(), None));
    priority(&mut checks);
    files(&mut checks, Files::now());
    leftovers(&mut checks, data);
    disk(&mut checks, data);
    permissions(&mut checks, data);
    checks
}

/// Reports leftovers of an interrupted backup and of a damaged write-ahead log, and damaged high-water marks.
pub(super) fn leftovers(checks: &mut Vec<Check>, data: &Path) {
    for folder in backup::leftovers(data).unwrap_or_default() {
        let value = format!("{} is unfinished", folder.display());
        checks.push(Check::note("backup", value, "it is removed at the next start of the server"));
    }
    if backup::is_unfinished(data) {
        let value = format!("{} is an unfinished backup, not a complete store", data.display());
        checks.push(Check::problem("backup", value, "delete it and use another backup"));
    }
    let stores = tenant_folders(data).unwrap_or_default().into_values();
    for store in std::iter::once(data.to_owned()).chain(stores) {
        if is_high_water_damaged(&store).unwrap_or(false) {
            let value = format!("the high-water mark of {} is damaged", store.display());
            let advice = "compare the newest runs with what you expect: until the next start writes it again, a missing \
                          end of the store cannot be detected";
            checks.push(Check::note("high-water", value, advice));
        }
        for log in kept_logs(&store).unwrap_or_default() {
            let value = format!("{} is a copy of a damaged write-ahead log", log.display());
            let advice = "move it elsewhere when its content is no longer needed";
            checks.push(Check::note("kept log", value, advice));
        }
    }
}

/// Checks the store of each tenant in the same way.
fn tenants(checks: &mut Vec<Check>, data: &Path, full: bool) {
    let folders = match tenant_folders(data) {
        Ok(folders) => folders,
        Err(why) => {
            let advice = "check the owner of the folder tenants in the data folder";
            checks.push(Check::problem("tenants", format!("cannot list the tenants: {why}"), advice));
            return;
        }
    };
    if let Ok(Some(loss)) = loss_of_tenants(data) {
        checks.push(Check::problem("tenants", loss, "do not serve an incomplete backup"));
    }
    for (name, folder) in folders {
        // A server that holds the data folder also holds this one; reported once.
        if name == audit::TENANT && is_held(&folder) {
            continue;
        }
        let mut of_tenant = Vec::new();
        store(&mut of_tenant, &folder, full);
        of_tenant.iter_mut().for_each(|check| check.name = format!("{} of {name}", check.name));
        checks.extend(of_tenant);
    }
}

fn is_held(folder: &Path) -> bool {
    matches!(glance(folder), Err(fault) if fault.kind == FaultKind::Locked)
}

fn store(checks: &mut Vec<Check>, data: &Path, full: bool) {
    const NAME: &str = "store";
    let shown = data.display();
    if !data.join("recount.db").is_file() {
        if let Some(url) = database_of(data) {
            let value = format!("the stores are in the database {url}");
            checks.push(Check::note(NAME, value, "check them with `recount doctor --store URL`"));
            return;
        }
        let advice = "name the data folder with --data, or create one with `recount serve --data`";
        checks.push(Check::problem(NAME, format!("{shown} contains no store"), advice));
        return;
    }
    if !data.join("blobs").is_dir() {
        let advice = "restore a complete copy of the data folder";
        checks.push(Check::problem(NAME, format!("{shown} has no folder blobs"), advice));
    }
    match glance(data) {
        Ok(found) if found.schema < SCHEMA => {
            let value =
                format!("{shown}, schema {} of {SCHEMA}, {}", found.schema, bytes(found.database_bytes));
            let advice = "create a backup first; `recount serve` migrates the store, which cannot be undone";
            checks.push(Check::note(NAME, value, advice));
        }
        Ok(found) => {
            let looked = if found.pages_checked {
                "all pages checked"
            } else {
                "pages not checked because the database is large"
            };
            let value =
                format!("{shown}, schema {}, {}, {looked}", found.schema, bytes(found.database_bytes));
            checks.push(Check::fine(NAME, value));
        }
        Err(fault) => {
            let held = fault.kind == FaultKind::Locked;
            checks.push(Check::problem(NAME, plain(&fault), advice_for(fault.kind)));
            if held {
                return;
            }
        }
    }
    if full {
        integrity(checks, data);
    }
}

fn integrity(checks: &mut Vec<Check>, data: &Path) {
    const NAME: &str = "integrity";
    match inspect(data) {
        Ok(found) => {
            checks.extend(found.problems.iter().map(|problem| Check::problem(NAME, problem, DAMAGE)));
            let value = format!(
                "{} complete runs, {} readable events",
                found.readable_streams, found.readable_records
            );
            checks.push(Check::fine(NAME, value));
            match crate::salvage::read(data) {
                Ok(read) => {
                    let rows = read.rows().map(|row| (row.space, row.key, row.value));
                    let missing =
                        recount_engine::expected_blobs(rows).filter(|blob| !read.has_blob(&blob.hash));
                    checks.extend(missing.map(|blob| Check::problem(NAME, blob.to_string(), LOST)));
                }
                Err(fault) => checks.push(Check::problem(NAME, plain(&fault), advice_for(fault.kind))),
            }
        }
        Err(fault) => checks.push(Check::problem(NAME, plain(&fault), advice_for(fault.kind))),
    }
}

fn plain(fault: &Fault) -> String {
    fault.message.replace("; check the store with `recount verify --data`", "")
}

fn advice_for(kind: FaultKind) -> &'static str {
    match kind {
        FaultKind::Locked => "to check the server that uses it, use --url instead of --data",
        FaultKind::Newer => "use the release that wrote it, or a newer one",
        FaultKind::Corrupt => DAMAGE,
        FaultKind::Full => "free some space on the disk",
        _ => "check that the current user can read and write the folder",
    }
}

/// Reports the free space of the disk.
pub(super) fn disk(checks: &mut Vec<Check>, data: &Path) {
    const NAME: &str = "disk";
    let there = data.ancestors().find(|above| above.is_dir());
    let DiskSpace { free, whole } = match there.map(platform::disk_space) {
        Some(Ok(Some(space))) => space,
        Some(Ok(None)) => {
            let todo = "watch the free space by other means: on a full disk appends are rejected";
            checks.push(Check::note(NAME, "the free space is not measured on this system", todo));
            return;
        }
        None | Some(Err(_)) => {
            checks.push(Check::note(NAME, "the free space is unknown", "check that the folder can be read"));
            return;
        }
    };
    let value = format!("{} free of {}", bytes(free), bytes(whole));
    checks.push(if free < limits::DISK_FREE_BYTES_MIN {
        Check::problem(NAME, value, "free some space: on a full disk appends are rejected")
    } else if free < limits::DISK_FREE_BYTES_LOW {
        Check::note(NAME, value, "free some space, or shorten the retention: see docs/operations.md")
    } else {
        Check::fine(NAME, value)
    });
}

/// Reports whether other users of this machine can read the data folder.
pub(super) fn permissions(checks: &mut Vec<Check>, data: &Path) {
    const NAME: &str = "permissions";
    let Ok(about) = std::fs::metadata(data) else { return };
    let Some(mode) = platform::mode_of(&about) else {
        let value = format!("{} has the access rules of the folder that it is in", data.display());
        checks.push(Check::note(NAME, value, "check that other users have no access"));
        return;
    };
    let value = format!("{} has mode {mode:04o}", data.display());
    checks.push(if mode & 0o077 == 0 {
        Check::fine(NAME, value)
    } else {
        Check::problem(NAME, value, format!("other users can access it; run chmod 700 {}", data.display()))
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_high_water_mark_is_reported() {
        let data = tempfile::tempdir().unwrap();
        let named = || {
            let mut checks = Vec::new();
            leftovers(&mut checks, data.path());
            checks.iter().filter(|check| check.name == "high-water").count()
        };
        assert_eq!(named(), 0);
        std::fs::write(data.path().join("high-water"), "damaged").unwrap();
        assert_eq!(named(), 1);
    }
}
