//! The limits of one statement in the worker: its time, its temporary files, and the actions that it may take.
#![expect(
    clippy::disallowed_methods,
    reason = "the worker looks at its own open files"
)]

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::ffi::ErrorCode as Code;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error};

use super::allowlist::{
    ALTER_FUNCTIONS, FUNCTIONS, R_TREE_TABLE_SUFFIXES, READ_PRAGMAS, READ_PRAGMAS_WITHOUT_VALUE,
};

/// The longest text of a statement.
pub(super) const MAX_SQL: usize = 256 << 10;
/// The longest text, blob or row that SQLite makes, in bytes.
pub(super) const MAX_VALUE: i32 = 16 << 20;
/// The longest pattern of LIKE and GLOB, in bytes.
pub(super) const MAX_PATTERN: i32 = 200;
/// The most that the temporary files of one statement hold, in bytes.
pub(super) const MAX_TEMP_BYTES: u64 = 256 << 20;

/// Steps of SQLite's machine between two looks at the clock: about a microsecond.
const STEPS: i32 = 200;
/// Time between two looks at the temporary files.
const TEMP_FILE_INTERVAL: Duration = Duration::from_millis(50);
/// The time that SQLite waits for a lock before the worker asks again. Without it the connection would wait 5 s.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_millis(20);
/// The pause between two attempts at a lock.
const LOCK_PAUSE: Duration = Duration::from_millis(5);

/// The actions that a statement may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StatementScope {
    /// Read, and nothing else.
    Reading,
    /// Change rows and the schema of this one database.
    Changing,
}

/// Watches over the statements of one call. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct StatementGuard(Arc<GuardState>);

#[derive(Debug)]
struct GuardState {
    scope: StatementScope,
    deadline: Mutex<Instant>,
    next_temp_check: Mutex<Instant>,
    max_temp_bytes: AtomicU64,
    is_cancelled: AtomicBool,
    is_temp_full: AtomicBool,
    /// A statement of the worker's own runs, such as BEGIN.
    is_own: AtomicBool,
    denied: Mutex<Option<String>>,
}

impl StatementGuard {
    pub(super) fn new(scope: StatementScope, time_limit: Duration) -> Self {
        let now = Instant::now();
        Self(Arc::new(GuardState {
            scope,
            deadline: Mutex::new(now + time_limit),
            next_temp_check: Mutex::new(now + TEMP_FILE_INTERVAL),
            max_temp_bytes: AtomicU64::new(MAX_TEMP_BYTES),
            is_cancelled: AtomicBool::default(),
            is_temp_full: AtomicBool::default(),
            is_own: AtomicBool::default(),
            denied: Mutex::default(),
        }))
    }

    /// The actions that the statement may take.
    pub(super) fn scope(&self) -> StatementScope {
        self.0.scope
    }

    /// Returns whether the statement may change the database.
    pub(super) fn is_changing(&self) -> bool {
        self.0.scope == StatementScope::Changing
    }

    /// Installs the limits on the connection. From here on it does only the actions that its scope allows.
    pub(super) fn install_limits(&self, connection: &Connection) -> rusqlite::Result<()> {
        // A change without its triggers would leave the data as its own program never does.
        let is_changing = self.is_changing();
        let settings = [
            (DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true),
            (DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, is_changing),
            (DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false),
            (DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false),
            // The last reader of a WAL database would otherwise write it back and remove the WAL. The last writer does.
            (DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !is_changing),
        ];
        for (setting, value) in settings {
            connection.set_db_config(setting, value)?;
        }
        let limits = [
            (Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE),
            (
                Limit::SQLITE_LIMIT_SQL_LENGTH,
                i32::try_from(MAX_SQL).unwrap_or(i32::MAX),
            ),
            (Limit::SQLITE_LIMIT_EXPR_DEPTH, 200),
            (Limit::SQLITE_LIMIT_ATTACHED, 0),
            (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200),
            (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN),
            (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
        ];
        for (limit, value) in limits {
            connection.set_limit(limit, value)?;
        }
        let watch = self.clone();
        connection.progress_handler(STEPS, Some(move || watch.should_stop()))?;
        let watch = self.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| {
            watch.authorize_action(&context)
        }))
    }

    /// Allows as many more bytes in temporary files: a change of a whole database keeps as much to undo it.
    pub(super) fn allow_temp_bytes(&self, more: u64) {
        self.0.max_temp_bytes.fetch_add(more, Ordering::Relaxed);
    }

    /// Runs something within a shorter time limit.
    pub(super) fn run_within<T>(&self, limit: Duration, run: impl FnOnce() -> T) -> T {
        let before = *self.0.deadline.lock();
        *self.0.deadline.lock() = before.min(Instant::now() + limit);
        let result = run();
        *self.0.deadline.lock() = before;
        result
    }

    /// Tries again for as long as another program holds the lock, until the statement has to stop.
    pub(super) fn retry_locked<T>(
        &self,
        mut attempt: impl FnMut() -> rusqlite::Result<T>,
    ) -> rusqlite::Result<T> {
        loop {
            match attempt() {
                Err(error) if is_lock_error(&error) && !self.should_stop() => {
                    std::thread::park_timeout(LOCK_PAUSE);
                }
                result => return result,
            }
        }
    }

    /// Runs a statement of the worker's own, which the scope does not bind.
    pub(super) fn run_internal(&self, connection: &Connection, sql: &str) -> rusqlite::Result<()> {
        self.0.is_own.store(true, Ordering::Relaxed);
        let result = connection.execute_batch(sql);
        self.0.is_own.store(false, Ordering::Relaxed);
        result
    }

    /// Stops the statement.
    pub(super) fn cancel(&self) {
        self.0.is_cancelled.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_cancelled(&self) -> bool {
        self.0.is_cancelled.load(Ordering::Relaxed)
    }

    /// Returns whether the temporary files exceed their limit.
    pub(super) fn has_full_temp_files(&self) -> bool {
        self.0.is_temp_full.load(Ordering::Relaxed)
    }

    /// Returns whether to stop now.
    pub(super) fn should_stop(&self) -> bool {
        let now = Instant::now();
        let mut next_temp_check = self.0.next_temp_check.lock();
        if now >= *next_temp_check {
            *next_temp_check = now + TEMP_FILE_INTERVAL;
            if temp_file_bytes() > self.0.max_temp_bytes.load(Ordering::Relaxed) {
                self.0.is_temp_full.store(true, Ordering::Relaxed);
            }
        }
        self.has_full_temp_files() || self.is_cancelled() || now >= *self.0.deadline.lock()
    }

    /// The action that was refused last.
    pub(super) fn take_denied(&self) -> Option<String> {
        self.0.denied.lock().take()
    }

    fn authorize_action(&self, context: &AuthContext<'_>) -> Authorization {
        if self.0.is_own.load(Ordering::Relaxed) {
            return Authorization::Allow;
        }
        let is_changing = self.is_changing();
        let denied = match context.action {
            AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => {
                return Authorization::Allow;
            }
            AuthAction::Function { function_name } => {
                let name = function_name.to_ascii_lowercase();
                // SQLite lets only its own statements within ALTER TABLE call those.
                let is_of_alter = is_changing && ALTER_FUNCTIONS.contains(&name.as_str());
                if is_of_alter || name.starts_with("json") || FUNCTIONS.contains(&name.as_str()) {
                    return Authorization::Allow;
                }
                format!("the function {name}()")
            }
            AuthAction::Pragma {
                pragma_name,
                pragma_value,
            } => {
                let name = pragma_name.to_ascii_lowercase();
                let only_reads = READ_PRAGMAS.contains(&name.as_str())
                    || (pragma_value.is_none()
                        && READ_PRAGMAS_WITHOUT_VALUE.contains(&name.as_str()));
                if only_reads {
                    return Authorization::Allow;
                }
                let value = pragma_value.map_or("", |_| " with a value");
                format!("PRAGMA {name}{value}")
            }
            AuthAction::Attach { .. } => "ATTACH (VACUUM uses it, too)".to_owned(),
            AuthAction::Detach { .. } => "DETACH".to_owned(),
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => {
                "a transaction of your own".to_owned()
            }
            AuthAction::CreateTempIndex { .. }
            | AuthAction::CreateTempTable { .. }
            | AuthAction::CreateTempTrigger { .. }
            | AuthAction::CreateTempView { .. } => {
                "something temporary, which would be gone with the call,".to_owned()
            }
            AuthAction::Unknown { .. } => "something unknown".to_owned(),
            _ if is_changing => return Authorization::Allow,
            // An R*Tree prepares all its statements for its first reader. A statement that writes is refused later: by
            // `Statement::readonly`, and by the read-only file.
            AuthAction::Insert { table_name }
            | AuthAction::Update { table_name, .. }
            | AuthAction::Delete { table_name }
                if R_TREE_TABLE_SUFFIXES
                    .iter()
                    .any(|end| table_name.ends_with(end)) =>
            {
                return Authorization::Allow;
            }
            AuthAction::Insert { table_name } => format!("writing to {table_name}"),
            AuthAction::Update { table_name, .. } => format!("changing {table_name}"),
            AuthAction::Delete { table_name } => format!("deleting from {table_name}"),
            _ => "changing the schema".to_owned(),
        };
        *self.0.denied.lock() = Some(denied);
        Authorization::Deny
    }
}

/// The bytes in this process's open files that have no name: SQLite removes the names of its temporary files at once.
#[cfg(target_os = "linux")]
fn temp_file_bytes() -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    // A worker has no more open files.
    let open = (0..64).filter_map(|fd| fs::metadata(format!("/proc/self/fd/{fd}")).ok());
    open.filter(|meta| meta.is_file() && meta.nlink() == 0)
        .map(|meta| meta.len())
        .sum()
}

/// Unknown: the limit on the size of each file has to do.
#[cfg(not(target_os = "linux"))]
fn temp_file_bytes() -> u64 {
    0
}

/// Returns whether another program holds the lock.
pub(super) fn is_lock_error(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(Code::DatabaseBusy | Code::DatabaseLocked)
    )
}
