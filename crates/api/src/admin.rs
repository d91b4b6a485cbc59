//! What operators ask a server: a copy of its store, and whether all is well. Under `/admin`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scope::Scope;

/// `POST /admin/backups`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeBackup {
    /// A new folder of this name is made below `backups` in the data folder; named by the time when this is left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = "^[A-Za-z0-9_-]+$", "minLength" = 1, "maxLength" = 64))]
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
    /// What only a later release knows of.
    #[serde(other)]
    #[schemars(skip)]
    Other,
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

/// `POST /admin/tokens`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddToken {
    /// What the log says of who comes with it.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// Whose things it is for; one's own when this is left out. A tenant that is new is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The only tasks it is for; with `sessions` empty too: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The only sessions it is for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
    /// How often it may ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

/// A token, without what makes it good.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Token {
    pub id: String,
    pub tenant: String,
    pub name: String,
    pub scopes: Vec<Scope>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    pub created_at: String,
    pub created_by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

/// A token that was just made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddedToken {
    /// Said this once and never again: what to send as `authorization: Bearer`.
    pub secret: String,
    #[serde(flatten)]
    pub token: Token,
}

/// A token that is good no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    pub id: String,
}

/// `POST /v1/tickets`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskTicket {
    /// The path of a stream, such as `/v1/events/stream`.
    #[schemars(extend("pattern" = "^/[^?#]*$", "maxLength" = 512))]
    pub path: String,
}

/// Opens one stream for readers that cannot send headers: send it as the query parameter `ticket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ticket {
    pub ticket: String,
    pub path: String,
    /// Then it is good for the same reader for an hour.
    pub redeem_within_seconds: u64,
}
