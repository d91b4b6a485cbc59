//! Answers open calls: by rule, by the person at the terminal, or with an error for unknown tools.

use recount_client::aap::OpenCall;
use recount_client::aap::wire::{Content, TurnMessage};
use recount_client::reply::Approval;
use recount_client::request::{AllowanceScope, ResolveApproval, Verdict};
use recount_client::{ClientError, Listing};
use recount_command_line::output::Screen;

use super::Talk;
use crate::command::approve;
use crate::command::chat::prompt_line::PromptLine;
use crate::command::chat::typed::{Input, ask};
use crate::command::run::Reply;
use crate::failure::Failure;
use crate::limits;
use crate::output::{aside, note};
use crate::pages::open_prompts;
use crate::render::live::Prompt;

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
                match self.ask_permission(&call).await? {
                    Some(permission) => permission,
                    None => return Ok(None),
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

    /// Prompts for one call, as `recount run` does. `None` when the person leaves.
    async fn ask_permission(&mut self, call: &OpenCall) -> Result<Option<(bool, Option<String>)>, Failure> {
        let approval = self.approval_of(call).await;
        let is_approval = approval.is_some();
        let tool = self.agent.tools.iter().find(|tool| tool.name == call.name);
        let about = tool.and_then(|tool| tool.description.lines().next()).unwrap_or_default();
        let mut prompt = approval.unwrap_or_else(|| Prompt::of_call(call, about));
        self.typed.discard().await;
        prompt.next_page(Screen::find()).iter().for_each(|line| note(line));
        loop {
            ask(prompt.how());
            let line = match self.typed.next().await? {
                Input::Line(line) => line,
                Input::End => return Ok(None),
                Input::Interrupt => {
                    aside("\n");
                    self.leave()?;
                    return Err(Failure::Interrupted);
                }
            };
            if PromptLine::read(&line) == PromptLine::Quit {
                return Ok(None);
            }
            let (permission, always) = match Reply::read(&prompt, &line) {
                Reply::Approve(Some(_)) if !is_approval => {
                    note(
                        "This server takes no text with an approval. Type y alone, or n; nothing was decided.",
                    );
                    continue;
                }
                Reply::Approve(comment) => ((true, comment), None),
                Reply::Always(scope) => ((true, None), Some(scope)),
                Reply::Reject(reason) => ((false, reason), None),
                Reply::Details => {
                    prompt.details().iter().for_each(|line| note(line));
                    continue;
                }
                Reply::More => {
                    prompt.next_page(Screen::find()).iter().for_each(|line| note(line));
                    continue;
                }
                Reply::Unclear(why) => {
                    note(&why);
                    continue;
                }
                Reply::Choice(_) | Reply::Text(_) | Reply::Take(_) | Reply::Decline(_) => continue,
            };
            // The protocol has neither comments on approvals nor allowances.
            let needs_native = always.is_some() || (permission.0 && permission.1.is_some());
            if !is_approval || !needs_native {
                return Ok(Some(permission));
            }
            match self.decide(&prompt, &permission, always).await {
                Ok(()) => return Ok(Some(permission)),
                Err(why)
                    if why
                        .code()
                        .is_some_and(|code| code == "approval_not_pending" || code == "run_ended") =>
                {
                    note("it was already answered or is no longer open");
                    // The answer of the other client counts; this one is only for the protocol.
                    return Ok(Some((false, None)));
                }
                Err(why) => note(&format!("the answer was rejected: {why}")),
            }
        }
    }

    async fn decide(
        &self,
        prompt: &Prompt,
        (is_granted, comment): &(bool, Option<String>),
        always: Option<AllowanceScope>,
    ) -> Result<(), ClientError> {
        let Some(native) = &self.native else { return Ok(()) };
        let decision = if *is_granted { Verdict::Approve } else { Verdict::Reject };
        let (comment, shown_digest) = (comment.clone(), prompt.shown_digest.clone());
        let answer = ResolveApproval { decision, comment, remember: always, shown_digest };
        native.answer_prompt(&prompt.id, &answer).await.map(drop)
    }

    /// The approval that a call of a Recount server waits for, with everything that a person decides on.
    async fn approval_of(&self, call: &OpenCall) -> Option<Prompt> {
        let native = self.native.as_ref()?;
        let newest = Listing { limit: Some(1), ..Listing::default() };
        let runs = native.list_session_runs(&self.session.session_id, &newest).await.ok()?;
        let run = runs.data.first()?.id.clone();
        let pending = open_prompts(native, limits::CHAT_APPROVALS_MAX).await.ok()?;
        let is_of_call =
            |approval: &&Approval| approval.run_id == run && approval.tool_call_id == call.tool_call_id;
        let mut prompt = Prompt::of_approval(pending.iter().find(is_of_call)?, true)?;
        approve::complete(native, &mut prompt).await;
        Some(prompt)
    }
}
