//! Background shells across restarts of the runner: recorded in the journal, and adopted by the next run.
//!
//! A crash of the runner ends no background shell: it keeps running, and the next run reads its output under the same
//! name. A requested stop ends all of them, because it is meant to stop all work, unless the owner set `keep_shells`.
//! The next run then lists them as ended with the runner.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::acp::local::terminals::LocalTerminals;
use crate::acp::terminals::{
    CommandTrace, ExitStatus, TerminalExit, TerminalId, TerminalOutput, ending_words,
};
use crate::handlers::shell::{NewShell, Past, Remembered, ShellBoard, ShellRecords, Written};
use crate::home::Home;
use crate::ids::RequestId;
use crate::journal::{Journal, JournalError, ShellExit, ShellRow, ShellState, ShellTrace};
use crate::output::{OutputHandle, OutputStore, hygiene};
use crate::runner::Clock;

/// The length of an earlier shell's output to show, as stored: escape sequences count.
const LAST_CHARS: usize = 30_000;

/// Records of shells in the journal.
pub(super) struct JournalledShells {
    pub journal: Journal,
    pub clock: Clock,
}

impl ShellRecords for JournalledShells {
    fn begun<'a>(&'a self, new: NewShell<'a>) -> Written<'a> {
        let trace = new.trace.map(|trace| ShellTrace {
            identity: trace.identity.clone(),
            request: trace.request.to_string(),
            fifo: trace.output.as_ref().map(|output| output.display().to_string()),
            raw: trace.raw,
        });
        let kept = new.trace.map(|trace| OutputStore::handle(&trace.request, 0).to_string());
        let now_ms = self.clock.now_ms();
        let row = ShellRow {
            number: new.shell.number(),
            pid: new.shell.pid,
            command: new.shell.command.clone(),
            folder: new.shell.folder.clone(),
            purpose: new.shell.purpose.clone(),
            trace,
            handle: new.handle.map(str::to_owned).or(kept),
            state: if new.runs { ShellState::Running } else { ShellState::Ended },
            exit: new.exit.map(exit_of).unwrap_or_default(),
            started_at_ms: now_ms,
            ended_at_ms: (!new.runs).then_some(now_ms),
        };
        Box::pin(async move {
            let number = row.number;
            if let Err(error) = self.journal.shell_begun(row).await {
                tracing::warn!(shell = number, %error, "a shell could not be noted; after a crash it would be ended");
            }
        })
    }

    fn ended(&self, number: u32, exit: &ExitStatus) {
        self.journal.shell_over(number, ShellState::Ended, exit_of(exit), self.clock.now_ms());
    }

    fn forgotten(&self, number: u32) {
        self.journal.shell_forgotten(number);
    }
}

/// Converts an exit status for the journal.
pub(super) fn exit_of(status: &ExitStatus) -> ShellExit {
    match status {
        ExitStatus::Code(code) => ShellExit { code: Some(*code), signal: None },
        ExitStatus::Signal(name) => ShellExit { code: None, signal: Some(name.clone()) },
        ExitStatus::Unseen(_) => ShellExit::default(),
    }
}

/// Adopts the shells of earlier runs that still run, and lists the others with their last state. Returns the
/// identities of the adopted ones, which must not be ended as survivors.
pub(super) fn take_up(
    journal: &Journal,
    home: &Home,
    terminals: &LocalTerminals,
    outputs: &OutputStore,
    board: &ShellBoard,
) -> Result<HashSet<String>, JournalError> {
    let reader = journal.reader()?;
    let last_life = reader.recall("last_contact_ms")?.and_then(|text| text.parse().ok());
    let now_ms = Clock::system().now_ms();
    let mut taken = HashSet::new();
    let mut known = Vec::new();
    for mut row in reader.shells()? {
        let terminal = match (&row.state, &row.trace) {
            (ShellState::Running, Some(trace)) => adopt(terminals, trace, &mut taken),
            _ => None,
        };
        if terminal.is_none() && row.state == ShellState::Running {
            row.state = ShellState::Lost;
            journal.shell_over(row.number, row.state, row.exit.clone(), now_ms);
        }
        known.push(remembered(row, terminal, last_life, outputs));
    }
    clear(&home.shells_dir(), &taken, &reader.shells()?);
    terminals.outlive_in(home.shells_dir());
    board.remember(known);
    Ok(taken)
}

fn adopt(terminals: &LocalTerminals, trace: &ShellTrace, taken: &mut HashSet<String>) -> Option<TerminalId> {
    let command = CommandTrace {
        identity: trace.identity.clone(),
        output: trace.fifo.as_ref().map(PathBuf::from),
        request: RequestId::parse(trace.request.clone()).ok()?,
        raw: trace.raw,
    };
    match terminals.adopt(&command) {
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
fn clear(folder: &Path, taken: &HashSet<String>, rows: &[ShellRow]) {
    let traces = rows.iter().filter_map(|row| row.trace.as_ref());
    let used: HashSet<&Path> = traces
        .filter(|trace| taken.contains(&trace.identity))
        .filter_map(|trace| trace.fifo.as_deref().map(Path::new))
        .collect();
    #[expect(clippy::disallowed_methods, reason = "the folder of named pipes is this joint's alone")]
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    for left in entries.map(|entry| entry.path()).filter(|path| !used.contains(path.as_path())) {
        #[expect(clippy::disallowed_methods, reason = "as above")]
        if let Err(cause) = std::fs::remove_file(&left) {
            tracing::debug!(path = %left.display(), %cause, "a named pipe is left");
        }
    }
}

fn remembered(
    row: ShellRow,
    terminal: Option<TerminalId>,
    last_life: Option<i64>,
    outputs: &OutputStore,
) -> Remembered {
    let now = match terminal {
        Some(terminal) => Ok(terminal),
        None => Err(past(&row, last_life, outputs)),
    };
    let ShellRow { number, pid, command, folder, purpose, .. } = row;
    Remembered { number, pid, command, folder, purpose, now }
}

fn past(row: &ShellRow, last_life: Option<i64>, outputs: &OutputStore) -> Past {
    let handle = row.handle.as_deref().and_then(OutputHandle::parse);
    let text = handle.as_ref().and_then(|handle| outputs.tail_text(handle, LAST_CHARS).ok().flatten());
    // A handle without stored output would only mislead.
    let handle = handle.filter(|_| text.is_some());
    let is_raw = row.trace.as_ref().is_some_and(|trace| trace.raw);
    let text = text.map(|kept| if is_raw { kept } else { hygiene::clean(&kept) });
    let status = end_of(row);
    let ended = row.ended_at_ms.unwrap_or(row.started_at_ms).max(row.started_at_ms);
    let output = TerminalOutput {
        text: text.unwrap_or_default(),
        handle,
        exit: Some(TerminalExit {
            status: status.clone(),
            output_open: false,
            left: Vec::new(),
            out_of_memory: false,
        }),
        elapsed: Duration::from_millis(u64::try_from(ended - row.started_at_ms).unwrap_or(0)),
        ..TerminalOutput::default()
    };
    Past { words: past_words(row, last_life, &status), output }
}

/// Returns the exit status of the shell's command, as far as a runner saw it.
fn end_of(row: &ShellRow) -> ExitStatus {
    match (&row.exit, row.state) {
        (ShellExit { code: Some(code), .. }, _) => ExitStatus::Code(*code),
        (ShellExit { signal: Some(name), .. }, _) => ExitStatus::Signal(name.clone()),
        (_, ShellState::Stopped) => ExitStatus::Unseen("it was ended when the runner was stopped"),
        (_, ShellState::Lost) => ExitStatus::Unseen("the runner was not there"),
        _ => ExitStatus::Unseen("the runner was restarted while it ran"),
    }
}

fn past_words(row: &ShellRow, last_life: Option<i64>, status: &ExitStatus) -> String {
    let outlives = row.trace.as_ref().is_some_and(|trace| trace.fifo.is_some());
    match (row.state, status) {
        (ShellState::Lost, ExitStatus::Unseen(_)) if outlives => format!(
            "ended while the runner was not there; last seen running {}; its exit code is not known",
            date(last_life.unwrap_or(0).max(row.started_at_ms)),
        ),
        (ShellState::Lost, ExitStatus::Unseen(_)) => {
            "ended with the runner, which was killed or crashed; its exit code is not known".to_owned()
        }
        (ShellState::Lost, _) => format!(
            "ended, {}; what it had left running was ended after the runner was killed or crashed",
            ending_words(status)
        ),
        (ShellState::Stopped, _) => match row.ended_at_ms {
            Some(at) => format!("ended with the runner, which was stopped {}", date(at)),
            None => "ended with the runner, which was stopped".to_owned(),
        },
        _ => format!("ended before the runner was restarted, {}", ending_words(status)),
    }
}

/// Formats a time as `Fri, 20 Nov 2026 21:05:03 GMT`.
fn date(ms: i64) -> String {
    let since = Duration::from_millis(u64::try_from(ms).unwrap_or(0));
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// Creates the list of background shells, recorded in the journal if there is one.
pub(super) fn board(journal: Option<&Journal>) -> Arc<ShellBoard> {
    match journal {
        Some(journal) => {
            let records = JournalledShells { journal: journal.clone(), clock: Clock::system() };
            Arc::new(ShellBoard::recorded(Arc::new(records)))
        }
        None => Arc::default(),
    }
}
