//! Cases: results and refusals of appends.

use super::*;
use recount_log::Landed;
use recount_log::limits::{KEY_BYTES_MAX, RECORD_BYTES_MAX, ROW_BYTES_MAX};

pub fn sequences_start_at_zero_without_gaps(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[b"0", b"1"]));
    calls.land(records("b", 0, &[b"0"]));
    calls.land(records("a", 2, &[b"2"]));
    let sequences =
        |stream| calls.read(stream, 0, ALL).iter().map(|record| record.sequence).collect::<Vec<_>>();
    assert_eq!(sequences("a"), [0, 1, 2]);
    assert_eq!(sequences("b"), [0]);
    calls.check_whole();
}

pub fn positions_start_at_one_in_commit_order(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let landed = |first_sequence, last_sequence, first_position| Landed {
        first_sequence,
        last_sequence,
        first_position,
    };
    let one = calls.land(records("a", 0, &[b"0", b"1"]));
    assert_eq!(one.streams, [landed(0, 1, 1)]);
    let two = calls.land(both(records("b", 0, &[b"x", b"y"]), records("a", 2, &[b"2"])));
    assert_eq!(two.streams, [landed(0, 1, 3), landed(2, 2, 5)], "in the order they were given");
    assert_eq!(calls.last_position(), 5);
    calls.check_whole();
}

pub fn a_wrong_tail_is_refused_with_the_real_one(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[b"0", b"1"]));
    let before = calls.whole("s");
    for (stream, expected, actual) in
        [("a", 0, 2), ("a", 1, 2), ("a", 3, 2), ("a", u64::MAX, 2), ("new", 1, 0)]
    {
        let refused = calls.append(records(stream, expected, &[b"z"]));
        assert_eq!(refused, Err(AppendError::TailMoved { stream: stream.to_owned(), expected, actual }));
    }
    assert_eq!(calls.whole("s"), before);
    calls.land(records("a", 2, &[b"2"]));
    calls.check_whole();
}

pub fn several_streams_are_committed_together_or_not_at_all(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[b"0"]));
    let before = calls.whole("s");
    let refused = calls.append(both(records("b", 0, &[b"0"]), records("a", 0, &[b"0"])));
    assert_eq!(refused, Err(AppendError::TailMoved { stream: "a".to_owned(), expected: 0, actual: 1 }));
    assert_eq!(calls.whole("s"), before, "stream b was not made either");
    calls.land(both(records("b", 0, &[b"0"]), records("a", 1, &[b"1"])));
    assert_eq!((calls.next_sequence("a"), calls.next_sequence("b")), (2, 1));
    calls.check_whole();
}

pub fn an_empty_append_changes_nothing(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(records("a", 0, &[b"0"]));
    let before = calls.whole("s");
    assert_eq!(calls.append(Append::default()), Ok(Committed { streams: vec![] }));
    assert_eq!(calls.whole("s"), before);
}

pub fn bytes_come_back_as_they_went_in(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let every: Vec<u8> = (0..=255).collect();
    let large = vec![7; 300_000];
    let odd: [&[u8]; 7] =
        [b"", b"\0", &every, b"\xff\xfe", "h\u{e9}llo \u{1f600}".as_bytes(), &large, b"{\"a\" : 1}\r\n"];
    let name = "odd name/\u{e9} '\"%_\u{10ffff}";
    calls.land(both(records(name, 0, &odd), row("s", name, Guard::Absent, Some(&every))));
    assert_eq!(payloads(&calls.read(name, 0, ALL)), odd);
    assert_eq!(&calls.row("s", name).unwrap().value[..], &every);
    assert_eq!(calls.streams(None, 9), [name.into()]);
    calls.land(row("s", "", Guard::Absent, Some(b"")));
    assert_eq!(&calls.row("s", "").unwrap().value[..], b"");
    calls.check_whole();
}

pub fn too_large_appends_are_refused(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let largest = vec![1; RECORD_BYTES_MAX];
    calls.land(records("a", 0, &[&largest]));
    assert_eq!(calls.read("a", 0, ALL)[0].bytes, largest);
    let before = calls.whole("s");
    let long_name = "n".repeat(KEY_BYTES_MAX + 1);
    let refused = [
        records("a", 1, &[b"fits", &vec![1; RECORD_BYTES_MAX + 1]]),
        row("s", "k", Guard::Any, Some(&vec![1; ROW_BYTES_MAX + 1])),
        records(&long_name, 0, &[b"x"]),
        row(&long_name, "k", Guard::Any, None),
        row("s", &long_name, Guard::Any, None),
    ];
    for append in refused {
        assert_eq!(kind_of(calls.append(append)), FaultKind::TooLarge);
    }
    assert!(calls.whole("s") == before);
}
