//! Counts requests by method, route and status class, in a fixed table to which no request can add a row.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use recount_api::routes::{ROUTES, SERVER_ROUTES};

use super::text::{Kind, MetricsPage};
use crate::applications::PATHS;
use crate::listeners::PATHS as LISTENERS;

const METHODS: [&str; 6] = ["GET", "POST", "PATCH", "DELETE", "HEAD", "other"];
const CLASSES: [&str; 5] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The path of the console.
const CONSOLE: &str = "/";

/// Requests to unknown routes.
const ELSEWHERE: &str = "other";

/// One route's counts, by method and class.
type Counts = [[AtomicU64; CLASSES.len()]; METHODS.len()];

pub(crate) struct Requests(HashMap<String, Counts>);

impl Requests {
    /// Creates the table for the routes of all faces under all their prefixes, of the server itself, and of the
    /// console.
    pub(crate) fn new(base_paths: &[String]) -> Arc<Self> {
        let ours = ["/v1", "/hecate/v1"].into_iter();
        let ours = ours.flat_map(|prefix| ROUTES.iter().map(move |route| format!("{prefix}{}", route.path)));
        let theirs = base_paths.iter();
        let theirs = theirs.flat_map(|base| PATHS.iter().map(move |path| format!("{base}{path}")));
        let others = SERVER_ROUTES
            .iter()
            .map(|route| route.path)
            .chain(LISTENERS)
            .chain([CONSOLE, recount_face_mcp::PATH, ELSEWHERE])
            .map(str::to_owned);
        Arc::new(Requests(ours.chain(theirs).chain(others).map(|path| (path, Counts::default())).collect()))
    }

    fn note(&self, method: &Method, path: Option<&str>, status: u16) {
        // Some routes also exist with a trailing slash.
        let exact = |path: &str| self.0.get(path).or_else(|| self.0.get(path.strip_suffix('/')?));
        let counts = path.and_then(exact).or_else(|| self.0.get(ELSEWHERE));
        let method = METHODS.iter().position(|known| *known == method.as_str()).unwrap_or(METHODS.len() - 1);
        let class = usize::from(status / 100).saturating_sub(1).min(CLASSES.len() - 1);
        if let Some(counts) = counts {
            counts[method][class].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Writes the rows with a count, in order.
    pub(super) fn write_to(&self, page: &mut MetricsPage) {
        page.family("recount_requests", Kind::Counter, None, "Requests that were answered.");
        let mut routes: Vec<_> = self.0.iter().collect();
        routes.sort_by_key(|(path, _)| path.as_str());
        for (route, counts) in routes {
            for (method, counts) in METHODS.iter().zip(counts) {
                for (class, count) in CLASSES.iter().zip(counts) {
                    let count = count.load(Ordering::Relaxed);
                    if count > 0 {
                        let labels = [("method", *method), ("route", route.as_str()), ("status", *class)];
                        page.sample("_total", &labels, count as f64);
                    }
                }
            }
        }
    }
}

/// Counts every response when its head is known; a stream counts when it begins.
pub(crate) async fn count(State(requests): State<Arc<Requests>>, request: Request, next: Next) -> Response {
    let method = request.method().clone();
    let path = request.extensions().get::<MatchedPath>().cloned();
    let response = next.run(request).await;
    let status = recount_face_aep::status_of(&response);
    requests.note(&method, path.as_ref().map(MatchedPath::as_str), status.as_u16());
    response
}
