//! The worker's side of a call: reads the question, sends the answer.

use std::fs::File;
use std::io::{self, BufRead as _, Read as _, Seek as _, Write as _};
use std::thread;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One line from the worker to the runner.
#[derive(Serialize, Deserialize)]
pub(super) enum WorkerMessage<A> {
    /// The next step cannot be taken back.
    Committing,
    /// The last line.
    Answer(A),
}

/// The connection to the runner that asked.
#[derive(Debug)]
pub struct CallerLink(());

/// Answers the question that is waiting on stdin.
///
/// # Errors
/// A closed pipe: the runner is gone. A question that cannot be decoded.
pub fn serve_question<Q: DeserializeOwned, A: Serialize>(
    work: impl FnOnce(Q, &CallerLink) -> A,
) -> io::Result<()> {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line)?;
    let answer = work(serde_json::from_str(&line)?, &CallerLink(()));
    write_message(&WorkerMessage::Answer(answer))
}

impl CallerLink {
    /// Announces a step that cannot be taken back, such as a commit. The runner then waits for its end.
    ///
    /// # Errors
    /// A closed pipe: the runner is gone, and the step must not be taken.
    pub fn announce_commit(&self) -> io::Result<()> {
        write_message(&WorkerMessage::Committing::<()>)
    }

    /// Opens the file that goes with the question, at its beginning. It stands in the place of stderr.
    ///
    /// # Errors
    /// The system refuses. A question without a file.
    pub fn open_input_file(&self) -> io::Result<File> {
        #[cfg(unix)]
        let owned = std::os::fd::AsFd::as_fd(&io::stderr()).try_clone_to_owned();
        #[cfg(windows)]
        let owned = std::os::windows::io::AsHandle::as_handle(&io::stderr()).try_clone_to_owned();
        let mut file = File::from(owned?);
        file.rewind()?;
        Ok(file)
    }

    /// Calls this when the runner hangs up: the call was cancelled, or the runner is gone.
    ///
    /// # Errors
    /// The system starts no thread.
    pub fn on_hang_up(&self, action: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let wait = move || {
            while matches!(io::stdin().read(&mut [0]), Ok(1)) {}
            action();
        };
        thread::Builder::new()
            .name("hang-up".to_owned())
            .spawn(wait)
            .map(drop)
    }
}

fn write_message<A: Serialize>(message: &WorkerMessage<A>) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    let mut output = io::stdout().lock();
    output.write_all(&line)?;
    output.flush()
}
