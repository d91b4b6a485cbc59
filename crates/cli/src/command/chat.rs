//! `recount chat`: a chat with an agent of any server that speaks the agent application protocol.
//!
//! It must not depend on how a server works, ours neither. Messages of the agent go to standard output; prompts
//! and notes about the chat go to standard error.

mod choose;
mod folder;
mod image;
mod open;
mod prompt_line;
mod talk;
mod typed;

use std::path::PathBuf;

use clap::Args;
use recount_client::aap::wire::Block;
use recount_client::aap::{AapClient, AapError};
use recount_client::{Client, url_below};
use recount_world::platform::{SignalKind, signal};

use self::folder::FolderOptions;
use self::open::{Opened, open};
use self::talk::{Consent, Talk};
use self::typed::Typed;
use super::credential::token;
use super::ids::{self, IdKind};
use super::invocation::{self, Invocation};
use super::reach::Reached;
use super::run::{Action, Unfinished, View};
use crate::failure::Failure;
use crate::output::note;

/// Where our servers have the protocol.
const USUAL_PATH: &str = "/aap";

/// Chat with an agent over AAP, the Agent Application Protocol
#[derive(Args)]
pub(super) struct Chat {
    /// AAP endpoint, such as http://127.0.0.1:8765/aap; default: /aap at --url
    #[arg(value_name = "URL")]
    base: Option<String>,
    /// Agent to chat with; default: the only one, or choose from a list
    #[arg(long, value_name = "NAME")]
    agent: Option<String>,
    /// Continue this session; a chat prints its id when it starts and ends
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Send this message, print the answer and exit
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Attach an image to the first message; repeatable
    #[arg(long, value_name = "FILE")]
    image: Vec<PathBuf>,
    /// Set an option of the agent; @FILE reads the value from a file, @@ is a literal @; NAME alone prompts for a
    /// secret value; repeatable
    #[arg(long, value_name = "NAME=VALUE")]
    option: Vec<String>,
    /// Server tools the agent may use, separated by commas; default: all
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    tools: Option<Vec<String>>,
    /// Tools the agent may use without approval, separated by commas; default: none, or at a Recount server all, whose
    /// policy requires approvals as for recount run
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    trust: Option<Vec<String>>,
    /// Allow every call without asking
    #[arg(long)]
    yes: bool,
    /// Allow every call of these tools without asking, separated by commas
    #[arg(long, value_name = "TOOLS", value_delimiter = ',')]
    allow: Vec<String>,
    /// Read the server's bearer token from a file
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    folder: FolderOptions,
    /// Without a server: what to do with runs that a killed process left unfinished in the data folder. ask: prompt on
    /// a terminal, otherwise fail; resume: continue them first; abandon: cancel them first
    #[arg(long, value_name = "ACTION", default_value = "ask", value_parser = ["ask", "resume", "abandon"])]
    unfinished: String,
}

/// Where a chat is held.
struct ChatServer {
    /// The base of the protocol.
    base: String,
    token: Option<String>,
    /// The server that this program is itself, and what an earlier one left unfinished.
    inside: Option<(Reached, Vec<recount_server::Unfinished>)>,
    /// Where a server of ours has its native face, if it is one.
    server: Option<String>,
    /// What another verb needs to reach the same server: ` --url …`, or nothing.
    address: String,
}

impl Chat {
    pub(super) fn run(self, invocation: Invocation) -> Result<(), Failure> {
        invocation::block_on_threads(self.chat(invocation))
    }

    async fn chat(self, invocation: Invocation) -> Result<(), Failure> {
        let images = self.image.iter().map(|path| image::block(path)).collect::<Result<Vec<_>, _>>()?;
        let view = View { json: invocation.json, plain: invocation.plain };
        let place = self.place(&invocation).await?;
        let done = match self.settle_unfinished(&place, view).await {
            Ok(()) => self.talk(&place, images, view).await,
            Err(failure) => Err(failure),
        };
        if let Some((reached, _)) = place.inside {
            reached.leave().await;
        }
        done
    }

    /// The server that is named, or the one that answers at the usual address, or this program.
    async fn place(&self, invocation: &Invocation) -> Result<ChatServer, Failure> {
        let usual = url_below(&invocation.url, USUAL_PATH);
        let base = self.base.clone().unwrap_or(usual);
        let token = token(invocation, &base, self.token_file.as_deref())?;
        let url_is_named = invocation.names_server();
        let is_there = self.base.is_some()
            || url_is_named
            || !matches!(
                AapClient::new(&base, token.as_deref())?.meta().await,
                Err(AapError::Unreachable { .. })
            );
        if is_there {
            let server = base.trim_end_matches('/').strip_suffix(USUAL_PATH);
            // The URL of a socket has a colon before the path.
            let server = server.map(|server| server.trim_end_matches(':').to_owned());
            let is_usual = !url_is_named && self.base.is_none();
            let address = server.as_ref().filter(|_| !is_usual).map(|url| format!(" --url {url}"));
            return Ok(ChatServer {
                base,
                token,
                inside: None,
                server,
                address: address.unwrap_or_default(),
            });
        }
        let (reached, left) = Reached::new(invocation, false, self.folder.for_inside()?).await?;
        let server = reached.client.base_url().to_owned();
        let base = format!("{}{USUAL_PATH}", server.trim_end_matches('/'));
        // Its address ends with it.
        Ok(ChatServer {
            base,
            token,
            inside: Some((reached, left)),
            server: Some(server),
            address: String::new(),
        })
    }

    /// Within this program: runs that a killed process left unfinished come first. A turn of a session that waits for a
    /// person is not one of them: that session's own chat goes on with it, now or later.
    async fn settle_unfinished(&self, place: &ChatServer, view: View) -> Result<(), Failure> {
        let Some((reached, left)) = &place.inside else { return Ok(()) };
        let waits_in_a_session =
            |run: &recount_server::Unfinished| run.status == "waiting" && run.session.is_some();
        let left = left.iter().filter(|run| !waits_in_a_session(run)).cloned().collect();
        let action = Action::parse(&self.unfinished);
        let unfinished = Unfinished { left, action, view, even_from_a_pipe: false };
        unfinished.resolve(reached).await.map(drop)
    }

    async fn talk(mut self, place: &ChatServer, images: Vec<Block>, view: View) -> Result<(), Failure> {
        if let (Some(session), Some(server)) = (&mut self.session, &place.server) {
            let native = Client::new(server, place.token.as_deref())?;
            match ids::full(&native, IdKind::Session, session).await {
                Ok(id) => *session = id,
                Err(why @ (Failure::Usage(_) | Failure::Missing(_))) => return Err(why),
                // Another server of the protocol, which has ids of its own.
                Err(_) => {}
            }
        }
        let client = AapClient::new(&place.base, place.token.as_deref())?;
        let failed = |why| Failure::Own(format!("cannot receive signals: {why}"));
        let interrupts = signal(SignalKind::interrupt()).map_err(failed)?;
        let typed = Typed::open(interrupts);
        let Opened { agent, session, typed, overrides, past, works } = open(&self, &client, typed).await?;
        let consent = Consent { all: self.yes, names: named(&self.allow) };
        let is_ours = agent.capabilities.workspace.is_some();
        let id = session.session_id.clone();
        let back = if place.inside.is_some() { None } else { Some(place.base.clone()) };
        let native = match &place.server {
            Some(server) if is_ours => Some(Client::new(server, place.token.as_deref())?),
            _ => None,
        };
        let talk = Talk::new(client, agent, session, typed, consent, view).at_recount(native.clone());
        let talk = talk.with(overrides, images, past, back)?;
        works.iter().for_each(|line| note(line));
        let done = talk.run(self.message).await;
        if let (Some(native), false) = (&native, view.json) {
            folder::report_changes(native, &id, &place.address).await;
        }
        done
    }
}

/// The names in the argument; an empty one, as in `--tools ''`, is none.
fn named(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}
