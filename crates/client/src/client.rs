//! The client: one method per route; prompts of all kinds share theirs. See [`Client`].

pub(crate) mod address;
mod artifacts;
mod hooks;
mod prompts;
mod sessions;
mod sign_in;

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use recount_api::admin::{
    AddToken, AddedToken, Backup, Checkup, DeadLetter, Delivery, MakeBackup, Removed, RequestDelivery,
    SigningKey, SigningKeys, Token, WebhookProgress,
};
use recount_api::problem::{self, Problem};
use recount_api::reply::{
    Changes, Deleted, Digest, Health, Import, One, Page, PatchOutcome, Pruned, Receipt, Run, RunDeleted,
    Swept, Task,
};
use recount_api::request::{
    AppendEvents, ApplyRun, Cancel, ChangePatch, ChangeTask, ContinueRun, CreateRun, CreateTask, Prune,
    PruneRun, ResumeRun, RetryRun, RetryRunFromTurn,
};
use recount_api::{export, query};
use recount_transport::sse;
use recount_world::World;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use reqwest::{Method, Response, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use self::address::Address;
pub use self::artifacts::ArtifactStream;
pub use self::hooks::HookPost;
use crate::boxed;
use crate::error::ClientError;
use crate::limits;
use crate::socket_url::{SocketUrl, url_below};
use crate::source::Source;

/// A page of envelopes, each as the very bytes the server sent.
pub type EventsPage = Page<Box<RawValue>>;

/// Which page of a list: after `after` (the `next` of the page before), at most `limit` items, and only
/// those with a status, if one is given.
#[derive(Debug, Clone, Default)]
pub struct Listing {
    pub after: Option<serde_json::Value>,
    pub limit: Option<usize>,
    pub status: Option<String>,
    pub kind: Option<String>,
    pub needs_attention: Option<bool>,
    /// A part of a title or a message.
    pub text: Option<String>,
    /// The beginning of the agent's name; only for lists of runs.
    pub agent: Option<String>,
}

/// Speaks to one server. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<HeaderValue>,
    /// The `Idempotency-Key` of what is posted.
    key: Option<String>,
    world: World,
}

impl Client {
    /// `base_url` is the server's address without a path, such as `http://127.0.0.1:8765` or `unix:/run/recount/recount.sock`.
    pub fn new(base_url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        Client::in_world(World::real(), base_url, token)
    }

    /// The same with a given world, from which waits draw their scatter.
    pub fn in_world(world: World, base_url: &str, token: Option<&str>) -> Result<Self, ClientError> {
        let base = base_url.trim_end_matches('/').to_owned();
        check_base(&base)?;
        let token = token.map(bearer).transpose()?;
        let http = connections(&base)?;
        Ok(Client { http, base, token, key: None, world })
    }

    /// A client of the same server's audit trail: what it reads and follows is what was done to the server itself.
    #[must_use]
    pub fn audit(&self) -> Self {
        Client { base: url_below(&self.base, "/audit"), ..self.clone() }
    }

    /// A client of the same server that posts with this `Idempotency-Key`: a repeated request takes effect once and returns the
    /// first response.
    #[must_use]
    pub fn once(&self, key: &str) -> Self {
        Client { key: Some(key.to_owned()), ..self.clone() }
    }

    pub fn base_url(&self) -> &str {
        &self.base
    }

    pub(crate) fn world(&self) -> &World {
        &self.world
    }

    // Tasks.

    #[boxed]
    pub async fn create_task(&self, request: &CreateTask) -> Result<Task, ClientError> {
        self.post(self.at(&["tasks"]), request).await
    }

    #[boxed]
    pub async fn list_tasks(&self, listing: &Listing) -> Result<Page<Task>, ClientError> {
        self.list(self.at(&["tasks"]), listing).await
    }

    #[boxed]
    pub async fn get_task(&self, task: &str) -> Result<Task, ClientError> {
        self.get_one(self.at(&["tasks", task])).await
    }

    /// Raises what a task may spend, or gives it another title.
    #[boxed]
    pub async fn change_task(&self, task: &str, request: &ChangeTask) -> Result<Task, ClientError> {
        let body = serde_json::to_vec(request).expect("requests hold only values that JSON can represent");
        let address = self.at(&["tasks", task]);
        let one: One<Task> = self.call(Method::PATCH, address, Some(("application/json", body))).await?;
        Ok(one.data)
    }

    /// Cancels the task's active run.
    #[boxed]
    pub async fn cancel_task(&self, task: &str, request: &Cancel) -> Result<Task, ClientError> {
        self.post(self.at(&["tasks", task, "cancel"]), request).await
    }

    /// Erases a run that belongs to no task and no session.
    #[boxed]
    pub async fn delete_run(&self, run: &str) -> Result<RunDeleted, ClientError> {
        self.ask(Method::DELETE, self.at(&["runs", run])).await
    }

    /// Deletes a task and erases its runs.
    #[boxed]
    pub async fn delete_task(&self, task: &str) -> Result<Deleted, ClientError> {
        self.ask(Method::DELETE, self.at(&["tasks", task])).await
    }

    #[boxed]
    pub async fn create_task_run(&self, task: &str, request: &CreateRun) -> Result<Run, ClientError> {
        self.post(self.at(&["tasks", task, "runs"]), request).await
    }

    #[boxed]
    pub async fn list_task_runs(&self, task: &str, listing: &Listing) -> Result<Page<Run>, ClientError> {
        self.list(self.at(&["tasks", task, "runs"]), listing).await
    }

    #[boxed]
    pub async fn get_task_run(&self, task: &str, run: &str) -> Result<Run, ClientError> {
        self.get_one(self.at(&["tasks", task, "runs", run])).await
    }

    #[boxed]
    pub async fn cancel_task_run(&self, task: &str, run: &str, request: &Cancel) -> Result<Run, ClientError> {
        self.post(self.at(&["tasks", task, "runs", run, "cancel"]), request).await
    }

    #[boxed]
    pub async fn read_task_run_events(
        &self,
        task: &str,
        run: &str,
        after: Option<u64>,
        limit: Option<usize>,
    ) -> Result<EventsPage, ClientError> {
        let address = self.at(&["tasks", task, "runs", run, "events"]);
        self.page(address.with(query::AFTER_SEQUENCE, after).with(query::LIMIT, limit)).await
    }

    #[boxed]
    pub async fn append_task_run_events(
        &self,
        task: &str,
        run: &str,
        request: &AppendEvents,
    ) -> Result<Receipt, ClientError> {
        self.post(self.at(&["tasks", task, "runs", run, "events"]), request).await
    }

    // Runs.

    #[boxed]
    pub async fn create_run(&self, request: &CreateRun) -> Result<Run, ClientError> {
        self.post(self.at(&["runs"]), request).await
    }

    #[boxed]
    pub async fn list_runs(&self, listing: &Listing) -> Result<Page<Run>, ClientError> {
        self.list(self.at(&["runs"]), listing).await
    }

    #[boxed]
    pub async fn get_run(&self, run: &str) -> Result<Run, ClientError> {
        self.get_one(self.at(&["runs", run])).await
    }

    #[boxed]
    pub async fn cancel_run(&self, run: &str, request: &Cancel) -> Result<Run, ClientError> {
        self.post(self.at(&["runs", run, "cancel"]), request).await
    }

    /// Makes a new run that does what this one, which has ended, was to do.
    #[boxed]
    pub async fn retry_run(&self, run: &str, request: &RetryRun) -> Result<Run, ClientError> {
        self.post(self.at(&["runs", run, "retry"]), request).await
    }

    /// Creates a new run that resumes this ended one, from its last checkpoint or from the sequence in the request.
    #[boxed]
    pub async fn resume_run(&self, run: &str, request: &ResumeRun) -> Result<Run, ClientError> {
        self.post(self.at(&["runs", run, "resume"]), request).await
    }

    /// Creates a new run that continues this ended one with a new prompt.
    #[boxed]
    pub async fn continue_run(&self, run: &str, request: &ContinueRun) -> Result<Run, ClientError> {
        self.post(self.at(&["runs", run, "continue"]), request).await
    }

    /// Creates a new run that keeps what came before a turn of this ended one, and asks the model again from there.
    #[boxed]
    pub async fn retry_run_from_turn(
        &self,
        run: &str,
        request: &RetryRunFromTurn,
    ) -> Result<Run, ClientError> {
        self.post(self.at(&["runs", run, "retry-from-turn"]), request).await
    }

    /// What a run changed in the copy that it worked in.
    #[boxed]
    pub async fn run_changes(&self, run: &str) -> Result<Changes, ClientError> {
        self.get_one(self.at(&["runs", run, "changes"])).await
    }

    /// Brings it back to the folder that was copied, all or nothing.
    #[boxed]
    pub async fn apply_run(&self, run: &str, request: &ApplyRun) -> Result<Changes, ClientError> {
        self.post(self.at(&["runs", run, "apply"]), request).await
    }

    /// Deletes the copy that a run worked in, with all its changes.
    #[boxed]
    pub async fn discard_run_changes(&self, run: &str) -> Result<Changes, ClientError> {
        self.ask(Method::DELETE, self.at(&["runs", run, "changes"])).await
    }

    /// Applies a proposed patch where its run worked.
    #[boxed]
    pub async fn apply_patch(
        &self,
        artifact: &str,
        request: &ChangePatch,
    ) -> Result<PatchOutcome, ClientError> {
        self.post(self.at(&["artifacts", artifact, "apply"]), request).await
    }

    #[boxed]
    pub async fn reject_patch(
        &self,
        artifact: &str,
        request: &ChangePatch,
    ) -> Result<PatchOutcome, ClientError> {
        self.post(self.at(&["artifacts", artifact, "reject"]), request).await
    }

    /// Reverts an applied patch by a new one.
    #[boxed]
    pub async fn revert_patch(
        &self,
        artifact: &str,
        request: &ChangePatch,
    ) -> Result<PatchOutcome, ClientError> {
        self.post(self.at(&["artifacts", artifact, "revert"]), request).await
    }

    /// Withholds a run from pruning.
    #[boxed]
    pub async fn pin_run(&self, run: &str) -> Result<Run, ClientError> {
        self.ask(Method::PUT, self.at(&["runs", run, "pin"])).await
    }

    #[boxed]
    pub async fn unpin_run(&self, run: &str) -> Result<Run, ClientError> {
        self.ask(Method::DELETE, self.at(&["runs", run, "pin"])).await
    }

    /// Removes the events before the ending of a run, or before one of its events.
    #[boxed]
    pub async fn prune_run(&self, run: &str, request: &PruneRun) -> Result<Pruned, ClientError> {
        self.post(self.at(&["runs", run, "prune"]), request).await
    }

    /// Prunes by policy: a bounded number of runs a call.
    #[boxed]
    pub async fn prune(&self, request: &Prune) -> Result<Swept, ClientError> {
        self.post(self.at(&["prune"]), request).await
    }

    #[boxed]
    pub async fn get_run_digest(&self, run: &str) -> Result<Digest, ClientError> {
        self.get_one(self.at(&["runs", run, "digest"])).await
    }

    /// Events after sequence `after`, or from the start.
    #[boxed]
    pub async fn read_run_events(
        &self,
        run: &str,
        after: Option<u64>,
        limit: Option<usize>,
    ) -> Result<EventsPage, ClientError> {
        let address = self.at(&["runs", run, "events"]);
        self.page(address.with(query::AFTER_SEQUENCE, after).with(query::LIMIT, limit)).await
    }

    /// Sending the same batch again, with the same producer, epoch and seq, appends it once.
    #[boxed]
    pub async fn append_run_events(&self, run: &str, request: &AppendEvents) -> Result<Receipt, ClientError> {
        self.post(self.at(&["runs", run, "events"]), request).await
    }

    /// Takes in a run: its lines as they were exported. The same run again changes nothing.
    #[boxed]
    pub async fn import_run(&self, lines: Vec<u8>) -> Result<Import, ClientError> {
        let body = Some((export::MEDIA_TYPE, lines));
        let one: One<Import> = self.call(Method::POST, self.at(&["imports"]), body).await?;
        Ok(one.data)
    }

    // The feed.

    /// Events of all runs after position `after`, or from the start.
    #[boxed]
    pub async fn read_feed(
        &self,
        after: Option<u64>,
        limit: Option<usize>,
    ) -> Result<EventsPage, ClientError> {
        self.page(self.at(&["events"]).with(query::AFTER_POSITION, after).with(query::LIMIT, limit)).await
    }

    // Tokens.

    /// Makes a token; its secret is in the answer and nowhere else.
    #[boxed]
    pub async fn add_token(&self, request: &AddToken) -> Result<AddedToken, ClientError> {
        self.post(Address::outside(&self.base, &["admin", "tokens"]), request).await
    }

    #[boxed]
    pub async fn list_tokens(&self) -> Result<Page<Token>, ClientError> {
        let address = Address::outside(&self.base, &["admin", "tokens"]);
        self.list(address, &Listing::default()).await
    }

    #[boxed]
    pub async fn remove_token(&self, token: &str) -> Result<Removed, ClientError> {
        self.ask(Method::DELETE, Address::outside(&self.base, &["admin", "tokens", token])).await
    }

    #[boxed]
    pub async fn webhooks(&self) -> Result<Page<WebhookProgress>, ClientError> {
        self.page(Address::outside(&self.base, &["admin", "webhooks"])).await
    }

    #[boxed]
    pub async fn dead_letters(&self, webhook: &str) -> Result<Page<DeadLetter>, ClientError> {
        self.page(Address::outside(&self.base, &["admin", "webhooks", webhook, "dead-letters"])).await
    }

    /// Makes one attempt to deliver a dead letter, or a test message.
    #[boxed]
    pub async fn request_delivery(
        &self,
        webhook: &str,
        request: &RequestDelivery,
    ) -> Result<Delivery, ClientError> {
        let body = serde_json::to_vec(request).expect("requests hold only values that JSON can represent");
        let body = Some(("application/json", body));
        let address = Address::outside(&self.base, &["admin", "webhooks", webhook, "deliveries"]);
        let one: One<Delivery> =
            self.call_within(limits::DELIVERY_TIMEOUT, Method::POST, address, body).await?;
        Ok(one.data)
    }

    // Admin calls.

    /// The public keys that sign heads of runs.
    #[boxed]
    pub async fn signing_keys(&self) -> Result<SigningKeys, ClientError> {
        self.call(Method::GET, Address::outside(&self.base, &[".well-known", "recount-keys"]), None).await
    }

    #[boxed]
    pub async fn rotate_signing_key(&self) -> Result<SigningKey, ClientError> {
        self.ask(Method::POST, Address::outside(&self.base, &["admin", "signing-keys"])).await
    }

    /// Makes a copy of the whole store on the server's machine, named by the server unless the request has a name.
    #[boxed]
    pub async fn make_backup(&self, request: &MakeBackup) -> Result<Backup, ClientError> {
        let body = serde_json::to_vec(request).expect("requests hold only values that JSON can represent");
        let body = Some(("application/json", body));
        let address = Address::outside(&self.base, &["admin", "backups"]);
        let one: One<Backup> =
            self.call_within(limits::LONG_CALL_TIMEOUT, Method::POST, address, body).await?;
        Ok(one.data)
    }

    /// Checks that the server responds. It needs no token.
    #[boxed]
    pub async fn health(&self) -> Result<Health, ClientError> {
        self.call(Method::GET, Address::outside(&self.base, &["healthz"]), None).await
    }

    /// Asks whether all is well; `full` reads every event.
    #[boxed]
    pub async fn check_up(&self, full: bool) -> Result<Checkup, ClientError> {
        let address = Address::outside(&self.base, &["admin", "doctor"]).with("full", full.then_some(true));
        let one: One<Checkup> =
            self.call_within(limits::LONG_CALL_TIMEOUT, Method::GET, address, None).await?;
        Ok(one.data)
    }

    // What the calls are made of.

    fn at(&self, path: &[&str]) -> Address {
        Address::new(&self.base, path)
    }

    async fn get_one<T: DeserializeOwned>(&self, address: Address) -> Result<T, ClientError> {
        self.ask(Method::GET, address).await
    }

    async fn ask<T: DeserializeOwned>(&self, method: Method, address: Address) -> Result<T, ClientError> {
        let one: One<T> = self.call(method, address, None).await?;
        Ok(one.data)
    }

    async fn list<T: DeserializeOwned>(
        &self,
        address: Address,
        listing: &Listing,
    ) -> Result<Page<T>, ClientError> {
        let after = listing.after.as_ref().map(|after| match after {
            serde_json::Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        let address = address.with(query::AFTER, after).with(query::LIMIT, listing.limit);
        let address = address
            .with(query::STATUS, listing.status.as_deref())
            .with(query::KIND, listing.kind.as_deref())
            .with(query::NEEDS_ATTENTION, listing.needs_attention)
            .with(query::TEXT, listing.text.as_deref())
            .with(query::AGENT, listing.agent.as_deref());
        self.page(address).await
    }

    async fn page<T: DeserializeOwned>(&self, address: Address) -> Result<Page<T>, ClientError> {
        self.call(Method::GET, address, None).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        address: Address,
        request: &impl Serialize,
    ) -> Result<T, ClientError> {
        let body = serde_json::to_vec(request).expect("requests hold only values that JSON can represent");
        let one: One<T> = self.call(Method::POST, address, Some(("application/json", body))).await?;
        Ok(one.data)
    }

    async fn call<T: DeserializeOwned>(
        &self,
        method: Method,
        address: Address,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<T, ClientError> {
        self.call_within(limits::CALL_TIMEOUT, method, address, body).await
    }

    async fn call_within<T: DeserializeOwned>(
        &self,
        patience: Duration,
        method: Method,
        address: Address,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<T, ClientError> {
        let body = self.fetch(patience, method, address, body).await?;
        serde_json::from_slice(&body)
            .map_err(|why| ClientError::protocol(&self.base, format!("the response is malformed: {why}")))
    }

    /// Sends a request and reads the response. Boxed and not generic, because there are about eighty callers.
    #[boxed]
    async fn fetch(
        &self,
        patience: Duration,
        method: Method,
        address: Address,
        body: Option<(&str, Vec<u8>)>,
    ) -> Result<Bytes, ClientError> {
        let url = address.into_url()?;
        let key = self.key.as_ref().filter(|_| method == Method::POST);
        let mut request = self.request(method, &url).header(ACCEPT, "application/json");
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        if let Some((media_type, body)) = body {
            request = request.header(CONTENT_TYPE, media_type).body(body);
        }
        let response = request
            .timeout(patience)
            .send()
            .await
            .map_err(|why| ClientError::unreachable(&self.base, &why))?;
        if !response.status().is_success() {
            return Err(self.refusal(response).await);
        }
        self.body(response).await
    }

    /// Opens an event stream after a cursor, which is sent in the query or, to resume, in the header.
    /// `None` when the server answers that nothing follows any more.
    pub(crate) async fn open(
        &self,
        source: &Source,
        after: Option<u64>,
        resume: bool,
    ) -> Result<Option<Response>, ClientError> {
        let (address, parameter) = match source {
            Source::Run(run) => (self.at(&["runs", run, "events"]), query::AFTER_SEQUENCE),
            Source::Feed => (self.at(&["events", "stream"]), query::AFTER_POSITION),
            Source::FeedOf(filter) => {
                let feed = self.at(&["events", "stream"]);
                let address =
                    filter.parameters().fold(feed, |address, (name, words)| address.with(name, Some(words)));
                (address, query::AFTER_POSITION)
            }
        };
        let (address, header) = match after {
            Some(after) if resume => (address, Some(after)),
            _ => (address.with(parameter, after), None),
        };
        let url = address.into_url()?;
        let mut request = self.request(Method::GET, &url).header(ACCEPT, sse::MEDIA_TYPE);
        if let Some(after) = header {
            request = request.header("last-event-id", after.to_string());
        }
        let response = tokio::time::timeout(limits::CALL_TIMEOUT, request.send())
            .await
            .map_err(|why| ClientError::unreachable(&self.base, &why))?
            .map_err(|why| ClientError::unreachable(&self.base, &why))?;
        match response.status() {
            StatusCode::OK if has_type(&response, sse::MEDIA_TYPE) => Ok(Some(response)),
            StatusCode::OK => Err(ClientError::protocol(&self.base, "expected an event stream")),
            StatusCode::NO_CONTENT => Ok(None),
            _ => Err(self.refusal(response).await),
        }
    }

    fn request(&self, method: Method, url: &str) -> reqwest::RequestBuilder {
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.header(AUTHORIZATION, token),
            None => request,
        }
    }

    async fn body(&self, response: Response) -> Result<Bytes, ClientError> {
        whole_body(&self.base, response).await
    }

    async fn refusal(&self, response: Response) -> ClientError {
        let status = response.status();
        if !has_type(&response, problem::MEDIA_TYPE) {
            return ClientError::protocol(&self.base, format!("status {status} without a problem document"));
        }
        match self.body(response).await {
            Ok(body) => match serde_json::from_slice::<Problem>(&body) {
                Ok(problem) => ClientError::Problem(Box::new(problem)),
                Err(why) => ClientError::protocol(
                    &self.base,
                    format!("status {status} with a malformed problem document: {why}"),
                ),
            },
            Err(why) => why,
        }
    }
}

/// All of a reply, up to the bound.
pub(crate) async fn whole_body(base: &str, mut response: Response) -> Result<Bytes, ClientError> {
    let mut body = BytesMut::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() <= limits::REPLY_BYTES_MAX => {
                body.extend_from_slice(&chunk);
            }
            Ok(Some(_)) => {
                let reason = format!(
                    "the response is larger than {} bytes (REPLY_BYTES_MAX)",
                    limits::REPLY_BYTES_MAX
                );
                return Err(ClientError::protocol(base, reason));
            }
            Ok(None) => return Ok(body.freeze()),
            Err(why) => return Err(ClientError::unreachable(base, &why)),
        }
    }
}

/// Connections to a server over HTTP, or HTTP over its Unix socket: no proxy, no redirects, TLS for `https`.
pub fn connections(base: &str) -> Result<reqwest::Client, ClientError> {
    // The library needs its cryptography chosen before any client is built. (docs/decisions/0015)
    rustls::crypto::ring::default_provider().install_default().ok();
    let mut connections = reqwest::Client::builder();
    #[cfg(unix)]
    if let Some(url) = SocketUrl::parse(base) {
        connections = connections.unix_socket(url.file);
    }
    if is_plain(base) {
        // Reads no certificates, so a machine without any will do.
        connections = connections.tls_certs_only([]);
    }
    connections
        .connect_timeout(limits::CONNECT_TIMEOUT)
        .pool_idle_timeout(limits::REST_MAX)
        .redirect(reqwest::redirect::Policy::none())
        .no_proxy()
        .tcp_nodelay(true)
        .build()
        .map_err(|why| ClientError::unreachable(base, &why))
}

fn is_plain(base: &str) -> bool {
    SocketUrl::parse(base).is_some() || Url::parse(base).is_ok_and(|address| address.scheme() == "http")
}

/// A token as the header that shows it.
pub fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {token}"))
        .map_err(|_| unusable("the token has characters that are not allowed in a header".to_owned()))?;
    value.set_sensitive(true);
    Ok(value)
}

/// Refuses what is no address of a server, before anything is sent.
pub(crate) fn check_base(base: &str) -> Result<(), ClientError> {
    const WANTED: &str = "use a URL such as http://127.0.0.1:8765";
    if let Some(url) = SocketUrl::parse(base) {
        return url.check().map_err(unusable);
    }
    let address = Url::parse(base)
        .map_err(|why| unusable(format!("{base:?} is not a server URL ({why}); {WANTED}")))?;
    if !matches!(address.scheme(), "http" | "https") {
        return Err(unusable(format!("{base:?} does not begin with http:// or https://; {WANTED}")));
    }
    if address.query().is_some() || address.fragment().is_some() {
        return Err(unusable(format!("{base:?} has more than a host and a path; {WANTED}")));
    }
    Ok(())
}

/// Whether a server's address names this machine itself: localhost, a loopback address, or a Unix socket. One that cannot be read does not.
pub fn is_on_this_machine(base: &str) -> bool {
    if SocketUrl::parse(base).is_some() {
        return true;
    }
    let Ok(address) = Url::parse(base) else { return false };
    let host = address.host_str().unwrap_or("").trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn unusable(why: String) -> ClientError {
    ClientError::Unusable(why)
}

/// Whether a response declares a media type, parameters aside.
pub(crate) fn has_type(response: &Response, media_type: &str) -> bool {
    let declared = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("");
    let essence = declared.split(';').next().unwrap_or("").trim();
    essence.eq_ignore_ascii_case(media_type)
}
