//! Sends events to subscribers that listen for connections, as the protocol's public suite does: `POST` to
//! `{url}/messages`, or frames on a WebSocket. Only HTTP statuses and closed sockets are observed, not replies.

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

/// A body to deliver, and whether the subscriber may refuse it.
struct PushCase {
    expects: Expectation,
    body: Vec<u8>,
    /// Invalid events may be refused with 400; valid ones may not.
    may_refuse: bool,
}

fn push_cases(world: &World) -> Vec<PushCase> {
    let mut builder = EventBuilder::new(world);
    let case = |requirement, name, body: Vec<u8>, may_refuse| PushCase {
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
        case("R-145", "it takes an event", whole, false),
        case(
            "R-005",
            "it takes an event of an unknown type",
            text(builder.progress(1, 2).with(json!({"type": "xray:thing.happened", "@context": both}))),
            false,
        ),
        case(
            "R-006",
            "it takes the full name of a type",
            text(builder.go("thinking").with(json!({"type": uri}))),
            false,
        ),
        case(
            "R-017",
            "it takes objects of unknown extensions",
            text(builder.progress(1, 2).with(json!({"@context": both, "extensions": {"xray": {"dose": 3}}}))),
            false,
        ),
        case("R-020", "it takes keys in any order", builder.progress(1, 2).reversed().into_bytes(), false),
        case(
            "R-204",
            "it takes fields and words of a later version",
            text(builder.progress(1, 2).with(json!({"urgency": "whenever", "later_field": {"a": 1}}))),
            false,
        ),
        case(
            "R-021",
            "it survives an event of more than 64 KiB",
            text(
                builder
                    .progress(1, 2)
                    .with(json!({"@context": both, "extensions": {"xray": {"image": large}}})),
            ),
            true,
        ),
        case(
            "R-003",
            "it survives an event of another protocol",
            text(builder.progress(1, 2).with(foreign)),
            true,
        ),
        case("R-025", "it survives half an event", half, true),
        case("R-022", "it survives bytes that are not JSON in UTF-8", b"\xff\xfe{\"type\":}".to_vec(), true),
    ]
}

/// The result of a delivery.
enum Delivery {
    Accepted(String),
    Refused(String),
    /// The subscriber no longer responds, or responded with a server error.
    Failed(String),
}

/// Sends events to a subscriber that listens at `http://…` or `ws://…`.
pub async fn run(
    world: &World,
    url: &str,
    level: u8,
    sink: &mut (dyn FnMut(TrialNotice<'_>) + Send),
) -> Result<Report, TrialError> {
    let mut report = Report::new(world, Side::Subscriber, url, level);
    report.partial = true;
    let began = recount_world::moment();
    let mut transport = PushTransport::open(url).await?;
    for case in push_cases(world) {
        let took = transport.deliver(case.body).await;
        let after = match &took {
            Delivery::Failed(_) => None,
            // Check whether it still accepts events.
            _ if case.may_refuse => {
                Some(transport.deliver(EventBuilder::new(world).begin().value.to_string().into_bytes()).await)
            }
            _ => None,
        };
        let (outcome, detail) = match (took, after) {
            (Delivery::Failed(what), _) => (Outcome::Failed, what),
            (_, Some(Delivery::Failed(what) | Delivery::Refused(what))) => {
                (Outcome::Failed, format!("after it an ordinary event was not taken: {what}"))
            }
            (Delivery::Accepted(what), _) => (Outcome::Passed, what),
            (Delivery::Refused(what), _) if case.may_refuse => (Outcome::Passed, what),
            (Delivery::Refused(what), _) => (Outcome::Failed, what),
        };
        let Expectation(requirement, name) = case.expects;
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

enum PushTransport {
    Post { client: reqwest::Client, url: String },
    Frames { url: String, socket: Option<Box<Socket>> },
}

impl PushTransport {
    async fn open(url: &str) -> Result<PushTransport, TrialError> {
        if url.starts_with("ws://") {
            let transport =
                PushTransport::Frames { url: url.to_owned(), socket: Some(Box::new(dial(url).await?)) };
            return Ok(transport);
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
        Ok(PushTransport::Post { client, url: format!("{}/messages", url.trim_end_matches('/')) })
    }

    async fn deliver(&mut self, body: Vec<u8>) -> Delivery {
        match self {
            PushTransport::Post { client, url } => {
                let request = client.post(url.as_str()).header("content-type", "application/json").body(body);
                match request.send().await {
                    Err(why) => Delivery::Failed(format!("no response from {url}: {why}")),
                    Ok(answer) if answer.status().is_success() => {
                        Delivery::Accepted(format!("it answered {}", answer.status()))
                    }
                    Ok(answer) if answer.status().is_server_error() => {
                        Delivery::Failed(format!("it answered {}", answer.status()))
                    }
                    Ok(answer) => Delivery::Refused(format!("it answered {}", answer.status())),
                }
            }
            PushTransport::Frames { url, socket } => {
                let Some(open) = socket else {
                    return match dial(url).await {
                        Ok(again) => {
                            *socket = Some(Box::new(again));
                            Delivery::Refused("it had closed the socket and took a new one".to_owned())
                        }
                        Err(why) => Delivery::Failed(why.to_string()),
                    };
                };
                let message = match String::from_utf8(body) {
                    Ok(text) => Message::Text(text.into()),
                    Err(bytes) => Message::Binary(bytes.into_bytes().into()),
                };
                if let Err(why) = open.send(message).await {
                    *socket = None;
                    return Delivery::Failed(format!("the socket broke: {why}"));
                }
                match received(open, limits::TRIAL_QUIET).await {
                    true => Delivery::Accepted("the socket stayed open".to_owned()),
                    false => {
                        *socket = None;
                        Delivery::Failed("it closed the socket".to_owned())
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

/// Whether the socket stays open for this long; received messages are ignored.
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

/// An HTTP client without a proxy. The library needs a cryptography provider even if none is used.
pub(crate) fn client(timeout: Option<Duration>) -> reqwest::Result<reqwest::Client> {
    // Fails if a provider is already installed, which is fine.
    rustls::crypto::ring::default_provider().install_default().ok();
    let builder = reqwest::Client::builder().no_proxy();
    match timeout {
        Some(timeout) => builder.timeout(timeout).build(),
        None => builder.build(),
    }
}
