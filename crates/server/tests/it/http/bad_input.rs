//! Invalid requests: each gets a problem that names the cause, and the server continues.

use recount_event::Code;

use crate::test_context::{STORY, TestContext, batch, check_problem};
use crate::wire::{Wire, request};

#[tokio::test]
async fn bodies_must_be_declared_as_json() {
    let context = TestContext::memory().await;
    let body = br#"{"kind":"external"}"#;
    for media_type in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "text/json",
        "application/jsonp",
        "json",
        "",
        "application/xml+json2",
        "application/json2",
        "é",
    ] {
        let reply = context.request("POST", "/v1/runs", &[("content-type", media_type)], Some(body)).await;
        check_problem(&reply, Code::MediaTypeUnsupported, media_type);
    }
    let mut wire = Wire::connect(context.address).await;
    let head = format!(
        "POST /v1/runs HTTP/1.1\r\nhost: {}\r\ncontent-length: {}\r\n\r\n",
        context.address,
        body.len()
    );
    wire.send(&[head.as_bytes(), body].concat()).await;
    check_problem(&wire.reply("POST").await.unwrap(), Code::MediaTypeUnsupported, "none");
    for media_type in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;x=y",
        "application/problem+json",
    ] {
        let reply = context.request("POST", "/v1/runs", &[("content-type", media_type)], Some(body)).await;
        assert_eq!(reply.status, 201, "{media_type}");
    }
}

/// A small body could decompress to any size.
#[tokio::test]
async fn compressed_bodies_are_not_unfolded() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let events = format!("/v1/runs/{run}/events");
    for target in ["/v1/runs", "/v1/tasks", "/v1/imports", "/v1/prune", &events] {
        for encoding in ["gzip", "br", "deflate, gzip", "x-unknown", ""] {
            let headers =
                [("content-encoding", encoding), ("content-type", "application/json; charset=utf-8")];
            let lines = [("content-encoding", encoding), ("content-type", "application/x-ndjson")];
            let headers = if target == "/v1/imports" { lines } else { headers };
            let about = format!("{target} {encoding:?}");
            let reply = context.request("POST", target, &headers, Some(b"{}")).await;
            let problem = check_problem(&reply, Code::MediaTypeUnsupported, &about);
            assert!(problem["detail"].as_str().unwrap().contains("content-encoding"), "{problem}");
        }
    }
    let headers = [("content-encoding", "identity"), ("content-type", "application/json")];
    let reply = context.request("POST", "/v1/runs", &headers, Some(br#"{"kind":"external"}"#)).await;
    assert_eq!(reply.status, 201, "{}", reply.text());
    context.assert_ready().await;
}

/// An ignored misspelt filter would widen the result.
#[tokio::test]
async fn misspelt_queries_are_refused() {
    let context = TestContext::memory().await;
    let run = context.run_with_story().await;
    for (method, target, words) in [
        ("GET", "/v1/runs?statsu=running".to_owned(), "did you mean status?"),
        ("GET", format!("/v1/runs/{run}/events?after_sequnce=9"), "did you mean after_sequence?"),
        ("GET", "/hecate/v1/events?after_sequence=9".to_owned(), "known parameters: after_position, limit"),
        ("GET", "/v1/events/stream?position=9".to_owned(), "known parameters: after_position, limit"),
        ("GET", "/v1/runs?limit=1&limit=2".to_owned(), "is repeated"),
        ("GET", format!("/v1/runs/{run}?limit=1"), "it takes no parameters"),
        ("POST", "/v1/runs?kind=external".to_owned(), "it takes no parameters"),
        ("PUT", format!("/v1/runs/{run}/pin?x"), "it takes no parameters"),
    ] {
        let reply = context.request(method, &target, &[], None).await;
        let problem = check_problem(&reply, Code::ParameterInvalid, &target);
        assert!(problem["detail"].as_str().unwrap().contains(words), "{target}: {problem}");
    }
    // Monitoring may add any query.
    for target in ["/healthz?x=1", "/readyz?x=1", "/metrics?x=1", "/openapi.json?x=1"] {
        assert_eq!(context.get(target).await.status, 200, "{target}");
    }
}

/// Bodies that are not unambiguous JSON, for every path with a body.
#[tokio::test]
async fn unreadable_bodies_are_refused() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let bodies: &[&[u8]] = &[
        b"{",
        b"}",
        b"{\"kind\":\"external\"",
        b"{\"kind\":\"exte",
        b"nul",
        b"[]",
        b"null",
        b"\"x\"",
        b"7",
        b"{}}",
        b"{} {}",
        b"\xef\xbb\xbf{}",
        b"{\"kind\":\"\xff\"}",
        b"{\"\xc3\x28\":1}",
        b"{'kind':'external'}",
        b"{kind:1}",
        b"{\"a\":1,}",
        b"{\"unknown\":1}",
        b"\x00",
        b"{\"kind\":\"external\",\"kind\":\"external\"}",
        b"{\"title\":\"\\ud800\"}",
        b"{\"title\":\"a\nb\"}",
        b"{\"title\":1e400}",
        b"{\"title\":NaN}",
    ];
    for path in [
        "/v1/runs".to_owned(),
        "/v1/tasks".to_owned(),
        format!("/v1/runs/{run}/events"),
        format!("/v1/runs/{run}/cancel"),
    ] {
        for body in bodies {
            let reply = context.request("POST", &path, &[], Some(body)).await;
            let problem = check_problem(
                &reply,
                Code::BodyMalformed,
                &format!("{path} {:?}", String::from_utf8_lossy(body)),
            );
            assert!(problem.get("index").is_none(), "{problem}");
        }
        for depth in [65, 200, 100_000] {
            for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
                let deep = format!("{}1{}", open.repeat(depth), close.repeat(depth));
                let reply = context.request("POST", &path, &[], Some(deep.as_bytes())).await;
                let large = deep.len() > 64 << 10 && !path.ends_with("/events");
                let code = if large { Code::BodyTooLarge } else { Code::BodyMalformed };
                check_problem(&reply, code, &format!("{path} {depth} {open}"));
            }
        }
    }
    assert_eq!(context.envelopes(&format!("/v1/runs/{run}/events")).await.len(), 1);
    context.assert_ready().await;
}

#[tokio::test]
async fn invalid_batches_are_refused() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let events = r#"[{"type":"ext.a.b","data":{}}]"#;
    let with = |producer: &str, events: &str| format!(r#"{{"producer":{producer},"events":{events}}}"#);
    let good = r#"{"id":"p","epoch":0,"seq":0}"#;
    for body in [
        with(good, "[]"),
        with(good, "{}"),
        with(good, "null"),
        with(good, r#"[{"type":"ext.a.b"}]"#),
        with(good, r#"[{"data":{}}]"#),
        with(good, r#"[{"type":7,"data":{}}]"#),
        with(good, r#"[{"type":"ext.a.b","data":{},"data":{}}]"#),
        with(good, r#"[{"type":"ext.a.b","data":{},"sequence":4}]"#),
        with(good, r#"[{"type":"ext.a.b","data":{"a":}}]"#),
        with("{}", events),
        with("null", events),
        with(r#"["p",0,0]"#, events),
        with(good, r#"[["ext.a.b",{}]]"#),
        format!(r#"[{good},{events}]"#),
        with("\"p\"", events),
        with(r#"{"id":"","epoch":0,"seq":0}"#, events),
        with(r#"{"id":"a/b","epoch":0,"seq":0}"#, events),
        with(r#"{"id":"é","epoch":0,"seq":0}"#, events),
        with(r#"{"id":"a\nb","epoch":0,"seq":0}"#, events),
        with(&format!(r#"{{"id":"{}","epoch":0,"seq":0}}"#, "x".repeat(129)), events),
        with(r#"{"id":"p","epoch":-1,"seq":0}"#, events),
        with(r#"{"id":"p","epoch":0.0,"seq":0}"#, events),
        with(r#"{"id":"p","epoch":0,"seq":9007199254740992}"#, events),
        with(r#"{"id":"p","epoch":9007199254740992,"seq":0}"#, events),
        with(r#"{"id":"p","epoch":18446744073709551616,"seq":0}"#, events),
        with(r#"{"id":"p","epoch":0,"seq":0,"more":1}"#, events),
        format!(r#"{{"events":{events}}}"#),
        format!(r#"{{"producer":{good}}}"#),
        format!(r#"{{"producer":{good},"events":{events},"events":{events}}}"#),
    ] {
        check_problem(&context.post(&path, &body).await, Code::BodyMalformed, &body);
    }
    let epoch_max = with(r#"{"id":"p","epoch":9007199254740991,"seq":0}"#, events);
    assert_eq!(context.post(&path, &epoch_max).await.status, 200);
    context.assert_ready().await;
}

#[tokio::test]
async fn ambiguous_data_is_refused() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let path = format!("/v1/runs/{run}/events");
    let nested = |depth: usize| format!(r#"{{"a":{}1{}}}"#, "[".repeat(depth - 1), "]".repeat(depth - 1));
    for (data, part) in [
        (r#"{"a":1,"a":2}"#.to_owned(), "duplicate"),
        (r#"{"a":1,"\u0061":2}"#.into(), "duplicate"),
        (r#"{"x":{"a":1,"b":[{"c":1,"c":1}]}}"#.into(), "duplicate"),
        (r#"{"s":"\ud800"}"#.into(), "surrogate"),
        (r#"{"s":"\udc00\ud800"}"#.into(), "surrogate"),
        (r#"{"\ud800":1}"#.into(), "surrogate"),
        (r#"{"s":"\ud800\u0041"}"#.into(), "surrogate"),
        (r#"{"n":9007199254740992}"#.into(), "too large"),
        (r#"{"n":-9007199254740992}"#.into(), "too large"),
        (r#"{"n":[123456789012345678901234567890]}"#.into(), "too large"),
        (r#"{"n":1e400}"#.into(), "number"),
        (r#"{"n":-1e400}"#.into(), "number"),
        (nested(65), "64"),
        (nested(100_000), "64"),
        (r#"{"a":"#.repeat(65) + "1" + &"}".repeat(65), "64"),
        (format!(r#"{{"s":"{}"}}"#, "x".repeat(1 << 20)), "1048576"),
    ] {
        let reply = context.post(&path, &batch("p", 0, 0, &[("ext.a.fine", "{}"), ("ext.a.b", &data)])).await;
        let problem = check_problem(&reply, Code::EventRefused, &format!("{data:.60}"));
        assert_eq!((problem["index"].as_u64(), problem["event_type"].as_str()), (Some(1), Some("ext.a.b")));
        assert_eq!(problem["rule"], "event.well_formed", "{data:.60}");
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.len() < 1000, "{} bytes of detail", detail.len());
        assert!(detail.contains(part), "{detail} names {part}");
    }
    for data in [
        nested(64),
        r#"{"s":"a\u0000b\u0001"}"#.into(),
        r#"{"n":[9007199254740991,1e300,1E-400]}"#.into(),
        format!(r#"{{"s":"{}"}}"#, "x".repeat((1 << 20) - 8)),
    ] {
        let seq = context.envelopes(&path).await.len() as u64 - 1;
        let reply = context.post(&path, &batch("p", 0, seq, &[("ext.a.b", &data)])).await;
        assert_eq!(reply.status, 200, "{data:.60}: {:.300}", reply.text());
    }
    let long_name = format!("ext.a.{}", "b".repeat(100_000));
    let reply = context.post(&path, &batch("p", 0, 4, &[(&long_name, "{}")])).await;
    check_problem(&reply, Code::EventRefused, "a long name");
    assert!(reply.body.len() < 2000, "{}", reply.body.len());
    context.assert_ready().await;
}

#[tokio::test]
async fn values_over_their_limits_are_refused() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let many: Vec<(&str, &str)> = vec![("ext.a.b", "{}"); 1001];
    let reply = context.append(&run, 0, &many).await;
    let problem = check_problem(&reply, Code::LimitReached, "1001 events");
    assert!(problem["detail"].as_str().unwrap().contains("1000"), "{problem}");
    context.report(&run, 0, &many[..1000]).await;
    let long = "x".repeat((16 << 10) + 1);
    for (path, body) in [
        ("/v1/tasks".to_owned(), format!(r#"{{"title":"{long}"}}"#)),
        ("/v1/runs".into(), format!(r#"{{"kind":"external","title":"{long}"}}"#)),
        ("/v1/runs".into(), format!(r#"{{"kind":"external","request_text":"{long}"}}"#)),
        ("/v1/runs".into(), format!(r#"{{"kind":"external","agent":{{"name":"{long}"}}}}"#)),
        ("/v1/runs".into(), format!(r#"{{"kind":"external","agent":{{"name":"a","version":"{long}"}}}}"#)),
        (format!("/v1/runs/{run}/cancel"), format!(r#"{{"reason":"{long}"}}"#)),
    ] {
        let problem = check_problem(&context.post(&path, &body).await, Code::LimitReached, &path);
        assert!(problem["detail"].as_str().unwrap().contains("16384"), "{problem}");
        let just = body.replace(&long, &long[1..]);
        let reply = context.post(&path, &just).await;
        assert!(reply.status < 300, "{path}: {}", reply.text());
    }
    let strange =
        r#"{"kind":"external","title":"a\u0000b \ud83d\ude00","request_text":"\r\nset-cookie: a=b"}"#;
    assert_eq!(context.post("/v1/runs", strange).await.data()["title"], "a\0b 😀");
    for (body, code) in [
        (r#"{"kind":"agent_loop","request_text":"x"}"#, Code::KindUnavailable),
        (r#"{"kind":""}"#, Code::BodyMalformed),
        (r#"{"kind":"external","task_id":"x"}"#, Code::TaskNotFound),
        (r#"{"kind":"external","session_id":"x"}"#, Code::SessionNotFound),
    ] {
        check_problem(&context.post("/v1/runs", body).await, code, body);
    }
}

/// Sends a body of this many bytes, with a declared length or in chunks, as far as the server accepts it.
async fn send_large(
    context: &TestContext,
    target: &str,
    bytes: usize,
    declared: bool,
) -> Option<crate::wire::Reply> {
    let mut wire = Wire::connect(context.address).await;
    let framing =
        if declared { format!("content-length: {bytes}") } else { "transfer-encoding: chunked".into() };
    let head = format!(
        "POST {target} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\n{framing}\r\n\r\n",
        context.address
    );
    wire.send(head.as_bytes()).await;
    let piece = vec![b' '; 64 << 10];
    let mut sent = 0;
    while sent < bytes {
        let next = piece.len().min(bytes - sent);
        let bytes = if declared {
            piece[..next].to_vec()
        } else {
            [format!("{next:x}\r\n").as_bytes(), &piece[..next], b"\r\n"].concat()
        };
        if !wire.send_anyway(&bytes).await {
            break;
        }
        sent += next;
    }
    if !declared {
        wire.send_anyway(b"0\r\n\r\n").await;
    }
    wire.reply("POST").await
}

#[tokio::test]
async fn bodies_over_the_limit_are_refused() {
    let context = TestContext::memory().await;
    let run = context.new_run().await;
    let events = format!("/v1/runs/{run}/events");
    for (target, max) in [("/v1/runs", 64 << 10), ("/v1/tasks", 64 << 10), (events.as_str(), 8 << 20)] {
        for declared in [true, false] {
            for bytes in [max + 1, max + (100 << 10), 3 * max] {
                let reply = send_large(&context, target, bytes, declared).await;
                let about = format!("{target} {bytes} {declared}");
                let reply = reply.unwrap_or_else(|| panic!("{about}: no answer"));
                let problem = check_problem(&reply, Code::BodyTooLarge, &about);
                assert!(problem["detail"].as_str().unwrap().contains(&max.to_string()), "{problem}");
            }
            let reply = send_large(&context, target, max, declared).await.unwrap();
            check_problem(&reply, Code::BodyMalformed, "just within, and empty");
        }
    }
    // A body with a too large declared length is refused at once.
    let mut wire = Wire::connect(context.address).await;
    let head = format!(
        "POST {events} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: 9000000\r\n\r\n",
        context.address
    );
    wire.send(head.as_bytes()).await;
    check_problem(&wire.reply("POST").await.unwrap(), Code::BodyTooLarge, "declared only");
    context.assert_ready().await;
}

#[tokio::test]
async fn unknown_ids_in_paths_are_not_found() {
    let context = TestContext::memory().await;
    for id in [
        "x",
        "%2F",
        "..%2F..",
        "%2e%2e",
        "run_",
        "run_%00",
        "a%0d%0ax-evil:%201",
        "%0a",
        "%22",
        "%FF",
        "%C3%28",
        "%zz",
        "run_01JXMZ0000000000000000000",
        "run_01JXMZ000000000000000000000",
        "run_01jxmz00000000000000000000",
        "RUN_01JXMZ00000000000000000000",
        "run_81JXMZ00000000000000000000",
        "run_01JXMZ0000000000000000000U",
        "task_01JXMZ00000000000000000000",
        "%F0%9F%98%80",
        "<script>alert(1)</script>",
    ] {
        for (method, path, body) in [
            ("GET", format!("/v1/runs/{id}"), None),
            ("GET", format!("/v1/runs/{id}/events"), None),
            ("GET", format!("/v1/runs/{id}/digest"), None),
            ("POST", format!("/v1/runs/{id}/cancel"), None),
            ("POST", format!("/v1/runs/{id}/events"), Some(batch("p", 0, 0, STORY))),
            ("GET", format!("/v1/tasks/{id}"), None),
            ("GET", format!("/v1/tasks/{id}/runs/{id}/events"), None),
            ("GET", format!("/v1/approvals/{id}"), None),
        ] {
            if id.contains('/') && !id.contains('%')
                || id.starts_with("task_") && path.starts_with("/v1/tasks")
                || path.starts_with("/v1/approvals") && !id.contains(['%', '<'])
            {
                continue;
            }
            let reply = context.request(method, &path, &[], body.as_deref().map(str::as_bytes)).await;
            let about = format!("{method} {path}");
            assert_eq!(reply.status, 404, "{about}: {}", String::from_utf8_lossy(&reply.body));
            let code = Code::parse(reply.json()["code"].as_str().unwrap()).unwrap();
            let problem = check_problem(&reply, code, &about);
            assert!(
                matches!(
                    code,
                    Code::RunNotFound | Code::TaskNotFound | Code::ApprovalNotFound | Code::RouteNotFound
                ),
                "{about}: {code}"
            );
            assert_eq!(reply.header("x-evil"), None);
            let detail = problem["detail"].as_str().unwrap();
            assert!(!detail.contains(['\r', '\n', '\0']), "{detail:?}");
        }
    }
    let long = "x".repeat(20_000);
    let reply = context.get(&format!("/v1/runs/{long}")).await;
    check_problem(&reply, Code::RunNotFound, "a long id");
    assert!(reply.body.len() < 1000);
    let reply = context.get(&format!("/v1/runs?status={long}")).await;
    check_problem(&reply, Code::ParameterInvalid, "a long status");
    assert!(reply.body.len() < 1000);
}

#[tokio::test]
async fn who_may_come_in() {
    let context = TestContext::memory().await;
    let port = context.address.port();
    let own = format!("http://127.0.0.1:{port}");
    let here = format!("localhost:{port}");
    for (headers, code) in [
        (vec![("host", "evil.example".to_owned())], Code::HostRefused),
        (vec![("host", format!("evil.example:{port}"))], Code::HostRefused),
        (vec![("host", "127.0.0.1".into())], Code::HostRefused),
        (vec![("host", String::new())], Code::HostRefused),
        (vec![("host", format!("127.0.0.1:{port}")), ("host", "evil.example".into())], Code::HostRefused),
        (vec![("host", format!("localhost:{port}.evil.example"))], Code::HostRefused),
        (vec![("host", format!("user@localhost:{port}"))], Code::HostRefused),
        (vec![("host", "é".into())], Code::HostRefused),
        (vec![("origin", "http://evil.example".into())], Code::OriginRefused),
        (vec![("origin", "null".into())], Code::OriginRefused),
        (vec![("origin", String::new())], Code::OriginRefused),
        (vec![("origin", format!("{own}.evil.example"))], Code::OriginRefused),
        (vec![("origin", format!("https://127.0.0.1:{port}"))], Code::OriginRefused),
        (vec![("origin", own.clone()), ("origin", "http://evil.example".into())], Code::OriginRefused),
        (vec![("host", here.clone()), ("origin", own.clone())], Code::OriginRefused),
    ] {
        let headers: Vec<(&str, &str)> =
            headers.iter().map(|(name, value)| (*name, value.as_str())).collect();
        for (method, target) in [
            ("GET", "/v1/runs"),
            ("POST", "/v1/runs"),
            ("OPTIONS", "/v1/runs"),
            ("GET", "/v1/events/stream"),
            ("GET", "/nothing"),
            ("GET", "/"),
        ] {
            let reply = context.request(method, target, &headers, None).await;
            check_problem(&reply, code, &format!("{method} {target} {headers:?}"));
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
        for target in ["/healthz", "/readyz"] {
            assert_eq!(context.request("GET", target, &headers, None).await.status, 200, "{headers:?}");
        }
    }
    let with_host = format!("http://{here}");
    for headers in [
        vec![],
        vec![("host", here.as_str())],
        vec![("origin", own.as_str())],
        vec![("host", here.as_str()), ("origin", with_host.as_str())],
    ] {
        assert_eq!(context.request("GET", "/v1/runs", &headers, None).await.status, 200, "{headers:?}");
    }
    // A host in the request target counts as the host.
    for (target, status) in
        [(format!("http://evil.example:{port}/v1/runs"), 403), (format!("{own}/v1/runs"), 200)]
    {
        assert_eq!(context.get(&target).await.status, status, "{target}");
    }
    let mut wire = Wire::connect(context.address).await;
    wire.send(b"GET /v1/runs HTTP/1.1\r\n\r\n").await;
    check_problem(&wire.reply("GET").await.unwrap(), Code::HostRefused, "no host");
    let mut wire = Wire::connect(context.address).await;
    wire.send(&request(context.address, "OPTIONS", "*", &[], None)).await;
    assert_eq!(wire.reply("OPTIONS").await.unwrap().status, 404);
}
