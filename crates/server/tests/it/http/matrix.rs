//! The access matrix: each route with each kind of token and origin, compared with the table of routes and with
//! `docs/security.md`. `RECOUNT_BLESS=1` rewrites the page.

use std::fmt::Write as _;
use std::path::PathBuf;

use recount_api::routes::{ROUTES, Route, RouteName};
use recount_event::Code;
use recount_server::access::Access;
use serde_json::Value;

use crate::http::access::{make_token, new_tenant_run};
use crate::http::admin::at_home_with;
use crate::http::orders;
use crate::http::routes::{Scene, route_example};
use crate::test_context::{TestContext, check_problem};
use crate::wire::{Reply, Wire, request};

const BEGIN: &str =
    "<!-- made by asking; RECOUNT_BLESS=1 cargo test -p recount-server --test it http::matrix -->\n";
const END: &str = "<!-- end of what is made -->\n";
const SCOPES: [&str; 5] = ["read", "run", "approve", "ingest", "admin"];
const ALLOWED: &str = "https://app.example";

/// A client with its token and origin: one column of the matrix.
struct MatrixClient {
    column: &'static str,
    token: Option<String>,
    origin: Option<&'static str>,
}

/// The outcome of a request, as the table shows it.
fn outcome(route: &Route, reply: &Reply) -> String {
    let code = || reply.json()["code"].as_str().map(str::to_owned).unwrap_or_default();
    match reply.status {
        401 => {
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"), "{}", route.path);
            "401".to_owned()
        }
        403 if code() == "origin_refused" => "origin".to_owned(),
        403 => {
            check_problem(reply, Code::ScopeMissing, route.path);
            "–".to_owned()
        }
        404 => "404".to_owned(),
        status => {
            assert!(status < 500, "{} {}: {}", route.method, route.path, reply.text());
            "yes".to_owned()
        }
    }
}

/// Sends a request; returns the head of a stream, or a whole reply.
async fn send(
    context: &TestContext,
    route: &Route,
    target: &str,
    client: &MatrixClient,
    body: Option<&str>,
) -> Reply {
    let bearer = client.token.as_ref().map(|token| format!("Bearer {token}"));
    let mut headers: Vec<(&str, &str)> = Vec::new();
    if let Some(bearer) = &bearer {
        headers.push(("authorization", bearer));
    }
    if let Some(origin) = client.origin {
        headers.push(("origin", origin));
    }
    if route.name == RouteName::ImportRun {
        headers.push(("content-type", "application/x-ndjson"));
    }
    let mut wire = Wire::connect(context.address).await;
    wire.send(&request(context.address, route.method, target, &headers, body.map(str::as_bytes))).await;
    if route.name == RouteName::StreamFeed {
        let mut head = wire.head().await.expect("a response head");
        if head.status != 200 {
            let length = head.header("content-length").unwrap().parse().unwrap();
            head.body = wire.take(length).await.expect("the whole body");
        }
        return head;
    }
    wire.reply(route.method).await.expect("a response")
}

/// A token with another last character.
fn altered(token: &str) -> String {
    let (start, last) = token.split_at(token.len() - 1);
    format!("{start}{}", if last == "0" { '1' } else { '0' })
}

#[tokio::test]
async fn every_route_checks_scope_and_origin() {
    let data = tempfile::tempdir().unwrap();
    let access =
        Access { require_token: true, allowed_origins: vec![ALLOWED.to_owned()], ..Access::default() };
    // The first token is created while none is required.
    let open = at_home_with(data.path(), Access::default()).await;
    let admin =
        make_token(&open, None, r#"{"name":"boss","scopes":["admin","read","run","approve","ingest"]}"#)
            .await;
    open.running.stop().await;
    let context = at_home_with(data.path(), access).await;
    orders::attach_worker(&context).await;

    let mut clients = vec![
        MatrixClient { column: "no token", token: None, origin: None },
        MatrixClient { column: "bad token", token: Some(altered(&admin)), origin: None },
    ];
    for scope in SCOPES {
        let body = format!(r#"{{"name":"{scope}","scopes":["{scope}"]}}"#);
        clients.push(MatrixClient {
            column: scope,
            token: Some(make_token(&context, Some(&admin), &body).await),
            origin: None,
        });
    }
    let all = r#""scopes":["admin","read","run","approve","ingest"]"#;
    let other =
        make_token(&context, Some(&admin), &format!(r#"{{"name":"them","tenant":"acme",{all}}}"#)).await;
    let theirs = new_tenant_run(&context, &other).await;
    let elsewhere = r#"{"name":"n","scopes":["read","run","approve","ingest"],"tasks":["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"]}"#;
    let narrowed = make_token(&context, Some(&admin), elsewhere).await;
    clients.push(MatrixClient { column: "all, other tenant", token: Some(other), origin: None });
    clients.push(MatrixClient { column: "narrowed to another task", token: Some(narrowed), origin: None });
    clients.push(MatrixClient {
        column: "all, page allowed",
        token: Some(admin.clone()),
        origin: Some(ALLOWED),
    });
    clients.push(MatrixClient {
        column: "all, page of another site",
        token: Some(admin.clone()),
        origin: Some("https://evil.example"),
    });

    let mut table = String::from("| route | needs |");
    for client in &clients {
        write!(table, " {} |", client.column).unwrap();
    }
    table.push_str("\n| --- | --- |");
    clients.iter().for_each(|_| table.push_str(" --- |"));
    table.push('\n');
    let mut number = 0;
    for route in ROUTES {
        let needed: Vec<String> =
            route.scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
        write!(table, "| `{} {}` | {} |", route.method, route.path, needed.join(" or ")).unwrap();
        for client in &clients {
            number += 1;
            let mut scene = Scene::set_by(&context, number, Some(&admin)).await;
            if route.name == RouteName::TakeBackAllowance {
                scene.allowance = orders::allowed(&context, Some(&admin)).await;
            }
            let target = format!("/v1{}", scene.path(route));
            let body = route_example(route.name, number).body;
            let reply = send(&context, route, &target, client, body.as_deref()).await;
            let result = outcome(route, &reply);
            let about = format!("{} {} by {}", route.method, route.path, client.column);
            let expected = match client.column {
                "no token" | "bad token" => result == "401",
                scope if SCOPES.contains(&scope) => {
                    (result == "yes") == needed.iter().any(|need| need == scope)
                }
                "all, page of another site" => result == "origin",
                "all, page allowed" => {
                    let allowed = reply.header("access-control-allow-origin");
                    result == "yes" && allowed == Some(ALLOWED) && reply.header("vary") == Some("origin")
                }
                // The rules belong to the server, and the names in the path are no ids.
                _ if route.name == RouteName::JudgeMcpCall => result == "yes",
                _ => result != "401" && !(result == "yes" && route.path.contains('{')),
            };
            assert!(expected, "{about}: {result} {}", reply.text());
            if matches!(client.column, "all, other tenant" | "narrowed to another task") {
                reveals_nothing_of(&reply, &scene, &target, &about);
            } else if result == "yes" {
                assert!(
                    !String::from_utf8_lossy(&reply.body).contains(&theirs),
                    "{about}: reveals another tenant"
                );
            }
            write!(table, " {result} |").unwrap();
        }
        table.push('\n');
    }
    compare_with_page(&table);
}

/// Checks that a reply reveals nothing of the scene, except names in the request.
fn reveals_nothing_of(reply: &Reply, scene: &Scene, target: &str, about: &str) {
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    for known in scene.names() {
        assert!(!text.contains(&known) || target.contains(&known), "{about} reveals {known}: {text}");
    }
    for secret in ["tidy up", "rm a file", "which one?", "too hard", "talk"] {
        assert!(!text.contains(secret), "{about} reveals {secret:?}: {text}");
    }
    if reply.status == 200 && !text.is_empty() {
        let body: Value = reply.json();
        let counts = [&body["data"]["runs"], &body["data"]["events"]];
        assert!(counts.iter().all(|count| count.as_u64().unwrap_or(0) == 0), "{about} counts: {text}");
    }
}

fn compare_with_page(table: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("docs/security.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).expect("the page has a place for the table");
    let (there, after) = rest.split_once(END).expect("the table has an end");
    if std::env::var_os("RECOUNT_BLESS").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        return;
    }
    assert!(there == table, "docs/security.md is not as it was found; run with RECOUNT_BLESS=1");
}
