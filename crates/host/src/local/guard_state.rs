//! The files that the guard of protected paths remembers, and the commands that live.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use super::process_kill::stop_process_tree;
use super::process_tree::ProcessTree;
use super::protected_path_records::FileContent;
use super::protected_path_stamp::PathStamp;
use super::protected_paths::{CoverMode, ProtectedPathState};
use crate::terminals::{StopSequence, StopSignal};
use punie_core::ids::RequestId;

/// The most bytes of all remembered files together.
const MAX_REMEMBERED_BYTES: usize = 16 << 20;

#[derive(Default)]
pub(super) struct GuardState {
    /// The folders in which commands started, and those above them up to a workspace.
    pub folders: BTreeSet<PathBuf>,
    pub known: HashMap<PathBuf, KnownFile>,
    /// The bytes of the remembered contents.
    pub known_bytes: usize,
    pub live: Vec<LiveCommand>,
    pub last_id: u64,
    /// Nothing older was overlooked by the walk: the start of the first command after the last complete one.
    pub unwalked_ms: Option<i64>,
    /// The last time at which a command started, or at which its end was noticed.
    pub last_alive_ms: i64,
    /// The files last moved to the trash.
    pub moved: HashMap<PathBuf, (FileContent, RequestId)>,
    pub told: Vec<String>,
    /// The uncovered files that were written in their place. Set during a comparison.
    pub written_by: HashMap<PathBuf, Writers>,
    /// How often each path was put back since the first of the live commands started.
    pub put_backs: HashMap<PathBuf, u32>,
}

/// The commands that can have written a file that lost its cover.
#[derive(Default)]
pub(super) struct Writers {
    pub commands: Vec<u64>,
    /// One of them has it open for writing.
    pub is_held: bool,
}

/// A protected file as it is allowed to be.
pub(super) struct KnownFile {
    pub stamp: PathStamp,
    pub content: Option<FileContent>,
}

/// A command of which processes live.
pub(super) struct LiveCommand {
    pub id: u64,
    pub tree: Option<ProcessTree>,
    pub is_running: bool,
    pub in_background: bool,
    /// The folders that are covered for it, with their inodes: a mount falls off a path that is replaced. Files are left
    /// out: programs replace them, and the inode of the first may be that of the third.
    pub covers: HashMap<PathBuf, (CoverMode, u64)>,
    pub covered_files: Vec<PathBuf>,
    /// The number of events about protected files before it started.
    pub events: u64,
}

impl LiveCommand {
    /// Creates the entry of a command that is about to start and finds these paths. With `covers_paths` it finds the
    /// covered ones read-only.
    pub fn starting(
        id: u64,
        seen: &BTreeMap<PathBuf, ProtectedPathState>,
        covers_paths: bool,
        events: u64,
    ) -> Self {
        let folders = seen.iter().filter_map(|(path, now)| {
            let is_folder = covers_paths && now.stamp == PathStamp::Separate;
            let mode = now
                .cover
                .filter(|mode| is_folder && *mode != CoverMode::InPlace)?;
            let inode = path.symlink_metadata().ok()?.ino();
            Some((path.clone(), (mode, inode)))
        });
        let files = seen.iter().filter(|(_, now)| {
            now.cover == Some(CoverMode::ReadOnly) && now.stamp != PathStamp::Separate
        });
        Self {
            id,
            tree: None,
            is_running: true,
            in_background: false,
            covers: folders.collect(),
            covered_files: files.map(|(path, _)| path.clone()).collect(),
            events,
        }
    }
}

impl GuardState {
    /// Returns whether no live command could change a file, so that the owner did.
    pub fn is_out_of_reach(&self, path: &Path) -> bool {
        let inode = |path: &Path| {
            path.symlink_metadata()
                .map(|found| (found.ino(), found.nlink()))
        };
        // By another name a covered file could be written.
        !self.live.is_empty()
            && inode(path).is_ok_and(|(_, links)| links == 1)
            && self.live.iter().all(|live| {
                let cover = |path: &Path| {
                    let (mode, covered) = live.covers.get(path)?;
                    let is_there = inode(path).is_ok_and(|(now, _)| now == *covered);
                    is_there.then_some(*mode)
                };
                // The innermost decides.
                path.ancestors().find_map(cover) == Some(CoverMode::ReadOnly)
            })
    }

    pub fn has_foreground_command(&self) -> bool {
        self.live
            .iter()
            .any(|live| live.is_running && !live.in_background)
    }

    /// Starts killing the processes of these commands: any of them may be the one that writes a protected path. Does not
    /// wait for their end.
    pub fn kill_commands(&self, ids: &[u64]) {
        let meant = self.live.iter().filter(|live| ids.contains(&live.id));
        let trees: Vec<ProcessTree> = meant.filter_map(|live| live.tree.clone()).collect();
        let kill = move || {
            let sequence = StopSequence::for_signal(StopSignal::Kill, Duration::ZERO);
            for tree in &trees {
                stop_process_tree(Some(tree), None, &sequence);
            }
        };
        let thread = thread::Builder::new().name("protected-path-kill".to_owned());
        if let Err(cause) = thread.spawn(kill) {
            tracing::warn!(%cause, "commands that write a protected path could not be ended");
        }
    }

    pub fn forget(&mut self, path: &Path) -> Option<KnownFile> {
        let known = self.known.remove(path)?;
        self.known_bytes -= known
            .content
            .as_ref()
            .map_or(0, |content| content.bytes.len());
        Some(known)
    }

    pub fn remember(&mut self, path: &Path, stamp: PathStamp, content: Option<FileContent>) {
        self.forget(path);
        let size = |content: &FileContent| content.bytes.len();
        let content =
            content.filter(|content| self.known_bytes + size(content) <= MAX_REMEMBERED_BYTES);
        self.known_bytes += content.as_ref().map_or(0, size);
        self.known
            .insert(path.to_owned(), KnownFile { stamp, content });
    }

    /// Returns whether an accepted file of this name has the same content: it was copied or moved.
    pub fn is_known_elsewhere(&self, path: &Path, content: &FileContent) -> bool {
        let is_same = |known: &KnownFile| known.content.as_ref() == Some(content);
        self.known
            .iter()
            .any(|(other, known)| other.file_name() == path.file_name() && is_same(known))
    }
}
