//! The routes of the native face: the only async part. Each handler validates, calls the engine and projects the
//! result.
//!
//! Handlers are in one file per subject; [`handler`] lists them all.

mod allowances;
mod artifacts;
mod caller;
mod changes;
mod events;
mod form;
mod http;
mod import;
mod lineage;
mod once;
mod orders;
mod patches;
mod policy;
mod prompts;
mod raw;
mod retention;
mod runs;
mod sessions;
mod tag;
mod tasks;
mod uploads;

use std::fmt::Debug;
use std::sync::Arc;

use ::http::{HeaderValue, Method, StatusCode};
use axum::Router;
use axum::body::Body;
use axum::extract::{OriginalUri, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use recount_api::routes::{ROUTES, RouteName};
use recount_api::terms::Route;
use recount_engine::{Caller, Engine, Redactor};
use recount_event::{Code, PromptKind};
use recount_transport::RequestId;
use recount_world::World;

use crate::accept;
use crate::error::{Refusal, problem_response};
use crate::face_state::FaceState;

pub use self::http::encoded;
pub use self::once::REPLAYED;
pub use self::retention::DryRun;

/// The context of one request: the engine of its tenant, and the client.
struct Face {
    engine: Engine,
    caller: Caller,
    face_state: FaceState,
}

/// All routes of [`ROUTES`], under `/v1` and under `/hecate/v1`. Must be served within [`identified`], and after
/// a layer that adds a [`RequestContext`].
pub fn router(face_state: FaceState) -> Router {
    let routes =
        mount(ROUTES, handler).with_state(face_state).method_not_allowed_fallback(method_not_allowed);
    Router::new().nest("/v1", routes.clone()).nest("/hecate/v1", routes).fallback(not_found)
}

/// The routes of a table, each after the checks of its scopes and its query. Another version of the face is another
/// table with its own handlers, nested next to this one.
pub fn mount<Name, S>(
    table: &[Route<Name>],
    handler: impl Fn(Name, MethodFilter) -> MethodRouter<S>,
) -> Router<S>
where
    Name: Copy + Debug + Send + Sync + 'static,
    S: Clone + Send + Sync + 'static,
{
    let mut routes = Router::new();
    for route in table {
        let filter = match route.method {
            "DELETE" => MethodFilter::DELETE,
            "PATCH" => MethodFilter::PATCH,
            "POST" => MethodFilter::POST,
            "PUT" => MethodFilter::PUT,
            _ => MethodFilter::GET,
        };
        let mut handled = handler(route.name, filter);
        if route.is_tagged() {
            handled = handled.layer(middleware::from_fn(tag::tag));
        }
        // The handler of an upload looks up the key itself, because its body alone does not identify it.
        if route.takes_key() && !route.takes_bytes() {
            handled = handled.layer(middleware::from_fn_with_state(*route, once::once::<Name>));
        }
        if route.takes_key() {
            handled = handled.layer(middleware::from_fn(once::to_its_end));
        }
        let guarded = handled
            .layer(middleware::from_fn_with_state(*route, check_query::<Name>))
            .layer(middleware::from_fn_with_state(*route, caller::allow::<Name>));
        routes = routes.route(route.path, guarded);
    }
    routes
}

/// Gives every request an id and encodes every refusal: the outermost layer.
/// No refusal contains a secret, though many repeat input.
pub fn identified(router: Router, world: World, redactor: Arc<Redactor>) -> Router {
    router.layer(middleware::from_fn_with_state((world, redactor), identify))
}

/// One handler per route; the compiler checks that all are present.
fn handler(name: RouteName, filter: MethodFilter) -> MethodRouter<FaceState> {
    use PromptKind::{Approval, Clarification, Handoff};
    match name {
        RouteName::CreateTask => on(filter, tasks::create_task),
        RouteName::ListTasks => on(filter, tasks::list_tasks),
        RouteName::GetTask => on(filter, tasks::get_task),
        RouteName::ChangeTask => on(filter, tasks::change_task),
        RouteName::DeleteTask => on(filter, retention::delete_task),
        RouteName::CancelTask => on(filter, tasks::cancel_task),
        RouteName::CreateTaskRun => on(filter, runs::create_task_run),
        RouteName::ListTaskRuns => on(filter, tasks::list_task_runs),
        RouteName::GetTaskRun => on(filter, runs::get_run),
        RouteName::CancelTaskRun => on(filter, runs::cancel_run),
        RouteName::ReadTaskRunEvents => on(filter, events::read_run_events),
        RouteName::AppendTaskRunEvents => on(filter, events::append_events),
        RouteName::CreateRun => on(filter, runs::create_run),
        RouteName::ListRuns => on(filter, runs::list_runs),
        RouteName::GetRun => on(filter, runs::get_run),
        RouteName::CancelRun => on(filter, runs::cancel_run),
        RouteName::RetryRun => on(filter, lineage::retry_run),
        RouteName::ResumeRun => on(filter, lineage::resume_run),
        RouteName::ContinueRun => on(filter, lineage::continue_run),
        RouteName::RetryRunFromTurn => on(filter, lineage::retry_run_from_turn),
        RouteName::GetRunDigest => on(filter, runs::get_run_digest),
        RouteName::GetRunChanges => on(filter, changes::get_run_changes),
        RouteName::ApplyRun => on(filter, changes::apply_run),
        RouteName::DiscardRunChanges => on(filter, changes::discard_run_changes),
        RouteName::ApplyPatch => on(filter, patches::apply_patch),
        RouteName::RejectPatch => on(filter, patches::reject_patch),
        RouteName::RevertPatch => on(filter, patches::revert_patch),
        RouteName::PinRun => on(filter, retention::pin_run),
        RouteName::UnpinRun => on(filter, retention::unpin_run),
        RouteName::DeleteRun => on(filter, retention::delete_run),
        RouteName::PruneRun => on(filter, retention::prune_run),
        RouteName::Prune => on(filter, retention::prune),
        RouteName::ReadRunEvents => on(filter, events::read_run_events),
        RouteName::AppendRunEvents => on(filter, events::append_events),
        RouteName::ImportRun => on(filter, import::import_run),
        RouteName::ReadFeed => on(filter, events::read_feed),
        RouteName::StreamFeed => on(filter, events::stream_feed),
        RouteName::ListApprovals => on(filter, |face, query| prompts::list(Approval, face, query)),
        RouteName::GetApproval => on(filter, |face, id| prompts::get(Approval, face, id)),
        RouteName::ResolveApproval => on(filter, prompts::resolve_approval),
        RouteName::ListAllowances => on(filter, allowances::list_allowances),
        RouteName::TakeBackAllowance => on(filter, allowances::take_back_allowance),
        RouteName::ListClarifications => on(filter, |face, query| prompts::list(Clarification, face, query)),
        RouteName::GetClarification => on(filter, |face, id| prompts::get(Clarification, face, id)),
        RouteName::AnswerClarification => on(filter, prompts::answer_clarification),
        RouteName::ListHandoffs => on(filter, |face, query| prompts::list(Handoff, face, query)),
        RouteName::GetHandoff => on(filter, |face, id| prompts::get(Handoff, face, id)),
        RouteName::AcknowledgeHandoff => on(filter, prompts::acknowledge_handoff),
        RouteName::RejectHandoff => on(filter, prompts::reject_handoff),
        RouteName::ExtendApproval => on(filter, |face, id, body| prompts::extend(Approval, face, id, body)),
        RouteName::ExtendClarification => {
            on(filter, |face, id, body| prompts::extend(Clarification, face, id, body))
        }
        RouteName::ExtendHandoff => on(filter, |face, id, body| prompts::extend(Handoff, face, id, body)),
        RouteName::UploadArtifact => on(filter, uploads::upload_artifact),
        RouteName::ListArtifacts => on(filter, artifacts::list_artifacts),
        RouteName::GetArtifact => on(filter, artifacts::get_artifact),
        RouteName::ReadArtifact => on(filter, raw::read_artifact),
        RouteName::PinArtifact => on(filter, artifacts::pin_artifact),
        RouteName::UnpinArtifact => on(filter, artifacts::unpin_artifact),
        RouteName::DeleteArtifact => on(filter, artifacts::delete_artifact),
        RouteName::ListRunArtifacts => on(filter, artifacts::list_run_artifacts),
        RouteName::JudgeMcpCall => on(filter, policy::judge_mcp_call),
        RouteName::ListAgents => on(filter, orders::list_agents),
        RouteName::CreateSession => on(filter, sessions::create_session),
        RouteName::ListSessions => on(filter, sessions::list_sessions),
        RouteName::GetSession => on(filter, sessions::get_session),
        RouteName::SendMessage => on(filter, orders::send_message),
        RouteName::ListMessages => on(filter, orders::list_messages),
        RouteName::DeleteSession => on(filter, sessions::delete_session),
    }
}

/// A layer on each route: passes requests whose query has only known parameters.
pub async fn check_query<Name>(State(route): State<Route<Name>>, request: Request, next: Next) -> Response {
    match accept::check_query(&route, request.uri().query()) {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    }
}

/// Adds a request id to every response, and encodes refusals as problems.
async fn identify(
    State((world, redactor)): State<(World, Arc<Redactor>)>,
    mut request: Request,
    next: Next,
) -> Response {
    let id: Arc<str> = match accept::request_id(request.headers().get("x-request-id")) {
        Some(id) => id.into(),
        None => {
            let ulid = ulid::Ulid::from_parts(world.clock.now_ms(), world.entropy.draw());
            format!("req_{ulid}").into()
        }
    };
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        // Headers that were added to the refusal stay.
        let headers = std::mem::take(response.headers_mut());
        response = problem_response(&refusal.masked(&redactor), &id);
        response.headers_mut().extend(headers);
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

/// A refusal without the request id, which [`identify`] adds.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

/// The status that a response has, or gets when its refusal is encoded.
pub fn status_of(response: &Response) -> StatusCode {
    let refusal = response.extensions().get::<Refusal>();
    let status = refusal.map(|refusal| StatusCode::from_u16(refusal.code.row().status));
    status.and_then(Result::ok).unwrap_or_else(|| response.status())
}

/// For every unknown path.
async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::RouteNotFound, format!("no route matches {path:?}")).into_response()
}

/// For a known path with an unsupported method.
pub async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::MethodNotAllowed, format!("{path:?} does not allow {method}")).into_response()
}
