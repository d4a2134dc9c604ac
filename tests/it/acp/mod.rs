//! The Agent Client Protocol (ACP): an attached editor that serves calls in place of this machine, and the connection to
//! an editor.
#![cfg(target_os = "linux")]

mod commands;
mod commands_in_editors;
mod reading;
mod served_client;
mod wire;
mod writing;
mod writing_faults;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_editor::protocol::{ClientCapabilities, FileSystemCapabilities};
use punie_editor::{
    AttachedEditors, ClientTools, EditorOverlay, EditorSession, EditorSettings, TurnHandle,
};
use punie_handlers::file::{self, FileDeps};
use punie_handlers::shell::{self, ShellDeps};
use punie_handlers::terminal::{self, TerminalDeps};
use punie_home::Home;
use punie_host::Workspace;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::confinement::Confinement;
use punie_host::local::local_files::LocalFiles;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::{
    CallObserver, CallView, ObservedCall, ToolContext, ToolError, ToolRegistry, ToolReply,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::fake_client::FakeClient;
use crate::harness::process::worker_program;
use crate::harness::tools;

/// A workspace and its tools, to which an editor can be attached.
struct EditorBench {
    dir: TempDir,
    root: PathBuf,
    workspace: Workspace,
    overlay: EditorOverlay,
    editors: AttachedEditors,
    registry: ToolRegistry,
}

impl EditorBench {
    fn new() -> Self {
        Self::masking(Redactor::default())
    }

    fn masking(redactor: Redactor) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let base = std::fs::canonicalize(dir.path()).expect("it is there");
        let root = base.join("work");
        std::fs::create_dir(&root).expect("a folder");
        let workspace = Workspace::open_roots(std::slice::from_ref(&root)).expect("a workspace");
        let terminals = local_terminals(&base, redactor);
        let editors = AttachedEditors::default();
        let overlay = EditorOverlay::new(
            editors.clone(),
            LocalFiles::new(),
            terminals.clone(),
            base.join("scripts"),
        );
        let client = Arc::new(overlay.clone());
        let registry = ToolRegistry::new([
            file::tools(FileDeps::new(
                client.clone(),
                workspace.clone(),
                worker_program(),
            )),
            shell::tools(ShellDeps {
                terminals: client.clone(),
                workspace: workspace.clone(),
                shells: Arc::default(),
                apps: terminals,
                home: Home::open_home(&base.join("home")).expect("a home"),
                redactor: Redactor::default(),
                command_rules: String::new(),
                apps_obstacle: None,
            }),
            terminal::tools(TerminalDeps {
                terminals: client,
                workspace: workspace.clone(),
                board: Arc::default(),
                command_rules: Arc::new(String::new),
            }),
        ])
        .expect("the names differ");
        Self {
            dir,
            root,
            workspace,
            overlay,
            editors,
            registry,
        }
    }

    /// A workspace and an editor that is attached to all conversations.
    fn with_editor(serves: ClientCapabilities) -> (Self, Arc<FakeClient>, TurnHandle) {
        let bench = Self::new();
        let fake = Arc::new(FakeClient::default());
        let turn = bench.attach(&fake, serves);
        (bench, fake, turn)
    }

    /// The same with an editor for which no call waits long.
    fn with_impatient_editor(serves: ClientCapabilities) -> (Self, Arc<FakeClient>, TurnHandle) {
        let bench = Self::new();
        let fake = Arc::new(FakeClient::default());
        let turn = bench.attach_impatient(&fake, serves);
        (bench, fake, turn)
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        std::fs::write(&path, content).expect("written");
        path
    }

    fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.root.join(name)).expect("it is text")
    }

    /// Attaches an editor to all conversations.
    fn attach(&self, fake: &Arc<FakeClient>, serves: ClientCapabilities) -> TurnHandle {
        self.attach_with(fake, serves, &[&self.root], editor_settings())
    }

    fn attach_impatient(&self, fake: &Arc<FakeClient>, serves: ClientCapabilities) -> TurnHandle {
        self.attach_with(fake, serves, &[&self.root], impatient_settings())
    }

    fn attach_editor(
        &self,
        client: Arc<dyn ClientTools>,
        serves: ClientCapabilities,
    ) -> TurnHandle {
        self.attach_client(client, serves, &[&self.root], editor_settings())
    }

    fn attach_with(
        &self,
        client: &Arc<FakeClient>,
        serves: ClientCapabilities,
        roots: &[&Path],
        settings: EditorSettings,
    ) -> TurnHandle {
        let client: Arc<dyn ClientTools> = client.clone();
        self.attach_client(client, serves, roots, settings)
    }

    fn attach_client(
        &self,
        client: Arc<dyn ClientTools>,
        serves: ClientCapabilities,
        roots: &[&Path],
        settings: EditorSettings,
    ) -> TurnHandle {
        let roots = roots.iter().map(|root| (*root).to_owned()).collect();
        let session = EditorSession::new(
            "s-1".into(),
            "Fake Editor".to_owned(),
            client,
            serves,
            roots,
            settings,
        );
        self.editors.open_turn(Arc::new(session), None)
    }

    /// Shows a call to the attached editor, as the engine does.
    fn observed(
        &self,
        cx: &ToolContext,
        tool: &str,
        args: &Value,
    ) -> Option<Arc<dyn ObservedCall>> {
        let entry = self.registry.find(tool).expect("a tool");
        self.editors.observe_call(CallView {
            request: &cx.request,
            conversation: &cx.conversation,
            tool: entry.tool_spec(),
            effect: entry.effect_of_call(&args.to_string()),
            of_task: false,
            args,
            description: &self.registry.describe_call(tool, args),
        })
    }

    async fn call(&self, tool: &str, args: Value) -> Result<ToolReply, ToolError> {
        self.call_with(tool, args, ToolContext::for_detached_call(RequestId::new()))
            .await
    }

    async fn call_with(
        &self,
        tool: &str,
        args: Value,
        cx: ToolContext,
    ) -> Result<ToolReply, ToolError> {
        let _shown = self.observed(&cx, tool, &args);
        tools::call_with(&self.registry, tool, args, cx).await
    }

    async fn ok(&self, tool: &str, args: Value) -> ToolReply {
        self.call(tool, args.clone())
            .await
            .unwrap_or_else(|error| panic!("{tool} {args}: {error}"))
    }

    async fn text(&self, tool: &str, args: Value) -> String {
        tools::reply_text(&self.ok(tool, args).await).to_owned()
    }

    async fn refused(&self, tool: &str, args: Value) -> ToolError {
        match self.call(tool, args.clone()).await {
            Ok(reply) => panic!("{tool} {args} was served: {}", tools::reply_text(&reply)),
            Err(error) => error,
        }
    }
}

fn local_terminals(base: &Path, redactor: Redactor) -> LocalTerminals {
    let store = OutputStore::open_output_folder(&base.join("outputs")).expect("a store");
    let base_env = [("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/")];
    let base_env = base_env
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec();
    LocalTerminals::new(LocalTerminalSetup {
        base_env,
        store,
        redactor,
        log: Arc::new(NoChildLog),
        confinement: Confinement::default(),
    })
    .expect("a thread")
}

/// Settings that let an editor do everything. For a call that must time out, use `impatient_settings`.
fn editor_settings() -> EditorSettings {
    EditorSettings {
        terminals: true,
        timeout: Duration::from_mins(1),
        ..EditorSettings::default()
    }
}

fn impatient_settings() -> EditorSettings {
    EditorSettings {
        timeout: Duration::from_millis(30),
        ..editor_settings()
    }
}

/// The capabilities that an editor declares.
fn client_capabilities(read: bool, write: bool, terminal: bool) -> ClientCapabilities {
    let fs = FileSystemCapabilities::new()
        .read_text_file(read)
        .write_text_file(write);
    ClientCapabilities::new().fs(fs).terminal(terminal)
}

fn sha256(bytes: impl AsRef<[u8]>) -> String {
    use sha2::Digest as _;
    punie_core::ids::to_hex(&sha2::Sha256::digest(bytes.as_ref()))
}

fn file_argument(path: &Path) -> Value {
    json!({ "file_path": path })
}
