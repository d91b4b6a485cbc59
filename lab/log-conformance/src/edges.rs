//! Cases: reads before the first append and after the last.

use super::*;
use recount_log::RowRange;

pub fn an_empty_store_answers(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    assert_eq!(calls.last_position(), 0);
    assert_eq!(calls.tail("a"), None);
    assert_eq!(calls.row("s", "k"), None);
    assert_eq!(calls.streams(None, 10), []);
    for from in [0, 1, u64::MAX] {
        assert_eq!((calls.read("a", from, ALL), calls.feed(from, ALL)), (vec![], vec![]));
    }
    calls.check_whole();
}

pub fn integrity_counts_the_stored_content(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    calls.land(both(records("a", 0, &[b"0", b"1"]), records("b", 0, &[b""])));
    calls.land(row("s", "k", Guard::Any, Some(b"v")));
    block_on(subject.store.put_blob(Bytes::from_static(b"blob"))).unwrap();
    let found = block_on(subject.store.integrity()).unwrap();
    let expected =
        recount_log::Integrity { problems: vec![], notes: vec![], readable_streams: 2, readable_records: 3 };
    assert_eq!(found, expected);
}

pub fn stats_count_the_stored_content(make: Make<'_>) {
    let subject = make();
    let calls = Calls(&*subject.store);
    let stats = || block_on(subject.store.stats()).unwrap();
    assert_eq!((stats().last_position, stats().streams, stats().append_micros.count()), (0, 0, 0));
    calls.land(both(records("a", 0, &[b"0", b"12"]), records("b", 0, &[b""])));
    calls.land(records("a", 2, &[b"345"]));
    assert!(calls.append(records("a", 0, &[b"refused"])).is_err());
    let found = stats();
    assert_eq!((found.last_position, found.streams), (4, 2));
    assert_eq!(found.hot_records + found.sealed_records, 4);
    assert_eq!(found.hot_bytes + found.sealed_bytes, 6);
    assert_eq!((found.append_micros.count(), found.group_appends.sum), (3, 3));
    calls.land(both(cut("a", 2), erase("b")));
    let found = stats();
    assert_eq!((found.last_position, found.streams), (4, 2));
    assert_eq!(found.hot_records + found.sealed_records, 1);
    assert_eq!(found.hot_bytes + found.sealed_bytes, 3);
}

pub fn a_backup_into_an_existing_path_is_refused(make: Make<'_>) {
    let subject = make();
    Calls(&*subject.store).land(records("a", 0, &[b"0"]));
    let here = std::env::current_dir().unwrap();
    let entries = || std::fs::read_dir(&here).unwrap().count();
    let before = entries();
    let fault = block_on(subject.store.backup(here.clone())).unwrap_err();
    assert!(fault.message.contains(&here.display().to_string()), "{fault}");
    assert_eq!(entries(), before);
}

pub fn after_close_everything_is_refused(make: Make<'_>) {
    let subject = make();
    let store = &*subject.store;
    Calls(store).land(records("a", 0, &[b"0"]));
    block_on(store.close()).unwrap();
    block_on(store.close()).unwrap();
    let append = |append| kind_of(block_on(store.append(append)));
    assert_eq!(append(records("a", 1, &[b"1"])), FaultKind::Closed);
    assert_eq!(append(Append::default()), FaultKind::Closed);
    let range = RowRange::first("s", "", 1);
    let kinds = [
        kind(block_on(store.put_blob(Bytes::new()))),
        kind(block_on(store.blob(blake3::hash(b"").to_hex().as_str()))),
        kind(block_on(store.read(&"a".into(), 0, ALL))),
        kind(block_on(store.read_feed(1, ALL))),
        kind(block_on(store.tail(&"a".into()))),
        kind(block_on(store.last_position())),
        kind(block_on(store.streams(None, 1))),
        kind(block_on(store.row("s", "k"))),
        kind(block_on(store.rows(range))),
        kind(block_on(store.integrity())),
        kind(block_on(store.stats())),
        kind(block_on(store.backup(std::env::temp_dir().join("recount-never-made")))),
    ];
    assert_eq!(kinds, [FaultKind::Closed; 12]);
}

pub fn appends_accepted_before_close_are_finished(make: Make<'_>) {
    let subject = make();
    let notes = Arc::new(Notes::default());
    subject.store.observe(notes.clone());
    let answers: Vec<_> = (0..200).map(|n| subject.store.append(records("a", n, &[b"x"]))).collect();
    let closing = subject.store.close();
    for answer in answers {
        assert!(block_on(answer).is_ok());
    }
    block_on(closing).unwrap();
    assert_eq!(notes.taken().len(), 200);
}
