//! Access: which tenant and token a request belongs to, with tickets and rate limits.
//!
//! [`Gate`] identifies the client of a request. `guard.rs` refuses requests; the routes decide what a client may do.

mod active_tokens;
mod offline_tokens;
mod rate;
mod secret;
mod socket_users;
mod tickets;
mod token;

use std::net::SocketAddr;
use std::sync::Arc;

use http::{HeaderMap, Method, Uri, header};
use recount_engine::{Caller, RequestContext, Scope};
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::World;

pub(crate) use self::active_tokens::{ActiveTokens, NewToken};
pub use self::offline_tokens::OfflineTokens;
use self::secret::Secret;
use self::socket_users::{IdentifiedUser, SocketUsers};
pub(crate) use self::tickets::{TicketCaller, Tickets, without_ticket};
pub(crate) use self::token::{created, new_token, public_token, scope};
use crate::config::Aap;
pub use crate::config::{Access, UnixUser};
use crate::peer::{Peer, PeerId};
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::{TenantPlace, Tenants};

/// Identifies the client of a request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gate {
    /// The bound TCP address.
    pub(crate) bound: Option<SocketAddr>,
    pub(crate) access: Arc<Access>,
    /// The settings of the face for applications.
    pub(crate) aap: Arc<Aap>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) tokens: Arc<ActiveTokens>,
    pub(crate) tickets: Arc<Tickets>,
    users: Arc<SocketUsers>,
}

/// The tenant and client of a request; in its extensions next to [`RequestContext`].
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(crate) tenant: Arc<str>,
    pub(crate) identity: Identity,
}

/// A client, and where its tenant is.
pub(crate) struct IdentifiedClient {
    pub(crate) caller: Caller,
    pub(crate) place: TenantPlace,
    pub(crate) admitted: Admitted,
}

/// A client that the main server has identified; in the extensions of its requests at another server.
#[derive(Clone)]
pub(crate) struct VouchedClient {
    pub(crate) tenant: Arc<str>,
    pub(crate) caller: Caller,
}

/// Whose rights a request has.
#[derive(Clone)]
pub(crate) enum Identity {
    /// The operator on this machine, over TCP.
    Operator,
    Token(Arc<active_tokens::ActiveToken>),
    /// A user of this machine, over the Unix socket.
    User(Arc<IdentifiedUser>),
    /// The main server has identified the client.
    Vouched,
}

/// The content of the `Authorization` header.
enum Credentials<'a> {
    Nothing,
    /// `Bearer` without a token.
    Bare,
    Token(&'a str),
}

impl Credentials<'_> {
    fn parse(headers: &HeaderMap) -> Result<Credentials<'_>, Refusal> {
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

/// Whether a route of the face for applications may be public.
fn is_meta(method: &Method, below: &str) -> bool {
    matches!(*method, Method::GET | Method::HEAD) && below.trim_end_matches('/') == "/meta"
}

impl Gate {
    pub(crate) fn new(
        bound: Option<SocketAddr>,
        access: Access,
        aap: Aap,
        tenants: Arc<Tenants>,
        tokens: ActiveTokens,
        world: &World,
    ) -> Self {
        let tickets = Arc::new(Tickets::new(world.clone()));
        let users = Arc::new(SocketUsers::new(&access.unix_users));
        let (access, aap) = (Arc::new(access), Arc::new(aap));
        Gate { bound, access, aap, tenants, tokens: Arc::new(tokens), tickets, users }
    }

    /// Whether requests over TCP are allowed without a token: only on a loopback address, and not if a token is required.
    pub(crate) fn allows_anonymous(&self) -> bool {
        self.bound.is_some_and(|bound| bound.ip().to_canonical().is_loopback()) && !self.access.require_token
    }

    /// The client of a request without a token, if it needs none.
    fn without_token(&self, peer: Option<&Peer>) -> Option<Identity> {
        match peer {
            Some(Peer::User(_)) if self.access.require_token => None,
            Some(Peer::User(user)) => Some(Identity::User(Arc::new(self.users.identify(user)?))),
            Some(Peer::Address(_)) | None => self.allows_anonymous().then_some(Identity::Operator),
        }
    }

    /// Identifies the client of a request. A sent token must be valid, also where none is required.
    pub(crate) fn identify(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<IdentifiedClient, Refusal> {
        match Credentials::parse(headers)? {
            Credentials::Token(token) => {
                return self.admit(Identity::Token(self.tokens.find(token)?), None);
            }
            // Programs with an empty key send this.
            Credentials::Bare if self.without_token(peer).is_none() => return Err(wrong()),
            Credentials::Bare | Credentials::Nothing => {}
        }
        // A ticket is for reading, so it creates no tickets.
        if let Some(ticket) = tickets::in_query(uri).filter(|_| method == Method::GET) {
            let from = TicketCaller::of(headers, peer.map(Peer::id));
            let identity = self.tickets.redeem(&ticket, uri.path(), &from)?;
            return self.admit(identity, Some(Scope::Read));
        }
        match (self.without_token(peer), peer) {
            (Some(identity), _) => self.admit(identity, None),
            (None, Some(Peer::User(user))) if !self.access.require_token => {
                let id = PeerId::User(user.uid);
                let name = user.name.as_ref().map_or_else(|| id.to_string(), |name| format!("{name} ({id})"));
                let detail = format!(
                    "the request has no token, and the user {name} has no access without one; send \
                     `authorization: Bearer TOKEN`, or add the user to access.unix_users"
                );
                Err(Refusal::new(Code::TokenMissing, detail))
            }
            (None, _) => {
                let detail = "the request has no token; send `authorization: Bearer TOKEN`";
                Err(Refusal::new(Code::TokenMissing, detail))
            }
        }
    }

    /// Identifies the client of a request from an application. Applications send a key to every server, so where no
    /// token is required, a foreign key is ignored. A key in the form of a token is checked: a revoked token must not
    /// count as none.
    pub(crate) fn identify_application(
        &self,
        below: &str,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<&Peer>,
    ) -> Result<IdentifiedClient, Refusal> {
        let refusal = match self.identify(method, uri, headers, peer) {
            Err(refusal) => refusal,
            found => return found,
        };
        let without_token = self.without_token(peer).filter(|_| refusal.code == Code::TokenInvalid);
        match (Credentials::parse(headers), without_token) {
            (Ok(Credentials::Token(token)), _) if Secret::parse(token).is_some() => Err(refusal),
            (_, Some(identity)) => self.admit(identity, None),
            (Ok(Credentials::Nothing | Credentials::Bare), None)
                if self.aap.public_meta && is_meta(method, below) =>
            {
                self.admit(Identity::Operator, Some(Scope::Read))
            }
            _ => Err(refusal),
        }
    }

    /// The context of an identified client, with at most one scope if one is named.
    fn admit(&self, identity: Identity, only: Option<Scope>) -> Result<IdentifiedClient, Refusal> {
        let rate = self.access.requests_per_second;
        let (tenant, caller): (Arc<str>, Caller) = match &identity {
            Identity::Operator => (TENANT_DEFAULT.into(), Caller::operator()),
            Identity::Vouched => return Err(wrong()),
            Identity::Token(token) => {
                token.check_valid()?;
                token.check_rate(rate)?;
                (token.row.tenant.as_str().into(), token.caller())
            }
            Identity::User(user) => {
                user.check_rate(rate)?;
                (user.tenant.clone(), user.caller.clone())
            }
        };
        let caller = match only {
            Some(scope) => caller.only(scope),
            None => caller,
        };
        let Some(place) = self.tenants.place(&tenant) else {
            return Err(Refusal::new(Code::TokenInvalid, "the token's tenant does not exist"));
        };
        Ok(IdentifiedClient { caller, place, admitted: Admitted { tenant, identity } })
    }

    /// A client that the main server has identified.
    pub(crate) fn vouched(&self, client: VouchedClient) -> Result<IdentifiedClient, Refusal> {
        let VouchedClient { tenant, caller } = client;
        let Some(TenantPlace::Here(engine)) = self.tenants.place(&tenant) else {
            let detail = "the tenant is not at this server any more; try again shortly";
            return Err(Refusal::new(Code::StoreUnavailable, detail));
        };
        let admitted = Admitted { tenant, identity: Identity::Vouched };
        Ok(IdentifiedClient { caller, place: TenantPlace::Here(engine), admitted })
    }

    /// The context for the audit trail, which administrators of the default tenant may read.
    pub(crate) fn audit_context(&self, client: &IdentifiedClient) -> Result<RequestContext, Refusal> {
        let Some(audit) = self.tenants.audit() else {
            let detail = "this server has no audit trail, because it has no data folder";
            return Err(Refusal::new(Code::RouteNotFound, detail));
        };
        if &*client.admitted.tenant != TENANT_DEFAULT || !client.caller.may(Scope::Admin) {
            let detail = "the audit trail needs the scope admin of the default tenant";
            return Err(Refusal::new(Code::ScopeMissing, detail));
        }
        let mut caller = client.caller.clone();
        caller.scopes = [Scope::Read].into();
        Ok(RequestContext { engine: audit.engine().clone(), caller })
    }
}
