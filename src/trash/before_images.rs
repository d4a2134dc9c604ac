//! Before-images: the content of files before a call changes them. Contents are stored first, then the manifest that
//! names them, both durable before the call goes on. A call is never stopped because this fails; its answer says what
//! cannot be undone. Not here: the way back (undo).

use std::fs::{File, Metadata};
use std::io;
use std::path::Path;

use super::contents::{Contents, hash_file};
use super::manifest::{self, Before, Line, Name};
use super::{LARGEST_KEPT, Trash, now_ms};
use crate::acp::Workspace;
use crate::durable::{append_json_lines, sync_folder};
use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::output::figures;
use crate::tool::{BeforeImages, Intent, Kept};

/// Stores before-images of files in these workspaces.
#[derive(Debug, Clone)]
pub struct BeforeImageStore {
    trash: Trash,
    workspace: Workspace,
}

impl BeforeImages for BeforeImageStore {
    fn keep<'a>(&'a self, request: &'a RequestId, tool: &'a str, intents: &'a [Intent]) -> Kept<'a> {
        let mut remarks: Vec<String> = intents.iter().filter_map(describe_unnamed).collect();
        let is_change = |intent: &&Intent| matches!(intent, Intent::File { .. } | Intent::Move { .. });
        let changes: Vec<Intent> = intents.iter().filter(is_change).cloned().collect();
        if changes.is_empty() {
            return Box::pin(std::future::ready(remarks));
        }
        let (store, request, tool) = (self.clone(), request.clone(), tool.to_owned());
        Box::pin(async move {
            let storing = tokio::task::spawn_blocking(move || store.store(&request, &tool, &changes));
            remarks.extend(storing.await.unwrap_or_else(|fault| {
                vec![format!("This cannot be undone: keeping what was there broke off ({fault}).")]
            }));
            remarks
        })
    }
}

/// The remark on a change whose path is not text, so that the manifest cannot name it.
fn describe_unnamed(intent: &Intent) -> Option<String> {
    let Intent::Vague { what } = intent else { return None };
    let is_of_file = ["write ", "remove ", "move "].iter().any(|verb| what.starts_with(verb));
    is_of_file.then(|| format!("This cannot be undone ({what}): the path is not UTF-8."))
}

impl BeforeImageStore {
    /// A store in this trash.
    pub fn new(trash: Trash, workspace: Workspace) -> Self {
        Self { trash, workspace }
    }

    fn store(&self, request: &RequestId, tool: &str, changes: &[Intent]) -> Vec<String> {
        let stored = self.trash.while_locked(|| self.store_locked(request, tool, changes));
        stored.unwrap_or_else(|cause| {
            tracing::warn!(request.id = %request, %cause, "what a call changes could not be kept");
            vec![format!("This cannot be undone: what was there could not be kept ({cause}).")]
        })
    }

    fn store_locked(&self, request: &RequestId, tool: &str, changes: &[Intent]) -> io::Result<Vec<String>> {
        let (mut lines, mut remarks) = (Vec::new(), Vec::new());
        let has_room = self.trash.make_room(self.bytes_needed(changes), request)?;
        for change in changes {
            lines.extend(self.store_change(change, has_room, &mut remarks)?);
        }
        let folder = self.trash.home.trash_manifests_dir();
        let path = folder.join(format!("{request}.jsonl"));
        let is_new = manifest::read::<Line>(&path)?.is_empty();
        if is_new {
            let (request, tool) = (request.clone(), tool.to_owned());
            lines.insert(0, Line::Begun { request, tool, at_ms: now_ms(), proof: String::new() });
        }
        append_json_lines(&path, &lines)?;
        if is_new {
            sync_folder(&folder)?;
        }
        reach_of("trash.kept", request.as_str());
        Ok(remarks)
    }

    /// The most that these before-images take.
    fn bytes_needed(&self, changes: &[Intent]) -> u64 {
        let size = |change: &Intent| match change {
            Intent::File { path, .. } => Some(self.workspace.found(Path::new(path))?.metadata().ok()?.len()),
            _ => None,
        };
        changes.iter().filter_map(size).filter(|size| *size <= LARGEST_KEPT).sum()
    }

    /// Stores the data by which one change can be undone, and returns its manifest line.
    fn store_change(
        &self,
        change: &Intent,
        has_room: bool,
        remarks: &mut Vec<String>,
    ) -> io::Result<Option<Line>> {
        let name = |path: &str| Name(path.into());
        Ok(match change {
            Intent::File { path, before, after, executable, .. } => {
                let before = match self.open_file(path)? {
                    Some(mut file) => {
                        Some(self.store_content(path, &mut file, before.as_deref(), has_room, remarks)?)
                    }
                    None => None,
                };
                let mode_changes = executable.is_some();
                Some(Line::File { path: name(path), before, after: after.clone(), mode_changes })
            }
            // It comes back from where it went, whatever its size.
            Intent::Move { from, to, sha256 } => {
                let sha256 = match (sha256, self.open_file(from)?) {
                    (Some(known), _) => Some(known.clone()),
                    (None, Some(mut file)) => Some(hash_file(&mut file)?.0),
                    (None, None) => None,
                };
                sha256.map(|sha256| Line::Move { from: name(from), to: name(to), sha256 })
            }
            _ => None,
        })
    }

    /// Opens a file beneath its workspace; `None` if there is none.
    fn open_file(&self, path: &str) -> io::Result<Option<File>> {
        let found = self.workspace.found(Path::new(path));
        let found = found.ok_or_else(|| io::Error::other(format!("{path} lies in no workspace")))?;
        match found.open_read() {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(None),
            opened => opened.map(Some),
        }
    }

    /// Stores the content of a file, unless the content of the known hash is stored already. A remark says why not.
    fn store_content(
        &self,
        path: &str,
        file: &mut File,
        known: Option<&str>,
        has_room: bool,
        remarks: &mut Vec<String>,
    ) -> io::Result<Before> {
        let metadata = file.metadata()?;
        let (size, sha256) = (metadata.len(), known.unwrap_or_default().to_owned());
        let contents = Contents::in_folder(self.trash.home.trash_objects_dir());
        let is_stored = known.is_some() && contents.has(&sha256, size);
        let before = Before { sha256, size, mode: mode_of(&metadata), kept: is_stored };
        if is_stored {
            return Ok(before);
        }
        let why = if size > LARGEST_KEPT {
            format!("{path} was over the {} that are kept of a file", figures::size(LARGEST_KEPT))
        } else if !has_room {
            format!("{path} does not fit into the trash (trash.max_mb)")
        } else {
            match contents.store(file) {
                Ok((sha256, size)) => {
                    self.trash.add_used_bytes(size);
                    return Ok(Before { sha256, size, kept: true, ..before });
                }
                Err(cause) => format!("{path} could not be kept ({cause})"),
            }
        };
        remarks.push(format!("This cannot be undone: {why}."));
        Ok(before)
    }
}

/// The permission bits of a file, on systems that have them.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "not every system has this")]
pub(super) fn mode_of(metadata: &Metadata) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(metadata.permissions().mode() & 0o7777)
}

#[cfg(not(unix))]
pub(super) fn mode_of(_metadata: &Metadata) -> Option<u32> {
    None
}
