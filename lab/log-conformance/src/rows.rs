//! Cases: small versioned rows, their guards and ranges.

use super::*;
use recount_log::RowRange;

fn failed(key: &str, actual: Option<u64>) -> Result<Committed, AppendError> {
    Err(AppendError::GuardFailed { space: "s".to_owned(), key: key.to_owned(), actual })
}

pub fn versions_start_at_one_and_grow(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    for (version, value) in [(1, b"one"), (2, b"two"), (3, b"tri")] {
        calls.land(row("s", "k", Guard::Any, Some(value)));
        let found = Row { key: "k".into(), version, value: Bytes::from_static(value) };
        assert_eq!(calls.row("s", "k"), Some(found));
    }
    assert_eq!(calls.row("s", "K"), None);
    assert_eq!(calls.row("other", "k"), None);
    assert_eq!(calls.last_position(), 0, "rows have no position");
}

pub fn guards_hold(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let put = |guard| calls.append(row("s", "k", guard, Some(b"v")));
    assert_eq!(put(Guard::Version(1)), failed("k", None));
    assert!(put(Guard::Absent).is_ok());
    assert_eq!(put(Guard::Absent), failed("k", Some(1)));
    assert_eq!(put(Guard::Version(0)), failed("k", Some(1)));
    assert_eq!(put(Guard::Version(2)), failed("k", Some(1)));
    assert!(put(Guard::Version(1)).is_ok());
    assert_eq!(put(Guard::Version(1)), failed("k", Some(2)));
    assert!(put(Guard::Any).is_ok());
    assert_eq!(calls.row("s", "k").unwrap().version, 3);
}

pub fn a_deleted_row_can_be_created_again(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(row("s", "k", Guard::Absent, None));
    calls.land(row("s", "k", Guard::Any, Some(b"1")));
    calls.land(row("s", "k", Guard::Any, Some(b"2")));
    assert_eq!(calls.append(row("s", "k", Guard::Version(1), None)), failed("k", Some(2)));
    calls.land(row("s", "k", Guard::Version(2), None));
    assert_eq!(calls.row("s", "k"), None);
    assert_eq!(calls.append(row("s", "k", Guard::Version(2), None)), failed("k", None));
    calls.land(row("s", "k", Guard::Absent, Some(b"3")));
    assert_eq!(calls.row("s", "k").unwrap().version, 1);
}

pub fn events_and_rows_are_committed_together_or_not_at_all(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(both(records("a", 0, &[b"0"]), row("s", "taken", Guard::Absent, Some(b"v"))));
    let before = calls.whole("s");
    let several = || both(records("a", 1, &[b"1"]), row("s", "free", Guard::Absent, Some(b"v")));
    let refused = calls.append(both(several(), row("s", "taken", Guard::Absent, Some(b"w"))));
    assert_eq!(refused, failed("taken", Some(1)));
    assert_eq!(calls.whole("s"), before, "neither the record nor the row before the refused one");
    let refused = calls.append(both(records("a", 9, &[b"1"]), row("s", "free", Guard::Absent, Some(b"v"))));
    assert!(matches!(refused, Err(AppendError::TailMoved { actual: 1, .. })), "{refused:?}");
    assert_eq!(calls.whole("s"), before);
    calls.land(both(several(), row("s", "taken", Guard::Version(1), Some(b"w"))));
    assert_eq!((calls.next_sequence("a"), calls.row("s", "taken").unwrap().version), (2, 2));
    calls.check_whole();
}

/// Appends in one group must be checked one after the other.
pub fn later_appends_see_the_rows_of_earlier_ones(make: Make<'_>) {
    let subject = make();
    let store = &*subject.store;
    let answers: Vec<_> = (0..50)
        .map(|n| {
            let only_one =
                both(records(&format!("run{n}"), 0, &[b"x"]), row("s", "active", Guard::Absent, Some(b"")));
            store.append(only_one)
        })
        .collect();
    let won = answers.into_iter().map(block_on).filter(Result::is_ok).count();
    assert_eq!(won, 1, "one holder of the row");
    assert_eq!(Calls(store).streams(None, 99), ["run0".into()], "whichever came first");
    let answers: Vec<_> = (1..=50)
        .map(|version| store.append(row("s", "active", Guard::Version(version), Some(b"next"))))
        .collect();
    assert!(answers.into_iter().map(block_on).all(|answer| answer.is_ok()));
    assert_eq!(Calls(store).row("s", "active").unwrap().version, 51);
    Calls(store).check_whole();
}

pub fn ranges_go_by_prefix_place_direction_and_limit(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let keys = ["", "a", "ab", "ab/1", "ab/2", "ab/2/x", "ab0", "b", "\u{e9}", "\u{10ffff}", "\u{10ffff}a"];
    let mut append = row("s2", "ab/1", Guard::Any, Some(b"other space"));
    for key in keys {
        append = both(append, row("s", key, Guard::Absent, Some(key.as_bytes())));
    }
    calls.land(append);
    assert_eq!(calls.rows("s2").len(), 1);
    assert_eq!(calls.rows("none"), []);

    let afters =
        [None, Some(""), Some("a"), Some("aa"), Some("ab/2"), Some("ab/3"), Some("b"), Some("\u{10ffff}b")];
    let prefixes = ["", "a", "ab", "ab/", "ab/2", "b", "c", "\u{e9}", "\u{10ffff}", "\u{d7ff}"];
    for prefix in prefixes {
        for after in afters {
            for backwards in [false, true] {
                let mut expected: Vec<&str> = keys
                    .into_iter()
                    .filter(|key| key.starts_with(prefix))
                    .filter(|key| {
                        after.is_none_or(|after| if backwards { *key < after } else { *key > after })
                    })
                    .collect();
                if backwards {
                    expected.reverse();
                }
                for limit in [0, 1, 3, usize::MAX] {
                    let range = RowRange {
                        space: "s".into(),
                        prefix: prefix.into(),
                        after: after.map(Into::into),
                        backwards,
                        limit,
                    };
                    let found = block_on(subject.store.rows(range.clone())).unwrap();
                    let found: Vec<&str> = found.iter().map(|row| &*row.key).collect();
                    assert_eq!(found, expected[..limit.min(expected.len())], "{range:?}");
                }
            }
        }
    }
}
