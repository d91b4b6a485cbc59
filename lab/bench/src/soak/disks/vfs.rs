//! A SQLite VFS that delays and fails the writes and syncs of chosen databases; everything else goes to the real disk.
//!
//! Only databases and their write-ahead logs are affected, and only those in a folder that was mounted. Which calls fail
//! is drawn from a seed. This must not know what is written. Entry point: [`mount`].
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Result, ensure};
use recount_world::{Entropy as _, SeededEntropy};
use rusqlite::ffi;

/// The name under which SQLite knows the VFS.
pub(super) const NAME: &str = "recount-soak";
const C_NAME: &CStr = c"recount-soak";

/// Of a hundred calls, how many fail while failures are left. A commit is several writes and one sync.
const WRITES_FAILING_PERCENT: u64 = 1;
const SYNCS_FAILING_PERCENT: u64 = 5;
/// One write in so many is delayed; every sync is.
const WRITES_DELAYED_DIVISOR: u64 = 16;
/// How many calls in a row at most find the disk full once one does.
const FULL_CALLS_MAX: u64 = 24;
/// How many failures a disk has at most; then it works again.
const FAILURES_MAX: u64 = 4;

/// What one disk did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FaultCounts {
    pub(super) delays: u64,
    pub(super) full: u64,
    pub(super) failed_writes: u64,
    pub(super) failed_syncs: u64,
}

/// The files of one folder.
pub(super) struct Disk {
    folder: PathBuf,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    course: Option<FaultPlan>,
    counts: FaultCounts,
}

struct FaultPlan {
    random: SeededEntropy,
    delay_max: Duration,
    failures_left: u64,
    /// Writes that still find the disk full.
    full_left: u64,
}

/// What is asked of a file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Call {
    Write,
    Sync,
}

/// Folders whose files are affected.
static MOUNTED: LazyLock<Mutex<HashMap<PathBuf, Arc<Mutex<State>>>>> = LazyLock::new(Mutex::default);
/// Open files by their address, which stays the same while one is open.
static FILES: LazyLock<Mutex<HashMap<usize, Open>>> = LazyLock::new(Mutex::default);
/// Our tables of methods by the address of SQLite's own that each was made from.
static TABLES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

#[derive(Clone)]
struct Open {
    state: Arc<Mutex<State>>,
    real: &'static ffi::sqlite3_io_methods,
}

/// A panic of another thread leaves maps and counters as good as they were.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Makes the databases in this folder, which must exist, subject to the disk that is returned.
pub(super) fn mount(folder: &Path) -> Result<Disk> {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    let registered = *REGISTERED.get_or_init(register);
    ensure!(registered == ffi::SQLITE_OK, "SQLite did not take the VFS {NAME}: {registered}");
    let folder = folder.canonicalize()?;
    let state = Arc::default();
    lock(&MOUNTED).insert(folder.clone(), Arc::clone(&state));
    Ok(Disk { folder, state })
}

impl Disk {
    /// From now on calls are delayed, and some of them fail.
    pub(super) fn begin(&self, seed: u64, delay_max: Duration) {
        let random = SeededEntropy::new(seed);
        lock(&self.state).course =
            Some(FaultPlan { random, delay_max, failures_left: FAILURES_MAX, full_left: 0 });
    }

    /// From now on everything works at once.
    pub(super) fn heal(&self) -> FaultCounts {
        let mut state = lock(&self.state);
        state.course = None;
        state.counts
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        lock(&MOUNTED).remove(&self.folder);
    }
}

impl State {
    /// How long a call takes, and the error that it ends with.
    fn judge(&mut self, call: Call) -> (Duration, Option<c_int>) {
        let Some(course) = &mut self.course else { return (Duration::ZERO, None) };
        let is_delayed = call == Call::Sync || course.below(WRITES_DELAYED_DIVISOR) == 0;
        let delay = if is_delayed { course.delay() } else { Duration::ZERO };
        let error = course.error(call);
        let counts = &mut self.counts;
        counts.delays += u64::from(!delay.is_zero());
        match error {
            Some(ffi::SQLITE_FULL) => counts.full += 1,
            Some(ffi::SQLITE_IOERR_WRITE) => counts.failed_writes += 1,
            Some(_) => counts.failed_syncs += 1,
            None => {}
        }
        (delay, error)
    }
}

impl FaultPlan {
    fn below(&self, bound: u64) -> u64 {
        u64::try_from(self.random.draw() % u128::from(bound.max(1))).unwrap_or(0)
    }

    fn delay(&self) -> Duration {
        Duration::from_micros(self.below(u64::try_from(self.delay_max.as_micros()).unwrap_or(u64::MAX)))
    }

    fn error(&mut self, call: Call) -> Option<c_int> {
        if call == Call::Write && self.full_left > 0 {
            self.full_left -= 1;
            return Some(ffi::SQLITE_FULL);
        }
        let percent = if call == Call::Write { WRITES_FAILING_PERCENT } else { SYNCS_FAILING_PERCENT };
        if self.failures_left == 0 || self.below(100) >= percent {
            return None;
        }
        self.failures_left -= 1;
        match call {
            Call::Sync => Some(ffi::SQLITE_IOERR_FSYNC),
            Call::Write if self.below(2) == 0 => Some(ffi::SQLITE_IOERR_WRITE),
            Call::Write => {
                self.full_left = self.below(FULL_CALLS_MAX);
                Some(ffi::SQLITE_FULL)
            }
        }
    }
}

fn register() -> c_int {
    // SAFETY: the default VFS is registered when SQLite is initialized and never freed. The copy is leaked, so it and
    // its name, a constant, outlive every use.
    unsafe {
        let initialized = ffi::sqlite3_initialize();
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        if initialized != ffi::SQLITE_OK || default.is_null() {
            return ffi::SQLITE_ERROR;
        }
        let mut copy = std::ptr::read(default);
        copy.zName = C_NAME.as_ptr();
        copy.pNext = std::ptr::null_mut();
        copy.xOpen = Some(open);
        ffi::sqlite3_vfs_register(Box::leak(Box::new(copy)), 0)
    }
}

/// The disk that a file is on, if it is an affected one.
fn disk_of(path: &Path) -> Option<Arc<Mutex<State>>> {
    lock(&MOUNTED).get(path.parent()?).cloned()
}

unsafe extern "C" fn open(
    _vfs: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let is_affected = flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL) != 0;
    // SAFETY: the default VFS gets what SQLite has prepared for it: the copy has the same sizes. Files of these kinds
    // have a name, and a file that was opened has methods that live as long as SQLite. Our table is leaked.
    unsafe {
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(real_open) = (*default).xOpen else { return ffi::SQLITE_CANTOPEN };
        let opened = real_open(default, path, file, flags, out_flags);
        if opened != ffi::SQLITE_OK || !is_affected {
            return opened;
        }
        let path = CStr::from_ptr(path.cast::<c_char>()).to_string_lossy().into_owned();
        let Some(state) = disk_of(Path::new(&path)) else { return opened };
        let real: &'static ffi::sqlite3_io_methods = &*(*file).pMethods;
        let ours = *lock(&TABLES).entry(std::ptr::from_ref(real) as usize).or_insert_with(|| {
            let mut ours = std::ptr::read(real);
            ours.xClose = Some(close);
            ours.xWrite = Some(write);
            ours.xSync = Some(sync);
            std::ptr::from_ref(Box::leak(Box::new(ours))) as usize
        });
        (*file).pMethods = ours as *const ffi::sqlite3_io_methods;
        lock(&FILES).insert(file as usize, Open { state, real });
        opened
    }
}

fn opened(file: *mut ffi::sqlite3_file) -> Option<Open> {
    lock(&FILES).get(&(file as usize)).cloned()
}

/// Waits as long as the disk takes, on the thread that asked, as a real disk makes it wait.
fn take(delay: Duration) {
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let Some(Open { real, .. }) = lock(&FILES).remove(&(file as usize)) else {
        return ffi::SQLITE_IOERR_CLOSE;
    };
    let Some(real_close) = real.xClose else { return ffi::SQLITE_IOERR_CLOSE };
    // SAFETY: SQLite calls this once for a file that `open` has opened.
    unsafe { real_close(file) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    let Some(Open { state, real }) = opened(file) else { return ffi::SQLITE_IOERR_WRITE };
    let Some(real_write) = real.xWrite else { return ffi::SQLITE_IOERR_WRITE };
    let (delay, error) = lock(&state).judge(Call::Write);
    take(delay);
    // A write that fails may have reached the disk in part.
    let admitted = if error.is_some() { length / 2 } else { length };
    // SAFETY: SQLite gives `length` readable bytes and an open file; no more than that is passed on.
    let written = unsafe { real_write(file, from, admitted, offset) };
    error.unwrap_or(written)
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let Some(Open { state, real }) = opened(file) else { return ffi::SQLITE_IOERR_FSYNC };
    let Some(real_sync) = real.xSync else { return ffi::SQLITE_IOERR_FSYNC };
    let (delay, error) = lock(&state).judge(Call::Sync);
    take(delay);
    // SAFETY: an open file, as above.
    error.unwrap_or_else(|| unsafe { real_sync(file, flags) })
}
