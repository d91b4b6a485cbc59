//! What happens when nothing does.

use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::Method;
use recount_face_aep::{FaceState, limits};

use crate::stage::{Stage, json, piece};

const NOTE: &str = r#"{"type":"user.message","data":{"text":"hi"}}"#;

#[tokio::test(start_paused = true)]
async fn a_quiet_stream_sends_a_heartbeat_every_fifteen_seconds() {
    let stage = Stage::set(FaceState::new(limits::STREAMS_MAX)).await;
    let run = stage.new_run().await;
    for target in [format!("/v1/runs/{run}/events"), "/v1/events/stream".to_owned()] {
        let mut body = stage.stream(&target).await.into_body();
        assert_eq!(piece(&mut body).await.unwrap(), "retry: 1000\n\n");
        assert!(piece(&mut body).await.unwrap().starts_with("id: "));
        assert!(piece(&mut body).await.unwrap().starts_with("event: caught_up\n"));
        for _ in 0..3 {
            let began = recount_world::moment();
            assert_eq!(piece(&mut body).await.unwrap(), ":\n\n");
            let waited = began.elapsed();
            assert!(
                waited >= Duration::from_secs(14) && waited <= Duration::from_millis(15_001),
                "{waited:?}"
            );
        }
        // The stream still works: events are sent at once, and the heartbeat interval starts again.
        tokio::time::advance(Duration::from_secs(10)).await;
        let began = recount_world::moment();
        let seq = u64::from(!target.contains("runs"));
        let (received, ()) = tokio::join!(piece(&mut body), stage.append(&run, seq, NOTE));
        assert!(received.unwrap().starts_with("id: "));
        assert!(began.elapsed() < Duration::from_millis(5), "{:?}", began.elapsed());
        assert_eq!(piece(&mut body).await.unwrap(), ":\n\n");
        assert!(began.elapsed() >= Duration::from_secs(14), "{:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_does_not_arrive_times_out() {
    let stage = Stage::set(FaceState::new(limits::STREAMS_MAX)).await;
    let run = stage.new_run().await;
    for target in ["/v1/tasks".to_owned(), "/v1/runs".into(), format!("/v1/runs/{run}/events")] {
        // A byte every ten seconds does not extend the limit, which applies to the whole body.
        for every in [None, Some(Duration::from_secs(10))] {
            let drops = stream::unfold((), move |()| async move {
                match every {
                    None => std::future::pending().await,
                    Some(every) => {
                        tokio::time::sleep(every).await; // tidy: the clock is the subject
                        Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
                    }
                }
            });
            let began = recount_world::moment();
            let reply = stage.ask(Method::POST, &target, "*/*", Body::from_stream(drops)).await;
            let waited = began.elapsed();
            assert!(waited >= limits::BODY_WAIT, "{target}: {waited:?}");
            assert!(waited < limits::BODY_WAIT + Duration::from_millis(5), "{target}: {waited:?}");
            assert_eq!(reply.status(), 408);
            assert_eq!(reply.headers()["retry-after"], "1");
            let problem = json(reply).await;
            assert_eq!((&problem["code"], &problem["retryable"]), (&"body_timeout".into(), &true.into()));
        }
    }
}

#[tokio::test]
async fn an_incomplete_body_is_refused() {
    let stage = Stage::set(FaceState::new(limits::STREAMS_MAX)).await;
    let pieces: [Result<Bytes, std::io::Error>; 2] =
        [Ok(Bytes::from_static(b"{\"kind\":")), Err(std::io::ErrorKind::ConnectionReset.into())];
    let body = Body::from_stream(stream::iter(pieces));
    let reply = stage.ask(Method::POST, "/v1/runs", "*/*", body).await;
    assert_eq!(reply.status(), 400);
    assert_eq!(json(reply).await["code"], "body_malformed");
}
