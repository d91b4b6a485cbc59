//! Many applications whose turns wait for a model, on a server that is configured as usual: none of them waits for
//! another.

use serde_json::json;

use super::wire::Application;
use super::{scene, serve, stop, user};

/// More than tools may run at once, which is what used to bound turns, too.
const WAITING: usize = 150;

#[test]
fn turns_that_wait_for_a_model_delay_no_other_client() {
    let scene = scene();
    let server = serve(&scene);
    let application = Application::of(&server);
    let mut waiting = Vec::new();
    for _ in 0..WAITING {
        let session = application.session(&json!({"agent": {"name": "clerk"}}));
        let mut turn = application.turn(&session, &user("slow"));
        let first = std::iter::from_fn(|| turn.frame()).find(|frame| frame.event == "text_delta");
        assert!(first.is_some(), "turn {} says nothing", waiting.len());
        waiting.push(turn);
    }
    let session = application.session(&json!({"agent": {"name": "clerk"}}));
    let frames = application.turn(&session, &user("say hello")).frames();
    assert_eq!(stop(&frames)["stopReason"], "end_turn");
    let native = application.at("/v1").get("/events?limit=1000&type=run.throttled");
    assert!(native.status == 200 && !native.body.contains("runs_at_once"), "{}", native.body);
}
