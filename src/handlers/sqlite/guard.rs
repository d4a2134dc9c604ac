//! What a statement may do and for how long. Not here: how the file is opened (databases).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::ffi::ErrorCode as Code;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error};

use super::interface::{Ledger, memory_used};
use super::leave::Claim;
use super::linear::{self, MAX_PATTERN};
use super::vocabulary::{FUNCTIONS, INSIDE_ALTER, R_TREE, TELLING, TELLING_ALONE};
use super::weight::{MAX_VALUE, Weight};

/// The longest text of a statement.
pub(super) const MAX_SQL: usize = 256 << 10;
/// By how much SQLite's memory may grow while a statement runs, in bytes. SQLite counts for the whole process only.
const MAX_MEMORY: i64 = 256 << 20;
/// After how many steps of its machine SQLite looks at the clock: some microseconds.
const STEPS: i32 = 500;
/// The same for a statement whose every step may make a value of some megabytes.
const HEAVY_STEPS: i32 = 20;

/// How long SQLite waits for a lock before it asks the guard whether to go on.
const LOCK_PATIENCE: Duration = Duration::from_millis(20);
/// How long is waited between two attempts at a lock.
const PAUSE: Duration = Duration::from_millis(5);

/// What the caller's statement may do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Scope {
    /// Read, and nothing else.
    #[default]
    Reading,
    /// Change rows and the schema of this one database.
    Changing,
}

/// Watches over one call's statements.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    scope: Scope,
    cancelled: Arc<AtomicBool>,
    claim: Claim,
    /// While a statement of our own runs, such as the one that begins the transaction.
    ours: Arc<AtomicBool>,
    deadline: Arc<Mutex<Instant>>,
    /// Rung when the call is cancelled.
    bell: Arc<Condvar>,
    denied: Arc<Mutex<Option<String>>>,
    ledger: Arc<Ledger>,
    /// How much SQLite's memory may come to.
    most_memory: i64,
    gorged: Arc<AtomicBool>,
}

impl Guard {
    pub(super) fn new(scope: Scope, limit: Duration) -> Self {
        Self {
            scope,
            cancelled: Arc::default(),
            claim: Claim::default(),
            ours: Arc::default(),
            deadline: Arc::new(Mutex::new(Instant::now() + limit)),
            bell: Arc::default(),
            denied: Arc::default(),
            ledger: Arc::default(),
            most_memory: memory_used().saturating_add(MAX_MEMORY),
            gorged: Arc::default(),
        }
    }

    /// What the caller's statement may do.
    pub(super) fn scope(&self) -> Scope {
        self.scope
    }

    /// Whether the call may still commit, or be left.
    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Puts the connection under watch. From here on it does what its scope allows, and nothing else.
    pub(super) fn install(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        // A change without its triggers would leave the data as its own program never does.
        let changing = self.scope == Scope::Changing;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, changing)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false)?;
        // The last reader of a WAL database would otherwise write it back and remove the WAL. The last writer does.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, !changing)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, i32::try_from(MAX_SQL).unwrap_or(i32::MAX))?;
        connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, 200)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.set_limit(Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, MAX_PATTERN)?;
        connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
        connection.busy_timeout(LOCK_PATIENCE)?;
        linear::install(connection)?;
        self.watch_every(STEPS, connection)?;
        let watch = self.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| watch.judge(&context)))
    }

    /// Holds the next statement to what its program can hold at a time.
    pub(super) fn weigh(&self, connection: &Connection, sql: &str) -> rusqlite::Result<()> {
        let weight = Weight::of(connection, sql)?;
        if weight.makes() {
            self.watch_every(HEAVY_STEPS, connection)?;
        }
        weight.apply(connection)
    }

    fn watch_every(&self, steps: i32, connection: &Connection) -> rusqlite::Result<()> {
        let watch = self.clone();
        connection.progress_handler(steps, Some(move || watch.over()))
    }

    /// What the connection's system interface refused.
    pub(super) fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// From now on at most this long, and never longer than before.
    pub(super) fn shorten(&self, limit: Duration) -> Instant {
        let mut deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        let before = *deadline;
        *deadline = before.min(Instant::now() + limit);
        before
    }

    /// Back to what [`Guard::shorten`] gave.
    pub(super) fn restore(&self, deadline: Instant) {
        *self.deadline.lock().unwrap_or_else(PoisonError::into_inner) = deadline;
    }

    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
        self.bell.notify_all();
    }

    /// Asks again for as long as another program holds the lock, until the time is up or the call is cancelled.
    pub(super) fn patiently<T>(&self, mut ask: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
        loop {
            match ask() {
                Err(error) if is_busy(&error) && !self.over() => self.pause(),
                answer => return answer,
            }
        }
    }

    fn pause(&self) {
        let deadline = self.deadline.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.bell.wait_timeout(deadline, PAUSE));
    }

    /// Runs statements of our own, which the scope does not bind.
    pub(super) fn own<T>(&self, run: impl FnOnce() -> T) -> T {
        self.ours.store(true, Ordering::Relaxed);
        let answer = run();
        self.ours.store(false, Ordering::Relaxed);
        answer
    }

    pub(super) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether to stop now.
    pub(super) fn over(&self) -> bool {
        if memory_used() > self.most_memory {
            self.gorged.store(true, Ordering::Relaxed);
        }
        self.gorged()
            || self.cancelled()
            || Instant::now() >= *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it was stopped for its memory.
    pub(super) fn gorged(&self) -> bool {
        self.gorged.load(Ordering::Relaxed)
    }

    /// What the last refusal was about.
    pub(super) fn denied(&self) -> Option<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn judge(&self, context: &AuthContext<'_>) -> Authorization {
        if self.ours.load(Ordering::Relaxed) || (self.scope == Scope::Changing && is_change(context.action)) {
            return Authorization::Allow;
        }
        let denied = match context.action {
            AuthAction::Select | AuthAction::Recursive | AuthAction::Read { .. } => {
                return Authorization::Allow;
            }
            AuthAction::Function { function_name } => {
                let name = function_name.to_ascii_lowercase();
                if name.starts_with("json") || FUNCTIONS.contains(&name.as_str()) {
                    return Authorization::Allow;
                }
                format!("the function {name}()")
            }
            AuthAction::Pragma { pragma_name, pragma_value } => {
                let name = pragma_name.to_ascii_lowercase();
                let tells = TELLING.contains(&name.as_str())
                    || (pragma_value.is_none() && TELLING_ALONE.contains(&name.as_str()));
                if tells {
                    return Authorization::Allow;
                }
                format!("PRAGMA {name}{}", if pragma_value.is_some() { " with a value" } else { "" })
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
            // An R*Tree prepares all its statements as soon as anybody asks it. What the caller's own statement writes
            // is refused by what SQLite says of it, and by how the file is opened.
            AuthAction::Insert { table_name }
            | AuthAction::Update { table_name, .. }
            | AuthAction::Delete { table_name }
                if self.scope == Scope::Reading && R_TREE.iter().any(|end| table_name.ends_with(end)) =>
            {
                return Authorization::Allow;
            }
            AuthAction::Insert { table_name } => format!("writing to {table_name}"),
            AuthAction::Update { table_name, .. } => format!("changing {table_name}"),
            AuthAction::Delete { table_name } => format!("deleting from {table_name}"),
            _ => "changing the schema".to_owned(),
        };
        *self.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(denied);
        Authorization::Deny
    }
}

/// Whether it changes rows or the schema, for good and in this database.
fn is_change(action: AuthAction<'_>) -> bool {
    match action {
        AuthAction::Insert { .. }
        | AuthAction::Update { .. }
        | AuthAction::Delete { .. }
        | AuthAction::CreateIndex { .. }
        | AuthAction::CreateTable { .. }
        | AuthAction::CreateTrigger { .. }
        | AuthAction::CreateView { .. }
        | AuthAction::CreateVtable { .. }
        | AuthAction::DropIndex { .. }
        | AuthAction::DropTable { .. }
        | AuthAction::DropTrigger { .. }
        | AuthAction::DropView { .. }
        | AuthAction::DropVtable { .. }
        | AuthAction::AlterTable { .. }
        | AuthAction::Reindex { .. }
        | AuthAction::Analyze { .. } => true,
        // What ALTER TABLE does inside; SQLite lets no caller's statement call these.
        AuthAction::Function { function_name } => INSIDE_ALTER.contains(&function_name),
        _ => false,
    }
}

/// Whether another program holds the lock.
pub(super) fn is_busy(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(Code::DatabaseBusy | Code::DatabaseLocked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_whose_memory_grows_from_row_to_row_is_stopped() {
        let connection = Connection::open_in_memory().expect("a database");
        let mut guard = Guard::new(Scope::Reading, Duration::from_mins(1));
        // Some three megabytes, which grow with every row.
        let list = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 400000)
            SELECT length(group_concat(i)) FROM c";
        guard.install(&connection).expect("a guard");
        let length: i64 = connection.query_row(list, [], |row| row.get(0)).expect("a number");
        assert!(length > 2 << 20, "{length}");
        assert!(!guard.gorged());
        guard.most_memory = memory_used() + (1 << 20);
        guard.install(&connection).expect("a guard");
        let stopped = connection.query_row(list, [], |row| row.get::<_, i64>(0)).expect_err("a stop");
        assert_eq!(stopped.sqlite_error_code(), Some(Code::OperationInterrupted), "{stopped}");
        assert!(guard.gorged());
    }
}
