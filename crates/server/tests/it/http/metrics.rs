//! `/metrics`: checks the grammar with a parser written from OpenMetrics 1.0 alone, and the numbers.

use std::collections::{BTreeMap, BTreeSet};

use crate::test_context::{STORY, TestContext};
use crate::wire::Wire;

/// Families by name: type, unit, and samples by name and labels.
#[derive(Debug, Default)]
struct Family {
    kind: String,
    unit: Option<String>,
    help: bool,
    samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

type Families = BTreeMap<String, Family>;

fn is_name(name: &str, colons: bool) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_' || (colons && c == ':');
    name.chars().next().is_some_and(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

fn parse_number(text: &str) -> f64 {
    match text {
        "+Inf" => f64::INFINITY,
        _ => {
            let plain = text.chars().all(|c| c.is_ascii_digit() || "+-.e".contains(c));
            assert!(plain, "{text:?} is no number");
            text.parse().unwrap_or_else(|why| panic!("{text:?}: {why}"))
        }
    }
}

/// `name{label="value",…} number` and nothing else; there are no times and no exemplars.
fn parse_sample(line: &str) -> (String, BTreeMap<String, String>, f64) {
    let at = line.find(['{', ' ']).unwrap_or_else(|| panic!("no sample: {line:?}"));
    let (name, mut rest) = line.split_at(at);
    assert!(is_name(name, true), "{line:?}");
    let mut labels = BTreeMap::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        loop {
            let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("labels: {line:?}"));
            assert!(is_name(label, false), "{line:?}");
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars.next().unwrap_or_else(|| panic!("a value does not end: {line:?}")) {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next() {
                        Some((_, 'n')) => value.push('\n'),
                        Some((_, escaped @ ('\\' | '"'))) => value.push(escaped),
                        other => panic!("the escape {other:?}: {line:?}"),
                    },
                    (_, other) => value.push(other),
                }
            };
            assert_eq!(labels.insert(label.to_owned(), value), None, "a label twice: {line:?}");
            rest = &after[end + 1..];
            match rest.split_at(1) {
                (",", more) => rest = more,
                ("}", more) => {
                    rest = more;
                    break;
                }
                _ => panic!("labels: {line:?}"),
            }
        }
    }
    let value = rest.strip_prefix(' ').unwrap_or_else(|| panic!("no value: {line:?}"));
    (name.to_owned(), labels, parse_number(value))
}

fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total"],
        "gauge" => &[""],
        "histogram" => &["_bucket", "_count", "_sum"],
        "info" => &["_info"],
        other => panic!("the type {other:?}"),
    }
}

fn parse(text: &str) -> Families {
    let body = text.strip_suffix("# EOF\n").expect("the page ends with its mark");
    assert!(body.is_empty() || body.ends_with('\n'));
    let mut families = Families::new();
    let mut current = String::new();
    for line in body.lines() {
        if let Some(comment) = line.strip_prefix("# ") {
            let mut words = comment.splitn(3, ' ');
            let (what, name) = (words.next().unwrap(), words.next().expect("metadata names a family"));
            let value = words.next().expect("metadata has a value");
            assert!(is_name(name, true), "{line:?}");
            if name != current {
                assert!(!families.contains_key(name), "{name} comes in two pieces");
                current = name.to_owned();
            }
            let family = families.entry(current.clone()).or_default();
            assert!(family.samples.is_empty(), "metadata after samples: {line:?}");
            match what {
                "TYPE" => assert!(std::mem::replace(&mut family.kind, value.to_owned()).is_empty()),
                "UNIT" => {
                    assert!(name.ends_with(&format!("_{value}")), "the unit is no suffix: {line:?}");
                    assert_eq!(family.unit.replace(value.to_owned()), None);
                }
                "HELP" => assert!(!std::mem::replace(&mut family.help, true)),
                other => panic!("a comment {other:?}"),
            }
            continue;
        }
        let (name, labels, value) = parse_sample(line);
        let family = families.get_mut(&current).unwrap_or_else(|| panic!("of no family: {line:?}"));
        let suffix = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{name} within {current}"));
        assert!(suffixes(&family.kind).contains(&suffix), "{name} in a {}", family.kind);
        assert!(family.samples.iter().all(|(n, l, _)| (n, l) != (&name, &labels)), "twice: {line:?}");
        family.samples.push((name, labels, value));
    }
    for (name, family) in &families {
        assert!(family.help && !family.samples.is_empty(), "{name} is empty");
        // Names of samples must not be those of other families.
        for suffix in ["_total", "_bucket", "_count", "_sum", "_info", "_created"] {
            assert!(!families.contains_key(&format!("{name}{suffix}")), "{name}{suffix}");
        }
        match family.kind.as_str() {
            "counter" => assert!(family.samples.iter().all(|(_, _, value)| *value >= 0.0)),
            "info" => assert!(family.unit.is_none() && family.samples.iter().all(|(_, _, v)| *v == 1.0)),
            "histogram" => check_histogram(name, family),
            _ => {}
        }
    }
    families
}

#[derive(Default)]
struct Histogram {
    bounds: Vec<(f64, f64)>,
    count: Option<f64>,
    sum: Option<f64>,
}

/// Each set of labels is a histogram of its own.
fn check_histogram(name: &str, family: &Family) {
    let mut histograms: BTreeMap<BTreeMap<String, String>, Histogram> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        let mut labels = labels.clone();
        let bound = labels.remove("le");
        let histogram = histograms.entry(labels).or_default();
        match sample.strip_prefix(name).unwrap() {
            "_bucket" => {
                let bound = bound.unwrap();
                assert!(
                    bound == "+Inf" || (bound.contains('.') && !bound.contains('e')),
                    "{name}: {bound} is no canonical bound"
                );
                histogram.bounds.push((parse_number(&bound), *value));
            }
            "_count" => histogram.count = Some(*value),
            _ => histogram.sum = Some(*value),
        }
    }
    for Histogram { bounds, count, sum } in histograms.into_values() {
        assert!(bounds.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{name}: {bounds:?}");
        let last = bounds.last().unwrap();
        assert_eq!((last.0, Some(last.1)), (f64::INFINITY, count), "{name}");
        assert!(sum.is_some(), "{name}");
    }
}

async fn read_metrics(context: &TestContext) -> Families {
    let reply = context.get("/metrics").await;
    assert_eq!(reply.status, 200, "{}", reply.text());
    let expected = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    assert_eq!(reply.header("content-type"), Some(expected));
    assert_eq!(reply.header("cache-control"), Some("no-store"));
    parse(reply.text())
}

/// The sum of a family's samples whose labels hold these.
fn sum(families: &Families, name: &str, labels: &[(&str, &str)]) -> f64 {
    let fits = |there: &BTreeMap<String, String>| {
        labels.iter().all(|(name, value)| there.get(*name).is_some_and(|there| there == value))
    };
    let (family, suffix) = match name.strip_suffix("_total") {
        Some(family) => (family, "_total"),
        None => match name.strip_suffix("_count") {
            Some(family) => (family, "_count"),
            None => (name, ""),
        },
    };
    let family = families.get(family).unwrap_or_else(|| panic!("no {family}"));
    let wanted = format!("{}{suffix}", name.trim_end_matches(suffix));
    family.samples.iter().filter(|(n, l, _)| *n == wanted && fits(l)).map(|(_, _, value)| value).sum()
}

#[tokio::test]
async fn the_page_keeps_to_the_grammar_and_counts_what_happened() {
    let folder = tempfile::tempdir().unwrap();
    let context = TestContext::sqlite(folder.path()).await;
    let run = context.run_with_story().await;
    assert_eq!(context.get("/v1/runs/run_none").await.status, 404);
    assert_eq!(context.get("/v1/runs/run_none/nothing").await.status, 404);
    let (frames, _) = context.listen(&format!("/v1/runs/{run}/events")).await.all().await;
    assert!(frames.len() > STORY.len());
    let open = context.new_run().await;
    let mut listener = context.listen(&format!("/v1/runs/{open}/events")).await;
    listener.until_caught_up().await;
    context.report(&open, 0, &[STORY[0]]).await;
    listener.event().await.unwrap();

    // The writer of the ended run stops soon after; that of the open one stays.
    let families = loop {
        let families = read_metrics(&context).await;
        if sum(&families, "recount_runs_awake", &[]) < 2.0 {
            break families;
        }
    };
    let committed = 1.0 + STORY.len() as f64 + 2.0;
    for (name, labels, expected) in [
        ("recount_store_answers", &[][..], 1.0),
        ("recount_events_committed_total", &[], committed),
        ("recount_last_position", &[], committed),
        ("recount_runs", &[], 2.0),
        ("recount_runs_awake", &[], 1.0),
        ("recount_commits_failed_total", &[], 0.0),
        ("recount_appends_without_space_total", &[], 0.0),
        // One more than the requests: the store records its folds.
        ("recount_append_seconds_count", &[], 5.0),
        ("recount_readers", &[], 1.0),
        ("recount_readers", &[("source", "live")], 1.0),
        ("recount_reader_lag_events", &[], 0.0),
        ("recount_reader_events_total", &[("source", "live")], 1.0),
        ("recount_reader_events_total", &[("source", "store")], 1.0 + STORY.len() as f64 + 1.0),
        ("recount_connections_refused_total", &[], 0.0),
        ("recount_connections_stalled_total", &[], 0.0),
        ("recount_requests_total", &[("route", "/v1/runs"), ("method", "POST"), ("status", "2xx")], 2.0),
        ("recount_requests_total", &[("route", "/v1/runs/{run}/events"), ("method", "POST")], 2.0),
        ("recount_requests_total", &[("route", "/v1/runs/{run}"), ("status", "4xx")], 1.0),
        ("recount_requests_total", &[("route", "other"), ("status", "4xx")], 1.0),
    ] {
        assert_eq!(sum(&families, name, labels), expected, "{name} {labels:?}");
    }
    let events = sum(&families, "recount_hot_events", &[]) + sum(&families, "recount_sealed_events", &[]);
    assert_eq!(events, committed);
    for name in [
        "recount_uptime_seconds",
        "recount_database_bytes",
        "recount_connections",
        "recount_connections_max",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        assert!(sum(&families, name, &[]) > 0.0, "{name}");
    }
    let build = &families["recount_build"].samples[0].1;
    assert_eq!(build["version"], env!("CARGO_PKG_VERSION"));
    // Requested paths add no rows, and no names are shown.
    let reply = context.get("/metrics").await;
    assert!(!reply.text().contains("run_"), "{}", reply.text());
    let routes: BTreeSet<&String> =
        families["recount_requests"].samples.iter().map(|(_, labels, _)| &labels["route"]).collect();
    assert!(routes.len() <= 6, "{routes:?}");
    drop(listener);
}

#[tokio::test]
async fn the_guard_protects_the_metrics() {
    let context = TestContext::memory().await;
    let mut wire = Wire::connect(context.address).await;
    wire.send(b"GET /metrics HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n").await;
    assert_eq!(wire.reply("GET").await.unwrap().status, 403);
    let families = read_metrics(&context).await;
    let refused = [("route", "/metrics"), ("status", "4xx")];
    assert_eq!(sum(&families, "recount_requests_total", &refused), 1.0);
}

#[tokio::test]
async fn waits_for_people_are_counted_by_kind_and_outcome() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let question = r#"{"clarification_id":"q1","question":"which one?"}"#;
    let handoff = r#"{"handoff_id":"h1","reason":"too hard","target_kind":"human"}"#;
    let prompts = [("clarification.requested", question), ("handoff.requested", handoff)];
    context.report(&run, 0, &[&STORY[..1], &prompts].concat()).await;
    assert!(!read_metrics(&context).await.contains_key("recount_human_wait_seconds"), "they wait");
    context.post("/v1/clarifications/q1/answer", r#"{"response":"a"}"#).await;
    context.post("/v1/handoffs/h1/acknowledge", "{}").await;
    let families = read_metrics(&context).await;
    for (kind, outcome) in [("clarification", "answered"), ("handoff", "acknowledged")] {
        let labels = [("kind", kind), ("outcome", outcome)];
        assert_eq!(sum(&families, "recount_human_wait_seconds_count", &labels), 1.0, "{labels:?}");
    }
}
