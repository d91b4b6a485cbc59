//! Prompts and their answers: approvals, questions, handoffs; and verdicts of the policy.

use recount_api::query;
use recount_api::reply::{Allowance, Approval, Clarification, Handoff, Page, PolicyVerdict};
use recount_api::request::{
    AcknowledgeHandoff, AnswerClarification, ExtendPrompt, RejectHandoff, ResolveApproval,
};

use reqwest::Method;

use super::{Client, Listing};
use crate::boxed;
use crate::error::ClientError;

impl Client {
    #[boxed]
    pub async fn list_approvals(&self, listing: &Listing) -> Result<Page<Approval>, ClientError> {
        self.list(self.at(&["approvals"]), listing).await
    }

    #[boxed]
    pub async fn get_approval(&self, approval: &str) -> Result<Approval, ClientError> {
        self.get_one(self.at(&["approvals", approval])).await
    }

    #[boxed]
    pub async fn resolve_approval(
        &self,
        approval: &str,
        request: &ResolveApproval,
    ) -> Result<Approval, ClientError> {
        self.post(self.at(&["approvals", approval, "resolve"]), request).await
    }

    /// Returns the verdict of the server's policy about a call of this tool by another agent.
    #[boxed]
    pub async fn judge_mcp_call(
        &self,
        server: &str,
        tool: &str,
        destructive: bool,
    ) -> Result<PolicyVerdict, ClientError> {
        let address = self.at(&["policy", "mcp", server, tool]);
        self.get_one(address.with(query::DESTRUCTIVE, destructive.then_some(true))).await
    }

    /// What is always allowed, as far as it reaches so far, and was given in this run or session.
    #[boxed]
    pub async fn list_allowances(
        &self,
        listing: &Listing,
        scope: Option<&str>,
        run: Option<&str>,
        session: Option<&str>,
    ) -> Result<Page<Allowance>, ClientError> {
        let address = self.at(&["allowances"]).with(query::SCOPE, scope);
        self.list(address.with(query::RUN_ID, run).with(query::SESSION_ID, session), listing).await
    }

    /// Takes an allowance back, and answers what it was.
    #[boxed]
    pub async fn take_back_allowance(&self, allowance: &str) -> Result<Allowance, ClientError> {
        self.ask(Method::DELETE, self.at(&["allowances", allowance])).await
    }

    #[boxed]
    pub async fn list_clarifications(&self, listing: &Listing) -> Result<Page<Clarification>, ClientError> {
        self.list(self.at(&["clarifications"]), listing).await
    }

    #[boxed]
    pub async fn get_clarification(&self, clarification: &str) -> Result<Clarification, ClientError> {
        self.get_one(self.at(&["clarifications", clarification])).await
    }

    #[boxed]
    pub async fn answer_clarification(
        &self,
        clarification: &str,
        request: &AnswerClarification,
    ) -> Result<Clarification, ClientError> {
        self.post(self.at(&["clarifications", clarification, "answer"]), request).await
    }

    #[boxed]
    pub async fn list_handoffs(&self, listing: &Listing) -> Result<Page<Handoff>, ClientError> {
        self.list(self.at(&["handoffs"]), listing).await
    }

    /// One handoff, with its context for the takeover.
    #[boxed]
    pub async fn get_handoff(&self, handoff: &str) -> Result<Handoff, ClientError> {
        self.get_one(self.at(&["handoffs", handoff])).await
    }

    /// Takes over from the agent.
    #[boxed]
    pub async fn acknowledge_handoff(
        &self,
        handoff: &str,
        request: &AcknowledgeHandoff,
    ) -> Result<Handoff, ClientError> {
        self.post(self.at(&["handoffs", handoff, "acknowledge"]), request).await
    }

    /// Declines a handoff.
    #[boxed]
    pub async fn reject_handoff(
        &self,
        handoff: &str,
        request: &RejectHandoff,
    ) -> Result<Handoff, ClientError> {
        self.post(self.at(&["handoffs", handoff, "reject"]), request).await
    }

    /// Moves the deadline of an approval.
    #[boxed]
    pub async fn extend_approval(
        &self,
        approval: &str,
        request: &ExtendPrompt,
    ) -> Result<Approval, ClientError> {
        self.post(self.at(&["approvals", approval, "extend"]), request).await
    }

    /// Moves the deadline of a question.
    #[boxed]
    pub async fn extend_clarification(
        &self,
        clarification: &str,
        request: &ExtendPrompt,
    ) -> Result<Clarification, ClientError> {
        self.post(self.at(&["clarifications", clarification, "extend"]), request).await
    }

    /// Moves the deadline of a handoff.
    #[boxed]
    pub async fn extend_handoff(
        &self,
        handoff: &str,
        request: &ExtendPrompt,
    ) -> Result<Handoff, ClientError> {
        self.post(self.at(&["handoffs", handoff, "extend"]), request).await
    }
}
