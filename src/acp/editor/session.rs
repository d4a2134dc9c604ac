//! One session of a connected editor: its name, the methods that it serves, and the files of its project.

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

/// The owner's settings for editors.
#[derive(Debug, Clone)]
pub struct EditorSettings {
    /// Text files of the editor's project are read and written by it, if it serves that.
    pub files: bool,
    /// Commands run in the editor's terminals, if it has any.
    pub terminals: bool,
    /// The person is asked before calls with these effects.
    pub ask: Vec<Effect>,
    /// The time limit of all other requests to the editor.
    pub timeout: Duration,
    /// The condition for asking the editor for its own tools.
    pub discover: Discover,
    /// The time limit of the editor's own tools, unless the call has an earlier deadline.
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
    /// The editor's name, such as `Zed 0.210`.
    pub editor: String,
    /// The methods of the editor.
    pub client: Arc<dyn ClientTools>,
    /// The capabilities that the editor declared.
    pub capabilities: ClientCapabilities,
    /// The project's folders, without symlinks. The editor does not serve files elsewhere.
    pub roots: Vec<PathBuf>,
    /// The owner's settings.
    pub settings: EditorSettings,
    /// The permissions that the person gave for the whole session.
    pub(super) remembered: Remembered,
    /// The editor's own tools, requested once.
    pub(super) catalog: OnceCell<ToolCatalog>,
    /// The store of the session's thread.
    threads: OnceLock<Threads>,
}

impl EditorSession {
    /// Creates a session without permissions.
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

    /// Sets the store in which the session's events are recorded from now on.
    pub fn record_in(&self, threads: Threads) {
        // A session has one store.
        let _ = self.threads.set(threads);
    }

    /// Records an event of the session.
    pub fn record(&self, event: &ThreadEvent) {
        if let Some(threads) = self.threads.get() {
            threads.add(&self.id.to_string(), event);
        }
    }

    /// Sends a message to the person.
    pub fn say(&self, text: &str) {
        let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
        self.update(SessionUpdate::AgentMessageChunk(chunk));
    }

    /// Passes an update to the connection, without waiting until it is shown.
    pub fn update(&self, update: SessionUpdate) {
        let sent = self.client.session_update(SessionNotification::new(self.id.clone(), update));
        if let Some(Err(error)) = futures_util::FutureExt::now_or_never(sent) {
            tracing::debug!(%error, "the editor is not told");
        }
    }

    /// Names the person, as part of a sentence.
    pub(super) fn person(&self) -> String {
        format!("the person at {}", self.editor)
    }

    /// Returns whether a file belongs to the editor's project.
    pub fn holds(&self, path: &WorkspacePath) -> bool {
        self.roots.iter().any(|root| path.absolute().starts_with(root))
    }

    /// Returns whether this file is read through the editor.
    pub fn reads(&self, path: &WorkspacePath) -> bool {
        self.settings.files && self.capabilities.fs.read_text_file && self.holds(path)
    }

    /// Returns whether this file is written through the editor. An editor that cannot read is not used for writing,
    /// because the replaced text would be unknown.
    pub fn writes(&self, path: &WorkspacePath) -> bool {
        self.reads(path) && self.capabilities.fs.write_text_file
    }

    /// Returns whether commands run in the editor's terminals.
    pub fn runs(&self) -> bool {
        self.settings.terminals && self.capabilities.terminal
    }

    /// Returns whether the editor shows streamed output, sent beside the tool call.
    pub(super) fn shows_output(&self) -> bool {
        let announced = self.capabilities.meta.as_ref().and_then(|meta| meta.get("terminal_output"));
        announced.and_then(serde_json::Value::as_bool) == Some(true)
    }

    /// Revokes all permissions for the whole session. Returns how many there were.
    pub fn revoke(&self) -> usize {
        self.remembered.clear()
    }
}
