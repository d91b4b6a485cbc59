//! The options of a subscription request in this producer's extension `extensions.recount`. Pure.
//!
//! Unknown members are ignored, as the protocol requires; known ones with a wrong value are refused. Start with
//! [`SubscriptionOptions::read`].

use recount_aaep::negotiate::{Reason, Refusal};
use recount_aaep::shaping::EXTENSION_PREFIX;
use recount_event::RunId;
use serde_json::{Map, Value};

/// The runs that a subscription covers, and the amount of detail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SubscriptionOptions {
    /// The one run to follow; `None`: every run that the caller may see.
    pub(crate) run: Option<RunId>,
    pub(crate) from: StartPoint,
    pub(crate) redaction: Redaction,
    /// Whether the request has the extension.
    pub(crate) is_extended: bool,
}

/// Where a subscription to one run begins. An ended run is received from its start in any case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum StartPoint {
    /// With a summary of the run's state, and its open prompts.
    #[default]
    Now,
    /// With the first event of the run.
    Start,
}

impl StartPoint {
    const ALL: [StartPoint; 2] = [StartPoint::Now, StartPoint::Start];

    fn word(self) -> &'static str {
        match self {
            StartPoint::Now => "now",
            StartPoint::Start => "start",
        }
    }
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

impl SubscriptionOptions {
    /// Reads the extension of a request whose JSON the handshake has checked.
    pub(crate) fn read(request: &str) -> Result<SubscriptionOptions, Refusal> {
        let request: Value = serde_json::from_str(request).unwrap_or_default();
        let Some(own) = request.pointer(&format!("/extensions/{EXTENSION_PREFIX}")) else {
            return Ok(SubscriptionOptions::default());
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
        let from = own.get("from").map(|value| {
            let known = StartPoint::ALL.into_iter().find(|from| value.as_str() == Some(from.word()));
            known.ok_or_else(|| wrong("from", value, "now or start"))
        });
        let from = from.transpose()?.unwrap_or_default();
        Ok(SubscriptionOptions {
            run: run.transpose()?,
            from,
            redaction: redaction.transpose()?.unwrap_or_default(),
            is_extended: true,
        })
    }

    /// The extension of the response: the accepted options. `None` if the request does not have the extension, because
    /// the published schema of the response is closed.
    pub(crate) fn honored(&self) -> Option<Map<String, Value>> {
        if !self.is_extended {
            return None;
        }
        let mut own = Map::new();
        if let Some(run) = self.run {
            own.insert("run_id".into(), run.to_string().into());
            own.insert("from".into(), self.from.word().into());
        }
        own.insert("redaction".into(), self.redaction.word().into());
        Some(own)
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
        let read = |own: &str| SubscriptionOptions::read(&format!(r#"{{"extensions":{{"recount":{own}}}}}"#));
        let extended = SubscriptionOptions { is_extended: true, ..SubscriptionOptions::default() };
        assert_eq!(SubscriptionOptions::read("{}").unwrap(), SubscriptionOptions::default());
        assert_eq!(SubscriptionOptions::default().honored(), None);
        assert_eq!(read(r#"{"zz":1}"#).unwrap(), extended);
        let options = read(&format!(r#"{{"run_id":"{run}","redaction":"envelope"}}"#)).unwrap();
        assert_eq!(
            options,
            SubscriptionOptions { run: run.parse().ok(), redaction: Redaction::Envelope, ..extended }
        );
        assert_eq!(read(r#"{"from":"start"}"#).unwrap().from, StartPoint::Start);
        let honored = options.honored().unwrap();
        assert_eq!((&honored["from"], &honored["redaction"]), (&"now".into(), &"envelope".into()));
        for (own, words) in [
            (r#"{"run_id":7}"#, "`extensions.recount.run_id` is 7"),
            (r#"{"run_id":"x"}"#, "`extensions.recount.run_id` is \"x\""),
            (r#"{"from":"then"}"#, "`extensions.recount.from` is \"then\"; send now or start"),
            (r#"{"redaction":"none"}"#, "send full, summaries or envelope"),
        ] {
            let refusal = read(own).unwrap_err();
            assert_eq!(refusal.code, Reason::CapabilitiesIncompatible);
            assert!(refusal.message.contains(words), "{}", refusal.message);
        }
    }
}
