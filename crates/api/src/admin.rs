//! Admin requests under `/admin`: backup of the store, health checks.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::scope::Scope;

/// `POST /admin/backups`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MakeBackup {
    /// Name of the new folder below `backups` in the data folder; the time if missing.
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

/// The result of one check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    Fine,
    /// Worth knowing; nothing is wrong.
    Note,
    Problem,
    /// A result that only a later release knows.
    #[serde(other)]
    #[schemars(skip)]
    Other,
}

/// One check of the doctor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    pub name: String,
    pub status: Status,
    /// What was found.
    pub value: String,
    /// What to do, if something can be done.
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
    /// The name of the caller in the log.
    pub name: String,
    pub scopes: Vec<Scope>,
    /// The tenant that the token is for; the caller's own if missing. A new tenant is created.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The only tasks that it may access; all if `sessions` is empty, too.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The only sessions that it may access.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sessions: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_seconds: Option<u64>,
    /// How many requests it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requests_per_second: Option<u32>,
}

/// A token, without its secret.
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

/// A new token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AddedToken {
    /// What to send as `authorization: Bearer`. It is shown only once.
    pub secret: String,
    #[serde(flatten)]
    pub token: Token,
}

/// A token that was revoked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Removed {
    pub id: String,
}

/// A webhook, without its URL and secrets, and how far it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WebhookProgress {
    pub name: String,
    pub tenant: String,
    pub format: String,
    /// `active`, `failing`, `disabled` or `waiting`: its tenant does not exist yet, or its progress is not read yet.
    pub state: String,
    /// The position of the feed up to which every event was delivered, given up or not selected.
    pub position: u64,
    pub delivered: u64,
    /// Events that were given up, those that were sent again later included.
    pub given_up: u64,
    /// Dead letters that are stored.
    pub dead_letters: u64,
    /// When the receiver ended the deliveries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disabled_at: Option<String>,
    /// Since when deliveries fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<String>,
    /// Why the newest delivery failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// An event that a webhook gave up.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeadLetter {
    pub event_id: String,
    pub run_id: String,
    #[serde(rename = "type")]
    pub type_name: String,
    pub position: u64,
    pub occurred_at: String,
    pub given_up_at: String,
    pub attempts: u32,
    /// Why the last attempt failed.
    pub reason: String,
}

/// `POST /admin/webhooks/{webhook}/deliveries`
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequestDelivery {
    /// The event of a dead letter. If missing, a test message is sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_id: Option<String>,
}

/// The result of a requested delivery: one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Delivery {
    pub webhook: String,
    pub event_id: String,
    pub delivered: bool,
    /// Why it was not delivered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// `POST /v1/tickets`
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AskTicket {
    /// The path of a stream, such as `/v1/events/stream`.
    #[schemars(extend("pattern" = "^/[^?#]*$", "maxLength" = 512))]
    pub path: String,
}

/// Opens one stream for clients that cannot send headers: send it as the query parameter `ticket`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ticket {
    pub ticket: String,
    pub path: String,
    /// After its first use it is valid for the same reader for an hour.
    pub redeem_within_seconds: u64,
}

/// `GET /.well-known/recount-keys`: the keys that sign heads of runs, as a set of JSON Web Keys.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SigningKeys {
    pub keys: Vec<SigningKey>,
}

/// A public key that signs heads, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SigningKey {
    pub kty: String,
    pub crv: String,
    /// The public key, as base64url.
    pub x: String,
    /// The thumbprint of the key (RFC 7638).
    pub kid: String,
    pub created_at: String,
    /// When another key replaced it; its private part was deleted then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retired_at: Option<String>,
}
