//! What is asked of people, and their answers: permissions, questions, handoffs.

use recount_api::reply::{Approval, Clarification, Handoff, Page};
use recount_api::request::{AcknowledgeHandoff, AnswerClarification, RejectHandoff, ResolveApproval};

use super::{Client, Listing};
use crate::error::ClientError;

impl Client {
    pub async fn list_approvals(&self, listing: &Listing) -> Result<Page<Approval>, ClientError> {
        self.list(self.at(&["approvals"]), listing).await
    }

    pub async fn get_approval(&self, approval: &str) -> Result<Approval, ClientError> {
        self.get_one(self.at(&["approvals", approval])).await
    }

    pub async fn resolve_approval(
        &self,
        approval: &str,
        request: &ResolveApproval,
    ) -> Result<Approval, ClientError> {
        self.post(self.at(&["approvals", approval, "resolve"]), request).await
    }

    pub async fn list_clarifications(&self, listing: &Listing) -> Result<Page<Clarification>, ClientError> {
        self.list(self.at(&["clarifications"]), listing).await
    }

    pub async fn get_clarification(&self, clarification: &str) -> Result<Clarification, ClientError> {
        self.get_one(self.at(&["clarifications", clarification])).await
    }

    pub async fn answer_clarification(
        &self,
        clarification: &str,
        request: &AnswerClarification,
    ) -> Result<Clarification, ClientError> {
        self.post(self.at(&["clarifications", clarification, "answer"]), request).await
    }

    pub async fn list_handoffs(&self, listing: &Listing) -> Result<Page<Handoff>, ClientError> {
        self.list(self.at(&["handoffs"]), listing).await
    }

    /// One handoff, with what was packed for who takes over.
    pub async fn get_handoff(&self, handoff: &str) -> Result<Handoff, ClientError> {
        self.get_one(self.at(&["handoffs", handoff])).await
    }

    /// Takes over from the agent.
    pub async fn acknowledge_handoff(
        &self,
        handoff: &str,
        request: &AcknowledgeHandoff,
    ) -> Result<Handoff, ClientError> {
        self.post(self.at(&["handoffs", handoff, "acknowledge"]), request).await
    }

    /// Says that nobody will take over.
    pub async fn reject_handoff(
        &self,
        handoff: &str,
        request: &RejectHandoff,
    ) -> Result<Handoff, ClientError> {
        self.post(self.at(&["handoffs", handoff, "reject"]), request).await
    }
}
