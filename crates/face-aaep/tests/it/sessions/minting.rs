//! The seam between projections and reply tokens: a projection that mints none gives the same events once they are minted.

use recount_aaep::Event as AaepEvent;
use recount_event::{Event, ForeignId};
use recount_face_aaep::project::{JoinReason, Projector, Tokens, is_unminted, mint, prompt_of, unminted};
use recount_face_aaep::speech::Speech;

use super::holds::token;
use super::transcripts::stories;

/// The prompt of each event that has one, as a projection that listeners share keeps it.
fn projected(events: &[Event], tokens: Tokens<'_>) -> Vec<(Option<ForeignId>, AaepEvent)> {
    let mut projector = Projector::new(events[0].run_id, Speech::of("en-US"));
    let mut given = Vec::new();
    for event in events {
        let of_one = projector.event(event, tokens);
        given.extend(of_one.into_iter().map(|projected| (prompt_of(event).cloned(), projected)));
    }
    given
}

#[test]
fn a_shared_projection_and_tokens_of_each_listener_give_the_same_session() {
    let mut minted = 0;
    for (name, events) in stories() {
        let own = projected(&events, &token);
        let shared = projected(&events, &unminted);
        assert_eq!(own.len(), shared.len());
        for ((_, own), (prompt, mut shared)) in own.into_iter().zip(shared) {
            assert_eq!(is_unminted(&shared), shared.to_json().contains("reply_token"), "{name}: {shared}");
            minted += u32::from(is_unminted(&shared));
            if let Some(prompt) = prompt {
                mint(&mut shared, token(&prompt));
            }
            assert!(!is_unminted(&shared), "{name}: no token can be minted for {shared}");
            assert_eq!(shared.to_json(), own.to_json(), "{name}");
        }
    }
    assert!(minted >= 10, "{minted}");
}

#[test]
fn prompts_that_are_emitted_again_name_what_their_token_is_minted_for() {
    let mut minted = 0;
    for (name, events) in stories() {
        let mut projector = Projector::new(events[0].run_id, Speech::of("en-US"));
        let mut with_tokens = projector.clone();
        for event in &events {
            projector.event(event, &unminted);
            with_tokens.event(event, &token);
            let joined = [&projector, &with_tokens]
                .map(|projector| projector.join_summary(event.occurred_ms, JoinReason::Joined));
            let [Some(shared), Some(own)] = joined else { continue };
            for (mut shared, own) in shared.prompts.into_iter().zip(own.prompts) {
                minted += u32::from(is_unminted(&shared.event));
                mint(&mut shared.event, token(&shared.prompt));
                assert_eq!(shared.event.to_json(), own.event.to_json(), "{name}");
            }
        }
    }
    assert!(minted >= 10, "{minted}");
}
