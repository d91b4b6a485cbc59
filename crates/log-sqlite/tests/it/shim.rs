//! A way to the disk that notes every write and sync, and can be made to fail: SQLite's own, with four
//! calls of each file watched. [`Disk`] says from the notes what a machine would find after a power cut.
//!
//! Only the database, its write-ahead log and its rollback journal are noted. The shared-memory file is
//! not: SQLite rebuilds it after a crash.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use rusqlite::ffi;

use super::work::Dice;
use recount_log_sqlite::ReserveGate;

/// One registered way to the disk. Stays registered for as long as the process lives.
pub(crate) struct Shim {
    pub(crate) name: String,
    state: &'static Mutex<State>,
}

#[derive(Default)]
struct State {
    log: Vec<Note>,
    sizes: HashMap<String, u64>,
    /// Bytes all files together may have, the reserve included.
    room: Option<u64>,
    /// The data folder's reserve, which is a file of the real disk.
    reserve: Option<PathBuf>,
    /// Writes that still succeed before one fails.
    writes_left: Option<u32>,
    /// Syncs of the write-ahead log that fail from now on.
    wal_syncs_failing: u32,
}

/// What happened, in order.
#[derive(Debug, Clone)]
pub(crate) enum Note {
    Op(String, Op),
    /// Whatever the test wants to remember the place of.
    Mark(u64),
}

#[derive(Debug, Clone)]
pub(crate) enum Op {
    Create,
    Write {
        offset: u64,
        bytes: Vec<u8>,
    },
    Truncate(u64),
    Sync,
    /// With the name's removal made durable at once, or not.
    Delete {
        synced: bool,
    },
}

/// Open files by their address, which stays the same while one is open.
static FILES: LazyLock<Mutex<HashMap<usize, Watched>>> = LazyLock::new(Mutex::default);

/// Tables of methods, by the address of SQLite's own: ours made from it. SQLite has a few kinds of files.
static TABLES: LazyLock<Mutex<HashMap<usize, usize>>> = LazyLock::new(Mutex::default);

#[derive(Clone)]
struct Watched {
    state: &'static Mutex<State>,
    name: String,
    theirs: &'static ffi::sqlite3_io_methods,
}

impl Shim {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("shim-{}", COUNT.fetch_add(1, Ordering::SeqCst));
        let state: &'static Mutex<State> = Box::leak(Box::default());
        let c_name: &'static CStr = Box::leak(CString::new(name.clone()).unwrap().into_boxed_c_str());
        // SAFETY: the default is registered when SQLite starts, which this call makes it do, and is never
        // freed. The copy and everything it points to are leaked, so they outlive every use.
        unsafe {
            assert_eq!(ffi::sqlite3_initialize(), ffi::SQLITE_OK);
            let default = ffi::sqlite3_vfs_find(std::ptr::null());
            let mut copy = std::ptr::read(default);
            copy.zName = c_name.as_ptr();
            copy.pNext = std::ptr::null_mut();
            copy.pAppData = std::ptr::from_ref(state).cast_mut().cast();
            copy.xOpen = Some(open);
            copy.xDelete = Some(delete);
            let registered = ffi::sqlite3_vfs_register(Box::leak(Box::new(copy)), 0);
            assert_eq!(registered, ffi::SQLITE_OK);
        }
        Shim { name, state }
    }

    fn state(&self) -> MutexGuard<'static, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn mark(&self, mark: u64) {
        self.state().log.push(Note::Mark(mark));
    }

    pub(crate) fn log(&self) -> Vec<Note> {
        self.state().log.clone()
    }

    /// Lets the files together grow by this many bytes and no more.
    pub(crate) fn leave_room(&self, bytes: u64) {
        let mut state = self.state();
        state.room = Some(state.used() + bytes);
    }

    /// Counts the reserve of a data folder among the files, and answers what is asked before it is made.
    pub(crate) fn watch_reserve(&self, folder: &Path) -> ReserveGate {
        self.state().reserve = Some(folder.join("reserve"));
        let state = self.state;
        Arc::new(move |bytes| {
            let state = state.lock().unwrap();
            match state.room {
                Some(room) if state.used() + bytes > room => Err(io::ErrorKind::StorageFull.into()),
                _ => Ok(()),
            }
        })
    }

    pub(crate) fn fail_write_after(&self, writes: u32) {
        self.state().writes_left = Some(writes);
    }

    pub(crate) fn fail_wal_syncs(&self, count: u32) {
        self.state().wal_syncs_failing = count;
    }

    /// Makes everything work again.
    pub(crate) fn heal(&self) {
        let mut state = self.state();
        (state.room, state.writes_left, state.wal_syncs_failing) = (None, None, 0);
    }
}

impl State {
    fn used(&self) -> u64 {
        let reserve = self.reserve.as_ref().and_then(|path| std::fs::metadata(path).ok());
        self.sizes.values().sum::<u64>() + reserve.map_or(0, |file| file.len())
    }

    /// How many bytes of a write get through, and the error if not all.
    fn admit(&mut self, file: &str, offset: u64, length: usize) -> (usize, c_int) {
        if let Some(left) = &mut self.writes_left {
            if *left == 0 {
                self.writes_left = None;
                return (length / 2, ffi::SQLITE_IOERR_WRITE);
            }
            *left -= 1;
        }
        let size = self.sizes.get(file).copied().unwrap_or(0);
        let others = self.used() - size;
        let end = offset + length as u64;
        match self.room {
            Some(room) if end > size && others + end > room => {
                let fits = (room.saturating_sub(others)).max(size).saturating_sub(offset);
                ((fits as usize).min(length), ffi::SQLITE_FULL)
            }
            _ => (length, ffi::SQLITE_OK),
        }
    }

    fn note(&mut self, file: &str, op: Op) {
        let size = self.sizes.entry(file.to_owned()).or_default();
        match &op {
            Op::Write { offset, bytes } => *size = (*size).max(offset + bytes.len() as u64),
            Op::Truncate(length) => *size = *length,
            Op::Delete { .. } => *size = 0,
            Op::Create | Op::Sync => {}
        }
        self.log.push(Note::Op(file.to_owned(), op));
    }
}

/// The file's name without its folder.
fn base_name(path: *const c_char) -> String {
    // SAFETY: SQLite gives paths as C strings that live for the call.
    let path = unsafe { CStr::from_ptr(path) }.to_str().unwrap();
    Path::new(path).file_name().unwrap().to_str().unwrap().to_owned()
}

unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    let watched =
        flags & (ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL) != 0;
    // SAFETY: `vfs` is the copy made in `Shim::new`, whose data is a leaked state. The real call gets the
    // default it expects and the memory SQLite has set aside for it; our table of methods is leaked.
    unsafe {
        let existed = watched && Path::new(CStr::from_ptr(path).to_str().unwrap()).exists();
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        let opened = (*default).xOpen.unwrap()(default, path, file, flags, out_flags);
        if opened != ffi::SQLITE_OK || !watched {
            return opened;
        }
        let state: &'static Mutex<State> = &*(*vfs).pAppData.cast::<Mutex<State>>();
        let name = base_name(path);
        if !existed {
            state.lock().unwrap().note(&name, Op::Create);
        }
        let theirs: &'static ffi::sqlite3_io_methods = &*(*file).pMethods;
        let ours = *TABLES.lock().unwrap().entry(std::ptr::from_ref(theirs) as usize).or_insert_with(|| {
            let mut ours = std::ptr::read(theirs);
            // Without the calls of version 3 SQLite does not map files, and every write comes this way.
            ours.iVersion = ours.iVersion.min(2);
            ours.xClose = Some(close);
            ours.xWrite = Some(write);
            ours.xTruncate = Some(truncate);
            ours.xSync = Some(sync);
            std::ptr::from_ref(Box::leak(Box::new(ours))) as usize
        });
        (*file).pMethods = ours as *const ffi::sqlite3_io_methods;
        FILES.lock().unwrap().insert(file as usize, Watched { state, name, theirs });
        opened
    }
}

unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, path: *const c_char, sync: c_int) -> c_int {
    // SAFETY: as in `open`.
    unsafe {
        let default = ffi::sqlite3_vfs_find(std::ptr::null());
        let deleted = (*default).xDelete.unwrap()(default, path, sync);
        if deleted == ffi::SQLITE_OK {
            let state = &*(*vfs).pAppData.cast::<Mutex<State>>();
            state.lock().unwrap().note(&base_name(path), Op::Delete { synced: sync != 0 });
        }
        deleted
    }
}

fn watched(file: *mut ffi::sqlite3_file) -> Watched {
    FILES.lock().unwrap()[&(file as usize)].clone()
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let Watched { theirs, .. } = FILES.lock().unwrap().remove(&(file as usize)).unwrap();
    // SAFETY: SQLite calls this once for a file that `open` has opened.
    unsafe { theirs.xClose.unwrap()(file) }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    length: c_int,
    offset: i64,
) -> c_int {
    let Watched { state, name, theirs } = watched(file);
    // Held over the write, so that the notes are in the order in which things happened.
    let mut state = state.lock().unwrap();
    let (admitted, error) = state.admit(&name, offset as u64, length as usize);
    if admitted > 0 {
        // SAFETY: SQLite gives `length` readable bytes and an open file; we take no more than that.
        let (written, bytes) = unsafe {
            let written = theirs.xWrite.unwrap()(file, from, admitted as c_int, offset);
            (written, std::slice::from_raw_parts(from.cast::<u8>(), admitted).to_vec())
        };
        assert_eq!(written, ffi::SQLITE_OK, "the real disk works");
        state.note(&name, Op::Write { offset: offset as u64, bytes });
    }
    error
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, size: i64) -> c_int {
    let Watched { state, name, theirs } = watched(file);
    let mut state = state.lock().unwrap();
    // SAFETY: an open file, as above.
    let truncated = unsafe { theirs.xTruncate.unwrap()(file, size) };
    state.note(&name, Op::Truncate(size as u64));
    truncated
}

unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, _flags: c_int) -> c_int {
    let Watched { state, name, .. } = watched(file);
    let mut state = state.lock().unwrap();
    if name.ends_with("-wal") && state.wal_syncs_failing > 0 {
        state.wal_syncs_failing -= 1;
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // A real sync would only cost time: what is on the disk after a cut is ours to say.
    state.note(&name, Op::Sync);
    ffi::SQLITE_OK
}

/// What a disk holds, from notes: what is sure, and what is still on its way.
#[derive(Default)]
pub(crate) struct Disk(BTreeMap<String, File>);

#[derive(Default, Clone)]
struct File {
    /// `None`: no such file.
    sure: Option<Vec<u8>>,
    on_its_way: Vec<Op>,
}

impl Disk {
    /// Takes in one thing that happened.
    pub(crate) fn take(&mut self, name: &str, op: &Op) {
        let file = self.0.entry(name.to_owned()).or_insert_with(|| File {
            // The store makes the database file itself and syncs the folder.
            sure: (!name.contains('-')).then(Vec::new),
            on_its_way: Vec::new(),
        });
        match op {
            Op::Sync => {
                let fresh = file.on_its_way.iter().any(|op| matches!(op, Op::Create));
                for op in std::mem::take(&mut file.on_its_way) {
                    apply(&mut file.sure, &op, None);
                }
                // SQLite syncs the folder after the first sync of a log or journal it has made.
                if fresh {
                    self.sync_names();
                }
            }
            Op::Delete { synced } => {
                file.on_its_way.push(op.clone());
                if *synced {
                    self.sync_names();
                }
            }
            other => file.on_its_way.push(other.clone()),
        }
    }

    /// The folder is synced: what was made is found, if empty, and what was removed is gone.
    fn sync_names(&mut self) {
        for file in self.0.values_mut() {
            let is_name = |op: &Op| matches!(op, Op::Create | Op::Delete { .. });
            if let Some(last) = file.on_its_way.iter().rposition(is_name) {
                let made = matches!(file.on_its_way[last], Op::Create);
                let remade = file.on_its_way[..last].iter().any(|op| matches!(op, Op::Delete { .. }));
                if !made || remade {
                    file.sure = None;
                    file.on_its_way.drain(..=last);
                } else {
                    file.on_its_way.retain(|op| !is_name(op));
                }
                if made {
                    file.sure.get_or_insert_default();
                }
            }
        }
    }

    /// Writes into `folder` what would be found after a cut: the sure, and of the rest whatever `dice` say.
    pub(crate) fn cut(&self, folder: &Path, dice: &mut Dice) {
        for (name, file) in &self.0 {
            let content = file.cut(dice);
            if let Some(bytes) = content {
                std::fs::write(folder.join(name), bytes).unwrap();
            }
        }
    }
}

impl File {
    fn cut(&self, dice: &mut Dice) -> Option<Vec<u8>> {
        let mut found = self.sure.clone();
        let mut rest = &self.on_its_way[..];
        // A name that was removed may be back, and then with all it had; what came later is another file.
        while let Some(place) = rest.iter().position(|op| matches!(op, Op::Delete { .. })) {
            if dice.coin() {
                rest = &rest[..place];
            } else {
                found = None;
                rest = &rest[place + 1..];
            }
        }
        let manner = dice.below(4);
        let last = dice.below(rest.len() + 1);
        for (place, op) in rest.iter().enumerate() {
            let kept = match manner {
                0 => false,
                1 => true,
                // A beginning, its last write torn.
                2 => place <= last,
                // Any of them, in whatever order the disk chose, some torn.
                _ => dice.coin(),
            };
            let torn = (manner == 2 && place == last) || (manner == 3 && dice.below(8) == 0);
            if kept {
                apply(&mut found, op, torn.then_some(&mut *dice));
            } else if matches!(op, Op::Create) && found.is_none() {
                // Without its name nothing of the file is found.
                return None;
            }
        }
        found
    }
}

fn apply(content: &mut Option<Vec<u8>>, op: &Op, torn: Option<&mut Dice>) {
    match op {
        Op::Create => {
            content.get_or_insert_default();
        }
        Op::Delete { .. } => *content = None,
        Op::Truncate(length) => content.get_or_insert_default().resize(*length as usize, 0),
        Op::Write { offset, bytes } => {
            let mut bytes = &bytes[..];
            if let Some(dice) = torn {
                let kept = dice.below(bytes.len() + 1);
                // Disks tear at sectors, file systems anywhere.
                bytes = &bytes[..if dice.coin() { kept / 512 * 512 } else { kept }];
            }
            let content = content.get_or_insert_default();
            let end = *offset as usize + bytes.len();
            if content.len() < end {
                content.resize(end, 0);
            }
            content[*offset as usize..end].copy_from_slice(bytes);
        }
        Op::Sync => unreachable!("a sync is never on its way"),
    }
}
