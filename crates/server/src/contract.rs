//! Serves the published contract: OpenAPI for programs, a page for people. It has no secrets and needs no token.

use std::sync::LazyLock;

use axum::response::{IntoResponse as _, Response};
use http::header;
use recount_api::{handbook, openapi, spelling};
use recount_event::registry::{self, TABLE};
use recount_event::schema;

use crate::web;

/// Built once: the same for every server of this release.
static DOCUMENT: LazyLock<String> = LazyLock::new(openapi::text);

static PAGE: LazyLock<String> = LazyLock::new(handbook::page);

/// Serves `/openapi.json`: the bytes of `docs/openapi.json`.
pub(crate) async fn describe() -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::CACHE_CONTROL, "no-cache")];
    (headers, DOCUMENT.as_str()).into_response()
}

/// Serves `/docs`: the contract as a page.
pub(crate) async fn explain() -> Response {
    web::file("text/html; charset=utf-8", PAGE.as_bytes())
}

/// A schema that can be printed on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Schema {
    pub name: &'static str,
    /// Its stability, from the registry.
    pub status: &'static str,
}

const ENVELOPE: &str = "envelope";
const OPENAPI: &str = "openapi";

/// All schemas of [`schema`]: the envelope, the whole contract, and the data of each event type.
pub fn schemas() -> Vec<Schema> {
    let ours = [Schema { name: ENVELOPE, status: "core" }, Schema { name: OPENAPI, status: "core" }];
    let types = TABLE.iter().map(|row| Schema { name: row.type_name, status: row.status.as_str() });
    ours.into_iter().chain(types).collect()
}

/// The schema of this name, as in `docs/`.
pub fn schema(name: &str) -> Option<String> {
    match name {
        ENVELOPE => Some(schema::print(&schema::envelope())),
        OPENAPI => Some(DOCUMENT.clone()),
        name => registry::row(name).map(|row| schema::print(&schema::data(row))),
    }
}

/// The schema name nearest to an unknown one.
pub fn nearest_schema(name: &str) -> Option<&'static str> {
    spelling::nearest(name, schemas().into_iter().map(|schema| schema.name))
}
