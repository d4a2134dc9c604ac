//! Keeping what files are before a call changes them: contents first, then the manifest that names them, both durable
//! before the call goes on. A call is never stopped for want of this; its answer says what cannot be taken back.
//! Not here: the way back (undo).

use std::fs::Metadata;
use std::io;
use std::path::Path;

use super::contents::{Contents, hash};
use super::manifest::{self, Before, Line, Name};
use super::{LARGEST_KEPT, Trash, now_ms};
use crate::acp::Workspace;
use crate::durable::{append_json_lines, sync_folder};
use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::tool::{BeforeImages, Intent, Kept};

/// Keeps before-images of files in these workspaces.
#[derive(Debug, Clone)]
pub struct Images {
    trash: Trash,
    workspace: Workspace,
}

impl BeforeImages for Images {
    fn keep<'a>(&'a self, request: &'a RequestId, tool: &'a str, intents: &'a [Intent]) -> Kept<'a> {
        let changes = |intent: &Intent| matches!(intent, Intent::File { .. } | Intent::Move { .. });
        let vague: Vec<String> = intents.iter().filter_map(unnamed).collect();
        let intents: Vec<Intent> = intents.iter().filter(|intent| changes(intent)).cloned().collect();
        if intents.is_empty() {
            return Box::pin(std::future::ready(vague));
        }
        let (images, request, tool) = (self.clone(), request.clone(), tool.to_owned());
        Box::pin(async move {
            let keeping = tokio::task::spawn_blocking(move || images.keep_all(&request, &tool, &intents));
            let mut remarks = vague;
            match keeping.await {
                Ok(more) => remarks.extend(more),
                Err(fault) => remarks
                    .push(format!("This cannot be undone: keeping what was there broke off ({fault}).")),
            }
            remarks
        })
    }
}

/// Of a change whose path is not text nothing can be kept by this way.
fn unnamed(intent: &Intent) -> Option<String> {
    let Intent::Vague { what } = intent else { return None };
    let files = ["write ", "remove ", "move "].iter().any(|verb| what.starts_with(verb));
    files.then(|| format!("This cannot be undone ({what}): the path is not UTF-8."))
}

/// A file as it is before.
enum Now {
    Absent,
    File(std::fs::File, Metadata),
}

impl Images {
    /// In this trash.
    pub fn new(trash: Trash, workspace: Workspace) -> Self {
        Self { trash, workspace }
    }

    fn keep_all(&self, request: &RequestId, tool: &str, intents: &[Intent]) -> Vec<String> {
        let kept = self.keep_held(request, tool, intents);
        self.trash.burn();
        match kept {
            Ok(remarks) => remarks,
            Err(cause) => {
                tracing::warn!(request.id = %request, %cause, "what a call changes could not be kept");
                vec![format!("This cannot be undone: what was there could not be kept ({cause}).")]
            }
        }
    }

    fn keep_held(&self, request: &RequestId, tool: &str, intents: &[Intent]) -> io::Result<Vec<String>> {
        let _held = self.trash.hold()?;
        let (mut lines, mut remarks) = (Vec::new(), Vec::new());
        let room = self.trash.make_room(self.needed(intents), request)?;
        for intent in intents {
            lines.extend(self.line(intent, room, &mut remarks)?);
        }
        let path = self.trash.home.trash_manifests_dir().join(format!("{request}.jsonl"));
        if manifest::read::<Line>(&path)?.is_empty() {
            let begun = Line::Begun {
                request: request.clone(),
                tool: tool.to_owned(),
                at_ms: now_ms(),
                proof: String::new(),
            };
            lines.insert(0, begun);
            append_json_lines(&path, &lines)?;
            sync_folder(&self.trash.home.trash_manifests_dir())?;
        } else {
            append_json_lines(&path, &lines)?;
        }
        reach_of("trash.kept", request.as_str());
        Ok(remarks)
    }

    /// The most that keeping these takes.
    fn needed(&self, intents: &[Intent]) -> u64 {
        let size = |intent: &Intent| match intent {
            Intent::File { path, .. } => self.workspace.found(Path::new(path))?.metadata().ok(),
            _ => None,
        };
        let sizes = intents.iter().filter_map(size).map(|metadata| metadata.len());
        sizes.filter(|size| *size <= LARGEST_KEPT).sum()
    }

    fn line(&self, intent: &Intent, room: bool, remarks: &mut Vec<String>) -> io::Result<Option<Line>> {
        let name = |path: &str| Name(path.into());
        Ok(match intent {
            Intent::File { path, before, after, executable, .. } => {
                let before = match self.look(path)? {
                    Now::Absent => None,
                    Now::File(file, metadata) => {
                        let known = before.as_deref();
                        Some(self.before(path, (file, metadata), known, room, remarks))
                    }
                };
                let mode_changes = executable.is_some();
                Some(Line::File { path: name(path), before, after: after.clone(), mode_changes })
            }
            Intent::Move { from, to, sha256 } => match (sha256, self.look(from)?) {
                // It comes back from where it went, whatever its size.
                (Some(sha256), _) => {
                    Some(Line::Move { from: name(from), to: name(to), sha256: sha256.clone() })
                }
                (None, Now::File(mut file, _)) => {
                    let sha256 = hash(&mut file)?.0;
                    Some(Line::Move { from: name(from), to: name(to), sha256 })
                }
                (None, Now::Absent) => None,
            },
            _ => None,
        })
    }

    fn look(&self, path: &str) -> io::Result<Now> {
        let Some(path) = self.workspace.found(Path::new(path)) else {
            return Err(io::Error::other(format!("{path} lies in no workspace")));
        };
        match path.open_read() {
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(Now::Absent),
            opened => {
                let file = opened?;
                let metadata = file.metadata()?;
                Ok(Now::File(file, metadata))
            }
        }
    }

    fn before(
        &self,
        path: &str,
        (mut file, metadata): (std::fs::File, Metadata),
        known: Option<&str>,
        room: bool,
        remarks: &mut Vec<String>,
    ) -> Before {
        let (size, mode) = (metadata.len(), mode_of(&metadata));
        let contents = Contents::in_folder(self.trash.home.trash_objects_dir());
        let unkept = |sha256: Option<&str>| Before {
            sha256: sha256.unwrap_or_default().to_owned(),
            size,
            mode,
            kept: false,
        };
        if let Some(sha256) = known.filter(|sha256| contents.has(sha256, size)) {
            return Before { sha256: sha256.to_owned(), size, mode, kept: true };
        }
        if size > LARGEST_KEPT {
            remarks.push(format!(
                "This cannot be undone: {path} was over the {} that are kept of a file.",
                crate::output::figures::size(LARGEST_KEPT)
            ));
            return unkept(known);
        }
        if !room {
            remarks
                .push(format!("This cannot be undone: {path} does not fit into the trash (trash.max_mb)."));
            return unkept(known);
        }
        let (sha256, size) = match contents.keep(&mut file) {
            Ok(kept) => kept,
            Err(cause) => {
                remarks.push(format!("This cannot be undone: {path} could not be kept ({cause})."));
                return unkept(known);
            }
        };
        self.trash.has_grown(size);
        Before { sha256, size, mode, kept: true }
    }
}

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
