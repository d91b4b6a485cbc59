//! Settings with which Claude Code sends its telemetry, which has tokens and cost, to the server.
//!
//! As claude-code 2.1.332 does it: `env` of its settings replaces variables of its environment, values in `env` are not
//! expanded, and `otelHeadersHelper` is a command for a shell that prints headers as JSON. It must not know files. Look at
//! [`Telemetry::members`].

use serde_json::Value;

use super::json_text::TextMember;

const ENABLED: &str = "CLAUDE_CODE_ENABLE_TELEMETRY";
const LOGS_EXPORTER: &str = "OTEL_LOGS_EXPORTER";
const METRICS_EXPORTER: &str = "OTEL_METRICS_EXPORTER";
const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// In milliseconds. The default of 5000 is longer than many prompts take.
const EXPORT_INTERVAL: (&str, &str) = ("OTEL_LOGS_EXPORT_INTERVAL", "1000");

/// These replace their counterparts for log events. They are never written.
const LOGS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";
const LOGS_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_LOGS_PROTOCOL";
/// Headers may have secrets, which are neither written nor shown.
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";

/// A kind of telemetry, with the variables that replace the general address and headers for it.
struct Signal {
    exporter: &'static str,
    endpoint: &'static str,
    headers: &'static str,
}

const LOGS: Signal =
    Signal { exporter: LOGS_EXPORTER, endpoint: LOGS_ENDPOINT, headers: "OTEL_EXPORTER_OTLP_LOGS_HEADERS" };
const METRICS: Signal = Signal {
    exporter: METRICS_EXPORTER,
    endpoint: "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_METRICS_HEADERS",
};
const TRACES: Signal = Signal {
    exporter: "OTEL_TRACES_EXPORTER",
    endpoint: "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    headers: "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
};

/// The object of the settings with variables.
const VARIABLES: &str = "env";
const HEADERS_HELPER: &str = "otelHeadersHelper";

/// Where telemetry is sent.
#[derive(Debug)]
pub(super) struct Telemetry {
    endpoint: String,
    /// The command that prints the header with the token, if the server requires one.
    headers_helper: Option<String>,
}

/// What is set before `connect` adds anything.
#[derive(Clone, Copy)]
pub(super) struct Present<'a> {
    settings: &'a Value,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

/// The value of a variable, and what has it.
struct Found {
    value: String,
    is_setting: bool,
}

impl<'a> Present<'a> {
    /// These settings, and the environment of this command.
    pub(super) fn with(settings: &'a Value) -> Self {
        Present { settings, environment: &|name| std::env::var(name).ok() }
    }

    fn find(&self, name: &str) -> Option<Found> {
        let setting = match self.settings.get(VARIABLES).and_then(|variables| variables.get(name)) {
            Some(Value::String(text)) => Some(text.clone()),
            other => other.map(Value::to_string),
        };
        if let Some(value) = setting {
            return Some(Found { value, is_setting: true });
        }
        let value = (self.environment)(name).filter(|value| !value.is_empty())?;
        Some(Found { value, is_setting: false })
    }

    fn value(&self, name: &str) -> Option<String> {
        self.find(name).map(|found| found.value)
    }

    /// The value of a variable that is not empty, as exporters read it.
    fn set(&self, name: &str) -> Option<String> {
        self.value(name).filter(|value| !value.is_empty())
    }

    fn is_sent(&self, signal: &Signal) -> bool {
        self.value(ENABLED).is_some_and(|value| is_on(&value))
            && self.value(signal.exporter).is_some_and(|value| has_otlp(&value))
    }

    /// Where exporters send to without a variable for the address.
    fn default_endpoint(&self) -> &'static str {
        if self.set(PROTOCOL).is_some_and(|protocol| protocol == "grpc") {
            return "http://localhost:4317";
        }
        "http://localhost:4318"
    }

    /// The address that log events are sent to, if they are.
    pub(super) fn endpoint(&self) -> Option<String> {
        if !self.is_sent(&LOGS) {
            return None;
        }
        let of_logs = self.set(LOGS_ENDPOINT).map(|value| value.trim_end_matches("/v1/logs").to_owned());
        let endpoint = of_logs.or_else(|| self.set(ENDPOINT));
        let endpoint = endpoint.unwrap_or_else(|| self.default_endpoint().to_owned());
        Some(endpoint.trim_end_matches('/').to_owned())
    }

    /// Whether anything adds headers to log events.
    pub(super) fn has_headers(&self) -> bool {
        self.settings.get(HEADERS_HELPER).is_some()
            || [HEADERS, LOGS.headers].iter().any(|name| self.set(name).is_some())
    }
}

/// The address of a server's receiver.
pub(super) fn endpoint_of(server: &str) -> String {
    format!("{}/otlp", server.trim_end_matches('/'))
}

impl Telemetry {
    pub(super) fn new(server: &str, headers_helper: Option<String>) -> Self {
        Telemetry { endpoint: endpoint_of(server), headers_helper }
    }

    /// The members to add to what is `present`. Values that are set stay. Fails with all conflicts if one of them would
    /// keep log events from this server, or would send it what is meant for another. `now` also has the members that an
    /// earlier `connect` added and this one replaces.
    pub(super) fn members(&self, present: Present<'_>, now: Present<'_>) -> Result<Vec<TextMember>, String> {
        let mut members = Vec::new();
        let mut conflicts = Vec::new();
        let written = [
            (ENABLED, "1"),
            (LOGS_EXPORTER, "otlp"),
            (METRICS_EXPORTER, "none"),
            (PROTOCOL, "http/json"),
            (ENDPOINT, &*self.endpoint),
            EXPORT_INTERVAL,
        ];
        let add = |name: &str, value: String| TextMember {
            object: Some(VARIABLES.to_owned()),
            name: name.to_owned(),
            value,
        };
        for (name, value) in written {
            match present.find(name) {
                None => members.push(add(name, value.to_owned())),
                Some(found) => match self.conflict(name, &found.value) {
                    Some(effect) => conflicts.push(found.describe(name, &effect)),
                    None if found.is_setting => {}
                    // The setting replaces the variable, so it gets its value.
                    None => members.push(add(name, found.value)),
                },
            }
        }
        for name in [LOGS_ENDPOINT, LOGS_PROTOCOL] {
            let found = present.find(name);
            let conflict =
                found.and_then(|found| Some(found.describe(name, &self.conflict(name, &found.value)?)));
            conflicts.extend(conflict);
        }
        if now.value(ENDPOINT).is_none() {
            conflicts.extend(self.diverted(present));
        }
        // Headers for this server may be there; others must not reach it.
        let is_ours = |value: String| self.conflict(ENDPOINT, &value).is_none();
        let are_for_us = [present, now].iter().any(|set| set.value(ENDPOINT).is_some_and(is_ours));
        if !are_for_us {
            conflicts.extend(self.foreign_headers(present));
        }
        if self.headers_helper.is_some() {
            conflicts.extend(self.token_elsewhere(present));
        }
        let helper = present.settings.get(HEADERS_HELPER);
        match (helper, &self.headers_helper) {
            (None, Some(ours)) => members.push(TextMember {
                object: None,
                name: HEADERS_HELPER.to_owned(),
                value: ours.clone(),
            }),
            (Some(theirs), Some(ours)) if theirs == ours => {}
            (Some(_), Some(ours)) => conflicts.push(format!(
                "{HEADERS_HELPER} runs another command: the server requires the header that {ours} prints"
            )),
            (_, None) => {}
        }
        if conflicts.is_empty() {
            return Ok(members);
        }
        Err(format!(
            "telemetry is already configured: {}; change or remove what differs, or omit --telemetry",
            conflicts.join("; ")
        ))
    }

    /// What keeps log events, which are sent to this server, from being recorded.
    pub(super) fn obstacle(&self, present: Present<'_>) -> Option<String> {
        let protocol = if present.set(LOGS_PROTOCOL).is_some() { LOGS_PROTOCOL } else { PROTOCOL };
        [LOGS_ENDPOINT, protocol].into_iter().find_map(|name| {
            let found = present.find(name).filter(|found| !found.value.is_empty())?;
            Some(found.describe(name, &self.conflict(name, &found.value)?))
        })
    }

    /// What is sent to the default address, which an address in a variable would replace.
    fn diverted(&self, present: Present<'_>) -> Vec<String> {
        let diverted = |signal: &Signal| {
            let found = present.find(signal.exporter).filter(|_| present.is_sent(signal))?;
            let address = present.default_endpoint();
            let effect = format!(
                "without {ENDPOINT}, telemetry is sent to the default address {address}, and {}",
                self.one_address()
            );
            present.set(signal.endpoint).is_none().then(|| found.describe(signal.exporter, &effect))
        };
        // Metrics over OTLP are a conflict in any case.
        [LOGS, TRACES].iter().filter_map(diverted).collect()
    }

    /// Headers for another server that would be sent to this one.
    fn foreign_headers(&self, present: Present<'_>) -> Vec<String> {
        let foreign = format!("it would be sent to {}, too", self.endpoint);
        let of_signals = [LOGS, METRICS, TRACES];
        let general = of_signals.iter().filter(|signal| present.set(signal.endpoint).is_none());
        let names = std::iter::once(HEADERS).chain(general.map(|signal| signal.headers));
        let mut headers: Vec<String> =
            names.filter_map(|name| present.find(name).map(|found| found.describe(name, &foreign))).collect();
        if self.headers_helper.is_none() && present.settings.get(HEADERS_HELPER).is_some() {
            headers.push(format!(
                "{HEADERS_HELPER} is set: its headers would be sent to {}, too",
                self.endpoint
            ));
        }
        headers
    }

    /// An address of another server that would get the token for this one.
    fn token_elsewhere(&self, present: Present<'_>) -> Option<String> {
        let is_otlp = present.value(TRACES.exporter).is_some_and(|value| has_otlp(&value));
        let found = present.find(TRACES.endpoint).filter(|found| is_otlp && !found.value.is_empty())?;
        let effect = "the header with the server's token would be sent there, too";
        (found.value != format!("{}/v1/traces", self.endpoint))
            .then(|| found.describe(TRACES.endpoint, effect))
    }

    /// The effect of a value that would keep log events from the server.
    fn conflict(&self, name: &str, value: &str) -> Option<String> {
        let effect = match name {
            ENABLED if !is_on(value) => "telemetry is turned off",
            LOGS_EXPORTER if !has_otlp(value) => "log events, which have the tokens, are not sent over OTLP",
            METRICS_EXPORTER if has_otlp(value) => {
                "metrics over OTLP share the address and the headers, and the server does not accept them"
            }
            PROTOCOL | LOGS_PROTOCOL if !["http/json", "http/protobuf"].contains(&value) => {
                "the server accepts only http/json and http/protobuf"
            }
            ENDPOINT if value.trim_end_matches('/') != self.endpoint => return Some(self.goes_there()),
            LOGS_ENDPOINT if value.trim_end_matches('/') == self.endpoint => {
                return Some(format!("the server receives log events at {}/v1/logs", self.endpoint));
            }
            LOGS_ENDPOINT if value != format!("{}/v1/logs", self.endpoint) => {
                return Some(self.goes_there());
            }
            _ => return None,
        };
        Some(effect.to_owned())
    }

    fn goes_there(&self) -> String {
        format!("telemetry goes there, and {}", self.one_address())
    }

    fn one_address(&self) -> String {
        format!(
            "Claude Code sends it to one address; an OpenTelemetry Collector there can forward it to {} as well",
            self.endpoint
        )
    }
}

impl Found {
    fn describe(&self, name: &str, effect: &str) -> String {
        let place = if self.is_setting { "in env" } else { "in the environment of this command" };
        if name == HEADERS || [LOGS, METRICS, TRACES].iter().any(|signal| signal.headers == name) {
            return format!("{name} is set {place}: {effect}");
        }
        format!("{name} is {:?} {place}: {effect}", shown(&self.value))
    }
}

/// An address without its login and its query, which may have a secret.
pub(super) fn shown(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").map_or(("", address), |(scheme, rest)| (scheme, rest));
    let separator = if scheme.is_empty() { "" } else { "://" };
    let (login, rest) = rest.rsplit_once('@').map_or(("", rest), |(_, rest)| ("***@", rest));
    let (rest, query) = rest.split_once(['?', '#']).map_or((rest, ""), |(rest, _)| (rest, "?***"));
    format!("{scheme}{separator}{login}{rest}{query}")
}

/// Whether Claude Code reads a value as true.
fn is_on(value: &str) -> bool {
    ["1", "true", "yes", "on"].contains(&&*value.trim().to_ascii_lowercase())
}

fn has_otlp(list: &str) -> bool {
    list.split(',').any(|exporter| exporter.trim() == "otlp")
}
