//! AAEP events for measures: the valid sessions of the corpus repeated, each time with new ids.

/// A confirmed action, a question, streamed output, a call of a tool; replies are among the events, as in a capture.
const SESSIONS: [&str; 4] = [
    include_str!("../../../../../testdata/aaep/sessions/good.confirmed.jsonl"),
    include_str!("../../../../../testdata/aaep/sessions/good.clarified.jsonl"),
    include_str!("../../../../../testdata/aaep/sessions/good.output.jsonl"),
    include_str!("../../../../../testdata/aaep/sessions/good.tool.jsonl"),
];

/// The prefixes of ids. The text from there up to the quotation mark gets a number.
const IDS: [&str; 3] = ["\"evt_", "\"sess_", "\"rpl_"];

/// Sessions in sequence, about so many lines in total.
pub(super) fn sessions(lines: usize) -> String {
    let mut text = String::new();
    let (mut written_lines, mut number) = (0, 0);
    while written_lines < lines {
        let session = SESSIONS[number % SESSIONS.len()];
        for line in session.lines() {
            renamed(line, number, &mut text);
            text.push('\n');
            written_lines += 1;
        }
        number += 1;
    }
    text
}

/// A line with ids of another session.
fn renamed(line: &str, number: usize, text: &mut String) {
    let mut rest = line;
    while let Some((at, begin)) = next_id(rest) {
        let behind = at + begin.len();
        text.push_str(&rest[..behind]);
        text.push_str(&format!("{number}x"));
        rest = &rest[behind..];
    }
    text.push_str(rest);
}

fn next_id(rest: &str) -> Option<(usize, &'static str)> {
    IDS.iter().filter_map(|begin| Some((rest.find(begin)?, *begin))).min()
}

/// Events of sessions that all stay open: each starts and calls a tool, then they report progress in turns until there
/// are so many events.
pub(super) fn crowd(sessions: usize, events: usize, mut each: impl FnMut(&str)) {
    let mut line = String::new();
    let mut emit = |template: &str, number: usize| {
        line.clear();
        renamed(template, number, &mut line);
        each(&line);
    };
    let beginning = SESSIONS[3].lines().take(BEGINNING);
    for number in 0..sessions {
        beginning.clone().for_each(|template| emit(template, number));
    }
    for index in BEGINNING * sessions..events {
        // An open session and a new event.
        let event = PROGRESS.replacen("\"evt_", &format!("\"evt_{index}y"), 1);
        emit(&event, index % sessions);
    }
}

/// Lines of the last session up to its call of a tool.
const BEGINNING: usize = 4;

const PROGRESS: &str = r#"{"@context":"https://aaep-protocol.org/context/v1","type":"aaep:agent.progress.updated","event_id":"evt_1","session_id":"sess_1","timestamp":"2026-05-24T14:22:04.000Z","producer":{"agent_id":"planner"},"localization_hints":{"primary_language":"en"},"urgency":"background","progress":{"percent":5},"summary_normal":"Under way."}"#;

#[cfg(test)]
mod tests {
    use super::{crowd, sessions};
    use recount_aaep::session::{Checker, Options};

    fn rules(lines: &[String]) -> Vec<&'static str> {
        let mut checker = Checker::new(Options::default());
        for (at, line) in lines.iter().enumerate() {
            checker.text(at + 1, line);
        }
        checker.take().iter().map(|finding| finding.rule.id).collect()
    }

    #[test]
    fn events_for_measures_are_valid() {
        let lines: Vec<String> = sessions(200).lines().map(str::to_owned).collect();
        assert!(lines.len() >= 200);
        assert_eq!(rules(&lines), [""; 0]);
        let mut lines = Vec::new();
        crowd(10, 100, |line| lines.push(line.to_owned()));
        assert_eq!((lines.len(), rules(&lines)), (100, vec![]));
    }
}
