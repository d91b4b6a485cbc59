//! The client of a request that the main server has identified, as a header for the server that has the tenant.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Request;
use http::{HeaderName, HeaderValue};
use recount_engine::{Caller, Narrowing, Scope};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use crate::access::VouchedClient;
use crate::peer::{Encrypted, LocalUser, Peer};

/// Only between servers: the main server removes it from the requests of clients.
pub(crate) const CLIENT: HeaderName = HeaderName::from_static("recount-vouched-client");

/// Marks the response to a request that changed nothing because it only previewed the change.
pub(crate) const DRY_RUN: HeaderName = HeaderName::from_static("recount-dry-run");

#[derive(Serialize, Deserialize)]
pub(crate) struct ClientHeader {
    tenant: String,
    id: String,
    name: String,
    scopes: BTreeSet<Scope>,
    narrowing: Narrowing,
    has_token: bool,
    peer: Option<PeerFacts>,
    is_encrypted: bool,
}

#[derive(Serialize, Deserialize)]
enum PeerFacts {
    Address(std::net::SocketAddr),
    User { uid: u32, name: Option<String>, is_operator: bool },
}

impl ClientHeader {
    /// The header for a request of this caller.
    pub(super) fn of(request: &Request, tenant: &str, caller: &Caller) -> HeaderValue {
        let peer = request.extensions().get::<Peer>().map(|peer| match peer {
            Peer::Address(address) => PeerFacts::Address(*address),
            Peer::User(user) => {
                PeerFacts::User { uid: user.uid, name: user.name.clone(), is_operator: user.is_operator }
            }
        });
        let header = ClientHeader {
            tenant: tenant.to_owned(),
            id: caller.id.clone(),
            name: caller.name.clone(),
            scopes: caller.scopes.clone(),
            narrowing: caller.narrowing.clone(),
            has_token: caller.has_token(),
            peer,
            is_encrypted: request.extensions().get::<Encrypted>().is_some(),
        };
        let text = serde_json::to_string(&header).expect("texts, numbers and lists of them are valid JSON");
        HeaderValue::from_bytes(escaped(&text).as_bytes()).expect("all of it is printable ASCII")
    }

    pub(crate) fn read(value: &HeaderValue) -> Option<Self> {
        serde_json::from_slice(value.as_bytes()).ok()
    }

    /// Adds the client to its request. `never`: becomes true when the caller loses access, which only the main server learns, so
    /// it ends the request.
    pub(crate) fn add_to(self, request: &mut Request, never: &watch::Sender<bool>) {
        let ClientHeader { tenant, id, name, scopes, narrowing, has_token, peer, is_encrypted } = self;
        let caller = match has_token {
            true => Caller::new(id, name, scopes, narrowing, never.subscribe(), None),
            false => {
                let mut caller = Caller::local_user(id, name, scopes);
                caller.narrowing = narrowing;
                caller
            }
        };
        let extensions = request.extensions_mut();
        extensions.insert(VouchedClient { tenant: tenant.into(), caller });
        match peer {
            Some(PeerFacts::Address(address)) => drop(extensions.insert(Peer::Address(address))),
            Some(PeerFacts::User { uid, name, is_operator }) => {
                extensions.insert(Peer::User(Arc::new(LocalUser { uid, name, is_operator })));
            }
            None => drop(extensions.remove::<Peer>()),
        }
        if is_encrypted {
            extensions.insert(Encrypted);
        }
    }
}

/// The same JSON in ASCII: names may have any letters, and headers may not.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for letter in json.chars() {
        if letter.is_ascii() && !letter.is_ascii_control() {
            out.push(letter);
        } else {
            let mut units = [0; 2];
            for unit in letter.encode_utf16(&mut units) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[tokio::test]
    async fn a_client_arrives_as_it_was_identified() {
        let (revoke, revoked) = watch::channel(false);
        let narrowing = Narrowing {
            tasks: ["task_01JZZZZZZZZZZZZZZZZZZZZZZZ".parse().unwrap()].into(),
            ..Narrowing::default()
        };
        let scopes: BTreeSet<Scope> = [Scope::Read, Scope::Approve].into();
        let names = ["ada", "Žofie \u{1f600} \"x\" \\ \u{7f}\n"];
        let user = LocalUser { uid: 7, name: Some("Žofie".to_owned()), is_operator: false };
        let peers = [Peer::Address("192.0.2.7:1".parse().unwrap()), Peer::User(Arc::new(user))];
        for (name, peer) in names.into_iter().zip(peers) {
            let caller = Caller::new(
                "tok_1".into(),
                name.into(),
                scopes.clone(),
                narrowing.clone(),
                revoked.clone(),
                None,
            );
            let mut sent = Request::new(Body::empty());
            sent.extensions_mut().insert(peer.clone());
            sent.extensions_mut().insert(Encrypted);
            let header = ClientHeader::of(&sent, "acme", &caller);
            let mut received = Request::new(Body::empty());
            ClientHeader::read(&header).unwrap().add_to(&mut received, &revoke);
            let VouchedClient { tenant, caller: found } =
                received.extensions().get::<VouchedClient>().unwrap();
            assert_eq!((&**tenant, &*found.id, &*found.name), ("acme", "tok_1", name));
            assert_eq!((&found.scopes, &found.narrowing), (&scopes, &narrowing));
            assert!(found.has_token() && received.extensions().get::<Encrypted>().is_some());
            let there = received.extensions().get::<Peer>().unwrap();
            assert_eq!(format!("{there:?}"), format!("{peer:?}"));
        }
        let header = ClientHeader::of(&Request::new(Body::empty()), "acme", &Caller::operator());
        let mut received = Request::new(Body::empty());
        received.extensions_mut().insert(Peer::Address("192.0.2.7:1".parse().unwrap()));
        ClientHeader::read(&header).unwrap().add_to(&mut received, &revoke);
        assert!(received.extensions().get::<Peer>().is_none(), "not that of the other server");
        assert!(!received.extensions().get::<VouchedClient>().unwrap().caller.has_token());
        assert!(ClientHeader::read(&HeaderValue::from_static("{}")).is_none());
    }
}
