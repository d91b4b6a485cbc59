//! Finds the programs of PostgreSQL and the user that may run them, and creates the first files of a cluster.
//!
//! The module must not depend on a running server. Start at [`Installation::find`].

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// Where Debian installs a folder for each major version.
const DEBIAN: &str = "/usr/lib/postgresql";

/// The oldest major version that the tests support.
const VERSION_MIN: u32 = 15;

/// The user and group without rights that every Unix has, for a machine without the user `postgres`.
const UNPRIVILEGED: u32 = 65534;

/// The superuser of every cluster, who needs no password.
pub(crate) const SUPERUSER: &str = "recount";

/// The programs of one major version.
#[derive(Debug, Clone)]
pub(crate) struct Installation {
    folder: PathBuf,
    version: u32,
    /// The user and group that PostgreSQL runs as, because it refuses to run as root. `None`: the user of this process.
    user: Option<(u32, u32)>,
}

impl Installation {
    /// Finds the newest version of Debian's packages, or else the one on the search path.
    pub(crate) fn find() -> Result<Self> {
        let found = newest_in(Path::new(DEBIAN)).or_else(on_search_path);
        let (version, folder) = found.with_context(|| {
            format!(
                "PostgreSQL {VERSION_MIN} or later is missing; run `cargo xtask test`, or install what Debian calls postgresql"
            )
        })?;
        let user = if rustix::process::geteuid().is_root() { Some(ordinary_user()) } else { None };
        Ok(Installation { folder, version, user })
    }

    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// A command that runs as the user of PostgreSQL.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        // The user may not be allowed to be where this process is.
        command.current_dir("/");
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command
    }

    /// Creates a temporary folder that the user of PostgreSQL owns.
    pub(crate) fn folder(&self, parent: &Path) -> Result<tempfile::TempDir> {
        let folder = tempfile::Builder::new().prefix("recount-postgres-").tempdir_in(parent)?;
        if let Some((user, group)) = self.user {
            std::os::unix::fs::chown(&folder, Some(user), Some(group))?;
        }
        Ok(folder)
    }

    /// Creates the files of a cluster. They are copied from a template beside the test program, because `cargo xtask test`
    /// runs each test in a process of its own.
    pub(crate) fn create_cluster(&self, to: &Path) -> Result<()> {
        let program = std::env::current_exe().context("this program has no path")?;
        let user = self.user.map_or_else(|| rustix::process::geteuid().as_raw(), |(user, _)| user);
        let template = program.with_file_name(format!("postgres-{}-template-{user}", self.version));
        let lock = File::create(template.with_extension("lock"))?;
        lock.lock()?;
        if !template.is_dir() {
            let folder = self.folder(&std::env::temp_dir())?;
            self.init(&folder.path().join("data"))?;
            let partial = template.with_extension("partial");
            if partial.is_dir() {
                std::fs::remove_dir_all(&partial)?;
            }
            copy(&folder.path().join("data"), &partial)?;
            std::fs::rename(&partial, &template)?;
        }
        drop(lock);
        copy(&template, to)
    }

    fn init(&self, data: &Path) -> Result<()> {
        let mut initdb = self.command(self.program("initdb"));
        initdb.arg("--pgdata").arg(data).args([
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
            "--no-instructions",
        ]);
        initdb.arg(format!("--username={SUPERUSER}"));
        // Messages are in English. The order of texts is that of a language, as in most databases: a statement that relies
        // on the order of bytes without asking for it fails here too.
        initdb.args(["--locale=C", "--locale-provider=icu", "--icu-locale=en"]);
        // Less to copy.
        initdb.arg("--wal-segsize=1");
        run(initdb)
    }
}

/// Copies a folder with the owners of its files.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let mut copy = Command::new("cp");
    copy.arg("-a").arg(from).arg(to);
    run(copy)
}

/// Runs a command to its end.
pub(crate) fn run(mut command: Command) -> Result<()> {
    let program = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| format!("cannot run {program}"))?;
    let message = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} ended with {}: {}", output.status, message.trim());
    Ok(())
}

fn newest_in(folder: &Path) -> Option<(u32, PathBuf)> {
    let versions = std::fs::read_dir(folder).ok()?.flatten();
    let versions = versions.filter_map(|entry| {
        let version: u32 = entry.file_name().to_str()?.parse().ok()?;
        let programs = entry.path().join("bin");
        let is_whole = ["initdb", "postgres", "createdb"].iter().all(|name| programs.join(name).is_file());
        (version >= VERSION_MIN && is_whole).then_some((version, programs))
    });
    versions.max()
}

fn on_search_path() -> Option<(u32, PathBuf)> {
    let search = std::env::var_os("PATH")?;
    let folder = std::env::split_paths(&search).find(|folder| folder.join("postgres").is_file())?;
    let output = Command::new(folder.join("postgres")).arg("--version").output().ok()?;
    let version = major_version(&String::from_utf8_lossy(&output.stdout))?;
    (version >= VERSION_MIN).then_some((version, folder))
}

/// Reads `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn major_version(output: &str) -> Option<u32> {
    let digits = output.split_once("(PostgreSQL) ")?.1;
    let digits = digits.split(|letter: char| !letter.is_ascii_digit()).next()?;
    digits.parse().ok()
}

/// The user and group `postgres`, or else those without rights.
fn ordinary_user() -> (u32, u32) {
    let id = |of: &str| {
        let output = Command::new("id").args([of, "postgres"]).output().ok()?;
        String::from_utf8_lossy(&output.stdout).trim().parse().ok()
    };
    id("-u").zip(id("-g")).unwrap_or((UNPRIVILEGED, UNPRIVILEGED))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_whole_installation_is_found() {
        let folder = tempfile::tempdir().unwrap();
        for (version, programs) in [
            ("9.6", &["initdb", "postgres", "createdb"][..]),
            ("14", &["initdb", "postgres", "createdb"]),
            ("15", &["initdb", "postgres", "createdb"]),
            ("16", &["initdb", "postgres", "createdb"]),
            ("17", &["createdb"]),
        ] {
            let bin = folder.path().join(version).join("bin");
            std::fs::create_dir_all(&bin).unwrap();
            programs.iter().for_each(|name| drop(File::create(bin.join(name)).unwrap()));
        }
        assert_eq!(newest_in(folder.path()), Some((16, folder.path().join("16/bin"))));
        assert_eq!(newest_in(&folder.path().join("16")), None);
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(major_version("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_version("postgres (PostgreSQL) 18beta1"), Some(18));
        assert_eq!(major_version("postgres"), None);
    }
}
