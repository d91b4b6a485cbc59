//! The client of a request, and the engine and sessions it may use.
//!
//! The guard admits clients before the routes; its result is a [`RequestContext`] in the request. A request without one
//! reaches only `/meta`.

use ::http::request::Parts;
use axum::extract::FromRequestParts;
use recount_engine::{Caller, Engine, Profile, RequestContext, Scope, SessionRow, SetupRow, ToolRef};
use recount_event::{Code, SessionId};

use super::{FaceState, StreamPermit};
use crate::accept;
use crate::error::Refusal;
use crate::limits;

/// The context of one request.
pub(super) struct Face {
    pub(super) engine: Engine,
    pub(super) caller: Caller,
    pub(super) places: FaceState,
}

impl FromRequestParts<FaceState> for Face {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, places: &FaceState) -> Result<Self, Refusal> {
        match parts.extensions.get::<RequestContext>() {
            Some(RequestContext { engine, caller }) => {
                Ok(Face { engine: engine.clone(), caller: caller.clone(), places: places.clone() })
            }
            None => {
                let detail = "the request has no token; send `authorization: Bearer TOKEN`";
                Err(Refusal::new(Code::TokenMissing, detail))
            }
        }
    }
}

impl Face {
    /// Refuses a client without this scope.
    pub(super) fn may(&self, scope: Scope) -> Result<(), Refusal> {
        if self.caller.may(scope) {
            return Ok(());
        }
        let held: Vec<&str> = self.caller.scopes.iter().map(|scope| scope.as_str()).collect();
        let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
        let detail = format!("this request requires the scope {}; the token has {held}", scope.as_str());
        Err(Refusal::new(Code::ScopeMissing, detail))
    }

    /// Refuses to trust a tool for a caller that could not approve its calls.
    pub(super) fn may_trust(&self, tools: Option<&[ToolRef]>) -> Result<(), Refusal> {
        let Some(trusted) = tools.unwrap_or_default().iter().find(|tool| tool.trust == Some(true)) else {
            return Ok(());
        };
        self.may(Scope::Approve).map_err(|refusal| {
            let detail = format!(
                "agent.tools trusts {:?}: {}; send \"trust\": false, or a token that may approve",
                accept::shortened(&trusted.name),
                refusal.detail
            );
            Refusal { detail, ..refusal }
        })
    }

    /// Refuses to create something outside of what the caller is narrowed to.
    pub(super) fn check_may_create(&self) -> Result<(), Refusal> {
        if self.caller.narrowing.is_none() {
            return Ok(());
        }
        let detail = "the token is limited to certain tasks or sessions and cannot create a session; use a token \
             without that limit";
        Err(Refusal::new(Code::ScopeMissing, detail))
    }

    /// Parses an id, if the caller may see the item.
    pub(super) fn session_id(&self, text: &str) -> Result<SessionId, Refusal> {
        let session = accept::session_id(text)?;
        match self.caller.narrowing.admits(None, Some(session)) {
            true => Ok(session),
            false => Err(accept::no_session(text)),
        }
    }

    /// The setup of a session. A session that no application created does not exist for this face.
    pub(super) async fn setup(&self, session: SessionId) -> Result<SetupRow, Refusal> {
        let row = self.engine.catalogue().setup(session).await?;
        row.ok_or_else(|| accept::no_session(&session.to_string()))
    }

    pub(super) async fn session(&self, session: SessionId) -> Result<(SessionRow, SetupRow), Refusal> {
        let setup = self.setup(session).await?;
        let row = self.engine.catalogue().session(session).await?;
        Ok((row.ok_or_else(|| accept::no_session(&session.to_string()))?, setup))
    }

    pub(super) fn profile(&self, name: &str) -> Result<&Profile, Refusal> {
        Ok(self.places.profiles.get(name)?)
    }

    /// A permit for one turn response.
    pub(super) fn place(&self) -> Result<StreamPermit, Refusal> {
        self.places.streams.try_take(&self.engine.instance(), 1).ok_or_else(|| {
            let detail = format!(
                "the limit of {} streamed turns is reached; try again shortly",
                self.places.streams_max
            );
            Refusal { retry_after: Some(limits::STREAMS_RETRY), ..Refusal::new(Code::TooManyStreams, detail) }
        })
    }
}
