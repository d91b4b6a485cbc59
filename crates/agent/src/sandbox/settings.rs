//! What an operator may choose: `[sandbox]` in the configuration.
//!
//! Only values; what they come to on this machine is [`Sandbox::probe`](super::Sandbox::probe)'s to find out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::limits;

/// Which layer is wanted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Bubblewrap where it works, else Landlock where it works, else nothing runs.
    #[default]
    Auto,
    Bubblewrap,
    Landlock,
    /// Commands run as the server does.
    Off,
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(word: &str) -> Result<Mode, String> {
        match word {
            "auto" => Ok(Mode::Auto),
            "bubblewrap" => Ok(Mode::Bubblewrap),
            "landlock" => Ok(Mode::Landlock),
            "off" => Ok(Mode::Off),
            other => Err(format!("`{other}` is no sandbox; say auto, bubblewrap, landlock or off")),
        }
    }
}

/// What commands may see and use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    pub mode: Mode,
    /// Whether commands run only where the layer keeps in all that it could.
    pub strict: bool,
    /// More that may be read, such as `~/.cargo`; a `~` is the home of who runs the server.
    pub readable: Vec<PathBuf>,
    /// What may not be seen although it lies below something that may.
    pub hidden: Vec<PathBuf>,
    /// Variables that commands find, besides the few that every command does.
    pub environment: BTreeMap<String, String>,
    /// Memory of all processes of a command together; one that takes more is killed.
    pub memory_bytes: u64,
    /// Processes and threads of a command; one that starts more is killed.
    pub processes: u32,
    /// The longest file that a command may write.
    pub file_bytes: u64,
    /// What the private `/tmp` holds, where it is memory.
    pub tmp_bytes: u64,
    /// What a workspace may hold; a command that writes more is killed.
    pub workspace_bytes: u64,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        SandboxSettings {
            mode: Mode::Auto,
            strict: false,
            readable: Vec::new(),
            hidden: Vec::new(),
            environment: BTreeMap::new(),
            memory_bytes: limits::COMMAND_MEMORY_BYTES,
            processes: limits::COMMAND_PROCESSES,
            file_bytes: limits::COMMAND_FILE_BYTES,
            tmp_bytes: limits::COMMAND_TMP_BYTES,
            workspace_bytes: limits::COMMAND_WORKSPACE_BYTES,
        }
    }
}
