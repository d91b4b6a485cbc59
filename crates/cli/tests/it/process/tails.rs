//! The position that a tail prints when it ends, and how it continues from there.

use crate::process::scene::client;
use crate::process::story::{self, BEGINNING};
use crate::server::Server;

#[tokio::test]
async fn a_tail_reports_how_to_continue() {
    let server = Server::fresh();
    let nothing = server.ask(&["tail", "--all"]);
    assert!(nothing.words.contains("continue with --after -1"), "{nothing:?}");
    let client = client(&server);
    let run = story::create(&client, "going on").await;
    story::append(&client, &run, 0, BEGINNING).await;

    let whole = server.ask(&["tail", "--json", "--all"]);
    assert_eq!(whole.words, format!("caught up; continue with --after {}\n", BEGINNING.len() + 1));
    let from_start = server.ask(&["tail", "--json", &run, "--after", "-1"]);
    assert_eq!(from_start.data, whole.data);
    assert_eq!(from_start.words, format!("caught up; continue with --after {}\n", BEGINNING.len()));
    server.ask(&["tail", &run, "--after", "-2"]).bad(2, "-2");
    server.ask(&["tail", &run, "--positions"]).bad(2, "--positions");

    server.ask(&["cancel", &run]).good();
    let last = client.read_run_events(&run, None, None).await.unwrap().data.len() - 1;
    let last = last.to_string();
    for arguments in [&["tail", &run][..], &["tail", "-f", &run], &["tail", &run, "--after", &last]] {
        let ended = server.ask(arguments);
        assert_eq!(ended.words, "the run has ended\n", "{arguments:?}");
    }
}

#[tokio::test]
async fn an_interrupted_tail_reports_how_to_continue_and_continues() {
    let server = Server::fresh();
    let client = client(&server);
    let run = story::create(&client, "interrupted").await;
    let following = server.follow(&["tail", "-f", "--all", "--json", "--positions"]);
    let first = following.line();
    let (position, envelope) = first.split_once('\t').unwrap();
    assert_eq!(position, "1");
    assert_eq!(envelope, client.read_feed(None, None).await.unwrap().data[0].get());
    following.interrupt();
    assert_eq!(following.words("interrupted"), "interrupted; continue with --after 1");
    let (rest, status) = following.end();
    assert_eq!((rest, status), (Vec::new(), 130));

    story::append(&client, &run, 0, BEGINNING).await;
    let rest = server.ask(&["tail", "--all", "--positions", "--after", position]).good();
    let lines: Vec<_> = rest.lines().map(|line| line.split_once('\t').unwrap()).collect();
    assert!(lines.iter().all(|(position, _)| ("2"..="6").contains(position)), "{rest}");
    assert!(lines.last().unwrap().1.contains("Hello there"), "{rest}");
}

#[tokio::test]
async fn a_list_reports_that_there_is_more() {
    let server = Server::fresh();
    let client = client(&server);
    for title in ["one", "two", ""] {
        story::create(&client, title).await;
    }
    let all = server.ask(&["ls"]);
    assert_eq!((all.data.lines().count(), all.words.as_str()), (3, ""));
    assert!(all.data.contains("(no title)"), "{all:?}");
    let part = server.ask(&["ls", "--limit", "2"]);
    let second = part.data.lines().nth(1).unwrap().split(' ').next().unwrap();
    assert_eq!(part.words, format!("there are more; use --limit N, or --after {second} to continue\n"));
    let rest = server.ask(&["ls", "--after", second]);
    assert_eq!(rest.words, "");
    assert!(rest.data.contains("  one  ") && rest.data.lines().count() == 1, "{rest:?}");
}
