//! The settings of the export of traces, and the headers that their variable has. See [`TraceExport`].
//!
//! It must not know what is exported.

use recount_otel::{Endpoint, ExportSettings, Headers};

use super::table::{OTEL_HEADERS, Values};
use crate::StartError;
use crate::settings::Environment;

/// Where and what to export, as configured.
#[derive(Debug, Clone)]
pub(crate) struct TraceExport {
    pub(crate) endpoint: Endpoint,
    /// The variable with the headers.
    headers_env: Option<String>,
    service_name: String,
    resource: Vec<(String, String)>,
    pub(crate) contents: bool,
    /// Whether the figures of the server are sent, too.
    pub(crate) metrics: bool,
    history: bool,
}

/// None without an endpoint.
pub(super) fn settle(values: &Values) -> Option<TraceExport> {
    Some(TraceExport {
        endpoint: values.otel_endpoint.clone()?,
        headers_env: values.otel_headers_env.clone(),
        service_name: values.otel_service_name.clone(),
        resource: values.otel_resource.clone(),
        contents: values.otel_contents,
        metrics: values.otel_metrics,
        history: values.otel_history,
    })
}

impl TraceExport {
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
            endpoint: self.endpoint.clone(),
            headers,
            service_name: self.service_name.clone(),
            resource: self.resource.clone(),
            contents: self.contents,
            history: self.history,
        })
    }
}
