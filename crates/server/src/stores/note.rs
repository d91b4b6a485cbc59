//! The note in a data folder that a database has its stores, and refusals of work that needs stores in the folder.
//!
//! Without the note, a server that is started without `--store` would continue with an empty store.

use std::fs::DirBuilder;
use std::path::Path;

use recount_world::platform::private_folder;

use crate::StartError;
use crate::database_url::DatabaseUrl;

/// The file with the URL of the database.
const FILE: &str = "database";

/// Creates the data folder for its owner only, unless it exists.
pub(super) fn create_folder(data: &Path) -> Result<(), StartError> {
    let created = private_folder(DirBuilder::new().recursive(true)).create(data);
    created.map_err(|why| StartError::failed(format!("cannot create {}: {why}", data.display())))
}

/// Notes the database. Without the note only refusals are less precise.
pub(super) fn write(data: &Path, url: &DatabaseUrl) {
    if let Err(error) = std::fs::write(data.join(FILE), format!("{url}\n")) {
        tracing::warn!(%error, "cannot note the database in the data folder");
    }
}

/// Removes the note.
pub(super) fn remove(data: &Path) -> Result<(), StartError> {
    let path = data.join(FILE);
    let shown = path.display();
    std::fs::remove_file(&path)
        .map_err(|why| StartError::failed(format!("cannot delete {shown}: {why}; delete it")))
}

/// Refuses to use stores in a data folder whose stores are in a database.
pub(super) fn check(data: &Path) -> Result<(), StartError> {
    let Some(url) = noted(data) else { return Ok(()) };
    let shown = data.display();
    Err(StartError::usage(format!(
        "the stores of {shown} are in the database {url}; name it with --store, or delete {} to keep separate stores in \
         this folder",
        data.join(FILE).display()
    )))
}

/// The database that has the stores of a data folder, as it is shown. Also accepts the URL of a database in place of a
/// folder.
pub(crate) fn database_of(data: &Path) -> Option<String> {
    let url = data.to_str().and_then(DatabaseUrl::parse);
    url.map(|url| url.to_string()).or_else(|| noted(data))
}

/// The refusal of work on a folder that contains no store. `advice` is for stores in a database.
pub(crate) fn missing_store(data: &Path, advice: &str) -> StartError {
    StartError::usage(match database_of(data) {
        Some(url) => format!("the stores are in the database {url}, not in a data folder; {advice}"),
        None => format!("{} contains no store; name a data folder", data.display()),
    })
}

fn noted(data: &Path) -> Option<String> {
    let text = std::fs::read_to_string(data.join(FILE)).ok()?;
    DatabaseUrl::parse(text.trim()).map(|url| url.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_whose_stores_are_in_a_database_names_it() {
        let data = tempfile::tempdir().unwrap();
        check(data.path()).unwrap();
        let missing = || missing_store(data.path(), "use --store").to_string();
        assert!(missing().ends_with("contains no store; name a data folder"), "{}", missing());
        write(data.path(), &DatabaseUrl::parse("postgres://u:hidden@h/db").unwrap());
        let refused = check(data.path()).unwrap_err().to_string();
        for words in [&refused, &missing()] {
            assert!(words.contains("in the database postgres://u:***@h/db"), "{words}");
        }
        assert!(refused.contains("--store") && refused.contains("delete "), "{refused}");
        let as_folder = missing_store(Path::new("postgres://u:hidden@h/db"), "use --store").to_string();
        assert_eq!(
            as_folder,
            "the stores are in the database postgres://u:***@h/db, not in a data folder; use --store"
        );
    }
}
