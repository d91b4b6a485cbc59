//! `recount chat`: a talk with an agent of any server that speaks the agent application protocol.
//!
//! It knows the protocol and nothing of how a server works, ours neither. What is said goes to standard output; what
//! is asked, and everything about the talk, to standard error.

mod choose;
mod image;
mod open;
mod said;
mod talk;
mod typed;

use std::path::PathBuf;

use clap::Args;
use recount_client::aap::AapClient;
use tokio::signal::unix::{SignalKind, signal};

use self::open::{Opened, open};
use self::talk::{Consent, Talk};
use self::typed::Typed;
use super::Common;
use super::credential::token;
use crate::exit::Failure;

/// Where our servers have the protocol.
const USUAL_PATH: &str = "/aap";

#[derive(Args)]
pub(super) struct Chat {
    /// Where a server has the protocol, such as http://127.0.0.1:8765/aap; without it, /aap at --url
    #[arg(value_name = "URL")]
    base: Option<String>,
    /// The agent, by name; without it the only one, or the one that is chosen when asked
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Go on with a session, by its id
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Say this, tell the answer and end
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Send a picture along with the first message; may be said again
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Choose something that the agent lets choose; @FILE takes the value from a file, @@ is an @; without a value, a
    /// secret one is asked for; may be said again
    #[arg(long, value_name = "NAME=VALUE")]
    option: Vec<String>,
    /// The server's tools that the agent may use, by name, with commas; without it all, and of each call is asked
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Tools that it may use without asking
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    trust: Vec<String>,
    /// Allow every call that is asked for
    #[arg(long)]
    yes: bool,
    /// Allow every call of these tools, with commas
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    allow: Vec<String>,
    /// Read the token to show the server from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
}

impl Chat {
    /// `token_is_typed`: the token was said for this very call, not in the environment for the usual server.
    pub(super) async fn run(self, common: Common, token_is_typed: bool) -> Result<(), Failure> {
        let base = match &self.base {
            Some(base) => base.clone(),
            None => format!("{}{USUAL_PATH}", common.url.trim_end_matches('/')),
        };
        let token = token(&common, &base, self.token_file.as_deref(), token_is_typed)?;
        let client = AapClient::new(&base, token.as_deref())?;
        let images = self.image.iter().map(|path| image::block(path)).collect::<Result<Vec<_>, _>>()?;
        let failed = |why| Failure::Own(format!("signals cannot be heard: {why}"));
        let interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let typed = Typed::open(interrupts);
        let Opened { agent, session, typed, overrides, past } = open(&self, &client, typed).await?;
        let consent = Consent { all: self.yes, names: named(&self.allow) };
        let talk = Talk::new(client, agent, session, typed, consent, common.json);
        talk.with(overrides, images, past)?.run(self.message).await
    }
}

/// The names that are said; an empty one, as in `--tools ''`, is none.
fn named(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}
