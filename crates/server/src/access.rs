//! Who may come in: tokens, tickets, tenants, and how often anybody may ask.
//!
//! [`Gate`] says of a request who it is from. Where requests are stopped stands in `guard.rs`; what somebody
//! who is in may do is decided by the routes.

mod book;
mod keys;
mod rate;
mod seal;
mod secret;
mod tenants;
mod tickets;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use http::{HeaderMap, Method, Uri, header};
use recount_engine::Visitor;
use recount_engine::{Caller, Scope};
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::World;

pub use self::book::Book;
pub(crate) use self::keys::{Keys, NewToken};
pub(crate) use self::seal::key as seal_key;
pub use self::tenants::TENANT_DEFAULT;
pub(crate) use self::tenants::Tenants;
pub(crate) use self::tenants::{is_tenant_name, tenant_folders};
pub(crate) use self::tickets::{TicketCaller, Tickets, without_ticket};

/// What may be configured of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// Whether even who asks over loopback must show a token.
    pub require_token: bool,
    /// Pages of other origins that may ask, exactly as browsers name them.
    pub allowed_origins: Vec<String>,
    /// How often a token may ask that says nothing of it itself.
    pub requests_per_second: Option<u32>,
}

/// Says who a request is from. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) bound: SocketAddr,
    pub(crate) access: Arc<Access>,
    pub(crate) tenants: Arc<Tenants>,
    pub(crate) keys: Arc<Keys>,
    pub(crate) tickets: Arc<Tickets>,
}

/// The token that a visitor came with; in the request's extensions beside [`Visitor`].
#[derive(Clone)]
pub(crate) struct Admitted {
    pub(crate) tenant: Arc<str>,
    /// `None` for the operator at this machine.
    pub(crate) key: Option<Arc<keys::Key>>,
}

impl Gate {
    pub(crate) fn new(
        bound: SocketAddr,
        access: Access,
        tenants: Arc<Tenants>,
        keys: Keys,
        world: &World,
    ) -> Self {
        let tickets = Arc::new(Tickets::new(world.clone()));
        Gate { bound, access: Arc::new(access), tenants, keys: Arc::new(keys), tickets }
    }

    /// Whether somebody may come in without a word: only who is at this machine, and only if that was not
    /// ruled out.
    pub(crate) fn lets_anybody_in(&self) -> bool {
        self.bound.ip().to_canonical().is_loopback() && !self.access.require_token
    }

    /// Who asks. A token that is shown must be good, also where none is needed.
    pub(crate) fn who(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
        peer: Option<IpAddr>,
    ) -> Result<(Visitor, Admitted), Refusal> {
        let mut shown = headers.get_all(header::AUTHORIZATION).iter();
        if let Some(value) = shown.next() {
            if shown.next().is_some() {
                return Err(Refusal::new(Code::TokenInvalid, "the Authorization header comes twice"));
            }
            let wrong = || Refusal::new(Code::TokenInvalid, "Authorization is not Bearer and a token");
            let text = value.to_str().map_err(|_| wrong())?;
            let (scheme, token) = text.split_once(' ').ok_or_else(wrong)?;
            if !scheme.eq_ignore_ascii_case("bearer") {
                return Err(wrong());
            }
            let key = self.keys.of(token.trim())?;
            key.may_ask_now(self.access.requests_per_second)?;
            return self.visit(key, None);
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
        Err(Refusal::new(Code::TokenMissing, "nothing says who asks; send authorization: Bearer and a token"))
    }

    fn visit(&self, key: Arc<keys::Key>, only: Option<Scope>) -> Result<(Visitor, Admitted), Refusal> {
        let tenant: Arc<str> = key.row.tenant.as_str().into();
        let Some(engine) = self.tenants.engine(&tenant) else {
            return Err(Refusal::new(Code::TokenInvalid, "the token's tenant is not there"));
        };
        let caller = key.caller();
        let caller = match only {
            Some(scope) => caller.only(scope),
            None => caller,
        };
        Ok((Visitor { engine, caller }, Admitted { tenant, key: Some(key) }))
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
