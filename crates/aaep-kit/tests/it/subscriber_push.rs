//! Push tests of listening subscribers: a correct one passes on both transports, faulty ones fail on the requirement
//! they break, and a missing one is reported.

use axum::Router;
use axum::body::Bytes;
use axum::extract::ws::WebSocketUpgrade;
use axum::routing::{any, post};
use http::StatusCode;
use recount_aaep_kit::World;
use recount_aaep_kit::conformance::subscriber::{TrialNotice, push};
use recount_aaep_kit::conformance::{Outcome, Report};
use recount_world::Kind;

/// A listening subscriber's response to a body.
type Takes = fn(&[u8]) -> StatusCode;

async fn listening(world: &World, takes: Takes) -> String {
    let socket = move |upgrade: WebSocketUpgrade| async move {
        upgrade.on_upgrade(move |mut socket| async move {
            while let Some(Ok(message)) = socket.recv().await {
                if takes(&message.into_data()).is_server_error() {
                    return;
                }
            }
        })
    };
    let router = Router::new()
        .route("/messages", post(move |body: Bytes| async move { takes(&body) }))
        .route("/ws", any(socket));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    world.tasks.spawn(Kind::Service, |mut shutdown| async move {
        tokio::select! {
            _ = axum::serve(listener, router) => {}
            () = shutdown.requested() => {}
        }
    });
    address.to_string()
}

async fn brought(world: &World, url: &str) -> Report {
    push::run(world, url, 2, &mut |_: TrialNotice<'_>| {}).await.expect("it listens")
}

fn failed(report: &Report) -> Vec<&'static str> {
    let failed = report.checks.iter().filter(|check| check.outcome == Outcome::Failed);
    failed.map(|check| check.requirement).collect()
}

fn right(body: &[u8]) -> StatusCode {
    match serde_json::from_slice::<serde_json::Value>(body) {
        Ok(_) => StatusCode::NO_CONTENT,
        Err(_) => StatusCode::BAD_REQUEST,
    }
}

fn known_types_only(body: &[u8]) -> StatusCode {
    if body.windows(5).any(|part| part == b"xray:") { StatusCode::BAD_REQUEST } else { right(body) }
}

fn breaks_at_broken_json(body: &[u8]) -> StatusCode {
    if right(body).is_success() { StatusCode::NO_CONTENT } else { StatusCode::INTERNAL_SERVER_ERROR }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listening_subscriber_is_judged_by_its_handling_of_events() {
    let world = World::real();
    let table: [(Takes, &[&str]); 3] =
        [(right, &[]), (known_types_only, &["R-005"]), (breaks_at_broken_json, &["R-025", "R-022"])];
    for (takes, expected) in table {
        let place = listening(&world, takes).await;
        let report = brought(&world, &format!("http://{place}")).await;
        assert_eq!(failed(&report), expected, "{}", report.text());
        assert!(report.partial, "what two posts show is no claim");
    }
    let place = listening(&world, right).await;
    let report = brought(&world, &format!("ws://{place}/ws")).await;
    assert_eq!(failed(&report), Vec::<&str>::new(), "{}", report.text());
    let place = listening(&world, breaks_at_broken_json).await;
    let report = brought(&world, &format!("ws://{place}/ws")).await;
    assert!(failed(&report).contains(&"R-025"), "{}", report.text());
}

#[tokio::test]
async fn a_closed_address_is_reported() {
    for url in ["http://127.0.0.1:1", "ws://127.0.0.1:1/", "tcp://127.0.0.1:1"] {
        let error =
            push::run(&World::real(), url, 1, &mut |_: TrialNotice<'_>| {}).await.unwrap_err().to_string();
        assert!(error.contains(url), "{error}");
    }
}
