//! Checks every run of these tests as an AAEP session: it must follow all rules of AAEP's strict profile.

use recount_aaep::rule::Severity;
use recount_aaep::session::{Checker, Options};
use recount_aaep::wire::ReplyToken;
use recount_event::{Event, ForeignId};
use recount_face_aaep::project::Projector;
use recount_face_aaep::speech::Speech;

/// Checks a run from its beginning, and to its end if it has ended.
#[track_caller]
pub(crate) fn check(events: &[Event]) {
    let Some(first) = events.first() else { return };
    let token = |prompt: &ForeignId| {
        let letters: String = prompt.as_str().chars().filter(char::is_ascii_alphanumeric).collect();
        ReplyToken::new(format!("rpl_{letters}")).unwrap()
    };
    for language in Speech::languages() {
        let mut projector = Projector::new(first.run_id, Speech::of(language));
        let mut checker = Checker::new(Options::default());
        let mut sent = 0;
        for projected in events.iter().flat_map(|event| projector.event(event, &token)) {
            sent += 1;
            checker.text(sent, &projected.to_json());
        }
        if projector.is_over() {
            checker.finish();
        }
        let findings = checker.take();
        let errors = findings.iter().filter(|finding| finding.severity == Severity::Error);
        let errors: Vec<String> = errors.map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{} in {language}: {errors:#?}", first.run_id);
    }
}
