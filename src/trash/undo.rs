//! Taking a request back: every file as it was before, or nothing at all. What changed since the request is never
//! overwritten. Not here: what comes back of what commands removed (removals), and how it is carried out (steps).

mod removals;

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use super::contents::{Contents, hash};
use super::inventory::{Kept, Source, Taken};
use super::net::{Net, nets};
use super::steps::{Step, carry_out};
use super::{Trash, named, now_ms};
use crate::acp::{Workspace, WorkspacePath};
use crate::durable::append_json_lines;
use crate::failpoint::reach;
use crate::ids::RequestId;
use crate::output::figures;

/// What an undo did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The request.
    pub request: RequestId,
    /// What became of each path, in words.
    pub lines: Vec<String>,
    /// Commands ran in it: only what they removed with `rm` is kept, not what they wrote or removed otherwise.
    pub is_partial: bool,
}

/// What undo does not cover.
pub const UNTRACKED: &str = "Files that a command writes, or removes in other ways than rm, are not tracked: look with \
                             `git status` and `git diff`.";

/// Why a request cannot be taken back. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum Unready {
    /// Nothing is kept of it.
    #[error(
        "nothing is kept of request {0}: no file tool changed a file in it and no command of it used rm, or its backups \
         were deleted. {untracked}",
        untracked = UNTRACKED
    )]
    Unknown(String),
    /// Several requests begin or end so.
    #[error("several requests are meant by {0:?}, the latest: {1}")]
    Several(String, String),
    /// It was taken back before.
    #[error("request {0} was undone already")]
    Already(RequestId, i64),
    /// Everything is as it was before.
    #[error("there is nothing to undo: all that request {0} was about to change is as it was before")]
    Nothing(RequestId),
    /// Something is not as the request left it, or is not kept.
    #[error("request {0} cannot be undone, and nothing was changed:\n{list}", list = .1.join("\n"))]
    Refused(RequestId, Vec<String>),
    /// A step failed, and those before it were taken back.
    #[error("request {0} was not undone: {1}")]
    Failed(RequestId, String),
    /// The trash itself.
    #[error("the trash cannot be used: {0}")]
    Trash(#[from] io::Error),
}

/// A path as it is now.
enum Now {
    Absent,
    File {
        sha256: String,
        mode: Option<u32>,
    },
    /// Something that no tool of ours left there, in words.
    Strange(String),
}

impl Trash {
    /// Takes a request back; with `dry`, only says what that would be. A request is named by its id, or by how its id
    /// begins or ends.
    ///
    /// # Errors
    /// [`Unready`]; nothing is changed then.
    pub fn undo(&self, workspace: &Workspace, request: &str, dry: bool) -> Result<Undone, Unready> {
        let _held = self.hold()?;
        self.collect()?;
        let all = self.inventory()?;
        let kept = match find(&all, request) {
            Ok(kept) => kept,
            Err(unknown) => {
                let is_it = |taken: &Taken| !taken.begun && taken.request.as_str() == request;
                let taken = self.taken()?.into_iter().rfind(is_it);
                return Err(taken.map_or(unknown, |taken| Unready::Already(taken.request, taken.at_ms)));
            }
        };
        if let Some(at_ms) = kept.undone_at_ms {
            return Err(Unready::Already(kept.request.clone(), at_ms));
        }
        let contents = Contents::in_folder(self.home.trash_objects_dir());
        let removed = self.home.trash_removed_dir();
        let trash = Workspace::open(std::slice::from_ref(&removed))?;
        let mut plan = Plan {
            workspace,
            contents: &contents,
            trash: (&trash, &removed),
            all: &all,
            kept,
            steps: vec![],
            lines: vec![],
            faults: vec![],
            anew: HashMap::new(),
            lost: vec![],
            later: None,
        };
        plan.files();
        plan.removals();
        let Plan { steps, mut lines, mut faults, lost, later, .. } = plan;
        let request = kept.request.clone();
        if steps.is_empty() {
            faults.extend(lost);
        } else {
            lines.extend(lost.into_iter().chain(later));
        }
        if !faults.is_empty() {
            return Err(Unready::Refused(request, faults));
        }
        if steps.is_empty() {
            return Err(Unready::Nothing(request));
        }
        if !dry {
            let log = |begun| {
                let records = kept.records_of_commands();
                let taken = Taken { request: request.clone(), at_ms: now_ms(), begun, records };
                append_json_lines(&self.home.trash_log_file(), &[taken])
            };
            log(true)?;
            carry_out(&steps, &contents).map_err(|text| Unready::Failed(request.clone(), text))?;
            reach("undo.done");
            log(false)?;
        }
        Ok(Undone { request, lines, is_partial: kept.source != Source::Tools })
    }
}

pub(super) fn find<'a>(all: &'a [Kept], typed: &str) -> Result<&'a Kept, Unready> {
    let exactly = all.iter().filter(|kept| kept.request.as_str() == typed);
    if let Some(exactly) = exactly.min_by_key(|kept| kept.source) {
        return Ok(exactly);
    }
    let alike = |kept: &&Kept| {
        !typed.is_empty()
            && (kept.request.as_str().starts_with(typed) || kept.request.as_str().ends_with(typed))
    };
    let mut found: Vec<&Kept> = all.iter().filter(alike).collect();
    // What a command says of a request of file tools, or of another command's, is not what is meant by it.
    let is_said = |kept: &Kept| all.iter().any(|of| of.request == kept.request && of.source < kept.source);
    found.retain(|kept| !is_said(kept));
    match found.as_slice() {
        [] => Err(Unready::Unknown(typed.to_owned())),
        [only] => Ok(only),
        several => {
            let ids: Vec<&str> = several.iter().take(5).map(|kept| kept.request.as_str()).collect();
            Err(Unready::Several(typed.to_owned(), ids.join(", ")))
        }
    }
}

/// An undo that is being thought through.
struct Plan<'a> {
    workspace: &'a Workspace,
    contents: &'a Contents,
    /// What commands removed, opened as calls open a workspace: whatever they put there leads nowhere. And its path.
    trash: (&'a Workspace, &'a Path),
    all: &'a [Kept],
    kept: &'a Kept,
    steps: Vec<Step>,
    lines: Vec<String>,
    faults: Vec<String>,
    /// What comes back, and where it is in the trash if it is there: an empty folder is not.
    anew: HashMap<PathBuf, Option<PathBuf>>,
    /// What is gone and not kept: no reason to leave the rest.
    lost: Vec<String>,
    /// What of the request's own is not put back, in words.
    later: Option<String>,
}

impl Plan<'_> {
    /// What file tools changed.
    fn files(&mut self) {
        let nets = nets(self.kept);
        let mut moved: Vec<&Path> = Vec::new();
        for net in &nets {
            if moved.contains(&net.path.as_path()) {
                continue;
            }
            // Where the content is not kept, another path of the request may have it.
            let source = net.before.as_ref().filter(|before| !before.kept).and_then(|before| {
                nets.iter()
                    .find(|other| other.before.is_none() && other.after.as_ref() == Some(&before.sha256))
            });
            match source {
                Some(source) => {
                    if self.move_back(net, source) {
                        moved.push(&source.path);
                    }
                }
                None => self.file(net),
            }
        }
        // A move may be planned after the path that it takes its file from was looked at.
        self.steps
            .retain(|step| !matches!(step, Step::Drop { path, .. } if moved.contains(&path.absolute())));
        self.lines.retain(|line| !moved.iter().any(|path| *line == dropped(path)));
    }

    fn move_back(&mut self, net: &Net, source: &Net) -> bool {
        let (Some(to), Some(at)) = (self.path(&net.path), self.path(&source.path)) else { return false };
        match (Self::now(&to), Self::now(&at)) {
            (Now::File { sha256, .. }, Now::Absent) if Some(&sha256) == source.after.as_ref() => true,
            (Now::Absent, Now::File { sha256, .. }) if Some(&sha256) == source.after.as_ref() => {
                self.lines.push(format!("{} goes back to {}", shown(&at), shown(&to)));
                self.steps.push(Step::MoveBack { at, to });
                true
            }
            (Now::Absent, found) => {
                self.changed_since(&at, &found);
                true
            }
            (found, _) => {
                self.changed_since(&to, &found);
                true
            }
        }
    }

    fn file(&mut self, net: &Net) {
        let Some(path) = self.path(&net.path) else { return };
        let now = Self::now(&path);
        let (sha256, mode) = match &now {
            Now::Absent => (None, None),
            Now::File { sha256, mode } => (Some(sha256), *mode),
            Now::Strange(_) => return self.changed_since(&path, &now),
        };
        let was = net.before.as_ref();
        let mode_is_back = !net.mode_changes || was.is_none_or(|was| was.mode.is_none() || was.mode == mode);
        if sha256 == was.map(|was| &was.sha256) && mode_is_back {
            return;
        }
        if sha256 != net.after.as_ref() {
            return self.changed_since(&path, &now);
        }
        let Some(was) = was else {
            self.lines.push(dropped(path.absolute()));
            // Without an after there is no file now, and nothing to drop.
            let expected = net.after.clone().unwrap_or_default();
            return self.steps.push(Step::Drop { path, expected });
        };
        if !was.kept || !self.contents.has(&was.sha256, was.size) {
            return self.faults.push(format!("{}: what it held before is not kept", shown(&path)));
        }
        let expected = sha256.cloned();
        let verb = if expected.is_some() { "gets back what it held" } else { "comes back" };
        self.lines.push(format!("{} {verb} ({})", shown(&path), figures::size(was.size)));
        self.steps.push(Step::Put { path, sha256: was.sha256.clone(), mode: was.mode, expected });
    }

    fn path(&mut self, path: &Path) -> Option<WorkspacePath> {
        let found = self.workspace.found(path);
        if found.is_none() {
            let text = format!("{} lies in no workspace here; name its folder with --workspace", named(path));
            self.faults.push(text);
        }
        found
    }

    fn now(path: &WorkspacePath) -> Now {
        let strange = |cause: io::Error| Now::Strange(format!("cannot be read ({cause})"));
        let metadata = match path.metadata() {
            Ok(metadata) => metadata,
            Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Now::Absent,
            // The kernel refuses to follow it.
            Err(cause) if cause.raw_os_error() == Some(libc::ELOOP) => {
                return Now::Strange("is a link now, or lies behind one".to_owned());
            }
            Err(cause) => return strange(cause),
        };
        if !metadata.is_file() {
            return Now::Strange("is no regular file any more".to_owned());
        }
        let mode = super::images::mode_of(&metadata);
        match path.open_read().and_then(|mut file| hash(&mut file)) {
            Ok((sha256, _)) => Now::File { sha256, mode },
            Err(cause) => strange(cause),
        }
    }

    /// Refuses, and names the later request that changed the path, if one did.
    fn changed_since(&mut self, path: &WorkspacePath, now: &Now) {
        let what = match now {
            Now::Absent => "is not there any more".to_owned(),
            Now::File { .. } => "was changed since".to_owned(),
            Now::Strange(words) => words.clone(),
        };
        let later = self.all.iter().find(|other| {
            (other.at_ms, &other.request) > (self.kept.at_ms, &self.kept.request)
                && other.undone_at_ms.is_none()
                && other.touches(path.absolute())
        });
        let hint = later.map_or_else(String::new, |later| {
            format!(", by request {} ({}): undo that one first", later.request, later.tool)
        });
        self.faults.push(format!("{} {what}{hint}", shown(path)));
    }
}

fn shown(path: &WorkspacePath) -> String {
    named(path.absolute())
}

fn dropped(path: &Path) -> String {
    format!("{} goes: the request had made it", named(path))
}
