//! One call of SqliteQuery in the runner: checks the file, asks the worker, and words the answer.

use std::io;
use std::path::Path;

use super::SqliteDeps;
use super::database_file::{
    self, DatabaseFile, ReadMethod, find_super_journal, super_journal_refusal,
};
use super::row_layout::OutputFormat;
use super::snapshot::{COPY_NAME, CallDeadline, DatabaseSnapshot, FileStamps};
use super::transaction::maybe_committed_error;
use super::worker_protocol::{JOB, OpenMode, SqlTask, UnopenedState, WorkerAnswer, WorkerQuestion};
use punie_core::ids::RequestId;
use punie_host::WorkspacePath;
use punie_host::worker::{WorkerCall, WorkerFailure};
use punie_text::output::TextBudget;
use punie_tool::{ErrorCode, ResultMeta, ToolError, ToolReply};

/// Bytes of the budget that are kept free for notes beside rows in JSON.
const NOTE_BYTES: usize = 1_000;

/// One call, in a blocking thread.
pub(super) struct SqliteCall {
    pub(super) path: WorkspacePath,
    pub(super) shown: String,
    pub(super) deps: SqliteDeps,
    pub(super) request: RequestId,
    pub(super) time: CallDeadline,
    /// The work on the opened database.
    pub(super) task: SqlTask,
    pub(super) is_change: bool,
    pub(super) format: OutputFormat,
    pub(super) budget: TextBudget,
}

impl SqliteCall {
    /// Checks the file, asks the worker, and words its answer.
    pub(super) fn run_call(&self) -> Result<ToolReply, ToolError> {
        if self.time.cancel.is_cancelled() {
            return Err(ToolError::call_cancelled(
                "The query was cancelled before it began.",
            ));
        }
        // Held until the worker has ended: every look at the database is a look into this folder.
        let (folder, name) =
            self.path
                .open_parent_folder(false)
                .map_err(|cause| match cause.kind() {
                    io::ErrorKind::IsADirectory => database_file::folder_refusal(&self.shown),
                    _ => ToolError::from_io(&self.shown, &cause),
                })?;
        let path = folder.entry_path(&name);
        let folder_path = folder.entry_path(".".as_ref());
        let file = DatabaseFile::check(&path, &self.shown, self.is_change)?;
        let question = WorkerQuestion {
            shown: self.shown.clone(),
            name,
            file_id: file.id,
            opening: OpenMode::InPlace,
            time_limit: self.time.remaining_time(),
            task: self.task.clone(),
            longest_secret: self.deps.redactor.longest_secret(),
        };
        let copy_reason = match file.way {
            ReadMethod::Copied(reason) => reason,
            ReadMethod::Opened(opening) => {
                let question = WorkerQuestion {
                    opening,
                    ..question.clone()
                };
                match self.ask_in_place(&folder_path, &path, &question)? {
                    WorkerAnswer::NotInPlace {
                        state: UnopenedState::Locked,
                        ..
                    } => "another program keeps it locked",
                    WorkerAnswer::NotInPlace {
                        state: UnopenedState::Unfinished,
                        ..
                    } => {
                        "a program was killed in the middle of a change, which the copy leaves out"
                    }
                    answer => return self.build_reply(answer, None),
                }
            }
            ReadMethod::SharedLog => match self.ask_worker(&folder_path, &question)? {
                WorkerAnswer::NotInPlace { .. } => {
                    "its write-ahead log cannot be shared with the programs that use it"
                }
                answer => return self.build_reply(answer, None),
            },
        };
        self.ask_about_copy(&path, question, copy_reason)
    }

    /// Asks about the database where it is. Fails if a program wrote to it while it was read without locks.
    fn ask_in_place(
        &self,
        folder: &Path,
        path: &Path,
        question: &WorkerQuestion,
    ) -> Result<WorkerAnswer, ToolError> {
        if question.opening == OpenMode::Change {
            self.check_super_journal(folder, path, question)?;
        }
        let read_stamps =
            || (question.opening == OpenMode::Immutable).then(|| FileStamps::read(path));
        let before = read_stamps();
        let answer = self.ask_worker(folder, question)?;
        if before == read_stamps() {
            return Ok(answer);
        }
        let text = format!(
            "A program began to write {} while it was read. Ask again.",
            self.shown
        );
        Err(ToolError::new(ErrorCode::Busy, text))
    }

    /// Copies the database and asks about the copy.
    fn ask_about_copy(
        &self,
        path: &Path,
        question: WorkerQuestion,
        reason: &str,
    ) -> Result<ToolReply, ToolError> {
        let snapshot =
            DatabaseSnapshot::copy_database(path, &self.shown, &self.deps.scratch, &self.time)?;
        self.check_journal_name(&snapshot.path())?;
        let question = WorkerQuestion {
            opening: OpenMode::Copy,
            name: COPY_NAME.into(),
            file_id: None,
            time_limit: self.time.remaining_time(),
            ..question
        };
        let answer = self.ask_worker(snapshot.folder(), &question)?;
        self.build_reply(answer, Some(reason))
    }

    /// Refuses to change a database whose unfinished journal names another file.
    fn check_super_journal(
        &self,
        folder: &Path,
        path: &Path,
        question: &WorkerQuestion,
    ) -> Result<(), ToolError> {
        let Err(refusal) = self.check_journal_name(path) else {
            return Ok(());
        };
        // Such a journal may also be that of a program that is just committing. A reader tells.
        let opened = WorkerQuestion {
            opening: OpenMode::InPlace,
            task: SqlTask::Open,
            ..question.clone()
        };
        match self.ask_worker(folder, &opened)? {
            WorkerAnswer::NotInPlace {
                state: UnopenedState::Unfinished,
                ..
            } => Err(refusal),
            _ => Ok(()),
        }
    }

    fn check_journal_name(&self, database: &Path) -> Result<(), ToolError> {
        match find_super_journal(database) {
            Ok(None) => Ok(()),
            Ok(Some(name)) => Err(super_journal_refusal(&self.shown, &name)),
            Err(cause) => Err(ToolError::from_io(
                format!("{}-journal", self.shown),
                &cause,
            )),
        }
    }

    fn ask_worker(
        &self,
        folder: &Path,
        question: &WorkerQuestion,
    ) -> Result<WorkerAnswer, ToolError> {
        let call = WorkerCall {
            request: &self.request,
            job: JOB,
            folder,
            question,
            file: None,
            needs_temp: true,
            time_limit: question.time_limit,
            cancel: &self.time.cancel,
        };
        let failure = match self.deps.worker.call(&call) {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let kept = if question.opening == OpenMode::Change {
            " Nothing is changed: the transaction was not committed."
        } else {
            ""
        };
        let in_step = format!(
            "in a step that SQLite cannot interrupt, such as one function over long values. It was ended. Take parts of \
             long values with substr().{kept}"
        );
        Err(match failure {
            WorkerFailure::Cancelled => {
                ToolError::call_cancelled(format!("The query was cancelled, and was {in_step}"))
            }
            WorkerFailure::TimedOut => ToolError::new(
                ErrorCode::Timeout,
                format!("The query took longer than timeout_ms, and was {in_step}"),
            ),
            WorkerFailure::DiedCommitting => maybe_committed_error(&ToolError::new(
                ErrorCode::Io,
                format!("{}: {failure}.", self.shown),
            )),
            WorkerFailure::NotStarted(_) | WorkerFailure::Died(_) => ToolError::internal(format!(
                "{} could not be read: {failure}. Ask for less at a time; the database may also be damaged.{kept}",
                self.shown
            )),
        })
    }

    fn build_reply(
        &self,
        answer: WorkerAnswer,
        copy_reason: Option<&str>,
    ) -> Result<ToolReply, ToolError> {
        let mut meta = ResultMeta::default();
        let mut notes = Vec::new();
        let mut format = self.format;
        let text = match (answer, &self.task) {
            (WorkerAnswer::Refused(refusal) | WorkerAnswer::NotInPlace { refusal, .. }, _) => {
                return Err(refusal.into());
            }
            (WorkerAnswer::Described(mut overview), SqlTask::Describe(part)) => {
                meta.redactions = Some(overview.mask_secrets(&self.deps.redactor));
                meta.warnings.extend(overview.damage.as_ref().map(|why| {
                    format!(
                        "{} is damaged ({why}); what is shown may lack rows or tables",
                        self.shown
                    )
                }));
                // A description of the schema is a text in every format.
                format = OutputFormat::Table;
                format!("{}: {}", self.shown, overview.describe(part))
            }
            (
                WorkerAnswer::Ran {
                    columns,
                    mut page,
                    note,
                },
                SqlTask::Run(statement),
            ) => {
                meta.redactions = Some(page.mask_secrets(&self.deps.redactor));
                meta.lossy_chars = Some(page.lossy).filter(|lossy| *lossy > 0);
                notes.extend(note);
                let max_bytes = self.budget.max_chars().saturating_sub(NOTE_BYTES);
                if columns.is_empty() {
                    String::new()
                } else {
                    format.format_rows(&columns, &page, &statement.page, max_bytes)
                }
            }
            _ => {
                return Err(ToolError::internal("The worker answered another question."));
            }
        };
        meta.redactions = meta.redactions.filter(|masked| *masked > 0);
        if let Some(why) = copy_reason {
            notes.push(format!(
                "[read from a snapshot, a private copy made now, because {why}]"
            ));
        }
        let text = format.join_notes(&text, &notes);
        let reply = if format == OutputFormat::Json {
            ToolReply::from_fitted_text(text)
        } else {
            ToolReply::from_text(text)
        };
        Ok(reply.with_meta(meta).with_budget(self.budget))
    }
}
