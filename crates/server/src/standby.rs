//! Responds to requests while this server does not own its stores: 200 for `/healthz`, otherwise 503 with `Retry-After`.
//!
//! It must not know stores. Start at [`refuse_until`].

use std::pin::pin;
use std::sync::Arc;

use axum::Router;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use recount_engine::Redactor;
use recount_event::Code;
use recount_face_aep::Refusal;
use recount_world::{Kind, World};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use crate::{health, limits, listen};

/// Refuses requests until the stores are opened, and returns the result of that.
pub(crate) async fn refuse_until<T>(
    listener: &TcpListener,
    world: &World,
    redactor: &Arc<Redactor>,
    opened: impl Future<Output = T>,
) -> T {
    let router = Router::new().route("/healthz", get(health::alive)).fallback(refuse);
    let router = recount_face_aep::identified(router, world.clone(), redactor.clone());
    let places = Arc::new(Semaphore::new(limits::REFUSALS_MAX));
    let mut opened = pin!(opened);
    loop {
        let accepted = tokio::select! {
            biased;
            opened = &mut opened => return opened,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => {
                // Without a place, the connection is closed without a response.
                let Ok(place) = places.clone().try_acquire_owned() else { continue };
                let router = router.clone();
                world.tasks.spawn(Kind::Connection, move |_| async move {
                    listen::refuse_connection(stream, peer, router).await;
                    drop(place);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(limits::ACCEPT_REST).await;
            }
        }
    }
}

async fn refuse() -> Response {
    let detail = "this server does not own its stores: it is starting, or it is a standby for the server that owns them; \
                  use that one, or try again shortly";
    let refusal = Refusal::new(Code::StoreUnavailable, detail);
    Refusal { retry_after: Some(limits::STANDBY_RETRY), ..refusal }.into_response()
}
