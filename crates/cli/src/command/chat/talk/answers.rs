//! Answers open calls: by rule, by the person at the terminal, or with an error for unknown tools.

use recount_client::aap::OpenCall;
use recount_client::aap::wire::{Content, TurnMessage};

use super::Talk;
use crate::command::chat::prompt_line::Leave;
use crate::command::chat::typed::{Input, ask};
use crate::failure::Failure;
use crate::output::{aside, note};
use crate::render::chat as words;

/// What is allowed without asking anybody here.
pub(in crate::command::chat) struct Consent {
    pub(in crate::command::chat) all: bool,
    pub(in crate::command::chat) names: Vec<String>,
}

impl Consent {
    fn allows(&self, name: &str) -> bool {
        self.all || self.names.iter().any(|allowed| allowed == name)
    }
}

impl Talk {
    /// Answers to all that is open, in one; `None` when the person leaves instead.
    pub(super) async fn answers(&mut self) -> Result<Option<Vec<TurnMessage>>, Failure> {
        let mut results = Vec::new();
        let mut permissions = Vec::new();
        for call in self.open.clone() {
            self.printer.remember(&call.tool_call_id, &call.name);
            let tool_call_id = call.tool_call_id.clone();
            if self.is_clients(&call) {
                let content = Content::Text(format!("Unknown tool: {}", call.name));
                results.push(TurnMessage::Tool { tool_call_id, content });
                continue;
            }
            let (granted, reason) = if self.consent.allows(&call.name) {
                note(&format!("{} is allowed by --allow or --yes", call.name));
                (true, None)
            } else if self.asks {
                match self.ask_leave(&call).await? {
                    Leave::Granted => (true, None),
                    Leave::Denied(reason) => (false, reason),
                    Leave::Quit | Leave::Unclear => return Ok(None),
                }
            } else {
                note(&format!(
                    "{} is denied: there is no terminal to prompt on, and --allow does not name it",
                    call.name
                ));
                (false, Some("no user was available to approve the call".to_owned()))
            };
            permissions.push(TurnMessage::ToolPermission { tool_call_id, granted, reason });
        }
        results.append(&mut permissions);
        Ok(Some(results))
    }

    /// Whether a call is for the application, which this is not: what is not named among its tools is the server's.
    pub(super) fn is_clients(&self, call: &OpenCall) -> bool {
        self.session.tools.iter().any(|tool| tool.name == call.name)
    }

    pub(super) fn is_ruled(&self, call: &OpenCall) -> bool {
        self.is_clients(call) || self.consent.allows(&call.name)
    }

    pub(super) async fn ask_leave(&mut self, call: &OpenCall) -> Result<Leave, Failure> {
        let tool = self.agent.tools.iter().find(|tool| tool.name == call.name);
        let description = tool.map(|tool| tool.description.as_str()).filter(|about| !about.is_empty());
        words::permission(call, description).iter().for_each(|line| note(line));
        loop {
            ask("Allow this call? [y]es / [n]o / n REASON:");
            let leave = match self.typed.next().await? {
                Input::Line(line) => Leave::read(&line),
                Input::End => Leave::Quit,
                Input::Interrupt => {
                    aside("\n");
                    self.leave()?;
                    return Err(Failure::Interrupted);
                }
            };
            match leave {
                Leave::Unclear => note("Type y, n, or n and a reason; nothing was decided."),
                leave => return Ok(leave),
            }
        }
    }
}
