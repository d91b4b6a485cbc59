//! Content negotiation by a request's `Accept` header. Entry point: [`prefers_event_stream`].

/// Which of the two forms of a reading is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResponseFormat {
    /// A page of JSON.
    Json,
    /// A stream of events.
    EventStream,
    /// The header allows neither.
    Neither,
}

/// How well a range fits a type: the more exact range decides, whatever its weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    Everything,
    Subtypes,
    Exact,
}

/// Reads an `Accept` header. Without one, or when both forms are equally welcome, JSON is sent; an event
/// stream is sent when it is liked better, or liked as much and named while JSON is not.
pub fn prefers_event_stream(accept: Option<&str>) -> ResponseFormat {
    let Some(accept) = accept.map(str::trim).filter(|accept| !accept.is_empty()) else {
        return ResponseFormat::Json;
    };
    let json = weight(accept, "application", "json");
    let stream = weight(accept, "text", "event-stream");
    let liked = |choice: Option<(Fit, u16)>| choice.filter(|(_, weight)| *weight > 0);
    match (liked(json), liked(stream)) {
        (None, None) => ResponseFormat::Neither,
        (Some(_), None) => ResponseFormat::Json,
        (None, Some(_)) => ResponseFormat::EventStream,
        (Some((json_fit, json)), Some((stream_fit, stream))) => {
            let named_alone = stream_fit == Fit::Exact && json_fit < Fit::Exact;
            if stream > json || (stream == json && named_alone) {
                ResponseFormat::EventStream
            } else {
                ResponseFormat::Json
            }
        }
    }
}

/// Whether a `Content-Type` is JSON.
pub fn is_json(content_type: &str) -> bool {
    let kind = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    kind == "application/json" || (kind.starts_with("application/") && kind.ends_with("+json"))
}

/// The weight, in thousandths, that the best fitting range gives a type.
fn weight(accept: &str, kind: &str, subkind: &str) -> Option<(Fit, u16)> {
    accept.split(',').filter_map(|range| fit(range, kind, subkind)).max()
}

fn fit(range: &str, kind: &str, subkind: &str) -> Option<(Fit, u16)> {
    let mut parts = range.split(';').map(str::trim);
    let (range_kind, range_subkind) = parts.next()?.split_once('/')?;
    let fit = if range_kind.eq_ignore_ascii_case(kind) && range_subkind.eq_ignore_ascii_case(subkind) {
        Fit::Exact
    } else if range_kind.eq_ignore_ascii_case(kind) && range_subkind == "*" {
        Fit::Subtypes
    } else if range_kind == "*" && range_subkind == "*" {
        Fit::Everything
    } else {
        return None;
    };
    let q = parts.find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim_end().eq_ignore_ascii_case("q").then_some(value.trim_start())
    });
    Some((fit, q.map_or(1000, thousandths)))
}

/// `0.25` is 250. What is no weight counts as full, as if it were not there.
fn thousandths(q: &str) -> u16 {
    let (whole, fraction) = q.split_once('.').unwrap_or((q, ""));
    let good = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    match whole {
        "0" if good => format!("{fraction:0<3}").parse().unwrap_or(1000),
        _ => 1000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        use ResponseFormat::{EventStream, Json, Neither};
        let table: &[(&str, ResponseFormat)] = &[
            ("", Json),
            ("  ", Json),
            ("*/*", Json),
            ("application/json", Json),
            ("application/*", Json),
            ("text/event-stream", EventStream),
            ("Text/Event-Stream; charset=utf-8", EventStream),
            ("text/*", EventStream),
            ("text/event-stream, */*", EventStream),
            ("text/event-stream, application/json", Json),
            ("application/json, text/event-stream", Json),
            ("application/json;q=0.5, text/event-stream", EventStream),
            ("application/json;q=0.5, text/event-stream;q=0.4", Json),
            ("application/json; q=0.9 , text/event-stream ;Q=0.901", EventStream),
            ("text/event-stream;q=0", Neither),
            ("text/event-stream;q=0.000, */*", Json),
            ("text/event-stream;q=0.1, */*;q=0.5", Json),
            ("application/json;q=0, */*", EventStream),
            ("application/json;q=0, text/*;q=0.1", EventStream),
            ("*/*;q=0", Neither),
            ("text/html", Neither),
            ("text/html, application/xhtml+xml, */*;q=0.8", Json),
            ("image/png, text/*;q=0.3", EventStream),
            ("nonsense", Neither),
            (",,,text/event-stream,,", EventStream),
            ("text/event-stream;q=high", EventStream),
            ("application/json;q=1.0, text/event-stream;q=0.999", Json),
        ];
        assert_eq!(prefers_event_stream(None), Json, "no header");
        for (accept, wanted) in table {
            assert_eq!(prefers_event_stream(Some(accept)), *wanted, "{accept:?}");
        }
    }
}
