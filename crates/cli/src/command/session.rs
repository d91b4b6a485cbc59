//! `recount session`: conversations, and the runs in them.

use clap::{Args, Subcommand};
use recount_client::Listing;
use recount_client::query::LIST_LIMIT_DEFAULT;
use recount_client::request::CreateSession;

use super::ids::{self, IdKind};
use super::invocation::{Asking, Invocation};
use super::today;
use crate::failure::Failure;
use crate::pages::gather;
use crate::render::{clean, list};

/// Create, list, show and delete sessions
#[derive(Args)]
pub(super) struct Session {
    #[command(subcommand)]
    verb: SessionVerb,
}

#[derive(Subcommand)]
enum SessionVerb {
    /// Create a session and print its id
    New {
        /// Title of the session
        title: Option<String>,
    },
    /// List sessions, newest first
    Ls {
        /// List at most N
        #[arg(long, value_name = "N", default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Show a session and its runs, newest first
    Show {
        /// Id of the session
        session: String,
        /// List at most N runs
        #[arg(long, value_name = "N", default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Delete a session and erase its runs
    Rm {
        /// Id of the session
        session: String,
        /// Confirm the deletion, which cannot be undone
        #[arg(long)]
        yes: bool,
    },
}

impl Session {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation.ask(|asking| self.ask(asking))
    }

    async fn ask(self, mut asking: Asking) -> Result<(), Failure> {
        let client = asking.client.clone();
        match self.verb {
            SessionVerb::New { title } => {
                let session = client.create_session(&CreateSession { title }).await?;
                if asking.json {
                    return asking.out.value(&session);
                }
                asking.out.line(&clean::line(&session.id))
            }
            SessionVerb::Ls { limit } => {
                let fetch = async |listing: Listing| client.list_sessions(&listing).await;
                let found = gather(fetch, limit, None).await?;
                asking.print_items(&found, list::sessions, "no sessions; recount session new creates one")
            }
            SessionVerb::Show { session, limit } => {
                let session = ids::full(&client, IdKind::Session, &session).await?;
                let shown = client.get_session(&session).await?;
                asking.print_items(&[shown], list::sessions, "")?;
                let fetch = async |listing: Listing| client.list_session_runs(&session, &listing).await;
                let runs = gather(fetch, limit, None).await?;
                let now = today::now()?;
                asking.print_items(&runs, |runs| list::runs(runs, now), "no runs in this session")
            }
            SessionVerb::Rm { session, yes: false } => {
                let session = ids::full(&client, IdKind::Session, &session).await?;
                let session = client.get_session(&session).await?;
                Err(Failure::Usage(format!(
                    "{} has {}, which would be erased permanently; confirm with --yes",
                    session.id,
                    list::count_of_runs(session.runs)
                )))
            }
            SessionVerb::Rm { session, yes: true } => {
                let session = ids::full(&client, IdKind::Session, &session).await?;
                let deleted = client.delete_session(&session).await?;
                if asking.json {
                    return asking.out.value(&deleted);
                }
                let runs = list::count_of_runs(deleted.runs);
                asking.out.line(&clean::line(&format!("{} deleted, {runs} erased", deleted.session_id)))
            }
        }
    }
}
