//! The settings of the export by OpenTelemetry, and the headers that their variable has. See [`TraceExport`].
//!
//! It must not know what is exported.

use recount_otel::{Endpoint, ExportSettings, Headers};

use super::table::{OTEL_HEADERS, OTEL_LOGS_HEADERS, Values};
use crate::StartError;
use crate::settings::{Environment, Lookup};

/// Where and what to export, as configured.
#[derive(Debug, Clone)]
pub(crate) struct TraceExport {
    /// The address that takes traces.
    pub(crate) endpoint: Option<Endpoint>,
    /// The address that takes logs, if they are exported.
    pub(crate) logs: Option<Endpoint>,
    /// The variable that names an address for logs which cannot be used, so that none are exported.
    unusable_logs: Option<&'static str>,
    /// The variables with the headers.
    headers_env: Option<String>,
    logs_headers_env: Option<String>,
    service_name: String,
    resource: Vec<(String, String)>,
    pub(crate) contents: bool,
    /// Whether the figures of the server are sent, too.
    pub(crate) metrics: bool,
    history: bool,
}

/// None if nothing is to be exported.
pub(super) fn settle(values: &Values, lookup: &Lookup<'_>) -> Option<TraceExport> {
    let endpoint = values.otel_endpoint.clone();
    let for_logs = values.otel_logs_endpoint.clone();
    let for_logs = for_logs.or_else(|| endpoint.as_ref().map(Endpoint::for_logs));
    if endpoint.is_none() && !values.otel_logs {
        return None;
    }
    let unusable_logs = lookup.unusable_logs_endpoint().filter(|_| values.otel_logs);
    Some(TraceExport {
        endpoint,
        logs: for_logs.filter(|_| values.otel_logs && unusable_logs.is_none()),
        unusable_logs,
        logs_headers_env: values.otel_logs_headers_env.clone(),
        headers_env: values.otel_headers_env.clone(),
        service_name: values.otel_service_name.clone(),
        resource: values.otel_resource.clone(),
        contents: values.otel_contents,
        metrics: values.otel_metrics,
        history: values.otel_history,
    })
}

impl TraceExport {
    /// What is exported and where, in lines for the start of the server.
    pub(crate) fn lines(&self) -> [Option<String>; 2] {
        let contents = if self.contents { ", with their contents" } else { "" };
        let metrics = if self.metrics { "; metrics are sent every minute" } else { "" };
        let traces = match &self.endpoint {
            Some(endpoint) => {
                let endpoint = endpoint.shown();
                Some(format!("ended runs are exported as traces to {endpoint}{contents}{metrics}"))
            }
            None => self.metrics.then(|| "otel.metrics sends nothing: set otel.endpoint".to_owned()),
        };
        let logs = match (&self.logs, &self.endpoint, self.unusable_logs) {
            (Some(endpoint), _, _) => {
                let other = if self.shares_headers() { "" } else { "; otel.headers_env is not sent there" };
                Some(format!("events of runs are exported as logs to {}{contents}{other}", endpoint.shown()))
            }
            (None, _, Some(variable)) => Some(format!(
                "otel.logs exports nothing: {variable} is not a URL without a login, or not for http/protobuf; set \
                 otel.logs_endpoint"
            )),
            (None, Some(_), None) => None,
            (None, None, None) => {
                Some("otel.logs exports nothing: set otel.endpoint or otel.logs_endpoint".to_owned())
            }
        };
        [traces, logs]
    }

    /// Whether the headers for traces may be sent with logs: they are secrets of one server.
    fn shares_headers(&self) -> bool {
        match (&self.endpoint, &self.logs) {
            (Some(traces), Some(logs)) => logs.has_origin_of(traces),
            _ => true,
        }
    }

    /// Reads the headers.
    pub(crate) fn settings(&self, environment: &Environment<'_>) -> Result<ExportSettings, StartError> {
        let shared = headers(environment, self.headers_env.as_deref(), "otel.headers_env", OTEL_HEADERS)?;
        let own = self.logs_headers_env.as_deref().filter(|_| self.logs.is_some());
        let own = headers(environment, own, "otel.logs_headers_env", OTEL_LOGS_HEADERS)?;
        let logs_headers = own.or_else(|| shared.clone().filter(|_| self.shares_headers()));
        Ok(ExportSettings {
            traces: self.endpoint.clone(),
            logs: self.logs.clone(),
            headers: shared.unwrap_or_default(),
            logs_headers: logs_headers.unwrap_or_default(),
            service_name: self.service_name.clone(),
            resource: self.resource.clone(),
            contents: self.contents,
            history: self.history,
        })
    }
}

/// The headers of the variable that a setting names, if it is set. The default is a variable that OpenTelemetry defines, which may
/// be unset.
fn headers(
    environment: &Environment<'_>,
    variable: Option<&str>,
    setting: &str,
    default: &str,
) -> Result<Option<Headers>, StartError> {
    let Some(name) = variable else { return Ok(None) };
    match environment(name).filter(|value| !value.is_empty()) {
        Some(text) => Headers::parse(&text).map(Some).map_err(|why| {
            StartError::usage(format!("invalid value of the variable {name} ({setting}): {why}"))
        }),
        None if name == default => Ok(None),
        None => Err(StartError::usage(format!(
            "the variable {name} of {setting} is not set; set it, or set {setting} to none"
        ))),
    }
}
