//! Taking what is kept of a request out of the trash, as copies in a folder of the owner's choice. Not here: putting
//! it back in its place (undo).
#![expect(clippy::disallowed_methods, reason = "this file writes into the folder that the owner names")]

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::contents::Contents;
use super::inventory::Kept;
use super::manifest::Line;
use super::undo::{Undone, Unready, find};
use super::{Trash, tree};

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
        let mut lines = Vec::new();
        for (path, at) in self.sources(kept) {
            let target = below(to, &path);
            if fs::symlink_metadata(&target).is_ok() || fs::symlink_metadata(&at).is_err() {
                continue;
            }
            if let Some(parent) = target.parent() {
                fs::create_dir_all(parent)?;
            }
            tree::copy_new(&at, &target)?;
            lines.push(target.display().to_string());
        }
        if lines.is_empty() {
            return Err(Unready::Nothing(kept.request.clone()));
        }
        Ok(Undone { request: kept.request.clone(), lines })
    }

    /// Each path with where its content is kept.
    fn sources(&self, kept: &Kept) -> Vec<(PathBuf, PathBuf)> {
        let contents = Contents::in_folder(self.home.trash_objects_dir());
        let mut sources = Vec::new();
        for record in &kept.records {
            for line in &record.lines {
                match (line, &record.folder) {
                    (Line::File { path, before: Some(before), .. }, None) if before.kept => {
                        sources.push((path.0.clone(), contents.path(&before.sha256)));
                    }
                    (Line::Removed { path, item, .. }, Some(folder)) if super::net::is_plain(item) => {
                        sources.push((path.0.clone(), folder.join(item)));
                    }
                    _ => {}
                }
            }
        }
        sources
    }
}

/// A path below another folder, without a way out of it.
fn below(folder: &Path, path: &Path) -> PathBuf {
    let plain = path.components().filter(|part| matches!(part, Component::Normal(_)));
    plain.fold(folder.to_owned(), |below, part| below.join(part))
}
