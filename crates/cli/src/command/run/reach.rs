//! The server that a run is made at: the one that answers, or one within this program. See [`Reached`].

use recount_client::{Client, ClientError, Listing};
use recount_server::{Options, Running};

use crate::command::Common;
use crate::exit::Failure;
use crate::limits;
use crate::output::note;

pub(crate) struct Reached {
    pub(crate) client: Client,
    /// The server that this program is itself.
    inside: Option<Running>,
    /// What another command needs to reach the same server: ` --url …`, or nothing.
    pub(crate) address: String,
}

impl Reached {
    /// The server of an address that somebody named, or the one that answers at the usual one, or none: then this
    /// program becomes one, whose runs may work in this folder: who asks for it here could go there anyway.
    pub(super) async fn new(
        common: &Common,
        is_named: bool,
        folder: Option<String>,
    ) -> Result<Self, Failure> {
        let client = common.client()?;
        let address = if is_named { format!(" --url {}", common.url) } else { String::new() };
        if is_named || answers(&client).await {
            return Ok(Reached { client, inside: None, address });
        }
        let log = std::env::var("RECOUNT_LOG").ok().filter(|level| !level.is_empty());
        let options = Options {
            bind: Some("127.0.0.1:0".to_owned()),
            workspaces: folder.into_iter().collect(),
            log: Some(log.unwrap_or_else(|| "warn".to_owned())),
            ..Options::default()
        };
        let url = common.url.clone();
        let (reached, data) = Reached::inside(options, common.token.as_deref()).await?;
        note(&format!(
            "no server answers at {url}, so this program is one until the run has ended: {}, data in {data}",
            reached.client.base_url()
        ));
        Ok(reached)
    }

    /// A server within this program, and where its data is.
    pub(crate) async fn inside(options: Options, token: Option<&str>) -> Result<(Self, String), Failure> {
        let inside = recount_server::start_inside(options).await?;
        let url = format!("http://{}", inside.running.address);
        let client = Client::new(&url, token.filter(|token| !token.is_empty()))?;
        let reached = Reached { client, inside: Some(inside.running), address: format!(" --url {url}") };
        Ok((reached, inside.data.display().to_string()))
    }

    pub(crate) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    /// Ends the server that this program is.
    pub(crate) async fn leave(self) {
        let Some(running) = self.inside else { return };
        if tokio::time::timeout(limits::STOP_WAIT, running.stop()).await.is_err() {
            note("the server within this program did not end in time; nothing acknowledged is lost");
        }
    }
}

/// Whether a server of ours is there, even one that lets us not in.
async fn answers(client: &Client) -> bool {
    let one = Listing { limit: Some(1), ..Listing::default() };
    match client.list_runs(&one).await {
        Ok(_) | Err(ClientError::Problem(_) | ClientError::Unusable(_)) => true,
        Err(ClientError::Unreachable { .. } | ClientError::Protocol { .. }) => false,
    }
}
