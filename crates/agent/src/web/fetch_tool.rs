//! The tool `web_fetch`: returns a page as text.
//!
//! Start at [`WebFetch`].

use bytes::Bytes;
use futures_util::future::BoxFuture;
use recount_event::{Draft, ForeignId};
use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::{self, FOREIGN, WebCall};
use super::exchange::{Received, WebEvents};
use super::guard::WebUrl;
use super::html::ReadableText;
use super::request::WebRequest;
use super::{Web, text};
use crate::tool::{ArtifactStore, Assessment, Job, Outcome, OutcomeStatus, Tool};
use crate::tools::ending::{CallFailure, run_blocking};
use crate::tools::input;
use crate::web::limits;

pub(super) struct WebFetch(pub(super) Web);

const CONSEQUENCE: &str = "Sends the URL to the server. Changes nothing here.";

const ACCEPT: &str = "text/html, application/xhtml+xml, text/*;q=0.9, application/json;q=0.9, */*;q=0.5";

#[derive(Deserialize)]
struct WebFetchInput {
    url: String,
    offset: Option<usize>,
}

impl Tool for WebFetch {
    fn name(&self) -> &'static str {
        "web_fetch"
    }

    fn kind(&self) -> &'static str {
        "web"
    }

    fn description(&self) -> &'static str {
        "Fetches a web page and returns it as text, with links as [text](URL) and without scripts and \
         styles. Long pages are returned in parts; the last line gives the offset to continue with."
    }

    fn schema(&self) -> Value {
        let properties = json!({
            "url": {
                "type": "string", "minLength": 1, "maxLength": limits::WEB_URL_BYTES_MAX,
                "description": "The URL, starting with http:// or https://."
            },
            "offset": {
                "type": "integer", "minimum": 0,
                "description": "The byte offset to start from, as given by an earlier call."
            }
        });
        input::schema(properties, &["url"])
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn assess(&self, input: &Value) -> Assessment {
        call::assess(&Method::GET, input::text(input, "url"), CONSEQUENCE)
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.execute(&mut job).await.unwrap_or_else(Outcome::from) })
    }
}

impl WebFetch {
    async fn execute(&self, job: &mut Job<'_>) -> Result<Outcome, CallFailure> {
        let WebFetchInput { url, offset } = input::read(job.input)?;
        let url = WebUrl::read(&url).map_err(|why| CallFailure::failed(why.code(), why.to_string()))?;
        let request = WebRequest::new(Method::GET, url, ACCEPT);
        let call = WebCall {
            web: &self.0,
            events: WebEvents::Fetch,
            consequence: CONSEQUENCE,
            body_bytes_max: limits::WEB_PAGE_BYTES_MAX,
        };
        let mut received = call.send(job, request).await?;
        let (body, media, from) = (received.body.clone(), received.media(), received.url.url().clone());
        let read = run_blocking(job.world, move || Ok(text::read(&body, &media, &from))).await;
        let mut events = std::mem::take(&mut received.before);
        let output = match read {
            Ok(read) => {
                store_and_render(
                    job.artifacts,
                    job.call,
                    &mut received,
                    read,
                    offset.unwrap_or_default(),
                    &mut events,
                )
                .await
            }
            Err(stop) => {
                received.response.error = Some(stop.message().to_owned());
                events.push(WebEvents::Fetch.response(received.response));
                return Err(stop.with_events(events));
            }
        };
        let status = received.status;
        let summary =
            format!("{} from {}, {} bytes", status.as_u16(), received.url.host(), received.body.len());
        let artifact = received.response.extracted_text_artifact_id.clone();
        let artifact = artifact.or_else(|| received.response.body_artifact_id.clone());
        events.push(WebEvents::Fetch.response(received.response));
        let mut outcome = call::outcome(&received.end, output, summary, events, artifact);
        if outcome.status == OutcomeStatus::Completed && !status.is_success() {
            let error = format!("{} returned status {status}", received.url);
            outcome.status = OutcomeStatus::Failed { code: "http_status", error };
        }
        Ok(outcome)
    }
}

/// Stores the response and builds the text for the model.
async fn store_and_render(
    artifacts: &dyn ArtifactStore,
    id: &ForeignId,
    received: &mut Received,
    read: Option<ReadableText>,
    offset: usize,
    events: &mut Vec<Draft>,
) -> String {
    let (url, bytes) = (received.url.clone(), received.body.len());
    let mut output = format!("HTTP {} from {url}\n", received.status);
    if bytes > 0 {
        let mime = received.media().essence;
        match call::store(artifacts, id, &mime, &url, received.body.clone(), events).await {
            Ok(id) => received.response.body_artifact_id = Some(id),
            Err(why) => output.push_str(&format!("[The page could not be stored: {why}]\n")),
        }
    }
    match read {
        _ if bytes == 0 => output.push_str("[no body]\n"),
        None => output.push_str(&format!("[{bytes} bytes of binary content, not shown]\n")),
        Some(page) => {
            if page.is_extracted && page.text.len() > limits::WEB_SHOWN_BYTES {
                let text = Bytes::from(page.text.clone());
                match call::store(artifacts, id, "text/plain; charset=utf-8", &url, text, events).await {
                    Ok(id) => received.response.extracted_text_artifact_id = Some(id),
                    Err(why) => output.push_str(&format!("[The text could not be stored: {why}]\n")),
                }
            }
            output.push_str(FOREIGN);
            output.push('\n');
            if let Some(title) = &page.title {
                output.push_str(&format!("Title: {title}\n\n"));
            }
            output.push_str(&part(&page, offset));
        }
    }
    if let Some(why) = received.end.reason() {
        output.push_str(&format!("[{why}]\n"));
    }
    output
}

/// The part of a text that one call returns.
fn part(page: &ReadableText, offset: usize) -> String {
    let whole = page.text.len();
    if whole == 0 {
        return "[no text]\n".to_owned();
    }
    if offset >= whole {
        return format!("[the text has {whole} bytes; offset {offset} is past its end]\n");
    }
    let begin = boundary(&page.text, offset);
    let end = boundary(&page.text, begin.saturating_add(limits::WEB_SHOWN_BYTES));
    let mut output = format!("{}\n", &page.text[begin..end]);
    if end < whole {
        output.push_str(&format!(
            "[{} of {whole} bytes of the text; continue with offset {end}]\n",
            end - begin
        ));
    } else if page.is_cut {
        output.push_str("[the page has more text that was not read]\n");
    }
    output
}

/// The largest character boundary that is not above `at`.
fn boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_is_returned_in_parts_that_fit_together() {
        let text = "é".repeat(limits::WEB_SHOWN_BYTES);
        let page = ReadableText { text: text.clone(), ..ReadableText::default() };
        let (mut whole, mut offset) = (String::new(), 0);
        for _ in 0..4 {
            let output = part(&page, offset);
            let mut lines = output.lines();
            whole.push_str(lines.next().unwrap());
            let Some(last) = lines.next() else { break };
            offset = last.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
        }
        assert_eq!(whole, text);
        assert!(part(&page, text.len()).contains("past its end"));
    }
}
