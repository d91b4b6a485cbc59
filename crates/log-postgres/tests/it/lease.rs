//! Ownership: one node at a time, a successor after the lease of a dead one, and no write of a former owner.

use std::sync::mpsc;
use std::time::Duration;

use recount_faulty_link::{Cut, Flow, Trap};
use recount_log::{FaultKind, Store};
use recount_log_conformance::{block_on, records};
use recount_log_postgres::Database;
use recount_test_postgres::fresh_database;
use recount_world::{moment, thread};

use super::work::{
    Observed, SHORT_LEASE, Sql, append, check_dense, check_elsewhere, fault_of, link, options, short_lease,
    texts,
};

/// How long a successor may need beyond the lease, also on a busy machine.
const TAKE_OVER_MAX: Duration = Duration::from_secs(8);

#[test]
fn a_store_of_a_living_owner_is_refused() {
    let url = fresh_database();
    let first = Database::open(short_lease(&url, "first")).unwrap();
    let store = first.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    let second = Database::open(short_lease(&url, "second")).unwrap();
    let refused = second.open_store("a").err().expect("the first node lives");
    assert_eq!(refused.kind, FaultKind::Locked, "{refused}");
    assert!(refused.message.contains("first"), "the message names the owner: {refused}");
    assert_eq!(second.stores().unwrap(), ["a"]);
    let other = second.open_store("b").unwrap();
    append(&other, "s", 0, "of the other").unwrap();
    append(&store, "s", 1, "1").unwrap();
    assert_eq!(
        (texts(&store, "s"), texts(&other, "s")),
        (vec!["0".into(), "1".into()], vec!["of the other".into()])
    );
    first.close();
    second.close();
}

#[test]
fn a_closed_database_gives_its_stores_back_at_once() {
    let url = fresh_database();
    let first = Database::open(options(&url, "first")).unwrap();
    let store = first.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    block_on(store.close()).unwrap();
    first.close();
    let start = moment();
    let second = Database::open(options(&url, "second")).unwrap();
    let store = second.open_store("a").unwrap();
    println!("handed over in {:?}", start.elapsed());
    assert!(start.elapsed() < options(&url, "").lease, "nothing waits for the lease");
    append(&store, "s", 1, "1").unwrap();
    assert_eq!(texts(&store, "s"), ["0", "1"]);
    second.close();
}

#[test]
fn of_many_nodes_that_open_a_store_one_gets_it() {
    let url = fresh_database();
    let (report, outcomes) = mpsc::sync_channel(8);
    let nodes: Vec<_> = (0..8)
        .map(|node| {
            let (url, report) = (url.clone(), report.clone());
            thread("node", move || {
                let database = Database::open(options(&url, &format!("node{node}"))).unwrap();
                let opened = database.open_store("a");
                report.send(opened.map(|store| (database, store))).unwrap();
            })
        })
        .collect();
    nodes.into_iter().for_each(|node| node.join().unwrap());
    drop(report);
    let (owners, refused): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    for refusal in refused.into_iter().filter_map(Result::err) {
        assert_eq!(refusal.kind, FaultKind::Locked, "{refusal}");
    }
    assert_eq!(owners.len(), 1);
    for (database, store) in owners.into_iter().flatten() {
        append(&store, "s", 0, "0").unwrap();
        database.close();
    }
}

/// The process of the owner is frozen: nothing that it sends arrives until it continues.
#[test]
fn a_frozen_owner_is_followed_and_then_changes_nothing() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let first = Database::open(short_lease(&through, "first")).unwrap();
    let frozen = first.open_store("a").unwrap();
    let observed = Observed::of(&frozen);
    append(&frozen, "s", 0, "before").unwrap();

    link.set_both(Flow::Stall);
    let start = moment();
    // It has left the owner and arrives when the link heals.
    let late = frozen.append(records("s", 1, &[b"too late"]));
    let second = Database::open(short_lease(&url, "second")).unwrap();
    let store = second.open_store("a").unwrap();
    let took = start.elapsed();
    assert!(!frozen.is_owner() && store.is_owner(), "one node at a time causes effects");
    println!("taken over {took:?} after the owner froze, with a lease of {SHORT_LEASE:?}");
    assert!(took < SHORT_LEASE + TAKE_OVER_MAX, "{took:?}");
    assert_eq!(texts(&store, "s"), ["before"]);
    append(&store, "s", 1, "after").unwrap();

    link.heal();
    let refused = fault_of(block_on(late));
    assert_eq!(refused.kind, FaultKind::Fenced, "{refused}");
    for tail in [1, 2] {
        let refused = fault_of(append(&frozen, "s", tail, "too late"));
        assert_eq!(refused.kind, FaultKind::Fenced, "{refused}");
    }
    assert_eq!(
        block_on(frozen.put_blob("too late".into())).map_err(|fault| fault.kind),
        Err(FaultKind::Fenced)
    );
    assert_eq!(texts(&store, "s"), ["before", "after"]);
    assert_eq!(block_on(store.blobs(None, 9)).unwrap(), [""; 0]);
    assert_eq!(observed.records().len(), 1);
    append(&store, "s", 2, "still the owner").unwrap();
    let feed = check_dense(&store);
    first.close();
    append(&store, "s", 3, "the former owner gives nothing back").unwrap();
    block_on(store.close()).unwrap();
    drop(store);
    second.close();
    assert_eq!(feed.len(), 3);
    let database = Database::open(options(&url, "third")).unwrap();
    let store = database.open_store("a").unwrap();
    assert_eq!(check_dense(&store).len(), 4);
    database.close();
}

/// The lease has been ended by another node, which has not taken the store yet.
#[test]
fn a_commit_after_the_end_of_the_lease_is_fenced_before_another_node_owns_the_store() {
    let url = fresh_database();
    let first = Database::open(options(&url, "first")).unwrap();
    let store = first.open_store("a").unwrap();
    append(&store, "s", 0, "before").unwrap();
    assert_eq!(Sql::connect(&url).change("DELETE FROM recount.nodes"), 1);
    let refused = fault_of(append(&store, "s", 1, "too late"));
    assert_eq!(refused.kind, FaultKind::Fenced, "{refused}");
    assert!(!store.is_owner());
    first.close();
    let second = Database::open(options(&url, "second")).unwrap();
    assert_eq!(texts(&second.open_store("a").unwrap(), "s"), ["before"]);
    second.close();
}

/// The network delivers the take-over of an earlier attempt to open the store when the store is open: this node replaces
/// itself. It must not keep the store.
#[test]
fn an_owner_that_was_replaced_by_itself_ends_its_lease() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let first = Database::open(short_lease(&through, "first")).unwrap();
    let store = first.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    let sql = Sql::connect(&url);
    link.set_trap(b"no answer", Trap::SwallowAnswer);
    let waiting = store.append(records("s", 1, &[b"no answer"]));
    link.wait_for("the commit", |traffic| traffic.sprung == 1);
    sql.wait("(SELECT last_position FROM recount.stores) = 2");
    assert_eq!(sql.change("UPDATE recount.stores SET epoch = epoch + 1"), 1);
    link.cut(Cut::Reset);
    let fault = fault_of(block_on(waiting));
    assert_eq!(fault.kind, FaultKind::Io, "{fault}");
    assert!(fault.message.contains("may have been committed"), "{fault}");
    let second = Database::open(short_lease(&url, "second")).unwrap();
    let store = second.open_store("a").expect("the first node does not renew its lease");
    assert_eq!(texts(&store, "s"), ["0", "no answer"]);
    first.close();
    second.close();
}

/// A server closes its stores one after the other, while calls of tools may still wait.
#[test]
fn a_store_that_is_closed_allows_no_effects_although_the_lease_is_valid() {
    let url = fresh_database();
    let first = Database::open(options(&url, "first")).unwrap();
    let (closed, open) = (first.open_store("a").unwrap(), first.open_store("b").unwrap());
    assert!(closed.is_owner());
    block_on(closed.close()).unwrap();
    let second = Database::open(options(&url, "second")).unwrap();
    let store = second.open_store("a").unwrap();
    assert!(!closed.is_owner() && store.is_owner(), "one node at a time causes effects");
    assert!(open.is_owner());
    first.close();
    second.close();
}

/// A network that is cut in one direction: the owner still sends, and receives no answer.
#[test]
fn an_owner_without_answers_is_followed() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let first = Database::open(short_lease(&through, "first")).unwrap();
    let cut_off = first.open_store("a").unwrap();
    append(&cut_off, "s", 0, "before").unwrap();
    link.set(recount_faulty_link::Direction::ToClient, Flow::Stall);
    let unknown = cut_off.append(records("s", 1, &[b"sent"]));
    let second = Database::open(short_lease(&url, "second")).unwrap();
    let start = moment();
    let store = second.open_store("a").unwrap();
    println!("taken over in {:?}", start.elapsed());
    assert!(!cut_off.is_owner() && store.is_owner(), "one node at a time causes effects");
    let landed = texts(&store, "s");
    assert!(landed == ["before"] || landed == ["before", "sent"], "{landed:?}");
    append(&store, "s", landed.len() as u64, "after").unwrap();
    link.heal();
    let outcome = block_on(unknown);
    match (&outcome, landed.len()) {
        // It was committed, and the owner found that out.
        (Ok(_), 2) => {}
        (Err(_), length) => println!("{length} records, and the former owner got {outcome:?}"),
        (Ok(_), _) => panic!("acknowledged and lost: {outcome:?}"),
    }
    let refused = fault_of(append(&cut_off, "s", landed.len() as u64, "too late"));
    assert_eq!(refused.kind, FaultKind::Fenced, "{refused}");
    let feed = check_dense(&store);
    block_on(store.close()).unwrap();
    second.close();
    check_elsewhere(&url, "a", &feed);
    first.close();
}

#[test]
fn an_owner_that_is_only_slow_stays_the_owner() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let first = Database::open(short_lease(&through, "first")).unwrap();
    let store = first.open_store("a").unwrap();
    let start = moment();
    // Each round trip takes a quarter of the lease, for several leases.
    link.set_both(Flow::Delay(SHORT_LEASE / 8));
    let mut tail = 0;
    while start.elapsed() < SHORT_LEASE * 3 {
        append(&store, "s", tail, "slow").unwrap();
        tail += 1;
    }
    let second = Database::open(short_lease(&url, "second")).unwrap();
    assert_eq!(second.open_store("a").err().map(|fault| fault.kind), Some(FaultKind::Locked));
    link.heal();
    assert_eq!(check_dense(&store).len() as u64, tail);
    first.close();
    second.close();
}

/// The store belongs to a node that does not know it.
#[test]
fn an_opening_that_failed_can_be_repeated() {
    let url = fresh_database();
    let (link, through) = link(&url);
    let database = Database::open(options(&through, "first")).unwrap();
    let mut sprung = 0;
    for takes in [true, false] {
        for trap in [Trap::ResetBefore, Trap::SwallowAnswer] {
            let name = format!("store {takes} {trap:?}");
            let swallowed = link.traffic().swallowed;
            // The parameters of the statement that takes the store: its name, and the length and name of the node.
            let taking = [name.as_bytes(), &[0, 0, 0, 14], b"first-"].concat();
            link.set_trap(if takes { &taking } else { b".streams (" }, trap);
            let (opening, named) = (database.clone(), name.clone());
            let (report, outcome) = mpsc::sync_channel(1);
            let opener = thread("opener", move || report.send(opening.open_store(&named)).unwrap());
            sprung += 1;
            link.wait_for("the trap", |traffic| traffic.sprung == sprung);
            if trap == Trap::SwallowAnswer {
                link.wait_for("the answer", |traffic| traffic.swallowed > swallowed);
                link.cut(Cut::Reset);
            }
            opener.join().unwrap();
            let fault = outcome.recv().unwrap().err().expect("the opening failed");
            assert_eq!(fault.kind, FaultKind::Io, "{name}: {fault}");
            let store = database.open_store(&name).unwrap();
            append(&store, "s", 0, "0").unwrap();
            check_dense(&store);
        }
    }
    database.close();
}

/// Its lease has ended, and no other node has noticed.
#[test]
fn a_node_does_not_end_its_own_lease_when_it_opens_a_store() {
    let url = fresh_database();
    let database = Database::open(options(&url, "first")).unwrap();
    let store = database.open_store("a").unwrap();
    append(&store, "s", 0, "0").unwrap();
    let sql = Sql::connect(&url);
    assert_eq!(sql.change("UPDATE recount.nodes SET until = clock_timestamp() - interval '1 second'"), 1);
    let other = database.open_store("b").unwrap();
    append(&other, "s", 0, "0").unwrap();
    append(&store, "s", 1, "1").unwrap();
    database.close();
}

#[test]
fn any_text_is_the_name_of_a_store() {
    let url = fresh_database();
    let database = Database::open(options(&url, "first")).unwrap();
    let long = "long ".repeat(200);
    let mut names =
        ["", "A b", "a b", "it's \"quoted\"; DROP SCHEMA recount;--", "\\' \u{e9}\u{1f600}", &long];
    for name in names {
        append(&database.open_store(name).unwrap(), "s", 0, name).unwrap();
        assert_eq!(
            database.open_store(name).err().map(|fault| fault.kind),
            Some(FaultKind::Locked),
            "{name}"
        );
    }
    names.sort_unstable();
    assert_eq!(database.stores().unwrap(), names);
    let refused = database.open_store("a\0b").err().expect("no text of PostgreSQL has this character");
    println!("{refused}");
    database.close();
    let database = Database::open(options(&url, "second")).unwrap();
    for name in names {
        assert_eq!(texts(&database.open_store(name).unwrap(), "s"), [name]);
    }
    database.close();
}
