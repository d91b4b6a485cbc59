//! Links over event streams: split, truncated and invalid streams.

use recount_aaep_client::limits;
use recount_aaep_client::link::{Dial, Link, LinkError};
use recount_world::World;
use tokio::io::AsyncReadExt as _;

use crate::server::{STREAM, Server, all, dial, response, texts, write};

#[tokio::test]
async fn messages_are_complete_however_the_stream_is_split() {
    let world = World::real();
    // R-141: cut within a character, within a line end, within a field; all three line ends; R-022: a byte order mark.
    let stream = "\u{feff}: connected\n\ndata: {\"a\":\"é\"}\n\nid: evt_2\r\nevent: aaep.event\r\ndata:{\"b\":1}\r\n\r\n\
                  : beat\n\n: beat\n\ndata: {\r\rdata: {\rdata: \"c\": 2}\r\r";
    let server = Server::start(&world, move |_, mut socket| async move {
        socket.set_nodelay(true).unwrap();
        write(&mut socket, STREAM).await;
        for byte in stream.bytes() {
            write(&mut socket, [byte]).await;
            tokio::task::yield_now().await;
        }
    })
    .await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert!(ended.is_none());
    assert_eq!(texts(&received), ["{\"a\":\"é\"}", "{\"b\":1}", "{", "{\n\"c\": 2}"]);
    assert_eq!(
        (received[1].id.as_deref(), received[1].event.as_deref()),
        (Some("evt_2"), Some("aaep.event"))
    );
    assert_eq!((received[0].id.as_deref(), received[0].event.as_deref()), (None, None));
    assert_eq!(link.comments(), 3);
    assert_eq!(received.iter().map(|message| message.comments).sum::<u64>(), 3);
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "GET /events");
    assert_eq!(seen.header("accept"), Some("text/event-stream"));
    assert_eq!((seen.header("authorization"), seen.header("last-event-id")), (None, None));
}

#[tokio::test]
async fn the_token_and_the_last_event_id_are_sent() {
    let world = World::real();
    let server = Server::responding(&world, STREAM).await;
    let dial = Dial {
        token: Some("t0k".to_owned()),
        last_event_id: Some("evt_7".to_owned()),
        ..dial(&format!("{}/room/", server.http()))
    };
    let mut link = Link::open(&world, &dial).await.unwrap();
    assert!(all(&mut link).await.0.is_empty());
    let seen = &server.seen()[0];
    assert_eq!(seen.line, "GET /room/events");
    assert_eq!(
        (seen.header("authorization"), seen.header("last-event-id")),
        (Some("Bearer t0k"), Some("evt_7"))
    );
    let bad = Dial { token: Some("line\nend".to_owned()), ..dial };
    assert!(matches!(Link::open(&world, &bad).await, Err(LinkError::Unusable(_))));
    assert_eq!(server.seen().len(), 1, "nothing was sent");
}

#[tokio::test]
async fn a_mebibyte_is_accepted_and_an_oversized_event_ends_the_link() {
    let world = World::real();
    // R-148
    let mebibyte = format!("{{\"x\":\"{}\"}}", "y".repeat(1024 * 1024));
    let stream = format!("{STREAM}data: {mebibyte}\n\ndata: {{}}\n\n");
    let server = Server::responding(&world, stream).await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert!(ended.is_none());
    assert_eq!(texts(&received), [mebibyte.as_str(), "{}"]);

    let longest = "z".repeat(limits::MESSAGE_BYTES_MAX);
    let server = Server::responding(&world, format!("{STREAM}data: {longest}\n\n")).await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert!(ended.is_none() && received.len() == 1, "exactly at the limit");

    let server = Server::responding(&world, format!("{STREAM}data: 1\n\ndata: {longest}z\n\n")).await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert_eq!(texts(&received), ["1"], "complete messages before it are received");
    let ended = ended.unwrap();
    assert!(matches!(ended, LinkError::TooLong { .. }) && !ended.may_pass(), "{ended}");
}

#[tokio::test]
async fn a_stream_that_never_ends_its_line_is_not_kept() {
    let world = World::real();
    let server = Server::start(&world, |_, mut socket| async move {
        write(&mut socket, STREAM).await;
        write(&mut socket, "data: ").await;
        for _ in 0..(limits::MESSAGE_BYTES_MAX / 65_536 + 64) {
            write(&mut socket, vec![b'x'; 65_536]).await;
        }
        // Until the client disconnects.
        socket.read_u8().await.ok();
    })
    .await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert!(received.is_empty() && matches!(ended, Some(LinkError::TooLong { .. })));
}

#[tokio::test]
async fn a_clean_end_differs_from_a_broken_stream() {
    let world = World::real();
    let chunked = "HTTP/1.1 200 OK\r\ncontent-type: Text/Event-Stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n";
    // An incomplete frame at the end is no message (R-025).
    let server = Server::responding(&world, format!("{STREAM}data: 1\n\ndata: {{\"half\"")).await;
    let (received, ended) = all(&mut Link::open(&world, &dial(&server.http())).await.unwrap()).await;
    assert!(texts(&received) == ["1"] && ended.is_none());

    let server = Server::responding(&world, format!("{chunked}9\r\ndata: 1\n\n\r\n0\r\n\r\n")).await;
    let (received, ended) = all(&mut Link::open(&world, &dial(&server.http())).await.unwrap()).await;
    assert!(texts(&received) == ["1"] && ended.is_none());

    let server = Server::responding(&world, format!("{chunked}9\r\ndata: 1\n\n\r\n40\r\nda")).await;
    let (received, ended) = all(&mut Link::open(&world, &dial(&server.http())).await.unwrap()).await;
    assert_eq!(texts(&received), ["1"]);
    assert!(matches!(&ended, Some(why @ LinkError::Broken { .. }) if why.may_pass()), "{ended:?}");
}

#[tokio::test]
async fn refusals_are_reported_with_their_text() {
    let world = World::real();
    for (status, code, may_pass) in [
        ("404 Not Found", 404, false),
        ("401 Unauthorized", 401, false),
        ("500 Oh", 500, true),
        ("204 None", 204, false),
    ] {
        let body = if code == 204 { "" } else { "{\"why\":\"no\"}" };
        let server = Server::responding(&world, response(status, "", body)).await;
        let why = Link::open(&world, &dial(&server.http())).await.err().unwrap();
        assert_eq!((why.status(), why.may_pass()), (Some(code), may_pass), "{why}");
        assert!(why.to_string().contains(&format!("status {code}")), "{why}");
        assert!(why.to_string().contains(body), "{why}");
    }
}

#[tokio::test]
async fn a_response_that_is_no_event_stream_is_reported_with_its_type() {
    let world = World::real();
    for (kind, named) in [("content-type: text/html\r\n", "text/html"), ("", "no media type")] {
        let server = Server::responding(&world, response("200 OK", kind, "<p>data: 1</p>")).await;
        let why = Link::open(&world, &dial(&server.http())).await.err().unwrap();
        assert!(matches!(why, LinkError::NotAStream { .. }) && why.to_string().contains(named), "{why}");
    }
    let server = Server::responding(&world, "SSH-2.0-OpenSSH_9.6\r\n").await;
    let why = Link::open(&world, &dial(&server.http())).await.err().unwrap();
    assert!(matches!(why, LinkError::Unreachable { .. }), "{why}");
}

#[tokio::test]
async fn an_unresponsive_server_times_out() {
    let world = World::real();
    let server = Server::start(&world, |_, mut socket| async move {
        // Holds the connection and sends nothing.
        socket.read_u8().await.ok();
    })
    .await;
    let dial = Dial { patience: std::time::Duration::from_millis(50), ..dial(&server.http()) };
    let why = Link::open(&world, &dial).await.err().unwrap();
    assert!(matches!(why, LinkError::Unreachable { .. }) && why.to_string().contains("50 ms"), "{why}");

    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let why = Link::open(&world, &Dial::to(closed.parse().unwrap())).await.err().unwrap();
    assert!(matches!(why, LinkError::Unreachable { .. }) && why.to_string().contains("refused"), "{why}");
}

#[tokio::test]
async fn waiting_can_be_cancelled_at_any_time() {
    let world = World::real();
    let server = Server::start(&world, |_, mut socket| async move {
        write(&mut socket, STREAM).await;
        for number in 0..200 {
            write(&mut socket, format!("data: {number}")).await;
            tokio::task::yield_now().await;
            write(&mut socket, "\n\n").await;
        }
    })
    .await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    let mut received = Vec::new();
    loop {
        tokio::select! {
            biased;
            () = tokio::task::yield_now() => {}
            message = link.next() => match message.unwrap() {
                Some(message) => received.push(message.text.parse::<usize>().unwrap()),
                None => break,
            },
        }
    }
    assert!(received.iter().copied().eq(0..200), "{received:?}");
}

#[tokio::test]
async fn reopening_requests_the_events_after_the_last_one() {
    let world = World::real();
    let server = Server::start(&world, |request, mut socket| async move {
        write(&mut socket, STREAM).await;
        let text = match request.header("last-event-id") {
            None => "retry: 5\nid: evt_1\ndata: 1\n\n",
            Some("evt_1") => "id: evt_2\ndata: 2\n\n",
            Some(_) => "",
        };
        write(&mut socket, text).await;
    })
    .await;
    let mut link = Link::open(&world, &dial(&server.http())).await.unwrap();
    assert_eq!(texts(&all(&mut link).await.0), ["1"]);
    assert_eq!(link.retry_ms(), Some(5));
    link.reopen(Some("evt_1")).await.unwrap();
    assert_eq!(texts(&all(&mut link).await.0), ["2"]);
}
