//! Names of tenants, the folders of their stores within a data folder, and the list of them in a backup.
//!
//! A backup lists its tenants in a file, so that a missing tenant folder is detected: the marker of a store counts only
//! that store. It must not open a store. Entry points: [`tenant_folders`],
//! [`folder_within`], [`lost_tenants`].

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};

use recount_world::platform::{private_file, sync_folder};

use crate::limits;

/// The tenant of requests and tokens that name no other.
pub(crate) const TENANT_DEFAULT: &str = "default";

/// The folder for the stores of tenants, within the data folder.
const FOLDER: &str = "tenants";

/// The list of tenants, within a backup.
const LIST: &str = "backup-tenants";

/// Whether a text is a valid tenant name: it must be a valid folder name on every system.
pub(crate) fn is_tenant_name(name: &str) -> bool {
    let fits = !name.is_empty() && name.len() <= limits::TENANT_NAME_MAX;
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    fits && name.chars().all(plain) && !name.starts_with('-') && !name.ends_with('-')
}

/// The stores of tenants within a data folder, by name.
pub(crate) fn tenant_folders(data: &Path) -> std::io::Result<BTreeMap<String, PathBuf>> {
    let entries = match std::fs::read_dir(data.join(FOLDER)) {
        Ok(entries) => entries,
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(why) => return Err(why),
    };
    let mut folders = BTreeMap::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().unwrap_or_default();
        if is_tenant_name(&name) && entry.path().is_dir() {
            folders.insert(name, entry.path());
        }
    }
    Ok(folders)
}

/// The folder of a tenant's store within a data folder, or within a copy of one.
pub(crate) fn folder_within(data: &Path, name: &str) -> PathBuf {
    data.join(FOLDER).join(name)
}

/// Writes the list of tenants of a backup, durably. Call it when all of them are copied.
pub(crate) fn list_tenants(backup: &Path) -> io::Result<()> {
    let names: Vec<String> = tenant_folders(backup)?.into_keys().map(|name| name + "\n").collect();
    let mut list = std::fs::OpenOptions::new();
    let mut list = private_file(list.write(true).create(true).truncate(true)).open(backup.join(LIST))?;
    list.write_all(names.concat().as_bytes())?;
    list.sync_all()?;
    sync_folder(backup)
}

/// The tenants on the list of a backup that have no store in it.
pub(crate) fn lost_tenants(data: &Path) -> io::Result<Vec<String>> {
    let mut names = String::new();
    match File::open(data.join(LIST)) {
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        opened => opened?.take(limits::TENANT_LIST_BYTES_MAX).read_to_string(&mut names)?,
    };
    let is_lost =
        |name: &&str| is_tenant_name(name) && !folder_within(data, name).join("recount.db").is_file();
    Ok(names.lines().filter(is_lost).map(str::to_owned).collect())
}

/// Describes the missing tenants of a backup and what to do; `None` if none is missing.
pub(crate) fn loss_of_tenants(data: &Path) -> io::Result<Option<String>> {
    let lost = lost_tenants(data)?;
    let (shown, list) = (data.display(), data.join(LIST));
    Ok((!lost.is_empty()).then(|| {
        format!(
            "the backup {shown} has no stores for its tenants {}; copy the backup again, or delete {} if \
             they were removed on purpose",
            lost.join(", "),
            list.display()
        )
    }))
}

/// Removes the list: from now on the folder is in use, and tenants may be added.
pub(crate) fn remove_list(data: &Path) -> io::Result<()> {
    match std::fs::remove_file(data.join(LIST)) {
        Err(why) if why.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_that_lost_a_tenant_names_it_until_the_folder_lives() {
        let data = tempfile::tempdir().unwrap();
        let data = data.path();
        for name in ["acme", "beta"] {
            std::fs::create_dir_all(folder_within(data, name)).unwrap();
            std::fs::write(folder_within(data, name).join("recount.db"), "x").unwrap();
        }
        assert_eq!(lost_tenants(data).unwrap(), Vec::<String>::new(), "it has no list");
        list_tenants(data).unwrap();
        assert_eq!(loss_of_tenants(data).unwrap(), None);
        std::fs::remove_dir_all(folder_within(data, "acme")).unwrap();
        std::fs::remove_file(folder_within(data, "beta").join("recount.db")).unwrap();
        assert_eq!(lost_tenants(data).unwrap(), ["acme", "beta"]);
        assert!(loss_of_tenants(data).unwrap().unwrap().contains("its tenants acme, beta;"));
        remove_list(data).unwrap();
        assert_eq!(lost_tenants(data).unwrap(), Vec::<String>::new());
        remove_list(data).unwrap();
    }

    #[test]
    fn names_that_are_folders_everywhere() {
        for good in ["a", "acme", "team-7", "0"] {
            assert!(is_tenant_name(good), "{good}");
        }
        let long = "x".repeat(limits::TENANT_NAME_MAX + 1);
        for bad in ["", "-a", "a-", "A", "a_b", "a.b", "..", "a/b", "ä", "a b", &long] {
            assert!(!is_tenant_name(bad), "{bad}");
        }
    }
}
