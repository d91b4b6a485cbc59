//! What operators ask a server: a copy of its store, and whether all is well. Under `/admin`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `POST /admin/backups`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeBackup {
    /// A new folder of this name is made below `backups` in the data folder; named by the time when this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A copy of the whole store, as it was at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Backup {
    pub name: String,
    /// The folder, on the server's machine.
    pub path: String,
}

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Fine,
    /// Worth knowing; nothing is wrong.
    Note,
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    pub name: String,
    pub status: Status,
    /// What was found.
    pub value: String,
    /// What to do, where something can be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

/// `GET /admin/doctor`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Checkup {
    pub checks: Vec<Check>,
}

impl Check {
    pub fn fine(name: &str, value: impl Into<String>) -> Self {
        Check { name: name.to_owned(), status: Status::Fine, value: value.into(), advice: None }
    }

    pub fn note(name: &str, value: impl Into<String>, advice: impl Into<String>) -> Self {
        Check { status: Status::Note, advice: Some(advice.into()), ..Check::fine(name, value) }
    }

    pub fn problem(name: &str, value: impl Into<String>, advice: impl Into<String>) -> Self {
        Check { status: Status::Problem, advice: Some(advice.into()), ..Check::fine(name, value) }
    }
}
