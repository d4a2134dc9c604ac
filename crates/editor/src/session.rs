//! One session of a connected editor: its name, the methods that it serves, and the files of its project.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::OnceCell;

use super::permission_prompt::SessionPermissions;
use super::tool_catalog::{DiscoveryMode, ToolCatalog};
use crate::ClientTools;
use crate::protocol::{
    ClientCapabilities, ContentBlock, ContentChunk, SessionId, SessionNotification, SessionUpdate,
};
use punie_home::{ThreadEvent, ThreadStore};
use punie_host::WorkspacePath;
use punie_tool::ToolEffect;

/// The owner's settings for editors.
#[derive(Debug, Clone)]
pub struct EditorSettings {
    /// Text files of the editor's project are read and written by it, if it serves that.
    pub files: bool,
    /// Commands run in the editor's terminals, if it has any.
    pub terminals: bool,
    /// The person is asked before calls with these effects.
    pub ask: Vec<ToolEffect>,
    /// The time limit of all other requests to the editor.
    pub timeout: Duration,
    /// The condition for asking the editor for its own tools.
    pub discover: DiscoveryMode,
    /// The time limit of the editor's own tools, unless the call has an earlier deadline.
    pub tool_timeout: Duration,
}

impl Default for EditorSettings {
    fn default() -> Self {
        Self {
            files: true,
            terminals: false,
            ask: vec![ToolEffect::Writes, ToolEffect::Executes],
            timeout: Duration::from_secs(30),
            discover: DiscoveryMode::default(),
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
    pub(super) permissions: SessionPermissions,
    /// The editor's own tools, requested once.
    pub(super) catalog: OnceCell<ToolCatalog>,
    /// The store of the session's thread.
    threads: OnceLock<ThreadStore>,
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
            permissions: SessionPermissions::default(),
            catalog: OnceCell::new(),
            threads: OnceLock::new(),
        }
    }

    /// Sets the store in which the session's events are recorded from now on.
    pub fn set_thread_store(&self, threads: ThreadStore) {
        // A session has one store.
        let _ = self.threads.set(threads);
    }

    /// Records an event of the session.
    pub fn record_event(&self, event: &ThreadEvent) {
        if let Some(threads) = self.threads.get() {
            threads.append_event(&self.id.to_string(), event);
        }
    }

    /// Sends a message to the person.
    pub fn send_message(&self, text: &str) {
        let chunk = ContentChunk::new(ContentBlock::from(text.to_owned()));
        self.send_update(SessionUpdate::AgentMessageChunk(chunk));
    }

    /// Passes an update to the connection, without waiting until it is shown.
    pub fn send_update(&self, update: SessionUpdate) {
        let sent = self
            .client
            .session_update(SessionNotification::new(self.id.clone(), update));
        if let Some(Err(error)) = futures_util::FutureExt::now_or_never(sent) {
            tracing::debug!(%error, "the editor is not told");
        }
    }

    /// Names the person, as part of a sentence.
    pub(super) fn person_phrase(&self) -> String {
        format!("the person at {}", self.editor)
    }

    /// Returns whether a file belongs to the editor's project.
    pub fn is_in_project(&self, path: &WorkspacePath) -> bool {
        self.roots
            .iter()
            .any(|root| path.absolute_path().starts_with(root))
    }

    /// Returns whether this file is read through the editor.
    pub fn serves_reads_of(&self, path: &WorkspacePath) -> bool {
        self.settings.files && self.capabilities.fs.read_text_file && self.is_in_project(path)
    }

    /// Returns whether this file is written through the editor. An editor that cannot read is not used for writing,
    /// because the replaced text would be unknown.
    pub fn serves_writes_of(&self, path: &WorkspacePath) -> bool {
        self.serves_reads_of(path) && self.capabilities.fs.write_text_file
    }

    /// Returns whether commands run in the editor's terminals.
    pub fn serves_commands(&self) -> bool {
        self.settings.terminals && self.capabilities.terminal
    }

    /// Returns whether the editor shows streamed output, sent beside the tool call.
    pub(super) fn streams_output(&self) -> bool {
        let announced = self
            .capabilities
            .meta
            .as_ref()
            .and_then(|meta| meta.get("terminal_output"));
        announced.and_then(serde_json::Value::as_bool) == Some(true)
    }

    /// Revokes all permissions for the whole session. Returns how many there were.
    pub fn revoke_permissions(&self) -> usize {
        std::mem::take(&mut *self.permissions.scopes.lock()).len()
    }
}
