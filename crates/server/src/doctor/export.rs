//! Checks of the export of traces. See [`add`].

use recount_api::admin::Check;
use recount_otel::{ExportFigures, Exporter};

use crate::limits;
use crate::tenant_folder::TENANT_DEFAULT;
use crate::tenants::Tenants;

/// Adds a check for each tenant.
pub(super) async fn add(checks: &mut Vec<Check>, exporter: &Exporter, tenants: &Tenants) {
    let now = tenants.default_engine().world().clock.now_ms();
    for (tenant, figures) in exporter.figures() {
        let last = match tenants.engine(&tenant) {
            Some(engine) => engine.read().last_position().await.ok(),
            None => None,
        };
        let name = if tenant == TENANT_DEFAULT { "traces".to_owned() } else { format!("traces of {tenant}") };
        checks.push(check(&name, &exporter.endpoint(), &figures, last, now));
    }
}

fn check(name: &str, endpoint: &str, figures: &ExportFigures, last: Option<u64>, now_ms: u64) -> Check {
    let lag = last.map_or(0, |last| last.saturating_sub(figures.exported_to));
    let value = format!(
        "exported to {endpoint}: {} runs with {} spans since the server started; {lag} events behind",
        figures.runs, figures.spans
    );
    if let Some(failing) = &figures.failing
        && now_ms.saturating_sub(failing.since_ms) >= limits::EXPORT_FAILING_MS
    {
        let since = recount_event::time::format_ms(failing.since_ms);
        let value =
            format!("{endpoint} has taken no traces since {since}: {}; {lag} events behind", failing.why);
        let advice =
            "check otel.endpoint and the variable of otel.headers_env; the export continues where it was";
        return Check::problem(name, value, advice);
    }
    if figures.rejected > 0 {
        let value = format!("{value}; {} spans rejected", figures.rejected);
        return Check::note(name, value, "the server's log has the reasons of the endpoint");
    }
    Check::fine(name, value)
}

#[cfg(test)]
mod tests {
    use recount_api::admin::Status;
    use recount_otel::Failing;

    use super::*;

    #[test]
    fn an_endpoint_that_fails_for_long_is_a_problem_and_rejected_spans_are_noted() {
        let fine = ExportFigures {
            spans: 7,
            runs: 2,
            runs_failed: 0,
            input_tokens: 0,
            output_tokens: 0,
            cost_micros_usd: 0,
            rejected: 0,
            failed_requests: 0,
            exported_to: 90,
            failing: None,
        };
        let failing = Failing { since_ms: 1_777_803_825_000, why: "HTTP 401 Unauthorized".to_owned() };
        let failing = ExportFigures { failing: Some(failing), ..fine.clone() };
        let rejecting = ExportFigures { rejected: 1, ..fine.clone() };
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
            let check = check("traces", "http://e/", figures, Some(100), now);
            assert!(check.status == status && check.value.contains(part), "{check:?}");
        }
    }
}
