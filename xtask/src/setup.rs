//! Installs what only the tests need: a browser, Node, PostgreSQL, packages, and programs to compare with.
//!
//! Installs where it may (root with apt-get; packages in the tests' own folder), otherwise fails and names what to
//! install. If everything exists, it returns quickly. Start at [`Setup`].

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use crate::child::{command, watch};

/// The oldest Node whose test runner and web streams the browser tests use.
const NODE_MIN: u32 = 18;

/// Chromium without windows, which uses two thirds of the processor time of the full browser.
const HEADLESS: &str = "chromium-headless-shell";

/// Other browsers that the tests can use; the first found is used.
const BROWSERS: &[&str] = &["/usr/bin/chromium", "chromium", "chromium-browser", "google-chrome"];

/// The variable that names another browser.
const BROWSER_VARIABLE: &str = "RECOUNT_CHROMIUM";

/// Programs and their packages: `curl` runs the commands of the README, `sqlite3` queries a live store, `bwrap` is one
/// of the two sandbox layers, `git` is used by tools, `perl` by escape attempts, `openssl` makes certificates, and
/// `speech-dispatcher` speaks.
const PROGRAMS: &[(&str, &str)] = &[
    ("curl", "curl"),
    ("sqlite3", "sqlite3"),
    ("bwrap", "bubblewrap"),
    ("git", "git"),
    ("perl", "perl"),
    ("openssl", "openssl"),
    ("speech-dispatcher", "speech-dispatcher"),
];

/// The major versions of PostgreSQL that tests use. The limits are those of `lab/test-postgres`, and the last one is far off.
const POSTGRES_VERSIONS: std::ops::Range<u32> = 15..40;

const POSTGRES_PACKAGES: &[&str] = &["postgresql"];

/// A setting of Debian's packages: tests start their own PostgreSQL, so the installation creates and starts none.
const NO_CLUSTER: &str = "/etc/postgresql-common/createcluster.d/recount-tests.conf";
const SET_NO_CLUSTER: &str = "mkdir -p \"${0%/*}\" && echo 'create_main_cluster = off' > \"$0\"";

const BROWSER_PACKAGES: &[&str] = &[HEADLESS];
const NODE_PACKAGES: &[&str] = &["nodejs", "npm"];
const PYTHON_PACKAGES: &[&str] = &["python3", "python3-venv"];

/// Where a Python that is new enough for agents from PyPI is looked for. Programs of version managers may exist and fail.
const NEW_PYTHONS: &[&str] = &["python3.13", "python3.12", "python3"];

/// Succeeds in a Python of 3.12 or later that can create environments.
const IS_NEW_PYTHON: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))";

/// The interface to the machine, which tests replace.
pub(crate) trait Host {
    /// Finds a program by name on the search path or by its full path.
    fn find(&self, program: &str) -> Option<PathBuf>;
    /// The output of a program, if it succeeds.
    fn output_of(&self, words: &[&str]) -> Option<String>;
    fn variable(&self, name: &str) -> Option<String>;
    /// Runs a program with visible output. Returns whether it succeeded.
    fn run(&mut self, folder: &Path, words: &[&str]) -> Result<bool>;
}

/// The real machine.
pub(crate) struct Machine;

impl Host for Machine {
    fn find(&self, program: &str) -> Option<PathBuf> {
        let search = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&search).map(|folder| folder.join(program)).find(|path| path.is_file())
    }

    fn output_of(&self, words: &[&str]) -> Option<String> {
        let output = command(words[0], Path::new(".")).args(&words[1..]).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }

    fn run(&mut self, folder: &Path, words: &[&str]) -> Result<bool> {
        let mut command = command(words[0], folder);
        command.args(&words[1..]).env("DEBIAN_FRONTEND", "noninteractive");
        watch(command)
    }
}

/// Installs what is missing.
pub(crate) struct Setup<H> {
    host: H,
    /// Whether the list of packages was fetched; it is fetched once.
    list_is_fresh: bool,
}

impl<H: Host> Setup<H> {
    pub(crate) fn new(host: H) -> Self {
        Setup { host, list_is_fresh: false }
    }

    /// Installs a part of the Rust toolchain that `cargo <verb>` needs.
    pub(crate) fn cargo_component(&mut self, verb: &str, component: &str) -> Result<()> {
        if self.host.output_of(&["cargo", verb, "--version"]).is_some() {
            return Ok(());
        }
        let add = ["rustup", "component", "add", component];
        let added = self.host.find("rustup").is_some() && self.host.run(Path::new("."), &add)?;
        ensure!(added, "cargo {verb} is missing; install it with: {}", add.join(" "));
        Ok(())
    }

    /// Installs external programs that tests run.
    pub(crate) fn programs(&mut self) -> Result<()> {
        for (program, package) in PROGRAMS {
            if self.host.find(program).is_none() {
                self.install(program, &[package])?;
            }
        }
        Ok(())
    }

    /// Installs PostgreSQL, without a cluster of the system.
    pub(crate) fn postgres(&mut self) -> Result<()> {
        if self.has_postgres() {
            return Ok(());
        }
        let here = Path::new(".");
        // Without permission the installation fails and names the package.
        let is_set = self.may_install() && self.host.run(here, &["sh", "-c", SET_NO_CLUSTER, NO_CLUSTER])?;
        let installed = self.install("PostgreSQL", POSTGRES_PACKAGES);
        if is_set {
            self.host.run(here, &["rm", NO_CLUSTER])?;
        }
        installed?;
        let oldest = POSTGRES_VERSIONS.start;
        ensure!(
            self.has_postgres(),
            "the tests need PostgreSQL {oldest} or later; install it, for example from \
                https://www.postgresql.org/download"
        );
        Ok(())
    }

    fn has_postgres(&self) -> bool {
        let of_debian = |version| self.host.find(&format!("/usr/lib/postgresql/{version}/bin/initdb"));
        POSTGRES_VERSIONS.into_iter().any(|version| of_debian(version).is_some()) || {
            let output =
                self.host.find("postgres").and_then(|_| self.host.output_of(&["postgres", "--version"]));
            output
                .as_deref()
                .and_then(postgres_version)
                .is_some_and(|version| POSTGRES_VERSIONS.contains(&version))
        }
    }

    /// Installs Node and npm.
    pub(crate) fn node(&mut self) -> Result<()> {
        if self.host.find("node").is_none() || self.host.find("npm").is_none() {
            self.install("Node and npm", NODE_PACKAGES)?;
        }
        let version =
            self.host.output_of(&["node", "--version"]).context("node does not report its version")?;
        let major =
            version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
        ensure!(
            major.is_some_and(|major| major >= NODE_MIN),
            "node is {version}; the browser tests need {NODE_MIN} or later"
        );
        Ok(())
    }

    /// Installs the browser. Returns its path.
    pub(crate) fn chromium(&mut self) -> Result<PathBuf> {
        if let Some(named) = self.host.variable(BROWSER_VARIABLE) {
            let found = self.host.find(&named);
            return found.with_context(|| format!("{BROWSER_VARIABLE} names {named}, which is missing"));
        }
        if let Some(found) = self.host.find(HEADLESS) {
            return Ok(found);
        }
        // Another browser is used if this one cannot be installed.
        let installed = self.install("a browser", BROWSER_PACKAGES);
        let found = [HEADLESS].iter().chain(BROWSERS).find_map(|program| self.host.find(program));
        match (found, installed) {
            (Some(found), _) => Ok(found),
            (None, Err(error)) => Err(error),
            (None, Ok(())) => bail!("{HEADLESS} brought no browser; set {BROWSER_VARIABLE} to one"),
        }
    }

    /// Installs the packages of the folder's package-lock.json. Runs again only after the lock file has changed.
    pub(crate) fn node_packages(&mut self, folder: &Path, options: &[&str]) -> Result<()> {
        let lock = std::fs::read(folder.join("package-lock.json"))
            .with_context(|| format!("there is no package-lock.json in {}", folder.display()))?;
        let installed = folder.join("node_modules/.lock-installed");
        if std::fs::read(&installed).is_ok_and(|before| before == lock) {
            return Ok(());
        }
        let words = [&["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], options].concat();
        let done = self.host.run(folder, &words)?;
        ensure!(
            done,
            "the tests' packages could not be installed; run `{}` in {}",
            words.join(" "),
            folder.display()
        );
        std::fs::create_dir_all(folder.join("node_modules"))?;
        std::fs::write(&installed, lock).with_context(|| format!("cannot write {}", installed.display()))
    }

    /// Creates a Python environment with the packages of `xtask/<name>/requirements.txt` in the folder `<name>/python`
    /// below `target`. Runs again only after that file has changed.
    pub(crate) fn python(&mut self, root: &Path, target: &Path, name: &str) -> Result<PathBuf> {
        self.environment(root, target, name, Self::any_python)
    }

    /// Creates the environment of an agent from PyPI, like [`Setup::python`].
    pub(crate) fn agent_python(&mut self, root: &Path, target: &Path, name: &str) -> Result<PathBuf> {
        self.environment(root, target, name, Self::new_python)
    }

    fn environment(
        &mut self,
        root: &Path,
        target: &Path,
        name: &str,
        interpreter: impl FnOnce(&mut Self) -> Result<&'static str>,
    ) -> Result<PathBuf> {
        let wanted = root.join("xtask").join(name).join("requirements.txt");
        let list = std::fs::read(&wanted).with_context(|| format!("there is no {}", wanted.display()))?;
        let folder = target.join(name).join("python");
        let installed = folder.join("installed.txt");
        if std::fs::read(&installed).is_ok_and(|before| before == list) {
            return Ok(folder);
        }
        let interpreter = interpreter(self)?;
        let (made, wanted) = (folder.to_string_lossy(), wanted.to_string_lossy());
        ensure!(
            self.host.run(root, &[interpreter, "-m", "venv", "--clear", &made])?,
            "{made} could not be made; is python3-venv installed?"
        );
        let pip = folder.join("bin/pip");
        let words = [&pip.to_string_lossy(), "install", "--quiet", "--no-deps", "-r", &wanted];
        ensure!(self.host.run(root, &words)?, "what {wanted} names could not be installed; try again");
        std::fs::write(&installed, list).with_context(|| format!("cannot write {}", installed.display()))?;
        Ok(folder)
    }

    fn any_python(&mut self) -> Result<&'static str> {
        // Debian's Python lacks the module that creates environments.
        if self.host.output_of(&["python3", "-c", "import venv, ensurepip"]).is_none() {
            self.install("Python", PYTHON_PACKAGES)?;
        }
        Ok("python3")
    }

    fn new_python(&mut self) -> Result<&'static str> {
        let is_new = |program: &&&str| self.host.output_of(&[program, "-c", IS_NEW_PYTHON]).is_some();
        NEW_PYTHONS.iter().find(is_new).copied().with_context(|| {
            format!(
                "agents from PyPI need Python 3.12 or later with the modules venv and ensurepip, and none of {} on the search \
                 path is one; install it, for example with `apt-get install python3 python3-venv` (Debian 13 or Ubuntu \
                 24.04 and later), `dnf install python3.13`, `brew install python@3.13`, or `pyenv install 3.13` and \
                 `pyenv global system 3.13`",
                NEW_PYTHONS.join(", ")
            )
        })
    }

    fn is_root(&self) -> bool {
        self.host.output_of(&["id", "-u"]).as_deref() == Some("0")
    }

    fn may_install(&self) -> bool {
        self.host.find("apt-get").is_some() && self.is_root()
    }

    fn install(&mut self, what: &str, packages: &[&str]) -> Result<()> {
        let by_hand = format!("apt-get install -y {}", packages.join(" "));
        if self.host.find("apt-get").is_none() {
            bail!(
                "{what} is missing and there is no apt-get here; install what Debian calls {}",
                packages.join(", ")
            );
        }
        if !self.is_root() {
            bail!("{what} is missing and only root may install it; run: {by_hand}");
        }
        if !self.list_is_fresh {
            ensure!(
                self.host.run(Path::new("."), &["apt-get", "update"])?,
                "apt-get update failed; then run: {by_hand}"
            );
            self.list_is_fresh = true;
        }
        let mut words = vec!["apt-get", "install", "-y", "--no-install-recommends"];
        words.extend(packages);
        ensure!(self.host.run(Path::new("."), &words)?, "{what} could not be installed; run: {by_hand}");
        Ok(())
    }
}

/// Reads the major version in `postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)`.
fn postgres_version(output: &str) -> Option<u32> {
    let version = output.split_once("(PostgreSQL) ")?.1;
    version.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// A machine on which programs exist after they were installed.
    #[derive(Default)]
    struct Fake {
        present: BTreeSet<String>,
        root: bool,
        node: &'static str,
        python: bool,
        /// What `postgres --version` prints.
        postgres: &'static str,
        /// Programs that are a new Python.
        new_pythons: &'static [&'static str],
        ran: Vec<String>,
    }

    impl Host for Fake {
        fn find(&self, program: &str) -> Option<PathBuf> {
            self.present.contains(program).then(|| PathBuf::from(program))
        }

        fn output_of(&self, words: &[&str]) -> Option<String> {
            match words {
                ["id", "-u"] => Some(if self.root { "0" } else { "1000" }.into()),
                ["node", "--version"] => Some(self.node.into()),
                [program, "-c", IS_NEW_PYTHON] => self.new_pythons.contains(program).then(String::new),
                ["postgres", "--version"] => Some(self.postgres.into()),
                ["python3", ..] => self.python.then(String::new),
                _ => None,
            }
        }

        fn variable(&self, _name: &str) -> Option<String> {
            None
        }

        fn run(&mut self, _folder: &Path, words: &[&str]) -> Result<bool> {
            self.ran.push(words.join(" "));
            if words.starts_with(&["apt-get", "install"]) {
                self.present.extend(words[2..].iter().map(|word| word.replace("nodejs", "node")));
            }
            Ok(true)
        }
    }

    fn setup(present: &[&str], root: bool) -> Setup<Fake> {
        let present = present.iter().map(|name| (*name).to_owned()).collect();
        Setup::new(Fake { present, root, node: "v20.1.0", ..Fake::default() })
    }

    #[test]
    fn nothing_runs_when_everything_is_installed() {
        let mut setup = setup(&["node", "npm", HEADLESS, "/usr/bin/chromium"], true);
        setup.node().unwrap();
        assert_eq!(setup.chromium().unwrap(), PathBuf::from(HEADLESS));
        assert_eq!(setup.host.ran, [] as [&str; 0]);
    }

    #[test]
    fn another_browser_is_used_without_permission_to_install() {
        let mut setup = setup(&["apt-get", "google-chrome", "/usr/bin/chromium"], false);
        assert_eq!(setup.chromium().unwrap(), PathBuf::from("/usr/bin/chromium"));
        assert_eq!(setup.host.ran, [] as [&str; 0]);
    }

    #[test]
    fn root_installs_once_what_is_missing() {
        let mut setup = setup(&["apt-get"], true);
        for _ in 0..2 {
            setup.node().unwrap();
            setup.chromium().unwrap();
        }
        assert_eq!(
            setup.host.ran,
            [
                "apt-get update",
                "apt-get install -y --no-install-recommends nodejs npm",
                "apt-get install -y --no-install-recommends chromium-headless-shell",
            ]
        );
    }

    #[test]
    fn without_permission_the_error_names_what_to_install() {
        let mut at_home = setup(&["apt-get", "node", "npm"], false);
        let message = at_home.chromium().unwrap_err().to_string();
        assert!(message.contains("apt-get install -y chromium-headless-shell"), "{message}");
        assert_eq!(at_home.host.ran, [] as [&str; 0]);

        let message = setup(&[], true).node().unwrap_err().to_string();
        assert!(message.contains("nodejs, npm"), "{message}");
    }

    #[test]
    fn postgres_is_installed_without_a_cluster_of_the_system() {
        let mut setup = setup(&["apt-get"], true);
        let message = setup.postgres().unwrap_err().to_string();
        assert!(message.contains("PostgreSQL 15 or later"), "{message}");
        let set = format!("sh -c {SET_NO_CLUSTER} {NO_CLUSTER}");
        let unset = format!("rm {NO_CLUSTER}");
        let install = "apt-get install -y --no-install-recommends postgresql";
        assert_eq!(
            setup.host.ran,
            [&set, "apt-get update", install, &unset],
            "the fake package brings no program"
        );
    }

    #[test]
    fn an_installed_postgres_is_found() {
        for (present, version) in [
            ("/usr/lib/postgresql/15/bin/initdb", ""),
            ("/usr/lib/postgresql/18/bin/initdb", ""),
            ("postgres", "postgres (PostgreSQL) 16.2"),
        ] {
            let mut setup = setup(&["apt-get", present], true);
            setup.host.postgres = version;
            setup.postgres().unwrap();
            assert_eq!(setup.host.ran, [] as [&str; 0], "{present}");
        }
    }

    #[test]
    fn an_old_postgres_does_not_count_and_permission_is_needed_to_install() {
        for (present, version) in
            [("/usr/lib/postgresql/14/bin/initdb", ""), ("postgres", "postgres (PostgreSQL) 9.6.1")]
        {
            let mut setup = setup(&["apt-get", present], false);
            setup.host.postgres = version;
            let message = setup.postgres().unwrap_err().to_string();
            assert!(message.contains("apt-get install -y postgresql"), "{message}");
            assert_eq!(setup.host.ran, [] as [&str; 0]);
        }
    }

    #[test]
    fn an_old_node_is_refused() {
        let mut setup = setup(&["node", "npm"], true);
        setup.host.node = "v16.20.0";
        setup.node().unwrap_err();
    }

    #[test]
    fn python_packages_are_installed_again_only_after_their_list_changed() {
        let (root, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut setup = setup(&["apt-get"], false);
        setup.python(root.path(), target.path(), "contract").expect_err("there is no list yet");
        std::fs::create_dir_all(root.path().join("xtask/contract")).unwrap();
        std::fs::create_dir_all(target.path().join("contract/python")).unwrap();
        let list = root.path().join("xtask/contract/requirements.txt");
        std::fs::write(&list, "a==1").unwrap();
        let message = setup.python(root.path(), target.path(), "contract").unwrap_err().to_string();
        assert!(message.contains("apt-get install -y python3 python3-venv"), "{message}");
        setup.host.python = true;
        for (text, runs) in [("a==1", 2), ("a==1", 2), ("a==2", 4)] {
            std::fs::write(&list, text).unwrap();
            let folder = setup.python(root.path(), target.path(), "contract").unwrap();
            assert_eq!(folder, target.path().join("contract/python"));
            assert_eq!(setup.host.ran.len(), runs);
        }
        let install = &setup.host.ran[1];
        assert!(install.contains("bin/pip install --quiet --no-deps -r"), "{install}");
    }

    #[test]
    fn agents_get_the_first_python_that_is_new_enough() {
        let (root, target) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::create_dir_all(root.path().join("xtask/agents/vibe")).unwrap();
        std::fs::write(root.path().join("xtask/agents/vibe/requirements.txt"), "a==1").unwrap();
        let mut setup = setup(&["apt-get"], true);
        setup.host.python = true;
        let message = setup.agent_python(root.path(), target.path(), "agents/vibe").unwrap_err().to_string();
        assert!(
            message.contains("Python 3.12 or later") && message.contains("pyenv install 3.13"),
            "{message}"
        );
        assert_eq!(setup.host.ran, [] as [&str; 0]);
        for (found, used) in [(&["python3"][..], "python3"), (&["python3", "python3.12"], "python3.12")] {
            setup.host.new_pythons = found;
            setup.host.ran.clear();
            setup
                .agent_python(root.path(), target.path(), "agents/vibe")
                .expect_err("no program created the folder");
            assert!(
                setup.host.ran[0].starts_with(&format!("{used} -m venv --clear")),
                "{:?}",
                setup.host.ran
            );
        }
    }

    #[test]
    fn packages_are_installed_again_only_after_the_lock_changed() {
        let folder = tempfile::tempdir().unwrap();
        let lock = folder.path().join("package-lock.json");
        let mut setup = setup(&["npm"], false);
        setup.node_packages(folder.path(), &[]).expect_err("there is no lock yet");
        for (text, runs) in [("{}", 1), ("{}", 1), ("{ }", 2)] {
            std::fs::write(&lock, text).unwrap();
            setup.node_packages(folder.path(), &[]).unwrap();
            assert_eq!(setup.host.ran.len(), runs);
        }
    }
}
