//! Opens connections: the settings of each role, and the check that SQLite applied them.

use std::path::PathBuf;

use recount_log::{Fault, FaultKind, Retry};
use rusqlite::config::DbConfig;
use rusqlite::types::Value;
use rusqlite::{Connection, OpenFlags};

use crate::fault::FaultContext as _;
use crate::limits;
use crate::options::Durability;

/// The path of the database and how to open it.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseFile {
    pub(crate) database: PathBuf,
    pub(crate) durability: Durability,
    pub(crate) vfs: Option<String>,
}

/// The purpose of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// The only connection that writes.
    Writer,
    /// Copies the write-ahead log into the database.
    Checkpointer,
    /// Reads, and maps the file.
    Reader,
    /// Checks the whole store; a failing disk is reported and does not end the process.
    Examiner,
    /// Reads everything readable of a database that may be damaged.
    Salvager,
}

impl DatabaseFile {
    /// The name of the database in messages.
    pub(crate) fn name(&self) -> String {
        self.database.display().to_string()
    }

    /// Opens without any setting. A connection that writes leaves the write-ahead log alone when it is
    /// closed, until [`DatabaseFile::settle`] was called.
    pub(crate) fn connect(&self, role: Role) -> Result<Connection, Fault> {
        let access = match role {
            Role::Writer | Role::Checkpointer => OpenFlags::SQLITE_OPEN_READ_WRITE,
            Role::Reader | Role::Examiner | Role::Salvager => OpenFlags::SQLITE_OPEN_READ_ONLY,
        };
        let flags = access | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let opened = match &self.vfs {
            Some(vfs) => Connection::open_with_flags_and_vfs(&self.database, flags, vfs.as_str()),
            None => Connection::open_with_flags(&self.database, flags),
        };
        let context = format!("opening {}", self.name());
        let connection = opened.context(&context)?;
        connection.set_prepared_statement_cache_capacity(limits::STATEMENTS_KEPT_MAX);
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true).context(&context)?;
        // Plans ignore bound values: a statement with a bound limit would otherwise be parsed again at each call.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true).context(&context)?;
        connection.busy_timeout(limits::BUSY_WAIT).context(&context)?;
        Ok(connection)
    }

    /// Applies the settings of a role and reads each of them back.
    pub(crate) fn settle(&self, connection: &Connection, role: Role) -> Result<(), Fault> {
        let set = |name: &str, value: i64| self.set(connection, name, Value::Integer(value));
        if role == Role::Salvager {
            // Lets SQLite read a file that is shorter than its header claims; must be set before the first read.
            set("writable_schema", 1)?;
            return set("query_only", 1);
        }
        set("busy_timeout", i64::try_from(limits::BUSY_WAIT.as_millis()).unwrap_or(i64::MAX))?;
        set("trusted_schema", 0)?;
        set("cell_size_check", 1)?;
        set("foreign_keys", 1)?;
        let cache_kib = if role == Role::Reader { limits::READER_CACHE_KIB } else { limits::CACHE_KIB };
        set("cache_size", -i64::from(cache_kib))?;
        if matches!(role, Role::Reader | Role::Examiner) {
            self.check(connection, "journal_mode", &Value::Text("wal".to_owned()))?;
            if role == Role::Reader {
                // If the file system cannot map files, SQLite reads them.
                let bytes = i64::try_from(limits::MAPPED_BYTES_MAX).unwrap_or(i64::MAX);
                let mapped = connection.pragma_update(None, "mmap_size", bytes);
                mapped.context(&format!("mapping {}", self.name()))?;
            }
            return set("query_only", 1);
        }
        // Freed pages are overwritten, so erased content does not remain in the file.
        set("secure_delete", 1)?;
        self.set(connection, "journal_mode", Value::Text("wal".to_owned()))?;
        set("synchronous", if self.durability == Durability::Strict { 2 } else { 1 })?;
        // On systems where an ordinary sync does not reach the disk, use one that does.
        set("fullfsync", 1)?;
        set("checkpoint_fullfsync", 1)?;
        set("wal_autocheckpoint", 0)?;
        set("journal_size_limit", i64::try_from(limits::WAL_KEPT_BYTES).unwrap_or(i64::MAX))?;
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .context(&format!("opening {}", self.name()))?;
        Ok(())
    }

    /// Connects and applies the settings.
    pub(crate) fn open(&self, role: Role) -> Result<Connection, Fault> {
        let connection = self.connect(role)?;
        self.settle(&connection, role)?;
        Ok(connection)
    }

    fn set(&self, connection: &Connection, name: &str, value: Value) -> Result<(), Fault> {
        connection
            .pragma_update(None, name, &value)
            .context(&format!("setting {name} on {}", self.name()))?;
        self.check(connection, name, &value)
    }

    fn check(&self, connection: &Connection, name: &str, required: &Value) -> Result<(), Fault> {
        let found: Value = connection
            .pragma_query_value(None, name, |row| row.get(0))
            .context(&format!("reading {name} of {}", self.name()))?;
        if found == *required {
            return Ok(());
        }
        let message = format!(
            "{} has {name} {found:?}, but {required:?} is required; check that it is not on a network or \
             read-only file system",
            self.name()
        );
        Err(Fault::new(FaultKind::Io, Retry::Never, message))
    }
}

/// Refuses a SQLite that is older than the fixes this store relies on.
pub(crate) fn check_version() -> Result<(), Fault> {
    if rusqlite::version_number() >= limits::SQLITE_VERSION_MIN {
        return Ok(());
    }
    let message = format!(
        "SQLite {} is too old; the oldest supported version is 3.53.0; build with the bundled SQLite",
        rusqlite::version()
    );
    Err(Fault::new(FaultKind::Io, Retry::Never, message))
}

/// Executes a statement, which is parsed once for each connection.
pub(crate) fn execute(connection: &Connection, sql: &str) -> rusqlite::Result<()> {
    connection.prepare_cached(sql)?.execute([]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The settings that durability depends on, read back from SQLite.
    #[test]
    fn each_role_has_its_settings() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("recount.db");
        std::fs::write(&database, "").unwrap();
        for (durability, synchronous) in [(Durability::Strict, 2), (Durability::Relaxed, 1)] {
            let place = DatabaseFile { database: database.clone(), durability, vfs: None };
            let pragma = |connection: &Connection, name: &str| {
                connection.pragma_query_value(None, name, |row| row.get::<_, Value>(0)).unwrap()
            };
            for role in [Role::Writer, Role::Checkpointer] {
                let connection = place.open(role).unwrap();
                assert_eq!(pragma(&connection, "synchronous"), Value::Integer(synchronous));
                assert_eq!(pragma(&connection, "wal_autocheckpoint"), Value::Integer(0));
                assert_eq!(pragma(&connection, "journal_mode"), Value::Text("wal".to_owned()));
                assert_eq!(pragma(&connection, "journal_size_limit"), Value::Integer(64 << 20));
                assert_eq!(pragma(&connection, "secure_delete"), Value::Integer(1));
            }
            let reader = place.open(Role::Reader).unwrap();
            assert_eq!(pragma(&reader, "query_only"), Value::Integer(1));
            assert!(reader.execute_batch("CREATE TABLE t (x)").is_err());
        }
    }

    #[test]
    fn statements_are_parsed_once_whatever_is_bound() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("recount.db");
        std::fs::write(&database, "").unwrap();
        let connection =
            DatabaseFile { database, durability: Durability::Strict, vfs: None }.open(Role::Writer).unwrap();
        let mut statement =
            connection.prepare("SELECT name FROM sqlite_schema WHERE name > ?1 LIMIT ?2").unwrap();
        for most in 1..5 {
            let names = statement.query_map(rusqlite::params!["a", most], |row| row.get::<_, String>(0));
            assert_eq!(names.unwrap().count(), 0);
        }
        assert_eq!(statement.get_status(rusqlite::StatementStatus::RePrepare), 0);
    }

    #[test]
    fn a_setting_that_is_not_applied_is_a_fault() {
        let folder = tempfile::tempdir().unwrap();
        let database = folder.path().join("recount.db");
        std::fs::write(&database, "").unwrap();
        let place = DatabaseFile { database, durability: Durability::Strict, vfs: None };
        // It has no write-ahead log yet, and a reader cannot create one.
        let fault = place.open(Role::Reader).unwrap_err();
        assert!(fault.message.contains("journal_mode") && fault.message.contains("delete"), "{fault}");
    }

    #[test]
    fn the_bundled_version_is_new_enough() {
        assert_eq!(check_version(), Ok(()));
    }
}
