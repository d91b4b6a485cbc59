//! Every route, asked by everybody from everywhere: what is let in is as the table of routes says, and stands
//! in `docs/security.md`. `RECOUNT_BLESS=1` writes it again.

use std::fmt::Write as _;
use std::path::PathBuf;

use recount_api::routes::{ROUTES, Route, RouteName};
use recount_event::Code;
use recount_server::access::Access;
use serde_json::Value;

use crate::house::{House, check_problem};
use crate::http::access::{make_token, new_tenant_run};
use crate::http::admin::at_home_with;
use crate::http::orders;
use crate::http::routes::{Scene, happy};
use crate::wire::{Reply, Wire, request};

const BEGIN: &str =
    "<!-- made by asking; RECOUNT_BLESS=1 cargo test -p recount-server --test it http::matrix -->\n";
const END: &str = "<!-- end of what is made -->\n";
const SCOPES: [&str; 5] = ["read", "run", "approve", "ingest", "admin"];
const ALLOWED: &str = "https://app.example";

/// Who asks, from where.
struct Asker {
    column: &'static str,
    token: Option<String>,
    origin: Option<&'static str>,
}

/// What became of a request, as the table says it.
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

/// The head of a stream, or a whole reply.
async fn ask(house: &House, route: &Route, target: &str, asker: &Asker, body: Option<&str>) -> Reply {
    let bearer = asker.token.as_ref().map(|token| format!("Bearer {token}"));
    let mut headers: Vec<(&str, &str)> = Vec::new();
    if let Some(bearer) = &bearer {
        headers.push(("authorization", bearer));
    }
    if let Some(origin) = asker.origin {
        headers.push(("origin", origin));
    }
    if route.name == RouteName::ImportRun {
        headers.push(("content-type", "application/x-ndjson"));
    }
    let mut wire = Wire::connect(house.address).await;
    wire.send(&request(house.address, route.method, target, &headers, body.map(str::as_bytes))).await;
    if route.name == RouteName::StreamFeed {
        let mut head = wire.head().await.expect("a head comes");
        if head.status != 200 {
            let length = head.header("content-length").unwrap().parse().unwrap();
            head.body = wire.take(length).await.expect("the whole body comes");
        }
        return head;
    }
    wire.reply(route.method).await.expect("an answer comes")
}

/// Another token, whatever this one ends with.
fn altered(token: &str) -> String {
    let (start, last) = token.split_at(token.len() - 1);
    format!("{start}{}", if last == "0" { '1' } else { '0' })
}

#[tokio::test]
async fn every_route_by_everybody_from_everywhere() {
    let data = tempfile::tempdir().unwrap();
    let access =
        Access { require_token: true, allowed_origins: vec![ALLOWED.to_owned()], requests_per_second: None };
    // The first token is made while nobody is asked for one.
    let open = at_home_with(data.path(), Access::default()).await;
    let admin =
        make_token(&open, None, r#"{"name":"boss","scopes":["admin","read","run","approve","ingest"]}"#)
            .await;
    open.running.stop().await;
    let house = at_home_with(data.path(), access).await;
    orders::employ(&house).await;

    let mut askers = vec![
        Asker { column: "no token", token: None, origin: None },
        Asker { column: "bad token", token: Some(altered(&admin)), origin: None },
    ];
    for scope in SCOPES {
        let body = format!(r#"{{"name":"{scope}","scopes":["{scope}"]}}"#);
        askers.push(Asker {
            column: scope,
            token: Some(make_token(&house, Some(&admin), &body).await),
            origin: None,
        });
    }
    let all = r#""scopes":["admin","read","run","approve","ingest"]"#;
    let other =
        make_token(&house, Some(&admin), &format!(r#"{{"name":"them","tenant":"acme",{all}}}"#)).await;
    let theirs = new_tenant_run(&house, &other).await;
    let elsewhere = r#"{"name":"n","scopes":["read","run","approve","ingest"],"tasks":["task_01JZZZZZZZZZZZZZZZZZZZZZZZ"]}"#;
    let narrowed = make_token(&house, Some(&admin), elsewhere).await;
    askers.push(Asker { column: "all, other tenant", token: Some(other), origin: None });
    askers.push(Asker { column: "narrowed to another task", token: Some(narrowed), origin: None });
    askers.push(Asker { column: "all, page allowed", token: Some(admin.clone()), origin: Some(ALLOWED) });
    askers.push(Asker {
        column: "all, page of another site",
        token: Some(admin.clone()),
        origin: Some("https://evil.example"),
    });

    let mut table = String::from("| route | needs |");
    for asker in &askers {
        write!(table, " {} |", asker.column).unwrap();
    }
    table.push_str("\n| --- | --- |");
    askers.iter().for_each(|_| table.push_str(" --- |"));
    table.push('\n');
    let mut number = 0;
    for route in ROUTES {
        let needed: Vec<String> =
            route.scopes.iter().map(|scope| format!("{scope:?}").to_lowercase()).collect();
        write!(table, "| `{} {}` | {} |", route.method, route.path, needed.join(" or ")).unwrap();
        for asker in &askers {
            number += 1;
            let mut scene = Scene::set_by(&house, number, Some(&admin)).await;
            if route.name == RouteName::TakeBackAllowance {
                scene.allowance = orders::allowed(&house, Some(&admin)).await;
            }
            let target = format!("/v1{}", scene.path(route));
            let body = happy(route.name, number).body;
            let reply = ask(&house, route, &target, asker, body.as_deref()).await;
            let said = outcome(route, &reply);
            let about = format!("{} {} by {}", route.method, route.path, asker.column);
            let expected = match asker.column {
                "no token" | "bad token" => said == "401",
                scope if SCOPES.contains(&scope) => {
                    (said == "yes") == needed.iter().any(|need| need == scope)
                }
                "all, page of another site" => said == "origin",
                "all, page allowed" => {
                    let allowed = reply.header("access-control-allow-origin");
                    said == "yes" && allowed == Some(ALLOWED) && reply.header("vary") == Some("origin")
                }
                // The rules are the server's, and the names in the path are no ids.
                _ if route.name == RouteName::JudgeMcpCall => said == "yes",
                _ => said != "401" && !(said == "yes" && route.path.contains('{')),
            };
            assert!(expected, "{about}: {said} {}", reply.text());
            if matches!(asker.column, "all, other tenant" | "narrowed to another task") {
                says_nothing_of(&reply, &scene, &target, &about);
            } else if said == "yes" {
                assert!(
                    !String::from_utf8_lossy(&reply.body).contains(&theirs),
                    "{about}: tells of another tenant"
                );
            }
            write!(table, " {said} |").unwrap();
        }
        table.push('\n');
    }
    hold(&table);
}

/// An answer that may say what was asked for, and nothing else of the scene.
fn says_nothing_of(reply: &Reply, scene: &Scene, target: &str, about: &str) {
    let text = String::from_utf8_lossy(&reply.body).into_owned();
    for known in scene.names() {
        assert!(!text.contains(&known) || target.contains(&known), "{about} tells of {known}: {text}");
    }
    for secret in ["tidy up", "rm a file", "which one?", "too hard", "talk"] {
        assert!(!text.contains(secret), "{about} tells {secret:?}: {text}");
    }
    if reply.status == 200 && !text.is_empty() {
        let body: Value = reply.json();
        let counts = [&body["data"]["runs"], &body["data"]["events"]];
        assert!(counts.iter().all(|count| count.as_u64().unwrap_or(0) == 0), "{about} counts: {text}");
    }
}

fn hold(table: &str) {
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
