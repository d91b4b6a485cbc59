//! Changing what a store holds behind its back, as a person with the file and a SQLite tool could.

use std::path::Path;

/// Changes the words of a run's first event where it is kept for good: everything is sealed first, since
/// what is not sealed yet is guarded by a sum beside it.
pub(crate) async fn change_first_event(data: &Path, run: &str) {
    recount_server::verify::seal(data).await.unwrap();
    let store = rusqlite::Connection::open(data.join("recount.db")).unwrap();
    let changed = store
        .execute(
            "UPDATE chunks SET events = replace(events, 'say hello', 'say jello')
             WHERE first_sequence = 0 AND stream = (SELECT id FROM streams WHERE key = ?1)",
            [run],
        )
        .unwrap();
    assert_eq!(changed, 1);
}
