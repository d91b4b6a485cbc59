//! The routes of the native face: the only file that waits. Each handler accepts, asks the engine, projects.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, FromRequestParts, OriginalUri, Path, RawQuery, Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use http_body_util::{BodyExt, LengthLimitError, Limited};
use recount_api::reply::{One, Page, Receipt};
use recount_api::request::{AppendEvents, Cancel, CreateRun, CreateTask, ResolveApproval, Verdict};
use recount_api::routes::{ROUTES, RouteName};
use recount_api::{query, reply};
use recount_engine::{Engine, ListQuery};
use recount_event::family::run::Queued;
use recount_event::{Code, RunId, TaskId};
use recount_run::{CancelledBy, Command};
use recount_transport::media::{self, Wanted};
use recount_transport::sse;
use recount_world::{Kind, World};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::Semaphore;

use crate::error::{Refusal, problem_response};
use crate::stream::{self, Cursor};
use crate::{accept, limits, project};

/// Who answers, until there are tokens that say who asks.
const OPERATOR: &str = "operator";

const RUN_STATUSES: [&str; 6] = ["queued", "running", "waiting", "finished", "failed", "cancelled"];
const APPROVAL_STATUSES: [&str; 5] = ["pending", "approved", "rejected", "cancelled", "timed_out"];

/// What the handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Face {
    engine: Engine,
    streams: Arc<Semaphore>,
    streams_max: usize,
}

impl Face {
    pub fn new(engine: Engine) -> Self {
        Face::with_streams_max(engine, limits::STREAMS_MAX)
    }

    /// With another bound on open streams than [`limits::STREAMS_MAX`].
    pub fn with_streams_max(engine: Engine, streams_max: usize) -> Self {
        Face { engine, streams: Arc::new(Semaphore::new(streams_max)), streams_max }
    }
}

/// The id that a response and the server's log share.
#[derive(Clone)]
struct RequestId(Arc<str>);

/// All routes of [`ROUTES`], under `/v1` and under `/hecate/v1`. To be served within [`identified`].
pub fn router(face: Face) -> Router {
    let mut routes: Router<Face> = Router::new();
    for route in ROUTES {
        let filter = match route.method {
            "POST" => MethodFilter::POST,
            _ => MethodFilter::GET,
        };
        routes = routes.route(route.path, handler(route.name, filter));
    }
    let routes = routes.with_state(face).method_not_allowed_fallback(method_not_allowed);
    Router::new().nest("/v1", routes.clone()).nest("/hecate/v1", routes).fallback(not_found)
}

/// Gives every request an id and words every refusal: goes around everything that may refuse.
pub fn identified(router: Router, world: World) -> Router {
    router.layer(middleware::from_fn_with_state(world, identify))
}

/// One handler a route; the compiler says when one is missing.
fn handler(name: RouteName, filter: MethodFilter) -> MethodRouter<Face> {
    match name {
        RouteName::CreateTask => on(filter, create_task),
        RouteName::ListTasks => on(filter, list_tasks),
        RouteName::GetTask => on(filter, get_task),
        RouteName::CancelTask => on(filter, cancel_task),
        RouteName::CreateTaskRun => on(filter, create_task_run),
        RouteName::ListTaskRuns => on(filter, list_task_runs),
        RouteName::GetTaskRun => on(filter, get_task_run),
        RouteName::CancelTaskRun => on(filter, cancel_task_run),
        RouteName::ReadTaskRunEvents => on(filter, read_task_run_events),
        RouteName::AppendTaskRunEvents => on(filter, append_task_run_events),
        RouteName::CreateRun => on(filter, create_run),
        RouteName::ListRuns => on(filter, list_runs),
        RouteName::GetRun => on(filter, get_run),
        RouteName::CancelRun => on(filter, cancel_run),
        RouteName::GetRunDigest => on(filter, get_run_digest),
        RouteName::ReadRunEvents => on(filter, read_run_events),
        RouteName::AppendRunEvents => on(filter, append_run_events),
        RouteName::ReadFeed => on(filter, read_feed),
        RouteName::StreamFeed => on(filter, stream_feed),
        RouteName::ListApprovals => on(filter, list_approvals),
        RouteName::GetApproval => on(filter, get_approval),
        RouteName::ResolveApproval => on(filter, resolve_approval),
    }
}

/// Gives every request an id that its response carries, and words refusals as problems.
async fn identify(State(world): State<World>, mut request: Request, next: Next) -> Response {
    let ulid = ulid::Ulid::from_parts(world.clock.now_ms(), world.entropy.draw());
    let id: Arc<str> = format!("req_{ulid}").into();
    request.extensions_mut().insert(RequestId(id.clone()));
    let mut response = next.run(request).await;
    if let Some(refusal) = response.extensions_mut().remove::<Refusal>() {
        response = problem_response(&refusal, &id);
    }
    if let Ok(id) = HeaderValue::from_str(&id) {
        response.headers_mut().insert("x-request-id", id);
    }
    response
}

/// A refusal on its way to [`identify`], which knows the request's id.
impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        response.extensions_mut().insert(self);
        response
    }
}

/// The ids in a path. One that is not text names nothing.
struct Ids<T>(T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Ids<T> {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(ids)) => Ok(Ids(ids)),
            Err(_) => Err(Refusal::new(Code::RouteNotFound, "the path holds bytes that are not UTF-8")),
        }
    }
}

/// For every path that is not there.
async fn not_found(OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::RouteNotFound, format!("nothing is at {path:?}")).into_response()
}

/// For every path that is there for other methods.
pub async fn method_not_allowed(method: Method, OriginalUri(uri): OriginalUri) -> Response {
    let path: String = uri.path().chars().take(120).collect();
    Refusal::new(Code::MethodNotAllowed, format!("{method} is not for {path:?}")).into_response()
}

type Answer = Result<Response, Refusal>;

fn json(status: StatusCode, value: &impl Serialize) -> Response {
    let body = serde_json::to_vec(value).expect("replies hold nothing that JSON cannot say");
    json_bytes(status, body.into())
}

fn json_bytes(status: StatusCode, body: Bytes) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Reads a body within its bounds of size and time. What the head says already is refused before the body
/// is asked for.
async fn body_bytes(request: Request, max: usize) -> Result<Bytes, Refusal> {
    let declared_json = request
        .headers()
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok())
        .is_some_and(media::is_json);
    let size = request.body().size_hint();
    if size.lower() > max as u64 {
        return Err(too_large(max));
    }
    if !declared_json && size.lower() > 0 {
        return Err(not_json());
    }
    let limited = Limited::new(request.into_body(), max);
    let collected = tokio::time::timeout(limits::BODY_WAIT, limited.collect()).await;
    let bytes = match collected {
        Err(_) => {
            let waited = limits::BODY_WAIT.as_secs();
            return Err(Refusal::new(
                Code::BodyTimeout,
                format!("the body did not arrive within {waited} seconds"),
            ));
        }
        Ok(Err(why)) if why.downcast_ref::<LengthLimitError>().is_some() => return Err(too_large(max)),
        Ok(Err(why)) => return Err(Refusal::new(Code::BodyMalformed, format!("the body broke off: {why}"))),
        Ok(Ok(collected)) => collected.to_bytes(),
    };
    if !bytes.is_empty() && !declared_json {
        return Err(not_json());
    }
    Ok(bytes)
}

fn too_large(max: usize) -> Refusal {
    Refusal::new(Code::BodyTooLarge, format!("the body is larger than {max} bytes; send smaller batches"))
}

fn not_json() -> Refusal {
    Refusal::new(
        Code::MediaTypeUnsupported,
        "the body is not declared as JSON; send content-type: application/json",
    )
}

/// The query as pairs; a name that comes twice counts as it came first.
struct Query(Vec<(String, String)>);

impl Query {
    fn parse(raw: Option<&str>) -> Self {
        Query(form_urlencoded::parse(raw.unwrap_or_default().as_bytes()).into_owned().collect())
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    fn list(&self, prefix: Option<&str>, statuses: &[&str]) -> Result<ListQuery, Refusal> {
        Ok(ListQuery {
            after: accept::list_cursor(self.get(query::AFTER), prefix)?,
            limit: accept::limit(self.get(query::LIMIT), query::LIST_LIMIT_DEFAULT, query::LIST_LIMIT_MAX)?,
            status: accept::status(self.get("status"), statuses)?,
        })
    }
}

fn page<T: Serialize>(items: Vec<T>, next: Option<String>, has_more: bool) -> Response {
    json(StatusCode::OK, &Page::new(items, next.map(serde_json::Value::String), has_more))
}

// ---- tasks ---------------------------------------------------------------------------------------

async fn create_task(State(face): State<Face>, request: Request) -> Answer {
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: CreateTask = accept::body_or_default(&bytes)?;
    let title = accept::text("title", request.title)?;
    let first_run = match request.kind.as_deref() {
        None => None,
        Some(kind) => {
            let mut queued = Queued::new(accept::kind(kind)?);
            queued.title = title.clone();
            queued.requested_by = Some(OPERATOR.into());
            Some(queued)
        }
    };
    let (row, run) = face.engine.create_task(title, first_run).await?;
    let latest = match run {
        Some(run) => face.engine.run(run).await?,
        None => None,
    };
    let runs = u64::from(latest.is_some());
    let location = format!("/v1/tasks/{}", row.id);
    Ok(created(&location, &One::new("task", project::task(row, latest, runs))))
}

fn created(location: &str, body: &impl Serialize) -> Response {
    let mut response = json(StatusCode::CREATED, body);
    if let Ok(location) = HeaderValue::from_str(location) {
        response.headers_mut().insert(header::LOCATION, location);
    }
    response
}

async fn list_tasks(State(face): State<Face>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref()).list(Some(TaskId::PREFIX), &[])?;
    let listed = face.engine.list_tasks(&query).await?;
    let mut tasks = Vec::with_capacity(listed.items.len());
    for row in listed.items {
        tasks.push(show_task(&face, row).await?);
    }
    Ok(page(tasks, listed.next, listed.has_more))
}

async fn show_task(face: &Face, row: recount_engine::TaskRow) -> Result<reply::Task, Refusal> {
    let task = accept::task_id(&row.id)?;
    let newest = ListQuery { limit: 1, ..ListQuery::default() };
    let latest = face.engine.list_task_runs(task, &newest).await?.items.pop();
    let runs = face.engine.count_task_runs(task).await?;
    Ok(project::task(row, latest, runs))
}

async fn task_row(face: &Face, task: TaskId) -> Result<recount_engine::TaskRow, Refusal> {
    let row = face.engine.task(task).await?;
    row.ok_or_else(|| Refusal::new(Code::TaskNotFound, format!("there is no task {task}")))
}

async fn get_task(State(face): State<Face>, Ids(task): Ids<String>) -> Answer {
    let row = task_row(&face, accept::task_id(&task)?).await?;
    Ok(json(StatusCode::OK, &One::new("task", show_task(&face, row).await?)))
}

async fn cancel_task(State(face): State<Face>, Ids(task): Ids<String>, request: Request) -> Answer {
    let task = accept::task_id(&task)?;
    let row = task_row(&face, task).await?;
    let Some(run) = face.engine.active_run(task).await? else {
        return Err(Refusal::new(Code::RunEnded, format!("task {task} has no active run to cancel")));
    };
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    cancel(&face, run, accept::body_or_default(&bytes)?).await?;
    Ok(json(StatusCode::OK, &One::new("task", show_task(&face, row).await?)))
}

async fn list_task_runs(State(face): State<Face>, Ids(task): Ids<String>, RawQuery(raw): RawQuery) -> Answer {
    let task = accept::task_id(&task)?;
    task_row(&face, task).await?;
    let query = Query::parse(raw.as_deref()).list(Some(RunId::PREFIX), &RUN_STATUSES)?;
    runs_of_task(&face, task, query).await
}

/// The index of a task's runs does not know their status, so a filter shortens pages; their cursor goes on.
async fn runs_of_task(face: &Face, task: TaskId, mut query: ListQuery) -> Answer {
    let status = query.status.take();
    let listed = face.engine.list_task_runs(task, &query).await?;
    let wanted =
        listed.items.into_iter().filter(|row| status.as_ref().is_none_or(|status| row.status == *status));
    Ok(page(wanted.map(project::run).collect(), listed.next, listed.has_more))
}

// ---- runs ----------------------------------------------------------------------------------------

async fn create_run(State(face): State<Face>, request: Request) -> Answer {
    make_run(&face, None, request).await
}

async fn create_task_run(State(face): State<Face>, Ids(task): Ids<String>, request: Request) -> Answer {
    let task = accept::task_id(&task)?;
    make_run(&face, Some(task), request).await
}

async fn make_run(face: &Face, task: Option<TaskId>, request: Request) -> Answer {
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: CreateRun = accept::body(&bytes)?;
    let (run, _) = face.engine.create_run(accept::new_run(request, task)?).await?;
    let reply = show_run(face, run).await?;
    Ok(created(&format!("/v1/runs/{run}"), &One::new("run", reply)))
}

async fn show_run(face: &Face, run: RunId) -> Result<reply::Run, Refusal> {
    let row = face.engine.run(run).await?;
    row.map(project::run).ok_or_else(|| Refusal::new(Code::RunNotFound, format!("there is no run {run}")))
}

async fn list_runs(State(face): State<Face>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref());
    let wanted = query.list(Some(RunId::PREFIX), &RUN_STATUSES)?;
    if let Some(task) = query.get("task_id") {
        return runs_of_task(&face, accept::task_id(task)?, wanted).await;
    }
    let listed = face.engine.list_runs(&wanted).await?;
    Ok(page(listed.items.into_iter().map(project::run).collect(), listed.next, listed.has_more))
}

/// The run of a path under a task: one of another task is not there.
async fn run_of_task(face: &Face, task: &str, run: &str) -> Result<RunId, Refusal> {
    let (task, run) = (accept::task_id(task)?, accept::run_id(run)?);
    let row = face.engine.run(run).await?;
    match row {
        Some(row) if row.task_id == Some(task.to_string()) => Ok(run),
        _ => Err(Refusal::new(Code::RunNotFound, format!("task {task} has no run {run}"))),
    }
}

async fn get_run(State(face): State<Face>, Ids(run): Ids<String>) -> Answer {
    let reply = show_run(&face, accept::run_id(&run)?).await?;
    Ok(json(StatusCode::OK, &One::new("run", reply)))
}

async fn get_task_run(State(face): State<Face>, Ids((task, run)): Ids<(String, String)>) -> Answer {
    let reply = show_run(&face, run_of_task(&face, &task, &run).await?).await?;
    Ok(json(StatusCode::OK, &One::new("run", reply)))
}

async fn cancel(face: &Face, run: RunId, request: Cancel) -> Result<(), Refusal> {
    let reason = accept::text("reason", request.reason)?.unwrap_or_default();
    face.engine.submit(run, Command::Cancel { by: CancelledBy::Operator, reason }).await?;
    Ok(())
}

async fn cancel_run(State(face): State<Face>, Ids(run): Ids<String>, request: Request) -> Answer {
    let run = accept::run_id(&run)?;
    answer_cancel(&face, run, request).await
}

async fn cancel_task_run(
    State(face): State<Face>,
    Ids((task, run)): Ids<(String, String)>,
    request: Request,
) -> Answer {
    let run = run_of_task(&face, &task, &run).await?;
    answer_cancel(&face, run, request).await
}

async fn answer_cancel(face: &Face, run: RunId, request: Request) -> Answer {
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    cancel(face, run, accept::body_or_default(&bytes)?).await?;
    Ok(json(StatusCode::OK, &One::new("run", show_run(face, run).await?)))
}

async fn get_run_digest(State(face): State<Face>, Ids(run): Ids<String>) -> Answer {
    let run = accept::run_id(&run)?;
    let digest = face.engine.digest(run).await?;
    Ok(json(StatusCode::OK, &One::new("digest", project::digest(run.to_string(), digest))))
}

// ---- events --------------------------------------------------------------------------------------

async fn append_run_events(State(face): State<Face>, Ids(run): Ids<String>, request: Request) -> Answer {
    let run = accept::run_id(&run)?;
    append(&face, run, request).await
}

async fn append_task_run_events(
    State(face): State<Face>,
    Ids((task, run)): Ids<(String, String)>,
    request: Request,
) -> Answer {
    let run = run_of_task(&face, &task, &run).await?;
    append(&face, run, request).await
}

async fn append(face: &Face, run: RunId, request: Request) -> Answer {
    let bytes = body_bytes(request, limits::BATCH_BODY_BYTES_MAX).await?;
    let request: AppendEvents = accept::body(&bytes)?;
    let (triple, drafts) = accept::batch(request)?;
    let receipt = face.engine.ingest(run, triple, drafts).await?;
    let reply = Receipt {
        first_sequence: receipt.first_sequence,
        last_sequence: receipt.last_sequence,
        position: receipt.position,
    };
    Ok(json(StatusCode::OK, &One::new("receipt", reply)))
}

/// What a reader of events asks for.
struct Reading {
    stream: bool,
    after: Option<u64>,
    /// Whether the cursor came as `Last-Event-ID`, that is, from a reader that comes again.
    again: bool,
    limit: usize,
}

fn reading(headers: &HeaderMap, raw: Option<&str>, parameter: &str) -> Result<Reading, Refusal> {
    let query = Query::parse(raw);
    // Several headers are one list.
    let accept: Vec<&str> =
        headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    let stream = match media::prefers_event_stream(Some(&accept.join(","))) {
        Wanted::Json => false,
        Wanted::EventStream => true,
        Wanted::Neither => {
            return Err(Refusal::new(
                Code::NotAcceptable,
                "the Accept header allows neither application/json nor text/event-stream",
            ));
        }
    };
    let last_id = match headers.get("last-event-id") {
        None => None,
        Some(value) => Some(value.to_str().map_err(|_| {
            Refusal::new(Code::CursorMalformed, "Last-Event-ID is not plain text; send a whole number")
        })?),
    };
    Ok(Reading {
        stream,
        after: accept::cursor(last_id, query.get(parameter))?,
        again: last_id.is_some_and(|id| !id.is_empty()),
        limit: accept::limit(query.get(query::LIMIT), query::EVENTS_LIMIT_DEFAULT, query::EVENTS_LIMIT_MAX)?,
    })
}

async fn read_run_events(
    State(face): State<Face>,
    Ids(run): Ids<String>,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Answer {
    let run = accept::run_id(&run)?;
    read_run(&face, run, raw, &id, &headers).await
}

async fn read_task_run_events(
    State(face): State<Face>,
    Ids((task, run)): Ids<(String, String)>,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Answer {
    let run = run_of_task(&face, &task, &run).await?;
    read_run(&face, run, raw, &id, &headers).await
}

async fn read_run(
    face: &Face,
    run: RunId,
    raw: Option<String>,
    id: &RequestId,
    headers: &HeaderMap,
) -> Answer {
    let reading = reading(headers, raw.as_deref(), query::AFTER_SEQUENCE)?;
    if !reading.stream {
        let (envelopes, has_more) = face.engine.read_run(run, reading.after, reading.limit).await?;
        return Ok(events_page(&envelopes, reading.after, has_more));
    }
    let subscription = face.engine.follow_run(run, reading.after).await?;
    if reading.again && nothing_can_follow(face, run, reading.after).await? {
        // Tells a browser to stop coming again.
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NO_CONTENT;
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        return Ok(response);
    }
    event_stream(face, subscription, Cursor::Sequence, id)
}

async fn nothing_can_follow(face: &Face, run: RunId, after: Option<u64>) -> Result<bool, Refusal> {
    let ended = face.engine.run(run).await?.is_some_and(|row| row.has_ended());
    let tail = face.engine.tail(run).await?;
    Ok(ended && after.map(|after| after + 1) == tail)
}

async fn read_feed(
    State(face): State<Face>,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    headers: HeaderMap,
) -> Answer {
    let reading = reading_feed(&face, &headers, raw.as_deref()).await?;
    if reading.stream {
        let subscription = face.engine.follow_feed(reading.after).await?;
        return event_stream(&face, subscription, Cursor::Position, &id);
    }
    let (envelopes, has_more) = face.engine.read_feed(reading.after, reading.limit).await?;
    Ok(events_page(&envelopes, reading.after, has_more))
}

/// Like any reading, but `after_position=latest` stands for where the feed ends now.
async fn reading_feed(face: &Face, headers: &HeaderMap, raw: Option<&str>) -> Result<Reading, Refusal> {
    let comes_again = headers.get("last-event-id").is_some_and(|id| !id.is_empty());
    if comes_again || Query::parse(raw).get(query::AFTER_POSITION) != Some(query::LATEST) {
        return reading(headers, raw, query::AFTER_POSITION);
    }
    let latest = face.engine.last_position().await?;
    Ok(Reading { after: Some(latest), ..reading(headers, raw, "")? })
}

/// Always a stream, also for clients that do not say what they accept.
async fn stream_feed(
    State(face): State<Face>,
    RawQuery(raw): RawQuery,
    Extension(id): Extension<RequestId>,
    mut headers: HeaderMap,
) -> Answer {
    headers.insert(header::ACCEPT, HeaderValue::from_static(sse::MEDIA_TYPE));
    let reading = reading_feed(&face, &headers, raw.as_deref()).await?;
    let subscription = face.engine.follow_feed(reading.after).await?;
    event_stream(&face, subscription, Cursor::Position, &id)
}

fn events_page(envelopes: &[(u64, Bytes)], after: Option<u64>, has_more: bool) -> Response {
    let last = envelopes.last().map(|(cursor, _)| *cursor).or(after);
    let next = last.map_or(-1, |last| i64::try_from(last).unwrap_or(i64::MAX));
    json_bytes(StatusCode::OK, project::events_page(envelopes, next, has_more))
}

fn event_stream(
    face: &Face,
    subscription: recount_engine::Subscription,
    cursor: Cursor,
    RequestId(id): &RequestId,
) -> Answer {
    let Ok(place) = face.streams.clone().try_acquire_owned() else {
        return Err(Refusal {
            retry_after: Some(limits::STREAMS_RETRY),
            ..Refusal::new(Code::TooManyStreams, format!("{} streams are open already", face.streams_max))
        });
    };
    let shutdown = face.engine.world().tasks.shutdown_signal(Kind::Connection);
    let mut response = Response::new(stream::body(subscription, cursor, shutdown, id.to_string(), place));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(sse::MEDIA_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    Ok(response)
}

// ---- approvals -----------------------------------------------------------------------------------

async fn list_approvals(State(face): State<Face>, RawQuery(raw): RawQuery) -> Answer {
    let query = Query::parse(raw.as_deref()).list(None, &APPROVAL_STATUSES)?;
    let listed = face.engine.list_approvals(&query).await?;
    Ok(page(listed.items.into_iter().map(project::approval).collect(), listed.next, listed.has_more))
}

async fn approval_row(
    face: &Face,
    id: &recount_event::ForeignId,
) -> Result<recount_engine::ApprovalRow, Refusal> {
    let row = face.engine.approval(id).await?;
    row.ok_or_else(|| Refusal::new(Code::ApprovalNotFound, format!("there is no approval {:?}", id.as_str())))
}

async fn get_approval(State(face): State<Face>, Ids(approval): Ids<String>) -> Answer {
    let row = approval_row(&face, &accept::approval_id(&approval)?).await?;
    Ok(json(StatusCode::OK, &One::new("approval", project::approval(row))))
}

async fn resolve_approval(State(face): State<Face>, Ids(approval): Ids<String>, request: Request) -> Answer {
    let approval_id = accept::approval_id(&approval)?;
    let row = approval_row(&face, &approval_id).await?;
    let bytes = body_bytes(request, limits::BODY_BYTES_MAX).await?;
    let request: ResolveApproval = accept::body(&bytes)?;
    let command = Command::ResolveApproval {
        approval_id: approval_id.clone(),
        approve: request.decision == Verdict::Approve,
        by: OPERATOR.into(),
        comment: accept::text("comment", request.comment)?,
    };
    face.engine.submit(accept::run_id(&row.run_id)?, command).await?;
    let row = approval_row(&face, &approval_id).await?;
    Ok(json(StatusCode::OK, &One::new("approval", project::approval(row))))
}
