//! Which requirements on subscribers the test covers, and why it cannot cover the others. Entry: [`of`].

/// How a requirement on subscribers is covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// It is observable on the wire; contains what is checked.
    Tested(&'static str),
    /// Only a person can judge it; contains the question's subject.
    AskPerson(&'static str),
    /// It cannot be observed from outside; contains the reason.
    Outside(&'static str),
}

use Coverage::{AskPerson, Outside, Tested};

/// One row each, in order of ids: requirements on subscribers, and those on the wire that a subscriber can break.
pub const ALL: &[(&str, Coverage)] = &[
    (
        "R-003",
        Tested(
            "events without `@context`, and a prompt with that of another protocol, which must stay unanswered",
        ),
    ),
    ("R-005", Tested("events and frames of unknown types; then a prompt that is to be answered")),
    ("R-006", Tested("a prompt with the full name of its type")),
    (
        "R-008",
        Tested(
            "a prompt that is sent three times with one `event_id`: one reply; whether it is announced once shows only to people",
        ),
    ),
    ("R-017", Tested("events and prompts with objects of unknown extensions")),
    ("R-020", Tested("a prompt with its keys in the other order")),
    (
        "R-021",
        Tested(
            "events that are too deep, too wide, too long and too large; that a drop is logged does not show",
        ),
    ),
    (
        "R-022",
        Tested(
            "bytes that are no UTF-8, texts that are no JSON, fields of wrong types, a prompt with a comma too many",
        ),
    ),
    ("R-025", Tested("half an event, and a prompt that is broken off")),
    ("R-034", AskPerson("an error behind many steps")),
    ("R-035", AskPerson("an error with a remediation hint")),
    ("R-038", Tested("unknown states are borne; how they are told is asked of people")),
    ("R-041", Tested("every type and ending is borne; whether endings sound different is asked of people")),
    ("R-061", AskPerson("a sentence in pieces that end nowhere")),
    ("R-076", Tested("a token of 64 characters; all tokens that come back")),
    ("R-078", Tested("every reply against its schema and the decisions that its prompt allows")),
    ("R-084", Tested("no prompt counts down, and replies come all the same")),
    (
        "R-086",
        Tested("questions of each kind; the type of every answer, and that a choice is one of those offered"),
    ),
    (
        "R-090",
        Tested("prompts that are withdrawn by the state or the session's end, and prompts whose time is up"),
    ),
    (
        "R-091",
        Tested(
            "prompts that nobody answers: no reply may come; where it answers by itself, as it is set up to",
        ),
    ),
    ("R-092", Tested("of two prompts at a time none is lost; what is shown of a prompt is asked of people")),
    ("R-110", Tested("what comes first, and its form")),
    ("R-119", Tested("events at the agreed rate and a burst, with prompts among them")),
    ("R-120", Tested("its wishes for other terms, where it has any")),
    ("R-121", Tested("a connection that is cut, a producer that refuses, is killed, and closes")),
    ("R-125", Tested("that its request lists the level it is tried at")),
    ("R-127", Tested("`supports_confirmation_reply` in its request")),
    ("R-129", Tested("terms that are lower than asked for, and a refusal: it may not ask again and again")),
    ("R-130", Tested("SIGTERM, or a person who ends it: a close comes first")),
    ("R-141", Tested("frames in small pieces, of several lines, with CR LF, comments and unknown fields")),
    ("R-143", Tested("a prompt that it missed while its connection was cut")),
    ("R-144", Tested("that it has one stream open at a time; what it holds in memory does not show")),
    ("R-145", Tested("that replies come at all")),
    ("R-148", Tested("a prompt of nearly 64 KiB, and an event of a mebibyte")),
    ("R-149", Tested("`Last-Event-ID` when it comes back")),
    ("R-163", Tested("the bearer token on every request, where one is asked for")),
    (
        "R-165",
        Outside(
            "a limit inside of the subscriber, and its log, show only there; that a burst does no harm is R-119",
        ),
    ),
    (
        "R-167",
        Tested(
            "where it demands signed manifests: that it takes no producer without; signatures themselves are not made here",
        ),
    ),
    ("R-169", Outside("what it keeps, for how long, and what its logs hold shows only on its disk")),
    (
        "R-182",
        Outside("which of several languages it picks shows only in what it speaks; events here come in one"),
    ),
    ("R-184", Tested("a prompt in decomposed characters")),
    ("R-185", AskPerson("an Arabic sentence; where it cuts characters shows only in what it speaks")),
    ("R-189", AskPerson("a piece of output in French")),
    ("R-204", Tested("types, fields, words and reason codes of later versions")),
];

/// How a requirement is covered, if it concerns subscribers.
pub fn of(id: &str) -> Option<Coverage> {
    ALL.iter().find(|(known, _)| *known == id).map(|(_, coverage)| *coverage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conformance::requirements;
    use crate::conformance::subscriber::parts::person;

    #[test]
    fn every_subscriber_requirement_has_a_test_a_question_or_a_reason() {
        for row in requirements::ALL.iter().filter(|row| row.concerns_subscribers()) {
            assert!(of(row.id).is_some(), "{} says nothing of {}: {}", file!(), row.id, row.text);
        }
        let ids: Vec<&str> = ALL.iter().map(|(id, _)| *id).collect();
        assert!(ids.is_sorted_by(|a, b| a < b), "in order, each once");
        assert!(ids.iter().all(|id| requirements::Requirement::named(id).is_some()));
    }

    #[test]
    fn questions_to_people_match_the_coverage_table() {
        let requirements: Vec<&str> = person::requirements().collect();
        for (id, coverage) in ALL {
            assert!(
                !matches!(coverage, AskPerson(_)) || requirements.contains(id),
                "{id} is never asked about"
            );
        }
    }
}
