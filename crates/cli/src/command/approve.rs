//! `recount approve` and `recount deny`: answer a request for permission. The first valid answer wins.
//!
//! The call is shown in full; in a terminal it is shown before it is allowed.

use std::io::IsTerminal as _;

use clap::Args;
use recount_client::Client;
use recount_client::reply::Approval;
use recount_client::request::{AllowanceScope, ResolveApproval, Verdict};
use recount_command_line::output::Screen;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::live::{Kind, Prompt};

/// Approve a tool call that waits for permission
#[derive(Args)]
pub(super) struct Approve {
    /// Id of the approval, which recount show RUN prints
    approval: String,
    /// Comment to record with the decision
    #[arg(long)]
    comment: Option<String>,
    /// Also allow the same call from now on, in this run, session or workspace
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    always: Option<AllowanceScope>,
    /// Approve without confirmation, as needed without a terminal; the call is still shown
    #[arg(long, short)]
    yes: bool,
}

/// Deny a tool call that waits for permission
#[derive(Args)]
pub(super) struct Deny {
    /// Id of the approval, which recount show RUN prints
    approval: String,
    /// Comment to record with the decision
    #[arg(long)]
    comment: Option<String>,
    /// Deny without a terminal
    #[arg(long, short)]
    yes: bool,
}

const NOT_SHOWN: &str = "the call is not shown: the token lacks the scope read";

pub(super) fn scope(text: &str) -> Result<AllowanceScope, String> {
    let known = AllowanceScope::ALL.iter().copied().find(|scope| scope.as_str() == text);
    known.ok_or_else(|| "use run, session or workspace".to_owned())
}

impl Approve {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(mut self, mut asking: Asking) -> Result<(), Failure> {
        ids::named(&self.approval, self.yes)?;
        self.approval = ids::full(&asking.client, IdKind::Approval, &self.approval).await?;
        let (prompt, is_open) = match shown(&asking.client, &self.approval).await? {
            Some((approval, prompt)) => (prompt, approval.status == "pending"),
            None => (None, true),
        };
        let shown_digest = prompt.as_ref().and_then(|prompt| prompt.shown_digest.clone());
        if is_by_hand(&asking) && !self.yes && is_open {
            let always = self.always.map_or(String::new(), |scope| format!(", always in this {scope}"));
            confirm(&mut asking, prompt, &always)?;
        } else {
            show(&asking, prompt.as_ref());
            confirmed_elsewhere(self.yes || !is_open, "approve")?;
        }
        let Approve { approval, comment, always, .. } = self;
        let answer = ResolveApproval { decision: Verdict::Approve, comment, remember: always, shown_digest };
        let decided = asking.client.answer_prompt(&approval, &answer).await?;
        print_result(asking, &decided)
    }
}

impl Deny {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(mut self, asking: Asking) -> Result<(), Failure> {
        self.approval = ids::full(&asking.client, IdKind::Approval, &self.approval).await?;
        let mut shown_digest = None;
        if !self.yes && !is_by_hand(&asking) {
            let found = shown(&asking.client, &self.approval).await?;
            let is_open = found.as_ref().is_none_or(|(approval, _)| approval.status == "pending");
            let prompt = found.and_then(|(_, prompt)| prompt);
            show(&asking, prompt.as_ref());
            shown_digest = prompt.and_then(|prompt| prompt.shown_digest);
            confirmed_elsewhere(!is_open, "deny")?;
        }
        let Deny { approval, comment, .. } = self;
        let answer = ResolveApproval { decision: Verdict::Reject, comment, remember: None, shown_digest };
        let decided = asking.client.answer_prompt(&approval, &answer).await?;
        print_result(asking, &decided)
    }
}

/// Whether a person sees the call and types the answer.
fn is_by_hand(asking: &Asking) -> bool {
    std::io::stdin().is_terminal() && asking.out.is_terminal() && !asking.json
}

/// Without a person at a terminal only `--yes` decides: what is piped in is not an answer.
fn confirmed_elsewhere(is_confirmed: bool, verb: &str) -> Result<(), Failure> {
    match is_confirmed {
        true => Ok(()),
        false => Err(Failure::Usage(format!(
            "recount {verb} needs a terminal to ask for confirmation; without one, read the call and add --yes"
        ))),
    }
}

/// The approval and its prompt. `None` for a token without the scope read, which can still answer: the person has seen
/// the call elsewhere.
async fn shown(client: &Client, id: &str) -> Result<Option<(Approval, Option<Prompt>)>, Failure> {
    let approval = match client.get_prompt::<Approval>(id).await {
        Ok(approval) => approval,
        Err(why) if why.code() == Some("scope_missing") => return Ok(None),
        Err(why) => return Err(why.into()),
    };
    let mut prompt = Prompt::of_approval(&approval, false);
    if let Some(prompt) = &mut prompt {
        complete(client, prompt).await;
    }
    Ok(Some((approval, prompt)))
}

/// Fetches the content that the event of a prompt has only the beginning of. Without it the prompt names what is missing,
/// and cannot be approved.
pub(super) async fn complete(client: &Client, prompt: &mut Prompt) {
    // The event of a request has no digest of what is shown.
    if matches!(prompt.kind, Kind::Approval { .. })
        && prompt.shown_digest.is_none()
        && let Ok(approval) = client.get_prompt::<Approval>(&prompt.id).await
    {
        prompt.bind(&approval);
    }
    let Some(missing) = prompt.missing() else { return };
    let Some(id) = missing.artifact_id.clone() else { return };
    if missing.size_bytes > limits::PREVIEW_FETCH_BYTES_MAX {
        return;
    }
    if let Ok(bytes) = client.read_artifact(&id).await {
        prompt.complete(&String::from_utf8_lossy(&bytes));
    }
}

/// Shows the whole call beside the data.
fn show(asking: &Asking, prompt: Option<&Prompt>) {
    let lines = prompt.map_or_else(|| vec![NOT_SHOWN.to_owned()], Prompt::all_lines);
    if !asking.json {
        lines.iter().for_each(|line| note(line));
    }
}

/// Shows the call page by page, and fails unless the person allows it after the last one.
fn confirm(asking: &mut Asking, mut prompt: Option<Prompt>, always: &str) -> Result<(), Failure> {
    if prompt.is_none() {
        asking.out.line(NOT_SHOWN)?;
    }
    loop {
        // What was typed before a page was shown is no answer to it; elsewhere than at a terminal this does nothing.
        recount_world::platform::discard_typed();
        if let Some(prompt) = &mut prompt {
            asking.out.lines(&prompt.next_page(Screen::find()))?;
        }
        let open = prompt.as_ref().and_then(Prompt::not_approvable);
        let question = match open {
            None => format!("Allow it{always}? Type y to allow; anything else leaves it open: "),
            Some(_) if prompt.as_ref().is_some_and(Prompt::has_more) => {
                "Type m for the next page; anything else leaves it open: ".to_owned()
            }
            Some(why) => return Err(Failure::Refused(why.to_owned())),
        };
        asking.out.text(&question)?;
        match (typed()?.trim(), open) {
            ("y" | "Y" | "yes" | "Yes", None) => return Ok(()),
            ("m" | "more", _) => {}
            _ => return Err(Failure::Refused("the approval was not answered and stays open".to_owned())),
        }
    }
}

fn print_result(mut asking: Asking, approval: &Approval) -> Result<(), Failure> {
    let always = match (&approval.allowance_scope, &approval.allowance_id) {
        (Some(scope), Some(id)) => format!(", always in this {scope} ({id})"),
        _ => String::new(),
    };
    asking.print_prompt(approval, &always)
}

/// A line that a person types. Nothing else is under way that it could hold up.
fn typed() -> Result<String, Failure> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(_) => Ok(line),
        Err(why) => Err(Failure::Own(format!("cannot read the answer: {why}"))),
    }
}
