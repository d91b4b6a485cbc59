//! How findings are told: [`Text`] for people and `grep`, [`Json`] for programs. Both tell as they go and hold nothing.
//! Where it goes, and what a terminal must not see, is the caller's: both are made of a function that takes text.

use recount_aaep::rule::{Finding, Layer, Profile};
use serde::Serialize;

use super::{Tally, Total, Unusable};

/// Takes what a validation has to tell, in order.
pub trait Report {
    /// Why it cannot tell any more, such as that nobody reads.
    type Error;

    fn begin(&mut self, path: &str) -> Result<(), Self::Error>;
    fn finding(&mut self, path: &str, finding: &Finding) -> Result<(), Self::Error>;
    /// What an input came to; with `unusable`, the numbers are those of what could be read.
    fn end(&mut self, path: &str, tally: &Tally, unusable: Option<&Unusable>) -> Result<(), Self::Error>;
    fn close(&mut self, total: &Total, profile: Profile) -> Result<(), Self::Error>;
}

/// Lines `FILE:LINE: severity rule: message`, and a line of numbers behind them.
pub struct Text<F> {
    line: F,
    /// Whether anything was found in an event itself.
    beyond_sessions: bool,
}

impl<F> Text<F> {
    /// `line` takes one line without its end. It may hold anything that was in a file.
    pub fn new(line: F) -> Self {
        Text { line, beyond_sessions: false }
    }
}

impl<E, F: FnMut(&str) -> Result<(), E>> Report for Text<F> {
    type Error = E;

    fn begin(&mut self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn finding(&mut self, path: &str, finding: &Finding) -> Result<(), E> {
        self.beyond_sessions |= finding.rule.layer != Layer::Session;
        let event = finding.event_id.as_deref().map(|id| format!(" [{id}]")).unwrap_or_default();
        (self.line)(&format!("{path}:{}: {finding}{event}", finding.line))
    }

    /// Says nothing of inputs without a verdict: the total names the first, and programs say why on stderr.
    fn end(&mut self, _: &str, _: &Tally, _: Option<&Unusable>) -> Result<(), E> {
        Ok(())
    }

    fn close(&mut self, total: &Total, profile: Profile) -> Result<(), E> {
        (self.line)(&summary(total, profile))?;
        // A single event begins and ends no session, which is all that is wrong with it.
        if total.tally.events == 1 && total.tally.errors > 0 && !self.beyond_sessions {
            (self.line)(
                "hint: the event itself is valid; use --events to check events without their session",
            )?;
        }
        Ok(())
    }
}

fn summary(total: &Total, profile: Profile) -> String {
    let Total { files, unusable, tally, .. } = total;
    let mut summary = format!(
        "{} in {}: {}, {}",
        counted(tally.events, "event"),
        counted(*files, "file"),
        counted(tally.errors, "error"),
        counted(tally.warnings, "warning"),
    );
    if tally.notes > 0 {
        summary += &format!(", {}", counted(tally.notes, "note"));
    }
    if *unusable > 0 {
        summary += &format!(", {unusable} without a verdict");
    }
    if profile == Profile::Strict && tally.errors_of_strict_alone > 0 {
        summary += &format!("; {} not counted as errors with --profile compat", tally.errors_of_strict_alone);
    }
    summary
}

fn counted(count: u64, what: &str) -> String {
    match count {
        0 => format!("no {what}s"),
        1 => format!("1 {what}"),
        count => format!("{count} {what}s"),
    }
}

/// One JSON object: `{"files":[{"path","findings":[…],"events"}],"summary":{"events","errors","warnings"}}`. A file
/// without a verdict has `unusable` with the reason beside it.
pub struct Json<F> {
    part: F,
    /// Whether a comma goes before the next file.
    second_file: bool,
    second_finding: bool,
}

impl<F> Json<F> {
    /// `part` takes parts of the text, which make one line without an end.
    pub fn new(part: F) -> Self {
        Json { part, second_file: false, second_finding: false }
    }
}

#[derive(Serialize)]
struct Found<'f> {
    line: usize,
    event_id: Option<&'f str>,
    rule: &'static str,
    severity: &'static str,
    source: &'static str,
    message: String,
}

impl<E, F: FnMut(&str) -> Result<(), E>> Report for Json<F> {
    type Error = E;

    fn begin(&mut self, path: &str) -> Result<(), E> {
        let open = if self.second_file { "," } else { "{\"files\":[" };
        self.second_file = true;
        self.second_finding = false;
        (self.part)(&format!("{open}{{\"path\":{},\"findings\":[", text(path)))
    }

    fn finding(&mut self, _: &str, finding: &Finding) -> Result<(), E> {
        let found = Found {
            line: finding.line,
            event_id: finding.event_id.as_deref(),
            rule: finding.rule.id,
            severity: finding.severity.name(),
            source: finding.rule.source.name(),
            message: message(finding),
        };
        let comma = if self.second_finding { "," } else { "" };
        self.second_finding = true;
        (self.part)(&format!("{comma}{}", text(&found)))
    }

    fn end(&mut self, _: &str, tally: &Tally, unusable: Option<&Unusable>) -> Result<(), E> {
        let why = unusable.map(|why| format!(",\"unusable\":{}", text(&why.to_string()))).unwrap_or_default();
        (self.part)(&format!("],\"events\":{}{why}}}", tally.events))
    }

    fn close(&mut self, total: &Total, _: Profile) -> Result<(), E> {
        let open = if self.second_file { "" } else { "{\"files\":[" };
        let Tally { events, errors, warnings, .. } = total.tally;
        let summary = format!("{{\"events\":{events},\"errors\":{errors},\"warnings\":{warnings}}}");
        (self.part)(&format!("{open}],\"summary\":{summary}}}"))
    }
}

/// What is so, where, and what to do.
fn message(finding: &Finding) -> String {
    let at = if finding.path.is_empty() { String::new() } else { format!(" (at `{}`)", finding.path) };
    format!("{}{at}. {}", finding.message, finding.rule.remedy)
}

fn text<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings and numbers can always be written")
}
