//! `recount approve` and `recount deny`: answer a request for permission. The first valid answer wins.
//!
//! Nobody approves what they have not seen: what would be done is shown, in a terminal before it is allowed.

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

/// Approve a call that a run asks permission for
#[derive(Args)]
pub(super) struct Approve {
    /// Id of the approval, which recount show RUN prints
    approval: String,
    /// Comment to record with the answer
    #[arg(long)]
    comment: Option<String>,
    /// Also allow the same call from now on, in this run, session or workspace
    #[arg(long, value_name = "SCOPE", value_parser = scope)]
    always: Option<AllowanceScope>,
    /// Approve without confirmation; the call is still shown
    #[arg(long, short)]
    yes: bool,
}

/// Reject a call that a run asks permission for
#[derive(Args)]
pub(super) struct Deny {
    /// Id of the approval, which recount show RUN prints
    approval: String,
    /// Comment to record with the answer
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
            Ok(asked) => (all_of(&asking.client, &asked).await, asked.status == "pending"),
            // A person who may answer and not read has read it elsewhere.
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
                return Err(Failure::Refused("nothing decided; the approval stays open".to_owned()));
            }
        } else if !asking.json {
            lines.iter().for_each(|line| note(line));
        }
        let answer =
            ResolveApproval { decision: Verdict::Approve, comment: self.comment, remember: self.always };
        let approval = asking.client.resolve_approval(&self.approval, &answer).await?;
        told(asking, &approval)
    }
}

impl Deny {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, asking: Asking) -> Result<(), Failure> {
        let answer = ResolveApproval { decision: Verdict::Reject, comment: self.comment, remember: None };
        let approval = asking.client.resolve_approval(&self.approval, &answer).await?;
        told(asking, &approval)
    }
}

fn told(mut asking: Asking, approval: &Approval) -> Result<(), Failure> {
    if asking.json {
        return asking.out.value(approval);
    }
    let always = match (&approval.allowance_scope, &approval.allowance_id) {
        (Some(scope), Some(id)) => format!(", always in this {scope} ({id})"),
        _ => String::new(),
    };
    asking.out.line(&clean::line(&format!("{} {}{always}", approval.id, approval.status)))
}

/// What is asked, with all of what would be done: where the request holds only the beginning, the rest is fetched.
async fn all_of(client: &Client, asked: &Approval) -> Vec<String> {
    let mut whole = asked.clone();
    if let (Some(id), Some(size)) = (&asked.preview_artifact_id, asked.preview_size_bytes)
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
