//! Property tests of runs that our own performer can produce: their sessions follow the protocol's rules in every
//! language, and projecting them again gives the same events.

use proptest::prelude::*;
use recount_face_aaep::speech::Speech;
use recount_run_generator::own_run;
use recount_tier::times;

use super::holds::{holds, projected};

/// The number of cases; `PROPTEST_CASES` overrides it for long runs.
fn cases() -> u32 {
    u32::try_from(times(96)).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_run_is_a_session_that_breaks_no_rule(numbers in proptest::collection::vec(any::<u16>(), 0..400)) {
        let events = own_run(&numbers);
        let mut ids = Vec::new();
        for language in Speech::languages() {
            let first = holds(&events, language);
            let again = projected(&events, language);
            prop_assert_eq!(first.len(), again.len());
            for ((_, one), (_, other)) in first.iter().zip(&again) {
                prop_assert_eq!(one.to_json(), other.to_json());
            }
            ids.push(first.into_iter().map(|(_, event)| event.envelope.event_id).collect::<Vec<_>>());
        }
        // A listener may change the language and go on from the same place.
        prop_assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
