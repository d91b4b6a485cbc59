//! Compares the spans of every story of `testdata/runs` with `testdata/faces/otel/<story>.txt`. `RECOUNT_BLESS=1` writes
//! the files, except if `CI` is set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use prost::Message as _;
use recount_event::{Event, codec};
use recount_otel::proto::{ExportRequest, ResourceSpans, ScopeSpans, Span, Value};

use crate::properties::{check, spans};

fn testdata() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata")
}

pub(crate) fn story(name: &str) -> Vec<Event> {
    let text = std::fs::read_to_string(testdata().join("runs").join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(|line| codec::decode(line.as_bytes()).unwrap()).collect()
}

pub(crate) fn stories() -> BTreeMap<String, Vec<Event>> {
    let names = std::fs::read_dir(testdata().join("runs")).unwrap();
    let names = names.map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned());
    names.map(|name| (name.clone(), story(&name))).collect()
}

/// The spans by their beginning, in milliseconds of the run, with their parents by name.
fn transcript(events: &[Event]) -> String {
    let spans = spans(events, true);
    let names: BTreeMap<&[u8], &str> =
        spans.iter().map(|span| (span.span_id.as_slice(), span.name.as_str())).collect();
    let start = spans.iter().map(|span| span.start_time_unix_nano).min().unwrap();
    let ms = |nanos: u64| (nanos - start) / 1_000_000;
    let mut text = String::new();
    for span in &spans {
        let parent = names.get(span.parent_span_id.as_slice()).unwrap_or(&"nothing");
        let (from, to) = (ms(span.start_time_unix_nano), ms(span.end_time_unix_nano));
        writeln!(text, "{} below {parent}, {from} to {to} ms", span.name).unwrap();
        if let Some(status) = &span.status {
            writeln!(text, "  status error {:?}", status.message).unwrap();
        }
        for there in &span.attributes {
            let value = there.value.as_ref().and_then(|value| value.value.as_ref()).unwrap();
            writeln!(text, "  {} = {}", there.key, shown(value)).unwrap();
        }
    }
    text
}

fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        Value::Flag(flag) => flag.to_string(),
        Value::Whole(number) => number.to_string(),
        Value::Decimal(number) => format!("{number:?}"),
        Value::List(list) => {
            let values = list.values.iter().map(|value| shown(value.value.as_ref().unwrap()));
            format!("[{}]", values.collect::<Vec<_>>().join(", "))
        }
    }
}

#[test]
fn every_story_matches_its_spans() {
    let folder = testdata().join("faces/otel");
    let is_blessed = std::env::var_os("RECOUNT_BLESS").is_some_and(|value| value == "1");
    assert!(!is_blessed || std::env::var_os("CI").is_none(), "CI compares; it does not bless");
    let mut names = BTreeSet::new();
    for (story, events) in stories() {
        let made = transcript(&events);
        let name = format!("{story}.txt");
        let file = folder.join(&name);
        if is_blessed {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(&file, &made).unwrap();
        }
        let stored = std::fs::read_to_string(&file)
            .unwrap_or_else(|why| panic!("{name}: {why}: RECOUNT_BLESS=1 writes it"));
        assert_eq!(stored, made, "{name}: if it is meant, RECOUNT_BLESS=1");
        names.insert(name);
    }
    let files = std::fs::read_dir(folder).unwrap();
    let files: BTreeSet<String> =
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(files, names, "each file is of a story");
}

#[test]
fn every_story_is_a_tree_whose_times_nest() {
    for (name, events) in stories() {
        check(&name, &events);
    }
}

/// The messages of opentelemetry-proto read every field, and write the same bytes.
#[test]
fn the_protobuf_is_that_of_opentelemetry() {
    for (name, events) in stories() {
        let spans: Vec<Span> = spans(&events, true);
        let scope_spans = vec![ScopeSpans { scope: None, spans, schema_url: "u".into() }];
        let request = ExportRequest { resource_spans: vec![ResourceSpans { resource: None, scope_spans }] };
        let bytes = request.encode_to_vec();
        let theirs = ExportTraceServiceRequest::decode(bytes.as_slice()).unwrap();
        assert!(theirs.encode_to_vec() == bytes, "{name}");
        let scope = &theirs.resource_spans[0].scope_spans[0];
        assert_eq!(scope.schema_url, "u");
        for (theirs, ours) in scope.spans.iter().zip(&request.resource_spans[0].scope_spans[0].spans) {
            assert_eq!((&theirs.name, &theirs.span_id), (&ours.name, &ours.span_id));
            assert_eq!(theirs.kind, ours.kind);
            assert_eq!(theirs.end_time_unix_nano, ours.end_time_unix_nano);
            let codes =
                (theirs.status.as_ref().map(|status| status.code), ours.status.as_ref().map(|s| s.code));
            assert_eq!(codes.0, codes.1);
        }
    }
}
