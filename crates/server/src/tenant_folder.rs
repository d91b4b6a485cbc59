//! Names of tenants, and the folders of their stores within a data folder.
//!
//! It must not open a store. Entry points: [`tenant_folders`], [`folder_within`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::limits;

/// The tenant of everything that names no other.
pub(crate) const TENANT_DEFAULT: &str = "default";

/// The folder for the stores of tenants, within the data folder.
const FOLDER: &str = "tenants";

/// Whether something can be the name of a tenant: one that is also the name of a folder, everywhere.
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

#[cfg(test)]
mod tests {
    use super::*;

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
