//! Background shells across restarts of the runner: recorded in the journal, and adopted by the next run.
//!
//! A crash of the runner ends no background shell: it keeps running, and the next run reads its output under the same
//! name. A requested stop ends all of them, because it is meant to stop all work, unless the owner set `keep_shells`.
//! The next run then lists them as ended with the runner.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use super::host::HostBase;
use punie_core::ids::RequestId;
use punie_engine::journal::{
    Journal, JournalError, JournalShellState, ShellExit, ShellProcessTrace, ShellRow,
};
use punie_engine::runner::Clock;
use punie_handlers::shell::{
    EarlierShell, NewShell, RecordFuture, RestoredShell, ShellList, ShellRecords,
};
use punie_home::Home;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::terminals::{
    CommandTrace, ExitStatus, TerminalExit, TerminalId, TerminalOutput, exit_phrase,
};
use punie_text::output::{OutputHandle, OutputStore, terminal_text};

/// The length of an earlier shell's output to show, as stored: escape sequences count.
const LAST_CHARS: usize = 30_000;

pub(super) struct JournalShellRecords {
    pub journal: Journal,
    pub clock: Clock,
}

impl ShellRecords for JournalShellRecords {
    fn record_start<'a>(&'a self, new: NewShell<'a>) -> RecordFuture<'a> {
        let trace = new.trace.map(|trace| ShellProcessTrace {
            identity: trace.identity.clone(),
            request: trace.request.to_string(),
            fifo: trace
                .output
                .as_ref()
                .map(|output| output.display().to_string()),
            raw: trace.raw,
        });
        let kept = new
            .trace
            .map(|trace| OutputStore::handle_for(&trace.request, 0).to_string());
        let now_ms = self.clock.now_ms();
        let row = ShellRow {
            number: new.shell.number(),
            pid: new.shell.pid,
            command: new.shell.command.clone(),
            folder: new.shell.folder.clone(),
            purpose: new.shell.purpose.clone(),
            trace,
            handle: new.handle.map(str::to_owned).or(kept),
            state: if new.runs {
                JournalShellState::Running
            } else {
                JournalShellState::Ended
            },
            exit: new.exit.map(journal_exit).unwrap_or_default(),
            started_at_ms: now_ms,
            ended_at_ms: (!new.runs).then_some(now_ms),
        };
        Box::pin(async move {
            let number = row.number;
            if let Err(error) = self.journal.record_shell_start(row).await {
                tracing::warn!(shell = number, %error, "a shell could not be noted; after a crash it would be ended");
            }
        })
    }

    fn record_end(&self, number: u32, exit: &ExitStatus) {
        self.journal.record_shell_end(
            number,
            JournalShellState::Ended,
            journal_exit(exit),
            self.clock.now_ms(),
        );
    }

    fn record_removal(&self, number: u32) {
        self.journal.delete_shell(number);
    }
}

/// Converts an exit status for the journal.
pub(super) fn journal_exit(status: &ExitStatus) -> ShellExit {
    match status {
        ExitStatus::Code(code) => ShellExit {
            code: Some(*code),
            signal: None,
        },
        ExitStatus::Signal(name) => ShellExit {
            code: None,
            signal: Some(name.clone()),
        },
        ExitStatus::Unseen(_) => ShellExit::default(),
    }
}

/// Adopts the shells of earlier runs that still run, and lists the others with their last state. Returns the
/// identities of the adopted ones, which must not be ended as survivors.
pub(super) fn adopt_shells(
    journal: &Journal,
    home: &Home,
    host: &HostBase,
) -> Result<HashSet<String>, JournalError> {
    let reader = journal.open_reader()?;
    let last_life = reader
        .read_fact("last_contact_ms")?
        .and_then(|text| text.parse().ok());
    let now_ms = Clock::system().now_ms();
    let mut taken = HashSet::new();
    let mut known = Vec::new();
    for mut row in reader.list_shell_rows()? {
        let terminal = match (&row.state, &row.trace) {
            (JournalShellState::Running, Some(trace)) => {
                adopt_shell(&host.terminals, trace, &mut taken)
            }
            _ => None,
        };
        if terminal.is_none() && row.state == JournalShellState::Running {
            row.state = JournalShellState::Lost;
            journal.record_shell_end(row.number, row.state, row.exit.clone(), now_ms);
        }
        known.push(remembered_shell(row, terminal, last_life, &host.outputs));
    }
    remove_unused_pipes(&home.shells_dir(), &taken, &reader.list_shell_rows()?);
    host.terminals.enable_persistence(home.shells_dir());
    host.shells.restore(known);
    Ok(taken)
}

fn adopt_shell(
    terminals: &LocalTerminals,
    trace: &ShellProcessTrace,
    taken: &mut HashSet<String>,
) -> Option<TerminalId> {
    let command = CommandTrace {
        identity: trace.identity.clone(),
        output: trace.fifo.as_ref().map(PathBuf::from),
        request: RequestId::parse(trace.request.clone()).ok()?,
        raw: trace.raw,
    };
    match terminals.adopt_command(&command) {
        Ok(adopted) => {
            let terminal = adopted?.id;
            tracing::info!(request.id = %command.request, "a shell that an earlier life started is taken up again");
            taken.insert(command.identity);
            Some(terminal)
        }
        Err(error) => {
            tracing::warn!(request.id = %command.request, %error, "a shell of an earlier life cannot be read; it is ended");
            None
        }
    }
}

/// Removes named pipes that belong to no running shell.
fn remove_unused_pipes(folder: &Path, taken: &HashSet<String>, rows: &[ShellRow]) {
    let traces = rows.iter().filter_map(|row| row.trace.as_ref());
    let used: HashSet<&Path> = traces
        .filter(|trace| taken.contains(&trace.identity))
        .filter_map(|trace| trace.fifo.as_deref().map(Path::new))
        .collect();
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    for left in entries
        .map(|entry| entry.path())
        .filter(|path| !used.contains(path.as_path()))
    {
        if let Err(cause) = std::fs::remove_file(&left) {
            tracing::debug!(path = %left.display(), %cause, "a named pipe is left");
        }
    }
}

fn remembered_shell(
    row: ShellRow,
    terminal: Option<TerminalId>,
    last_life: Option<i64>,
    outputs: &OutputStore,
) -> RestoredShell {
    let now = match terminal {
        Some(terminal) => Ok(terminal),
        None => Err(past_shell(&row, last_life, outputs)),
    };
    let ShellRow {
        number,
        pid,
        command,
        folder,
        purpose,
        ..
    } = row;
    RestoredShell {
        number,
        pid,
        command,
        folder,
        purpose,
        now,
    }
}

fn past_shell(row: &ShellRow, last_life: Option<i64>, outputs: &OutputStore) -> EarlierShell {
    let handle = row.handle.as_deref().and_then(OutputHandle::parse);
    let text = handle
        .as_ref()
        .and_then(|handle| outputs.tail(handle, LAST_CHARS).ok().flatten());
    // A handle without stored output would only mislead.
    let handle = handle.filter(|_| text.is_some());
    let is_raw = row.trace.as_ref().is_some_and(|trace| trace.raw);
    let text = text.map(|kept| {
        if is_raw {
            kept
        } else {
            terminal_text::clean_terminal_text(&kept)
        }
    });
    let status = last_exit_status(row);
    let ended = row
        .ended_at_ms
        .unwrap_or(row.started_at_ms)
        .max(row.started_at_ms);
    let output = TerminalOutput {
        text: text.unwrap_or_default(),
        handle,
        exit: Some(TerminalExit {
            status: status.clone(),
            output_open: false,
            left: Vec::new(),
            at_process_limit: false,
            out_of_memory: false,
        }),
        elapsed: Duration::from_millis(u64::try_from(ended - row.started_at_ms).unwrap_or(0)),
        ..TerminalOutput::default()
    };
    EarlierShell {
        words: describe_past_end(row, last_life, &status),
        output,
    }
}

/// Returns the exit status of the shell's command, as far as a runner saw it.
fn last_exit_status(row: &ShellRow) -> ExitStatus {
    match (&row.exit, row.state) {
        (
            ShellExit {
                code: Some(code), ..
            },
            _,
        ) => ExitStatus::Code(*code),
        (
            ShellExit {
                signal: Some(name), ..
            },
            _,
        ) => ExitStatus::Signal(name.clone()),
        (_, JournalShellState::Stopped) => {
            ExitStatus::Unseen("it was ended when the runner was stopped")
        }
        (_, JournalShellState::Lost) => ExitStatus::Unseen("the runner was not there"),
        _ => ExitStatus::Unseen("the runner was restarted while it ran"),
    }
}

fn describe_past_end(row: &ShellRow, last_life: Option<i64>, status: &ExitStatus) -> String {
    let outlives = row.trace.as_ref().is_some_and(|trace| trace.fifo.is_some());
    match (row.state, status) {
        (JournalShellState::Lost, ExitStatus::Unseen(_)) if outlives => format!(
            "ended while the runner was not there; last seen running {}; its exit code is not known",
            format_http_time(last_life.unwrap_or(0).max(row.started_at_ms)),
        ),
        (JournalShellState::Lost, ExitStatus::Unseen(_)) => {
            "ended with the runner, which was killed or crashed; its exit code is not known"
                .to_owned()
        }
        (JournalShellState::Lost, _) => format!(
            "ended, {}; what it had left running was ended after the runner was killed or crashed",
            exit_phrase(status)
        ),
        (JournalShellState::Stopped, _) => match row.ended_at_ms {
            Some(at) => format!(
                "ended with the runner, which was stopped {}",
                format_http_time(at)
            ),
            None => "ended with the runner, which was stopped".to_owned(),
        },
        _ => format!(
            "ended before the runner was restarted, {}",
            exit_phrase(status)
        ),
    }
}

/// Formats a time as `Fri, 20 Nov 2026 21:05:03 GMT`.
fn format_http_time(ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// Creates the list of background shells, recorded in the journal if there is one.
pub(super) fn shell_board(journal: Option<&Journal>) -> Arc<ShellList> {
    match journal {
        Some(journal) => {
            let records = JournalShellRecords {
                journal: journal.clone(),
                clock: Clock::system(),
            };
            Arc::new(ShellList::with_records(Arc::new(records)))
        }
        None => Arc::default(),
    }
}
