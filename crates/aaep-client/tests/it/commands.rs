//! Links to producers that run as child processes.

use recount_aaep_client::limits;
use recount_aaep_client::link::{Dial, Framing, Link, LinkError, Target};
use recount_world::World;

use crate::server::{TEST_TIMEOUT, all, texts};

const REQUEST: &str = r#"{"type":"subscription.request"}"#;

fn shell_command(script: &str, framing: Framing) -> Dial {
    let argv = ["sh", "-c", script].map(str::to_owned).to_vec();
    Dial { patience: TEST_TIMEOUT, ..Dial::to(Target::Command { argv, framing }) }
}

async fn receive_all(script: &str, framing: Framing) -> (Vec<String>, Option<LinkError>) {
    let world = World::real();
    let mut link = Link::open(&world, &shell_command(script, framing)).await.unwrap();
    let (received, ended) = all(&mut link).await;
    (texts(&received).into_iter().map(str::to_owned).collect(), ended)
}

#[tokio::test]
async fn lines_are_messages() {
    // A byte order mark, both line ends, blank lines, and a last line without its end.
    let script = r#"printf '\357\273\277{"a":1}\r\n\n   \n{"b":\t2}\n{"c":3}'"#;
    let (messages, ended) = receive_all(script, Framing::Lines).await;
    assert_eq!(messages, ["{\"a\":1}", "{\"b\":\t2}", "{\"c\":3}"]);
    assert!(ended.is_none(), "{ended:?}");
}

#[tokio::test]
async fn a_command_that_dies_is_reported() {
    let (messages, ended) = receive_all("echo '{\"a\":1}'; exit 7", Framing::Lines).await;
    assert_eq!(messages, ["{\"a\":1}"]);
    let ended = ended.unwrap();
    assert!(matches!(&ended, LinkError::Died { status, .. } if status.code() == Some(7)), "{ended}");
    assert!(!ended.may_pass());

    let (messages, ended) = receive_all("printf '{\"a\":1}\\n{\"b\":'; kill -9 $$", Framing::Lines).await;
    assert_eq!(messages, ["{\"a\":1}"], "an incomplete message is dropped (R-025)");
    assert!(matches!(ended, Some(LinkError::CutOff { bytes: 5 })), "{ended:?}");

    let (messages, ended) = receive_all("printf '\\377\\n'", Framing::Lines).await;
    assert!(messages.is_empty() && matches!(ended, Some(LinkError::NotText)), "{ended:?}");
}

#[tokio::test]
async fn a_line_without_an_end_is_not_kept() {
    let script = format!("head -c {} /dev/zero | tr '\\0' x; cat", limits::MESSAGE_BYTES_MAX + 70_000);
    let (messages, ended) = receive_all(&script, Framing::Lines).await;
    assert!(messages.is_empty() && matches!(ended, Some(LinkError::TooLong { .. })), "{ended:?}");
    let script = "head -c 1048576 /dev/zero | tr '\\0' x | sed 's/.*/\"&\"/'";
    let (messages, ended) = receive_all(script, Framing::Lines).await;
    assert!(ended.is_none() && messages[0].len() == 1_048_578);
}

#[tokio::test]
async fn a_command_that_cannot_be_started_is_reported() {
    let world = World::real();
    let argv = vec!["/no/such/program".to_owned()];
    let why =
        Link::open(&world, &Dial::to(Target::Command { argv, framing: Framing::Lines })).await.err().unwrap();
    assert!(matches!(why, LinkError::Unreachable { .. }), "{why}");
    assert!(why.to_string().contains("/no/such/program"), "{why}");
}

#[tokio::test]
async fn lines_are_answered_with_lines() {
    let world = World::real();
    let script = r#"read -r request; echo '"first"'
        echo '{"type":"subscription.accepted","subscription_id":"sub_1"}'; read -r reply
        printf '%s\n%s\n' "$request" "$reply""#;
    let dial = Dial { request: Some(REQUEST.to_owned()), ..shell_command(script, Framing::Lines) };
    let mut link = Link::open(&world, &dial).await.unwrap();
    assert_eq!(link.subscription(), Some("sub_1"));
    link.send("{\"type\":\n\"confirmation.reply\"}").await.unwrap();
    let (received, ended) = all(&mut link).await;
    assert_eq!(texts(&received), ["\"first\"", REQUEST, r#"{"type": "confirmation.reply"}"#]);
    assert!(ended.is_none());
}

#[tokio::test]
async fn json_rpc_is_unwrapped_and_answered() {
    let world = World::real();
    // The script returns each received line as the parameters of an event.
    let script = r#"
        read -r line; printf '{"jsonrpc":"2.0","method":"aaep.event","params":[%s]}\n' "$line"
        echo '{"jsonrpc":"2.0","id":1,"result":{"type":"subscription.accepted",  "subscription_id":"sub_1"}}'
        echo '{"jsonrpc":"2.0","id":"p","method":"aaep.ping"}'
        echo '{"jsonrpc":"2.0","id":9,"method":"what.ever"}'
        echo '{"jsonrpc":"2.0","method":"what.ever"}'
        echo '{"jsonrpc":"2.0","method":"aaep.event","params":{"big":1e400, "e":"\u00e9"}}'
        n=0; while [ $n -lt 6 ]; do
            read -r line; printf '{"jsonrpc":"2.0","method":"aaep.event","params":[%s]}\n' "$line"; n=$((n+1))
        done
        echo '{"jsonrpc":"2.0","id":2,"error":{"code":-32000,"message":"no"}}'
        echo '{"jsonrpc":"2.0","method":"aaep.close","params":{"type":"subscription.close"}}'"#;
    let dial = Dial { request: Some(REQUEST.to_owned()), ..shell_command(script, Framing::JsonRpc) };
    let mut link = Link::open(&world, &dial).await.unwrap();
    assert_eq!(
        link.handshake_response(),
        Some(r#"{"type":"subscription.accepted",  "subscription_id":"sub_1"}"#)
    );
    let mut messages = Vec::new();
    for _ in 0..2 {
        messages.push(link.next().await.unwrap().unwrap());
    }
    assert_eq!(
        texts(&messages),
        [
            r#"[{"jsonrpc":"2.0","id":1,"method":"aaep.subscribe","params":{"type":"subscription.request"}}]"#,
            r#"{"big":1e400, "e":"\u00e9"}"#, // R-140: as it came
        ]
    );
    for text in [
        r#"{"type":"subscription.renegotiate"}"#,
        r#"{"type":"clarification.reply"}"#,
        r#"{"type":"subscription.close"}"#,
        r#"{"kind":"user_input"}"#,
    ] {
        link.send(text).await.unwrap();
    }
    let (received, ended) = all(&mut link).await;
    let expected = [
        r#"[{"jsonrpc":"2.0","id":"p","result":{}}]"#,
        r#"[{"jsonrpc":"2.0","id":9,"error":{"code":-32601,"message":"a subscriber does not know this method"}}]"#,
        r#"[{"jsonrpc":"2.0","id":2,"method":"aaep.renegotiate","params":{"type":"subscription.renegotiate"}}]"#,
        r#"[{"jsonrpc":"2.0","method":"aaep.reply","params":{"type":"clarification.reply"}}]"#,
        r#"[{"jsonrpc":"2.0","method":"aaep.close","params":{"type":"subscription.close"}}]"#,
        r#"[{"jsonrpc":"2.0","method":"aaep.user_input","params":{"kind":"user_input"}}]"#,
    ];
    assert_eq!(texts(&received), expected);
    assert!(matches!(ended, Some(LinkError::Rpc { id: 2, code: -32000, .. })), "{ended:?}");
    assert_eq!(link.comments(), 1);
    let (received, ended) = all(&mut link).await;
    assert_eq!(
        texts(&received),
        [r#"{"type":"subscription.close"}"#],
        "an error response does not end the link"
    );
    assert!(ended.is_none(), "{ended:?}");
}

#[tokio::test]
async fn a_line_that_is_not_json_rpc_is_reported_with_a_remedy() {
    for line in ["{\"type\":\"aaep:agent.session.started\"}", "listening on 8080"] {
        let (messages, ended) = receive_all(&format!("echo '{line}'"), Framing::JsonRpc).await;
        let ended = ended.unwrap().to_string();
        assert!(messages.is_empty() && ended.contains(line) && ended.contains("--framing lines"), "{ended}");
    }
}

#[tokio::test]
async fn closing_kills_a_command_that_does_not_exit() {
    let world = World::real();
    let dir = tempfile::tempdir().unwrap();
    let mark = dir.path().join("ended");
    let script = format!("echo 1; while read -r line; do :; done; echo bye > {}", mark.display());
    let mut link = Link::open(&world, &shell_command(&script, Framing::Lines)).await.unwrap();
    link.next().await.unwrap().unwrap();
    link.close().await;
    assert!(mark.exists(), "the command got time to exit");

    let mut link =
        Link::open(&world, &shell_command("echo $$; exec sleep 1000", Framing::Lines)).await.unwrap();
    let pid = link.next().await.unwrap().unwrap().text;
    link.close().await;
    let alive = std::path::Path::new("/proc").join(&pid).exists();
    assert!(!alive || !std::path::Path::new("/proc").exists(), "{pid} is still running");
}
