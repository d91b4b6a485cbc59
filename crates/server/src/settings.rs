//! Configured values and where each comes from: flag, environment, file or default. See [`Setting`].
//!
//! It must not know which settings there are. `recount config` shows what was looked up.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use recount_otel::Endpoint;

use crate::database_url::without_password;

/// One effective value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// The key in the file, with its section.
    pub key: &'static str,
    /// Without the password of a URL.
    pub value: String,
    pub source: Source,
}

/// The source of a value; the first source that has one wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Flag,
    Environment(String),
    File(PathBuf),
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag => f.write_str("flag"),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::File(path) => write!(f, "file {}", path.display()),
            Source::Default => f.write_str("default"),
        }
    }
}

const LOGS_ENDPOINT: &str = "otel.logs_endpoint";

/// The variables that OpenTelemetry defines for the address of all signals, and of logs.
const STANDARD_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const STANDARD_LOGS_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT";

/// Returns the value of an environment variable.
pub(crate) type Environment<'e> = dyn Fn(&str) -> Option<String> + 'e;

/// Looks values up, and records each with its source.
pub(crate) struct Lookup<'e> {
    environment: &'e Environment<'e>,
    /// The configuration file, if there is one, and its content.
    file: PathBuf,
    values: BTreeMap<&'static str, String>,
    settings: Vec<Setting>,
}

impl<'e> Lookup<'e> {
    pub(crate) fn new(
        environment: &'e Environment<'e>,
        file: PathBuf,
        values: BTreeMap<&'static str, String>,
    ) -> Self {
        Lookup { environment, file, values, settings: Vec::new() }
    }

    /// The value of this key: from the flag, its variable, the file, or the default. An empty variable counts as unset.
    pub(crate) fn pick(
        &mut self,
        key: &'static str,
        flag: Option<String>,
        default: impl FnOnce() -> String,
    ) -> String {
        // Compiled for each setting, so all but the default is elsewhere.
        let (value, source) = self.configured(key, flag).unwrap_or_else(|| (default(), Source::Default));
        self.remember(key, value, source)
    }

    fn configured(&mut self, key: &'static str, flag: Option<String>) -> Option<(String, Source)> {
        let name = variable(key);
        match (flag, self.variable(&name), self.values.remove(key)) {
            (Some(value), _, _) => Some((value, Source::Flag)),
            (None, Some(value), _) => Some((value, Source::Environment(name))),
            (None, None, Some(value)) => Some((value, Source::File(self.file.clone()))),
            (None, None, None) => self.standard(key),
        }
    }

    /// The value of a variable that OpenTelemetry defines for all programs. One that is meant for others must not stop this
    /// server, so an unusable value counts as unset.
    fn standard(&self, key: &str) -> Option<(String, Source)> {
        let name = match key {
            "otel.endpoint" => STANDARD_ENDPOINT,
            "otel.service_name" => "OTEL_SERVICE_NAME",
            "otel.resource_attributes" => "OTEL_RESOURCE_ATTRIBUTES",
            "otel.logs" => "OTEL_LOGS_EXPORTER",
            LOGS_ENDPOINT => STANDARD_LOGS_ENDPOINT,
            _ => return None,
        };
        let is_about_logs = key.starts_with("otel.logs");
        let is =
            |name: &str, values: &[&str]| self.variable(name).is_some_and(|value| values.contains(&&*value));
        let protocol = Some("OTEL_EXPORTER_OTLP_LOGS_PROTOCOL").filter(|_| is_about_logs);
        let protocol = protocol.and_then(|name| self.variable(name));
        let protocol = protocol.or_else(|| self.variable("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if is("OTEL_SDK_DISABLED", &["true", "TRUE", "True"])
            || (!is_about_logs && is("OTEL_TRACES_EXPORTER", &["none"]))
            || protocol.is_some_and(|value| value != "http/protobuf")
        {
            return None;
        }
        let value = match self.variable(name) {
            None if key == LOGS_ENDPOINT => return self.logs_beside_unused_traces(),
            value => value?,
        };
        if key == "otel.logs" {
            let is_on = value.split(',').any(|exporter| exporter.trim() == "otlp");
            return is_on.then(|| ("true".to_owned(), Source::Environment(name.to_owned())));
        }
        let is_usable = match key {
            "otel.endpoint" => Endpoint::parse(&value).is_some(),
            LOGS_ENDPOINT => Endpoint::parse_whole(&value).is_some(),
            "otel.resource_attributes" => recount_otel::pairs(&value).is_ok(),
            _ => true,
        };
        is_usable.then(|| (value, Source::Environment(name.to_owned())))
    }

    /// The address for logs beside that of the variable for all signals, if logs are exported and nothing names an endpoint for
    /// traces: the variables can switch traces off.
    fn logs_beside_unused_traces(&self) -> Option<(String, Source)> {
        if !self.is_default("otel.endpoint") || self.is_default("otel.logs") {
            return None;
        }
        let endpoint = Endpoint::parse(&self.variable(STANDARD_ENDPOINT)?)?;
        Some((endpoint.for_logs().text().to_owned(), Source::Environment(STANDARD_ENDPOINT.to_owned())))
    }

    /// The variable that names an address for logs, if it cannot be used and no setting replaces it. Logs that are meant for this
    /// address must not go to another one.
    pub(crate) fn unusable_logs_endpoint(&self) -> Option<&'static str> {
        let is_set = self.variable(STANDARD_LOGS_ENDPOINT).is_some();
        (is_set && self.is_default(LOGS_ENDPOINT)).then_some(STANDARD_LOGS_ENDPOINT)
    }

    /// Whether a key that was looked up has its default.
    fn is_default(&self, key: &str) -> bool {
        self.settings.iter().any(|setting| setting.key == key && setting.source == Source::Default)
    }

    fn remember(&mut self, key: &'static str, value: String, source: Source) -> String {
        let shown = without_password(&value).into_owned();
        self.settings.push(Setting { key, value: shown, source });
        value
    }

    /// The value of a variable that the configuration names; it is not recorded.
    pub(crate) fn variable(&self, name: &str) -> Option<String> {
        (self.environment)(name).filter(|value| !value.is_empty())
    }

    /// Adds a setting that only the file can have, after the settings of a section.
    pub(crate) fn note(&mut self, section: &str, key: &'static str, value: String, is_configured: bool) {
        let source = if is_configured { Source::File(self.file.clone()) } else { Source::Default };
        let is_of_section = |setting: &Setting| setting.key.split('.').next() == Some(section);
        let place =
            self.settings.iter().rposition(is_of_section).map_or(self.settings.len(), |last| last + 1);
        self.settings.insert(place, Setting { key, value, source });
    }

    /// All recorded settings.
    pub(crate) fn settings(self) -> Vec<Setting> {
        self.settings
    }
}

/// The variable of a key: `RECOUNT_STORE__DURABILITY` for `store.durability`. The level of the log and the
/// database have shorter ones.
pub(crate) fn variable(key: &str) -> String {
    match key {
        "log.level" => "RECOUNT_LOG".to_owned(),
        "store.url" => "RECOUNT_STORE".to_owned(),
        key => format!("RECOUNT_{}", key.to_uppercase().replace('.', "__")),
    }
}

/// Joins names into one value.
pub(crate) fn join_names(names: &[impl AsRef<str>]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
