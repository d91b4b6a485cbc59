//! Which paths of this machine commands may see: found once, the same for both layers.
//!
//! What is not named is not seen. Look at [`Places`]. It knows paths and the environment, not how they are held.

use std::io;
use std::path::{Path, PathBuf};

use super::{SandboxSettings, Surroundings};
use crate::sandbox::limits;

/// The home of a command under bubblewrap, in its private `/tmp`.
pub(crate) const BWRAP_HOME: &str = "/tmp/home";

/// Folders of its own in memory, which a command under bubblewrap may write.
pub(crate) const WRITTEN: [&str; 2] = ["/tmp", "/dev/shm"];

/// Programs and what they need. What does not exist is left out.
pub(crate) const SYSTEM: &[&str] = &["/usr", "/etc", "/opt", "/nix/store", "/run/current-system"];

/// Folders at the top that are symlinks into `/usr` on most machines.
const TOP: &[&str] = &["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Secrets of the machine that lie among what may be read.
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

/// Variables that every command is given, when the server has them.
const VARIABLES: &[&str] = &["PATH", "LANG", "LC_ALL", "LC_CTYPE", "TERM", "TZ"];

/// The search path where the server has none.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What was found.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    readable: Vec<PathBuf>,
    /// Those that the settings name.
    pub(crate) granted: Vec<PathBuf>,
    /// Shown only with a network.
    with_network: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) home: Option<PathBuf>,
    data: Option<PathBuf>,
    pub(crate) environment: Vec<(String, String)>,
    pub(crate) shell: String,
}

impl Places {
    pub(crate) fn find(settings: &SandboxSettings, around: &Surroundings) -> Result<Places, String> {
        let home = around.home.clone().or_else(|| std::env::var_os("HOME").map(PathBuf::from));
        let home = home.and_then(|home| home.canonicalize().ok()).filter(|home| home.parent().is_some());
        let data = around.data.as_ref().and_then(|data| data.canonicalize().ok());
        let mut places = Places {
            readable: real(SYSTEM),
            granted: Vec::new(),
            // Often a symlink to where a service of the machine writes it.
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
                Ok(target) => places.links.push((top, target)),
                Err(_) if top.is_dir() => places.readable.push(top),
                Err(_) => {}
            }
        }
        places.hidden.extend(places.home.iter().chain(&places.data).cloned());
        for path in &settings.hidden {
            let path = places.expand(path)?;
            places.hidden.extend(path.canonicalize());
        }
        for path in &settings.readable {
            let path = places.expand(path)?;
            let real = path.canonicalize().map_err(|error| {
                format!("sandbox.readable names {}, which cannot be found: {error}", path.display())
            })?;
            if let Some(data) = &places.data
                && (real.starts_with(data) || data == &real)
            {
                return Err(format!(
                    "sandbox.readable names {}, which is of the data folder; no command may see that",
                    path.display()
                ));
            }
            places.granted.push(real.clone());
            places.readable.push(real);
        }
        // What is said to be readable is, although it lies in the home.
        let shown = places.readable.clone();
        places.hidden.retain(|path| !shown.contains(path));
        Ok(places)
    }

    fn expand(&self, path: &Path) -> Result<PathBuf, String> {
        match (path.strip_prefix("~"), &self.home) {
            (Ok(rest), Some(home)) => Ok(home.join(rest)),
            (Ok(_), None) => Err(format!("{} needs a home, and HOME is not set", path.display())),
            (Err(_), _) if path.is_absolute() => Ok(path.to_owned()),
            (Err(_), _) => Err(format!("{} in the settings of the sandbox must be absolute", path.display())),
        }
    }

    pub(crate) fn readable(&self, network: bool) -> Vec<PathBuf> {
        let more = if network { self.with_network.as_slice() } else { &[] };
        let missing = more.iter().filter(|path| !self.readable.iter().any(|shown| path.starts_with(shown)));
        self.readable.iter().chain(missing).cloned().collect()
    }

    /// Whether a workspace is a copy of ours, which lies with our data, and not a person's own folder.
    pub(crate) fn is_copy(&self, workspace: &Path) -> bool {
        self.data.as_ref().is_some_and(|data| workspace.starts_with(data))
    }

    /// A workspace that has the home in it would show what must be hidden.
    pub(crate) fn check(&self, workspace: &Path) -> Result<(), String> {
        match [&self.home, &self.data].into_iter().flatten().find(|kept| kept.starts_with(workspace)) {
            Some(kept) => Err(format!(
                "the workspace {} has {} in it, which commands may not see; choose a folder within",
                workspace.display(),
                kept.display()
            )),
            None => Ok(()),
        }
    }
}

/// Those that are there, without symlinks on the way.
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

/// Where a program is on the server's search path.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let search = std::env::var_os("PATH").unwrap_or_else(|| PATH.into());
    std::env::split_paths(&search).map(|folder| folder.join(name)).find(|path| path.is_file())
}

/// A folder that only this command may see, as its `/tmp` and its home.
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
    Err(io::Error::other("the folder for temporary files is full of ours; remove recount-command-* there"))
}

/// A folder to try a sandbox in, which goes when it is dropped.
pub(crate) struct Ground(PathBuf);

impl Ground {
    pub(crate) fn make() -> io::Result<Ground> {
        let ground = Ground(private_folder("probe")?);
        std::fs::write(ground.secret(), "seen\n")?;
        Ok(ground)
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.0.join("tmp")
    }

    pub(crate) fn secret(&self) -> PathBuf {
        self.0.join("home/secret")
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}
