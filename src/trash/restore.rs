//! Taking what is kept of a request out of the trash, as copies in a folder of the owner's choice. Not here: putting
//! it back in its place (undo).
#![expect(clippy::disallowed_methods, reason = "this file writes into the folder that the owner names")]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::contents::Contents;
use super::inventory::Kept;
use super::manifest::Line;
use super::net::{AllGone, Gone, What, gone};
use super::undo::{Undone, Unready, find};
use super::{Trash, named, tree};
use crate::acp::{Workspace, WorkspacePath};

impl Trash {
    /// Copies what is kept of a request below this folder, each under the path that it had; the first state of each
    /// path counts.
    ///
    /// # Errors
    /// [`Unready`].
    pub fn restore(&self, request: &str, to: &Path) -> Result<Undone, Unready> {
        let _held = self.hold()?;
        self.collect()?;
        let all = self.inventory()?;
        let kept = find(&all, request)?;
        fs::create_dir_all(to)?;
        if fs::read_dir(to)?.next().is_some() {
            let text = format!("{} is not empty", to.display());
            return Err(Unready::Failed(kept.request.clone(), text));
        }
        // Each folder on the way is opened beneath this one, which is held, and no link is followed: what was restored
        // before may be one.
        let folder = Workspace::open(&[to.to_owned()])?;
        let (mut lines, mut left_out) = (Vec::new(), Vec::new());
        let mut trees: HashSet<PathBuf> = HashSet::new();
        for (path, what) in self.sources(kept) {
            let Some(target) = folder.found(&below(folder.first(), &path)) else { continue };
            // What came with a folder is newer than this: the request had made it there before it removed the folder.
            let went = matches!(what, Source::Gone(_) | Source::EmptyFolder);
            let instead = went && path.ancestors().skip(1).any(|above| trees.contains(above));
            let shown = named(&below(to, &path));
            match bring(&what, &target, instead) {
                Ok(true) => {
                    lines.push(shown);
                    if went {
                        trees.insert(path);
                    }
                }
                Ok(false) => {}
                Err(cause) => {
                    tracing::warn!(path = shown, %cause, "one of the things that were to be restored is left out");
                    left_out.push(format!("{shown}: {cause}"));
                }
            }
        }
        if !left_out.is_empty() && lines.is_empty() {
            return Err(Unready::Failed(kept.request.clone(), left_out.join("; ")));
        }
        if lines.is_empty() {
            return Err(Unready::Nothing(kept.request.clone()));
        }
        lines.extend(left_out.into_iter().map(|text| format!("left out: {text}")));
        Ok(Undone { request: kept.request.clone(), lines, is_partial: false })
    }

    /// Each path with what is kept of it. What a command removed comes as an undo would bring it: a folder before what
    /// it had lost earlier; what came there after it was gone comes last.
    fn sources(&self, kept: &Kept) -> Vec<(PathBuf, Source)> {
        let contents = Contents::in_folder(self.home.trash_objects_dir());
        let mut sources = Vec::new();
        for line in kept.records.iter().filter(|record| record.folder.is_none()).flat_map(|r| &r.lines) {
            if let Line::File { path, before: Some(before), .. } = line
                && before.kept
            {
                let at = contents.path(&before.sha256);
                if fs::symlink_metadata(&at).is_ok() {
                    sources.push((path.0.clone(), Source::Before(at)));
                }
            }
        }
        let AllGone { gone, later, .. } = gone(&kept.records, kept.was_begun);
        for Gone { path, what } in gone.into_iter().rev() {
            match what {
                What::Item(at) => sources.push((path, Source::Gone(at))),
                What::EmptyFolder(_) => sources.push((path, Source::EmptyFolder)),
                What::Lost | What::ForGood => {}
            }
        }
        // Beside the first state of a path, under names of their own.
        let mut earlier: HashMap<PathBuf, u32> = HashMap::new();
        for (path, at) in later {
            let number = earlier.entry(path.clone()).and_modify(|number| *number += 1).or_insert(1);
            let mut name = path.file_name().unwrap_or_default().to_owned();
            name.push(format!(".later-{number}"));
            sources.push((path.with_file_name(name), Source::Later(at)));
        }
        sources
    }
}

/// What is kept of a path.
enum Source {
    /// What it held before a file tool changed it.
    Before(PathBuf),
    /// What a command removed.
    Gone(PathBuf),
    /// The same of what came there afterwards.
    Later(PathBuf),
    /// That it was a folder with nothing in it.
    EmptyFolder,
}

/// Copies one to where it belongs; false where there is something already that this is not to be put in place of.
fn bring(what: &Source, target: &WorkspacePath, instead: bool) -> io::Result<bool> {
    let (folder, name) = target.open_parent(true)?;
    let path = folder.path_of(&name);
    match folder.metadata(&name) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => {}
        Ok(_) if instead => tree::remove_tree(&path)?,
        Ok(_) => return Ok(false),
        Err(cause) => return Err(cause),
    }
    match what {
        Source::Before(at) | Source::Gone(at) | Source::Later(at) => tree::copy_without_replacing(at, &path)?,
        Source::EmptyFolder => fs::create_dir(&path)?,
    }
    Ok(true)
}

/// A path below another folder, without a way out of it.
fn below(folder: &Path, path: &Path) -> PathBuf {
    let plain = path.components().filter(|part| matches!(part, Component::Normal(_)));
    plain.fold(folder.to_owned(), |below, part| below.join(part))
}
