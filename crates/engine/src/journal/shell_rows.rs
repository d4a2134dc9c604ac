//! Shells in the background, written down so that the next run of the runner can take them up again, or say what became
//! of them.

use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use rusqlite::{Row, params};

use super::journal_reader::JournalReader;
use super::statements::execute_cached;
use super::write_job::WriteDurability;
use super::{Journal, JournalError};

/// The last known state of a shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JournalShellState {
    /// It ran when this was written.
    Running,
    /// It ended while a runner saw it.
    Ended,
    /// It was ended when the runner was told to stop.
    Stopped,
    /// It ended while no runner was there.
    Lost,
}

impl JournalShellState {
    fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Ended => "ended",
            Self::Stopped => "stopped",
            Self::Lost => "lost",
        }
    }
}

impl FromSql for JournalShellState {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let word = value.as_str()?;
        let all = [Self::Running, Self::Ended, Self::Stopped, Self::Lost];
        all.into_iter()
            .find(|state| state.as_str() == word)
            .ok_or(FromSqlError::InvalidType)
    }
}

/// The end of a shell: its exit code, or the signal that ended it, or neither if the end was not seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ShellExit {
    /// The exit code.
    pub code: Option<i32>,
    /// The signal, as `SIGKILL`.
    pub signal: Option<String>,
}

/// The identity by which the process of a shell is found again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellProcessTrace {
    /// Which process it is.
    pub identity: String,
    /// The request that started it.
    pub request: String,
    /// The named pipe of its output; only there for one that outlives the runner.
    pub fifo: Option<String>,
    /// True if its escape sequences are kept.
    pub raw: bool,
}

/// One shell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShellRow {
    /// The number in its name.
    pub number: u32,
    /// The process id of its command.
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// The folder it started in.
    pub folder: String,
    /// Its purpose.
    pub purpose: Option<String>,
    /// Which process it is; absent where the system does not tell processes apart.
    pub trace: Option<ShellProcessTrace>,
    /// The location of its output.
    pub handle: Option<String>,
    /// Its state.
    pub state: JournalShellState,
    /// Its exit, if it has ended.
    pub exit: ShellExit,
    /// The time when it was written down, in milliseconds since 1970.
    pub started_at_ms: i64,
    /// The time when it was seen to have ended, or found gone.
    pub ended_at_ms: Option<i64>,
}

impl Journal {
    /// Writes a shell down, over one of the same number.
    ///
    /// # Errors
    /// The journal could not be written; after a crash the shell is then ended and not taken up again.
    pub async fn record_shell_start(&self, shell: ShellRow) -> Result<(), JournalError> {
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                let trace = shell.trace.as_ref();
                execute_cached(
                    transaction,
                        "insert or replace into shell (number, pid, command, folder, purpose, identity, request_id, \
                         fifo, raw, handle, state, exit_code, exit_signal, started_at_ms, ended_at_ms) \
                         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    params![
                        shell.number,
                        shell.pid,
                        shell.command,
                        shell.folder,
                        shell.purpose,
                        trace.map(|trace| &trace.identity),
                        trace.map(|trace| &trace.request),
                        trace.and_then(|trace| trace.fifo.as_ref()),
                        trace.is_some_and(|trace| trace.raw),
                        shell.handle,
                        shell.state.as_str(),
                        shell.exit.code,
                        shell.exit.signal,
                        shell.started_at_ms,
                        shell.ended_at_ms,
                    ],
                )?;
                Ok(())
            })
            .await
    }

    /// Notes that the shell of this process has ended, if there is one that runs.
    pub fn record_shell_exit(&self, identity: String, exit: ShellExit, now_ms: i64) {
        self.writer.write_later(move |transaction| {
            execute_cached(
                transaction,
                "update shell set state = 'ended', exit_code = ?, exit_signal = ?, ended_at_ms = ? \
                 where identity = ? and state = 'running'",
                params![exit.code, exit.signal, now_ms, identity],
            )?;
            Ok(())
        });
    }

    /// Notes that a shell has ended, or that it is lost, unless its end is known already.
    pub fn record_shell_end(
        &self,
        number: u32,
        state: JournalShellState,
        exit: ShellExit,
        now_ms: i64,
    ) {
        self.writer.write_later(move |transaction| {
            execute_cached(
                transaction,
                "update shell set state = ?, exit_code = ?, exit_signal = ?, ended_at_ms = ? \
                     where number = ? and state = 'running'",
                params![state.as_str(), exit.code, exit.signal, now_ms, number],
            )?;
            Ok(())
        });
    }

    /// Notes that every shell that runs is about to be ended with the runner, but for those that `outlive` it.
    ///
    /// # Errors
    /// The journal could not be written; the next run takes them for lost.
    pub async fn record_shells_stopping(
        &self,
        now_ms: i64,
        outlive: bool,
    ) -> Result<(), JournalError> {
        self.writer
            .write_and_wait(WriteDurability::ProcessCrash, move |transaction| {
                let sql = "update shell set state = 'stopped', ended_at_ms = ?1 \
                           where state = 'running' and not (?2 and fifo is not null)";
                execute_cached(transaction, sql, (now_ms, outlive))?;
                Ok(())
            })
            .await
    }

    /// A shell that is not listed any more.
    pub fn delete_shell(&self, number: u32) {
        self.writer.write_later(move |transaction| {
            execute_cached(transaction, "delete from shell where number = ?", [number])?;
            Ok(())
        });
    }
}

impl JournalReader {
    /// Every shell that is remembered, oldest first.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn list_shell_rows(&self) -> Result<Vec<ShellRow>, JournalError> {
        self.query_all(
            "select number, pid, command, folder, purpose, identity, request_id, fifo, raw, handle, state, exit_code, \
             exit_signal, started_at_ms, ended_at_ms from shell order by number",
            [],
            shell_from_row,
        )
    }
}

fn shell_from_row(row: &Row<'_>) -> rusqlite::Result<ShellRow> {
    let trace = match (row.get(5)?, row.get(6)?) {
        (Some(identity), Some(request)) => Some(ShellProcessTrace {
            identity,
            request,
            fifo: row.get(7)?,
            raw: row.get(8)?,
        }),
        _ => None,
    };
    Ok(ShellRow {
        number: row.get(0)?,
        pid: row.get(1)?,
        command: row.get(2)?,
        folder: row.get(3)?,
        purpose: row.get(4)?,
        trace,
        handle: row.get(9)?,
        state: row.get(10)?,
        exit: ShellExit {
            code: row.get(11)?,
            signal: row.get(12)?,
        },
        started_at_ms: row.get(13)?,
        ended_at_ms: row.get(14)?,
    })
}
