//! What a subscription request says in this producer's own extension: `extensions.recount`. Pure.
//!
//! See [`Wish::read`]. Unknown members are ignored, as the protocol asks; known ones with a wrong value are refused.

use recount_aaep::negotiate::{Reason, Refusal};
use recount_aaep::shaping::EXTENSION_PREFIX;
use recount_event::RunId;
use serde_json::{Map, Value};

/// What a subscription covers, and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Wish {
    /// The one run to follow; `None`: every run that the caller may see.
    pub(crate) run: Option<RunId>,
    pub(crate) redaction: Redaction,
}

/// How much of an event a subscription receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Redaction {
    /// Everything.
    #[default]
    Full,
    /// Summaries and prompts; no output, no arguments, no results.
    Summaries,
    /// Types, ids, times and states; no text of a run.
    Envelope,
}

impl Redaction {
    const ALL: [Redaction; 3] = [Redaction::Full, Redaction::Summaries, Redaction::Envelope];

    fn word(self) -> &'static str {
        match self {
            Redaction::Full => "full",
            Redaction::Summaries => "summaries",
            Redaction::Envelope => "envelope",
        }
    }
}

impl Wish {
    /// Reads the extension of a request that is JSON already checked by the handshake.
    pub(crate) fn read(request: &str) -> Result<Wish, Refusal> {
        let request: Value = serde_json::from_str(request).unwrap_or_default();
        let Some(own) = request.pointer(&format!("/extensions/{EXTENSION_PREFIX}")) else {
            return Ok(Wish::default());
        };
        let run = own.get("run_id").map(|value| {
            let run = value.as_str().and_then(|text| text.parse().ok());
            run.ok_or_else(|| {
                wrong("run_id", value, "the id of a run, such as run_01HZX3Q0M0000000000000000A")
            })
        });
        let redaction = own.get("redaction").map(|value| {
            let known = Redaction::ALL.into_iter().find(|profile| value.as_str() == Some(profile.word()));
            known.ok_or_else(|| wrong("redaction", value, "full, summaries or envelope"))
        });
        Ok(Wish { run: run.transpose()?, redaction: redaction.transpose()?.unwrap_or_default() })
    }

    /// The same extension for the answer: what is honoured.
    pub(crate) fn honored(&self) -> Map<String, Value> {
        let mut own = Map::new();
        own.extend(self.run.map(|run| ("run_id".to_owned(), run.to_string().into())));
        own.insert("redaction".into(), self.redaction.word().into());
        own
    }
}

fn wrong(name: &str, value: &Value, expected: &str) -> Refusal {
    let shown: String = value.to_string().chars().take(80).collect();
    let message = format!("`extensions.{EXTENSION_PREFIX}.{name}` is {shown}; send {expected}");
    Refusal::new(Reason::CapabilitiesIncompatible, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extension_names_a_run_and_a_profile() {
        let run = "run_01HZX3Q0M0000000000000000A";
        let read = |own: &str| Wish::read(&format!(r#"{{"extensions":{{"recount":{own}}}}}"#));
        assert_eq!(Wish::read("{}").unwrap(), Wish::default());
        assert_eq!(read(r#"{"zz":1}"#).unwrap(), Wish::default());
        let wish = read(&format!(r#"{{"run_id":"{run}","redaction":"envelope"}}"#)).unwrap();
        assert_eq!(wish, Wish { run: run.parse().ok(), redaction: Redaction::Envelope });
        assert_eq!(wish.honored()["redaction"], "envelope");
        for (own, words) in [
            (r#"{"run_id":7}"#, "`extensions.recount.run_id` is 7"),
            (r#"{"run_id":"x"}"#, "`extensions.recount.run_id` is \"x\""),
            (r#"{"redaction":"none"}"#, "send full, summaries or envelope"),
        ] {
            let refusal = read(own).unwrap_err();
            assert_eq!(refusal.code, Reason::CapabilitiesIncompatible);
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
    }
}
