//! Prompts of all kinds and their answers; allowances, and verdicts of the policy.

use recount_api::prompt::{Prompt, PromptAnswer};
use recount_api::query;
use recount_api::reply::{Allowance, Page, PolicyVerdict};
use recount_api::request::ExtendPrompt;

use reqwest::Method;

use super::address::Address;
use super::{Client, Listing};
use crate::boxed;
use crate::error::ClientError;

impl Client {
    /// The routes of one kind of prompts.
    fn prompts<P: Prompt>(&self, path: &[&str]) -> Address {
        let collection = format!("{}s", P::KIND.as_str());
        self.at(&[&[collection.as_str()][..], path].concat())
    }

    #[boxed]
    pub async fn list_prompts<P: Prompt>(&self, listing: &Listing) -> Result<Page<P>, ClientError> {
        self.list(self.prompts::<P>(&[]), listing).await
    }

    /// One prompt; a handoff with its context for the takeover.
    #[boxed]
    pub async fn get_prompt<P: Prompt>(&self, id: &str) -> Result<P, ClientError> {
        self.get_one(self.prompts::<P>(&[id])).await
    }

    #[boxed]
    pub async fn answer_prompt<A: PromptAnswer>(
        &self,
        id: &str,
        answer: &A,
    ) -> Result<A::Prompt, ClientError> {
        self.post(self.prompts::<A::Prompt>(&[id, A::VERB]), answer).await
    }

    /// Moves the deadline of a prompt.
    #[boxed]
    pub async fn extend_prompt<P: Prompt>(&self, id: &str, request: &ExtendPrompt) -> Result<P, ClientError> {
        self.post(self.prompts::<P>(&[id, "extend"]), request).await
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
}
