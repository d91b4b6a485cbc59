//! Who receives what: runs of the own tenant within the scope of a token, prompts only where they can be answered,
//! texts only as far as the subscription wants them.

use recount_aaep::Body as AaepBody;
use recount_engine::{Caller, Narrowing, RequestContext, Scope};
use serde_json::json;

use crate::serve::stage::{Stage, request, summary, tenant, text, types};

#[tokio::test]
async fn a_subscription_receives_runs_of_its_tenant_and_within_its_token_alone() {
    let stage = Stage::new().await;
    let other = tenant(&stage.world).await;
    let (mine, theirs) = (stage.task().await, stage.task().await);
    let narrowing = Narrowing { tasks: [mine].into(), ..Narrowing::default() };
    let (narrow, _revoke) = stage.visitor("tok_1", &[Scope::Read], narrowing);
    let location = stage.subscribe(&narrow, &request(json!({}), json!({}))).await;
    let mut listener = stage.listen(&narrow, &location, None).await;
    let mut foreign = stage.run_in(&other, None).await;
    let mut hidden = stage.run_in(&stage.engine, Some(theirs)).await;
    let mut shown = stage.run_in(&stage.engine, Some(mine)).await;
    for run in [&mut foreign, &mut hidden, &mut shown] {
        run.write("It rains.").await;
        run.finish().await;
    }
    let received = listener.until(|body| matches!(body, AaepBody::SessionCompleted(_))).await;
    let session = recount_face_aaep::project::session_id(shown.id);
    assert!(received.iter().all(|received| received.event.envelope.session_id == session), "{received:?}");
    for run in [foreign.id, hidden.id] {
        let reply = stage
            .post(&narrow, "/aaep/v1/subscriptions", &request(json!({}), json!({ "run_id": run })))
            .await;
        assert_eq!(reply.status, 404, "a run that may not be seen does not exist");
    }
    // Its subscription does not exist for others either.
    let stranger = RequestContext { engine: other, caller: Caller::operator() };
    let (namesake, _revoke) = stage.visitor("tok_2", &[Scope::Read], Narrowing::default());
    for visitor in [&stranger, &namesake, &stage.operator()] {
        assert_eq!(stage.get(visitor, &location, None).await.status, 404);
    }
}

#[tokio::test]
async fn a_stream_ends_with_the_token_of_its_caller() {
    let stage = Stage::new().await;
    let run = stage.run().await;
    let (visitor, revoke) = stage.visitor("tok_1", &[Scope::Read], Narrowing::default());
    let location = stage.subscribe(&visitor, &request(json!({}), json!({ "run_id": run.id }))).await;
    let mut listener = stage.listen(&visitor, &location, None).await;
    listener.one().await;
    revoke.send(true).unwrap();
    assert!(listener.rest().await.is_empty());
}

#[tokio::test]
async fn a_prompt_is_live_only_for_a_caller_that_may_and_can_answer() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.ask_question("q-1").await;
    let replies = json!({ "supports_clarification_reply": true, "supported_conformance_levels": [1, 2] });
    for (scopes, wish, live) in [
        (&[Scope::Read, Scope::Approve][..], replies.clone(), true),
        (&[Scope::Read][..], replies, false),
        (&[Scope::Read, Scope::Approve][..], json!({}), false),
    ] {
        let (visitor, _revoke) = stage.visitor("tok_1", scopes, Narrowing::default());
        let location = stage.subscribe(&visitor, &request(wish, json!({ "run_id": run.id }))).await;
        let mut listener = stage.listen(&visitor, &location, None).await;
        let joined = [listener.one().await, listener.one().await];
        let prompt = if live { "awaiting.clarification" } else { "state.changed" };
        assert_eq!(types(&joined), ["state.changed", prompt]);
        assert_eq!(joined[1].event.to_json().contains("rpl_"), live);
        assert!(summary(&joined[1]).contains("Which one?"), "{}", summary(&joined[1]));
    }
}

#[tokio::test]
async fn a_redaction_profile_withholds_texts_from_its_subscription_alone() {
    let stage = Stage::new().await;
    let mut run = stage.run().await;
    run.write("The canary sings.").await;
    run.finish().await;
    let operator = stage.operator();
    let mut counts = Vec::new();
    for (profile, output, request_text) in
        [("full", "The canary sings.", true), ("summaries", "", true), ("envelope", "", false)]
    {
        let own = json!({ "run_id": run.id, "redaction": profile });
        let location = stage.subscribe(&operator, &request(json!({}), own)).await;
        let received = stage.listen(&operator, &location, None).await.rest().await;
        assert_eq!(text(&received), output, "{profile}");
        let all: String = received.iter().map(|received| received.event.to_json()).collect();
        assert_eq!(all.contains("Book a room."), request_text, "{profile}: {all}");
        assert_eq!(all.contains("canary"), profile == "full", "{profile}: {all}");
        counts.push(types(&received).len());
        assert_eq!(types(&received).last(), Some(&"session.completed"));
    }
    assert_eq!(counts[1], counts[2]);
}
