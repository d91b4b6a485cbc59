//! The client of a request, and the engine and runs it may use.
//!
//! The guard admits clients before the routes; its result is a [`RequestContext`] in the request. A request without one is
//! refused.

use std::fmt::Debug;

use ::http::request::Parts;
use axum::extract::{FromRequestParts, Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use recount_api::terms::Route;
use recount_engine::{Caller, RequestContext};
use recount_event::{Code, RunId, SessionId, TaskId};

use super::Face;
use super::http::Ids;
use crate::accept;
use crate::error::Refusal;
use crate::face_state::FaceState;

impl FromRequestParts<FaceState> for Face {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, face_state: &FaceState) -> Result<Self, Refusal> {
        match parts.extensions.get::<RequestContext>() {
            Some(RequestContext { engine, caller }) => {
                Ok(Face { engine: engine.clone(), caller: caller.clone(), face_state: face_state.clone() })
            }
            None => Err(token_missing()),
        }
    }
}

fn token_missing() -> Refusal {
    Refusal::new(Code::TokenMissing, "the request has no token; send `authorization: Bearer TOKEN`")
}

/// A layer on each route: passes only clients with one of its scopes.
pub(super) async fn allow<Name: Debug>(
    State(route): State<Route<Name>>,
    request: Request,
    next: Next,
) -> Response {
    let Some(visitor) = request.extensions().get::<RequestContext>() else {
        return token_missing().into_response();
    };
    let caller = &visitor.caller;
    if route.scopes.iter().any(|scope| caller.may(accept::scope(*scope))) {
        let response = next.run(request).await;
        if let Some(refusal) = response.extensions().get::<Refusal>() {
            // The published table must be complete.
            debug_assert!(
                route.codes().contains(&refusal.code),
                "{:?} returns {}, which its row in crates/api/src/routes.rs does not list: {}",
                route.name,
                refusal.code,
                refusal.detail
            );
        }
        return response;
    }
    let names: Vec<&str> = route.scopes.iter().map(|scope| accept::scope(*scope).as_str()).collect();
    scope_missing(caller, &names.join(" or ")).into_response()
}

fn scope_missing(caller: &Caller, wanted: &str) -> Refusal {
    let held: Vec<&str> = caller.scopes.iter().map(|scope| scope.as_str()).collect();
    let held = if held.is_empty() { "none".to_owned() } else { held.join(", ") };
    Refusal::new(
        Code::ScopeMissing,
        format!("this request requires the scope {wanted}; the token has {held}"),
    )
}

/// The run in a path, by itself or under its task, if the caller may see it.
pub(super) struct RunInPath {
    pub(super) face: Face,
    pub(super) run: RunId,
}

impl FromRequestParts<FaceState> for RunInPath {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, face_state: &FaceState) -> Result<Self, Refusal> {
        let face = Face::from_request_parts(parts, face_state).await?;
        let Ids(mut ids) = Ids::<Vec<String>>::from_request_parts(parts, face_state).await?;
        let run = match (ids.pop(), ids.pop()) {
            (Some(run), Some(task)) => face.run_of_task(&task, &run).await?,
            (run, _) => face.run_id(&run.unwrap_or_default()).await?,
        };
        Ok(RunInPath { face, run })
    }
}

/// Parses an id, if the caller may see the item. Other items are not found.
impl Face {
    pub(super) async fn run_id(&self, text: &str) -> Result<RunId, Refusal> {
        let run = accept::run_id(text)?;
        if self.sees_run(run).await? {
            return Ok(run);
        }
        // The same message as for an item that never existed.
        Err(Refusal::new(Code::RunNotFound, format!("run {run} not found")))
    }

    /// A run under a task. A run of another task is not found.
    async fn run_of_task(&self, task: &str, run: &str) -> Result<RunId, Refusal> {
        let (task, run) = (self.task_id(task)?, accept::run_id(run)?);
        let owner = match self.engine.catalogue().run(run).await? {
            Some(row) => row.task_id,
            None => self.engine.catalogue().tombstone(run).await?.and_then(|tombstone| tombstone.task_id),
        };
        if owner == Some(task) {
            return Ok(run);
        }
        Err(Refusal::new(Code::RunNotFound, format!("task {task} has no run {run}")))
    }

    /// Whether the caller may see a run.
    pub(super) async fn sees_run(&self, run: RunId) -> Result<bool, Refusal> {
        if self.caller.narrowing.is_none() {
            return Ok(true);
        }
        let row = self.engine.catalogue().run(run).await?;
        Ok(row.is_some_and(|row| self.caller.narrowing.admits(row.task_id, row.session_id)))
    }

    pub(super) fn task_id(&self, text: &str) -> Result<TaskId, Refusal> {
        let task = accept::task_id(text)?;
        if self.caller.narrowing.admits(Some(task), None) {
            return Ok(task);
        }
        Err(Refusal::new(Code::TaskNotFound, format!("task {task} not found")))
    }

    pub(super) fn session_id(&self, text: &str) -> Result<SessionId, Refusal> {
        let session = accept::session_id(text)?;
        if self.caller.narrowing.admits(None, Some(session)) {
            return Ok(session);
        }
        Err(Refusal::new(Code::SessionNotFound, format!("session {session} not found")))
    }

    /// Refuses to create something outside of what the caller is narrowed to.
    pub(super) fn check_may_create_in(
        &self,
        task: Option<TaskId>,
        session: Option<SessionId>,
    ) -> Result<(), Refusal> {
        match task {
            _ if self.caller.narrowing.admits(task, session) => Ok(()),
            Some(task) => Err(Refusal::new(Code::TaskNotFound, format!("task {task} not found"))),
            None => Err(Refusal::new(
                Code::ScopeMissing,
                "the token is limited to certain tasks or sessions; name one of them",
            )),
        }
    }
}
