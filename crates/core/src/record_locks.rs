//! SQLite's locks on files, made to belong to the file that took them and not to the process; and what SQLite opens,
//! looked at before it is used.
//!
//! SQLite locks with POSIX record locks, and those belong to the process: closing *any* descriptor of a file gives up
//! every lock that the process has on it. A search that only reads a database would unlock it under a transaction of
//! the runner's, and another program could write into that. SQLite takes its system calls from a table that may be
//! changed. So on 64-bit Linux its locks become open file description locks, which end with an unlock or with the last
//! descriptor of their own opening, and which keep other programs out, and are kept out by them, as the others are.
//!
//! What SQLite expects of POSIX locks and these do not give by themselves is that all openings of one file in the process
//! are one owner. Its connections count among themselves who reads (`unixLock`), ask the system for the first of them
//! only, and let the last one unlock (`posixUnlock`), whichever opening the lock is on. So here
//!
//! - the unlock of everything, which SQLite makes when the process has no readers any more, is made on every opening
//!   of that file that took a lock. Else a reader's lock would stay for as long as its connection is open.
//! - a lock for writing on the bytes that readers share is asked for by the last connection that counts. A lock that is
//!   left there by another opening is taken over first: shared on the new one, then given up on the old.
//!
//! All other locks are given up through the connection that took them: a connection above "shared" unlocks what is above
//! that by itself. A descriptor is not closed before the last lock of its file is gone (`unixClose`, `setPendingFd`), so
//! no lock ends too early. Locks of the index of a log (`-shm`) need none of this: a process has one opening of it
//! (`unixShmNode`); its dead-man's switch ends when that is closed. A program that is just being started shares
//! these openings for the instant until it begins, which can only hold that switch a little longer. `F_GETLK` is asked
//! where SQLite knows that no other connection of the process has the byte, so that ours do not count there, either.
//!
//! A file that SQLite opens is opened without waiting, and refused where it is neither a regular file nor a folder: a
//! pipe that was put there after we looked would stop the thread for ever. Two devices of the system's it may have.
#![cfg_attr(
    all(target_os = "linux", target_pointer_width = "64"),
    expect(
        unsafe_code,
        reason = "SQLite takes its system calls as C functions only"
    )
)]

/// Gives SQLite these system calls. To be called before a database file is opened, each time: a lock that was taken
/// before could not be given up after. Elsewhere than on 64-bit Linux, SQLite keeps its own; a kernel that does not
/// know these locks keeps the POSIX ones.
pub fn install_lock_calls() {
    #[cfg(all(target_os = "linux", target_pointer_width = "64"))]
    {
        static ONCE: std::sync::Once = std::sync::Once::new();
        ONCE.call_once(calls::install_system_calls);
    }
}

#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod calls {
    use std::collections::BTreeMap;
    use std::ffi::{CStr, c_char, c_int, c_void};
    use std::mem::transmute;
    use std::os::fd::{AsRawFd, BorrowedFd};
    use std::ptr;
    use std::sync::{Mutex, MutexGuard, PoisonError};

    use rusqlite::ffi;
    use rustix::fs::{FileType, Mode, OFlags};

    /// The first of the bytes that readers share: SQLite's `SHARED_FIRST`, in every database of every version.
    const SHARED: i64 = 0x4000_0002;

    /// What SQLite opens of itself that is no file: where its random numbers begin, and what it puts in the place of
    /// descriptors that it does not use.
    const DEVICES: [&CStr; 2] = [c"/dev/urandom", c"/dev/null"];

    /// A file that SQLite has open.
    #[derive(Debug)]
    struct OpenedDatabase {
        /// Its device and its number on that.
        file: (u64, u64),
        /// True if a lock may be on it.
        locks: bool,
    }

    type OpenedDatabases = BTreeMap<c_int, OpenedDatabase>;

    /// The files that SQLite has opened through these calls, by descriptor. Empty where the kernel lacks the locks.
    static OPENED: Mutex<OpenedDatabases> = Mutex::new(BTreeMap::new());
    static KNOWN: std::sync::OnceLock<bool> = std::sync::OnceLock::new();

    fn lock_opened_table() -> MutexGuard<'static, OpenedDatabases> {
        OPENED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn install_system_calls() {
        // SAFETY: a null name asks for the default interface; SQLite starts itself when it has to. The interface is
        // registered once and never freed.
        let usual = unsafe { ffi::sqlite3_vfs_find(ptr::null()) };
        // SAFETY: as above, where there is one.
        let set = (!usual.is_null())
            .then(|| unsafe { (*usual).xSetSystemCall })
            .flatten();
        let Some(set) = set else { return };
        KNOWN.get_or_init(kernel_has_ofd_locks);
        let put = |name: &CStr, call: *const c_void| {
            // SAFETY: a pointer to a function is cast to SQLite's type for any function, which SQLite casts back to the
            // type of the call of this name before it calls. SQLite casts `fcntl` to a variadic function and the others
            // to plain ones. A caller of a variadic function passes whole numbers and pointers in the registers of a
            // plain one's on the 64-bit systems that Linux runs on (System V for x86-64, AAPCS64, RISC-V, and their
            // kin); SQLite itself gives plain functions for variadic ones so (`posixOpen`). The interface is SQLite's.
            unsafe {
                set(
                    usual,
                    name.as_ptr(),
                    transmute::<*const c_void, ffi::sqlite3_syscall_ptr>(call),
                )
            };
        };
        // `open` last: what the others do begins with what it writes down.
        put(c"fcntl", fcntl_tracked as *const c_void);
        put(c"close", close_tracked as *const c_void);
        put(c"open", open_tracked as *const c_void);
    }

    /// Returns whether the kernel has locks of open file descriptions: Linux since 3.15, not everything that acts as
    /// Linux.
    fn kernel_has_ofd_locks() -> bool {
        // SAFETY: a `flock` is numbers only; zeros mean all of a file.
        let all = unsafe { std::mem::zeroed() };
        let any = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
        any.is_ok_and(|any| {
            call_fcntl(
                any.as_raw_fd(),
                libc::F_OFD_GETLK,
                &mut with_lock_kind(libc::F_RDLCK, &all),
            )
            .is_ok()
        })
    }

    /// Another kind of lock on the same bytes.
    fn with_lock_kind(kind: c_int, lock: &libc::flock) -> libc::flock {
        // The constants are small, and an int; the field is a short.
        libc::flock {
            l_type: i16::try_from(kind).unwrap_or_default(),
            ..*lock
        }
    }

    /// The system call, and its error's number.
    fn call_fcntl(fd: c_int, command: c_int, lock: &mut libc::flock) -> Result<(), c_int> {
        // The kernel wants it so for these locks.
        lock.l_pid = 0;
        // SAFETY: the call reads and writes one `flock`, which lives as long as it; a descriptor that is not open is an
        // error.
        match unsafe { libc::fcntl(fd, command, ptr::from_mut(lock)) } {
            -1 => Err(last_errno()),
            _ => Ok(()),
        }
    }

    fn last_errno() -> c_int {
        std::io::Error::last_os_error()
            .raw_os_error()
            .unwrap_or(libc::EIO)
    }

    /// As C says it: 0, or -1 and the number where the caller looks for it.
    fn to_c_result(result: Result<(), c_int>) -> c_int {
        let Err(number) = result else { return 0 };
        // SAFETY: it gives the place of the calling thread's own number.
        unsafe { *libc::__errno_location() = number };
        -1
    }

    extern "C" fn open_tracked(path: *const c_char, flags: c_int, mode: c_int) -> c_int {
        // SAFETY: SQLite gives a text that ends in NUL.
        let fd = unsafe { libc::open(path, flags | libc::O_NONBLOCK, mode) };
        // SAFETY: as above.
        if fd < 0 || DEVICES.contains(&unsafe { CStr::from_ptr(path) }) {
            return fd;
        }
        // SAFETY: it was just opened, and nothing else uses it yet.
        let stat = rustix::fs::fstat(unsafe { BorrowedFd::borrow_raw(fd) });
        let kind = stat.map(|stat| {
            (
                FileType::from_raw_mode(stat.st_mode),
                (stat.st_dev, stat.st_ino),
            )
        });
        let Ok((FileType::RegularFile | FileType::Directory, file)) = kind else {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
            return to_c_result(Err(libc::EINVAL));
        };
        if KNOWN.get() == Some(&true) {
            lock_opened_table().insert(fd, OpenedDatabase { file, locks: false });
        }
        fd
    }

    extern "C" fn close_tracked(fd: c_int) -> c_int {
        // Before its number may be another file's.
        lock_opened_table().remove(&fd);
        // SAFETY: SQLite closes what it opened, once.
        unsafe { libc::close(fd) }
    }

    extern "C" fn fcntl_tracked(fd: c_int, command: c_int, argument: *mut c_void) -> c_int {
        let mut opened = lock_opened_table();
        let locks = matches!(command, libc::F_GETLK | libc::F_SETLK | libc::F_SETLKW);
        if !locks || !opened.contains_key(&fd) {
            drop(opened);
            // SAFETY: SQLite's own arguments.
            return unsafe { libc::fcntl(fd, command, argument) };
        }
        // SAFETY: with these commands the argument is a `flock` of the caller's.
        let lock = unsafe { &mut *argument.cast::<libc::flock>() };
        let result = match command {
            libc::F_GETLK => call_fcntl(fd, libc::F_OFD_GETLK, lock),
            // SQLite waits in the system only where it is built to (`SQLITE_ENABLE_SETLK_TIMEOUT`), and takes a refusal.
            _ => set_lock(&mut opened, fd, *lock),
        };
        drop(opened);
        to_c_result(result)
    }

    /// Takes or gives up a lock, as if all openings of the file were one.
    fn set_lock(
        opened: &mut OpenedDatabases,
        fd: c_int,
        mut lock: libc::flock,
    ) -> Result<(), c_int> {
        let Some(file) = opened.get(&fd).map(|own| own.file) else {
            return Err(libc::EBADF);
        };
        let kind = c_int::from(lock.l_type);
        let everything = kind == libc::F_UNLCK && (lock.l_start, lock.l_len) == (0, 0);
        let alone = kind == libc::F_WRLCK && lock.l_start == SHARED;
        let others = opened
            .iter_mut()
            .filter(|(other, at)| **other != fd && at.file == file && at.locks);
        for (other, at) in others {
            if everything {
                call_fcntl(*other, libc::F_OFD_SETLK, &mut lock)?;
                at.locks = false;
            } else if alone {
                // Held by both for a moment, so that no write comes in between.
                call_fcntl(
                    fd,
                    libc::F_OFD_SETLK,
                    &mut with_lock_kind(libc::F_RDLCK, &lock),
                )?;
                call_fcntl(
                    *other,
                    libc::F_OFD_SETLK,
                    &mut with_lock_kind(libc::F_UNLCK, &lock),
                )?;
            }
        }
        if let Some(own) = opened.get_mut(&fd) {
            own.locks = !everything && (own.locks || kind != libc::F_UNLCK);
        }
        call_fcntl(fd, libc::F_OFD_SETLK, &mut lock)
    }
}

#[cfg(all(test, target_os = "linux", target_pointer_width = "64"))]
mod tests {

    use std::fs;
    use std::path::Path;

    use rusqlite::{Connection, OpenFlags};

    use super::*;

    /// The locks that this process holds on a file: kind and range, sorted.
    ///
    /// Read from `/proc/self/fdinfo`: unlike `/proc/locks`, other tests' locks do not change it while it is read.
    fn locks(path: &Path) -> Vec<String> {
        use std::os::unix::fs::MetadataExt;
        let file = format!(":{}", fs::metadata(path).expect("a file").ino());
        let descriptors = fs::read_dir("/proc/self/fdinfo").expect("the open files");
        // Another test may close a file before its entry is read.
        let infos = descriptors.filter_map(|entry| fs::read_to_string(entry.ok()?.path()).ok());
        let mut found: Vec<String> = infos
            .flat_map(|info| info.lines().map(str::to_owned).collect::<Vec<_>>())
            .filter_map(|line| {
                let words: Vec<_> = line.split_whitespace().collect();
                let &["lock:", _, kind, _, access, _, inode, first, last] = words.as_slice() else {
                    return None;
                };
                inode
                    .ends_with(&file)
                    .then(|| format!("{kind} {access} {first}-{last}"))
            })
            .collect();
        found.sort();
        found
    }

    struct Database(tempfile::TempDir);

    impl Database {
        fn new() -> Self {
            install_lock_calls();
            let new = Self(tempfile::tempdir().expect("a folder"));
            new.open()
                .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
                .expect("a table");
            new
        }

        fn path(&self) -> std::path::PathBuf {
            self.0.path().join("a.db")
        }

        fn open(&self) -> Connection {
            let connection = Connection::open(self.path()).expect("a database");
            connection
                .busy_timeout(std::time::Duration::ZERO)
                .expect("no patience");
            connection
        }
    }

    #[test]
    fn a_lock_outlives_every_other_look_at_the_file() {
        let database = Database::new();
        let writer = database.open();
        writer
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2);")
            .expect("a transaction");
        let before = locks(&database.path());
        assert!(
            before.iter().any(|lock| lock.starts_with("OFDLCK WRITE")),
            "{before:?}"
        );
        fs::read(database.path()).expect("a look");
        drop(database.open());
        assert_eq!(locks(&database.path()), before);
        writer.execute_batch("COMMIT").expect("a commit");
        assert!(locks(&database.path()).is_empty());
    }

    #[test]
    fn a_writer_is_let_in_when_the_reader_that_took_the_lock_is_done() {
        let database = Database::new();
        let reader = database.open();
        let writer = database.open();
        reader
            .execute_batch("BEGIN; SELECT * FROM t;")
            .expect("a reader");
        writer
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (2);")
            .expect("a writer beside it");
        assert!(writer.execute_batch("COMMIT").is_err(), "it is being read");
        reader.execute_batch("COMMIT").expect("read");
        writer.execute_batch("COMMIT").expect("nobody reads now");
        assert!(locks(&database.path()).is_empty());
    }

    #[test]
    fn no_lock_stays_with_a_connection_that_is_done_before_others() {
        let database = Database::new();
        let first = database.open();
        let second = database.open();
        first
            .execute_batch("BEGIN; SELECT * FROM t;")
            .expect("a reader");
        second
            .execute_batch("BEGIN; SELECT * FROM t;")
            .expect("another");
        first.execute_batch("COMMIT").expect("read");
        let shared = locks(&database.path());
        assert!(
            shared.len() == 1 && shared[0].starts_with("OFDLCK READ"),
            "{shared:?}"
        );
        // Its file stays open with the lock, for as long as another connection counts on it.
        drop(first);
        assert_eq!(locks(&database.path()), shared);
        second.execute_batch("COMMIT").expect("read");
        assert!(locks(&database.path()).is_empty());
    }

    #[test]
    fn a_log_is_shared_by_connections_and_let_go_at_the_end() {
        let database = Database::new();
        let first = database.open();
        let second = database.open();
        first
            .execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t VALUES (2);")
            .expect("a log");
        second
            .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (3);")
            .expect("a writer");
        let index = database.0.path().join("a.db-shm");
        let before = locks(&index);
        assert!(
            before.iter().any(|lock| lock.starts_with("OFDLCK WRITE")),
            "{before:?}"
        );
        fs::read(&index).expect("a look");
        assert_eq!(locks(&index), before);
        second.execute_batch("COMMIT").expect("a commit");
        drop(second);
        drop(first);
        assert!(!index.exists(), "the last one tidies up");
        assert!(locks(&database.path()).is_empty());
    }

    #[test]
    fn random_numbers_begin_with_the_system_s() {
        let _database = Database::new();
        let mut bytes = [0_u8; 44];
        // SAFETY: a null name asks for the default interface, which is there and is never freed; it writes as many bytes
        // as it is told.
        let given = unsafe {
            let usual = rusqlite::ffi::sqlite3_vfs_find(std::ptr::null());
            (*usual).xRandomness.expect("a source")(usual, 44, bytes.as_mut_ptr().cast())
        };
        assert_eq!(
            given, 44,
            "fewer are the time and the process's number: {bytes:?}"
        );
    }

    #[test]
    fn a_pipe_in_the_place_of_a_database_is_refused_at_once() {
        let database = Database::new();
        let pipe = database.0.path().join("pipe.db");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
        let refused = Connection::open_with_flags(&pipe, OpenFlags::SQLITE_OPEN_READ_ONLY);
        let refused = refused.expect_err("no database");
        assert_eq!(
            refused.sqlite_error_code(),
            Some(rusqlite::ErrorCode::CannotOpen)
        );
    }
}
