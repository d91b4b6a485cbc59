//! Audits deletions: records each successful request that removes something, with its path. See [`watch`].
//!
//! It runs after the guard, so the client is known. It must not know what a face does for a path: it sees only method
//! and path, so a new kind of deletion needs no change here.

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::{Method, StatusCode};
use recount_engine::Caller;
use recount_transport::RequestId;
use serde_json::json;

use crate::access::{Admitted, Gate};
use crate::audit::AuditKind;
use crate::peer::Peer;

/// Records what a request removed, before its response is sent.
pub(crate) async fn watch(State(gate): State<Gate>, request: Request, next: Next) -> Response {
    let Some(audit) = gate.tenants.audit() else { return next.run(request).await };
    let extensions = request.extensions();
    let peer = extensions.get::<Peer>().map(Peer::id);
    let removal = action(request.method(), request.uri().path()).map(|action| {
        let caller = extensions.get::<Caller>();
        let admitted = extensions.get::<Admitted>();
        json!({
            "action": action,
            "path": request.uri().path(),
            "tenant": admitted.map(|admitted| &*admitted.tenant),
            "by": caller.map(|caller| caller.name.clone()),
            "caller_id": caller.map(|caller| caller.id.clone()),
            "peer": peer.map(|peer| peer.to_string()),
            "request_id": extensions.get::<RequestId>().map(|RequestId(id)| id.to_string()),
        })
    });
    let response = next.run(request).await;
    let status = recount_face_aep::status_of(&response);
    let removal = removal.filter(|_| response.extensions().get::<recount_face_aep::DryRun>().is_none());
    match removal {
        Some(mut facts) if status.is_success() || status.is_server_error() => {
            // A replayed response is recorded too: the process may have died before the first record.
            if response.headers().contains_key(recount_face_aep::REPLAYED) {
                facts["repeated"] = true.into();
            }
            // A failed request may still have removed something, at once or at the next start.
            if status.is_server_error() {
                facts["failed"] = status.as_u16().into();
            }
            audit.record(AuditKind::Removed, facts).await;
        }
        _ if status == StatusCode::FORBIDDEN => audit.refused("scope_missing", peer),
        _ => {}
    }
    response
}

/// What a request removes, if anything. A revoked token has an event of its own.
fn action(method: &Method, path: &str) -> Option<&'static str> {
    let path = path.trim_end_matches('/');
    match *method {
        Method::DELETE if path.ends_with("/pin") => Some("unpin"),
        Method::DELETE if path.starts_with("/admin/tokens/") => None,
        Method::DELETE => Some("delete"),
        Method::POST if path.ends_with("/prune") => Some("prune"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_remove_something_are_recognized() {
        for (method, path, wanted) in [
            (Method::DELETE, "/v1/tasks/task_1", Some("delete")),
            (Method::DELETE, "/aap/sessions/chat_1", Some("delete")),
            (Method::DELETE, "/v1/runs/run_1/pin", Some("unpin")),
            (Method::DELETE, "/admin/tokens/tok_1", None),
            (Method::POST, "/v1/prune", Some("prune")),
            (Method::POST, "/v1/runs/run_1/prune", Some("prune")),
            (Method::POST, "/v1/runs", None),
            (Method::GET, "/v1/runs", None),
        ] {
            assert_eq!(action(&method, path), wanted, "{method} {path}");
        }
    }
}
