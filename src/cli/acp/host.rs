//! The runner as the agent's side knows it: started when the first session wants it, asked how it fares.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::{OnceCell, mpsc, oneshot};

use crate::acp::agent::{Host, Hosted};
use crate::acp::editor::{EditorSession, Editors, discover};
use crate::home::{Home, Threads};
use crate::journal::Journal;
use crate::tool::Registry;

/// A runner that serves editors, or will.
pub struct EditorHost {
    home: Home,
    editors: Editors,
    up: OnceLock<Up>,
    /// Starts it; none where it runs by itself.
    start: Option<mpsc::Sender<Wanted>>,
    started: OnceCell<()>,
}

struct Up {
    registry: Arc<Registry>,
    journal: Journal,
}

/// Somebody wants the runner, for a session of this folder.
pub struct Wanted {
    folder: PathBuf,
    answer: Mutex<Option<oneshot::Sender<Result<(), String>>>>,
}

impl Wanted {
    /// The session's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Says whether it runs now.
    pub fn answer(&self, result: Result<(), String>) {
        let answer = self.answer.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A session that was closed meanwhile does not want to know.
        let _ = answer.map(|answer| answer.send(result));
    }
}

impl EditorHost {
    /// One that is started by the first session.
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

    /// One that runs whatever editors do.
    pub fn running(home: &Home, editors: &Editors, registry: Arc<Registry>, journal: Journal) -> Self {
        let editors = editors.clone();
        let host =
            Self { home: home.clone(), editors, up: OnceLock::new(), start: None, started: OnceCell::new() };
        host.is_up(registry, journal);
        host
    }

    /// The runner is there.
    pub fn is_up(&self, registry: Arc<Registry>, journal: Journal) {
        // Only one is ever started.
        let _ = self.up.set(Up { registry, journal });
    }

    /// Whether it is.
    pub fn is_running(&self) -> bool {
        self.up.get().is_some()
    }

    /// Whether no call runs. What waits is in the journal, for whoever runs next.
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
