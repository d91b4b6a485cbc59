//! Requests that the guard refuses before a hook is read.

use recount_event::Code;

use super::agent::{claude, runs};
use super::test_context::{TestContext, check_problem};

#[tokio::test]
async fn a_page_of_another_site_and_a_body_that_is_too_large_are_refused() {
    let context = TestContext::memory().await;
    let body = claude("Stop", None, serde_json::json!({})).to_string();
    let page = [("content-type", "application/json"), ("origin", "http://evil.example")];
    let page = context.request("POST", "/hooks/claude/Stop", &page, Some(body.as_bytes())).await;
    check_problem(&page, Code::OriginRefused, "a page of another site");
    let large = [("content-type", "application/json"), ("content-length", "4194305")];
    let large = context.request("POST", "/hooks/claude/Stop", &large, Some(b"{}")).await;
    check_problem(&large, Code::BodyTooLarge, "by its length");
    assert!(runs(&context).await.is_empty());
}
