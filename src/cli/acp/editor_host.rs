//! The runner behind an editor's agent: started by the first session, and reports its status.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use tokio::sync::{OnceCell, mpsc, oneshot};

use punie_editor::agent::{AgentHost, HostFuture};
use punie_editor::{AttachedEditors, EditorSession, discover_editor_tools};
use punie_engine::journal::Journal;
use punie_home::{Home, ThreadStore, command_to_type};
use punie_tool::ToolRegistry;

/// A runner that serves editors, perhaps not started yet.
pub struct EditorHost {
    home: Home,
    editors: AttachedEditors,
    started_runner: OnceLock<StartedRunner>,
    /// Requests the start; `None` if the runner is started without editors.
    start: Option<mpsc::Sender<StartRequest>>,
    started: OnceCell<()>,
}

struct StartedRunner {
    registry: Arc<ToolRegistry>,
    journal: Journal,
}

/// A request to start the runner, for a session in this folder.
pub struct StartRequest {
    folder: PathBuf,
    answer: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

impl StartRequest {
    /// Returns the session's folder.
    pub fn session_folder(&self) -> &Path {
        &self.folder
    }

    /// Reports whether the runner has started.
    pub fn report(&self, result: Result<(), String>) {
        let answer = self.answer.lock().take();
        // The session may have been closed meanwhile.
        let _ = answer.map(|answer| answer.send(result));
    }
}

impl EditorHost {
    /// Creates a host whose runner is started by the first session.
    pub fn start_on_demand(
        home: &Home,
        editors: &AttachedEditors,
        start: mpsc::Sender<StartRequest>,
    ) -> Self {
        let editors = editors.clone();
        Self {
            home: home.clone(),
            editors,
            started_runner: OnceLock::new(),
            start: Some(start),
            started: OnceCell::new(),
        }
    }

    /// Creates a host for a runner that runs independently of editors.
    pub fn already_running(
        home: &Home,
        editors: &AttachedEditors,
        registry: Arc<ToolRegistry>,
        journal: Journal,
    ) -> Self {
        let editors = editors.clone();
        let host = Self {
            home: home.clone(),
            editors,
            started_runner: OnceLock::new(),
            start: None,
            started: OnceCell::new(),
        };
        host.set_running(registry, journal);
        host
    }

    /// Records that the runner has started.
    pub fn set_running(&self, registry: Arc<ToolRegistry>, journal: Journal) {
        // Only one runner is ever started.
        let _ = self.started_runner.set(StartedRunner { registry, journal });
    }

    /// Returns whether the runner has started.
    pub fn is_running(&self) -> bool {
        self.started_runner.get().is_some()
    }

    /// Returns whether no call runs. Waiting calls stay in the journal for the next runner.
    pub async fn is_idle(&self) -> bool {
        let Some(up) = self.started_runner.get() else {
            return true;
        };
        let journal = up.journal.clone();
        let counted =
            tokio::task::spawn_blocking(move || journal.open_reader()?.count_open_requests()).await;
        matches!(counted, Ok(Ok(counts)) if counts.started == 0)
    }

    async fn ensure_started(&self, folder: &Path) -> Result<(), String> {
        let Some(start) = &self.start else {
            return Ok(());
        };
        let stopped = || "the runner is being stopped".to_owned();
        let started = self.started.get_or_try_init(|| async {
            let (answer, answered) = oneshot::channel();
            let wanted = StartRequest {
                folder: folder.to_owned(),
                answer: Mutex::new(Some(answer)),
            };
            start.send(wanted).await.map_err(|_| stopped())?;
            answered.await.map_err(|_| stopped())?
        });
        started.await.copied()
    }

    async fn status_report(&self) -> String {
        let Some(up) = self.started_runner.get() else {
            return "The runner is not up.".to_owned();
        };
        let journal = up.journal.clone();
        let look = move || {
            let reader = journal.open_reader()?;
            Ok::<_, punie_engine::journal::JournalError>((
                reader.read_fact("backend_trouble")?,
                reader.count_open_requests()?,
            ))
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok((trouble, counts))) => {
                let backend = match trouble.filter(|word| !word.is_empty()) {
                    None => "the backend answers".to_owned(),
                    Some(word) => {
                        format!(
                            "the backend is in trouble ({word}); `{}` says more",
                            command_to_type("status")
                        )
                    }
                };
                let home = self.home.root_dir().display();
                format!(
                    "The runner of {home} is up.\n- {backend}\n- calls: {} wait, {} run, {} results on their way",
                    counts.accepted, counts.started, counts.outbox
                )
            }
            _ => "The runner is up; its journal cannot be read now.".to_owned(),
        }
    }
}

impl AgentHost for EditorHost {
    fn start_receiving<'a>(&'a self, folder: &'a Path) -> HostFuture<'a, Result<(), String>> {
        Box::pin(self.ensure_started(folder))
    }

    fn discover_session_tools(
        &self,
        session: Arc<EditorSession>,
    ) -> HostFuture<'_, (String, Box<dyn Send + Sync>)> {
        Box::pin(async move {
            let Some(up) = self.started_runner.get() else {
                return (String::new(), Box::new(()) as Box<dyn Send + Sync>);
            };
            let found = discover_editor_tools(&session, &up.registry, &self.editors).await;
            for problem in &found.problems {
                tracing::warn!(editor = session.editor, %problem, "a tool of the editor's own is left out");
            }
            (found.to_string(), Box::new(found) as Box<dyn Send + Sync>)
        })
    }

    fn threads(&self) -> Option<ThreadStore> {
        Some(ThreadStore::in_home(&self.home))
    }

    fn describe_runner(&self) -> HostFuture<'_, String> {
        Box::pin(self.status_report())
    }

    fn resolve_folder(&self, path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path)
            .ok()
            .filter(|path| path.is_dir())
    }
}
