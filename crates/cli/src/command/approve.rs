//! `recount approve` and `recount deny`: answer a request for permission. The first valid answer wins.
//!
//! The call is shown in full; in a terminal it is shown before it is allowed.

use std::io::IsTerminal as _;

use clap::Args;
use recount_client::Client;
use recount_client::reply::Approval;
use recount_client::request::{AllowanceScope, ResolveApproval, Verdict};

use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;
use crate::render::clean;
use crate::render::live::approval_lines;

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
    /// Approve without confirmation; the call is still shown
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
}

pub(super) fn scope(text: &str) -> Result<AllowanceScope, String> {
    let known = AllowanceScope::ALL.iter().copied().find(|scope| scope.as_str() == text);
    known.ok_or_else(|| "use run, session or workspace".to_owned())
}

impl Approve {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let (lines, is_open) = match asking.client.get_approval(&self.approval).await {
            Ok(approval) => (all_of(&asking.client, &approval).await, approval.status == "pending"),
            // A token without the scope read can still answer: the person has seen the call elsewhere.
            Err(why) if why.code() == Some("scope_missing") => {
                let line = "the call is not shown: the token lacks the scope read".to_owned();
                (vec![line], true)
            }
            Err(why) => return Err(why.into()),
        };
        let by_hand = std::io::stdin().is_terminal() && asking.out.is_terminal() && !asking.json;
        if by_hand && !self.yes && is_open {
            asking.out.lines(&lines)?;
            let always = self.always.map_or(String::new(), |scope| format!(", always in this {scope}"));
            asking.out.text(&format!("Allow it{always}? Type y to allow; anything else leaves it open: "))?;
            if !matches!(typed()?.trim(), "y" | "Y" | "yes" | "Yes") {
                return Err(Failure::Refused("the approval was not answered and stays open".to_owned()));
            }
        } else if !asking.json {
            lines.iter().for_each(|line| note(line));
        }
        let answer =
            ResolveApproval { decision: Verdict::Approve, comment: self.comment, remember: self.always };
        let approval = asking.client.resolve_approval(&self.approval, &answer).await?;
        print_result(asking, &approval)
    }
}

impl Deny {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, asking: Asking) -> Result<(), Failure> {
        let answer = ResolveApproval { decision: Verdict::Reject, comment: self.comment, remember: None };
        let approval = asking.client.resolve_approval(&self.approval, &answer).await?;
        print_result(asking, &approval)
    }
}

fn print_result(mut asking: Asking, approval: &Approval) -> Result<(), Failure> {
    if asking.json {
        return asking.out.value(approval);
    }
    let always = match (&approval.allowance_scope, &approval.allowance_id) {
        (Some(scope), Some(id)) => format!(", always in this {scope} ({id})"),
        _ => String::new(),
    };
    asking.out.line(&clean::line(&format!("{} {}{always}", approval.id, approval.status)))
}

/// The approval with its whole preview: where the request holds only the beginning, the rest is fetched.
async fn all_of(client: &Client, approval: &Approval) -> Vec<String> {
    let mut whole = approval.clone();
    if let (Some(id), Some(size)) = (&approval.preview_artifact_id, approval.preview_size_bytes)
        && size <= limits::PREVIEW_FETCH_BYTES_MAX
        && let Ok(bytes) = client.read_artifact(id).await
    {
        whole.preview = Some(String::from_utf8_lossy(&bytes).into_owned());
        whole.preview_size_bytes = None;
    }
    approval_lines(&whole)
}

/// A line that a person types. Nothing else is under way that it could hold up.
fn typed() -> Result<String, Failure> {
    let mut line = String::new();
    match std::io::stdin().read_line(&mut line) {
        Ok(_) => Ok(line),
        Err(why) => Err(Failure::Own(format!("cannot read the answer: {why}"))),
    }
}
