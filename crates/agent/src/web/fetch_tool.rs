//! `web_fetch`: a page as text.
//!
//! Look at [`WebFetch`].

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
use crate::tool::{Assessment, How, Job, Keeper, Outcome, Tool};
use crate::tools::ending::{Stop, aside};
use crate::tools::input;
use crate::web::limits;

pub(super) struct WebFetch(pub(super) Web);

const CONSEQUENCE: &str = "The server learns the address that is read.";

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
        "Reads a page of the web as text: scripts and styles are left out, and links are written as [text](address). A \
         long page is told in parts; the last line names the offset to continue with."
    }

    fn schema(&self) -> Value {
        let properties = json!({
            "url": {
                "type": "string", "minLength": 1, "maxLength": limits::WEB_URL_BYTES_MAX,
                "description": "The address, with http:// or https://."
            },
            "offset": {
                "type": "integer", "minimum": 0,
                "description": "The byte of the text to begin with, as an earlier call named it."
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
        Box::pin(async move { self.carry(&mut job).await.unwrap_or_else(Outcome::from) })
    }
}

impl WebFetch {
    async fn carry(&self, job: &mut Job<'_>) -> Result<Outcome, Stop> {
        let WebFetchInput { url, offset } = input::read(job.input)?;
        let url = WebUrl::read(&url).map_err(|why| Stop::failed(why.code(), why.to_string()))?;
        let request = WebRequest::new(Method::GET, url, ACCEPT);
        let call = WebCall {
            web: &self.0,
            events: WebEvents::Fetch,
            consequence: CONSEQUENCE,
            body_bytes_max: limits::WEB_PAGE_BYTES_MAX,
        };
        let mut received = call.send(job, request).await?;
        let (body, media, from) = (received.body.clone(), received.media(), received.url.url().clone());
        let read = aside(job.world, move || Ok(text::read(&body, &media, &from))).await;
        let mut events = std::mem::take(&mut received.before);
        let told = match read {
            Ok(read) => {
                tell(job.keeper, job.call, &mut received, read, offset.unwrap_or_default(), &mut events).await
            }
            Err(stop) => {
                received.response.error = Some(stop.words().to_owned());
                events.push(WebEvents::Fetch.response(received.response));
                return Err(stop.with(events));
            }
        };
        let status = received.status;
        let summary =
            format!("{} from {}, {} bytes", status.as_u16(), received.url.host(), received.body.len());
        let artifact = received.response.extracted_text_artifact_id.clone();
        let artifact = artifact.or_else(|| received.response.body_artifact_id.clone());
        events.push(WebEvents::Fetch.response(received.response));
        let mut outcome = call::outcome(&received.end, told, summary, events, artifact);
        if outcome.how == How::Completed && !status.is_success() {
            let error = format!("{} answered with status {status}", received.url);
            outcome.how = How::Failed { code: "http_status", error };
        }
        Ok(outcome)
    }
}

/// Keeps what came, and says what the model reads of it.
async fn tell(
    keeper: &dyn Keeper,
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
        match call::keep(keeper, id, &mime, &url, received.body.clone(), events).await {
            Ok(id) => received.response.body_artifact_id = Some(id),
            Err(why) => output.push_str(&format!("[The page could not be kept: {why}]\n")),
        }
    }
    match read {
        _ if bytes == 0 => output.push_str("[no body]\n"),
        None => output.push_str(&format!("[{bytes} bytes that are no text and are not shown]\n")),
        Some(page) => {
            if page.is_extracted && page.text.len() > limits::WEB_TOLD_BYTES {
                let text = Bytes::from(page.text.clone());
                match call::keep(keeper, id, "text/plain; charset=utf-8", &url, text, events).await {
                    Ok(id) => received.response.extracted_text_artifact_id = Some(id),
                    Err(why) => output.push_str(&format!("[The text could not be kept: {why}]\n")),
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
    if let Some(why) = received.end.words() {
        output.push_str(&format!("[{why}]\n"));
    }
    output
}

/// The part of a text that one call tells.
fn part(page: &ReadableText, offset: usize) -> String {
    let whole = page.text.len();
    if whole == 0 {
        return "[no text]\n".to_owned();
    }
    if offset >= whole {
        return format!("[the text has {whole} bytes; there is nothing from {offset} on]\n");
    }
    let begin = boundary(&page.text, offset);
    let end = boundary(&page.text, begin.saturating_add(limits::WEB_TOLD_BYTES));
    let mut told = format!("{}\n", &page.text[begin..end]);
    if end < whole {
        told.push_str(&format!(
            "[{} of {whole} bytes of the text; continue with offset {end}]\n",
            end - begin
        ));
    } else if page.is_cut {
        told.push_str("[the page has more text, which was not read]\n");
    }
    told
}

/// The place itself, or the one before it where a character begins.
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
    fn a_long_text_is_told_in_parts_that_fit_together() {
        let text = "é".repeat(limits::WEB_TOLD_BYTES);
        let page = ReadableText { text: text.clone(), ..ReadableText::default() };
        let (mut whole, mut offset) = (String::new(), 0);
        for _ in 0..4 {
            let told = part(&page, offset);
            let mut lines = told.lines();
            whole.push_str(lines.next().unwrap());
            let Some(last) = lines.next() else { break };
            offset = last.trim_end_matches(']').rsplit(' ').next().unwrap().parse().unwrap();
        }
        assert_eq!(whole, text);
        assert!(part(&page, text.len()).contains("nothing from"));
    }
}
