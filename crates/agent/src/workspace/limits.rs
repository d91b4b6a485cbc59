//! Limits of workspaces: copies, diffs, applied changes and claims. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// Links that are followed from one `.git`; the operating system does not follow more either.
pub(crate) const GIT_LINKS_MAX: usize = 40;

/// How long an apply waits for tools that still run in the folder or its copy; then it is refused with `run_active`.
/// Tools of a cancelled run take up to `CANCEL_PATIENCE` to end.
pub(crate) const CLAIM_EXCLUSIVE_WAIT: Duration = Duration::from_secs(10);

/// How long a run waits for an apply to its folder; then preparing the folder fails with `workspace_failed`, and a call
/// with `workspace_busy`.
pub(crate) const CLAIM_SHARED_WAIT: Duration = Duration::from_secs(600);

/// Bytes of a folder that may be copied; a larger one is refused.
pub(crate) const WORKSPACE_BYTES_MAX: u64 = 4 << 30;

/// Files and folders of a folder that may be copied; one with more is refused.
pub(crate) const WORKSPACE_FILES_MAX: u64 = 400_000;

/// Bytes of a disk that a copy leaves free; if it cannot, nothing is copied (`workspace_full`).
pub(crate) const WORKSPACE_DISK_RESERVE_BYTES: u64 = 64 << 20;

/// Bytes of one block of a file that is copied or digested; a block of zeros is not written.
pub(crate) const COPY_BLOCK_BYTES: usize = 64 << 10;

/// Bytes of the diff of a copy's changes; the rest is omitted, and the response says so.
pub(crate) const CHANGES_DIFF_BYTES_MAX: usize = 256 << 10;

/// Bytes of a file that such a diff shows line by line; for a larger one it only says that it differs.
pub(crate) const CHANGES_FILE_BYTES_MAX: u64 = 1 << 20;

/// Conflicts of one comparison that are merged by hunks; the others stay conflicts.
pub(crate) const MERGES_MAX: usize = 200;

/// Lines before and after a conflict that are shown with it.
pub(crate) const CONFLICT_CONTEXT_LINES: usize = 3;

/// Bytes of the conflicting parts of a file that are shown; the rest is cut, and the text states it.
pub(crate) const CONFLICT_BYTES_MAX: usize = 16 << 10;

/// Bytes of replaced files that are kept next to a copy for later merges; the others are merged only if git has them.
pub(crate) const BASE_CONTENT_BYTES_MAX: u64 = 256 << 20;

/// Commits of a file that are searched for the version that was copied; if none has it, the file is not merged.
pub(crate) const BASE_COMMITS_MAX: usize = 50;

/// Bytes of a changed file that are kept for a snapshot; a longer one cannot be restored later, and the refusal names it.
pub(crate) const SNAPSHOT_FILE_BYTES_MAX: u64 = 64 << 20;

/// Bytes of all kept files of a copy; files that changed after that cannot be restored later, and the refusal names them.
pub(crate) const SNAPSHOT_CONTENT_BYTES_MAX: u64 = 1 << 30;

/// Snapshots of a copy. If there are more, the oldest quarter is deleted; their checkpoints cannot be restored.
pub(crate) const SNAPSHOTS_MAX: usize = 1_000;

/// Changes that are listed; the rest is counted.
pub(crate) const CHANGES_LISTED_MAX: usize = 2_000;

/// Bytes of the journal with the original paths of moved files; if the changes need more, nothing is applied.
pub(crate) const APPLY_JOURNAL_BYTES_MAX: u64 = 256 << 20;

/// Changes that a message names; the rest is counted.
pub(crate) const CHANGES_NAMED_MAX: usize = 10;
