//! Checks of the export by OpenTelemetry. See [`add`].

use recount_api::admin::Check;
use recount_otel::{ExportFigures, Exporter, Signal};

use crate::limits;
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::Tenants;

/// Adds a check for each tenant and exported signal.
pub(super) async fn add(checks: &mut Vec<Check>, exporter: &Exporter, tenants: &Tenants) {
    let now = tenants.default_engine().world().clock.now_ms();
    for (tenant, figures) in exporter.figures() {
        let last = match tenants.engine(&tenant) {
            Some(engine) => engine.read().last_position().await.ok(),
            None => None,
        };
        for signal in Signal::ALL {
            let Some(endpoint) = exporter.endpoint(signal) else { continue };
            let name = signal.as_str();
            let name = if tenant == TENANT_DEFAULT { name.to_owned() } else { format!("{name} of {tenant}") };
            checks.push(check(signal, &name, &endpoint, &figures, last, now));
        }
    }
}

fn check(
    signal: Signal,
    name: &str,
    endpoint: &str,
    figures: &ExportFigures,
    last: Option<u64>,
    now_ms: u64,
) -> Check {
    let sent = figures.of(signal);
    let lag = last.map_or(0, |last| last.saturating_sub(sent.exported_to));
    let (what, items, setting, headers) = match signal {
        Signal::Traces => {
            let what = format!("{} runs with {} spans", figures.runs, sent.sent);
            (what, "spans", "otel.endpoint", "otel.headers_env")
        }
        Signal::Logs => {
            let headers = "otel.logs_headers_env or otel.headers_env";
            let what = format!("{} log records", sent.sent);
            (what, "log records", "otel.logs_endpoint or otel.endpoint", headers)
        }
    };
    let value = format!("exported to {endpoint}: {what} since the server started; {lag} events behind");
    if let Some(failing) = &sent.failing
        && now_ms.saturating_sub(failing.since_ms) >= limits::EXPORT_FAILING_MS
    {
        let since = recount_event::time::format_ms(failing.since_ms);
        let (signal, why) = (signal.as_str(), &failing.why);
        let value = format!("{endpoint} has taken no {signal} since {since}: {why}; {lag} events behind");
        let advice =
            format!("check {setting}, and the variable of {headers}; the export continues where it was");
        return Check::problem(name, value, advice);
    }
    if sent.rejected > 0 {
        let value = format!("{value}; {} {items} rejected", sent.rejected);
        return Check::note(name, value, "the server's log has the reasons of the endpoint");
    }
    Check::fine(name, value)
}

#[cfg(test)]
mod tests {
    use recount_api::admin::Status;
    use recount_otel::{Failing, SignalFigures};

    use super::*;

    #[test]
    fn an_endpoint_that_fails_for_long_is_a_problem_and_rejected_spans_are_noted() {
        let sent = SignalFigures { sent: 7, exported_to: 90, ..SignalFigures::default() };
        let of = |traces: SignalFigures| ExportFigures {
            logs: SignalFigures { sent: 5, exported_to: 98, ..traces.clone() },
            traces,
            runs: 2,
            ..ExportFigures::default()
        };
        let fine = of(sent.clone());
        let failing = Failing { since_ms: 1_777_803_825_000, why: "HTTP 401 Unauthorized".to_owned() };
        let failing = of(SignalFigures { failing: Some(failing), ..sent.clone() });
        let rejecting = of(SignalFigures { rejected: 1, ..sent });
        let late = 1_777_803_825_000 + limits::EXPORT_FAILING_MS;
        for (figures, now, status, part) in [
            (
                &fine,
                late,
                Status::Fine,
                "exported to http://e/: 2 runs with 7 spans since the server started; 10 events behind",
            ),
            (&failing, late - 1, Status::Fine, "10 events behind"),
            (
                &failing,
                late,
                Status::Problem,
                "has taken no traces since 2026-05-03T10:23:45.000Z: HTTP 401 Unauthorized; 10",
            ),
            (&rejecting, late, Status::Note, "; 1 spans rejected"),
        ] {
            let check = check(Signal::Traces, "traces", "http://e/", figures, Some(100), now);
            assert!(check.status == status && check.value.contains(part), "{check:?}");
        }
        for (figures, status, part) in [
            (
                &fine,
                Status::Fine,
                "exported to http://e/: 5 log records since the server started; 2 events behind",
            ),
            (
                &failing,
                Status::Problem,
                "has taken no logs since 2026-05-03T10:23:45.000Z: HTTP 401 Unauthorized; 2",
            ),
            (&rejecting, Status::Note, "; 1 log records rejected"),
        ] {
            let check = check(Signal::Logs, "logs", "http://e/", figures, Some(100), late);
            assert!(check.status == status && check.value.contains(part), "{check:?}");
        }
    }
}
