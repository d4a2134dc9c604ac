//! A way for SQLite to open files by names that lead through an open folder. Not here: which folder (databases).
//!
//! SQLite's own system interface follows every link of a path by hand and then opens what it made of it, so a path
//! through `/proc/self/fd` would become a plain name again, and whoever exchanges a folder on the way in between
//! chooses the file. This one is the same interface except that it takes a path as it stands. The log and the
//! index beside a database are named after it and so go through the open folder, too.
#![expect(unsafe_code, reason = "SQLite takes a system interface as a C structure only")]

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi;

/// The name under which SQLite knows the interface.
const NAME: &CStr = c"held-names";

/// The interface, made known to SQLite at the first call.
pub(super) fn interface() -> rusqlite::Result<&'static CStr> {
    static MADE: OnceLock<c_int> = OnceLock::new();
    match *MADE.get_or_init(register) {
        ffi::SQLITE_OK => Ok(NAME),
        code => Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None)),
    }
}

fn register() -> c_int {
    // SAFETY: a null name asks for the default interface; SQLite starts itself when it has to.
    let usual = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
    if usual.is_null() {
        return ffi::SQLITE_ERROR;
    }
    // SAFETY: SQLite's interfaces are registered once and never freed, and the structure is plain data. Its
    // functions take the structure only to read its settings, which are copied with it.
    let mut own = unsafe { ptr::read(usual) };
    own.pNext = ptr::null_mut();
    own.zName = NAME.as_ptr();
    own.xFullPathname = Some(as_it_stands);
    // SAFETY: the structure is never freed, as SQLite asks.
    unsafe { ffi::sqlite3_vfs_register(Box::into_raw(Box::new(own)), 0) }
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
