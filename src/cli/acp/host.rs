//! The runner behind an editor's agent: started by the first session, and reports its status.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OnceCell, mpsc, oneshot};

use crate::acp::agent::{Host, Hosted};
use crate::acp::editor::{EditorSession, Editors, discover};
use crate::home::{Home, Threads};
use crate::journal::Journal;
use crate::tool::Registry;

/// A runner that serves editors, perhaps not started yet.
pub struct EditorHost {
    home: Home,
    editors: Editors,
    up: OnceLock<Up>,
    /// Requests the start; `None` if the runner is started without editors.
    start: Option<mpsc::Sender<Wanted>>,
    started: OnceCell<()>,
}

struct Up {
    registry: Arc<Registry>,
    journal: Journal,
}

/// A request to start the runner, for a session in this folder.
pub struct Wanted {
    folder: PathBuf,
    answer: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

impl Wanted {
    /// Returns the session's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Reports whether the runner has started.
    pub fn answer(&self, result: Result<(), String>) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // The session may have been closed meanwhile.
        let _ = answer.map(|answer| answer.send(result));
    }
}

impl EditorHost {
    /// Creates a host whose runner is started by the first session.
    pub fn waiting(home: &Home, editors: &Editors, start: mpsc::Sender<Wanted>) -> Self {
        let editors = editors.clone();
        Self {
            home: home.clone(),
            editors,
            up: OnceLock::new(),
            start: Some(start),
            started: OnceCell::new(),
        }
    }

    /// Creates a host for a runner that runs independently of editors.
    pub fn running(home: &Home, editors: &Editors, registry: Arc<Registry>, journal: Journal) -> Self {
        let editors = editors.clone();
        let host =
            Self { home: home.clone(), editors, up: OnceLock::new(), start: None, started: OnceCell::new() };
        host.is_up(registry, journal);
        host
    }

    /// Records that the runner has started.
    pub fn is_up(&self, registry: Arc<Registry>, journal: Journal) {
        // Only one runner is ever started.
        let _ = self.up.set(Up { registry, journal });
    }

    /// Returns whether the runner has started.
    pub fn is_running(&self) -> bool {
        self.up.get().is_some()
    }

    /// Returns whether no call runs. Waiting calls stay in the journal for the next runner.
    pub async fn is_idle(&self) -> bool {
        let Some(up) = self.up.get() else { return true };
        let journal = up.journal.clone();
        let counted = tokio::task::spawn_blocking(move || journal.reader()?.counts()).await;
        matches!(counted, Ok(Ok(counts)) if counts.started == 0)
    }

    async fn start(&self, folder: &Path) -> Result<(), String> {
        let Some(start) = &self.start else { return Ok(()) };
        let stopped = || "the runner is being stopped".to_owned();
        let started = self.started.get_or_try_init(|| async {
            let (answer, answered) = oneshot::channel();
            let wanted = Wanted { folder: folder.to_owned(), answer: Mutex::new(Some(answer)) };
            start.send(wanted).await.map_err(|_| stopped())?;
            answered.await.map_err(|_| stopped())?
        });
        started.await.copied()
    }

    async fn report(&self) -> String {
        let Some(up) = self.up.get() else { return "The runner is not up.".to_owned() };
        let journal = up.journal.clone();
        let look = move || {
            let reader = journal.reader()?;
            Ok::<_, crate::journal::JournalError>((reader.recall("backend_trouble")?, reader.counts()?))
        };
        match tokio::task::spawn_blocking(look).await {
            Ok(Ok((trouble, counts))) => {
                let backend = match trouble.filter(|word| !word.is_empty()) {
                    None => "the backend answers".to_owned(),
                    Some(word) => {
                        format!("the backend is in trouble ({word}); `punie-runner status` says more")
                    }
                };
                let home = self.home.root().display();
                format!(
                    "The runner of {home} is up.\n- {backend}\n- calls: {} wait, {} run, {} results on their way",
                    counts.accepted, counts.started, counts.outbox
                )
            }
            _ => "The runner is up; its journal cannot be read now.".to_owned(),
        }
    }
}

impl Host for EditorHost {
    fn open<'a>(&'a self, folder: &'a Path) -> Hosted<'a, Result<(), String>> {
        Box::pin(self.start(folder))
    }

    fn welcome(&self, session: Arc<EditorSession>) -> Hosted<'_, (String, Box<dyn Send + Sync>)> {
        Box::pin(async move {
            let Some(up) = self.up.get() else {
                return (String::new(), Box::new(()) as Box<dyn Send + Sync>);
            };
            let found = discover(&session, &up.registry, &self.editors).await;
            for problem in &found.problems {
                tracing::warn!(editor = session.editor, %problem, "a tool of the editor's own is left out");
            }
            (found.to_string(), Box::new(found) as Box<dyn Send + Sync>)
        })
    }

    fn threads(&self) -> Option<Threads> {
        Some(Threads::of(&self.home))
    }

    fn status(&self) -> Hosted<'_, String> {
        Box::pin(self.report())
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "what is the editor's is told apart here, not what may be touched"
    )]
    fn folder(&self, path: &Path) -> Option<PathBuf> {
        std::fs::canonicalize(path).ok().filter(|path| path.is_dir())
    }
}
