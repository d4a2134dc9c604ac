//! The folders of the trash that one run of a shim fills, each with its manifest first.
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the folders that a shim fills"
)]

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use super::{ShimEnv, format_os_error};
use crate::inventory::MANIFEST;
use crate::manifest::{self, ManifestLine, ManifestPath};
use crate::unix_time_ms;
use punie_core::durable::{append_json_lines, sync_folder};
use punie_core::failpoint::reach;

/// A manifest that is longer than this, in bytes, is followed by another.
const LONG_MANIFEST: u64 = manifest::LARGEST / 2;
/// So many lines are announced at once, so that a manifest stays below what is read of one. So many paths also fit into the
/// arguments of the system's program.
pub(super) const MAX_LINES: usize = 256;

/// Writes what one run removes.
pub(super) struct TrashWriter<'a> {
    env: &'a ShimEnv,
    program: &'static str,
    /// The folder that is filled now, and the length of its manifest.
    current: Option<(PathBuf, u64)>,
    /// Locks on the manifests. They keep the runner from collecting a folder before this run is over.
    locks: Vec<File>,
    /// The reason why the trash cannot be used.
    pub failure: Option<String>,
    last_item: u64,
}

impl<'a> TrashWriter<'a> {
    pub fn new(env: &'a ShimEnv, program: &'static str) -> Self {
        Self {
            env,
            program,
            current: None,
            locks: Vec::new(),
            failure: None,
            last_item: 0,
        }
    }

    pub fn next_item_name(&mut self) -> String {
        self.last_item += 1;
        self.last_item.to_string()
    }

    /// Writes down durably what is about to be removed; returns the folder for its items. Without a folder the trash
    /// cannot be used.
    pub fn announce_removal(&mut self, lines: &[ManifestLine]) -> Option<PathBuf> {
        if self.failure.is_some() {
            return None;
        }
        match self.append_manifest(lines) {
            Ok(folder) => {
                reach("shim.announced");
                Some(folder)
            }
            Err(cause) => {
                self.failure = Some(format_os_error(&cause));
                None
            }
        }
    }

    /// Notes a command of which nothing is kept.
    pub fn announce_untracked(&mut self, command: &str) {
        self.announce_removal(&[ManifestLine::Untracked {
            command: command.to_owned(),
        }]);
    }

    /// Notes that these paths, announced for this folder, were not removed as announced.
    pub fn withdraw_removal(&mut self, folder: &Path, paths: impl IntoIterator<Item = PathBuf>) {
        let lines: Vec<ManifestLine> = paths
            .into_iter()
            .map(|path| ManifestLine::Stayed {
                path: ManifestPath(path),
            })
            .collect();
        if !lines.is_empty()
            && let Err(cause) = append_json_lines(&folder.join(MANIFEST), &lines)
        {
            self.failure = Some(format_os_error(&cause));
        }
    }

    fn append_manifest(&mut self, lines: &[ManifestLine]) -> io::Result<PathBuf> {
        let (folder, length) = match self.current.take() {
            Some((folder, length)) if length <= LONG_MANIFEST => (folder, length),
            _ => (self.create_folder()?, 0),
        };
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let us = now
            .tv_sec
            .saturating_mul(1_000_000)
            .saturating_add(now.tv_nsec / 1_000);
        let dated = [
            &[ManifestLine::Now {
                us: us.unsigned_abs(),
            }],
            lines,
        ]
        .concat();
        let added = append_json_lines(&folder.join(MANIFEST), &dated)?;
        self.current = Some((folder.clone(), length + added));
        Ok(folder)
    }

    /// Makes a folder under a hidden name, which the runner does not collect before its manifest is locked.
    fn create_folder(&mut self) -> io::Result<PathBuf> {
        let name = format!("{}.{}", self.env.request, uuid::Uuid::now_v7().simple());
        let hidden = self.env.into.join(format!(".{name}"));
        DirBuilder::new().mode(0o700).create(&hidden)?;
        let begun = ManifestLine::Begun {
            request: self.env.request.clone(),
            tool: self.program.to_owned(),
            at_ms: unix_time_ms(),
            proof: self.env.proof.clone(),
        };
        append_json_lines(&hidden.join(MANIFEST), &[begun])?;
        let lock = File::open(hidden.join(MANIFEST))?;
        lock.lock()?;
        self.locks.push(lock);
        let folder = self.env.into.join(name);
        fs::rename(&hidden, &folder)?;
        sync_folder(&folder)?;
        sync_folder(&self.env.into)?;
        Ok(folder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_manifest_is_followed_by_another_and_each_item_has_its_folder() {
        let folder = tempfile::tempdir().expect("a folder");
        let env = ShimEnv {
            request: punie_core::ids::RequestId::new(),
            proof: String::new(),
            into: folder.path().to_owned(),
            max_bytes: 0,
            workspaces: Vec::new(),
            programs: PathBuf::new(),
            mover: None,
        };
        let mut writer = TrashWriter::new(&env, "rm");
        let mut places: Vec<(PathBuf, PathBuf)> = Vec::new();
        // With the last of these the first manifest would be longer than what is read of one.
        for batch in 0..80 {
            let path = |n: usize| PathBuf::from(format!("/w/{}/{batch}/{n}", "x".repeat(4_000)));
            let removed = |n| ManifestLine::Removed {
                path: ManifestPath(path(n)),
                item: writer.next_item_name(),
                files: 1,
                bytes: 1,
            };
            let lines: Vec<ManifestLine> = (0..MAX_LINES).map(removed).collect();
            let folder = writer.announce_removal(&lines).expect("usable");
            places.extend((0..MAX_LINES).map(|n| (folder.clone(), path(n))));
        }
        let mut folders: Vec<PathBuf> = places.iter().map(|(folder, _)| folder.clone()).collect();
        folders.dedup();
        assert!(folders.len() > 1, "{folders:?}");
        let mut announced = places.iter();
        for folder in &folders {
            let manifest = folder.join(MANIFEST);
            assert!(manifest.metadata().expect("there").len() < manifest::LARGEST);
            for line in manifest::read_lines::<ManifestLine>(&manifest).expect("readable") {
                if let ManifestLine::Removed { path, .. } = line {
                    assert_eq!(Some(&(folder.clone(), path.0)), announced.next());
                }
            }
        }
        assert_eq!(announced.next(), None);
        // What stayed is said where it was announced, and is not among the rest then.
        let (first, path) = places[0].clone();
        writer.withdraw_removal(&first, [path.clone()]);
        let lines = manifest::read_lines::<ManifestLine>(&first.join(MANIFEST)).expect("readable");
        let is_announced = |lines: &[ManifestLine]| {
            lines.iter().any(
                |line| matches!(line, ManifestLine::Removed { path: named, .. } if named.0 == path),
            )
        };
        assert!(is_announced(&lines) && !is_announced(&manifest::drop_withdrawn(lines)));
    }
}
