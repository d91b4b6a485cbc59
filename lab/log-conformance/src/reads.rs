//! Cases: reading streams, the feed and the tails.

use super::*;

fn page(calls: &Calls<'_>, from: u64, count: usize, bytes: usize) -> Vec<u64> {
    calls.read("a", from, ReadBound { count, bytes }).iter().map(|record| record.sequence).collect()
}

pub fn a_read_ends_before_the_record_that_passes_a_bound(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[&b"1234567890"[..]; 5]));
    assert_eq!(page(&calls, 0, 3, 1000), [0, 1, 2]);
    assert_eq!(page(&calls, 1, 3, 1000), [1, 2, 3]);
    assert_eq!(page(&calls, 3, 3, 1000), [3, 4]);
    assert_eq!(page(&calls, 0, 9, 30), [0, 1, 2]);
    assert_eq!(page(&calls, 0, 9, 29), [0, 1]);
    assert_eq!(page(&calls, 2, 9, 9), [2], "at least one record");
    assert_eq!(page(&calls, 2, 0, 0), [2], "at least one record");
    calls.land(records("a", 5, &[b"", b"", &[0; 11], b""]));
    assert_eq!(page(&calls, 5, 9, 0), [5, 6], "empty records weigh nothing");
    assert_eq!(page(&calls, 6, 9, 11), [6, 7, 8]);
}

pub fn reads_past_the_tail_are_empty(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[b"0", b"1"]));
    for from in [2, 3, u64::from(u32::MAX), i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(calls.read("a", from, ALL), []);
    }
    for from in [3, i64::MAX as u64, i64::MAX as u64 + 1, u64::MAX] {
        assert_eq!(calls.feed(from, ALL), []);
    }
    assert_eq!(calls.read("unknown", 0, ALL), []);
    assert_eq!(calls.read("A", 0, ALL), [], "names are case-sensitive");
    assert_eq!(calls.tail("unknown"), None);
}

pub fn the_feed_runs_across_streams(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[b"a0"]));
    calls.land(both(records("b", 0, &[b"b0", b"b1"]), records("a", 1, &[b"a1"])));
    calls.land(records("c", 0, &[b"c0"]));
    calls.land(records("a", 2, &[b"a2"]));
    let read_texts = |from| {
        let feed = calls.feed(from, ALL);
        let texts = feed.iter().map(|FeedRecord { stream, record }| {
            let text = String::from_utf8(record.bytes.to_vec()).unwrap();
            assert_eq!(text, format!("{stream}{}", record.sequence));
            (record.position, text)
        });
        texts.collect::<Vec<_>>()
    };
    let all = ["a0", "b0", "b1", "a1", "c0", "a2"].map(str::to_owned);
    let all: Vec<_> = (1..).zip(all).collect();
    assert_eq!(read_texts(0), all);
    assert_eq!(read_texts(1), all);
    assert_eq!(read_texts(4), all[3..]);
    assert_eq!(read_texts(7), []);
}

pub fn the_feed_ends_before_the_record_that_passes_a_bound(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(both(records("a", 0, &[b"12345", b"12345"]), records("b", 0, &[b"12345", b"", b"12345"])));
    let page = |from, count, bytes| {
        let page = calls.feed(from, ReadBound { count, bytes });
        page.iter().map(|feed| feed.record.position).collect::<Vec<_>>()
    };
    assert_eq!(page(1, 2, 1000), [1, 2]);
    assert_eq!(page(2, 2, 1000), [2, 3]);
    assert_eq!(page(1, 9, 10), [1, 2]);
    assert_eq!(page(1, 9, 15), [1, 2, 3, 4]);
    assert_eq!(page(1, 9, 19), [1, 2, 3, 4]);
    assert_eq!(page(3, 0, 0), [3], "at least one record");
}

pub fn the_head_is_the_chain_over_all_records(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let mut head = ChainValue::start("a");
    for n in 0..10_u8 {
        let bytes = vec![n; usize::from(n) * 100];
        head = head.then(&bytes);
        calls.land(both(records("a", n.into(), &[&bytes]), records("b", n.into(), &[&bytes])));
        assert_eq!(calls.tail("a").unwrap().head, head);
        assert_ne!(calls.tail("b").unwrap().head, head, "the name is part of the chain");
    }
    calls.check_whole();
}

pub fn streams_are_listed_in_key_order(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let names = ["b", "a", "ab", "B", "a/1", "\u{e9}", "z", "\u{1f600}", "\u{ffff}"];
    for name in names {
        calls.land(records(name, 0, &[b"x"]));
    }
    let mut sorted = names;
    sorted.sort_unstable();
    let listed =
        |after, limit| calls.streams(after, limit).iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(listed(None, 100), sorted);
    assert_eq!(listed(None, 2), sorted[..2]);
    assert_eq!(listed(Some(sorted[3]), 3), sorted[4..7]);
    assert_eq!(listed(Some("aa"), 1), ["ab"], "after a missing name");
    assert_eq!(listed(Some("\u{10ffff}"), 1), [""; 0]);
    assert_eq!(listed(None, 0), [""; 0]);
}
