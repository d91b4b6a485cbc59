//! Cases: removing a prefix of a stream, or the whole stream.

use super::*;

fn sequences(calls: &Calls<'_>, stream: &str, from: u64) -> Vec<u64> {
    calls.read(stream, from, ALL).iter().map(|record| record.sequence).collect()
}

/// Appends to the streams a and b in turns, four records each.
fn turns(calls: &Calls<'_>) {
    for n in 0..4_u64 {
        for stream in ["a", "b"] {
            calls.land(records(stream, n, &[format!("{stream}{n}").as_bytes()]));
        }
    }
}

pub fn a_cut_removes_the_oldest_records(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    turns(&calls);
    let before = calls.tail("a").unwrap();
    let (b, b_tail) = (calls.read("b", 0, ALL), calls.tail("b"));
    calls.land(cut("a", 2));
    for from in [0, 1, 2] {
        assert_eq!(sequences(&calls, "a", from), [2, 3], "from {from}");
    }
    assert_eq!(sequences(&calls, "a", 3), [3]);
    let start = ChainValue::start("a").then(b"a0").then(b"a1");
    assert_eq!(calls.tail("a"), Some(Tail { first_sequence: 2, start, ..before }));
    assert_eq!((calls.read("b", 0, ALL), calls.tail("b")), (b, b_tail));
    let positions: Vec<u64> = calls.feed(1, ALL).iter().map(|feed| feed.record.position).collect();
    assert_eq!(positions, [2, 4, 5, 6, 7, 8]);
    assert_eq!(calls.last_position(), 8);
    calls.check_whole();
    for again in [0, 1, 2] {
        calls.land(cut("a", again));
        assert_eq!(calls.tail("a").unwrap().first_sequence, 2, "a removed record cannot be removed again");
    }
    calls.land(cut("a", 3));
    assert_eq!(sequences(&calls, "a", 0), [3]);
    calls.land(records("a", 4, &[b"a4"]));
    assert_eq!(sequences(&calls, "a", 0), [3, 4]);
    calls.check_whole();
}

pub fn a_cut_and_a_record_are_committed_together_or_not_at_all(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    turns(&calls);
    let before = calls.whole("s");
    let refused = calls.append(both(cut("a", 2), records("b", 0, &[b"late"])));
    assert_eq!(refused, Err(AppendError::TailMoved { stream: "b".to_owned(), expected: 0, actual: 4 }));
    let refused = calls.append(both(erase("a"), row("s", "k", Guard::Version(1), Some(b"v"))));
    assert!(matches!(refused, Err(AppendError::GuardFailed { .. })), "{refused:?}");
    assert_eq!(calls.whole("s"), before);
    let gap = both(records("a", 4, &[b"gap"]), row("s", "k", Guard::Absent, Some(b"v")));
    calls.land(both(cut("a", 3), gap));
    assert_eq!(payloads(&calls.read("a", 0, ALL)), [&b"a3"[..], b"gap"]);
    assert!(calls.row("s", "k").is_some());
    calls.check_whole();
}

pub fn a_cut_beyond_the_tail_is_refused(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    turns(&calls);
    let before = calls.whole("s");
    for (stream, keep_from, actual) in [("a", 5, 4), ("a", u64::MAX, 4), ("new", 1, 0)] {
        let refused = calls.append(cut(stream, keep_from));
        let expected = keep_from;
        assert_eq!(refused, Err(AppendError::TailMoved { stream: stream.to_owned(), expected, actual }));
    }
    // The records of the same append cannot be cut by it.
    let refused = calls.append(both(cut("a", 5), records("a", 4, &[b"a4"])));
    assert!(matches!(refused, Err(AppendError::TailMoved { .. })), "{refused:?}");
    calls.land(cut("new", 0));
    assert_eq!(calls.whole("s"), before);
}

pub fn cutting_everything_keeps_the_tail(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    turns(&calls);
    let before = calls.tail("b").unwrap();
    calls.land(cut("b", 4));
    assert_eq!(sequences(&calls, "b", 0), [0; 0]);
    let expected = Tail { first_sequence: 4, start: before.head, ..before };
    assert_eq!(calls.tail("b"), Some(expected));
    assert_eq!(calls.last_position(), 8, "although the record there was removed");
    calls.check_whole();
    calls.land(records("b", 4, &[b"b4"]));
    assert_eq!(sequences(&calls, "b", 0), [4]);
    assert_eq!(calls.tail("b").unwrap().head, before.head.then(b"b4"));
    calls.check_whole();
}

pub fn a_cut_may_split_a_commit(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let odd: [&[u8]; 5] = [b"{\"n\":0}", b"\xff", b"", b"{\"n\":3}", b"{\"n\":4}"];
    calls.land(both(records("a", 0, &odd), records("b", 0, &odd)));
    calls.land(both(records("b", 5, &odd), records("a", 5, &odd)));
    calls.land(both(cut("a", 7), cut("b", 1)));
    assert_eq!(payloads(&calls.read("a", 0, ALL)), odd[2..]);
    assert_eq!(payloads(&calls.read("b", 0, ALL)), [&odd[1..], &odd].concat());
    calls.check_whole();
    calls.land(both(erase("b"), cut("a", 8)));
    assert_eq!(payloads(&calls.read("a", 0, ALL)), odd[3..]);
    assert_eq!(calls.feed(1, ALL).len(), 2);
    calls.check_whole();
}

pub fn an_erased_stream_leaves_a_tombstone(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    turns(&calls);
    calls.land(cut("a", 1));
    let before = calls.tail("a").unwrap();
    calls.land(both(erase("a"), both(erase("unknown"), records("b", 4, &[b"b4"]))));
    let tombstone = Tail { first_sequence: 4, start: before.head, erased: true, ..before };
    assert_eq!(calls.tail("a"), Some(tombstone));
    assert_eq!(calls.tail("unknown"), None);
    assert_eq!((sequences(&calls, "a", 0), sequences(&calls, "b", 0)), (vec![], vec![0, 1, 2, 3, 4]));
    assert!(calls.feed(1, ALL).iter().all(|feed| &*feed.stream == "b"));
    assert_eq!(calls.streams(None, 9), ["a".into(), "b".into()], "its name stays known");
    assert_eq!(calls.last_position(), 9);
    calls.check_whole();
    calls.land(erase("a"));
    assert_eq!(calls.tail("a"), Some(tombstone));
}

pub fn an_erased_stream_accepts_no_records(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    turns(&calls);
    calls.land(erase("a"));
    let before = calls.whole("s");
    for tail in [0, 4] {
        let refused =
            calls.append(both(records("a", tail, &[b"more"]), row("s", "k", Guard::Any, Some(b"v"))));
        assert_eq!(refused, Err(AppendError::Erased { stream: "a".to_owned() }));
    }
    calls.land(cut("a", 2));
    assert_eq!(calls.whole("s"), before);
}
