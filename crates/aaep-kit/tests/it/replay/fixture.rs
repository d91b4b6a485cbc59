//! Shared helpers of the replay tests: a recording, its replay, and a reader of event streams.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use recount_aaep_kit::World;
use recount_aaep_kit::replay::{NoticeSink, Pace, Replay, ReplayNotice, ReplayOptions, ReplayScript};
use recount_transport::sse::{Decoder, Frame};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use tokio::sync::watch;

/// The timeout of these tests; reached only on failure.
pub(crate) const PATIENCE: Duration = Duration::from_secs(600);

/// A recording of the corpus by name.
pub(crate) fn recording(name: &str) -> String {
    let path = format!("{}/../../testdata/aaep/sessions/{name}.jsonl", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(path).unwrap()
}

/// The lines of a recording that a replay sends.
pub(crate) fn recorded_lines(recording: &str) -> Vec<String> {
    let is_event = |line: &&str| serde_json::from_str::<Value>(line).unwrap().get("event_id").is_some();
    recording.lines().filter(is_event).map(str::to_owned).collect()
}

pub(crate) fn script(recording: &str) -> ReplayScript {
    ReplayScript::read(recording.as_bytes(), None).unwrap()
}

/// Options without pauses.
pub(crate) fn at_once() -> ReplayOptions {
    ReplayOptions { pace: Pace::AtOnce, ..ReplayOptions::default() }
}

/// A replay with its recorded notices, except lines.
pub(crate) struct Fixture {
    pub(crate) replay: Replay,
    pub(crate) notices: Arc<Mutex<Vec<String>>>,
    changed: watch::Receiver<usize>,
    pub(crate) web: reqwest::Client,
}

impl Fixture {
    pub(crate) async fn of(recording: &str, options: ReplayOptions) -> Fixture {
        Fixture::of_script(script(recording), options).await
    }

    pub(crate) async fn of_script(script: ReplayScript, options: ReplayOptions) -> Fixture {
        let notices: Arc<Mutex<Vec<String>>> = Arc::default();
        let (change, changed) = watch::channel(0);
        let list = notices.clone();
        let notify: NoticeSink = Arc::new(move |what: ReplayNotice<'_>| {
            let mut list = list.lock().unwrap();
            list.push(match what {
                ReplayNotice::Line { line, .. } => format!("line {line}"),
                other => format!("{other:?}"),
            });
            change.send_replace(list.len());
        });
        // A second installation returns an error.
        rustls::crypto::ring::default_provider().install_default().ok();
        let replay = Replay::start(&World::real(), script, options, notify).await.unwrap();
        Fixture { replay, notices, changed, web: reqwest::Client::builder().no_proxy().build().unwrap() }
    }

    /// Returns the first notice with this prefix.
    pub(crate) async fn wait_notice(&self, beginning: &str) -> String {
        let mut changed = self.changed.clone();
        let find = async {
            loop {
                changed.borrow_and_update();
                let found =
                    self.notices.lock().unwrap().iter().find(|notice| notice.starts_with(beginning)).cloned();
                if let Some(found) = found {
                    return found;
                }
                changed.changed().await.unwrap();
            }
        };
        let found = tokio::time::timeout(PATIENCE, find).await;
        found.unwrap_or_else(|_| panic!("no notice {beginning}, but {:?}", self.notices.lock().unwrap()))
    }

    pub(crate) fn has_notice(&self, beginning: &str) -> bool {
        self.notices.lock().unwrap().iter().any(|notice| notice.starts_with(beginning))
    }

    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.replay.url())
    }

    pub(crate) async fn ask(&self, method: Method, path: &str) -> Response {
        self.web.request(method, self.url(path)).send().await.unwrap()
    }

    pub(crate) async fn post(&self, path: &str, body: &str) -> (StatusCode, String) {
        let sent =
            self.web.post(self.url(path)).header("content-type", "application/json").body(body.to_owned());
        let answer = sent.send().await.unwrap();
        (answer.status(), answer.text().await.unwrap())
    }

    pub(crate) async fn listen(&self, path: &str, received: Option<&str>) -> StreamReader {
        let mut request = self.web.get(self.url(path)).header("accept", "text/event-stream");
        if let Some(id) = received {
            request = request.header("last-event-id", id);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        StreamReader { response, decoder: Decoder::new(), raw: Vec::new() }
    }

    /// Waits until the replay ends.
    pub(crate) async fn ends(&self) {
        let ended = tokio::time::timeout(PATIENCE, self.replay.ended()).await;
        ended.unwrap_or_else(|_| panic!("it does not end; notices: {:?}", self.notices.lock().unwrap()));
    }
}

/// A reader of an event stream.
pub(crate) struct StreamReader {
    pub(crate) response: Response,
    pub(crate) decoder: Decoder,
    /// All received bytes.
    pub(crate) raw: Vec<u8>,
}

impl StreamReader {
    pub(crate) async fn next(&mut self) -> Option<Frame> {
        loop {
            if let Some(frame) = self.decoder.next_frame() {
                return Some(frame);
            }
            let chunk =
                tokio::time::timeout(PATIENCE, self.response.chunk()).await.expect("more comes, or the end");
            let chunk = chunk.unwrap()?;
            self.raw.extend_from_slice(&chunk);
            self.decoder.feed(&chunk).unwrap();
        }
    }

    pub(crate) async fn some(&mut self, count: usize) -> Vec<Frame> {
        let mut frames = Vec::new();
        while frames.len() < count {
            frames.push(self.next().await.expect("the stream goes on"));
        }
        frames
    }

    /// All remaining texts.
    pub(crate) async fn rest(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        while let Some(frame) = self.next().await {
            texts.push(frame.data);
        }
        texts
    }
}

/// A string field of a JSON text.
pub(crate) fn field(text: &str, name: &str) -> String {
    let value: Value = serde_json::from_str(text).unwrap();
    value[name].as_str().unwrap_or_else(|| panic!("{text} has no {name}")).to_owned()
}
