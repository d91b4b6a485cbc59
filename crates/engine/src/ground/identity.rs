//! Callers, their scopes, and the tasks and sessions that they may access.
//!
//! Faces check [`Caller`] before every operation. It must not depend on token secrets, headers or routes.

use std::collections::BTreeSet;
use std::time::Duration;

use recount_event::{SessionId, TaskId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A permission of a caller. No scope includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Read tasks, runs, events and prompts.
    Read,
    /// Create and cancel tasks and runs.
    Run,
    /// Answer prompts: approvals, clarifications, handoffs.
    Approve,
    /// Create external runs and append to them.
    Ingest,
    /// Administration: tokens, retention, imports, backups.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 5] = [Scope::Read, Scope::Run, Scope::Approve, Scope::Ingest, Scope::Admin];

    /// The wire name.
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Run => "run",
            Scope::Approve => "approve",
            Scope::Ingest => "ingest",
            Scope::Admin => "admin",
        }
    }
}

/// The only tasks and sessions that a caller may access. Empty: all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Narrowing {
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub tasks: BTreeSet<TaskId>,
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub sessions: BTreeSet<SessionId>,
}

impl Narrowing {
    pub fn is_none(&self) -> bool {
        self.tasks.is_empty() && self.sessions.is_empty()
    }

    /// Whether an item of this task and session is accessible.
    pub fn admits(&self, task: Option<TaskId>, session: Option<SessionId>) -> bool {
        self.is_none()
            || task.is_some_and(|task| self.tasks.contains(&task))
            || session.is_some_and(|session| self.sessions.contains(&session))
    }
}

/// The caller of a request. Cloned once for each request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// A unique id; for a token, the token id.
    pub id: String,
    /// The name in the log.
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub narrowing: Narrowing,
    /// Becomes true when the token is revoked. `None`: cannot be revoked.
    revoked: Option<watch::Receiver<bool>>,
    /// The time until the token expires.
    expires_in: Option<Duration>,
}

impl Caller {
    /// The local operator, who needs no token.
    pub fn operator() -> Self {
        Caller {
            id: "operator".into(),
            name: "operator".into(),
            scopes: Scope::ALL.into(),
            narrowing: Narrowing::default(),
            revoked: None,
            expires_in: None,
        }
    }

    pub fn new(
        id: String,
        name: String,
        scopes: BTreeSet<Scope>,
        narrowing: Narrowing,
        revoked: watch::Receiver<bool>,
        expires_in: Option<Duration>,
    ) -> Self {
        Caller { id, name, scopes, narrowing, revoked: Some(revoked), expires_in }
    }

    /// A user of this machine, as the operating system identifies it, without a token.
    pub fn local_user(id: String, name: String, scopes: BTreeSet<Scope>) -> Self {
        Caller { id, name, scopes, ..Caller::operator() }
    }

    /// Whether a token names the caller. Without one, every program of the same user of this machine is the same caller.
    pub fn has_token(&self) -> bool {
        self.revoked.is_some()
    }

    /// The same caller with at most one scope.
    #[must_use]
    pub fn only(mut self, scope: Scope) -> Self {
        self.scopes.retain(|held| *held == scope);
        self
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns when the caller loses access. Never returns for the local operator.
    pub async fn revoked(&mut self) {
        let Some(revoked) = &mut self.revoked else { return std::future::pending().await };
        // A dropped sender also counts as revoked.
        let revoked = async { drop(revoked.wait_for(|revoked| *revoked).await) };
        match self.expires_in {
            Some(expires_in) => drop(tokio::time::timeout(expires_in, revoked).await),
            None => revoked.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_admits_its_tasks_and_sessions() {
        let task = |text: &str| text.parse::<TaskId>().unwrap();
        let (ours, other) =
            (task("task_01JZZZZZZZZZZZZZZZZZZZZZZZ"), task("task_01JYYYYYYYYYYYYYYYYYYYYYYY"));
        let session: SessionId = "chat_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap();
        let all = Narrowing::default();
        assert!(all.admits(None, None) && all.admits(Some(other), None));
        let narrow = Narrowing { tasks: [ours].into(), sessions: [session].into() };
        assert!(narrow.admits(Some(ours), None) && narrow.admits(Some(other), Some(session)));
        assert!(!narrow.admits(Some(other), None) && !narrow.admits(None, None));
    }

    #[tokio::test]
    async fn a_revoked_caller_is_notified() {
        let (revoke, revoked) = watch::channel(false);
        let mut caller =
            Caller::new("t".into(), "t".into(), [Scope::Read].into(), Narrowing::default(), revoked, None);
        assert!(caller.may(Scope::Read) && !caller.may(Scope::Admin));
        revoke.send_replace(true);
        caller.revoked().await;
    }
}
