//! Removing records: a prefix of a stream, or all of it.

use super::*;

fn sequences(ask: &Asking<'_>, stream: &str, from: u64) -> Vec<u64> {
    ask.read(stream, from, ALL).iter().map(|record| record.sequence).collect()
}

/// Streams a and b in turns, four records each.
fn turns(ask: &Asking<'_>) {
    for n in 0..4_u64 {
        for stream in ["a", "b"] {
            ask.land(records(stream, n, &[format!("{stream}{n}").as_bytes()]));
        }
    }
}

pub fn a_cut_takes_the_oldest_records(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    turns(&ask);
    let before = ask.tail("a").unwrap();
    let (b, b_tail) = (ask.read("b", 0, ALL), ask.tail("b"));
    ask.land(cut("a", 2));
    for from in [0, 1, 2] {
        assert_eq!(sequences(&ask, "a", from), [2, 3], "from {from}");
    }
    assert_eq!(sequences(&ask, "a", 3), [3]);
    let start = ChainValue::start("a").then(b"a0").then(b"a1");
    assert_eq!(ask.tail("a"), Some(Tail { first_sequence: 2, start, ..before }));
    assert_eq!((ask.read("b", 0, ALL), ask.tail("b")), (b, b_tail));
    let positions: Vec<u64> = ask.feed(1, ALL).iter().map(|feed| feed.record.position).collect();
    assert_eq!(positions, [2, 4, 5, 6, 7, 8]);
    assert_eq!(ask.last_position(), 8);
    ask.check_whole();
    for again in [0, 1, 2] {
        ask.land(cut("a", again));
        assert_eq!(ask.tail("a").unwrap().first_sequence, 2, "what is gone is not taken again");
    }
    ask.land(cut("a", 3));
    assert_eq!(sequences(&ask, "a", 0), [3]);
    ask.land(records("a", 4, &[b"a4"]));
    assert_eq!(sequences(&ask, "a", 0), [3, 4]);
    ask.check_whole();
}

pub fn a_cut_and_a_record_land_together_or_not_at_all(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    turns(&ask);
    let before = ask.whole("s");
    let refused = ask.append(both(cut("a", 2), records("b", 0, &[b"late"])));
    assert_eq!(refused, Err(AppendError::TailMoved { stream: "b".to_owned(), expected: 0, actual: 4 }));
    let refused = ask.append(both(erase("a"), row("s", "k", Guard::Version(1), Some(b"v"))));
    assert!(matches!(refused, Err(AppendError::GuardFailed { .. })), "{refused:?}");
    assert_eq!(ask.whole("s"), before);
    let gap = both(records("a", 4, &[b"gap"]), row("s", "k", Guard::Absent, Some(b"v")));
    ask.land(both(cut("a", 3), gap));
    assert_eq!(payloads(&ask.read("a", 0, ALL)), [&b"a3"[..], b"gap"]);
    assert!(ask.row("s", "k").is_some());
    ask.check_whole();
}

pub fn a_cut_beyond_the_tail_is_refused(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    turns(&ask);
    let before = ask.whole("s");
    for (stream, keep_from, actual) in [("a", 5, 4), ("a", u64::MAX, 4), ("new", 1, 0)] {
        let refused = ask.append(cut(stream, keep_from));
        let expected = keep_from;
        assert_eq!(refused, Err(AppendError::TailMoved { stream: stream.to_owned(), expected, actual }));
    }
    // The records that come with the cut cannot be cut by it.
    let refused = ask.append(both(cut("a", 5), records("a", 4, &[b"a4"])));
    assert!(matches!(refused, Err(AppendError::TailMoved { .. })), "{refused:?}");
    ask.land(cut("new", 0));
    assert_eq!(ask.whole("s"), before);
}

pub fn cutting_everything_leaves_where_it_ended(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    turns(&ask);
    let before = ask.tail("b").unwrap();
    ask.land(cut("b", 4));
    assert_eq!(sequences(&ask, "b", 0), [0; 0]);
    let expected = Tail { first_sequence: 4, start: before.head, ..before };
    assert_eq!(ask.tail("b"), Some(expected));
    assert_eq!(ask.last_position(), 8, "though the record there is gone");
    ask.check_whole();
    ask.land(records("b", 4, &[b"b4"]));
    assert_eq!(sequences(&ask, "b", 0), [4]);
    assert_eq!(ask.tail("b").unwrap().head, before.head.then(b"b4"));
    ask.check_whole();
}

pub fn a_cut_comes_into_the_middle_of_what_was_committed_together(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    let odd: [&[u8]; 5] = [b"{\"n\":0}", b"\xff", b"", b"{\"n\":3}", b"{\"n\":4}"];
    ask.land(both(records("a", 0, &odd), records("b", 0, &odd)));
    ask.land(both(records("b", 5, &odd), records("a", 5, &odd)));
    ask.land(both(cut("a", 7), cut("b", 1)));
    assert_eq!(payloads(&ask.read("a", 0, ALL)), odd[2..]);
    assert_eq!(payloads(&ask.read("b", 0, ALL)), [&odd[1..], &odd].concat());
    ask.check_whole();
    ask.land(both(erase("b"), cut("a", 8)));
    assert_eq!(payloads(&ask.read("a", 0, ALL)), odd[3..]);
    assert_eq!(ask.feed(1, ALL).len(), 2);
    ask.check_whole();
}

pub fn an_erased_stream_leaves_a_tombstone(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    turns(&ask);
    ask.land(cut("a", 1));
    let before = ask.tail("a").unwrap();
    ask.land(both(erase("a"), both(erase("unknown"), records("b", 4, &[b"b4"]))));
    let tombstone = Tail { first_sequence: 4, start: before.head, erased: true, ..before };
    assert_eq!(ask.tail("a"), Some(tombstone));
    assert_eq!(ask.tail("unknown"), None);
    assert_eq!((sequences(&ask, "a", 0), sequences(&ask, "b", 0)), (vec![], vec![0, 1, 2, 3, 4]));
    assert!(ask.feed(1, ALL).iter().all(|feed| &*feed.stream == "b"));
    assert_eq!(ask.streams(None, 9), ["a".into(), "b".into()], "its name stays known");
    assert_eq!(ask.last_position(), 9);
    ask.check_whole();
    ask.land(erase("a"));
    assert_eq!(ask.tail("a"), Some(tombstone));
}

pub fn an_erased_stream_takes_nothing_more(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    turns(&ask);
    ask.land(erase("a"));
    let before = ask.whole("s");
    for tail in [0, 4] {
        let refused = ask.append(both(records("a", tail, &[b"more"]), row("s", "k", Guard::Any, Some(b"v"))));
        assert_eq!(refused, Err(AppendError::Erased { stream: "a".to_owned() }));
    }
    ask.land(cut("a", 2));
    assert_eq!(ask.whole("s"), before);
}
