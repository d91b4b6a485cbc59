//! Every bound of the engine, its default, and what happens at it.

use std::time::Duration;

/// Commands waiting for one run's writer; who sends more waits.
pub const INBOX_MAX: usize = 256;

/// Commands one append may carry; the others wait for the next.
pub const APPEND_COMMANDS_MAX: usize = 128;

/// Redactions of sessions with secret options that are remembered; beyond, all are made again when they are needed.
pub const SESSION_REDACTIONS_MAX: usize = 256;

/// Bytes of events after which an append takes no further command.
pub const APPEND_BYTES_MAX: usize = 1 << 20;

/// Producers of one run whose newest batch its writer remembers; beyond that it forgets all and asks the store.
pub const PRODUCERS_REMEMBERED_MAX: usize = 1024;

/// Events in one batch from a producer; more is refused with `limit_reached`.
pub const BATCH_EVENTS_MAX: usize = 1000;

/// Runs with a writer awake at a time; a command to another one is refused with `store_busy` until one of
/// them has gone to sleep.
pub const AWAKE_MAX: usize = 20_000;

/// Events of a run that is imported, and rows of the catalogue that come with them: what one append takes,
/// because a run comes in whole or not at all. A larger run is refused with `limit_reached`.
pub const IMPORT_ENTRIES_MAX: usize = recount_log::limits::APPEND_ENTRIES_MAX;

/// Bytes of a run that is imported, rows included; more is refused with `limit_reached`.
pub const IMPORT_BYTES_MAX: usize = recount_log::limits::APPEND_BYTES_MAX;

/// Events of an import that are read before other tasks have their turn.
pub const IMPORT_SLICE_EVENTS: usize = 500;

/// How often an import looks again when another client has just written the same run or task; then
/// `store_busy`.
pub const IMPORT_TRIES: usize = 4;

/// Runs that have just started and are kept in memory until a worker takes them; of more the oldest are
/// read back from the store.
pub const FRESH_MAX: usize = 1024;

/// Bytes of the events of those; beyond that the oldest are read back from the store.
pub const FRESH_BYTES_MAX: usize = 8 << 20;

/// How long a writer without work stays awake; then it ends, and the next command wakes another.
pub const WRITER_IDLE: Duration = Duration::from_secs(60);

/// The same when its run has ended: many short runs may end within a minute, and hardly anything is written behind an
/// ending.
pub const WRITER_IDLE_ENDED: Duration = Duration::from_millis(20);

/// Lists of runs' live events below which it is not looked which of them nobody follows any more; from there on they are
/// taken away when half of them are such.
pub const LISTS_KEPT_MIN: usize = 64;

/// Bytes of rows that are remembered as they were read last; the oldest go, and are read again when they are needed. A
/// row larger than a sixteenth of it is not remembered.
pub const REMEMBERED_BYTES_MAX: usize = 8 << 20;

/// What a row that is remembered counts beside what it holds.
pub const REMEMBERED_ROW_BYTES: usize = 200;

/// Rows of which it is not known whether an append has changed them, because the caller went away; beyond
/// that nothing is remembered any more.
pub const REMEMBERED_DOUBTS_MAX: usize = 10_000;

/// Sessions of which it is remembered which run of ours began last; the one that was heard of first goes, and is
/// looked up when it is needed.
pub const LATELY_MAX: usize = 10_000;

/// Characters of the name of a run's source in its row; a longer one is not shown in lists.
pub const SOURCE_CHARS_MAX: usize = 64;

/// Events read at a time when a run is replayed or history is sent.
pub const PAGE_EVENTS: usize = 500;

/// Bytes read at a time when a run is replayed or history is sent.
pub const PAGE_BYTES: usize = 256 << 10;

/// Events in a page of history that is framed for a reader; its bytes end it sooner.
pub const PAGE_FRAMES: usize = 4096;

/// Pages of history read at a time for all readers; who needs another waits.
pub const HISTORY_READS_MAX: usize = 256;

/// Pages read before their readers ask, and kept until they do; a reader that gets no place reads its next
/// page when it has written the one before.
pub const HISTORY_READS_AHEAD_MAX: usize = 16;

/// Events looked at to fill one page of what was said in a session; the page may then be short, its cursor goes on.
pub const MESSAGES_SCAN_MAX: usize = 5_000;

/// Bytes of events and their frames kept for the live readers of one run; decoded events are not counted; a reader that falls off is served from the store.
pub const RUN_LIST_BYTES_MAX: usize = 4 << 20;

/// Bytes of the lists of runs that ended last, which are kept for who comes a little late; who comes later is served from
/// the store, and so is who follows one that has more than a sixteenth of it.
pub const ENDED_LISTS_BYTES_MAX: usize = 2 << 20;

/// What such a list counts beside its frames.
pub const LIST_BYTES: usize = 500;

/// Bytes of events and their frames kept for the live readers of the feed; a reader that falls off is served from the store.
pub const FEED_LIST_BYTES_MAX: usize = 8 << 20;

/// Faces that may keep what they make of an event beside it; what more of them make is made for each reader.
pub const FACE_SLOTS: usize = 4;

/// Bytes of live events handed over at once, so that they leave in one write.
pub const MERGE_BYTES_MAX: usize = 64 << 10;

/// Rows looked at to fill one page of a filtered list; the page may then be short, its cursor goes on.
pub const LIST_SCAN_MAX: usize = 1000;

/// Rows looked at together when a list is filtered.
pub const LIST_CHUNK: usize = 200;

/// Deadlines loaded at a time when the engine opens.
pub const TIMER_PAGE: usize = 1000;

/// How long a timer waits before it tries again when the store was not able to settle it.
pub const TIMER_RETRY: Duration = Duration::from_secs(1);

/// The same when the run's writer died of it, which is not expected to pass by itself.
pub const TIMER_RETRY_BROKEN: Duration = Duration::from_secs(60);

/// How long each kind of task is given to end at shutdown.
pub const SHUTDOWN_PATIENCE: Duration = Duration::from_secs(5);

/// How often a sender looks for a writer that has just gone to sleep before it gives up.
pub const WAKE_TRIES: usize = 16;

/// When to come again after a failure that may pass.
pub const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How long the end of a run is waited for that applies, rejects or reverts a patch; then the answer shows the run as it is.
pub const PATCH_RUN_WAIT: Duration = Duration::from_secs(60);

/// The longest wait that is measured by the time that passes; a later deadline comes by the clock alone.
pub const TIMER_WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Bytes that are written, and taken away again, to see whether there is space after an append found none.
pub const SPACE_PROBE_BYTES: usize = 64 << 10;

/// Rows that leave the lists with one prune; a run that asked or made more is pruned in several steps.
pub const PRUNE_ROWS_MAX: usize = 30_000;

/// Rows that one event may change when it goes.
pub const EVENT_ROWS_MAX: usize = 12;

/// Questions, or handoffs, of one id that are looked at for one that is open; a store that was written before
/// an id had to name one may have more, and those that were asked last are then not found by it.
pub const PROMPT_NAMESAKES_MAX: usize = 64;

/// Rows that are written together when the catalogue is made again.
pub const RESTORE_ROWS: usize = 2_000;

/// Rows deleted by one append before a run is erased.
pub const ERASE_ROWS_MAX: usize = 10_000;

/// Runs of a task or a session looked at together while it is deleted.
pub const ERASE_PAGE: usize = 100;

/// Runs that one round of a sweep prunes; the next round goes on.
pub const SWEEP_RUNS_MAX: usize = 1000;

/// Rows of runs that a sweep reads at a time.
pub const SWEEP_PAGE: usize = 500;

/// How long finishing an open deletion waits after the store failed.
pub const ERASE_RETRY: Duration = Duration::from_secs(5);

/// Tokens there may be, of all tenants; one more is refused with `limit_reached`.
pub const TOKENS_MAX: usize = 10_000;

/// Events of the feed that one page looks at for what passes a filter; then it ends, with what it has, and a cursor
/// to go on from.
pub const FEED_SCAN_MAX: usize = 20_000;

/// Events that a filter may hide from a stream before it is told how far it has come.
pub const HIDDEN_MAX: u64 = 1_000;

/// How long what came of a request that carries a key of its own is remembered; after that it is done again.
pub const ONCE_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Requests too old that are forgotten with each that is remembered: more than one, so that they grow fewer.
pub const ONCE_FORGOTTEN_AT_A_TIME: usize = 8;

/// How long a worker's claim on a run is good. On one node the lock on the data folder stands for it: the next process
/// takes over at once.
pub const LEASE: Duration = Duration::from_secs(30);

/// Workers that a run may lose in a row; then it fails with `worker_lost`.
pub const WORKERS_LOST_MAX: u32 = 3;

/// How often taking an allowance back is tried while the same call is being allowed anew; then it is refused with
/// `store_busy`.
pub const TAKE_BACK_TRIES: usize = 8;

/// How long a run whose worker was lost waits for the next.
pub const WORKER_RETRY: Duration = Duration::from_secs(1);

// ---- artifacts ----

/// Bytes of one artifact; of more only the head is kept, and the event says so. What is sent in is refused with
/// `limit_reached` instead.
pub const ARTIFACT_BYTES_MAX: usize = 10 << 20;

/// Bytes behind those that are looked at for the end of a secret that begins before the cut.
pub const ARTIFACT_MASK_BEYOND: usize = 4 << 10;

/// Bytes in which a zero tells that something is not text.
pub const ARTIFACT_SNIFFED_BYTES: usize = 8_000;

/// Bytes that the artifacts of a task, or of a run without one, may have by default; more is refused with
/// `artifact_quota`.
pub const TASK_ARTIFACT_BYTES_MAX: u64 = 100 << 20;

/// Artifacts that a task, or a run without one, may keep by default; more is refused with `artifact_quota`.
pub const TASK_ARTIFACTS_MAX: usize = 10_000;

/// Tasks of which it is remembered how much they keep; beyond that all are forgotten and counted again.
pub const QUOTAS_REMEMBERED_MAX: usize = 1_000;

/// Artifacts of one id that are looked at; those that were made last are then not found by it.
pub const ARTIFACT_NAMESAKES_MAX: usize = 64;

/// Changes of one artifact that are looked at; later ones are then to be read from their events.
pub const ARTIFACT_CHANGES_MAX: usize = 64;

/// Blobs that are kept and not named yet, before those are let go that should have been named long ago.
pub const BLOBS_UNNAMED_MAX: usize = 4_096;

/// How long a blob may be kept without being named; after that it may be taken away.
pub const BLOB_UNNAMED_LIFE: Duration = Duration::from_secs(60 * 60);

/// Blobs looked at together when those are looked for that nobody needs.
pub const BLOB_PAGE: usize = 500;

/// How long what was sent in waits for a run that uses it; then it is forgotten.
pub const UPLOAD_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Things that wait for a run; one more is refused with `artifact_quota`.
pub const UPLOADS_MAX: usize = 1_000;

/// Bytes of those by default; more is refused with `artifact_quota`.
pub const UPLOADS_BYTES_MAX: u64 = 1 << 30;

/// How often things are looked for that waited too long.
pub const UPLOAD_SWEEP: Duration = Duration::from_secs(60 * 60);

/// Things that waited too long and are forgotten together.
pub const UPLOADS_FORGOTTEN_AT_A_TIME: usize = 100;

// ---- sealed originals ----

/// Bytes of one original that is sealed: more than an event may hold; more is refused with `limit_reached`, and
/// its call with it.
pub const SEALED_BYTES_MAX: usize = 2 << 20;

// ---- the scrub ----

/// Bytes of events that the scrub reads in one piece; then it waits.
pub const SCRUB_PAGE_BYTES: usize = 256 << 10;

/// How long it waits after each piece: at most 4 MiB a second are read.
pub const SCRUB_PAGE_WAIT: Duration = Duration::from_millis(64);

/// How long after the end of a round, and after the start of the server, the next round begins.
pub const SCRUB_EVERY: Duration = Duration::from_secs(600);

/// Sentences about damage that are shown; what is found beyond them is counted, and it is in the server's log.
pub const SCRUB_FINDINGS_MAX: usize = 100;

/// Damaged places that are kept, so that each is counted and logged once; what is found beyond them is neither counted nor
/// logged until a round of the scrub has ended.
pub const DAMAGED_PLACES_MAX: usize = 2_000;

/// How often damaged rows are folded and written anew in one go while their runs go on; then they stay until the next read
/// of them, or the next round of the scrub.
pub const REPAIR_TRIES: usize = 5;

/// Rows of the catalogue that are written anew together; more are written in several pieces.
pub const REPAIR_ROWS_MAX: usize = 1_000;

/// Bytes of those after which a piece is written, whatever else is missing.
pub const REPAIR_BYTES_MAX: usize = 4 << 20;

/// Damage that was not repaired and that no read tries to repair again before the next round of the scrub; beyond it, no
/// read tries to repair anything until then, and the scrub's findings say so.
pub const REPAIRS_GIVEN_UP_MAX: usize = 1_000;

// ---- budgets ----

/// How often a run is queued again when another client has just changed its task; then `store_busy`.
pub const QUEUE_TRIES: usize = 8;

// ---- sessions of applications ----

/// Bytes of what was said before a session began; more is refused with `limit_reached`.
pub const SEED_BYTES_MAX: usize = 24 << 20;

/// Bytes of it that one row holds; the rest goes into more rows.
pub const SEED_ROW_BYTES: usize = 1 << 20;

/// Bytes of what is chosen for a session, tools of the application included, and of one secret; more is refused with
/// `limit_reached`.
pub const SETUP_BYTES_MAX: usize = 1 << 20;

/// Earlier runs of a chain that are looked at before a run is resumed; those before are not looked at.
pub const LINEAGE_RUNS_MAX: usize = 500;

/// Events that a session's history is made of; a longer one is refused with `limit_reached`.
pub const HISTORY_EVENTS_MAX: usize = 500_000;

/// Bytes of those by default; more is refused with `artifact_quota`.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;

/// Runs of a session whose use is added up, the latest first; those before them are left out.
pub const STANDING_RUNS_MAX: usize = 1_000;
