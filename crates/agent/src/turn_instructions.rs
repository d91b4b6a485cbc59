//! Instructions before the conversation: the default system prompt, and the instruction files of the workspace.
//!
//! Both are determined on the first turn of a run and recorded with it. Later turns use the record, so a worker that
//! takes over sends the same. It must never depend on providers. Start with [`Worker::add_instructions`].

use recount_event::family::turn::{Instruction, InstructionSource, Started};
use recount_world::Kind;

use crate::agent::ChosenModel;
use crate::instructions::{self, WorkspaceInstructions};
use crate::paths::{PathError, Root};
use crate::system::{SystemFacts, WorkspaceFacts, default_system};
use crate::worker::Worker;
use crate::workspace::IN_PLACE;

impl Worker {
    /// Adds the instructions to the first turn of a run.
    pub(crate) async fn add_instructions(&self, chosen: &ChosenModel, started: &mut Started) {
        if self.instructions.is_some() {
            return;
        }
        let mut instructions: Vec<Instruction> = self.default_prompt(chosen).into_iter().collect();
        let WorkspaceInstructions { files, is_incomplete } = self.workspace_instructions().await;
        instructions.extend(files);
        started.instructions = (!instructions.is_empty()).then_some(instructions);
        started.instructions_incomplete = is_incomplete.then_some(true);
    }

    /// The system prompt of the run's configuration, else of the server's configuration, else the recorded default.
    pub(crate) fn base_system_prompt(&self) -> Option<String> {
        let configured = self.config.system.as_deref().or_else(|| self.agent.system());
        let recorded = || {
            let all = self.instructions.as_deref().unwrap_or_default();
            all.iter().find(|entry| entry.source == InstructionSource::Default)?.text.as_deref()
        };
        configured.or_else(recorded).filter(|text| !text.trim().is_empty()).map(str::to_owned)
    }

    /// The instructions of the workspace as a user message.
    pub(crate) fn workspace_message(&self) -> Option<String> {
        instructions::message(self.instructions.as_deref()?)
    }

    fn default_prompt(&self, chosen: &ChosenModel) -> Option<Instruction> {
        if self.config.system.is_some() || self.agent.system().is_some() {
            return None;
        }
        let tools = self.tools_for(chosen);
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
        let in_place = self.queued.workspace_mode.as_deref() == Some(IN_PLACE);
        let workspace = match self.config.workspace_source {
            _ if !self.needs_workspace() => WorkspaceFacts::None,
            _ if in_place => WorkspaceFacts::InPlace,
            Some(_) => WorkspaceFacts::Copy,
            None => WorkspaceFacts::Empty,
        };
        let commands = self.agent.command_facts(&self.config, &names);
        let text = default_system(&SystemFacts { tools: &names, workspace, commands });
        let mut prompt = instructions::entry(InstructionSource::Default, text.len() as u64);
        prompt.sha256 = Some(instructions::sha256(text.as_bytes()));
        prompt.text = Some(text);
        Some(prompt)
    }

    async fn workspace_instructions(&self) -> WorkspaceInstructions {
        let terms = self.terms.as_ref().filter(|_| self.needs_workspace());
        let Some(terms) = terms.filter(|_| self.agent.reads_instructions(&self.config)) else {
            return WorkspaceInstructions::default();
        };
        let root = terms.root.clone();
        let read = move || -> Result<WorkspaceInstructions, PathError> {
            Ok(instructions::read(&Root::open(&root)?))
        };
        let incomplete = || WorkspaceInstructions { is_incomplete: true, ..WorkspaceInstructions::default() };
        match self.worker_session.world().tasks.block(Kind::Effect, read).await {
            Ok(Ok(found)) => found,
            Ok(Err(why)) => {
                let run = self.worker_session.run();
                tracing::warn!(
                    %run, %why,
                    "the instruction files of a workspace cannot be read; the run continues without them"
                );
                incomplete()
            }
            // The server is stopping.
            Err(_) => incomplete(),
        }
    }
}
