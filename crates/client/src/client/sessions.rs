//! Agents, sessions, and the runs of a session.

use recount_api::query;
use recount_api::reply::{Agent, Message, Page, Run, Session, SessionDeleted};
use recount_api::request::{CreateSession, SendMessage};
use reqwest::Method;

use super::{Client, Listing};
use crate::boxed;
use crate::error::ClientError;

impl Client {
    /// The agents that the server knows by name.
    #[boxed]
    pub async fn list_agents(&self) -> Result<Page<Agent>, ClientError> {
        self.page(self.at(&["agents"])).await
    }

    #[boxed]
    pub async fn create_session(&self, request: &CreateSession) -> Result<Session, ClientError> {
        self.post(self.at(&["sessions"]), request).await
    }

    #[boxed]
    pub async fn list_sessions(&self, listing: &Listing) -> Result<Page<Session>, ClientError> {
        self.list(self.at(&["sessions"]), listing).await
    }

    #[boxed]
    pub async fn get_session(&self, session: &str) -> Result<Session, ClientError> {
        self.get_one(self.at(&["sessions", session])).await
    }

    /// Deletes a session and erases its runs.
    #[boxed]
    pub async fn delete_session(&self, session: &str) -> Result<SessionDeleted, ClientError> {
        self.ask(Method::DELETE, self.at(&["sessions", session])).await
    }

    /// Sends a message to a session; the new run answers it.
    #[boxed]
    pub async fn send_message(&self, session: &str, request: &SendMessage) -> Result<Run, ClientError> {
        self.post(self.at(&["sessions", session, "messages"]), request).await
    }

    /// The messages of a session, oldest first.
    #[boxed]
    pub async fn list_messages(
        &self,
        session: &str,
        listing: &Listing,
    ) -> Result<Page<Message>, ClientError> {
        self.list(self.at(&["sessions", session, "messages"]), listing).await
    }

    /// The runs of a session, newest first.
    #[boxed]
    pub async fn list_session_runs(
        &self,
        session: &str,
        listing: &Listing,
    ) -> Result<Page<Run>, ClientError> {
        self.list(self.at(&["runs"]).with(query::SESSION_ID, Some(session)), listing).await
    }
}
