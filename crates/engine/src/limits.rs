//! Limits of the engine: the default, and the behavior when each is reached.

use std::time::Duration;

/// Commands waiting for one run's writer; further senders wait.
pub const INBOX_MAX: usize = 256;

/// Commands in one append; the others wait for the next.
pub const APPEND_COMMANDS_MAX: usize = 128;

/// Cached redactions of sessions with secret options; beyond that all are dropped and rebuilt on use.
pub const SESSION_REDACTIONS_MAX: usize = 256;

/// Bytes of events after which an append takes no more commands.
pub const APPEND_BYTES_MAX: usize = 1 << 20;

/// Producers of one run whose newest batch the writer caches; beyond that all are dropped and read from the store.
pub const PRODUCERS_REMEMBERED_MAX: usize = 1024;

/// Events in one batch from a producer; more is refused with `limit_reached`.
pub const BATCH_EVENTS_MAX: usize = 1000;

/// Runs with an active writer; a command to another run is refused with `store_busy` until a writer stops.
pub const AWAKE_MAX: usize = 20_000;

/// Events and catalogue rows of an imported run: one append, because a run is imported completely or not at all. A
/// larger run is refused with `limit_reached`.
pub const IMPORT_ENTRIES_MAX: usize = recount_log::limits::APPEND_ENTRIES_MAX;

/// Bytes of an imported run, including rows; more is refused with `limit_reached`.
pub const IMPORT_BYTES_MAX: usize = recount_log::limits::APPEND_BYTES_MAX;

/// Events of an import that are processed before it yields to other tasks.
pub const IMPORT_SLICE_EVENTS: usize = 500;

/// Attempts of an import while other requests write the same run or task; then `store_busy`.
pub const IMPORT_TRIES: usize = 4;

/// New runs that are cached for their first worker; of more the oldest are read from the store.
pub const FRESH_MAX: usize = 1024;

/// Bytes of their events; beyond that the oldest are read from the store.
pub const FRESH_BYTES_MAX: usize = 8 << 20;

/// How long an idle writer stays active; then it stops, and the next command starts another.
pub const WRITER_IDLE: Duration = Duration::from_secs(60);

/// The same after the ending: many short runs may end within a minute, and little is appended after an ending.
pub const WRITER_IDLE_ENDED: Duration = Duration::from_millis(20);

/// Live lists of runs that exist before unused ones are removed; after that they are removed when half of the lists
/// are unused.
pub const LISTS_KEPT_MIN: usize = 64;

/// Bytes of cached rows; the oldest are dropped and read from the store. A row larger than a sixteenth of this is not
/// cached.
pub const REMEMBERED_BYTES_MAX: usize = 8 << 20;

/// The fixed cost of a cached row, in bytes.
pub const REMEMBERED_ROW_BYTES: usize = 200;

/// Rows of appends with an unknown outcome, because their caller was cancelled; beyond that nothing is cached.
pub const REMEMBERED_DOUBTS_MAX: usize = 10_000;

/// Sessions whose latest own run is cached; the oldest entry is dropped and looked up on use.
pub const LATEST_RUNS_MAX: usize = 10_000;

/// Characters of a source name in the row of a run; a longer name is not shown in lists.
pub const SOURCE_CHARS_MAX: usize = 64;

/// Events read at a time for a replay or for history; the rest follows in more pages.
pub const PAGE_EVENTS: usize = 500;

/// Bytes read at a time for a replay or for history; the rest follows in more pages.
pub const PAGE_BYTES: usize = 256 << 10;

/// Events in a framed page of history; the byte limit may end it sooner.
pub const PAGE_FRAMES: usize = 4096;

/// Concurrent reads of history pages by all readers; further readers wait.
pub const HISTORY_READS_MAX: usize = 256;

/// Pages that are read ahead for readers; a reader without a permit reads its next page after it has written the
/// current one.
pub const HISTORY_READS_AHEAD_MAX: usize = 16;

/// Events scanned for one page of messages; the page may then be short, and its cursor continues.
pub const MESSAGES_SCAN_MAX: usize = 5_000;

/// Bytes of events and frames kept for the live readers of one run, not counting decoded events; a slower reader is
/// served from the store.
pub const RUN_LIST_BYTES_MAX: usize = 4 << 20;

/// Bytes of the lists of recently ended runs, kept for late readers; later readers, and readers of lists larger than
/// a sixteenth of this, are served from the store.
pub const ENDED_LISTS_BYTES_MAX: usize = 2 << 20;

/// The fixed cost of such a list, in bytes.
pub const LIST_BYTES: usize = 500;

/// Bytes of events and frames kept for the live readers of the feed; a slower reader is served from the store.
pub const FEED_LIST_BYTES_MAX: usize = 8 << 20;

/// Derived values of an event that are shared by all readers, one for each face; further values are computed for each
/// reader.
pub const FACE_SLOTS: usize = 4;

/// Bytes of live events that are merged into one write; more events follow in the next.
pub const MERGE_BYTES_MAX: usize = 64 << 10;

/// Rows scanned for one page of a filtered list; the page may then be short, and its cursor continues.
pub const LIST_SCAN_MAX: usize = 1000;

/// Rows read at a time for a filtered list; more are read as needed.
pub const LIST_CHUNK: usize = 200;

/// Deadlines loaded at a time when the engine opens; the rest follows in more pages.
pub const TIMER_PAGE: usize = 1000;

/// How long a timer waits for the next attempt after the store failed.
pub const TIMER_RETRY: Duration = Duration::from_secs(1);

/// The same after the writer of the run panicked, which is unlikely to resolve itself.
pub const TIMER_RETRY_BROKEN: Duration = Duration::from_secs(60);

/// The time for each kind of task to end at shutdown; remaining tasks are aborted.
pub const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// Attempts of a sender to reach a writer that stops at the same time; then it fails.
pub const WAKE_TRIES: usize = 16;

/// The suggested wait before a retry after a temporary failure.
pub const TRY_AGAIN: Duration = Duration::from_secs(1);

/// How long a request waits for the end of a patch run; then the response shows the run as it is.
pub const PATCH_RUN_WAIT: Duration = Duration::from_secs(60);

/// The longest wait that is measured by elapsed time; a later deadline depends on the clock only.
pub const TIMER_WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// Bytes written and deleted to check for space after an append found none.
pub const SPACE_PROBE_BYTES: usize = 64 << 10;

/// Rows deleted by one prune; a run with more prompts and artifacts is pruned in several steps.
pub const PRUNE_ROWS_MAX: usize = 30_000;

/// Rows that one event may change when it is removed.
pub const EVENT_ROWS_MAX: usize = 12;

/// Prompts with one id that are checked for a pending one; an older store may have more, and the newest are then not
/// found by id.
pub const PROMPT_NAMESAKES_MAX: usize = 64;

/// Rows written together when the catalogue is rebuilt; more are written in several appends.
pub const RESTORE_ROWS: usize = 2_000;

/// Rows deleted by one append before a run is erased; more are deleted in several appends.
pub const ERASE_ROWS_MAX: usize = 10_000;

/// Runs of a task or session read at a time while it is deleted; the rest follows in more pages.
pub const ERASE_PAGE: usize = 100;

/// Runs that one sweep prunes; the next sweep continues.
pub const SWEEP_RUNS_MAX: usize = 1000;

/// Runs that the plan of a sweep names; further ones are only counted.
pub const SWEEP_PLAN_RUNS_MAX: usize = 1000;

/// Run rows that a sweep reads at a time; the rest follows in more pages.
pub const SWEEP_PAGE: usize = 500;

/// How long a pending deletion waits for the next attempt after the store failed.
pub const ERASE_RETRY: Duration = Duration::from_secs(5);

/// How long the signing of heads pauses after the store failed.
pub const SIGNING_RETRY: Duration = Duration::from_secs(5);

/// Keys that sign heads, retired ones included; one more is refused with `limit_reached`.
pub const SIGNING_KEYS_MAX: usize = 1000;

/// Dead letters of a webhook that are kept; a newer one replaces the oldest, and all are counted.
pub const DEAD_LETTERS_KEPT: u64 = 1_000;

/// Tokens of all tenants; one more is refused with `limit_reached`.
pub const TOKENS_MAX: usize = 10_000;

/// Events scanned for one page of a filtered feed; the page may then be short, and its cursor continues.
pub const FEED_SCAN_MAX: usize = 20_000;

/// Events that a filter may hide from a stream before it gets a new cursor.
pub const HIDDEN_MAX: u64 = 1_000;

/// How long an idempotency key is stored; after that the request is executed again.
pub const IDEMPOTENCY_KEY_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Expired idempotency keys deleted with each new key; more than one, so that they decrease.
pub const IDEMPOTENCY_KEYS_DELETED_AT_A_TIME: usize = 8;

/// How long a worker's claim on a run is valid. On one node the lock on the data folder replaces it: the next process
/// takes over at once.
pub const LEASE: Duration = Duration::from_secs(30);

/// Workers that a run may lose in a row; then it fails with `worker_lost`.
pub const WORKERS_LOST_MAX: u32 = 3;

/// Attempts to revoke an allowance while the same call is approved again; then `store_busy`.
pub const REVOKE_TRIES: usize = 8;

/// How long a run that lost its worker waits for the next one.
pub const WORKER_RETRY: Duration = Duration::from_secs(1);

// ---- artifacts ----

/// Bytes of one artifact; of more only the beginning is stored, and the event says so. A larger upload is refused
/// with `limit_reached`.
pub const ARTIFACT_BYTES_MAX: usize = 10 << 20;

/// Bytes after that limit that are checked for the end of a secret that starts before it.
pub const ARTIFACT_MASK_BEYOND: usize = 4 << 10;

/// Bytes in which a zero byte marks binary data.
pub const ARTIFACT_SNIFFED_BYTES: usize = 8_000;

/// Bytes of the artifacts of a task, or of a run without a task, by default; more is refused with `artifact_quota`.
pub const TASK_ARTIFACT_BYTES_MAX: u64 = 100 << 20;

/// Artifacts of a task, or of a run without a task, by default; more is refused with `artifact_quota`.
pub const TASK_ARTIFACTS_MAX: usize = 10_000;

/// Tasks whose artifact usage is cached; beyond that all entries are dropped and counted again.
pub const QUOTAS_REMEMBERED_MAX: usize = 1_000;

/// Artifacts with one id that are read; the newest are then not found by id.
pub const ARTIFACT_NAMESAKES_MAX: usize = 64;

/// Changes of one artifact that are read; later ones are only in their events.
pub const ARTIFACT_CHANGES_MAX: usize = 64;

/// Stored blobs without a name; beyond that those that should have been named long ago are released.
pub const BLOBS_UNNAMED_MAX: usize = 4_096;

/// How long a blob may be stored without a name; after that it may be deleted.
pub const BLOB_UNNAMED_LIFE: Duration = Duration::from_secs(60 * 60);

/// Blobs read at a time when unused ones are searched; the rest follows in more pages.
pub const BLOB_PAGE: usize = 500;

/// How long an upload waits for a run; then it expires.
pub const UPLOAD_LIFE: Duration = Duration::from_secs(24 * 60 * 60);

/// Unused uploads; one more is refused with `artifact_quota`.
pub const UPLOADS_MAX: usize = 1_000;

/// Bytes of unused uploads by default; more is refused with `artifact_quota`.
pub const UPLOADS_BYTES_MAX: u64 = 1 << 30;

/// The pause between two searches for expired uploads.
pub const UPLOAD_SWEEP: Duration = Duration::from_secs(60 * 60);

/// Expired uploads deleted together; more are deleted in several appends.
pub const UPLOADS_FORGOTTEN_AT_A_TIME: usize = 100;

// ---- sealed originals ----

/// Bytes of one sealed original, more than an event may have; more is refused with `limit_reached`, together with its
/// call.
pub const SEALED_BYTES_MAX: usize = 2 << 20;

// ---- the scrub ----

/// Bytes of events that the scrub reads at a time; then it pauses.
pub const SCRUB_PAGE_BYTES: usize = 256 << 10;

/// The pause after each page: at most 4 MiB per second are read.
pub const SCRUB_PAGE_WAIT: Duration = Duration::from_millis(64);

/// The pause before the next round, also after startup.
pub const SCRUB_EVERY: Duration = Duration::from_secs(600);

/// Damage findings that are shown; further ones are counted, and are in the server's log.
pub const SCRUB_FINDINGS_MAX: usize = 100;

/// Damaged locations that are tracked, so that each is counted and logged once; further ones are ignored until a
/// scrub round ends.
pub const DAMAGED_PLACES_MAX: usize = 2_000;

/// Attempts to rewrite damaged rows while their runs change; then they stay until the next read or scrub round.
pub const REPAIR_TRIES: usize = 5;

/// Catalogue rows rewritten together; more are written in several pieces.
pub const REPAIR_ROWS_MAX: usize = 1_000;

/// Bytes of these rows after which a piece is written.
pub const REPAIR_BYTES_MAX: usize = 4 << 20;

/// Unrepairable damage that reads do not try to repair again before the next scrub round; beyond it reads repair
/// nothing until then, and the scrub's findings say so.
pub const REPAIRS_GIVEN_UP_MAX: usize = 1_000;

// ---- budgets ----

/// Attempts to queue a run while other requests change its task; then `store_busy`.
pub const QUEUE_TRIES: usize = 8;

// ---- sessions of applications ----

/// Bytes of the seed messages of a session; more is refused with `limit_reached`.
pub const SEED_BYTES_MAX: usize = 24 << 20;

/// Bytes of seed messages in one row; the rest goes into more rows.
pub const SEED_ROW_BYTES: usize = 1 << 20;

/// Bytes of a session's setup including client tools, and of one secret; more is refused with `limit_reached`.
pub const SETUP_BYTES_MAX: usize = 1 << 20;

/// Newest runs of a session that are searched for the copy that a message continues in; if none is an agent's, the
/// session's own copy is used.
pub const SESSION_RUNS_SEARCHED_MAX: usize = 20;

/// Sessions whose newest copy is known without reading; beyond it all are read again.
pub const SESSION_COPIES_MAX: usize = 10_000;

/// Earlier runs of a chain that are checked before a run is resumed; those before are not checked.
pub const LINEAGE_RUNS_MAX: usize = 500;

/// Events of a session's history; a longer one is refused with `limit_reached`.
pub const HISTORY_EVENTS_MAX: usize = 500_000;

/// Bytes of these events; more is refused with `limit_reached`.
pub const HISTORY_BYTES_MAX: usize = 64 << 20;

/// Runs of a session in its totals, the latest first; earlier ones are left out.
pub const SESSION_TOTALS_RUNS_MAX: usize = 1_000;
