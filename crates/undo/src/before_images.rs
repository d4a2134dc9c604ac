//! Before-images: the content of files before a call changes them. Contents are stored first, then the manifest that
//! names them, both durable before the call goes on. A call is never stopped because this fails; its answer says what
//! cannot be undone.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::content_store::{ContentStore, hash_file};
use super::manifest::{self, FileBefore, ManifestLine, ManifestPath};
use super::{LARGEST_KEPT, Trash};
use punie_core::clock::unix_time_ms;
use punie_core::durable::{allow_missing, append_json_lines, sync_folder};
use punie_core::failpoint::reach_of;
use punie_core::file_metadata::permission_bits;
use punie_core::ids::RequestId;
use punie_host::Workspace;
use punie_text::output::number_format;
use punie_tool::{BeforeImages, CallIntent, SaveFuture};
#[cfg(target_os = "linux")]
use {
    super::FolderSnapshots,
    punie_host::permission::only_reads,
    punie_tool::{DeclaredAccess, SnapshotFuture},
};

/// The most stores of sessions that are held: each remembers the names of its files.
const MAX_NARROWED: usize = 64;

/// Stores before-images of files in these workspaces.
#[derive(Debug, Clone)]
pub struct BeforeImageStore {
    trash: Trash,
    pub(super) workspace: Workspace,
    #[cfg(target_os = "linux")]
    snapshots: Option<Arc<FolderSnapshots>>,
    /// Nobody else looks again for the folders, which belong to this store alone.
    is_of_session: bool,
    /// The stores of sessions, by their folders.
    narrowed: Arc<Mutex<HashMap<Vec<PathBuf>, Arc<Self>>>>,
}

impl BeforeImages for BeforeImageStore {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Option<Arc<dyn BeforeImages>> {
        if self.workspace.root_paths().eq(folders) {
            return None;
        }
        let mut narrowed = self.narrowed.lock();
        if let Some(store) = narrowed.get(folders) {
            return Some(store.clone());
        }
        if narrowed.len() >= MAX_NARROWED {
            narrowed.clear();
        }
        // A call whose folder cannot be opened fails by itself.
        let workspace = self.workspace.narrowed_to(folders).ok()?;
        let store = Self {
            is_of_session: true,
            ..Self::new(self.trash.clone(), workspace)
        };
        #[cfg(target_os = "linux")]
        let store = store.with_snapshots(self.snapshots.is_some());
        let store = Arc::new(store);
        narrowed.insert(folders.to_vec(), Arc::clone(&store));
        Some(store)
    }

    #[cfg(target_os = "linux")]
    fn begin_snapshot<'a>(
        &'a self,
        request: &'a RequestId,
        tool: &'a str,
        access: &'a DeclaredAccess,
    ) -> SnapshotFuture<'a> {
        let snapshots = self.snapshots.clone().filter(|_| !only_reads(access));
        let id = request.clone();
        let tool = tool.to_owned();
        take_snapshot(snapshots, "there is no snapshot of a call", request, {
            move |snapshots| snapshots.begin_call(&id, &tool)
        })
    }

    #[cfg(target_os = "linux")]
    fn end_snapshot<'a>(&'a self, request: &'a RequestId) -> SnapshotFuture<'a> {
        let snapshots = self.snapshots.clone();
        let id = request.clone();
        take_snapshot(snapshots, "what a call changed is not recorded", request, {
            move |snapshots| snapshots.end_call(&id)
        })
    }

    #[cfg(target_os = "linux")]
    fn take_remarks(&self) -> Vec<String> {
        let snapshots = self.snapshots.as_ref();
        snapshots.map_or_else(Vec::new, |snapshots| snapshots.take_remarks())
    }

    #[cfg(target_os = "linux")]
    fn abandon_snapshot(&self, request: &RequestId) {
        if let Some(snapshots) = &self.snapshots {
            snapshots.abandon_call(request);
        }
    }

    fn save_before_images<'a>(
        &'a self,
        request: &'a RequestId,
        tool: &'a str,
        intents: &'a [CallIntent],
    ) -> SaveFuture<'a> {
        let mut remarks: Vec<String> = intents.iter().filter_map(describe_unnamed).collect();
        let is_change = |intent: &&CallIntent| {
            matches!(intent, CallIntent::File { .. } | CallIntent::Move { .. })
        };
        let changes: Vec<CallIntent> = intents.iter().filter(is_change).cloned().collect();
        if changes.is_empty() {
            return Box::pin(std::future::ready(remarks));
        }
        let store = self.clone();
        let request = request.clone();
        let tool = tool.to_owned();
        Box::pin(async move {
            let storing = tokio::task::spawn_blocking(move || {
                // A folder may have been made anew since.
                if store.is_of_session {
                    store.workspace.open_returned();
                }
                store.store(&request, &tool, &changes, None)
            });
            remarks.extend(storing.await.unwrap_or_else(|fault| {
                vec![format!(
                    "This cannot be undone: keeping what was there broke off ({fault})."
                )]
            }));
            remarks
        })
    }
}

/// Takes a snapshot on a thread for blocking work; the log says what a failure means. Without snapshots there is none.
#[cfg(target_os = "linux")]
fn take_snapshot<'a>(
    snapshots: Option<Arc<FolderSnapshots>>,
    failure: &'static str,
    request: &'a RequestId,
    take: impl FnOnce(&FolderSnapshots) -> io::Result<()> + Send + 'static,
) -> SnapshotFuture<'a> {
    Box::pin(async move {
        let Some(snapshots) = snapshots else {
            return Ok(false);
        };
        let cause = match tokio::task::spawn_blocking(move || take(&snapshots)).await {
            Ok(Ok(())) => return Ok(true),
            Ok(Err(cause)) => cause.to_string(),
            Err(fault) => fault.to_string(),
        };
        tracing::warn!(request.id = %request, cause, "{failure}");
        Err(cause)
    })
}

/// The remark on a change whose path is not text, so that the manifest cannot name it.
fn describe_unnamed(intent: &CallIntent) -> Option<String> {
    let CallIntent::Vague { what } = intent else {
        return None;
    };
    let is_of_file = ["write ", "remove ", "move "]
        .iter()
        .any(|verb| what.starts_with(verb));
    is_of_file.then(|| format!("This cannot be undone ({what}): the path is not UTF-8."))
}

impl BeforeImageStore {
    /// A store in this trash.
    pub fn new(trash: Trash, workspace: Workspace) -> Self {
        Self {
            trash,
            workspace,
            #[cfg(target_os = "linux")]
            snapshots: None,
            is_of_session: false,
            narrowed: Arc::default(),
        }
    }

    /// Takes snapshots for calls that execute programs, if that is wanted and this system can.
    #[must_use]
    #[cfg_attr(not(target_os = "linux"), expect(unused_mut, unused_variables))]
    pub fn with_snapshots(mut self, is_wanted: bool) -> Self {
        #[cfg(target_os = "linux")]
        {
            let folders = self.workspace.root_paths().map(Path::to_owned);
            self.snapshots =
                is_wanted.then(|| Arc::new(FolderSnapshots::new(&self.trash, folders)));
        }
        self
    }

    /// Takes the first snapshots, which read everything. Blocks.
    pub fn prepare_snapshots(&self) {
        #[cfg(target_os = "linux")]
        if let Some(snapshots) = &self.snapshots {
            snapshots.prepare();
        }
    }

    /// Stores these before-images. `replaced` is the file of the only change, where another has its name already.
    pub(super) fn store(
        &self,
        request: &RequestId,
        tool: &str,
        changes: &[CallIntent],
        replaced: Option<File>,
    ) -> Vec<String> {
        let stored = self
            .trash
            .with_lock(|| self.store_changes(request, tool, changes, replaced));
        stored.unwrap_or_else(|cause| {
            tracing::warn!(request.id = %request, %cause, "what a call changes could not be kept");
            vec![format!(
                "This cannot be undone: what was there could not be kept ({cause})."
            )]
        })
    }

    fn store_changes(
        &self,
        request: &RequestId,
        tool: &str,
        changes: &[CallIntent],
        mut replaced: Option<File>,
    ) -> io::Result<Vec<String>> {
        let mut lines = Vec::new();
        let mut remarks = Vec::new();
        let has_room = self.trash.free_quota(self.bytes_needed(changes), request)?;
        for change in changes {
            lines.extend(self.store_change(change, replaced.take(), has_room, &mut remarks)?);
        }
        let folder = self.trash.home.trash_manifests_dir();
        let path = folder.join(format!("{request}.jsonl"));
        let is_new = manifest::read_lines::<ManifestLine>(&path)?.is_empty();
        if is_new {
            let request = request.clone();
            let tool = tool.to_owned();
            lines.insert(
                0,
                ManifestLine::Begun {
                    request,
                    tool,
                    at_ms: unix_time_ms(),
                },
            );
        }
        append_json_lines(&path, &lines)?;
        if is_new {
            sync_folder(&folder)?;
        }
        reach_of("trash.kept", request.as_str());
        Ok(remarks)
    }

    /// The most that these before-images take.
    fn bytes_needed(&self, changes: &[CallIntent]) -> u64 {
        let size = |change: &CallIntent| {
            let CallIntent::File { path, .. } = change else {
                return None;
            };
            let target = self.workspace.path_if_inside(Path::new(path))?;
            Some(target.file_metadata().ok()?.len())
        };
        changes
            .iter()
            .filter_map(size)
            .filter(|size| *size <= LARGEST_KEPT)
            .sum()
    }

    /// Stores the data by which one change can be undone, and returns its manifest line.
    fn store_change(
        &self,
        change: &CallIntent,
        replaced: Option<File>,
        has_room: bool,
        remarks: &mut Vec<String>,
    ) -> io::Result<Option<ManifestLine>> {
        let name = |path: &str| ManifestPath(path.into());
        Ok(match change {
            CallIntent::File {
                path,
                before,
                after,
                executable,
                ..
            } => {
                let opened = replaced.map_or_else(|| self.open_file(path), |file| Ok(Some(file)));
                let before = match opened? {
                    Some(mut file) => Some(self.store_content(
                        path,
                        &mut file,
                        before.as_deref(),
                        has_room,
                        remarks,
                    )?),
                    None => None,
                };
                let mode_changes = executable.is_some();
                Some(ManifestLine::File {
                    path: name(path),
                    before,
                    after: after.clone(),
                    mode_changes,
                })
            }
            // It comes back from where it went, whatever its size.
            CallIntent::Move { from, to, sha256 } => {
                let sha256 = match (sha256, self.open_file(from)?) {
                    (Some(known), _) => Some(known.clone()),
                    (None, Some(mut file)) => Some(hash_file(&mut file)?.0),
                    (None, None) => None,
                };
                sha256.map(|sha256| ManifestLine::Move {
                    from: name(from),
                    to: name(to),
                    sha256,
                })
            }
            _ => None,
        })
    }

    /// Opens a file beneath its workspace; `None` if there is none.
    fn open_file(&self, path: &str) -> io::Result<Option<File>> {
        let found = self.workspace.path_if_inside(Path::new(path));
        let found =
            found.ok_or_else(|| io::Error::other(format!("{path} lies in no workspace")))?;
        allow_missing(found.open_for_reading())
    }

    /// Stores the content of a file, unless the content of the known hash is stored already. A remark says why not.
    fn store_content(
        &self,
        path: &str,
        file: &mut File,
        known: Option<&str>,
        has_room: bool,
        remarks: &mut Vec<String>,
    ) -> io::Result<FileBefore> {
        let metadata = file.metadata()?;
        let size = metadata.len();
        let sha256 = known.unwrap_or_default().to_owned();
        let contents = ContentStore::in_folder(self.trash.home.trash_objects_dir());
        let is_stored = known.is_some() && contents.has_content_of_size(&sha256, size);
        let before = FileBefore {
            sha256,
            size,
            mode: permission_bits(&metadata),
            kept: is_stored,
        };
        if is_stored {
            return Ok(before);
        }
        let why = if size > LARGEST_KEPT {
            format!(
                "{path} was over the {} that are kept of a file",
                number_format::format_size(LARGEST_KEPT)
            )
        } else if !has_room {
            format!("{path} does not fit into the trash (trash.max_mb)")
        } else {
            match contents.store_from_file(file) {
                Ok((sha256, size)) => {
                    self.trash.add_used_bytes(size);
                    return Ok(FileBefore {
                        sha256,
                        size,
                        kept: true,
                        ..before
                    });
                }
                Err(cause) => format!("{path} could not be kept ({cause})"),
            }
        };
        remarks.push(format!("This cannot be undone: {why}."));
        Ok(before)
    }
}
