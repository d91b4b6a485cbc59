//! Sends events to subscribers that listen, as the protocol's public suite does: `POST` to `{url}/messages`, or frames
//! on a WebSocket. Only HTTP statuses and closed sockets are observed; replies are not.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use recount_world::World;
use serde_json::json;
use tokio_tungstenite::tungstenite::Message;

use super::builder::EventBuilder;
use super::{Expectation, TrialError, TrialNotice};
use crate::conformance::requirements::Requirement;
use crate::conformance::{Check, Outcome, Report, Side};
use crate::limits;

/// Something to bring, and whether it may be refused.
struct Load {
    expects: Expectation,
    body: Vec<u8>,
    /// What is no event may be refused with 400; what is one may not.
    may_refuse: bool,
}

fn loads(world: &World) -> Vec<Load> {
    let mut builder = EventBuilder::new(world);
    let load = |requirement, name, body: Vec<u8>, may_refuse| Load {
        expects: Expectation(requirement, name),
        body,
        may_refuse,
    };
    let text = |event: super::builder::Event| event.value.to_string().into_bytes();
    let core = recount_aaep::kind::CONTEXT;
    let both = json!([core, "https://example.org/extension/v1"]);
    let whole = text(builder.begin());
    let half = whole[..whole.len() / 2].to_vec();
    let large = "b".repeat(limits::TRIAL_LARGE_EVENT);
    let uri = recount_aaep::Kind::StateChanged.uri();
    let foreign = json!({"@context": "https://example.org/some-other-protocol/v1"});
    vec![
        load("R-145", "it takes an event", whole, false),
        load(
            "R-005",
            "it takes an event of an unknown type",
            text(builder.progress(1, 2).with(json!({"type": "xray:thing.happened", "@context": both}))),
            false,
        ),
        load(
            "R-006",
            "it takes the full name of a type",
            text(builder.go("thinking").with(json!({"type": uri}))),
            false,
        ),
        load(
            "R-017",
            "it takes objects of unknown extensions",
            text(builder.progress(1, 2).with(json!({"@context": both, "extensions": {"xray": {"dose": 3}}}))),
            false,
        ),
        load("R-020", "it takes keys in any order", builder.progress(1, 2).reversed().into_bytes(), false),
        load(
            "R-204",
            "it takes fields and words of a later version",
            text(builder.progress(1, 2).with(json!({"urgency": "whenever", "later_field": {"a": 1}}))),
            false,
        ),
        load(
            "R-021",
            "it survives an event of more than 64 KiB",
            text(
                builder
                    .progress(1, 2)
                    .with(json!({"@context": both, "extensions": {"xray": {"image": large}}})),
            ),
            true,
        ),
        load(
            "R-003",
            "it survives an event of another protocol",
            text(builder.progress(1, 2).with(foreign)),
            true,
        ),
        load("R-025", "it survives half an event", half, true),
        load("R-022", "it survives bytes that are not JSON in UTF-8", b"\xff\xfe{\"type\":}".to_vec(), true),
    ]
}

/// How a load was taken.
enum Took {
    Well(String),
    Refused(String),
    /// Nothing answers there any more, or it answered that it broke.
    Broke(String),
}

/// Brings events to a subscriber that listens at `http://…` or `ws://…`.
pub async fn run(
    world: &World,
    url: &str,
    level: u8,
    sink: &mut (dyn FnMut(TrialNotice<'_>) + Send),
) -> Result<Report, TrialError> {
    let mut report = Report::new(world, Side::Subscriber, url, level);
    report.partial = true;
    let began = recount_world::moment();
    let mut way = Way::open(url).await?;
    for load in loads(world) {
        let took = way.bring(load.body).await;
        let after = match &took {
            Took::Broke(_) => None,
            // Whether it is still there.
            _ if load.may_refuse => {
                Some(way.bring(EventBuilder::new(world).begin().value.to_string().into_bytes()).await)
            }
            _ => None,
        };
        let (outcome, detail) = match (took, after) {
            (Took::Broke(what), _) => (Outcome::Failed, what),
            (_, Some(Took::Broke(what) | Took::Refused(what))) => {
                (Outcome::Failed, format!("after it an ordinary event was not taken: {what}"))
            }
            (Took::Well(what), _) => (Outcome::Passed, what),
            (Took::Refused(what), _) if load.may_refuse => (Outcome::Passed, what),
            (Took::Refused(what), _) => (Outcome::Failed, what),
        };
        let Expectation(requirement, name) = load.expects;
        let level = Requirement::named(requirement).map_or(1, |row| row.level);
        if level <= report.level {
            let check = Check::new(requirement, name, level, outcome, detail);
            sink(TrialNotice::Check(&check));
            report.checks.push(check);
        }
    }
    report.took_ms = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
    Ok(report)
}

type Socket = tokio_tungstenite::WebSocketStream<tokio_tungstenite::MaybeTlsStream<tokio::net::TcpStream>>;

enum Way {
    Post { client: reqwest::Client, url: String },
    Frames { url: String, socket: Option<Box<Socket>> },
}

impl Way {
    async fn open(url: &str) -> Result<Way, TrialError> {
        if url.starts_with("ws://") {
            let way = Way::Frames { url: url.to_owned(), socket: Some(Box::new(dial(url).await?)) };
            return Ok(way);
        }
        if !url.starts_with("http://") {
            let why = format!(
                "`{url}` does not begin with http:// or ws://; use the address of a subscriber on this \
                     machine"
            );
            return Err(TrialError::Push(why));
        }
        let client = client(Some(limits::TRIAL_REPLY))
            .map_err(|why| TrialError::Push(format!("no client for `{url}`: {why}")))?;
        if let Err(why) = client.get(url).send().await
            && why.is_connect()
        {
            let why = format!("no response from {url}: {why}; is the subscriber running?");
            return Err(TrialError::Push(why));
        }
        Ok(Way::Post { client, url: format!("{}/messages", url.trim_end_matches('/')) })
    }

    async fn bring(&mut self, body: Vec<u8>) -> Took {
        match self {
            Way::Post { client, url } => {
                let request = client.post(url.as_str()).header("content-type", "application/json").body(body);
                match request.send().await {
                    Err(why) => Took::Broke(format!("no response from {url}: {why}")),
                    Ok(answer) if answer.status().is_success() => {
                        Took::Well(format!("it answered {}", answer.status()))
                    }
                    Ok(answer) if answer.status().is_server_error() => {
                        Took::Broke(format!("it answered {}", answer.status()))
                    }
                    Ok(answer) => Took::Refused(format!("it answered {}", answer.status())),
                }
            }
            Way::Frames { url, socket } => {
                let Some(open) = socket else {
                    return match dial(url).await {
                        Ok(again) => {
                            *socket = Some(Box::new(again));
                            Took::Refused("it had closed the socket and took a new one".to_owned())
                        }
                        Err(why) => Took::Broke(why.to_string()),
                    };
                };
                let message = match String::from_utf8(body) {
                    Ok(text) => Message::Text(text.into()),
                    Err(bytes) => Message::Binary(bytes.into_bytes().into()),
                };
                if let Err(why) = open.send(message).await {
                    *socket = None;
                    return Took::Broke(format!("the socket broke: {why}"));
                }
                match received(open, limits::TRIAL_QUIET).await {
                    true => Took::Well("the socket stayed open".to_owned()),
                    false => {
                        *socket = None;
                        Took::Broke("it closed the socket".to_owned())
                    }
                }
            }
        }
    }
}

async fn dial(url: &str) -> Result<Socket, TrialError> {
    let (socket, _) = tokio_tungstenite::connect_async(url).await.map_err(|why| {
        TrialError::Push(format!("no response from {url}: {why}; is the subscriber running?"))
    })?;
    Ok(socket)
}

/// Whether the socket stays open for so long; what is said on it is passed over.
async fn received(socket: &mut Socket, quiet: Duration) -> bool {
    let until = recount_world::moment() + quiet;
    loop {
        match tokio::time::timeout_at(until, socket.next()).await {
            Err(_) => return true,
            Ok(None | Some(Err(_) | Ok(Message::Close(_)))) => return false,
            Ok(Some(Ok(_))) => {}
        }
    }
}

/// A client of HTTP that asks nobody else on the way. The library wants a provider of cryptography also where none is
/// used.
pub(crate) fn client(timeout: Option<Duration>) -> reqwest::Result<reqwest::Client> {
    // Fails when there is one already, which is as good.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = reqwest::Client::builder().no_proxy();
    match timeout {
        Some(timeout) => builder.timeout(timeout).build(),
        None => builder.build(),
    }
}
