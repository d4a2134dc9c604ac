//! What a statement may do and for how long. Not here: how the file is opened (databases).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use rusqlite::limits::Limit;

/// The longest text of a statement.
pub(super) const MAX_SQL: usize = 256 << 10;
/// The longest text or blob that SQLite makes; what would be longer is an error at once.
const MAX_VALUE: i32 = 16 << 20;
/// After how many steps of its machine SQLite looks at the clock: some tens of microseconds.
const STEPS: i32 = 2_000;

/// Pragmas that only tell, with or without an argument.
const TELLING: &[&str] = &[
    "collation_list",
    "compile_options",
    "database_list",
    "foreign_key_check",
    "foreign_key_list",
    "function_list",
    "index_info",
    "index_list",
    "index_xinfo",
    "integrity_check",
    "module_list",
    "pragma_list",
    "quick_check",
    "table_info",
    "table_list",
    "table_xinfo",
];
/// Pragmas that tell without an argument and change something with one.
const TELLING_ALONE: &[&str] = &[
    "application_id",
    "auto_vacuum",
    "cache_size",
    "data_version",
    "encoding",
    "foreign_keys",
    "freelist_count",
    "journal_mode",
    "journal_size_limit",
    "max_page_count",
    "mmap_size",
    "page_count",
    "page_size",
    "schema_version",
    "synchronous",
    "user_version",
    "wal_autocheckpoint",
];
/// Functions that compute from their arguments and the row, and nothing else.
const FUNCTIONS: &[&str] = &[
    "->",
    "->>",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "avg",
    "bm25",
    "ceil",
    "ceiling",
    "changes",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "cos",
    "cosh",
    "count",
    "cume_dist",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "degrees",
    "dense_rank",
    "exp",
    "first_value",
    "floor",
    "format",
    "glob",
    "group_concat",
    "hex",
    "highlight",
    "if",
    "ifnull",
    "iif",
    "instr",
    "julianday",
    "lag",
    "last_insert_rowid",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "match",
    "matchinfo",
    "max",
    "median",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "offsets",
    "percent_rank",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "pi",
    "pow",
    "power",
    "printf",
    "quote",
    "radians",
    "random",
    "randomblob",
    "rank",
    "replace",
    "round",
    "row_number",
    "rtrim",
    "sign",
    "sin",
    "sinh",
    "snippet",
    "soundex",
    "sqlite_compileoption_get",
    "sqlite_compileoption_used",
    "sqlite_source_id",
    "sqlite_version",
    "sqrt",
    "strftime",
    "string_agg",
    "substr",
    "substring",
    "subtype",
    "sum",
    "tan",
    "tanh",
    "time",
    "timediff",
    "total",
    "total_changes",
    "trim",
    "trunc",
    "typeof",
    "unhex",
    "unicode",
    "unistr",
    "unistr_quote",
    "unixepoch",
    "unlikely",
    "upper",
    "zeroblob",
];

/// Watches over one call's statements.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    cancelled: Arc<AtomicBool>,
    deadline: Arc<Mutex<Instant>>,
    denied: Arc<Mutex<Option<String>>>,
}

impl Guard {
    pub(super) fn new(limit: Duration) -> Self {
        Self {
            cancelled: Arc::default(),
            deadline: Arc::new(Mutex::new(Instant::now() + limit)),
            denied: Arc::default(),
        }
    }

    /// Puts the connection under watch. From here on it reads, and does nothing else.
    pub(super) fn install(&self, connection: &Connection) -> rusqlite::Result<()> {
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_TRIGGER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_WRITABLE_SCHEMA, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_CREATE, false)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_ATTACH_WRITE, false)?;
        // The last reader of a WAL database would otherwise write it back and remove the WAL.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, MAX_VALUE)?;
        connection.set_limit(Limit::SQLITE_LIMIT_SQL_LENGTH, i32::try_from(MAX_SQL).unwrap_or(i32::MAX))?;
        connection.set_limit(Limit::SQLITE_LIMIT_EXPR_DEPTH, 200)?;
        connection.set_limit(Limit::SQLITE_LIMIT_ATTACHED, 0)?;
        connection.set_limit(Limit::SQLITE_LIMIT_COMPOUND_SELECT, 200)?;
        connection.set_limit(Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 10_000)?;
        connection.set_limit(Limit::SQLITE_LIMIT_WORKER_THREADS, 0)?;
        connection.busy_timeout(Duration::from_secs(1))?;
        let watch = self.clone();
        connection.progress_handler(STEPS, Some(move || watch.over()))?;
        let watch = self.clone();
        connection.authorizer(Some(move |context: AuthContext<'_>| watch.judge(&context)))
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
    }

    pub(super) fn cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Whether to stop now.
    pub(super) fn over(&self) -> bool {
        self.cancelled() || Instant::now() >= *self.deadline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the last refusal was about.
    pub(super) fn denied(&self) -> Option<String> {
        self.denied.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn judge(&self, context: &AuthContext<'_>) -> Authorization {
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
            AuthAction::Transaction { .. } | AuthAction::Savepoint { .. } => "a transaction".to_owned(),
            AuthAction::Insert { table_name } => format!("writing to {table_name}"),
            AuthAction::Update { table_name, .. } => format!("changing {table_name}"),
            AuthAction::Delete { table_name } => format!("deleting from {table_name}"),
            _ => "changing the schema".to_owned(),
        };
        *self.denied.lock().unwrap_or_else(PoisonError::into_inner) = Some(denied);
        Authorization::Deny
    }
}
