//! The wait for another process that keeps an SQLite file locked: a backup program, a virus scanner, `sqlite3`.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rusqlite::Connection;

/// The time that a write waits after the start.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// The interval of attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);
/// The number of attempts after which the wait is logged: a second.
const SILENT_ATTEMPTS: i32 = 20;
/// The number of attempts before the wait is given up: 30 s.
const MAX_ATTEMPTS: i32 = 600;

thread_local! {
    /// The file that this thread opened last. SQLite calls on the thread that waits, and tells no file.
    static OPENED: RefCell<PathBuf> = RefCell::default();
}

/// Lets a connection wait up to 30 s for another process, and logs that: a start that is late is better than none.
///
/// # Errors
/// SQLite refuses.
pub fn wait_for_unlock(connection: &Connection, path: &Path) -> rusqlite::Result<()> {
    OPENED.with_borrow_mut(|opened| path.clone_into(opened));
    connection.busy_handler(Some(wait_once_more))
}

/// Ends the long waits of a start: from here on calls wait for each write.
///
/// # Errors
/// SQLite refuses.
pub fn end_opening(connection: &Connection) -> rusqlite::Result<()> {
    connection.busy_timeout(BUSY_TIMEOUT)
}

fn wait_once_more(attempts: i32) -> bool {
    if attempts == SILENT_ATTEMPTS {
        let file = OPENED.with_borrow(|opened| opened.display().to_string());
        tracing::warn!(
            file,
            "another process, such as a backup program, keeps this file locked; waiting for it up to 30 s"
        );
    }
    // A wake-up that comes early only makes the wait shorter.
    thread::park_timeout(RETRY_INTERVAL);
    attempts < MAX_ATTEMPTS
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_write_waits_until_another_connection_unlocks_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.sqlite3");
        let holder = Connection::open(&path).expect("opens");
        let waiter = Connection::open(&path).expect("opens");
        wait_for_unlock(&waiter, &path).expect("set");
        holder.execute_batch("begin exclusive").expect("locked");
        let (written, result) = mpsc::channel();
        thread::scope(|scope| {
            scope.spawn(move || written.send(waiter.execute_batch("create table t (n)")));
            let early = result.recv_timeout(RETRY_INTERVAL * 5);
            assert_eq!(early, Err(mpsc::RecvTimeoutError::Timeout), "it waits");
            holder.execute_batch("commit").expect("unlocked");
            let late = result.recv().expect("no panic");
            assert_eq!(late, Ok(()));
        });
    }
}
