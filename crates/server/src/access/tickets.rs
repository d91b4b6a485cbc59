//! Tickets for readers of streams that cannot send headers, such as a browser's `EventSource`.
//!
//! A ticket is in the URL, so it grants little: one path, read only, redeemed once within a minute, then only for the
//! same client.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use http::{HeaderMap, Uri, header};
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::World;
use tokio::time::Instant;

use super::{Identity, secret};
use crate::limits;
use crate::peer::PeerId;

/// The query parameter that carries a ticket.
pub(super) const PARAMETER: &str = "ticket";

const PREFIX: &str = "tick_";

/// Identifies the reader of a ticket, as far as headers and address allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TicketCaller {
    peer: Option<PeerId>,
    origin: Option<String>,
    agent: Option<String>,
}

impl TicketCaller {
    pub(crate) fn of(headers: &HeaderMap, peer: Option<PeerId>) -> Self {
        let text =
            |name| headers.get(name).map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned());
        TicketCaller { peer, origin: text(header::ORIGIN), agent: text(header::USER_AGENT) }
    }
}

struct Ticket {
    path: String,
    /// The client that requested it.
    identity: Identity,
    until: Instant,
    /// The reader that redeemed it.
    reader: Option<TicketCaller>,
}

pub(crate) struct Tickets {
    tickets: Mutex<HashMap<blake3::Hash, Ticket>>,
    world: World,
}

impl Tickets {
    pub(super) fn new(world: World) -> Self {
        Tickets { tickets: Mutex::default(), world }
    }

    /// Creates a ticket for one path, valid for a short time.
    pub(crate) fn issue(&self, path: &str, identity: Identity) -> Result<String, Refusal> {
        let now = recount_world::moment();
        let text = format!("{PREFIX}{}", secret::random(&self.world));
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        tickets.retain(|_, ticket| ticket.until > now);
        if tickets.len() >= limits::TICKETS_MAX {
            let detail =
                format!("the limit of {} unused tickets is reached; try again shortly", limits::TICKETS_MAX);
            return Err(Refusal {
                retry_after: Some(limits::TICKET_WAIT),
                ..Refusal::new(Code::RateLimited, detail)
            });
        }
        let until = now + limits::TICKET_WAIT;
        let ticket = Ticket { path: path.to_owned(), identity, until, reader: None };
        tickets.insert(blake3::hash(text.as_bytes()), ticket);
        Ok(text)
    }

    /// Returns the client that requested a ticket, if the ticket is valid for this path and this reader.
    pub(super) fn redeem(&self, text: &str, path: &str, from: &TicketCaller) -> Result<Identity, Refusal> {
        let now = recount_world::moment();
        let mut tickets = self.tickets.lock().unwrap_or_else(PoisonError::into_inner);
        let hash = blake3::hash(text.as_bytes());
        let ticket = tickets.get_mut(&hash).filter(|ticket| ticket.until > now && ticket.path == path);
        let Some(ticket) = ticket else { return Err(invalid()) };
        match &ticket.reader {
            None => {
                ticket.reader = Some(from.clone());
                ticket.until = now + limits::TICKET_LIFE;
            }
            Some(reader) if reader == from => {}
            Some(_) => return Err(invalid()),
        }
        Ok(ticket.identity.clone())
    }
}

fn invalid() -> Refusal {
    Refusal::new(
        Code::TicketInvalid,
        "the ticket is unknown, expired, for another path, or was used by another reader",
    )
}

/// The ticket in the query of an address.
pub(super) fn in_query(uri: &Uri) -> Option<String> {
    let pairs = form_urlencoded::parse(uri.query()?.as_bytes());
    pairs.into_iter().find(|(name, _)| name == PARAMETER).map(|(_, value)| value.into_owned())
}

/// The address without the ticket: nothing after the guard needs to see it.
pub(crate) fn without_ticket(uri: &Uri) -> Option<Uri> {
    let query = uri.query()?;
    let is_ticket = |pair: &&str| form_urlencoded::parse(pair.as_bytes()).any(|(name, _)| name == PARAMETER);
    if !query.split('&').any(|pair| is_ticket(&pair)) {
        return None;
    }
    let rest: Vec<&str> = query.split('&').filter(|pair| !is_ticket(pair)).collect();
    let path =
        if rest.is_empty() { uri.path().to_owned() } else { format!("{}?{}", uri.path(), rest.join("&")) };
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(path.parse().ok()?);
    Uri::from_parts(parts).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn reader(address: &str) -> TicketCaller {
        TicketCaller {
            peer: address.parse().ok().map(PeerId::Address),
            origin: None,
            agent: Some("b".into()),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_ticket_serves_one_path_and_one_reader() {
        let tickets = Tickets::new(World::real());
        let ticket = tickets.issue("/v1/events/stream", Identity::Operator).unwrap();
        let code = |text: &str, path, from: &TicketCaller| {
            tickets.redeem(text, path, from).map_err(|refusal| refusal.code).err()
        };
        let (here, there) = (reader("127.0.0.1"), reader("127.0.0.2"));
        assert_eq!(code("tick_0", "/v1/events/stream", &here), Some(Code::TicketInvalid));
        assert_eq!(code(&ticket, "/v1/events", &here), Some(Code::TicketInvalid), "another path");
        assert_eq!(code(&ticket, "/v1/events/stream", &here), None);
        assert_eq!(code(&ticket, "/v1/events/stream", &here), None, "the reader reconnects");
        assert_eq!(code(&ticket, "/v1/events/stream", &there), Some(Code::TicketInvalid), "another reader");
        tokio::time::advance(limits::TICKET_LIFE - Duration::from_secs(1)).await;
        assert_eq!(code(&ticket, "/v1/events/stream", &here), None);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(code(&ticket, "/v1/events/stream", &here), Some(Code::TicketInvalid), "too old");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unredeemed_ticket_expires() {
        let tickets = Tickets::new(World::real());
        let ticket = tickets.issue("/p", Identity::Operator).unwrap();
        tokio::time::advance(limits::TICKET_WAIT + Duration::from_secs(1)).await;
        assert!(tickets.redeem(&ticket, "/p", &reader("127.0.0.1")).is_err());
    }

    #[test]
    fn the_ticket_is_removed_from_the_address() {
        for (whole, rest) in [
            ("/p?ticket=x", Some("/p")),
            ("/p?a=1&ticket=x&b=2", Some("/p?a=1&b=2")),
            ("/p?a=1&%74icket=x", Some("/p?a=1")),
            ("/p?a=ticket", None),
            ("/p", None),
        ] {
            let uri: Uri = whole.parse().unwrap();
            assert_eq!(without_ticket(&uri).map(|uri| uri.to_string()).as_deref(), rest, "{whole}");
        }
    }
}
