//! The settings of the export by OpenTelemetry, and the headers that their variable has. See [`TraceExport`].
//!
//! It must not know what is exported.

use recount_otel::{Endpoint, ExportSettings, Headers};

use super::table::{OTEL_HEADERS, Values};
use crate::StartError;
use crate::settings::Environment;

/// Where and what to export, as configured.
#[derive(Debug, Clone)]
pub(crate) struct TraceExport {
    /// The address that takes traces.
    pub(crate) endpoint: Option<Endpoint>,
    /// The address that takes logs, if they are exported.
    pub(crate) logs: Option<Endpoint>,
    /// The variable with the headers.
    headers_env: Option<String>,
    service_name: String,
    resource: Vec<(String, String)>,
    pub(crate) contents: bool,
    /// Whether the figures of the server are sent, too.
    pub(crate) metrics: bool,
    history: bool,
}

/// None if nothing is to be exported.
pub(super) fn settle(values: &Values) -> Option<TraceExport> {
    let endpoint = values.otel_endpoint.clone();
    let for_logs = values.otel_logs_endpoint.clone();
    let for_logs = for_logs.or_else(|| endpoint.as_ref().map(Endpoint::for_logs));
    if endpoint.is_none() && !values.otel_logs {
        return None;
    }
    Some(TraceExport {
        endpoint,
        logs: for_logs.filter(|_| values.otel_logs),
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
        let logs = match (&self.logs, &self.endpoint) {
            (Some(endpoint), _) => {
                Some(format!("events of runs are exported as logs to {}{contents}", endpoint.shown()))
            }
            (None, Some(_)) => None,
            (None, None) => {
                Some("otel.logs exports nothing: set otel.endpoint or otel.logs_endpoint".to_owned())
            }
        };
        [traces, logs]
    }

    /// Reads the headers.
    pub(crate) fn settings(&self, environment: &Environment<'_>) -> Result<ExportSettings, StartError> {
        let variable = |name: &String| environment(name).filter(|value| !value.is_empty());
        let headers = match &self.headers_env {
            None => Headers::default(),
            Some(name) => match variable(name) {
                Some(text) => Headers::parse(&text).map_err(|why| {
                    StartError::usage(format!(
                        "invalid value of the variable {name} (otel.headers_env): {why}"
                    ))
                })?,
                // The default is the variable that OpenTelemetry defines, which may be unset.
                None if name == OTEL_HEADERS => Headers::default(),
                None => {
                    return Err(StartError::usage(format!(
                        "the variable {name} of otel.headers_env is not set; set it, or set otel.headers_env to none"
                    )));
                }
            },
        };
        Ok(ExportSettings {
            traces: self.endpoint.clone(),
            logs: self.logs.clone(),
            headers,
            service_name: self.service_name.clone(),
            resource: self.resource.clone(),
            contents: self.contents,
            history: self.history,
        })
    }
}
