//! The figures of a server as metrics of OTLP: turns the text of its page for Prometheus into a request, and sends one every
//! minute.
//!
//! A push that fails is not repeated, because the next one has the same sums. It must not know what the figures mean. Start
//! with [`request`].

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use prost::Message;
use recount_world::{Shutdown, World};

use crate::project::turns::{self, Instrument};
use crate::proto::{InstrumentationScope, KeyValue, Resource};
use crate::send::{Reply, Sender};

/// Reads the page.
pub type ReadPage = Box<dyn Fn() -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

#[derive(Clone, PartialEq, Message)]
pub struct MetricsRequest {
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    pub resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    pub scope: Option<InstrumentationScope>,
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Metric {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub description: String,
    #[prost(string, tag = "3")]
    pub unit: String,
    #[prost(oneof = "Points", tags = "5, 7, 9")]
    pub points: Option<Points>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub enum Points {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;

/// A family of the page, while it is read.
#[derive(Default)]
struct Family<'a> {
    name: &'a str,
    kind: &'a str,
    unit: &'a str,
    help: &'a str,
    samples: Vec<Sample<'a>>,
}

struct Sample<'a> {
    /// What its name has after that of the family.
    suffix: &'a str,
    labels: Vec<(&'a str, String)>,
    value: f64,
}

/// Turns a page of OpenMetrics into a request. Sums count from `started_ms`.
pub fn request(page: &str, resource: Resource, started_ms: u64, now_ms: u64) -> MetricsRequest {
    let mut families: Vec<Family<'_>> = Vec::new();
    for line in page.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (Some(what), Some(name), Some(text)) = (words.next(), words.next(), words.next()) else {
                continue;
            };
            if families.last().is_none_or(|family| family.name != name) {
                families.push(Family { name, ..Family::default() });
            }
            let Some(family) = families.last_mut() else { continue };
            match what {
                "TYPE" => family.kind = text,
                "UNIT" => family.unit = text,
                _ => family.help = text,
            }
        } else if let Some(family) = families.last_mut() {
            family.samples.extend(sample(family.name, line));
        }
    }
    let times = (started_ms.saturating_mul(1_000_000), now_ms.saturating_mul(1_000_000));
    let scope =
        InstrumentationScope { name: "recount".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let metrics = families.iter().map(|family| family.metric(times)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
    MetricsRequest { resource_metrics: vec![ResourceMetrics { resource: Some(resource), scope_metrics }] }
}

/// `name{label="value",…} number`.
fn sample<'a>(family: &str, line: &'a str) -> Option<Sample<'a>> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = match head.split_once('{') {
        Some((name, labels)) => (name, read_labels(labels.strip_suffix('}')?)?),
        None => (head, Vec::new()),
    };
    Some(Sample { suffix: name.strip_prefix(family)?, labels, value: value.parse().ok()? })
}

fn read_labels(mut text: &str) -> Option<Vec<(&str, String)>> {
    let mut labels = Vec::new();
    while let Some((name, rest)) = text.split_once("=\"") {
        let (mut value, mut chars) = (String::new(), rest.char_indices());
        let end = loop {
            match chars.next()? {
                (end, '"') => break end,
                (_, '\\') => value.push(match chars.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, other) => value.push(other),
            }
        };
        labels.push((name, value));
        text = rest[end + 1..].trim_start_matches(',');
    }
    Some(labels)
}

impl Family<'_> {
    fn metric(&self, times: (u64, u64)) -> Metric {
        let points = || self.samples.iter().map(|sample| point(sample, times)).collect();
        let points = match self.kind {
            "counter" => Points::Sum(Sum {
                data_points: points(),
                aggregation_temporality: CUMULATIVE,
                is_monotonic: true,
            }),
            "histogram" => Points::Histogram(Histogram {
                data_points: self.histograms(times),
                aggregation_temporality: CUMULATIVE,
            }),
            _ => Points::Gauge(Gauge { data_points: points() }),
        };
        let suffix = if self.kind == "info" { "_info" } else { "" };
        let unit = match self.unit {
            "seconds" => "s",
            "bytes" => "By",
            other => other,
        };
        let of_turns = Instrument::ALL.into_iter().find(|instrument| instrument.page_name() == self.name);
        Metric {
            name: of_turns.map_or_else(|| format!("{}{suffix}", self.name), |of| of.name().to_owned()),
            description: self.help.to_owned(),
            unit: of_turns.map_or_else(|| unit.to_owned(), |of| of.unit().to_owned()),
            points: Some(points),
        }
    }

    /// One for each set of labels. Buckets of the page include those before them.
    fn histograms(&self, (start_time_unix_nano, time_unix_nano): (u64, u64)) -> Vec<HistogramPoint> {
        let (mut points, mut before) = (Vec::<HistogramPoint>::new(), 0);
        for Sample { suffix, labels, value } in &self.samples {
            let (bounds, others): (Vec<_>, Vec<_>) = labels.iter().partition(|(name, _)| *name == "le");
            let attributes: Vec<KeyValue> = others.into_iter().map(attribute).collect();
            if points.last().is_none_or(|point| point.attributes != attributes) {
                before = 0;
                let times =
                    HistogramPoint { start_time_unix_nano, time_unix_nano, ..HistogramPoint::default() };
                points.push(HistogramPoint { attributes, ..times });
            }
            let Some(point) = points.last_mut() else { continue };
            match (*suffix, bounds.first()) {
                ("_bucket", Some((_, bound))) => {
                    let through = *value as u64;
                    point.bucket_counts.push(through.saturating_sub(before));
                    before = through;
                    point.explicit_bounds.extend(bound.parse::<f64>().ok().filter(|bound| bound.is_finite()));
                }
                ("_count", _) => point.count = *value as u64,
                _ => point.sum = Some(*value),
            }
        }
        points
    }
}

fn point(sample: &Sample<'_>, times: (u64, u64)) -> NumberPoint {
    NumberPoint {
        start_time_unix_nano: times.0,
        time_unix_nano: times.1,
        as_double: Some(sample.value),
        attributes: sample.labels.iter().map(attribute).collect(),
    }
}

/// The attribute of a label of the page.
fn attribute((label, value): &(&str, String)) -> KeyValue {
    match turns::attribute_of(label) {
        // Boolean, as in the SDKs of OpenTelemetry.
        Some(turns::OVERFLOW) => KeyValue::new(turns::OVERFLOW, true),
        Some(name) => KeyValue::new(name, value.as_str()),
        None => KeyValue::new(label, value.as_str()),
    }
}

/// Sends the figures until the server stops.
pub(crate) async fn push(
    (sender, resource): (Sender, Resource),
    read: ReadPage,
    every: Duration,
    world: World,
    mut shutdown: Shutdown,
) {
    let clock = &world.clock;
    let started_ms = clock.now_ms();
    let mut is_failing = false;
    loop {
        tokio::select! {
            biased;
            () = shutdown.requested() => return,
            () = tokio::time::sleep(every) => {}
        }
        let request = request(&read().await, resource.clone(), started_ms, clock.now_ms());
        let failure = match sender.send(request.encode_to_vec()).await {
            Reply::Taken { rejected: 0, .. } => None,
            Reply::Taken { rejected, why } => Some(format!("{rejected} were rejected: {why}")),
            Reply::Refused { why } | Reply::Later { why, .. } => Some(why),
        };
        match (&failure, is_failing) {
            (Some(why), false) => {
                tracing::warn!(
                    why,
                    "the OpenTelemetry endpoint does not take metrics; the next ones are sent in a minute"
                );
            }
            (None, true) => tracing::info!("the OpenTelemetry endpoint takes metrics again"),
            _ => {}
        }
        is_failing = failure.is_some();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_becomes_metrics() {
        let page = "# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n# HELP a_seconds Times.\n\
                    a_seconds_bucket{le=\"0.5\"} 2\na_seconds_bucket{le=\"1.0\"} 5\na_seconds_bucket{le=\"+Inf\"} 6\n\
                    a_seconds_count 6\na_seconds_sum 3.5\n\
                    # TYPE b counter\n# HELP b Requests.\nb_total{route=\"/v1\",status=\"2xx\"} 7\n\
                    # TYPE c gauge\n# HELP c Open.\nc 0.25\n# TYPE d info\n# HELP d Build.\nd_info{version=\"1\"} 1\n# EOF\n";
        let request = request(page, Resource { attributes: Vec::new() }, 1, 2);
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: Vec<(&str, &str)> =
            metrics.iter().map(|metric| (metric.name.as_str(), metric.unit.as_str())).collect();
        assert_eq!(names, [("a_seconds", "s"), ("b", ""), ("c", ""), ("d_info", "")]);
        let Some(Points::Histogram(times)) = &metrics[0].points else { panic!("{:?}", metrics[0]) };
        let times = &times.data_points[0];
        assert_eq!((times.count, times.sum), (6, Some(3.5)));
        assert_eq!(
            (&*times.bucket_counts, &*times.explicit_bounds),
            ([2, 3, 1].as_slice(), [0.5, 1.0].as_slice())
        );
        assert_eq!((times.start_time_unix_nano, times.time_unix_nano), (1_000_000, 2_000_000));
        let Some(Points::Sum(sum)) = &metrics[1].points else { panic!("{:?}", metrics[1]) };
        assert!(sum.is_monotonic);
        assert_eq!(sum.data_points[0].as_double, Some(7.0));
        let labels = [KeyValue::new("route", "/v1"), KeyValue::new("status", "2xx")];
        assert_eq!(sum.data_points[0].attributes, labels);
        let Some(Points::Gauge(gauge)) = &metrics[2].points else { panic!("{:?}", metrics[2]) };
        assert_eq!(gauge.data_points[0].as_double, Some(0.25));
    }

    #[test]
    fn metrics_of_turns_have_the_names_of_the_conventions() {
        let page = r#"# TYPE gen_ai_client_operation_duration_seconds histogram
# UNIT gen_ai_client_operation_duration_seconds seconds
# HELP gen_ai_client_operation_duration_seconds Times.
gen_ai_client_operation_duration_seconds_bucket{gen_ai_request_model="a \"b\",\\c\n",le="0.01"} 1
gen_ai_client_operation_duration_seconds_bucket{gen_ai_request_model="a \"b\",\\c\n",le="+Inf"} 3
gen_ai_client_operation_duration_seconds_count{gen_ai_request_model="a \"b\",\\c\n"} 3
gen_ai_client_operation_duration_seconds_sum{gen_ai_request_model="a \"b\",\\c\n"} 7.5
gen_ai_client_operation_duration_seconds_bucket{otel_metric_overflow="true",le="0.01"} 0
gen_ai_client_operation_duration_seconds_bucket{otel_metric_overflow="true",le="+Inf"} 1
gen_ai_client_operation_duration_seconds_count{otel_metric_overflow="true"} 1
gen_ai_client_operation_duration_seconds_sum{otel_metric_overflow="true"} 2
# EOF
"#;
        let request = request(page, Resource { attributes: Vec::new() }, 1, 2);
        let metric = &request.resource_metrics[0].scope_metrics[0].metrics[0];
        assert_eq!((&*metric.name, &*metric.unit), ("gen_ai.client.operation.duration", "s"));
        let Some(Points::Histogram(histogram)) = &metric.points else { panic!("{metric:?}") };
        let [first, others] = histogram.data_points.as_slice() else { panic!("{histogram:?}") };
        assert_eq!(first.attributes, [KeyValue::new("gen_ai.request.model", "a \"b\",\\c\n")]);
        assert_eq!((&*first.bucket_counts, first.count, first.sum), ([1, 2].as_slice(), 3, Some(7.5)));
        assert_eq!(others.attributes, [KeyValue::new("otel.metric.overflow", true)]);
        assert_eq!(
            (&*others.bucket_counts, &*others.explicit_bounds),
            ([0, 1].as_slice(), [0.01].as_slice())
        );
    }
}
