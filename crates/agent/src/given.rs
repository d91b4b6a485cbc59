//! What a model is given before the conversation, beside what the run's order says: the default system prompt and the
//! instructions of the workspace.
//!
//! Both are made on the first turn of a run and recorded with it; from then on the record counts, so that a worker that
//! takes over gives the model the same. It must never know providers. Entry point: [`Worker::give_instructions`].

use recount_event::family::turn::{Instruction, InstructionSource, Started};
use recount_world::Kind;

use crate::agent::Chosen;
use crate::instructions::{self, WorkspaceInstructions};
use crate::paths::{PathError, Root};
use crate::system::{SystemFacts, WorkspaceFacts, default_system};
use crate::worker::Worker;
use crate::workspace::IN_PLACE;

impl Worker {
    /// Adds to the first turn of a run what its model is given before the conversation.
    pub(crate) async fn give_instructions(&self, chosen: &Chosen, started: &mut Started) {
        if self.instructions.is_some() {
            return;
        }
        let mut given: Vec<Instruction> = self.default_prompt(chosen).into_iter().collect();
        let WorkspaceInstructions { files, is_incomplete } = self.workspace_instructions().await;
        given.extend(files);
        started.instructions = (!given.is_empty()).then_some(given);
        started.instructions_incomplete = is_incomplete.then_some(true);
    }

    /// The system prompt: what the order says, else what the server was told, else the default as it is recorded.
    pub(crate) fn own_system(&self) -> Option<String> {
        let said = self.order.system.as_deref().or_else(|| self.agent.system());
        let recorded = || {
            let all = self.instructions.as_deref().unwrap_or_default();
            all.iter().find(|given| given.source == InstructionSource::Default)?.text.as_deref()
        };
        said.or_else(recorded).filter(|text| !text.trim().is_empty()).map(str::to_owned)
    }

    /// What the model is told of the workspace's instructions, as words of the user.
    pub(crate) fn workspace_words(&self) -> Option<String> {
        instructions::message(self.instructions.as_deref()?)
    }

    fn default_prompt(&self, chosen: &Chosen) -> Option<Instruction> {
        if self.order.system.is_some() || self.agent.system().is_some() {
            return None;
        }
        let tools = self.tools_for(chosen);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let in_place = self.queued.workspace_mode.as_deref() == Some(IN_PLACE);
        let workspace = match self.order.workspace_source {
            _ if !self.needs_workspace() => WorkspaceFacts::None,
            _ if in_place => WorkspaceFacts::InPlace,
            Some(_) => WorkspaceFacts::Copy,
            None => WorkspaceFacts::Empty,
        };
        let commands = self.agent.command_facts(&self.order, &names);
        let text = default_system(&SystemFacts { tools: &names, workspace, commands });
        let mut prompt = instructions::entry(InstructionSource::Default, text.len() as u64);
        prompt.sha256 = Some(instructions::sha256(text.as_bytes()));
        prompt.text = Some(text);
        Some(prompt)
    }

    async fn workspace_instructions(&self) -> WorkspaceInstructions {
        let terms = self.terms.as_ref().filter(|_| self.needs_workspace());
        let Some(terms) = terms.filter(|_| self.agent.reads_instructions(&self.order)) else {
            return WorkspaceInstructions::default();
        };
        let root = terms.root.clone();
        let read = move || -> Result<WorkspaceInstructions, PathError> {
            Ok(instructions::read(&Root::open(&root)?))
        };
        let incomplete = || WorkspaceInstructions { is_incomplete: true, ..WorkspaceInstructions::default() };
        match self.desk.world().tasks.block(Kind::Effect, read).await {
            Ok(Ok(found)) => found,
            Ok(Err(why)) => {
                let run = self.desk.run();
                tracing::warn!(%run, %why, "the instructions of a workspace cannot be read; the run goes on without");
                incomplete()
            }
            // The server ends.
            Err(_) => incomplete(),
        }
    }
}
