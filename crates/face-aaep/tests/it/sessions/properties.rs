//! What holds of every run that our own performer can live through: its session breaks no rule of the protocol, in any
//! language, and is told the same again.

use proptest::prelude::*;
use recount_face_aaep::speech::Speech;
use recount_run_generator::own_run;
use recount_tier::times;

use super::holds::{holds, told};

/// As many as `PROPTEST_CASES` says, for those who have an hour.
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
            let said = holds(&events, language);
            let again = told(&events, language);
            prop_assert_eq!(said.len(), again.len());
            for ((_, one), (_, other)) in said.iter().zip(&again) {
                prop_assert_eq!(one.to_json(), other.to_json());
            }
            ids.push(said.into_iter().map(|(_, event)| event.envelope.event_id).collect::<Vec<_>>());
        }
        // A listener may change the language and go on from the same place.
        prop_assert!(ids.windows(2).all(|pair| pair[0] == pair[1]));
    }
}
