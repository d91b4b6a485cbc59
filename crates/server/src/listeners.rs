//! The face for listeners (AAEP): its state, its paths, and the form of refusals that come before it is reached.
//!
//! Look at [`face`] and [`word`]. It must never know the replies of the face.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use recount_engine::{Redactor, SEAL_KEY_BYTES};
use recount_face_aaep::{FaceState, TokenKey};
use recount_face_aep::Refusal;
use recount_world::World;

/// The face's routes, for the counters of requests.
pub(crate) const PATHS: [&str; 5] = [
    "/aaep/v1/subscriptions",
    "/aaep/v1/events",
    "/aaep/v1/replies",
    "/aaep/v1/ws",
    "/.well-known/aaep-manifest.json",
];

/// The state of the face. Without a key of the data folder, reply tokens are good until the server ends.
pub(crate) fn face(world: &World, key: Option<&[u8; SEAL_KEY_BYTES]>) -> FaceState {
    let token_key = match key {
        Some(key) => TokenKey::derive(key),
        None => TokenKey::derive(&world.entropy.draw().to_le_bytes()),
    };
    FaceState::new(world.clone(), token_key, recount_face_aaep::limits::SUBSCRIPTIONS_MAX)
}

/// Words what is refused before the face is reached, as the protocol does.
pub(crate) async fn word(State(redactor): State<Arc<Redactor>>, request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if !path.starts_with("/aaep/") && path != recount_face_aaep::MANIFEST {
        return next.run(request).await;
    }
    let is_handshake = path == PATHS[0];
    let mut response = next.run(request).await;
    let Some(refusal) = response.extensions_mut().remove::<Refusal>() else { return response };
    let detail = redactor.quotes(&refusal.detail);
    let mut worded =
        recount_face_aaep::refusal_response(refusal.code, &detail, refusal.retry_after, is_handshake);
    // Headers that were added to the refusal stay.
    worded.headers_mut().extend(std::mem::take(response.headers_mut()));
    worded
}
