//! `recount handoff`: work that runs give to a person or another agent. The first valid answer wins.

use clap::{Args, Subcommand};
use recount_client::Listing;
use recount_client::query::LIST_LIMIT_DEFAULT;
use recount_client::reply;
use recount_client::request::{AcknowledgeHandoff, RejectHandoff};

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use crate::failure::Failure;
use crate::pages::gather;
use crate::render::{clean, list, utc_time};

/// List, show, accept and decline handoffs
#[derive(Args)]
pub(super) struct Handoff {
    #[command(subcommand)]
    verb: HandoffVerb,
}

#[derive(Subcommand)]
enum HandoffVerb {
    /// List open handoffs
    Ls {
        /// Also list answered handoffs
        #[arg(long)]
        all: bool,
        /// List at most N
        #[arg(long, value_name = "N", default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Show a handoff and its context for the person who takes over
    Show {
        /// Id of the handoff
        handoff: String,
    },
    /// Accept a handoff
    Ack {
        /// Id of the handoff
        handoff: String,
        /// Comment to record with the decision
        #[arg(long)]
        comment: Option<String>,
    },
    /// Decline a handoff
    Reject {
        /// Id of the handoff
        handoff: String,
        /// Reason to record in the run
        #[arg(long)]
        reason: Option<String>,
    },
}

impl Handoff {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        let answered = match self.verb {
            HandoffVerb::Ls { all, limit } => {
                let status = (!all).then(|| "pending".to_owned());
                let fetch = async |listing: Listing| client.list_prompts::<reply::Handoff>(&listing).await;
                let none = if all { "no handoffs" } else { "no open handoffs; --all lists answered ones" };
                return asking.print_items(&gather(fetch, limit, status).await?, list::prompts, none);
            }
            HandoffVerb::Show { handoff } => {
                let handoff = ids::full(&client, IdKind::Handoff, &handoff).await?;
                let handoff: reply::Handoff = client.get_prompt(&handoff).await?;
                if asking.json {
                    return asking.out.value(&handoff);
                }
                return asking.out.lines(&render_handoff(&handoff));
            }
            HandoffVerb::Ack { handoff, comment } => {
                let handoff = ids::full(&client, IdKind::Handoff, &handoff).await?;
                let answer = AcknowledgeHandoff { comment, shown_digest: None };
                client.answer_prompt(&handoff, &answer).await?
            }
            HandoffVerb::Reject { handoff, reason } => {
                let handoff = ids::full(&client, IdKind::Handoff, &handoff).await?;
                let answer = RejectHandoff { reason, shown_digest: None };
                client.answer_prompt(&handoff, &answer).await?
            }
        };
        asking.print_prompt(&answered, "")
    }
}

/// Who should take over and why, what was packed, and what became of it.
fn render_handoff(handoff: &reply::Handoff) -> Vec<String> {
    let mut lines = vec![clean::line(&format!("{} of {}, {}", handoff.id, handoff.run_id, handoff.status))];
    let mut fact = |name: &str, words: Option<&str>| {
        let Some(words) = words else { return };
        let mut text = clean::lines(words);
        lines.push(format!("{name}: {}", text.next().unwrap_or_default()));
        lines.extend(text.map(|line| format!("    {line}")));
    };
    fact("for", Some(&handoff.target_kind));
    fact("URI", handoff.target_uri.as_deref());
    fact("urgency", handoff.urgency_for_handoff.as_deref());
    fact("reason", Some(&handoff.reason));
    let summaries = [&handoff.summary_detailed, &handoff.summary_normal, &handoff.summary_terse];
    fact("summary", summaries.into_iter().find_map(|summary| summary.as_deref()));
    fact("context", handoff.packaged_context.as_ref().map(|context| context.text()));
    fact("deadline", handoff.expires_at.as_deref().map(utc_time).as_deref());
    fact("answered by", handoff.answered_by.as_deref());
    fact("comment", handoff.comment.as_deref());
    lines
}
