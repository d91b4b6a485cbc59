//! What the server and the warden say to each other: one JSON value a line, over the warden's standard input.
//!
//! The server says [`Plan`] first, later perhaps [`Wish`]es; that the server is gone is a wish, too. The warden
//! answers with [`News`].

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What holds a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Layer {
    Bwrap,
    Landlock,
    Off,
}

impl Layer {
    pub fn name(self) -> &'static str {
        match self {
            Layer::Bwrap => "bwrap",
            Layer::Landlock => "landlock",
            Layer::Off => "off",
        }
    }
}

/// One command and everything that holds for it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Plan {
    pub(crate) layer: Layer,
    pub(crate) argv: Vec<String>,
    pub(crate) cwd: PathBuf,
    pub(crate) environment: Vec<(String, String)>,
    /// What may be written.
    pub(crate) workspace: PathBuf,
    /// What may be read, and what below that may not; all of them exist and are no symlinks.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) hidden: Vec<PathBuf>,
    /// Top folders that are symlinks here, such as `/bin`, and where they lead.
    pub(crate) links: Vec<(PathBuf, PathBuf)>,
    pub(crate) network: bool,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: u32,
    pub(crate) file_bytes: u64,
    pub(crate) tmp_bytes: u64,
    /// This program, for the stage inside of bubblewrap.
    pub(crate) helper: PathBuf,
    pub(crate) bwrap: Option<PathBuf>,
}

/// What the server wants of a warden.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wish {
    /// End the command: ask it first, and kill what is left of it after a while.
    Stop,
    /// Kill it.
    Kill,
}

/// What a warden has to tell.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum News {
    /// The command runs.
    Started,
    /// It does not, and nothing of it is left.
    NotStarted { why: String },
    /// It is over, and nothing of it is left.
    Ended(Exit),
}

/// How a command ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exit {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    /// Which bound it was killed at.
    pub limit: Option<Limit>,
}

/// A bound that is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    Memory,
    Processes,
}
