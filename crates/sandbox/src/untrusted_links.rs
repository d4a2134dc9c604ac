//! Path resolution that commands cannot influence. A command may have created a link in a folder that it writes, so a
//! grant that followed the link would be the command's choice.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use super::sandbox_rules::SandboxRules;

/// The maximum number of links, as in the kernel.
const MAX_LINKS: usize = 40;

/// The folders that commands may write.
#[derive(Debug)]
pub(super) struct WritableFolders(Vec<PathBuf>);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath {
    /// The path without links, as far as it was followed.
    pub path: PathBuf,
    /// The links on the way, each by its own resolved path.
    pub links: Vec<PathBuf>,
    /// The path continues through a link that a command may have created.
    pub via_untrusted_symlink: bool,
}

impl WritableFolders {
    /// Returns the writable folders of these rules.
    pub fn from_rules(rules: &SandboxRules) -> Self {
        let own = rules.own_folder.iter().chain([&rules.temp]);
        let known = rules.known_folders.list_folders();
        Self::from_folders(rules.writable_paths().chain(own).chain(&known))
    }

    /// Returns none, for rules under which every link is trusted.
    #[cfg(test)]
    pub fn none() -> Self {
        Self(Vec::new())
    }

    fn from_folders<'a>(folders: impl Iterator<Item = &'a PathBuf>) -> Self {
        let mut folders: Vec<&PathBuf> = folders.collect();
        // Outer folders first: an inner one counts only if no link within an outer one leads to it.
        folders.sort_by_key(|folder| folder.components().count());
        let mut writable = Self(Vec::new());
        for folder in folders {
            let way = writable.resolve_path(folder);
            if !way.via_untrusted_symlink {
                writable.0.push(way.path);
            }
        }
        writable
    }

    /// Resolves a path. Components that do not exist are taken as they are.
    pub fn resolve_path(&self, path: &Path) -> ResolvedPath {
        let parts = |path: &Path| {
            path.iter()
                .rev()
                .map(OsStr::to_owned)
                .collect::<Vec<OsString>>()
        };
        let mut here = PathBuf::new();
        let mut left = parts(path);
        let mut links = Vec::new();
        while let Some(part) = left.pop() {
            if part == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&part);
            match std::fs::read_link(&next) {
                Ok(target) if links.len() < MAX_LINKS => {
                    let is_theirs = self.0.iter().any(|folder| here.starts_with(folder));
                    if is_theirs {
                        let path = left.iter().rev().fold(next, |path, part| path.join(part));
                        return ResolvedPath {
                            path,
                            links,
                            via_untrusted_symlink: true,
                        };
                    }
                    links.push(next);
                    left.extend(parts(&target));
                }
                _ => here = next,
            }
        }
        ResolvedPath {
            path: here,
            links,
            via_untrusted_symlink: false,
        }
    }

    /// Resolves the folder around a path, and leaves the last name; `None` if it leads through an untrusted link.
    #[cfg(target_os = "linux")]
    pub fn resolve_place(&self, path: &Path) -> Option<PathBuf> {
        Some(
            self.resolve_trusted(path.parent()?)?
                .join(path.file_name()?),
        )
    }

    /// Resolves a path; `None` if it leads through an untrusted link.
    #[cfg(target_os = "linux")]
    pub fn resolve_trusted(&self, path: &Path) -> Option<PathBuf> {
        let way = self.resolve_path(path);
        (!way.via_untrusted_symlink).then_some(way.path)
    }
}

/// Resolves a path through all links, as far as they can be read.
pub fn follow_links(path: &Path) -> PathBuf {
    WritableFolders(Vec::new()).resolve_path(path).path
}

/// Resolves the owner's paths, except for links in folders that commands write: those paths stay as they are and are
/// not granted.
pub fn resolve_owner_paths<'a>(
    writes: &[PathBuf],
    paths: impl IntoIterator<Item = &'a Path>,
) -> Vec<PathBuf> {
    let writable = WritableFolders::from_folders(writes.iter());
    paths
        .into_iter()
        .map(|path| writable.resolve_path(path).path)
        .collect()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_of_the_owners_are_followed_and_those_in_a_workspace_are_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let top = folder.path().canonicalize().expect("real");
        for made in ["data/work/sub", "data/work/config", "outside/deep"] {
            fs::create_dir_all(top.join(made)).expect("made");
        }
        symlink("data/work", top.join("work")).expect("linked");
        symlink(top.join("outside"), top.join("data/work/link")).expect("linked");
        let rules = SandboxRules {
            workspaces: vec![top.join("work")],
            ..SandboxRules::minimal(top.join("home"), top.join("tmp"))
        };
        let writable = WritableFolders::from_rules(&rules);
        let real = |path: &str| {
            writable
                .resolve_trusted(&top.join(path))
                .map(|path| path.strip_prefix(&top).expect("in it").to_owned())
        };
        assert_eq!(real("work/sub"), Some("data/work/sub".into()));
        assert_eq!(real("work/sub/../config"), Some("data/work/config".into()));
        assert_eq!(
            real("work/none/at/all"),
            Some("data/work/none/at/all".into())
        );
        assert_eq!(
            [
                real("work/link"),
                real("work/link/deep"),
                real("data/work/link")
            ],
            [None, None, None]
        );
        let way = writable.resolve_path(&top.join("work/link/deep"));
        assert_eq!(
            (way.path, way.links),
            (top.join("data/work/link/deep"), vec![top.join("work")])
        );
        let settled = resolve_owner_paths(
            &rules.workspaces,
            [top.join("work/link/deep"), top.join("work/sub")]
                .iter()
                .map(PathBuf::as_path),
        );
        assert_eq!(
            settled,
            [top.join("data/work/link/deep"), top.join("data/work/sub")]
        );
    }
}
