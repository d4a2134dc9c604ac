//! One session of a connected editor: who it is, what it serves, and which files are its own.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::discovery::{Discover, ToolCatalog};
use super::permission::Remembered;
use crate::acp::protocol::{
    ClientCapabilities, ContentBlock, ContentChunk, SessionId, SessionNotification, SessionUpdate,
};
use crate::acp::{ClientTools, WorkspacePath};
use crate::home::{ThreadEvent, Threads};
use crate::tool::Effect;

/// What the owner wants of editors.
#[derive(Debug, Clone)]
pub struct EditorSettings {
    /// Text files of the editor's project are read and written by it, where it serves that.
    pub files: bool,
    /// Commands run in its terminals, where it has them.
    pub terminals: bool,
    /// The person there is asked before calls with these effects.
    pub ask: Vec<Effect>,
    /// How long the editor has to answer anything else.
    pub timeout: Duration,
    /// When it is asked for tools of its own.
    pub discover: Discover,
    /// How long a tool of its own may take, where the call has no nearer deadline.
    pub tool_timeout: Duration,
}

impl Default for EditorSettings {
    fn default() -> Self {
        Self {
            files: true,
            terminals: false,
            ask: vec![Effect::Writes, Effect::Executes],
            timeout: Duration::from_secs(30),
            discover: Discover::default(),
            tool_timeout: Duration::from_mins(1),
        }
    }
}

/// A session that an editor opened.
pub struct EditorSession {
    /// Its id on the wire.
    pub id: SessionId,
    /// The editor's own name, as `Zed 0.210`.
    pub editor: String,
    /// What it serves.
    pub client: Arc<dyn ClientTools>,
    /// What it said it serves.
    pub capabilities: ClientCapabilities,
    /// The project's folders, without links: files elsewhere are none of the editor's.
    pub roots: Vec<PathBuf>,
    /// What the owner wants.
    pub settings: EditorSettings,
    /// What the person there has allowed for the whole session.
    pub(super) remembered: Remembered,
    /// The tools it offers of its own; asked for once.
    pub(super) catalog: OnceCell<ToolCatalog>,
    /// Where it is stored what the session has shown.
    threads: OnceLock<Threads>,
}

impl EditorSession {
    /// A session of which nothing is remembered yet.
    pub fn new(
        id: SessionId,
        editor: String,
        client: Arc<dyn ClientTools>,
        capabilities: ClientCapabilities,
        roots: Vec<PathBuf>,
        settings: EditorSettings,
    ) -> Self {
        Self {
            id,
            editor,
            client,
            capabilities,
            roots,
            settings,
            remembered: Remembered::default(),
            catalog: OnceCell::new(),
            threads: OnceLock::new(),
        }
    }

    /// Stores from now on what the session shows.
    pub fn record_in(&self, threads: Threads) {
        // A session has one place for that.
        let _ = self.threads.set(threads);
    }

    /// Stores something that happened in the session.
    pub fn record(&self, event: &ThreadEvent) {
        if let Some(threads) = self.threads.get() {
            threads.add(&self.id.to_string(), event);
        }
    }

    /// Says something to the person there.
    pub fn say(&self, text: &str) {
        let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
        self.update(SessionUpdate::AgentMessageChunk(chunk));
    }

    /// Hands something to the connection; nobody waits for it to be shown.
    pub fn update(&self, update: SessionUpdate) {
        let sent = self.client.session_update(SessionNotification::new(self.id.clone(), update));
        if let Some(Err(error)) = futures_util::FutureExt::now_or_never(sent) {
            tracing::debug!(%error, "the editor is not told");
        }
    }

    /// The person there, as a part of a sentence.
    pub(super) fn person(&self) -> String {
        format!("the person at {}", self.editor)
    }

    /// Whether a file belongs to the editor's project.
    pub fn holds(&self, path: &WorkspacePath) -> bool {
        self.roots.iter().any(|root| path.absolute().starts_with(root))
    }

    /// Whether this file is read through the editor.
    pub fn reads(&self, path: &WorkspacePath) -> bool {
        self.settings.files && self.capabilities.fs.read_text_file && self.holds(path)
    }

    /// Whether this file is written through the editor. One that writes what it cannot read is not trusted with it:
    /// nobody could say what it replaced.
    pub fn writes(&self, path: &WorkspacePath) -> bool {
        self.reads(path) && self.capabilities.fs.write_text_file
    }

    /// Whether commands run in the editor's terminals.
    pub fn runs(&self) -> bool {
        self.settings.terminals && self.capabilities.terminal
    }

    /// Whether the editor shows a command's output as it comes, sent beside the tool call.
    pub(super) fn shows_output(&self) -> bool {
        let announced = self.capabilities.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        announced.and_then(serde_json::Value::as_bool) == Some(true)
    }

    /// Takes back all that was allowed for the whole session; how much that was.
    pub fn revoke(&self) -> usize {
        self.remembered.clear()
    }
}
