//! Temporary files of SQLite's, counted as they grow, so that no query fills the disk. Not here: which files these are
//! (interface), what is said of a query that wanted more (trouble).
#![expect(unsafe_code, reason = "SQLite takes a file's functions as a C structure only")]

use std::ffi::{c_int, c_void};
use std::mem::size_of;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use rusqlite::ffi;

/// How much the temporary files of one connection may hold, in bytes.
pub(super) const MAX_SPILL: i64 = 256 << 20;

/// What the temporary files of one connection hold.
#[derive(Debug, Default)]
pub(super) struct Spill {
    bytes: AtomicI64,
    overflowed: AtomicBool,
}

impl Spill {
    /// Whether they would have grown past [`MAX_SPILL`].
    pub(super) fn overflowed(&self) -> bool {
        self.overflowed.load(Ordering::Relaxed)
    }

    fn grow(&self, by: i64) -> bool {
        if self.bytes.fetch_add(by, Ordering::Relaxed).saturating_add(by) <= MAX_SPILL {
            return true;
        }
        self.shrink(by);
        self.overflowed.store(true, Ordering::Relaxed);
        false
    }

    fn shrink(&self, by: i64) {
        self.bytes.fetch_sub(by, Ordering::Relaxed);
    }
}

/// A temporary file whose growth is counted. The usual interface's file follows it in the same room, which
/// SQLite aligns to eight bytes.
#[repr(C)]
struct Counted {
    /// First, so that SQLite's pointer to it points to the whole.
    head: ffi::sqlite3_file,
    spill: *const Spill,
    size: i64,
}

/// How much room a file needs before that of the usual interface, in bytes: a whole number of eights.
#[expect(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "a few machine words")]
pub(super) const ROOM: c_int = size_of::<Counted>() as c_int;

/// Makes a file a counted one.
///
/// # Safety
/// At `file` there are [`ROOM`] bytes, aligned to eight, and [`behind`] them an open file of the usual interface. `spill`
/// outlives the file.
pub(super) unsafe fn count_in(file: *mut ffi::sqlite3_file, spill: *const Spill) {
    let head = ffi::sqlite3_file { pMethods: &raw const METHODS };
    // SAFETY: the room is as large as a `Counted`, which is plain data.
    unsafe { ptr::write(file.cast(), Counted { head, spill, size: 0 }) };
}

/// The usual interface's file.
///
/// # Safety
/// The room at `file` is for a counted file with a usual one behind it.
pub(super) unsafe fn behind(file: *mut ffi::sqlite3_file) -> *mut ffi::sqlite3_file {
    // SAFETY: for the caller to see to.
    unsafe { file.byte_add(size_of::<Counted>()) }
}

/// Functions that only hand on to the usual file.
macro_rules! handed_on {
    ($($name:ident = $method:ident($($arg:ident: $kind:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut ffi::sqlite3_file, $($arg: $kind),*) -> c_int {
            // SAFETY: SQLite calls with a file that `open` made and `close` has not closed, and its own arguments.
            unsafe {
                let file = behind(file);
                (*(*file).pMethods).$method.map_or(ffi::SQLITE_IOERR, |usual| usual(file, $($arg),*))
            }
        }
    )*};
}

handed_on! {
    close_usual = xClose();
    read = xRead(to: *mut c_void, amount: c_int, at: i64);
    write_usual = xWrite(from: *const c_void, amount: c_int, at: i64);
    truncate_usual = xTruncate(size: i64);
    sync = xSync(flags: c_int);
    file_size = xFileSize(size: *mut i64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(out: *mut c_int);
    file_control_usual = xFileControl(what: c_int, value: *mut c_void);
    sector_size = xSectorSize();
    device_characteristics = xDeviceCharacteristics();
}

/// No shared memory and no mapping: what is written goes through here.
static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

/// The count that a file belongs to, which the connection's interface keeps, and the size it has reached.
unsafe fn count<'a>(file: *mut ffi::sqlite3_file) -> (&'a Spill, &'a mut i64) {
    // SAFETY: for the caller to see to: `file` is a `Counted`, which one thread at a time uses.
    unsafe {
        let counted = file.cast::<Counted>();
        (&*(*counted).spill, &mut (*counted).size)
    }
}

unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    // SAFETY: SQLite calls once for a file that `open` made.
    unsafe {
        let (spill, size) = count(file);
        spill.shrink(*size);
        *size = 0;
        close_usual(file)
    }
}

unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    from: *const c_void,
    amount: c_int,
    at: i64,
) -> c_int {
    // SAFETY: SQLite calls with a file that `open` made.
    let (spill, size) = unsafe { count(file) };
    let end = at.saturating_add(i64::from(amount));
    if end > *size {
        if !spill.grow(end - *size) {
            return ffi::SQLITE_FULL;
        }
        *size = end;
    }
    // SAFETY: as above, and SQLite's own arguments.
    unsafe { write_usual(file, from, amount, at) }
}

unsafe extern "C" fn truncate(file: *mut ffi::sqlite3_file, to: i64) -> c_int {
    // SAFETY: SQLite calls with a file that `open` made.
    unsafe {
        let code = truncate_usual(file, to);
        let (spill, size) = count(file);
        if code == ffi::SQLITE_OK && to < *size {
            spill.shrink(*size - to);
            *size = to;
        }
        code
    }
}

/// Hints at a size to come are left out: they would make a file grow past its count.
unsafe extern "C" fn file_control(file: *mut ffi::sqlite3_file, what: c_int, value: *mut c_void) -> c_int {
    if what == ffi::SQLITE_FCNTL_SIZE_HINT || what == ffi::SQLITE_FCNTL_CHUNK_SIZE {
        return ffi::SQLITE_NOTFOUND;
    }
    // SAFETY: SQLite calls with a file that `open` made, and its own arguments.
    unsafe { file_control_usual(file, what, value) }
}
