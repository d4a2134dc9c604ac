//! Stores the calls that the threads of editors have shown, one file per thread, so that an editor can open a thread
//! again. Only titles and outcomes are stored; arguments and results stay in the journal.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use super::layout::Home;
use punie_core::durable::{open_private_file, parse_json_lines};
use punie_core::ids::{ConversationId, RequestId};

/// The most threads that are kept.
const MOST_THREADS: usize = 200;
/// The most calls of a thread that are shown again.
const MOST_CALLS: usize = 200;
/// A longer file is rewritten with its last calls.
const LARGEST: u64 = 1 << 20;

/// An event in a thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    rename_all = "camelCase",
    rename_all_fields = "camelCase",
    tag = "event"
)]
pub enum ThreadEvent {
    /// It was attached.
    Attached(ThreadAttachment),
    /// The person stopped the turn.
    Stopped,
    /// A call was shown to its end.
    Call {
        /// The request.
        request_id: RequestId,
        /// The call's title, as a sentence.
        title: String,
        /// ACP's kind of the tool.
        kind: String,
        /// The call succeeded.
        ok: bool,
    },
}

/// The conversations that a thread was attached to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThreadAttachment {
    /// The conversation; `None` for all.
    pub conversation_id: Option<ConversationId>,
}

/// A thread as its file has it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StoredThread {
    /// Its attachment when it ended; `None` if it was not attached.
    pub attached: Option<ThreadAttachment>,
    /// Its latest calls, oldest first.
    pub calls: Vec<ThreadEvent>,
}

/// The threads of one home.
#[derive(Debug, Clone)]
pub struct ThreadStore {
    folder: PathBuf,
}

impl ThreadStore {
    /// Returns the threads of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            folder: home.threads_dir(),
        }
    }

    /// Returns the file of a thread; `None` for an invalid id. The grammar of ids keeps the file in the folder.
    fn file(&self, id: &str) -> Option<PathBuf> {
        RequestId::parse(id)
            .ok()
            .map(|id| self.folder.join(format!("{id}.jsonl")))
    }

    /// Begins a thread, and removes the oldest ones if there are too many.
    pub fn begin(&self, id: &str) {
        let files = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let age = |file: &fs::DirEntry| {
            file.metadata()
                .and_then(|file| file.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH)
        };
        let mut files: Vec<_> = files.map(|file| (age(&file), file.path())).collect();
        files.sort();
        for (_, path) in files
            .iter()
            .take((files.len() + 1).saturating_sub(MOST_THREADS))
        {
            if let Err(error) = fs::remove_file(path) {
                tracing::debug!(path = %path.display(), %error, "an old thread is not removed");
            }
        }
        self.append_text(id, "");
    }

    /// Adds an event to a thread, without syncing it to disk.
    ///
    /// # Panics
    /// Never: texts are always JSON.
    pub fn append_event(&self, id: &str, event: &ThreadEvent) {
        let line =
            |event: &ThreadEvent| serde_json::to_string(event).expect("texts are JSON") + "\n";
        let before = self.file(id).and_then(|path| fs::metadata(path).ok());
        if before.is_some_and(|file| file.len() > LARGEST)
            && let Some(thread) = self.read(id)
            && let Some(path) = self.file(id)
        {
            let attached = thread.attached.map(ThreadEvent::Attached);
            let text: String = thread
                .calls
                .iter()
                .chain(attached.as_ref())
                .map(line)
                .collect();
            if let Err(error) = fs::remove_file(&path) {
                tracing::debug!(path = %path.display(), %error, "a long thread is not shortened");
            }
            self.append_text(id, &text);
        }
        self.append_text(id, &line(event));
    }

    fn append_text(&self, id: &str, text: &str) {
        let Some(path) = self.file(id) else {
            return;
        };
        let opened = open_private_file(&path, |options| options.append(true).create(true));
        if let Err(error) = opened.and_then(|mut file| file.write_all(text.as_bytes())) {
            tracing::warn!(path = %path.display(), %error, "a thread cannot be opened again as it was");
        }
    }

    /// Reads a thread; `None` if there is none of this id. Unreadable lines are skipped.
    pub fn read(&self, id: &str) -> Option<StoredThread> {
        let text = fs::read(self.file(id)?).ok()?;
        let mut thread = StoredThread::default();
        for event in parse_json_lines(&text) {
            match event {
                ThreadEvent::Attached(attachment) => thread.attached = Some(attachment),
                ThreadEvent::Stopped => thread.attached = None,
                call @ ThreadEvent::Call { .. } => thread.calls.push(call),
            }
        }
        thread
            .calls
            .drain(..thread.calls.len().saturating_sub(MOST_CALLS));
        Some(thread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_read_as_it_was_and_no_other_file_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let threads = ThreadStore {
            folder: folder.path().join("threads"),
        };
        fs::create_dir(&threads.folder).expect("a folder");
        fs::write(folder.path().join("other.jsonl"), "").expect("written");
        assert_eq!((threads.read("t1"), threads.read("../other")), (None, None));
        threads.begin("t1");
        assert_eq!(threads.read("t1"), Some(StoredThread::default()));
        let talk = ThreadAttachment {
            conversation_id: ConversationId::parse("talk").ok(),
        };
        threads.append_event("t1", &ThreadEvent::Attached(talk.clone()));
        let call = |n: usize| ThreadEvent::Call {
            request_id: RequestId::parse(format!("r{n}")).expect("an id"),
            title: "Run `true`".to_owned(),
            kind: "execute".to_owned(),
            ok: true,
        };
        for n in 0..=MOST_CALLS {
            threads.append_event("t1", &call(n));
        }
        threads.append_text("t1", "{ torn");
        let thread = threads.read("t1").expect("it is there");
        assert_eq!(
            (thread.calls.len(), &thread.calls[0]),
            (MOST_CALLS, &call(1))
        );
        assert_eq!(thread.attached, Some(talk));
        threads.append_text("t1", "\n");
        threads.append_event("t1", &ThreadEvent::Stopped);
        assert_eq!(threads.read("t1").expect("it is there").attached, None);
        for n in 0..MOST_THREADS + 5 {
            threads.begin(&format!("u{n}"));
        }
        assert_eq!(
            fs::read_dir(&threads.folder).expect("a folder").count(),
            MOST_THREADS
        );
    }
}
