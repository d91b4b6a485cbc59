//! The tool `web_search`: sends a query to the configured provider. Without a provider calls are refused.
//!
//! Start at [`WebSearch`].

use futures_util::future::BoxFuture;
use recount_event::Json;
use recount_event::family::approval::Reversibility;
use recount_event::family::tool::RiskLevel;
use serde::Deserialize;
use serde_json::{Value, json};

use super::call::FOREIGN;
use super::exchange::{Exchange, WebEvents};
use super::provider::SearchHit;
use super::{WEB_SEARCH, Web};
use crate::limits::SUMMARY_CHARS_MAX;
use crate::tool::{Assessment, Job, Outcome, OutcomeStatus, Targets, Tool};
use crate::tools::ending::{CallFailure, completed, cut};
use crate::tools::input;
use crate::web::limits;

pub(super) struct WebSearch(pub(super) Web);

const NO_PROVIDER: &str = "no search provider is configured; an operator can set one in [web.search]";

#[derive(Deserialize)]
struct WebSearchInput {
    query: String,
    count: Option<u64>,
}

impl Tool for WebSearch {
    fn name(&self) -> &'static str {
        WEB_SEARCH
    }

    fn kind(&self) -> &'static str {
        "web"
    }

    fn description(&self) -> &'static str {
        "Searches the web. Returns titles, URLs and snippets. Read a result with web_fetch."
    }

    fn schema(&self) -> Value {
        let properties = json!({
            "query": {
                "type": "string", "minLength": 1, "maxLength": limits::SEARCH_QUERY_CHARS_MAX,
                "description": "The search text."
            },
            "count": {
                "type": "integer", "minimum": 1, "maximum": limits::SEARCH_HITS_MAX,
                "description": "The maximum number of results. Default 5."
            }
        });
        input::schema(properties, &["query"])
    }

    fn reads_only(&self) -> bool {
        true
    }

    fn unavailable(&self) -> Option<&'static str> {
        self.0.search.is_none().then_some(NO_PROVIDER)
    }

    fn assess(&self, input: &Value) -> Assessment {
        let host = self.0.search.as_ref().map(|provider| provider.host().to_owned());
        let named = host.clone().unwrap_or_else(|| "no provider".to_owned());
        Assessment {
            risk: RiskLevel::Low,
            reversibility: Reversibility::Reversible,
            summary: cut(&format!("search for {}", input::text(input, "query")), SUMMARY_CHARS_MAX),
            action: format!("Search the web with {named}."),
            consequence: "Sends the search text to the provider. Changes nothing here.".to_owned(),
            targets: Targets { hosts: host.into_iter().collect(), ..Targets::default() },
            writes: false,
        }
    }

    fn run<'a>(&'a self, mut job: Job<'a>) -> BoxFuture<'a, Outcome> {
        Box::pin(async move { self.execute(&mut job).await.unwrap_or_else(Outcome::from) })
    }
}

impl WebSearch {
    async fn execute(&self, job: &mut Job<'_>) -> Result<Outcome, CallFailure> {
        let WebSearchInput { query, count } = input::read(job.input)?;
        let provider =
            self.0.search.as_ref().ok_or_else(|| CallFailure::failed("tool_unavailable", NO_PROVIDER))?;
        let count = count.unwrap_or(limits::SEARCH_HITS_DEFAULT).clamp(1, limits::SEARCH_HITS_MAX);
        let request =
            provider.request(&query, count).map_err(|why| CallFailure::failed("search_failed", why))?;
        let exchange = Exchange {
            web: &self.0,
            events: WebEvents::Search,
            call: job.call,
            world: job.world,
            guard: None,
            may_follow: &|_| Ok(()),
            reporter: &mut *job.reporter,
            body_bytes_max: limits::SEARCH_BODY_BYTES_MAX,
            whole: self.0.patience().whole.min(limits::SEARCH_TIMEOUT),
            query: Some(&query),
        };
        let mut received = exchange.run(request, job.cancel.clone()).await?;
        let mut events = std::mem::take(&mut received.before);
        let host = provider.host();
        let failed = |code, why: String| Err((OutcomeStatus::Failed { code, error: why.clone() }, why));
        let hits = match received.end.reason() {
            Some(why) => Err((super::call::status_of(&received.end), why)),
            None if !received.status.is_success() => {
                failed("search_failed", format!("{host} returned status {}", received.status))
            }
            None => {
                let most = usize::try_from(count).unwrap_or(usize::MAX);
                provider
                    .hits(&received.body, most)
                    .or_else(|why| failed("search_unreadable", format!("{host}: {why}")))
            }
        };
        match hits {
            Ok(hits) => {
                received.response.hits = Some(hits.iter().filter_map(|hit| Json::of(hit).ok()).collect());
                events.push(WebEvents::Search.response(received.response));
                let summary = format!("{} results", hits.len());
                Ok(completed(render_hits(&hits), summary, events))
            }
            Err((status, why)) => {
                received.response.error = Some(why.clone());
                events.push(WebEvents::Search.response(received.response));
                // A response that was cut off has no readable results.
                let status = if status == OutcomeStatus::Completed {
                    OutcomeStatus::Failed { code: "search_unreadable", error: why.clone() }
                } else {
                    status
                };
                Ok(Outcome { status, output: why.clone(), summary: why, events, artifact: None, image: None })
            }
        }
    }
}

fn render_hits(hits: &[SearchHit]) -> String {
    if hits.is_empty() {
        return "No results.".to_owned();
    }
    let mut text = format!("{FOREIGN}\n");
    for (number, SearchHit { title, url, snippet }) in (1..).zip(hits) {
        let title = if title.is_empty() { "(no title)" } else { title };
        text.push_str(&format!("{number}. {title}\n   {url}\n"));
        if !snippet.is_empty() {
            text.push_str(&format!("   {snippet}\n"));
        }
    }
    text
}
