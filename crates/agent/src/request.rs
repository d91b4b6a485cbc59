//! Builds the request of a turn: model, system prompt, messages, pictures, tools and API key.
//!
//! It must not know how a provider encodes a request. Start with [`Worker::prepare`], which adds the events before the
//! turn, and [`Worker::request_for`], which builds the request after these are in the log.

use std::sync::Arc;

use recount_engine::{Error, Purpose};
use recount_event::family::error::{ModelCapabilityMissing, Upstream};
use recount_event::family::policy::ModelRewrote;
use recount_event::family::turn::Failed;
use recount_event::{Code, Draft, Payload};

use crate::agent::ChosenModel;
use crate::conversation::Conversation;
use crate::limits;
use crate::model::{Capability, Failure, Message, Part, Request, Secret, ToolSpec};
use crate::refused_context::CONTEXT_FULL;
use crate::worker::{WorkResult, Worker};

impl Worker {
    /// Adds the events before a turn: a rewritten model, missing capabilities, and a shortened conversation. Returns an
    /// estimate of the tokens to send.
    pub(crate) fn prepare(&mut self, chosen: &ChosenModel, opening: &mut Vec<Draft>) -> u64 {
        if !self.is_model_logged {
            self.is_model_logged = true;
            opening.extend(chosen.rewrote.as_ref().map(|(from, reason)| {
                let rewrote = ModelRewrote::new(from.clone(), chosen.model.clone(), reason.clone());
                Draft::from(Payload::PolicyModelRewrote(Box::new(rewrote)))
            }));
        }
        let added = self.with_drafts(Conversation::default(), opening);
        let mut tokens = self.conversation.tokens_estimate_with(&added);
        let has_pictures = self.conversation.has_pictures() || added.has_pictures();
        // Only a long conversation is copied.
        if let Some(above) = self.context_limit(chosen).filter(|above| tokens > *above) {
            let events = self.with_drafts(self.conversation.clone(), opening).shortening(above);
            opening.extend(events.into_iter().map(Draft::from));
            tokens = self.with_drafts(self.conversation.clone(), opening).tokens_estimate();
        }
        if !chosen.can(Capability::Tools) && !self.tool_specs().is_empty() {
            self.report_missing(chosen, "tool_use", "answers_without_tools", opening);
        }
        if has_pictures && !chosen.can(Capability::Images) {
            self.report_missing(chosen, "image_input", "told_that_there_is_a_picture", opening);
        }
        tokens
    }

    /// The maximum tokens to send: the limit of the run and of the model's settings, and less than the provider
    /// rejected.
    fn context_limit(&self, chosen: &ChosenModel) -> Option<u64> {
        let refused = self.refused.tokens.map(|tokens| tokens.saturating_sub(1));
        let budget = chosen.provides.context_tokens(&chosen.model);
        self.config.compact_above.into_iter().chain(budget).chain(refused).min()
    }

    /// Fails the turn in the log if its provider rejected the conversation as too long and it can be shortened. Returns
    /// whether it did. The logged failure gives the limit to the next worker, too.
    pub(crate) async fn shorten_after(
        &mut self,
        chosen: &ChosenModel,
        index: u64,
        failure: &Failure,
    ) -> WorkResult<bool> {
        let tokens = self.conversation.tokens_estimate();
        let is_last = self.refused.in_a_row + 1 >= limits::CONTEXT_REFUSALS_MAX;
        if failure.code != CONTEXT_FULL
            || is_last
            || self.conversation.shortening(tokens.saturating_sub(1)).is_empty()
        {
            return Ok(false);
        }
        let mut upstream = Upstream::new(chosen.provider.clone(), failure.message.clone(), false);
        upstream.status = failure.status.map(u64::from);
        let mut drafts = vec![Payload::ErrorUpstream(Box::new(upstream)).into()];
        drafts.extend(self.worker_session.state().cut_texts().into_iter().map(Draft::from));
        let failed = Failed::new(index, failure.code.to_owned(), failure.message.clone(), true);
        drafts.push(Payload::TurnFailed(Box::new(failed)).into());
        self.report(drafts).await?;
        Ok(true)
    }

    /// A conversation with the events that are about to be reported.
    fn with_drafts(&self, mut conversation: Conversation, opening: &[Draft]) -> Conversation {
        let (run, next) = (self.worker_session.run(), self.worker_session.state().next_sequence());
        for (draft, sequence) in opening.iter().zip(next..) {
            conversation.apply(&draft.payload, (run, sequence));
        }
        conversation
    }

    /// The request to the model, without content for which it lacks the capability.
    pub(crate) async fn request_for(&self, chosen: &ChosenModel, key: Option<Secret>) -> Arc<Request> {
        let mut pictures = None;
        if chosen.can(Capability::Images) {
            pictures =
                Some(self.agent.fetch_pictures(&self.worker_session, &self.conversation.pictures()).await);
        }
        let instructions = self.workspace_message().map(|text| Message::User(vec![Part::Text(text)]));
        let messages = instructions.into_iter().chain(self.conversation.messages(pictures.as_ref()));
        Arc::new(Request {
            model: chosen.model.clone(),
            system: self.system_prompt(),
            messages: messages.collect(),
            tools: self.tools_for(chosen),
            streams_call_inputs: self.agent.settings.experimental.input_deltas,
            max_output_tokens: self.config.max_output_tokens.unwrap_or(limits::OUTPUT_TOKENS_DEFAULT),
            key,
        })
    }

    pub(crate) fn tools_for(&self, chosen: &ChosenModel) -> Vec<ToolSpec> {
        if chosen.can(Capability::Tools) { self.tool_specs() } else { Vec::new() }
    }

    /// The base system prompt, then the system messages of the seed.
    fn system_prompt(&self) -> Option<String> {
        let texts: Vec<String> =
            self.base_system_prompt().into_iter().chain(self.conversation.system().iter().cloned()).collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// Reports, once per run, a capability that the model lacks.
    fn report_missing(
        &mut self,
        chosen: &ChosenModel,
        capability: &str,
        fallback: &str,
        opening: &mut Vec<Draft>,
    ) {
        if self.missing_logged.insert(capability.to_owned()) {
            let mut missing = ModelCapabilityMissing::new(chosen.model.clone(), capability.to_owned());
            missing.fallback_strategy = Some(fallback.to_owned());
            opening.push(Payload::ErrorModelCapabilityMissing(Box::new(missing)).into());
        }
    }

    /// The API key of the session or of its agent, if it replaces the key of the provider. `Err`: the key of the
    /// session can no longer be read.
    pub(crate) async fn key(&self) -> WorkResult<Result<Option<Secret>, String>> {
        let Some(option) = self.config.secrets.get(&Purpose::ApiKey) else { return Ok(Ok(None)) };
        let mut chosen = None;
        if let Some(session) = self.worker_session.state().session_id() {
            chosen = match self.worker_session.write().secret_option(session, option).await {
                Ok(chosen) => chosen,
                Err(Error::Failed(failure)) if failure.code == Code::StoreCorrupt => {
                    let run = self.worker_session.run();
                    tracing::warn!(%run, option, why = failure.message, "a secret option cannot be read");
                    return Ok(Err(format!(
                        "the value of the option {option} can no longer be read; set it again"
                    )));
                }
                Err(error) => return Err(error.into()),
            };
        }
        let default = || {
            let agent = self.queued.agent.as_ref()?;
            self.agent.profile(&agent.name)?.option(option).map(|option| option.default.clone())
        };
        let key = chosen.or_else(default).unwrap_or_default();
        Ok(Ok((!key.trim().is_empty()).then(|| Secret::new(key.trim()))))
    }
}
