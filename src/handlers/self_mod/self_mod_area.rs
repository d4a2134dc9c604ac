//! The root of self-modification with the state of its features, and the staged files that a call sees.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::pending_changes;
use punie_core::ids::RequestId;
use punie_home::{FeatureRecord, FileState, Home, ModLock, ModStore, StagedFiles};
use punie_host::file_view::ViewedFile;
use punie_host::{FileView, FileViews, RawPath, ToolFuture, Workspace, WorkspacePath};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The type of the agent whose changes are staged.
pub(super) const AGENT_TYPE: &str = "self_mod";
/// The most requests that are remembered as begun in this process.
const MAX_BEGUN: usize = 1_024;

/// The root and the state of its features.
#[derive(Debug)]
pub struct SelfModArea {
    pub(super) store: ModStore,
    /// The folder, without symlinks.
    pub(super) root: PathBuf,
    workspace: Workspace,
    blobs: Workspace,
    pub(super) scratch: Workspace,
    /// The requests whose staged changes are their own, not those of an attempt that a crash cut off.
    begun: Mutex<VecDeque<RequestId>>,
}

/// The staged files that a call works on.
#[derive(Debug)]
pub(super) struct StagingSession {
    /// The id of the feature.
    pub(super) feature: String,
    pub(super) staged: StagedFiles,
}

impl SelfModArea {
    /// Opens the state of this root. For a runner it also finishes or takes back a change that a crash cut off, and
    /// removes contents that nothing needs. Blocks.
    ///
    /// # Errors
    /// A root that is no folder of a workspace, or a home that cannot be used.
    pub fn open(
        home: &Home,
        workspace: &Workspace,
        root: &Path,
        is_runner: bool,
    ) -> Result<Arc<Self>, ToolError> {
        let shown = root.display();
        let text = root
            .to_str()
            .ok_or_else(|| ToolError::invalid_args(format!("{shown} is not UTF-8")))?;
        let found = workspace.resolve_inside(&RawPath::from(text))?;
        found
            .open_as_folder()
            .map_err(|cause| ToolError::from_io(shown, &cause))?;
        let store = ModStore::open_store(home).map_err(state_error)?;
        let open = |folder: PathBuf| {
            Workspace::open_roots(&[folder]).map_err(|cause| ToolError::from_io("mods", &cause))
        };
        let area = Self {
            root: found.absolute_path().to_owned(),
            workspace: workspace.clone(),
            blobs: open(store.blobs_dir())?,
            scratch: open(store.scratch_dir())?,
            store,
            begun: Mutex::default(),
        };
        if is_runner {
            area.recover_state();
        }
        Ok(Arc::new(area))
    }

    /// Ends what a crash cut off. What is damaged stops the tools that need it, not the runner.
    fn recover_state(&self) {
        let recovered = self.lock_state().and_then(|lock| {
            pending_changes::finish_pending(self, &lock)?;
            self.store.remove_leftovers(&lock).map_err(state_error)
        });
        if let Err(error) = recovered {
            tracing::warn!(%error, "the state of self-modification could not be cleaned up");
        }
    }

    /// Returns the root as records have it.
    pub(super) fn root_path(&self) -> &Path {
        &self.root
    }

    pub(super) fn root_text(&self) -> String {
        self.root.to_string_lossy().into_owned()
    }

    /// Reads a feature of this root.
    pub(super) fn read_feature(&self, id: &str) -> Result<Option<FeatureRecord>, ToolError> {
        let feature = self.store.read_feature(id).map_err(state_error)?;
        match feature {
            Some(feature) if feature.root != self.root_text() => {
                let text = format!(
                    "Feature {id} is one of {}, and the owner has set another root since: {}. SelfModStart begins a \
                     feature there.",
                    feature.root,
                    self.root.display()
                );
                Err(ToolError::new(ErrorCode::Stale, text))
            }
            found => Ok(found),
        }
    }

    /// Waits for the lock on the state and on the files below the root. Blocks.
    pub(super) fn lock_state(&self) -> Result<ModLock, ToolError> {
        self.store.lock_state().map_err(state_error)
    }

    /// Returns a path relative to the root, with `/` between names; `None` if it does not lie below it.
    pub(super) fn relative_path(&self, path: &WorkspacePath) -> Option<String> {
        let rest = path.absolute_path().strip_prefix(&self.root).ok()?;
        let names: Option<Vec<&str>> = rest.iter().map(|name| name.to_str()).collect();
        names
            .map(|names| names.join("/"))
            .filter(|rel| !rel.is_empty())
    }

    /// Returns the real file of a relative path. Opening it follows no symlink.
    pub(super) fn real_path(&self, rel: &str) -> Result<WorkspacePath, ToolError> {
        let path = self.workspace.path_if_inside(&self.root.join(rel));
        path.ok_or_else(|| ToolError::internal(format!("{rel} lies in no workspace")))
    }

    /// Returns the path of a stored content, which texts show as this path.
    pub(super) fn content_path(
        &self,
        state: &FileState,
        shown: &WorkspacePath,
    ) -> Result<WorkspacePath, ToolError> {
        let path = self
            .blobs
            .path_if_inside(&self.blobs.first_root().join(&state.sha256));
        path.map(|path| path.shown_as(shown))
            .ok_or_else(|| ToolError::internal("A stored content has no path."))
    }

    /// Returns the staged files of a call; `None` if it works on the real ones.
    pub(super) async fn find_session(
        self: &Arc<Self>,
        cx: &ToolContext,
    ) -> Result<Option<StagingSession>, ToolError> {
        if cx.agent_type.as_deref() != Some(AGENT_TYPE) {
            return Ok(None);
        }
        let area = Arc::clone(self);
        let conversation = cx.conversation.clone();
        let request = cx.request.clone();
        run_blocking(move || {
            let active = area.store.active_feature(&conversation.key());
            let Some(feature) = active.map_err(state_error)? else {
                return Ok(None);
            };
            area.read_feature(&feature)?;
            let mut staged = area.read_staged_for(&feature, &request)?;
            staged.drop_unchanged(request.as_str());
            Ok(Some(StagingSession { feature, staged }))
        })
        .await
    }

    /// Reads the staged files. The first time that a request is seen, takes back what an earlier attempt of it staged:
    /// a call that runs again works on the files that it found at first.
    fn read_staged_for(
        &self,
        feature: &str,
        request: &RequestId,
    ) -> Result<StagedFiles, ToolError> {
        let read = || self.store.read_staged(feature).map_err(state_error);
        if self.begun.lock().contains(request) {
            return read();
        }
        let lock = self.lock_state()?;
        let mut staged = read()?;
        if staged.take_back_request(request.as_str()) {
            let written = self.store.write_staged(&lock, feature, &staged);
            written.map_err(state_error)?;
        }
        let mut begun = self.begun.lock();
        if begun.len() == MAX_BEGUN {
            begun.pop_front();
        }
        begun.push_back(request.clone());
        Ok(staged)
    }

    /// Returns the feature of this id, or the active one of the conversation.
    pub(super) fn find_feature(
        &self,
        id: Option<&str>,
        cx: &ToolContext,
    ) -> Result<FeatureRecord, ToolError> {
        let id = match id.map(str::trim).filter(|id| !id.is_empty()) {
            Some(id) => id.to_owned(),
            None => self
                .store
                .active_feature(&cx.conversation.key())
                .map_err(state_error)?
                .ok_or_else(|| {
                    ToolError::not_found(
                        "This conversation has no active feature. SelfModStart starts one.",
                    )
                })?,
        };
        self.read_feature(&id)?.ok_or_else(|| {
            ToolError::not_found(format!(
                "There is no feature {id:?}. An id has lower-case letters, digits, `-` and `_`, as SelfModStart gave it."
            ))
        })
    }
}

/// The staged files, as searches see them.
#[derive(Debug)]
pub struct StagedViews(pub Arc<SelfModArea>);

impl FileViews for StagedViews {
    fn view_for_call<'a>(&'a self, cx: &'a ToolContext) -> ToolFuture<'a, Option<Arc<FileView>>> {
        Box::pin(async move {
            let session = self.0.find_session(cx).await?;
            Ok(session.map(|session| Arc::new(session.to_view(&self.0))))
        })
    }
}

impl StagingSession {
    /// Returns the staged files as a view of the real ones.
    pub(super) fn to_view(&self, area: &SelfModArea) -> FileView {
        let files = self.staged.files.iter().map(|(rel, staged)| {
            let file = staged.content.as_ref().map(|state| ViewedFile {
                content: area.store.content_path(&state.sha256),
                size: state.size,
            });
            (area.root.join(rel), file)
        });
        FileView::new(files.collect::<BTreeMap<_, _>>())
    }
}

/// Converts a failure of the home into the answer of a call.
pub(super) fn state_error(cause: impl fmt::Display) -> ToolError {
    let text = format!("The state of this feature cannot be used, so nothing was changed: {cause}");
    ToolError::new(ErrorCode::Io, text)
}

/// Converts a failure with the stored contents into the answer of a call.
pub(super) fn content_error(rel: &str) -> impl FnOnce(io::Error) -> ToolError + '_ {
    move |cause| ToolError::from_io(format!("the stored content of {rel}"), &cause)
}

/// Runs work that blocks.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|fault| ToolError::internal(format!("Self-modification broke off: {fault}")))?
}
