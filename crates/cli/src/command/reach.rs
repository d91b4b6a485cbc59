//! Finds the server for a run: the one that responds, or one within this program. See [`Reached`].

use recount_client::{Client, ClientError, Listing};
use recount_server::{EmbeddedServer, Options, Unfinished};

use super::Invocation;
use super::invocation::{self, Asking};
use crate::failure::Failure;
use crate::limits;
use crate::output::note;

pub(super) struct Reached {
    pub(super) client: Client,
    /// The server that this program is itself.
    inside: Option<EmbeddedServer>,
    /// What another command needs to reach the same server: ` --url …`, or nothing.
    pub(super) address: String,
}

impl Reached {
    /// The server at the given address, or the one that answers at the usual one, or none: then this
    /// program becomes one, whose runs may work in this folder: the person who asks could go there anyway. Then nobody
    /// works there before [`Reached::work`], and what an earlier program left unfinished comes with it.
    pub(super) async fn new(
        invocation: &Invocation,
        is_named: bool,
        folder: Option<String>,
    ) -> Result<(Self, Vec<Unfinished>), Failure> {
        let client = invocation.client()?;
        let address = if is_named { format!(" --url {}", invocation.url) } else { String::new() };
        if is_named || answers(&client).await {
            return Ok((Reached { client, inside: None, address }, Vec::new()));
        }
        let log = std::env::var("RECOUNT_LOG").ok().filter(|level| !level.is_empty());
        let options = Options {
            bind: Some("127.0.0.1:0".to_owned()),
            workspaces: folder.into_iter().collect(),
            log: Some(log.unwrap_or_else(|| "warn".to_owned())),
            ..Options::default()
        };
        let url = invocation.url.clone();
        let (reached, data) = Reached::inside(options, invocation.token.as_deref()).await?;
        let unfinished = reached.inside.as_ref().map(|inside| inside.unfinished.clone());
        note(&format!(
            "no server at {url}; started one for this command: {}, data in {data}",
            reached.client.base_url()
        ));
        Ok((reached, unfinished.unwrap_or_default()))
    }

    /// A server within this program, and where its data is. It has no workers before [`Reached::work`].
    pub(super) async fn inside(options: Options, token: Option<&str>) -> Result<(Self, String), Failure> {
        // Only this program knows its address, so no browser could come back to it.
        let options = Options { without_sign_in: true, ..options };
        let inside = recount_server::start_embedded(options).await?;
        let url = format!("http://{}", inside.running.address);
        let client = Client::new(&url, token.filter(|token| !token.is_empty()))?;
        let reached = Reached { client, inside: None, address: format!(" --url {url}") };
        let data = inside.location.clone();
        Ok((Reached { inside: Some(inside), ..reached }, data))
    }

    /// Why runs execute no commands, if this program is the server.
    pub(super) fn no_commands(&self) -> Option<&str> {
        self.inside.as_ref()?.no_commands()
    }

    /// Starts the workers of the server within this program. Does nothing for another server.
    pub(super) async fn work(&self) -> Result<(), Failure> {
        match &self.inside {
            Some(inside) => Ok(inside.work().await?),
            None => Ok(()),
        }
    }

    /// Lets the server that this program is answer questions about the workspaces of runs, and executes none.
    pub(super) fn attach(&self) -> Result<(), Failure> {
        self.inside.as_ref().map_or(Ok(()), |inside| Ok(inside.attach()?))
    }

    /// Cancels these runs, which an earlier program left unfinished.
    pub(super) async fn abandon(&self, runs: &[Unfinished]) -> Result<(), Failure> {
        match &self.inside {
            Some(inside) => Ok(inside.abandon(runs).await?),
            None => Ok(()),
        }
    }

    pub(super) fn is_inside(&self) -> bool {
        self.inside.is_some()
    }

    /// Ends the server that this program is.
    pub(super) async fn leave(self) {
        let Some(inside) = self.inside else { return };
        if tokio::time::timeout(limits::STOP_WAIT, inside.running.stop()).await.is_err() {
            note("the server in this program did not stop in time; no acknowledged event is lost");
        }
    }
}

/// Runs work that only reads: at the server, or where none answers at the usual address on the data folder, which this
/// program serves meanwhile. Unfinished runs stay as they are.
pub(super) fn ask(
    invocation: Invocation,
    work: impl AsyncFnOnce(Asking) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if invocation.names_server() || !recount_server::has_default_store() {
        return invocation.ask(work);
    }
    invocation::block_on_threads(async {
        let (reached, _) = Reached::new(&invocation, false, None).await?;
        let done = match reached.attach() {
            Ok(()) => work(invocation.asking(reached.client.clone())).await,
            Err(why) => Err(why),
        };
        reached.leave().await;
        done
    })
}

/// Whether a server of ours is there, even one that lets us not in.
async fn answers(client: &Client) -> bool {
    let one = Listing { limit: Some(1), ..Listing::default() };
    match client.list_runs(&one).await {
        Ok(_) | Err(ClientError::Problem(_) | ClientError::Unusable(_)) => true,
        Err(ClientError::Unreachable { .. } | ClientError::Protocol { .. }) => false,
    }
}
