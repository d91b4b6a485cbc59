//! Access: which tenant and token a request belongs to, with tickets and rate limits.
//!
//! [`Gate`] identifies the client of a request. `guard.rs` refuses requests; the routes decide what a client may do.

mod book;
mod keys;
mod rate;
mod secret;
mod tickets;
mod token;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, Method, Uri, header};
use recount_engine::{Caller, Scope, Visitor};
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::World;

pub use self::book::Book;
pub(crate) use self::keys::Keys;
use self::secret::Secret;
pub(crate) use self::tickets::{TicketCaller, Tickets, without_ticket};
pub(crate) use self::token::{created, new_token, public_token};
use crate::config::Aap;
pub use crate::config::Access;
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::Tenants;

/// Identifies the client of a request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) bound: SocketAddr,
    pub(crate) access: Arc<Access>,
    /// Where applications come in.
    pub(crate) aap: Arc<Aap>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) tickets: Arc<Tickets>,
}

/// The token of a request; in its extensions next to [`Visitor`].
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(crate) tenant: Arc<str>,
    /// `None` for the operator at this machine.
    pub(crate) key: Option<Arc<keys::Key>>,
}

/// What a request has in `Authorization`.
enum Credentials<'a> {
    Nothing,
    /// `Bearer` without a token.
    Bare,
    Token(&'a str),
}

impl Credentials<'_> {
    fn by(headers: &HeaderMap) -> Result<Credentials<'_>, Refusal> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        let Some(value) = shown.next() else { return Ok(Credentials::Nothing) };
        if shown.next().is_some() {
            return Err(Refusal::new(
                Code::TokenInvalid,
                "the Authorization header is repeated; send it once",
            ));
        }
        let text = value.to_str().map_err(|_| wrong())?.trim();
        let (scheme, token) = text.split_once(' ').unwrap_or((text, ""));
        match (scheme.eq_ignore_ascii_case("bearer"), token.trim()) {
            (false, _) => Err(wrong()),
            (true, "") => Ok(Credentials::Bare),
            (true, token) => Ok(Credentials::Token(token)),
        }
    }
}

fn wrong() -> Refusal {
    Refusal::new(Code::TokenInvalid, "the Authorization header is not `Bearer TOKEN`")
}

/// The routes of the face for applications that may be public.
fn is_meta(method: &Method, below: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && below.trim_end_matches('/') == "/meta"
}

impl Gate {
    pub(crate) fn new(
        bound: SocketAddr,
        access: Access,
        aap: Aap,
        tenants: Arc<Tenants>,
        keys: Keys,
        world: &World,
    ) -> Self {
        let tickets = Arc::new(Tickets::new(world.clone()));
        let (access, aap) = (Arc::new(access), Arc::new(aap));
        Gate { bound, access, aap, tenants, keys: Arc::new(keys), tickets }
    }

    /// Whether requests without a token are allowed: only on a loopback address, and not if a token is required.
    pub(crate) fn lets_anybody_in(&self) -> bool {
        self.bound.ip().to_canonical().is_loopback() && !self.access.require_token
    }

    /// The client of a request. A token must be valid if there is one, also where none is required.
    pub(crate) fn who(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<(Visitor, Admitted), Refusal> {
        match Credentials::by(headers)? {
            Credentials::Token(token) => {
                let key = self.keys.of(token)?;
                key.may_ask_now(self.access.requests_per_second)?;
                return self.visit(key, None);
            }
            // Sent by programs with an empty key.
            Credentials::Bare if !self.lets_anybody_in() => return Err(wrong()),
            Credentials::Bare | Credentials::Nothing => {}
        }
        // A ticket makes no ticket: it is for reading.
        if let Some(ticket) = tickets::in_query(uri).filter(|_| method == Method::GET) {
            let from = TicketCaller::of(headers, peer);
            let key = self.tickets.redeem(&ticket, uri.path(), &from)?;
            return match key {
                Some(key) => {
                    key.is_good()?;
                    key.may_ask_now(self.access.requests_per_second)?;
                    self.visit(key, Some(Scope::Read))
                }
                None => Ok(self.operator(Some(Scope::Read))),
            };
        }
        if self.lets_anybody_in() {
            return Ok(self.operator(None));
        }
        Err(Refusal::new(Code::TokenMissing, "the request has no token; send `authorization: Bearer TOKEN`"))
    }

    /// The client of a request of an application. Applications send a key to every server, so where none is required, a
    /// foreign key is ignored. One in the form of our tokens is not: a revoked token must not count as none.
    pub(crate) fn which_application(
        &self,
        below: &str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<(Visitor, Admitted), Refusal> {
        let refusal = match self.who(method, uri, headers, peer) {
            Err(refusal) => refusal,
            found => return found,
        };
        let shown = Credentials::by(headers);
        match shown {
            Ok(Credentials::Token(token)) if Secret::parse(token).is_some() => Err(refusal),
            _ if self.lets_anybody_in() && refusal.code == Code::TokenInvalid => Ok(self.operator(None)),
            Ok(Credentials::Nothing | Credentials::Bare)
                if self.aap.public_meta && is_meta(method, below) =>
            {
                Ok(self.operator(Some(Scope::Read)))
            }
            _ => Err(refusal),
        }
    }

    fn visit(&self, key: Arc<keys::Key>, only: Option<Scope>) -> Result<(Visitor, Admitted), Refusal> {
        let tenant: Arc<str> = key.row.tenant.as_str().into();
        let Some(engine) = self.tenants.engine(&tenant) else {
            return Err(Refusal::new(Code::TokenInvalid, "the token's tenant does not exist"));
        };
        let caller = key.caller();
        let caller = match only {
            Some(scope) => caller.only(scope),
            None => caller,
        };
        Ok((Visitor { engine, caller }, Admitted { tenant, key: Some(key) }))
    }

    /// The same visitor before the audit trail, which administrators of the default tenant may read.
    pub(crate) fn auditor(&self, visitor: &Visitor, admitted: &Admitted) -> Result<Visitor, Refusal> {
        let Some(audit) = self.tenants.audit() else {
            let detail = "this server has no audit trail, because it has no data folder";
            return Err(Refusal::new(Code::RouteNotFound, detail));
        };
        if &*admitted.tenant != TENANT_DEFAULT || !visitor.caller.may(Scope::Admin) {
            let detail = "the audit trail needs the scope admin of the default tenant";
            return Err(Refusal::new(Code::ScopeMissing, detail));
        }
        let mut caller = visitor.caller.clone();
        caller.scopes = [Scope::Read].into();
        Ok(Visitor { engine: audit.engine().clone(), caller })
    }

    fn operator(&self, only: Option<Scope>) -> (Visitor, Admitted) {
        let caller = Caller::operator();
        let caller = match only {
            Some(scope) => caller.only(scope),
            None => caller,
        };
        let visitor = Visitor { engine: self.tenants.default_engine().clone(), caller };
        (visitor, Admitted { tenant: TENANT_DEFAULT.into(), key: None })
    }
}
