//! The published contract: checks replies against `/openapi.json`.

use std::sync::LazyLock;

use recount_api::openapi;
use serde_json::Value;

use crate::test_context::TestContext;
use crate::wire::Reply;

static DOCUMENT: LazyLock<Value> = LazyLock::new(openapi::document);

/// Checks that the document defines the status, the media type and the body of a reply.
pub(crate) fn check_contract(method: &str, path: &str, reply: &Reply) {
    let about = format!("{method} {path}: {} {}", reply.status, reply.text());
    let operation = format!("/paths/{}/{}", path.replace('/', "~1"), method.to_ascii_lowercase());
    let mut place = format!("{operation}/responses/{}", reply.status);
    let response = DOCUMENT.pointer(&place).unwrap_or_else(|| panic!("undocumented status: {about}"));
    if let Some(reference) = response["$ref"].as_str() {
        place = reference[1..].to_owned();
    }
    for (name, header) in DOCUMENT.pointer(&place).unwrap()["headers"].as_object().unwrap() {
        let header = DOCUMENT.pointer(&header["$ref"].as_str().unwrap()[1..]).unwrap();
        assert!(header["required"] != true || reply.header(name).is_some(), "no {name}: {about}");
    }
    let media_type = reply.header("content-type").expect("a body has a media type");
    let place = format!("{place}/content/{}/schema", media_type.replace('/', "~1"));
    let schema = DOCUMENT.pointer(&place).unwrap_or_else(|| panic!("undocumented media type: {about}"));
    let mut schema = schema.clone();
    schema["components"] = DOCUMENT["components"].clone();
    let validator = jsonschema::draft202012::new(&schema).expect("a valid schema");
    let errors: Vec<String> =
        validator.iter_errors(&reply.json()).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{about}: {}", errors.join("; "));
}

#[tokio::test]
async fn the_document_is_served_as_it_is_checked_in() {
    let context = TestContext::memory().await;
    let reply = context.get("/openapi.json").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("application/json")));
    assert!(
        reply.text() == include_str!("../../../../../docs/openapi.json"),
        "docs/openapi.json is another one"
    );
}

#[tokio::test]
async fn the_page_to_read_is_served_without_a_script() {
    let context = TestContext::memory().await;
    let reply = context.get("/docs").await;
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(
        reply.header("content-security-policy").is_some_and(|policy| policy.contains("default-src 'none'"))
    );
    assert!(reply.text().contains("GET /v1/runs/{run}"));
    assert_eq!(context.get("/docs.css").await.header("content-type"), Some("text/css; charset=utf-8"));
}
