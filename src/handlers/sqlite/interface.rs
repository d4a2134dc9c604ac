//! The system interface through which SQLite works for one connection: names that lead through an open folder, no file
//! but the database's own, and a bound on temporary files. Not here: which folder (databases), how temporary files are
//! counted (spill), what is said of a refusal (trouble).
//!
//! SQLite's own interface follows every link of a path by hand and then opens what it made of it, so a path through
//! `/proc/self/fd` would become a plain name again, and whoever exchanges a folder on the way in between chooses the
//! file. This one takes a path as it stands. The log and the index beside a database are named after it and so go
//! through the open folder, too.
//!
//! What SQLite opens and deletes is not only what a statement says. A rollback journal may name a super-journal, by any
//! path: SQLite reads that file whole and deletes it once the rollback is done. So a name that is not the database's
//! own is refused here, where SQLite asks, however it came to ask. Big sorts and the like go to temporary files without
//! a name; these are counted as they grow.
#![expect(unsafe_code, reason = "SQLite takes a system interface as a C structure only")]

use std::cell::UnsafeCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rusqlite::ffi;

use super::spill::{self, Spill};

/// What belongs to a database, by the endings of its name.
const ENDINGS: [&[u8]; 4] = [b"", b"-journal", b"-wal", b"-shm"];
/// Temporary files that are counted. What a change needs to be undone (a statement journal) is not among them.
const COUNTED: c_int =
    ffi::SQLITE_OPEN_TEMP_DB | ffi::SQLITE_OPEN_TRANSIENT_DB | ffi::SQLITE_OPEN_TEMP_JOURNAL;

/// What a connection was refused, for whoever explains the error.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    other: Mutex<Option<String>>,
    spill: Spill,
}

impl Ledger {
    /// The file beside the database's own that SQLite asked for last.
    pub(super) fn other(&self) -> Option<String> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether temporary files would have grown past [`super::spill::MAX_SPILL`].
    pub(super) fn overflowed(&self) -> bool {
        self.spill.overflowed()
    }
}

/// What SQLite's allocator has given out in this process, in bytes.
pub(super) fn memory_used() -> i64 {
    // SAFETY: it takes nothing and reads a counter under SQLite's own lock.
    unsafe { ffi::sqlite3_memory_used() }
}

/// The interface, with what its functions need to know of their connection.
#[repr(C)]
struct Table {
    /// First, so that SQLite's pointer to it points to the whole. SQLite links it into a list of its own.
    own: UnsafeCell<ffi::sqlite3_vfs>,
    usual: *mut ffi::sqlite3_vfs,
    name: CString,
    /// The database's name, from the first time that it is opened.
    database: OnceLock<Vec<u8>>,
    deletes: bool,
    ledger: Arc<Ledger>,
}

impl Table {
    fn owns(&self, name: &[u8], endings: &[&[u8]]) -> bool {
        let rest = self.database.get().and_then(|database| name.strip_prefix(database.as_slice()));
        rest.is_some_and(|rest| endings.contains(&rest))
    }

    fn refuse(&self, name: &[u8]) -> c_int {
        let name = String::from_utf8_lossy(name).into_owned();
        *self.ledger.other.lock().unwrap_or_else(PoisonError::into_inner) = Some(name);
        ffi::SQLITE_CANTOPEN
    }
}

/// An interface that SQLite knows by its name until it is dropped, which has to be after the connection's end.
pub(super) struct Interface(*mut Table);

impl Interface {
    /// Makes one known to SQLite. With `deletes` it deletes the database's journal and log where SQLite asks for it.
    pub(super) fn new(ledger: &Arc<Ledger>, deletes: bool) -> rusqlite::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let failed = |code| rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        // SAFETY: a null name asks for the default interface; SQLite starts itself when it has to.
        let usual = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        if usual.is_null() {
            return Err(failed(ffi::SQLITE_ERROR));
        }
        let name = CString::new(format!("own-files-{}", COUNT.fetch_add(1, Ordering::Relaxed)))?;
        // SAFETY: SQLite's default interface is registered once and never freed, and the structure is plain data. Its
        // functions take the structure only to read its settings, which are copied with it.
        let mut own = unsafe { ptr::read(usual) };
        own.pNext = ptr::null_mut();
        own.zName = name.as_ptr();
        own.szOsFile += spill::ROOM;
        own.xOpen = Some(open);
        own.xDelete = Some(delete);
        own.xAccess = Some(access);
        if cfg!(target_os = "linux") {
            own.xFullPathname = Some(as_it_stands);
        }
        let table = Box::into_raw(Box::new(Table {
            own: UnsafeCell::new(own),
            usual,
            name,
            database: OnceLock::new(),
            deletes,
            ledger: ledger.clone(),
        }));
        let interface = Self(table);
        // SAFETY: the structure stays where it is until `drop` has taken it off SQLite's list.
        match unsafe { ffi::sqlite3_vfs_register(table.cast(), 0) } {
            ffi::SQLITE_OK => Ok(interface),
            code => Err(failed(code)),
        }
    }

    /// The name under which SQLite knows it.
    pub(super) fn name(&self) -> &CStr {
        // SAFETY: made by `new`, freed by `drop` alone, and the name never changes.
        unsafe { &(*self.0).name }
    }
}

impl Drop for Interface {
    fn drop(&mut self) {
        // SAFETY: the connection is closed, so nothing uses the structure any more; off the list nobody finds it.
        unsafe {
            ffi::sqlite3_vfs_unregister(self.0.cast());
            drop(Box::from_raw(self.0));
        }
    }
}

/// Copies the path. A relative one is refused: it would depend on where the process stands.
unsafe extern "C" fn as_it_stands(
    _: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    room: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: SQLite gives a text that ends in NUL.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes_with_nul();
    if name[0] != b'/' || usize::try_from(room).is_ok_and(|room| name.len() > room) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: `out` has `room` bytes, which are enough, and does not overlap the name.
    unsafe { ptr::copy_nonoverlapping(name.as_ptr().cast(), out, name.len()) };
    ffi::SQLITE_OK
}

/// Opens the database, what belongs to it, and temporary files.
unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with the structure that `new` registered, and with room for a file of `szOsFile` bytes.
    let (table, usual) = unsafe {
        (*file).pMethods = ptr::null();
        let table = &*vfs.cast::<Table>();
        (table, (*table.usual).xOpen)
    };
    let Some(usual) = usual else { return ffi::SQLITE_CANTOPEN };
    if name.is_null() {
        if flags & COUNTED == 0 {
            // SAFETY: the usual function, with the usual structure and SQLite's own arguments.
            return unsafe { usual(table.usual, name, file, flags, out) };
        }
        // SAFETY: as above. There is room for a counted file with a usual one behind it, and the table, which keeps the
        // ledger, outlives the connection.
        return unsafe {
            let code = usual(table.usual, name, spill::behind(file), flags, out);
            if code == ffi::SQLITE_OK {
                spill::count_in(file, &raw const table.ledger.spill);
            }
            code
        };
    }
    // SAFETY: SQLite gives a text that ends in NUL.
    let text = unsafe { CStr::from_ptr(name) }.to_bytes();
    let own = if flags & ffi::SQLITE_OPEN_MAIN_DB != 0 {
        table.database.get_or_init(|| text.to_vec()) == text
    } else if flags & ffi::SQLITE_OPEN_MAIN_JOURNAL != 0 {
        table.owns(text, &[b"-journal"])
    } else {
        flags & ffi::SQLITE_OPEN_WAL != 0 && table.owns(text, &[b"-wal"])
    };
    if !own {
        return table.refuse(text);
    }
    // SAFETY: the usual function, with the usual structure and SQLite's own arguments.
    unsafe { usual(table.usual, name, file, flags, out) }
}

/// Deletes the database's journal or its log.
unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: SQLite calls with the structure that `new` registered and a text that ends in NUL.
    let (table, text) = unsafe { (&*vfs.cast::<Table>(), CStr::from_ptr(name).to_bytes()) };
    if !table.owns(text, &ENDINGS[1..]) {
        return table.refuse(text);
    }
    // SAFETY: the usual structure is never freed.
    match unsafe { (*table.usual).xDelete } {
        // SAFETY: the usual function, with the usual structure and SQLite's own arguments.
        Some(usual) if table.deletes => unsafe { usual(table.usual, name, sync) },
        _ => ffi::SQLITE_READONLY,
    }
}

/// Tells whether the database's journal or its log is there.
unsafe extern "C" fn access(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: SQLite calls with the structure that `new` registered and a text that ends in NUL.
    let (table, text) = unsafe { (&*vfs.cast::<Table>(), CStr::from_ptr(name).to_bytes()) };
    if !table.owns(text, &ENDINGS) {
        return table.refuse(text);
    }
    // SAFETY: the usual structure is never freed, and the function gets it with SQLite's own arguments.
    unsafe { (*table.usual).xAccess.map_or(ffi::SQLITE_IOERR, |usual| usual(table.usual, name, flags, out)) }
}
