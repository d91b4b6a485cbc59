//! Who asks, and what they may do.
//!
//! Faces ask [`Caller`] before they do anything; who a caller is, is found out before they are reached. It
//! knows nothing of tokens' secrets, of headers or of routes.

use std::collections::BTreeSet;
use std::time::Duration;

use recount_event::{SessionId, TaskId};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

/// A kind of action that a caller may be allowed. None of them includes another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// See tasks, runs, events and what is asked of people.
    Read,
    /// Create and cancel tasks and runs.
    Run,
    /// Answer what runs ask: permissions, questions, handoffs.
    Approve,
    /// Create external runs and append to them.
    Ingest,
    /// Keep the house: tokens, retention, imports, backups.
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 5] = [Scope::Read, Scope::Run, Scope::Approve, Scope::Ingest, Scope::Admin];

    /// As on the wire.
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

/// The only tasks and sessions that a caller may touch. Empty: all there are.
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

    /// Whether something of this task and this session lies within.
    pub fn admits(&self, task: Option<TaskId>, session: Option<SessionId>) -> bool {
        self.is_none()
            || task.is_some_and(|task| self.tasks.contains(&task))
            || session.is_some_and(|session| self.sessions.contains(&session))
    }
}

/// The caller of a request. Cheap to clone where it matters: once a request.
#[derive(Debug, Clone)]
pub struct Caller {
    /// What tells it from every other: of a token, its id.
    pub id: String,
    /// What the log says of who did it.
    pub name: String,
    pub scopes: BTreeSet<Scope>,
    pub narrowing: Narrowing,
    /// Turns true when what the caller came with is taken back. `None`: it never is.
    revoked: Option<watch::Receiver<bool>>,
    /// How long it is good for by itself.
    expires_in: Option<Duration>,
}

impl Caller {
    /// Who is trusted without a word: the operator at this machine.
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

    /// The same caller, who may do no more than one thing.
    #[must_use]
    pub fn only(mut self, scope: Scope) -> Self {
        self.scopes.retain(|held| *held == scope);
        self
    }

    pub fn may(&self, scope: Scope) -> bool {
        self.scopes.contains(&scope)
    }

    /// Returns when the caller may not go on; never for one who always may.
    pub async fn revoked(&mut self) {
        let Some(revoked) = &mut self.revoked else { return std::future::pending().await };
        // Who is not known any more is as good as revoked.
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
    fn what_lies_within() {
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
    async fn revoking_is_heard() {
        let (revoke, revoked) = watch::channel(false);
        let mut caller =
            Caller::new("t".into(), "t".into(), [Scope::Read].into(), Narrowing::default(), revoked, None);
        assert!(caller.may(Scope::Read) && !caller.may(Scope::Admin));
        revoke.send_replace(true);
        caller.revoked().await;
    }
}
