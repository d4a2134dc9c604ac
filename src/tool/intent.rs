//! What a call declares before it does it, and what a later life finds of it: so that after a crash the answer says
//! what is there instead of what may be. Not here: where a declaration is written down (journal), and who looks what
//! became of it (whoever serves the files and the repositories).

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use serde::{Deserialize, Serialize};

use super::{Reply, ToolError};
use crate::ids::RequestId;
use crate::request::Meta;

/// One effect as it is about to be made. Paths are absolute, without links, and lay in a workspace when this was
/// written; hashes are SHA-256 in hex. It is kept as JSON, so a field may be added but never change its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Intent {
    /// A file gets this content, by a file beside it that takes its place, or goes.
    File {
        /// The file.
        path: String,
        /// What it holds before; absent where there is none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        before: Option<String>,
        /// What it shall hold; absent where it shall be gone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        after: Option<String>,
        /// Whether its owner shall be able to run it, where that is a part of the change.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        executable: Option<bool>,
        /// The path of the new content until it takes the file's place; of the old content where the file shall go.
        temp: String,
    },
    /// A file is written beside another one, whose place it shall take once that is declared.
    Beside {
        /// Its path.
        temp: String,
    },
    /// A file gets another path, in one step.
    Move {
        /// Where it is.
        from: String,
        /// Where it shall be, where nothing is yet.
        to: String,
        /// What it holds, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// Files are put into the index of a git repository. To do so twice is the same as once.
    Stage {
        /// The working tree's top.
        repository: String,
        /// When this was declared, in milliseconds since 1970.
        since_ms: u64,
    },
    /// A commit is made on HEAD.
    Commit {
        /// The working tree's top.
        repository: String,
        /// The commit that HEAD was; absent where there was none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head: Option<String>,
        /// The hash of the message, without blanks at line ends and needless empty lines.
        message: String,
        /// When this was declared, in milliseconds since 1970.
        since_ms: u64,
    },
    /// Something of which nothing can be said afterwards, in words.
    Vague {
        /// What it is.
        what: String,
    },
}

/// Done once the declaration is durable against a power cut.
pub type Declared<'a> = Pin<Box<dyn Future<Output = Result<(), ToolError>> + Send + 'a>>;

/// Writes down what calls declare.
pub trait Intents: fmt::Debug + Send + Sync + 'static {
    /// Writes these down, behind what the call declared before. Where it fails, nothing may be done.
    fn declare<'a>(&'a self, request: &'a RequestId, intents: Vec<Intent>) -> Declared<'a>;
}

/// Writes nothing down: for calls that no later life asks about.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unrecorded;

impl Intents for Unrecorded {
    fn declare<'a>(&'a self, _request: &'a RequestId, _intents: Vec<Intent>) -> Declared<'a> {
        Box::pin(std::future::ready(Ok(())))
    }
}

/// What became of what a call declared, after its runner ended in the middle. Nothing of its making is left lying
/// about.
#[derive(Debug)]
pub enum Aftermath {
    /// Nothing was done: the call can be run again.
    Untouched,
    /// All of it is done; this is what the call answers with.
    Done(Box<Reply>),
    /// Neither: what is there now, in words, and as facts.
    Unclear {
        /// For the model.
        text: String,
        /// For programs.
        meta: Box<Meta>,
    },
}
