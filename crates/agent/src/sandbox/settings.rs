//! Settings of the section `[sandbox]` in the configuration.
//!
//! Only values; [`Sandbox::probe`](super::Sandbox::probe) applies them to the machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::limits;

/// The requested layer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Bubblewrap if it works, otherwise Landlock if it works, otherwise an error.
    #[default]
    Auto,
    Bubblewrap,
    Landlock,
    /// Commands run with all rights of the server.
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
            other => Err(format!("unknown sandbox `{other}`; use auto, bubblewrap, landlock or off")),
        }
    }
}

/// The access and the limits of commands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SandboxSettings {
    pub mode: Mode,
    /// Whether commands run only if the layer has no gaps.
    pub strict: bool,
    /// Additional readable paths, such as `~/.cargo`; `~` is the home of the server's user.
    pub readable: Vec<PathBuf>,
    /// Hidden paths inside readable ones.
    pub hidden: Vec<PathBuf>,
    /// Environment variables of commands, in addition to the default ones.
    pub environment: BTreeMap<String, String>,
    /// Memory of all processes of a command. A command that exceeds it is killed.
    pub memory_bytes: u64,
    /// Processes and threads of a command. A command that exceeds it is killed.
    pub processes: u32,
    /// Maximum size of a file that a command writes.
    pub file_bytes: u64,
    /// Size of the private `/tmp`, if it is in memory.
    pub tmp_bytes: u64,
    /// Disk usage of a workspace. A command that exceeds it is killed.
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
