//! `recount session`: conversations, and the runs in them.

use clap::{Args, Subcommand};
use recount_client::Listing;
use recount_client::query::LIST_LIMIT_DEFAULT;
use recount_client::request::CreateSession;

use super::gather;
use super::invocation::{Asking, Invocation};
use crate::exit::Failure;
use crate::render::{clean, list};

/// Create, list, show and delete sessions
#[derive(Args)]
pub(super) struct Session {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Begin a session; its id is told
    New {
        /// What it is called
        title: Option<String>,
    },
    /// List sessions, newest first
    Ls {
        /// At most so many
        #[arg(long, default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Tell a session, and its runs, newest first
    Show {
        /// The session's id
        session: String,
        /// At most so many runs
        #[arg(long, default_value_t = LIST_LIMIT_DEFAULT)]
        limit: usize,
    },
    /// Delete a session and erase its runs
    Rm {
        /// The session's id
        session: String,
        /// Do it: what is erased cannot be had back
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
            Verb::New { title } => {
                let session = client.create_session(&CreateSession { title }).await?;
                if asking.json {
                    return asking.out.value(&session);
                }
                asking.out.line(&clean::line(&session.id))
            }
            Verb::Ls { limit } => {
                let fetch = async |listing: Listing| client.list_sessions(&listing).await;
                asking.things(&gather(fetch, limit, None).await?, list::sessions)
            }
            Verb::Show { session, limit } => {
                let shown = client.get_session(&session).await?;
                asking.things(&[shown], list::sessions)?;
                let fetch = async |listing: Listing| client.list_session_runs(&session, &listing).await;
                asking.things(&gather(fetch, limit, None).await?, list::runs)
            }
            Verb::Rm { session, yes: false } => {
                let session = client.get_session(&session).await?;
                Err(Failure::Usage(format!(
                    "{} has {}; they would be erased and cannot be had back: say --yes to do it",
                    session.id,
                    list::count_of_runs(session.runs)
                )))
            }
            Verb::Rm { session, yes: true } => {
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
