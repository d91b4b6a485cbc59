//! Limits of workspaces: copies, differences, applied changes and waits for them. Each constant says what happens at it.
//!
//! Limits that several modules of the crate use are in `crate::limits`.

use std::time::Duration;

/// Links that are followed from one `.git`; what is behind more, the operating system does not follow either.
pub(crate) const GIT_LINKS_MAX: usize = 40;

/// How long an apply waits for tools that still work in the folder or its copy, which those of a run that was cancelled do
/// for up to `CANCEL_PATIENCE`; then it is refused with `run_active`.
pub(crate) const CLAIM_SOLE_WAIT: Duration = Duration::from_secs(10);

/// How long a run waits for an apply that writes to its folder; then making the folder ready fails with
/// `workspace_failed`, and a call with `workspace_busy`.
pub(crate) const CLAIM_SHARED_WAIT: Duration = Duration::from_secs(600);

/// Bytes that a workspace may be made of; a folder with more is not copied.
pub(crate) const WORKSPACE_BYTES_MAX: u64 = 4 << 30;

/// Files and folders that a workspace may be made of; a folder with more is not copied.
pub(crate) const WORKSPACE_FILES_MAX: u64 = 400_000;

/// Bytes of a disk that making a workspace leaves to others; where it cannot, nothing is copied (`workspace_full`).
pub(crate) const WORKSPACE_DISK_RESERVE_BYTES: u64 = 64 << 20;

/// Bytes of one block of a file that is copied or digested; a block of zeros is not written.
pub(crate) const COPY_BLOCK_BYTES: usize = 64 << 10;

/// Bytes of the diff that shows what a run changed in its copy; the rest is left out, and the answer says so.
pub(crate) const CHANGES_DIFF_BYTES_MAX: usize = 256 << 10;

/// Bytes of a file that such a diff shows line by line; of a larger one it says that it differs.
pub(crate) const CHANGES_FILE_BYTES_MAX: u64 = 1 << 20;

/// Changes that are listed; the rest is counted.
pub(crate) const CHANGES_TOLD_MAX: usize = 2_000;

/// Bytes of the journal that says where what an apply moves belongs; more changes than fit are not applied.
pub(crate) const APPLY_JOURNAL_BYTES_MAX: u64 = 256 << 20;

/// Changes that a message names; the rest is counted.
pub(crate) const CHANGES_NAMED_MAX: usize = 10;
