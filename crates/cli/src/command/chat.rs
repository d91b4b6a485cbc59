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

use std::path::{Path, PathBuf};

use clap::Args;
use recount_client::aap::AapClient;
use tokio::signal::unix::{SignalKind, signal};

use self::open::{Opened, open};
use self::talk::{Consent, Talk};
use self::typed::Typed;
use super::Common;
use crate::exit::Failure;
use crate::limits;

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
        let token = self.token(&common, &base, token_is_typed)?;
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

    /// What is shown to the server. The environment's token is for the server at `--url` and goes to no other.
    fn token(&self, common: &Common, base: &str, is_typed: bool) -> Result<Option<String>, Failure> {
        let said = common.token.clone().filter(|token| !token.is_empty());
        if is_typed {
            return Ok(said);
        }
        if let Some(path) = &self.token_file {
            let token = small_file(path)?;
            return Ok(Some(token).filter(|token| !token.is_empty()));
        }
        if said.is_some() && !is_same_server(base, &common.url) {
            crate::output::note(&format!(
                "RECOUNT_TOKEN is for {} and is not shown to {base}; --token-file FILE says what is",
                common.url
            ));
            return Ok(None);
        }
        Ok(said)
    }
}

/// Whether two addresses lead to one host and port.
fn is_same_server(one: &str, other: &str) -> bool {
    let place = |address: &str| {
        let (scheme, rest) = address.split_once("://")?;
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        // What stands before an @ is no part of the place.
        let host = host.rsplit('@').next().unwrap_or_default().to_owned();
        Some((scheme.to_ascii_lowercase(), host.strip_suffix(":80").map_or(host.clone(), str::to_owned)))
    };
    place(one).is_some() && place(one) == place(other)
}

/// The names that are said; an empty one, as in `--tools ''`, is none.
fn named(names: &[String]) -> Vec<String> {
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

/// What stands in a small file, without the line end at its end.
fn small_file(path: &Path) -> Result<String, Failure> {
    let wrong = |why: &dyn std::fmt::Display| Failure::Usage(format!("{}: {why}", path.display()));
    let size = std::fs::metadata(path).map_err(|why| wrong(&why))?.len();
    if size > limits::VALUE_FILE_BYTES_MAX {
        let most = limits::VALUE_FILE_BYTES_MAX;
        return Err(wrong(&format!(
            "it has {size} bytes, and at most {most} are taken (VALUE_FILE_BYTES_MAX)"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|why| wrong(&why))?;
    Ok(text
        .strip_suffix('\n')
        .map_or(text.as_str(), |text| text.strip_suffix('\r').unwrap_or(text))
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_for_one_host_and_port() {
        let usual = "http://127.0.0.1:8765";
        assert!(is_same_server("http://127.0.0.1:8765/aap", usual));
        assert!(is_same_server("HTTP://Host/aap", "http://host:80"));
        for other in [
            "http://127.0.0.1:8766/aap",
            "https://127.0.0.1:8765/aap",
            "http://127.0.0.1:8765.example.org/aap",
            "http://127.0.0.1:8765@example.org/aap",
            "http://example.org/http://127.0.0.1:8765",
            "127.0.0.1:8765",
        ] {
            assert!(!is_same_server(other, usual), "{other}");
        }
        assert!(!is_same_server("nothing", "nothing"));
    }
}
