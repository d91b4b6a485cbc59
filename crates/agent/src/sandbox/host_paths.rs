//! Finds the paths of this machine that commands may see, once and for both layers.
//!
//! A path that is not listed is hidden. Start at [`VisiblePaths`]. The module must not depend on how access is
//! enforced.

use std::io;
use std::path::{Path, PathBuf};

use super::{SandboxContext, SandboxSettings};
use crate::sandbox::limits;

/// The home of a command under bubblewrap, in its private `/tmp`.
pub(crate) const BWRAP_HOME: &str = "/tmp/home";

/// Private folders in memory that a command under bubblewrap may write.
pub(crate) const WRITTEN: [&str; 2] = ["/tmp", "/dev/shm"];

/// Programs and their files. Missing folders are skipped.
pub(crate) const SYSTEM: &[&str] = &["/usr", "/etc", "/opt", "/nix/store", "/run/current-system"];

/// Top-level folders that are symlinks into `/usr` on most machines.
const TOP: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Secrets of the machine inside readable folders.
pub(crate) const SECRETS: &[&str] = &[
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/security/opasswd",
    "/etc/sudoers",
    "/etc/sudoers.d",
    "/etc/ssh",
    "/etc/ssl/private",
    "/etc/pki/tls/private",
    "/etc/krb5.keytab",
    "/etc/wireguard",
    "/etc/openvpn",
    "/etc/ipsec.secrets",
    "/etc/NetworkManager/system-connections",
    "/etc/docker",
    "/etc/kubernetes",
    "/etc/rancher",
];

/// Variables of the server that every command receives.
const VARIABLES: &[&str] = &["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ"];

/// The `PATH` of commands if the server has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The paths and variables that were found.
#[derive(Debug, Clone)]
pub(crate) struct HostPaths {
    readable: Vec<PathBuf>,
    /// The paths of `sandbox.readable`.
    pub(crate) granted: Vec<PathBuf>,
    /// Readable only with a network.
    with_network: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) home: Option<PathBuf>,
    data: Option<PathBuf>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) shell: String,
}

impl HostPaths {
    pub(crate) fn find(settings: &SandboxSettings, context: &SandboxContext) -> Result<HostPaths, String> {
        let home = context.home.clone().or_else(|| std::env::var_os("HOME").map(PathBuf::from));
        let home = home.and_then(|home| home.canonicalize().ok()).filter(|home| home.parent().is_some());
        let data = context.data.as_ref().and_then(|data| data.canonicalize().ok());
        let mut found = HostPaths {
            readable: real(SYSTEM),
            granted: Vec::new(),
            // Often a symlink to a file that a service writes.
            with_network: real(&["/etc/resolv.conf"]),
            hidden: real(SECRETS),
            links: Vec::new(),
            home,
            data,
            environment: environment(),
            shell: shell(),
        };
        for top in TOP.iter().map(PathBuf::from) {
            match std::fs::read_link(&top) {
                Ok(target) => found.links.push((top, target)),
                Err(_) if top.is_dir() => found.readable.push(top),
                Err(_) => {}
            }
        }
        found.hidden.extend(found.home.iter().chain(&found.data).cloned());
        for path in &settings.hidden {
            let path = found.expand(path)?;
            found.hidden.extend(path.canonicalize());
        }
        for path in &settings.readable {
            let path = found.expand(path)?;
            let real = path
                .canonicalize()
                .map_err(|error| format!("sandbox.readable: cannot open {}: {error}", path.display()))?;
            if let Some(data) = &found.data
                && (real.starts_with(data) || data == &real)
            {
                return Err(format!(
                    "sandbox.readable: {} overlaps the data folder, which commands must not read",
                    path.display()
                ));
            }
            found.granted.push(real.clone());
            found.readable.push(real);
        }
        // A path of `sandbox.readable` stays readable even inside the home.
        let shown = found.readable.clone();
        found.hidden.retain(|path| !shown.contains(path));
        Ok(found)
    }

    fn expand(&self, path: &Path) -> Result<PathBuf, String> {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => Ok(home.join(rest)),
            (Ok(_), None) => Err(format!("{} needs a home directory, but HOME is not set", path.display())),
            (Err(_), _) if path.is_absolute() => Ok(path.to_owned()),
            (Err(_), _) => {
                Err(format!("{} in the sandbox settings must be an absolute path", path.display()))
            }
        }
    }

    pub(crate) fn readable(&self, network: bool) -> Vec<PathBuf> {
        let more = if network { self.with_network.as_slice() } else { &[] };
        let missing = more.iter().filter(|path| !self.readable.iter().any(|shown| path.starts_with(shown)));
        self.readable.iter().chain(missing).cloned().collect()
    }

    /// Whether a workspace is a copy in the data folder, not a user's own folder.
    pub(crate) fn is_copy(&self, workspace: &Path) -> bool {
        self.data.as_ref().is_some_and(|data| workspace.starts_with(data))
    }

    /// Refuses a workspace that contains the home or the data folder, because the command would see them.
    pub(crate) fn check(&self, workspace: &Path) -> Result<(), String> {
        match [&self.home, &self.data]
            .into_iter()
            .flatten()
            .find(|protected| protected.starts_with(workspace))
        {
            Some(protected) => Err(format!(
                "the workspace {} contains {}, which commands must not read; use a subfolder",
                workspace.display(),
                protected.display()
            )),
            None => Ok(()),
        }
    }
}

/// The existing paths with symlinks resolved.
fn real(paths: &[&str]) -> Vec<PathBuf> {
    paths.iter().filter_map(|path| Path::new(path).canonicalize().ok()).collect()
}

fn environment() -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = VARIABLES
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    if !found.iter().any(|(name, _)| name == "PATH") {
        found.push(("PATH".into(), PATH.into()));
    }
    found
}

fn shell() -> String {
    let known = ["/bin/bash", "/usr/bin/bash"].into_iter().find(|path| Path::new(path).exists());
    known.unwrap_or("/bin/sh").to_owned()
}

/// Finds a program on the server's `PATH`.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    std::env::split_paths(&search).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// Creates a private folder for a command, with its `/tmp` and its home.
pub(crate) fn private_folder(purpose: &str) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let own = rustix::process::getpid().as_raw_nonzero();
    let mut maker = std::fs::DirBuilder::new();
    maker.mode(0o700);
    for attempt in 0..limits::PRIVATE_FOLDER_ATTEMPTS {
        let folder = std::env::temp_dir().join(format!("recount-{purpose}-{own}-{attempt}"));
        match maker.create(&folder) {
            Ok(()) => {
                maker.create(folder.join("tmp"))?;
                maker.create(folder.join("home"))?;
                return folder.canonicalize();
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other(
        "the folder for temporary files has too many recount-command-* folders; delete them",
    ))
}

/// A folder for the test command of a sandbox. It is deleted on drop.
pub(crate) struct ProbeFolder(PathBuf);

impl ProbeFolder {
    pub(crate) fn create() -> io::Result<ProbeFolder> {
        let folder = ProbeFolder(private_folder("probe")?);
        std::fs::write(folder.secret(), "seen\n")?;
        Ok(folder)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.0.join("home/secret")
    }
}

impl Drop for ProbeFolder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
