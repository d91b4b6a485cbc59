//! The VFS itself: a copy of SQLite's own whose files have four of their calls replaced.
//!
//! This knows SQLite's interface and nothing of faults: [`State`] decides what happens to a call. Start at [`register`].
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use anyhow::{Result, ensure};
use rusqlite::ffi;

use super::course::Call;
use super::{Admission, FaultyDisk, Op, State, lock};

/// Open files by their address, which stays the same while one is open.
static FILES: LazyLock<Mutex<HashMap<usize, OpenFile>>> = LazyLock::new(Mutex::default);

/// The replaced method tables by the address of the SQLite table that each was made from. SQLite has a few kinds of
/// files.
static TABLES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

#[derive(Clone)]
struct OpenFile {
    state: &'static Mutex<State>,
    name: String,
    real: &'static ffi::sqlite3_io_methods,
}

/// Registers a new VFS with this state.
pub(super) fn register(state: State) -> Result<FaultyDisk> {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let name = format!("faulty-{}", COUNT.fetch_add(1, Ordering::SeqCst));
    let state: &'static Mutex<State> = Box::leak(Box::new(Mutex::new(state)));
    let c_name: &'static CStr = Box::leak(CString::new(name.clone())?.into_boxed_c_str());
    // SAFETY: the default VFS is registered when SQLite is initialized and never freed. The copy and everything it
    // points to are leaked, so they outlive every use.
    let registered = unsafe {
        ensure!(ffi::sqlite3_initialize() == ffi::SQLITE_OK, "SQLite cannot be initialized");
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        ensure!(!default.is_null(), "SQLite has no default VFS");
        let mut copy = std::ptr::read(default);
        copy.zName = c_name.as_ptr();
        copy.pNext = std::ptr::null_mut();
        copy.pAppData = std::ptr::from_ref(state).cast_mut().cast();
        copy.xOpen = Some(open);
        copy.xDelete = Some(delete);
        ffi::sqlite3_vfs_register(Box::leak(Box::new(copy)), 0)
    };
    ensure!(registered == ffi::SQLITE_OK, "SQLite did not accept the VFS {name}: {registered}");
    Ok(FaultyDisk { name, state })
}

/// The file's name without its folder.
fn base_name(path: &CStr) -> String {
    let path = path.to_string_lossy();
    Path::new(&*path).file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let is_affected =
        flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
    // SAFETY: `vfs` is the copy made in `register`, whose data is a leaked state. The default VFS gets what SQLite has
    // prepared for it: the copy has the same sizes. Files of these kinds have a name, and a file that was opened has
    // methods that live as long as SQLite. Our table is leaked.
    unsafe {
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(real_open) = (*default).xOpen else { return ffi::SQLITE_CANTOPEN };
        let existed =
            is_affected && Path::new(&*CStr::from_ptr(path.cast::<c_char>()).to_string_lossy()).exists();
        let opened = real_open(default, path, file, flags, out_flags);
        if opened != ffi::SQLITE_OK || !is_affected {
            return opened;
        }
        let state: &'static Mutex<State> = &*(*vfs).pAppData.cast::<Mutex<State>>();
        let name = base_name(CStr::from_ptr(path.cast::<c_char>()));
        if !existed {
            lock(state).note(&name, Op::Create);
        }
        let real: &'static ffi::sqlite3_io_methods = &*(*file).pMethods;
        let ours = *lock(&TABLES).entry(std::ptr::from_ref(real) as usize).or_insert_with(|| {
            let mut ours = std::ptr::read(real);
            // Without the calls of version 3 SQLite does not map files, and every write is a call of `write`.
            ours.iVersion = ours.iVersion.min(2);
            ours.xClose = Some(close);
            ours.xWrite = Some(write);
            ours.xTruncate = Some(truncate);
            ours.xSync = Some(sync);
            std::ptr::from_ref(Box::leak(Box::new(ours))) as usize
        });
        (*file).pMethods = ours as *const ffi::sqlite3_io_methods;
        lock(&FILES).insert(file as usize, OpenFile { state, name, real });
        opened
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, path: *const c_char, sync: c_int) -> c_int {
    // SAFETY: as in `open`; SQLite passes a path that lives for the call.
    unsafe {
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(real_delete) = (*default).xDelete else { return ffi::SQLITE_IOERR_DELETE };
        let deleted = real_delete(default, path, sync);
        if deleted == ffi::SQLITE_OK {
            let state = &*(*vfs).pAppData.cast::<Mutex<State>>();
            lock(state).note(&base_name(CStr::from_ptr(path)), Op::Delete { synced: sync != 0 });
        }
        deleted
    }
}

fn opened(file: *mut ffi::sqlite3_file) -> Option<OpenFile> {
    lock(&FILES).get(&(file as usize)).cloned()
}

/// Waits on the calling thread, as a slow disk makes it wait.
#[expect(clippy::disallowed_methods, reason = "a slow disk blocks the thread that uses it")]
fn wait(delay: Duration) {
    if !delay.is_zero() {
        std::thread::sleep(delay);
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let Some(OpenFile { real, .. }) = lock(&FILES).remove(&(file as usize)) else {
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
    let Some(OpenFile { state, name, real }) = opened(file) else { return ffi::SQLITE_IOERR_WRITE };
    let Some(real_write) = real.xWrite else { return ffi::SQLITE_IOERR_WRITE };
    let (length, position) = (length as usize, offset as u64);
    let (delay, drawn) = lock(state).draw(Call::Write);
    wait(delay);
    // Held during the write, so that the recording is in the order in which the writes happened.
    let mut state = lock(state);
    let admission = match drawn {
        Some(code) => Admission::failed(length, code),
        None => state.admit(&name, position, length),
    };
    if admission.bytes > 0 {
        // SAFETY: SQLite passes `length` readable bytes and an open file; no more than that is read.
        let (written, bytes) = unsafe {
            let written = real_write(file, from, admission.bytes as c_int, offset);
            (written, std::slice::from_raw_parts(from.cast::<u8>(), admission.bytes))
        };
        if written != ffi::SQLITE_OK {
            return written;
        }
        state.note_write(&name, position, bytes);
    }
    admission.code
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let Some(OpenFile { state, name, real }) = opened(file) else { return ffi::SQLITE_IOERR_TRUNCATE };
    let Some(real_truncate) = real.xTruncate else { return ffi::SQLITE_IOERR_TRUNCATE };
    let mut state = lock(state);
    // SAFETY: an open file, as above.
    let truncated = unsafe { real_truncate(file, size) };
    state.note(&name, Op::Truncate(size as u64));
    truncated
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let Some(OpenFile { state, name, real }) = opened(file) else { return ffi::SQLITE_IOERR_FSYNC };
    let Some(real_sync) = real.xSync else { return ffi::SQLITE_IOERR_FSYNC };
    let (delay, drawn) = lock(state).draw(Call::Sync);
    wait(delay);
    if let Some(code) = drawn {
        return code;
    }
    let mut state = lock(state);
    if state.fails_sync(&name) {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    state.note(&name, Op::Sync);
    if state.recording.is_some() {
        return ffi::SQLITE_OK;
    }
    drop(state);
    // SAFETY: an open file, as above.
    unsafe { real_sync(file, flags) }
}
