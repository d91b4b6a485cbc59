//! Cases: one commit order for all readers, with many concurrent writers.

use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

const WRITERS: usize = 64;
const APPENDS_EACH: usize = 4;

pub fn the_observer_sees_each_commit_before_its_writer(make: Make<'_>) {
    let subject = make();
    let notes = Arc::new(Notes::default());
    subject.store.observe(notes.clone());
    std::thread::scope(|scope| {
        for writer in 0..8 {
            let (store, notes) = (&*subject.store, &notes);
            scope.spawn(move || {
                let stream = format!("w{writer}");
                for n in (0..20).step_by(2) {
                    let landed = Calls(store).land(records(&stream, n, &[b"x", b"y"])).streams;
                    let observed = notes.taken();
                    for position in landed[0].first_position..landed[0].first_position + 2 {
                        let place = usize::try_from(position - 1).unwrap();
                        assert_eq!(observed[place].record.position, position, "observed before the result");
                        assert_eq!(&*observed[place].stream, stream);
                    }
                }
            });
        }
    });
    // A refused append and one of rows only are not observed.
    let calls = Calls(&*subject.store);
    assert!(calls.append(records("w0", 0, &[b"x"])).is_err());
    calls.land(row("s", "k", Guard::Any, Some(b"v")));
    assert_eq!(notes.taken(), calls.feed(1, ALL), "each once, in position order");
    calls.check_whole();
}

pub fn appends_are_queued_when_they_are_called(make: Make<'_>) {
    let subject = make();
    let (store, calls) = (&*subject.store, Calls(&*subject.store));
    for n in 0..100 {
        let stream = format!("s{n}");
        let answers: Vec<_> = (0..4).map(|tail| store.append(records(&stream, tail, &[b"x"]))).collect();
        // Awaited in reverse order, and some never.
        for answer in answers.into_iter().skip(1).rev() {
            block_on(answer).expect("it is queued after the earlier ones");
        }
        assert_eq!(calls.next_sequence(&stream), 4);
    }
    // An append after a refused one to the same stream is refused too.
    calls.land(row("s", "taken", Guard::Any, Some(b"v")));
    let first = both(records("new", 0, &[b"0"]), row("s", "taken", Guard::Absent, Some(b"w")));
    let (first, second) = (store.append(first), store.append(records("new", 1, &[b"1"])));
    let moved = AppendError::TailMoved { stream: "new".to_owned(), expected: 1, actual: 0 };
    assert_eq!(block_on(second), Err(moved));
    assert!(matches!(block_on(first), Err(AppendError::GuardFailed { .. })));
    assert_eq!(calls.next_sequence("new"), 0);
    calls.check_whole();
}

pub fn a_cursor_never_skips_under_concurrent_writers(make: Make<'_>) {
    let subject = make();
    let store = &*subject.store;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8)
            .map(|writer| {
                scope.spawn(move || {
                    let stream = format!("w{writer}");
                    for n in 0..40 {
                        Calls(store).land(records(&stream, n, &[b"x"]));
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            let mut cursor = 1;
            loop {
                let last_look = done.load(Ordering::SeqCst);
                let page = Calls(store).feed(cursor, ReadBound { count: 7, bytes: usize::MAX });
                for feed in &page {
                    assert_eq!(feed.record.position, cursor, "nothing appears behind a cursor");
                    cursor += 1;
                }
                if page.is_empty() && last_look {
                    return cursor;
                }
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        done.store(true, Ordering::SeqCst);
        assert_eq!(reader.join().unwrap(), 8 * 40 + 1);
    });
}

pub fn many_writers_on_one_stream_lose_nothing(make: Make<'_>) {
    let shape = vec![vec![1; APPENDS_EACH]; WRITERS];
    contend(make, 1, &shape);
}

pub fn many_writers_on_many_streams_lose_nothing(make: Make<'_>) {
    let shape = vec![vec![2; APPENDS_EACH]; WRITERS];
    contend(make, WRITERS, &shape);
}

/// Runs one thread per writer. `shape` has for each writer the number of records of each of its appends. Writer `w`
/// writes to stream `w % streams`, and retries with the real tail when another writer was first.
pub(super) fn contend(make: Make<'_>, streams: usize, shape: &[Vec<usize>]) {
    let subject = make();
    let store = &*subject.store;
    let notes = Arc::new(Notes::default());
    store.observe(notes.clone());
    std::thread::scope(|scope| {
        for (writer, appends) in shape.iter().enumerate() {
            scope.spawn(move || {
                let stream = format!("s{}", writer % streams);
                let mut believed = 0;
                for (n, count) in appends.iter().enumerate() {
                    let payloads: Vec<_> = (0..*count).map(|part| format!("{writer}/{n}/{part}")).collect();
                    let payloads: Vec<_> = payloads.iter().map(String::as_bytes).collect();
                    loop {
                        match Calls(store).append(records(&stream, believed, &payloads)) {
                            Ok(committed) => {
                                assert_eq!(committed.streams[0].first_sequence, believed);
                                believed = committed.streams[0].last_sequence + 1;
                                break;
                            }
                            Err(AppendError::TailMoved { expected, actual, .. }) => {
                                assert!(actual > expected && expected == believed, "tails only grow");
                                believed = actual;
                            }
                            Err(other) => panic!("{other}"),
                        }
                    }
                }
            });
        }
    });
    let calls = Calls(store);
    calls.check_whole();
    assert_eq!(notes.taken(), calls.feed(1, ALL));
    for stream in 0..streams.min(shape.len()) {
        check_writers(&calls, stream, streams, shape);
    }
}

/// Every append of every writer exists once, in its writer's order, its records contiguous.
fn check_writers(calls: &Calls<'_>, stream: usize, streams: usize, shape: &[Vec<usize>]) {
    let mut remaining_appends: Vec<_> = (0..shape.len())
        .filter(|writer| writer % streams == stream)
        .map(|writer| {
            let appends = shape[writer].iter().enumerate();
            let payloads =
                appends.map(|(n, count)| (0..*count).map(move |part| format!("{writer}/{n}/{part}")));
            payloads.map(Iterator::collect::<Vec<_>>).collect::<std::collections::VecDeque<_>>()
        })
        .collect();
    let records = calls.read(&format!("s{stream}"), 0, ALL);
    let mut rest = &payloads(&records)[..];
    while !rest.is_empty() {
        let next = remaining_appends
            .iter_mut()
            .find(|appends| appends.front().is_some_and(|a| a[0].as_bytes() == rest[0]));
        let append = next.and_then(std::collections::VecDeque::pop_front).expect("an append that was made");
        let (mine, others) = rest.split_at(append.len());
        assert!(append.iter().map(String::as_bytes).eq(mine.iter().copied()), "{append:?} is whole");
        rest = others;
    }
    assert!(remaining_appends.iter().all(std::collections::VecDeque::is_empty), "all appends are there");
}
