//! Reads before the first append and after the last.

use super::*;
use recount_log::RowRange;

pub fn an_empty_store_answers(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    assert_eq!(ask.last_position(), 0);
    assert_eq!(ask.tail("a"), None);
    assert_eq!(ask.row("s", "k"), None);
    assert_eq!(ask.streams(None, 10), []);
    for from in [0, 1, u64::MAX] {
        assert_eq!((ask.read("a", from, ALL), ask.feed(from, ALL)), (vec![], vec![]));
    }
    ask.check_whole();
}

pub fn integrity_counts_what_is_there(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    ask.land(both(records("a", 0, &[b"0", b"1"]), records("b", 0, &[b""])));
    ask.land(row("s", "k", Guard::Any, Some(b"v")));
    block_on(subject.store.put_blob(Bytes::from_static(b"blob"))).unwrap();
    let found = block_on(subject.store.integrity()).unwrap();
    let expected =
        recount_log::Integrity { problems: vec![], notes: vec![], readable_streams: 2, readable_records: 3 };
    assert_eq!(found, expected);
}

pub fn stats_count_what_is_there(make: Make<'_>) {
    let subject = make();
    let ask = Asking(&*subject.store);
    let stats = || block_on(subject.store.stats()).unwrap();
    assert_eq!((stats().last_position, stats().streams, stats().append_micros.count()), (0, 0, 0));
    ask.land(both(records("a", 0, &[b"0", b"12"]), records("b", 0, &[b""])));
    ask.land(records("a", 2, &[b"345"]));
    assert!(ask.append(records("a", 0, &[b"refused"])).is_err());
    let told = stats();
    assert_eq!((told.last_position, told.streams), (4, 2));
    assert_eq!(told.hot_records + told.sealed_records, 4);
    assert_eq!(told.hot_bytes + told.sealed_bytes, 6);
    assert_eq!((told.append_micros.count(), told.group_appends.sum), (3, 3));
    ask.land(both(cut("a", 2), erase("b")));
    let told = stats();
    assert_eq!((told.last_position, told.streams), (4, 2));
    assert_eq!(told.hot_records + told.sealed_records, 1);
    assert_eq!(told.hot_bytes + told.sealed_bytes, 3);
}

pub fn a_backup_into_what_exists_is_refused(make: Make<'_>) {
    let subject = make();
    Asking(&*subject.store).land(records("a", 0, &[b"0"]));
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
    Asking(store).land(records("a", 0, &[b"0"]));
    block_on(store.close()).unwrap();
    block_on(store.close()).unwrap();
    let append = |append| kind_of(block_on(store.append(append)));
    assert_eq!(append(records("a", 1, &[b"1"])), FaultKind::Closed);
    assert_eq!(append(Append::default()), FaultKind::Closed);
    let range = RowRange { space: "s".into(), prefix: "".into(), after: None, backwards: false, limit: 1 };
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

pub fn what_was_accepted_before_close_is_finished(make: Make<'_>) {
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
