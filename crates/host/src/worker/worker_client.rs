//! The runner's side of a call: starts a worker, asks it, and kills it when its time is up.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};
use tokio::runtime::Handle;
use tokio_util::sync::CancellationToken;

use super::WORKER_ARGUMENT;
use super::temp_folder::TempFolder;
use super::worker_server::WorkerMessage;
use punie_core::ids::RequestId;

/// The time that a worker has to stop by itself, once it is cancelled or its time is up.
const GRACE: Duration = Duration::from_secs(2);
/// The longest answer.
const MAX_ANSWER_BYTES: u64 = 64 << 20;

/// The program that is started as a worker: this one.
#[derive(Debug, Clone)]
pub struct WorkerProgram {
    /// Its path.
    pub program: PathBuf,
    /// The folder in which a worker gets a private folder for temporary files. It need not exist.
    pub temp_root: PathBuf,
    /// The `TZ` variable. A worker gets no other variable of the runner's.
    pub time_zone: Option<OsString>,
}

/// One question to a worker.
#[derive(Debug)]
pub struct WorkerCall<'a, Q> {
    /// The call that it is for.
    pub request: &'a RequestId,
    /// The kind of work.
    pub job: &'static str,
    /// The worker's working directory.
    pub folder: &'a Path,
    /// The question.
    pub question: &'a Q,
    /// An open file that goes with it.
    pub file: Option<&'a File>,
    /// True for a job that writes temporary files. Another one gets no folder for them.
    pub needs_temp: bool,
    /// The time that the worker is given.
    pub time_limit: Duration,
    /// Cancels the call.
    pub cancel: &'a CancellationToken,
}

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum WorkerFailure {
    /// The system did not start a worker.
    #[error("a worker process could not be started: {0}")]
    NotStarted(#[from] io::Error),
    /// The call was cancelled; the worker did not stop by itself and was killed.
    #[error("it was cancelled")]
    Cancelled,
    /// The time was up; the worker did not stop by itself and was killed.
    #[error("its time was up")]
    TimedOut,
    /// The worker died: a crash, or a limit that it ran into.
    #[error("its worker process ended ({0})")]
    Died(ExitStatus),
    /// The worker died after it had announced a commit.
    #[error("its worker process ended during the commit")]
    DiedCommitting,
}

impl WorkerProgram {
    /// Asks a worker of its own. Blocks: to be called in `spawn_blocking`, whose thread the worker does not outlive.
    ///
    /// # Errors
    /// [`WorkerFailure`].
    pub fn call<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &WorkerCall<'_, Q>,
    ) -> Result<A, WorkerFailure> {
        let temp = call
            .needs_temp
            .then(|| TempFolder::create_below(&self.temp_root))
            .transpose()?;
        Handle::current().block_on(self.exchange_messages(call, temp.as_ref()))
    }

    async fn exchange_messages<Q: Serialize, A: DeserializeOwned>(
        &self,
        call: &WorkerCall<'_, Q>,
        temp: Option<&TempFolder>,
    ) -> Result<A, WorkerFailure> {
        let mut line = serde_json::to_vec(call.question).map_err(io::Error::from)?;
        line.push(b'\n');
        let mut worker = self.spawn(call, temp)?;
        let missing = || io::Error::other("the worker has no pipes");
        let (mut stdin, stdout) = worker
            .stdin
            .take()
            .zip(worker.stdout.take())
            .ok_or_else(missing)?;
        // A worker that died already does not take the question; its end is reported below.
        let _ = stdin.write_all(&line).await;
        let is_committing = AtomicBool::new(false);
        let mut reading = pin!(read_answer(stdout, &is_committing));
        let (in_time, failure) = tokio::select! {
            biased;
            () = call.cancel.cancelled() => {
                drop(stdin);
                (None, Some(WorkerFailure::Cancelled))
            }
            answer = &mut reading => (Some(answer), None),
            () = tokio::time::sleep(call.time_limit) => (None, Some(WorkerFailure::TimedOut)),
        };
        let in_grace = match in_time {
            Some(answer) => Some(answer),
            None => tokio::time::timeout(GRACE, &mut reading).await.ok(),
        };
        let answer = if let Some(answer) = in_grace {
            answer
        } else {
            if !is_committing.load(Ordering::Relaxed) {
                worker.start_kill()?;
            }
            // To its end: a commit that it announced before it was killed is still read.
            reading.await
        };
        match (answer, failure) {
            (Some(answer), _) => Ok(answer),
            (None, _) if is_committing.load(Ordering::Relaxed) => {
                Err(WorkerFailure::DiedCommitting)
            }
            (None, Some(failure)) => Err(failure),
            (None, None) => Err(WorkerFailure::Died(worker.wait().await?)),
        }
    }

    fn spawn<Q>(&self, call: &WorkerCall<'_, Q>, temp: Option<&TempFolder>) -> io::Result<Child> {
        let mut command = Command::new(&self.program);
        command
            .args([WORKER_ARGUMENT, call.job])
            .current_dir(call.folder)
            .env_clear()
            .envs(temp.map(|temp| ("TMPDIR", temp.path())))
            .envs(self.time_zone.iter().map(|zone| ("TZ", zone)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // The third place for an open file. Nobody would read a worker's messages.
            .stderr(match call.file {
                Some(file) => Stdio::from(file.try_clone()?),
                None => Stdio::null(),
            })
            .kill_on_drop(true);
        #[cfg(unix)]
        crate::local::process_attachment::tie_worker(&mut command, call.request);
        command.spawn()
    }
}

impl WorkerFailure {
    /// Returns whether the worker aborted by itself, as it does when memory runs out.
    pub fn is_abort(&self) -> bool {
        #[cfg(unix)]
        if let Self::Died(status) = self {
            return std::os::unix::process::ExitStatusExt::signal(status) == Some(libc::SIGABRT);
        }
        false
    }
}

/// Reads to the answer; `None` where the worker ends without one.
async fn read_answer<A: DeserializeOwned>(
    stdout: ChildStdout,
    is_committing: &AtomicBool,
) -> Option<A> {
    let mut lines = BufReader::new(stdout.take(MAX_ANSWER_BYTES)).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        match serde_json::from_str(&line) {
            Ok(WorkerMessage::Committing) => is_committing.store(true, Ordering::Relaxed),
            Ok(WorkerMessage::Answer(answer)) => return Some(answer),
            Err(_) => return None,
        }
    }
    None
}
