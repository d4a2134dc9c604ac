//! Effects that a call declares before it makes them, and their state as found by a later process. With them, the
//! answer after a crash reports facts instead of possibilities.
//! Not here: the storage of declarations (`journal`), and the inspection of files and repositories.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use super::{ToolError, ToolReply};
use crate::request::ResultMeta;
use punie_core::ids::RequestId;

/// A declared effect. Paths are absolute and without links, and lay in a workspace when they were written. Hashes are
/// SHA-256 in hex. It is stored as JSON: a field may be added but must not change its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum CallIntent {
    /// A file gets this content or is removed. New content is written to a temporary file that then replaces it.
    File {
        /// The file.
        path: String,
        /// The current content; absent if there is no file.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        /// The new content; absent if the file is to be removed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// True if the owner is to be able to run it; absent if the change does not concern this.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executable: Option<bool>,
        /// The path of the new content until it replaces the file, or of the old content if the file is removed.
        temp: String,
    },
    /// A temporary file is written beside another one; replacing that one is declared separately.
    Beside {
        /// Its path.
        temp: String,
    },
    /// A file is moved in one step.
    Move {
        /// The current path.
        from: String,
        /// The new path, where nothing exists yet.
        to: String,
        /// The hash of its content, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// Files are staged in the index of a git repository. Staging them twice has the effect of once.
    Stage {
        /// The top folder of the working tree.
        repository: String,
        /// The time of this declaration, in milliseconds since 1970.
        since_ms: u64,
    },
    /// A commit is made on HEAD.
    Commit {
        /// The top folder of the working tree.
        repository: String,
        /// The commit at HEAD before; absent if there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
        /// The hash of the message, without trailing white space and surplus empty lines.
        message: String,
        /// The time of this declaration, in milliseconds since 1970.
        since_ms: u64,
    },
    /// An effect that cannot be inspected afterwards, in words.
    Vague {
        /// The description.
        what: String,
    },
}

/// Completes once the declaration is on disk, safe from a power failure.
pub type IntentFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;

/// Records the declared effects of calls.
pub trait IntentRecorder: fmt::Debug + Send + Sync + 'static {
    /// Records these effects after the earlier ones of the call. If it fails, the effects must not be made.
    fn record_intents<'a>(
        &'a self,
        request: &'a RequestId,
        intents: Vec<CallIntent>,
    ) -> IntentFuture<'a>;
}

/// Records nothing, for calls that no later process inspects.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnrecordedIntents;

impl IntentRecorder for UnrecordedIntents {
    fn record_intents<'a>(
        &'a self,
        _request: &'a RequestId,
        _intents: Vec<CallIntent>,
    ) -> IntentFuture<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The state of a call's declared effects after a crash of the runner. Temporary files of the call are removed by then.
#[derive(Debug)]
pub enum IntentOutcome {
    /// Nothing was done, so the call can run again.
    Untouched,
    /// Everything was done; this is the answer of the call.
    Done(Box<ToolReply>),
    /// Neither of both: the current state, in words and as facts.
    Unclear {
        /// The text for the model.
        text: String,
        /// The facts for programs.
        meta: Box<ResultMeta>,
    },
}
