//! Tails: every event once and in order, whatever happens to the connections.

use recount_client::reply::Gap;
use recount_client::{Client, ClientError, Source, TailItem, Until};

use crate::scripted::{Answer, Scripted};

const NO_CONTENT: Answer = Answer::Full { status: 204, media_type: "", body: String::new() };

/// Frames with these ids; the data of each is its number.
fn frames(ids: impl IntoIterator<Item = u64>) -> String {
    ids.into_iter().map(|id| format!("id: {id}\ndata: {{\"n\":{id}}}\n\n")).collect()
}

fn caught_up(at: u64) -> String {
    format!("event: caught_up\ndata: {{\"sequence\":{at}}}\n\n")
}

/// The items of a tail in short form: `3` an event, `level 3`, `broken`, `error code`.
async fn follow(server: &Scripted, after: Option<u64>, until: Until) -> Vec<String> {
    let client = Client::new(&server.url, None).unwrap();
    let mut tail = client.tail(Source::Run("r".to_owned()), after, until);
    let mut items = Vec::new();
    while let Some(next) = tail.next().await {
        items.push(match next {
            Ok(TailItem::Event { cursor, envelope }) => {
                assert_eq!(envelope, format!("{{\"n\":{cursor}}}"));
                cursor.to_string()
            }
            Ok(TailItem::Gap(Gap::Pruned { first_pruned_sequence, last_pruned_sequence })) => {
                format!("gap {first_pruned_sequence}-{last_pruned_sequence}")
            }
            Ok(TailItem::Gap(Gap::Damaged(damaged))) => {
                format!("damaged {:?}-{:?}", damaged.first_sequence.unwrap(), damaged.last_sequence.unwrap())
            }
            Ok(TailItem::CaughtUp { cursor }) => {
                format!("level {}", cursor.map_or(-1, |at| at.cast_signed()))
            }
            Ok(TailItem::Disconnected { reason, .. }) if reason.starts_with("d (") => reason,
            Ok(TailItem::Disconnected { .. }) => "broken".to_owned(),
            Err(ClientError::Problem(problem)) => format!("error {}", problem.code),
            Err(ClientError::Unreachable { .. }) => "error unreachable".to_owned(),
            Err(ClientError::Protocol { .. }) => "error protocol".to_owned(),
            Err(ClientError::Unusable(why)) => format!("error {why}"),
        });
    }
    items
}

fn resumed_from(server: &Scripted) -> Vec<Option<String>> {
    server.requests().iter().map(|requests| requests.header("last-event-id").map(str::to_owned)).collect()
}

#[tokio::test]
async fn it_resumes_until_nothing_follows() {
    let server = Scripted::start([
        Answer::Broken(format!("retry: 1\n\n{}{}{}", frames(0..2), caught_up(1), frames(2..3))),
        Answer::Nothing,
        Answer::problem(503, "shutting_down", true),
        Answer::Broken("retry: 1\n\n: nothing yet\n\nid: 3\ndata: cut".to_owned()),
        Answer::Stream(format!("{}{}{}", frames(2..5), caught_up(4), frames(5..6))),
        NO_CONTENT,
    ])
    .await;
    let items = follow(&server, None, Until::Ended).await;
    let expected = [
        "0",
        "1",
        "level 1",
        "2",
        "broken",
        "broken",
        "d (shutting_down)",
        "broken",
        "3",
        "4",
        "level 4",
        "5",
    ];
    assert_eq!(items, expected);
    let two = || Some("2".to_owned());
    assert_eq!(resumed_from(&server), [None, two(), two(), two(), two(), Some("5".to_owned())]);
    assert_eq!(server.requests()[0].target, "/v1/runs/r/events");
    assert_eq!(server.requests()[1].target, "/v1/runs/r/events", "the header alone says where");
}

#[tokio::test]
async fn it_stops_when_caught_up_if_that_is_wanted() {
    let server =
        Scripted::start([Answer::Stream(format!("{}{}{}", frames(3..5), caught_up(4), frames(5..6)))]);
    let server = server.await;
    assert_eq!(follow(&server, Some(2), Until::CaughtUp).await, ["3", "4", "level 4"]);
    assert_eq!(server.requests()[0].target, "/v1/runs/r/events?after_sequence=2");
    assert_eq!(server.requests().len(), 1);
}

#[tokio::test]
async fn a_start_behind_the_ending_is_level_and_over() {
    let server = Scripted::start([Answer::Stream(caught_up(9)), NO_CONTENT]).await;
    assert_eq!(follow(&server, Some(9), Until::Ended).await, ["level 9"]);
    assert_eq!(resumed_from(&server), [None, Some("9".to_owned())]);
}

fn gap(first: u64, last: u64) -> String {
    let data = format!("{{\"first_pruned_sequence\":{first},\"last_pruned_sequence\":{last}}}");
    format!("event: gap\ndata: {data}\n\n")
}

/// Each pruned range is reported once, and a connection that breaks right after it continues after it.
#[tokio::test]
async fn a_gap_is_crossed_and_reported_once() {
    let server = Scripted::start([
        Answer::Broken(format!("retry: 1\n\n{}{}", frames(0..2), gap(2, 6))),
        Answer::Stream(format!("{}{}{}{}", gap(2, 6), gap(5, 8), frames(9..11), caught_up(10))),
        NO_CONTENT,
    ])
    .await;
    let items = follow(&server, None, Until::Ended).await;
    assert_eq!(items, ["0", "1", "gap 2-6", "broken", "gap 7-8", "9", "10", "level 10"]);
    assert_eq!(resumed_from(&server), [None, Some("6".to_owned()), Some("10".to_owned())]);
    let server = Scripted::start([Answer::Stream("event: gap\ndata: {}\n\n".to_owned())]).await;
    assert_eq!(follow(&server, None, Until::Ended).await, ["error protocol"]);
}

#[tokio::test]
async fn a_refusal_ends_it() {
    let server = Scripted::start([Answer::problem(404, "run_not_found", false)]).await;
    assert_eq!(follow(&server, None, Until::Ended).await, ["error run_not_found"]);

    let server = Scripted::start([
        Answer::Broken(format!("retry: 1\n\n{}", frames(0..2))),
        Answer::problem(409, "cursor_ahead", false),
    ])
    .await;
    assert_eq!(follow(&server, None, Until::Ended).await, ["0", "1", "broken", "error cursor_ahead"]);
}

/// The frame with which the server ends a stream that it cannot go on with.
fn error_frame(code: &str, retryable: bool) -> String {
    let Answer::Full { body, .. } = Answer::problem(500, code, retryable) else { unreachable!() };
    format!("event: error\ndata: {body}\n\n")
}

#[tokio::test]
async fn a_refusal_within_the_stream_ends_it_at_once() {
    let server =
        Scripted::start([Answer::Stream(format!("{}{}", frames(0..2), error_frame("store_corrupt", false)))]);
    let server = server.await;
    assert_eq!(follow(&server, None, Until::Ended).await, ["0", "1", "error store_corrupt"]);
    assert_eq!(server.requests().len(), 1);

    let odd = Answer::Stream("event: error\ndata: {}\n\n".to_owned());
    let server = Scripted::start([odd]).await;
    assert_eq!(follow(&server, None, Until::Ended).await, ["error protocol"]);
}

#[tokio::test]
async fn a_failure_within_the_stream_that_may_pass_is_waited_for() {
    let server = Scripted::start([
        Answer::Stream(format!("retry: 1\n\n{}{}", frames(0..2), error_frame("store_busy", true))),
        Answer::Stream(format!("{}{}", frames(2..3), caught_up(2))),
        NO_CONTENT,
    ])
    .await;
    let items = follow(&server, None, Until::Ended).await;
    assert_eq!(items, ["0", "1", "d (store_busy)", "2", "level 2"]);
    assert_eq!(resumed_from(&server)[1], Some("1".to_owned()));
}

#[tokio::test]
async fn the_server_is_queried_whether_more_can_follow() {
    let level = Answer::Stream(format!("{}{}", frames(0..1), caught_up(0)));
    for (then, expected) in [(NO_CONTENT, true), (Answer::Stream(caught_up(0)), false)] {
        let server = Scripted::start([level.clone(), then]).await;
        let client = Client::new(&server.url, None).unwrap();
        let mut tail = client.tail(Source::Run("r".to_owned()), None, Until::CaughtUp);
        while tail.next().await.is_some() {}
        assert_eq!(tail.is_whole().await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_reading_with_an_end_in_sight_gives_up() {
    let broken = Answer::Broken("retry: 1\n\n".to_owned());
    let server = Scripted::start([broken, Answer::Nothing]).await;
    let items = follow(&server, None, Until::CaughtUp).await;
    assert_eq!(items, ["broken", "broken", "broken", "broken", "broken", "error unreachable"]);
}

#[tokio::test]
async fn what_no_server_of_ours_sends() {
    for odd in ["data: {}\n\n".to_owned(), "id: x\ndata: {}\n\n".to_owned()] {
        let server = Scripted::start([Answer::Stream(odd)]).await;
        assert_eq!(follow(&server, None, Until::Ended).await, ["error protocol"]);
    }
    let server = Scripted::start([Answer::json("{}")]).await;
    assert_eq!(follow(&server, None, Until::Ended).await, ["error protocol"]);
    let later = format!("event: hole\ndata: {{}}\n\n{}{}", frames(7..8), caught_up(7));
    let server = Scripted::start([Answer::Stream(later)]).await;
    assert_eq!(follow(&server, None, Until::CaughtUp).await, ["7", "level 7"], "unknown frames are skipped");
}

#[tokio::test]
async fn repeated_closing_does_not_cause_rapid_requests() {
    let closing = Answer::Stream(format!("retry: 1\n\n{}", caught_up(0)));
    let server = Scripted::start([closing]).await;
    let client = Client::new(&server.url, None).unwrap();
    let mut tail = client.tail(Source::Run("r".to_owned()), Some(0), Until::Ended);
    for expected in [true, true, false] {
        let item = tail.next().await.unwrap().unwrap();
        assert_eq!(matches!(item, TailItem::CaughtUp { .. }), expected, "{item:?}");
    }
}
