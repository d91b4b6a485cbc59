//! What a model is asked in a turn: who is told what, with which pictures, under whose key, and what it cannot do.
//!
//! Look at [`Worker::prepare`], which says what is to be written down before the turn begins, and
//! [`Worker::request_for`], which makes the request when that is there.

use std::sync::Arc;

use recount_engine::{Error, Purpose};
use recount_event::family::error::{ModelCapabilityMissing, Upstream};
use recount_event::family::policy::ModelRewrote;
use recount_event::family::turn::Failed;
use recount_event::{Code, Draft, Payload};

use crate::agent::Chosen;
use crate::conversation::Conversation;
use crate::limits;
use crate::model::{Capability, Failure, Message, Part, Request, Secret, ToolSpec};
use crate::refused_context::CONTEXT_FULL;
use crate::worker::{Done, Worker};

impl Worker {
    /// Adds what is to be told before a turn begins: who answers instead of whom, what they cannot do, and what of a long
    /// conversation they are told only in short. Answers about how many tokens the model will be sent.
    pub(crate) fn prepare(&mut self, chosen: &Chosen, opening: &mut Vec<Draft>) -> u64 {
        if !self.model_told {
            self.model_told = true;
            opening.extend(chosen.rewrote.as_ref().map(|(from, reason)| {
                let rewrote = ModelRewrote::new(from.clone(), chosen.model.clone(), reason.clone());
                Draft::from(Payload::PolicyModelRewrote(Box::new(rewrote)))
            }));
        }
        let said = self.taking(Conversation::default(), opening);
        let mut tokens = self.conversation.tokens_estimate_with(&said);
        let has_pictures = self.conversation.has_pictures() || said.has_pictures();
        // Only a long one is looked at as a whole: it would have to be copied for it.
        if let Some(above) = self.context_bound(chosen).filter(|above| tokens > *above) {
            let events = self.taking(self.conversation.clone(), opening).shortening(above);
            opening.extend(events.into_iter().map(Draft::from));
            tokens = self.taking(self.conversation.clone(), opening).tokens_estimate();
        }
        if !chosen.can(Capability::Tools) && !self.tool_specs().is_empty() {
            self.missing(chosen, "tool_use", "answers_without_tools", opening);
        }
        if has_pictures && !chosen.can(Capability::Images) {
            self.missing(chosen, "image_input", "told_that_there_is_a_picture", opening);
        }
        tokens
    }

    /// The most tokens that the model is sent: what the order and the model's settings say, and less than what its
    /// provider refused.
    fn context_bound(&self, chosen: &Chosen) -> Option<u64> {
        let refused = self.refused.tokens.map(|tokens| tokens.saturating_sub(1));
        let budget = chosen.provides.context_tokens(&chosen.model);
        self.order.compact_above.into_iter().chain(budget).chain(refused).min()
    }

    /// Whether a turn starts again with a shorter conversation after its provider refused this one as too long. If so,
    /// the turn has failed in the log, from which the next worker learns the bound, too.
    pub(crate) async fn shortens_after(
        &mut self,
        chosen: &Chosen,
        index: u64,
        failure: &Failure,
    ) -> Done<bool> {
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
        drafts.extend(self.desk.state().cut_texts().into_iter().map(Draft::from));
        let failed = Failed::new(index, failure.code.to_owned(), failure.message.clone(), true);
        drafts.push(Payload::TurnFailed(Box::new(failed)).into());
        self.report(drafts).await?;
        Ok(true)
    }

    /// A conversation with what is about to be reported.
    fn taking(&self, mut conversation: Conversation, opening: &[Draft]) -> Conversation {
        let (run, next) = (self.desk.run(), self.desk.state().next_sequence());
        for (draft, sequence) in opening.iter().zip(next..) {
            conversation.take(&draft.payload, (run, sequence));
        }
        conversation
    }

    /// What the model is asked. What it cannot do is left out.
    pub(crate) async fn request_for(&self, chosen: &Chosen, key: Option<Secret>) -> Arc<Request> {
        let mut pictures = None;
        if chosen.can(Capability::Images) {
            pictures = Some(self.agent.fetch(&self.desk, &self.conversation.pictures()).await);
        }
        let instructions = self.workspace_words().map(|words| Message::User(vec![Part::Text(words)]));
        let messages = instructions.into_iter().chain(self.conversation.messages(pictures.as_ref()));
        Arc::new(Request {
            model: chosen.model.clone(),
            system: self.system(),
            messages: messages.collect(),
            tools: self.tools_for(chosen),
            wants_inputs: self.agent.settings.experimental.input_deltas,
            max_output_tokens: self.order.max_output_tokens.unwrap_or(limits::OUTPUT_TOKENS_DEFAULT),
            key,
        })
    }

    pub(crate) fn tools_for(&self, chosen: &Chosen) -> Vec<ToolSpec> {
        if chosen.can(Capability::Tools) { self.tool_specs() } else { Vec::new() }
    }

    /// What the model is told before the conversation: its agent's words, then what the session began with.
    fn system(&self) -> Option<String> {
        let words: Vec<String> =
            self.own_system().into_iter().chain(self.conversation.system().iter().cloned()).collect();
        (!words.is_empty()).then(|| words.join("\n\n"))
    }

    /// Tells, once a run, what the model cannot do.
    fn missing(&mut self, chosen: &Chosen, capability: &str, fallback: &str, opening: &mut Vec<Draft>) {
        if self.missing_told.insert(capability.to_owned()) {
            let mut missing = ModelCapabilityMissing::new(chosen.model.clone(), capability.to_owned());
            missing.fallback_strategy = Some(fallback.to_owned());
            opening.push(Payload::ErrorModelCapabilityMissing(Box::new(missing)).into());
        }
    }

    /// The key under which the provider is asked, where it is not the provider's own: what was chosen for the session,
    /// or else what the agent says. `Err`: it was chosen and cannot be read any more.
    pub(crate) async fn key(&self) -> Done<Result<Option<Secret>, String>> {
        let Some(option) = self.order.secrets.get(&Purpose::ApiKey) else { return Ok(Ok(None)) };
        let mut chosen = None;
        if let Some(session) = self.desk.state().session_id() {
            chosen = match self.desk.write().secret_option(session, option).await {
                Ok(chosen) => chosen,
                Err(Error::Failed(failure)) if failure.code == Code::StoreCorrupt => {
                    let run = self.desk.run();
                    tracing::warn!(%run, option, why = failure.message, "a secret option cannot be read");
                    return Ok(Err(format!(
                        "the value of the option {option} cannot be read any more; set it anew"
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
