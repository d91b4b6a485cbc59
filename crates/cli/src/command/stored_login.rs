//! Sign-ins that `recount login` keeps: one for each server, in a file that only its owner can read. See [`StoredLogin`].
//!
//! It must not know how a person signs in.

use std::collections::BTreeMap;
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use recount_client::{Clock as _, SystemClock};
use recount_command_line::credential::server_of;
use recount_world::platform::{self, private_file, private_folder};
use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::limits::LOGINS_BYTES_MAX;
use crate::output::note;
use crate::render::utc_time;

/// A sign-in at one server.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct StoredLogin {
    pub(super) token: String,
    pub(super) name: String,
    pub(super) tenant: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) expires_at: Option<String>,
}

impl StoredLogin {
    /// The token, unless it has expired, which is reported.
    pub(super) fn current_token(&self, url: &str) -> Option<&str> {
        let now = i64::try_from(SystemClock.now_ms()).unwrap_or(i64::MAX);
        let expires = self.expires_at.as_ref().and_then(|at| Some((at, at.parse::<Timestamp>().ok()?)));
        match expires {
            Some((at, time)) if time.as_millisecond() <= now => {
                let at = utc_time(at);
                note(&format!("the sign-in at {url} expired at {at}; sign in again with recount login"));
                None
            }
            _ => Some(&self.token),
        }
    }
}

/// All of the file, by server.
#[derive(Default, Serialize, Deserialize)]
struct Logins {
    #[serde(default)]
    logins: BTreeMap<String, StoredLogin>,
}

/// Where the file is; `None` without a home folder.
fn path() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = variable("XDG_CONFIG_HOME").or_else(|| Some(variable(platform::HOME)?.join(".config")))?;
    Some(base.join("recount/logins.json"))
}

/// The sign-in at a server. A file that cannot be read is reported, and counts as none.
pub(super) fn find(url: &str) -> Option<StoredLogin> {
    let path = path()?;
    match read(&path) {
        Ok(mut file) => file.logins.remove(&server_of(url)?),
        Err(why) => {
            note(&format!("cannot read sign-ins: {why}"));
            None
        }
    }
}

fn read(path: &Path) -> Result<Logins, String> {
    let wrong = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    match std::fs::metadata(path) {
        Ok(found) if found.len() > LOGINS_BYTES_MAX => {
            return Err(wrong(&format!("it has more than {LOGINS_BYTES_MAX} bytes (LOGINS_BYTES_MAX)")));
        }
        Ok(_) => {}
        Err(why) if why.kind() == io::ErrorKind::NotFound => return Ok(Logins::default()),
        Err(why) => return Err(wrong(&why)),
    }
    let text = std::fs::read(path).map_err(|why| wrong(&why))?;
    // The error of the parser could quote a token.
    serde_json::from_slice(&text).map_err(|_| wrong(&"it is not a file of recount login; remove it"))
}

/// Stores the sign-in at a server in place of an earlier one; `None` removes it. Returns where.
pub(super) fn store(url: &str, login: Option<StoredLogin>) -> Result<PathBuf, Failure> {
    let path = path().ok_or_else(|| {
        Failure::Usage(format!(
            "cannot store a sign-in, because neither XDG_CONFIG_HOME nor {} is set",
            platform::HOME
        ))
    })?;
    let server = server_of(url).ok_or_else(|| Failure::Usage(format!("{url} is not the URL of a server")))?;
    let mut file = read(&path).map_err(Failure::Own)?;
    match login {
        Some(login) => drop(file.logins.insert(server, login)),
        None => drop(file.logins.remove(&server)),
    }
    let text = serde_json::to_vec_pretty(&file).expect("texts are valid JSON strings");
    write(&path, &text).map_err(|why| Failure::Own(format!("cannot write {}: {why}", path.display())))?;
    Ok(path)
}

/// Writes a file whole, for its owner only.
fn write(path: &Path, text: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private_folder(DirBuilder::new().recursive(true)).create(folder)?;
    }
    let new = path.with_extension(format!("{}.new", std::process::id()));
    let mut file = private_file(OpenOptions::new().write(true).create_new(true)).open(&new)?;
    let written =
        file.write_all(text).and_then(|()| file.sync_all()).and_then(|()| std::fs::rename(&new, path));
    if written.is_err() {
        // Nothing more can be done about a file that cannot be removed; only its owner can read it.
        drop(std::fs::remove_file(&new));
    }
    written
}
