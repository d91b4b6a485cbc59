//! Formats of findings: [`TextReport`] for people and `grep`, [`JsonReport`] for programs. Both write as they go and
//! store nothing. The caller passes a function that outputs text, and escapes it for terminals.

use recount_aaep::rule::{Finding, Layer, Profile};
use serde::Serialize;

use super::{Tally, Total, Unusable};

/// Receives the results of a validation in order.
pub trait FindingReport {
    /// Why it cannot write, such as a closed pipe.
    type Error;

    fn begin(&mut self, path: &str) -> Result<(), Self::Error>;
    fn finding(&mut self, path: &str, finding: &Finding) -> Result<(), Self::Error>;
    /// Ends an input; with `unusable`, the numbers cover what could be read.
    fn end(&mut self, path: &str, tally: &Tally, unusable: Option<&Unusable>) -> Result<(), Self::Error>;
    fn close(&mut self, total: &Total, profile: Profile) -> Result<(), Self::Error>;
}

/// Lines `FILE:LINE: severity rule: message`, followed by a line of totals.
pub struct TextReport<F> {
    line: F,
    /// Whether any finding concerns an event itself.
    beyond_sessions: bool,
}

impl<F> TextReport<F> {
    /// `line` receives one line without its end. It may contain any text of a file.
    pub fn new(line: F) -> Self {
        TextReport { line, beyond_sessions: false }
    }
}

impl<E, F: FnMut(&str) -> Result<(), E>> FindingReport for TextReport<F> {
    type Error = E;

    fn begin(&mut self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn finding(&mut self, path: &str, finding: &Finding) -> Result<(), E> {
        self.beyond_sessions |= finding.rule.layer != Layer::Session;
        let event = finding.event_id.as_deref().map(|id| format!(" [{id}]")).unwrap_or_default();
        (self.line)(&format!("{path}:{}: {finding}{event}", finding.line))
    }

    /// Omits inputs without a verdict: the total names the first, and programs report them on stderr.
    fn end(&mut self, _: &str, _: &Tally, _: Option<&Unusable>) -> Result<(), E> {
        Ok(())
    }

    fn close(&mut self, total: &Total, profile: Profile) -> Result<(), E> {
        (self.line)(&summary(total, profile))?;
        // A single event starts and ends no session, which is its only fault.
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
/// without a verdict also has `unusable` with the reason.
pub struct JsonReport<F> {
    part: F,
    /// Whether a comma precedes the next file.
    second_file: bool,
    second_finding: bool,
}

impl<F> JsonReport<F> {
    /// `part` receives parts of the text, which form one line without an end.
    pub fn new(part: F) -> Self {
        JsonReport { part, second_file: false, second_finding: false }
    }
}

#[derive(Serialize)]
struct FindingJson<'f> {
    line: usize,
    event_id: Option<&'f str>,
    rule: &'static str,
    severity: &'static str,
    source: &'static str,
    message: String,
}

impl<E, F: FnMut(&str) -> Result<(), E>> FindingReport for JsonReport<F> {
    type Error = E;

    fn begin(&mut self, path: &str) -> Result<(), E> {
        let open = if self.second_file { "," } else { "{\"files\":[" };
        self.second_file = true;
        self.second_finding = false;
        (self.part)(&format!("{open}{{\"path\":{},\"findings\":[", text(path)))
    }

    fn finding(&mut self, _: &str, finding: &Finding) -> Result<(), E> {
        let found = FindingJson {
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

/// The finding, its location, and the remedy.
fn message(finding: &Finding) -> String {
    let at = if finding.path.is_empty() { String::new() } else { format!(" (at `{}`)", finding.path) };
    format!("{}{at}. {}", finding.message, finding.rule.remedy)
}

fn text<T: Serialize + ?Sized>(value: &T) -> String {
    serde_json::to_string(value).expect("strings and numbers can always be written")
}
