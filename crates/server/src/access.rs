//! Access: which tenant and token a request belongs to, with tickets and rate limits.
//!
//! [`Gate`] identifies the client of a request. `guard.rs` refuses requests; the routes decide what a client may do.

mod active_tokens;
mod offline_tokens;
mod rate;
mod secret;
mod tickets;
mod token;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, Method, Uri, header};
use recount_engine::{Caller, RequestContext, Scope};
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::World;

pub(crate) use self::active_tokens::{ActiveTokens, NewToken};
pub use self::offline_tokens::OfflineTokens;
use self::secret::Secret;
pub(crate) use self::tickets::{TicketCaller, Tickets, without_ticket};
pub(crate) use self::token::{created, new_token, public_token, scope};
use crate::config::Aap;
pub use crate::config::Access;
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::Tenants;

/// Identifies the client of a request. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) bound: SocketAddr,
    pub(crate) access: Arc<Access>,
    /// The settings of the face for applications.
    pub(crate) aap: Arc<Aap>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) tokens: Arc<ActiveTokens>,
    pub(crate) tickets: Arc<Tickets>,
}

/// The tenant and token of a request; in its extensions next to [`RequestContext`].
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(crate) tenant: Arc<str>,
    /// `None` for the operator on this machine.
    pub(crate) token: Option<Arc<active_tokens::ActiveToken>>,
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
        bound: SocketAddr,
        access: Access,
        aap: Aap,
        tenants: Arc<Tenants>,
        tokens: ActiveTokens,
        world: &World,
    ) -> Self {
        let tickets = Arc::new(Tickets::new(world.clone()));
        let (access, aap) = (Arc::new(access), Arc::new(aap));
        Gate { bound, access, aap, tenants, tokens: Arc::new(tokens), tickets }
    }

    /// Whether requests without a token are allowed: only on a loopback address, and not if a token is required.
    pub(crate) fn allows_anonymous(&self) -> bool {
        self.bound.ip().to_canonical().is_loopback() && !self.access.require_token
    }

    /// Identifies the client of a request. A sent token must be valid, also where none is required.
    pub(crate) fn identify(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<(RequestContext, Admitted), Refusal> {
        match Credentials::parse(headers)? {
            Credentials::Token(token) => {
                let token = self.tokens.find(token)?;
                token.check_rate(self.access.requests_per_second)?;
                return self.admit_token(token, None);
            }
            // Programs with an empty key send this.
            Credentials::Bare if !self.allows_anonymous() => return Err(wrong()),
            Credentials::Bare | Credentials::Nothing => {}
        }
        // A ticket is for reading, so it creates no tickets.
        if let Some(ticket) = tickets::in_query(uri).filter(|_| method == Method::GET) {
            let from = TicketCaller::of(headers, peer);
            let token = self.tickets.redeem(&ticket, uri.path(), &from)?;
            return match token {
                Some(token) => {
                    token.check_valid()?;
                    token.check_rate(self.access.requests_per_second)?;
                    self.admit_token(token, Some(Scope::Read))
                }
                None => Ok(self.operator(Some(Scope::Read))),
            };
        }
        if self.allows_anonymous() {
            return Ok(self.operator(None));
        }
        Err(Refusal::new(Code::TokenMissing, "the request has no token; send `authorization: Bearer TOKEN`"))
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
        peer: Option<IpAddr>,
    ) -> Result<(RequestContext, Admitted), Refusal> {
        let refusal = match self.identify(method, uri, headers, peer) {
            Err(refusal) => refusal,
            found => return found,
        };
        let shown = Credentials::parse(headers);
        match shown {
            Ok(Credentials::Token(token)) if Secret::parse(token).is_some() => Err(refusal),
            _ if self.allows_anonymous() && refusal.code == Code::TokenInvalid => Ok(self.operator(None)),
            Ok(Credentials::Nothing | Credentials::Bare)
                if self.aap.public_meta && is_meta(method, below) =>
            {
                Ok(self.operator(Some(Scope::Read)))
            }
            _ => Err(refusal),
        }
    }

    fn admit_token(
        &self,
        token: Arc<active_tokens::ActiveToken>,
        only: Option<Scope>,
    ) -> Result<(RequestContext, Admitted), Refusal> {
        let tenant: Arc<str> = token.row.tenant.as_str().into();
        let Some(engine) = self.tenants.engine(&tenant) else {
            return Err(Refusal::new(Code::TokenInvalid, "the token's tenant does not exist"));
        };
        let caller = token.caller();
        let caller = match only {
            Some(scope) => caller.only(scope),
            None => caller,
        };
        Ok((RequestContext { engine, caller }, Admitted { tenant, token: Some(token) }))
    }

    /// The context for the audit trail, which administrators of the default tenant may read.
    pub(crate) fn audit_context(
        &self,
        context: &RequestContext,
        admitted: &Admitted,
    ) -> Result<RequestContext, Refusal> {
        let Some(audit) = self.tenants.audit() else {
            let detail = "this server has no audit trail, because it has no data folder";
            return Err(Refusal::new(Code::RouteNotFound, detail));
        };
        if &*admitted.tenant != TENANT_DEFAULT || !context.caller.may(Scope::Admin) {
            let detail = "the audit trail needs the scope admin of the default tenant";
            return Err(Refusal::new(Code::ScopeMissing, detail));
        }
        let mut caller = context.caller.clone();
        caller.scopes = [Scope::Read].into();
        Ok(RequestContext { engine: audit.engine().clone(), caller })
    }

    fn operator(&self, only: Option<Scope>) -> (RequestContext, Admitted) {
        let caller = Caller::operator();
        let caller = match only {
            Some(scope) => caller.only(scope),
            None => caller,
        };
        let context = RequestContext { engine: self.tenants.default_engine().clone(), caller };
        (context, Admitted { tenant: TENANT_DEFAULT.into(), token: None })
    }
}
