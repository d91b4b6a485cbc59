//! `POST /imports`: imports one run from the lines of an export.

use ::http::StatusCode;
use axum::extract::Request;
use recount_api::export;
use recount_api::reply::One;
use recount_event::Code;

use super::Face;
use super::http::{BodyType, HandlerResult, body_of_type, created, json};
use crate::error::Refusal;
use crate::{accept, limits, project};

const LINES: BodyType = BodyType {
    is: is_lines,
    otherwise: "the content-type of the body is not that of an export; send content-type: \
                application/x-ndjson",
    too_large: "a run is imported in one request, so this run is too large to import",
};

fn is_lines(content_type: &str) -> bool {
    content_type.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(export::MEDIA_TYPE)
}

/// 201 for an imported run, 200 for a run that already exists with the same events.
pub(super) async fn import_run(face: Face, request: Request) -> HandlerResult {
    let Some(_place) = face.face_state.imports.try_take(&face.engine.instance(), 1) else {
        return Err(Refusal::new(
            Code::StoreBusy,
            format!("{} imports are in progress; try again shortly", limits::IMPORTS_MAX),
        ));
    };
    let bytes = body_of_type(request, limits::IMPORT_BODY_BYTES_MAX, &LINES).await?;
    let import = accept::export(&bytes)?;
    drop(bytes);
    let imported = face.engine.admin().import(import).await?;
    let (is_new, location) = (imported.is_new, format!("/v1/runs/{}", imported.run));
    let reply = One::new("import", project::import(imported));
    Ok(if is_new { created(&location, &reply) } else { json(StatusCode::OK, &reply) })
}
