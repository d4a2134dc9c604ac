//! What the trash holds, request by request. Not here: letting go of it (room).
#![expect(clippy::disallowed_methods, reason = "this file looks through the trash")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::manifest::{self, Line, Name};
use super::tree::{TreeSize, move_from_command};
use super::{Trash, now_ms};
use crate::ids::RequestId;

/// The manifest in a folder of removed things.
pub(super) const MANIFEST: &str = "manifest.jsonl";

/// What is kept of one request, by one source.
#[derive(Debug, Clone)]
pub struct Kept {
    /// The request.
    pub request: RequestId,
    /// The tool, or the command by which something was removed.
    pub tool: String,
    /// When it began, in milliseconds since 1970.
    pub at_ms: i64,
    /// When it was taken back, all that there is of it.
    pub undone_at_ms: Option<i64>,
    /// Whether taking it back was begun.
    pub(super) was_begun: bool,
    pub(super) source: Source,
    pub(super) records: Vec<Record>,
}

/// Whose word it is that a request did something. Where commands may write, any request may be named, so that these are
/// never one: the first that there is of a request is meant by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Source {
    /// The file tools'.
    Tools,
    /// The shims' of its commands.
    Shims,
    /// Some command's.
    Hearsay,
}

/// One manifest with its lines.
#[derive(Debug, Clone)]
pub(super) struct Record {
    /// The folder of removed things; none of a file tool's.
    pub folder: Option<PathBuf>,
    pub file: PathBuf,
    pub lines: Vec<Line>,
    /// Taken back.
    pub is_undone: bool,
    counted: OnceLock<u64>,
}

/// A line of the log of what was taken back.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Taken {
    pub request: RequestId,
    pub at_ms: i64,
    /// It only begins.
    #[serde(default)]
    pub begun: bool,
    /// The names of the folders that its commands had filled by then: one that goes on removes more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<String>,
}

impl Record {
    /// By the lines of its manifest.
    pub fn new(folder: Option<PathBuf>, file: PathBuf, lines: Vec<Line>) -> Self {
        let lines = manifest::drop_withdrawn(lines);
        Self { folder, file, lines, is_undone: false, counted: OnceLock::new() }
    }

    /// The name of its folder.
    fn name(&self) -> Option<String> {
        Some(self.folder.as_ref()?.file_name()?.to_string_lossy().into_owned())
    }

    /// What the folder takes on the disk, in bytes: looked at, and not what its manifest says.
    pub fn bytes(&self) -> u64 {
        *self
            .counted
            .get_or_init(|| self.folder.as_deref().map_or(0, |folder| TreeSize::of_tree(folder).on_disk))
    }
}

impl Kept {
    /// The paths that the request changed.
    pub fn paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self.lines().flat_map(paths_of).map(|name| name.0.as_path()).collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// The commands of which nothing is kept.
    pub fn untracked(&self) -> impl Iterator<Item = &str> {
        self.lines().filter_map(|line| match line {
            Line::Untracked { command } => Some(command.as_str()),
            _ => None,
        })
    }

    /// How many files are kept, or were there to be kept.
    pub fn files(&self) -> u64 {
        self.lines()
            .map(|line| match line {
                Line::File { .. } | Line::Move { .. } => 1,
                Line::Removed { files, .. } => *files,
                _ => 0,
            })
            .sum()
    }

    /// How many bytes they had.
    pub fn bytes(&self) -> u64 {
        self.lines()
            .map(|line| match line {
                Line::File { before: Some(before), .. } if before.kept => before.size,
                Line::Removed { bytes, .. } => *bytes,
                _ => 0,
            })
            .sum()
    }

    /// The names of the folders that commands filled.
    pub(super) fn records_of_commands(&self) -> Vec<String> {
        self.records.iter().filter_map(Record::name).collect()
    }

    /// Notes what a line of the log says of it.
    fn note(&mut self, taken: &Taken) {
        self.was_begun = true;
        if taken.begun {
            return;
        }
        for record in &mut self.records {
            record.is_undone |=
                taken.records.is_empty() || record.name().is_some_and(|name| taken.records.contains(&name));
        }
        self.undone_at_ms = self.records.iter().all(|record| record.is_undone).then_some(taken.at_ms);
    }

    /// Whether it changed this path, or something above or below it.
    pub(super) fn touches(&self, path: &Path) -> bool {
        self.lines().flat_map(paths_of).any(|name| path.starts_with(&name.0) || name.0.starts_with(path))
    }

    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.records.iter().flat_map(|record| &record.lines)
    }
}

fn paths_of(line: &Line) -> Vec<&Name> {
    match line {
        Line::File { path, .. }
        | Line::Removed { path, .. }
        | Line::EmptyFolder { path, .. }
        | Line::ForGood { path } => vec![path],
        Line::Move { from, to, .. } => vec![from, to],
        Line::Now { .. } | Line::Begun { .. } | Line::Stayed { .. } | Line::Untracked { .. } => Vec::new(),
    }
}

impl Trash {
    /// Everything that is kept, the latest first.
    ///
    /// # Errors
    /// The system's.
    pub fn list(&self) -> io::Result<Vec<Kept>> {
        let _held = self.hold()?;
        self.collect()?;
        self.inventory()
    }

    /// The same for whoever holds the trash.
    pub(super) fn inventory(&self) -> io::Result<Vec<Kept>> {
        let mut records = Vec::new();
        for file in entries(&self.home.trash_manifests_dir())? {
            let lines = manifest::read(&file)?;
            records.push(Record::new(None, file, lines));
        }
        for folder in entries(&self.home.trash_removed_dir())?.into_iter().filter(|folder| is_folder(folder))
        {
            let file = folder.join(MANIFEST);
            let lines = manifest::read(&file)?;
            records.push(Record::new(Some(folder), file, lines));
        }
        let now = now_ms();
        let mut all: BTreeMap<(RequestId, Source), Kept> = BTreeMap::new();
        for record in records {
            let Some(Line::Begun { request, tool, at_ms, proof }) = record.lines.first().cloned() else {
                continue;
            };
            let is_of_commands = record.folder.is_some();
            let source = match is_of_commands {
                false => Source::Tools,
                true if self.proofs.of(&self.home, &request)? == proof => Source::Shims,
                true => Source::Hearsay,
            };
            let kept = all.entry((request.clone(), source)).or_insert_with(|| Kept {
                request,
                tool,
                at_ms,
                undone_at_ms: None,
                was_begun: false,
                source,
                records: Vec::new(),
            });
            // Where a command wrote it, the time may be anything: it makes nothing older, and nothing comes from the
            // future.
            let at_ms = if is_of_commands { kept.at_ms.max(at_ms) } else { kept.at_ms.min(at_ms) };
            kept.at_ms = at_ms.min(now);
            kept.records.push(record);
        }
        for taken in self.taken()? {
            for source in [Source::Tools, Source::Shims, Source::Hearsay] {
                if let Some(kept) = all.get_mut(&(taken.request.clone(), source)) {
                    kept.note(&taken);
                }
            }
        }
        let mut all: Vec<Kept> = all.into_values().collect();
        // The names of the folders are in the order of time.
        for kept in &mut all {
            kept.records.sort_by(|a, b| a.file.cmp(&b.file));
        }
        all.sort_by(|a, b| (b.at_ms, &b.request).cmp(&(a.at_ms, &a.request)));
        Ok(all)
    }

    /// What was taken back, by request.
    ///
    /// # Errors
    /// The system's.
    pub fn undone(&self) -> io::Result<Vec<(RequestId, i64)>> {
        let done = self.taken()?.into_iter().filter(|taken| !taken.begun);
        Ok(done.map(|taken| (taken.request, taken.at_ms)).collect())
    }

    pub(super) fn taken(&self) -> io::Result<Vec<Taken>> {
        manifest::read(&self.home.trash_log_file())
    }

    /// Takes what commands have removed out of their reach, once the command that removes it is over.
    pub(super) fn collect(&self) -> io::Result<u64> {
        let mut bytes = 0;
        for folder in entries(&self.home.trash_incoming_dir())? {
            // A link would lead out of here.
            let Some(name) = folder.file_name().filter(|_| is_folder(&folder)) else { continue };
            // Whoever fills it holds its manifest.
            let Ok(Some(held)) = manifest::open(&folder.join(MANIFEST)) else { continue };
            if held.try_lock().is_err() {
                continue;
            }
            let removed = self.home.trash_removed_dir().join(name);
            // One whose name is taken is forged; it goes with what lies about.
            if let Err(cause) = move_from_command(&folder, &removed) {
                tracing::warn!(path = %folder.display(), %cause, "what a command removed stays in its reach");
                continue;
            }
            bytes += TreeSize::of_tree(&removed).on_disk;
        }
        Ok(bytes)
    }
}

/// Whether it is a folder itself, and no link to one.
fn is_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// What is in a folder of the trash, but for what is being made there.
pub(super) fn entries(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            found.push(entry.path());
        }
    }
    Ok(found)
}
