//! The folders whose content is replaced in a view: the home, temporary files, what is hidden, and the folders of
//! toolchains.

use std::path::{Path, PathBuf};

use super::path_grants::SYSTEM_FOLDERS;
use super::sandbox_rules::{SandboxRules, WorkspaceAccess};
use super::shown_parts::ShownParts;
use super::untrusted_links::WritableFolders;

/// The folder of a conversation for temporary files: what its commands see as `/tmp`, `/var/tmp` and `/dev/shm`.
pub(super) const TEMP_FOLDERS: [(&str, &str); 3] = [
    ("/tmp", "tmp"),
    ("/var/tmp", "var-tmp"),
    ("/dev/shm", "shm"),
];

/// A folder or file whose content is replaced.
#[derive(Debug)]
pub(super) struct Covered {
    pub path: PathBuf,
    /// The folder that takes its place, or an empty one.
    pub base: Option<PathBuf>,
    /// Where it is built.
    pub staged: PathBuf,
}

pub(super) fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns what is covered, outer paths first. `toolchains` are folders of which nothing but parts is shown.
pub(super) fn covered_paths(
    rules: &SandboxRules,
    temp: &Path,
    stage: &Path,
    toolchains: Vec<PathBuf>,
) -> Vec<Covered> {
    let temps =
        TEMP_FOLDERS.map(|(path, name)| (real_path(Path::new(path)), Some(temp.join(name))));
    let own = ["/run", "/dev/pts"].map(|path| real_path(Path::new(path)));
    let home = rules
        .user_home
        .iter()
        .map(|home| (real_path(home), Some(rules.command_home.clone())));
    let hidden = rules
        .hide
        .iter()
        .chain([&rules.own_home])
        .map(|path| real_path(path))
        .chain(rules.other_folders())
        .chain(toolchains);
    let hides_workspaces = rules.workspace_access == WorkspaceAccess::Hidden;
    let empty = hidden.chain(own).map(|path| (path, None));
    let mut all: Vec<(PathBuf, Option<PathBuf>)> =
        temps.into_iter().chain(home).chain(empty).collect();
    // The owner shows all of it; never the home, though.
    all.retain(|(path, base)| {
        let is_home = *path == rules.own_home || base.as_ref() == Some(&rules.command_home);
        is_home || hides_workspaces || !rules.write.contains(path)
    });
    all.sort();
    all.dedup_by(|next, previous| next.0 == previous.0);
    let staged = |number: usize| stage.join(number.to_string());
    let numbered = all.into_iter().enumerate();
    numbered
        .map(|(number, (path, base))| Covered {
            path,
            base,
            staged: staged(number),
        })
        .collect()
}

/// Returns the folders of toolchains of which nothing but parts is shown: none that the owner shows, or that the system has.
pub(super) fn toolchain_folders(
    rules: &SandboxRules,
    parts: &ShownParts,
    trusted: &WritableFolders,
) -> Vec<PathBuf> {
    let folders = parts.toolchains.iter();
    let real = folders.filter_map(|folder| trusted.resolve_trusted(folder));
    let is_inside_home = |path: &PathBuf| rules.user_home.iter().any(|home| is_inside(path, home));
    let is_of_system =
        |path: &PathBuf| SYSTEM_FOLDERS.iter().any(|folder| path.starts_with(folder));
    let is_replaced = |path: &PathBuf| {
        (is_inside_home(path) || !is_of_system(path))
            && path.is_dir()
            && !named_paths(rules).any(|named| path.starts_with(named))
    };
    real.filter(is_replaced).collect()
}

/// Returns the paths that the owner shows by name.
pub(super) fn named_paths(rules: &SandboxRules) -> impl Iterator<Item = &PathBuf> {
    rules
        .writable_paths()
        .chain(&rules.read)
        .chain(&rules.shown)
}

/// Returns whether a path lies in a folder, and is not the folder itself.
pub(super) fn is_inside(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folders_of_other_sessions_are_covered_wherever_they_are() {
        let folder = |path: &str| PathBuf::from(path);
        let rules = SandboxRules {
            workspaces: vec![folder("/srv/work")],
            ..SandboxRules::minimal(folder("/srv/home"), folder("/srv/temp"))
        };
        let narrowed = rules.clone().narrowed_to(&[folder("/srv/work/one")], &[]);
        let other = rules.clone().narrowed_to(&[folder("/opt/other")], &[]);
        let covers = |rules: &SandboxRules| {
            let covered = covered_paths(
                rules,
                Path::new("/srv/temp"),
                Path::new("/srv/view"),
                Vec::new(),
            );
            ["/srv/work", "/srv/work/one", "/opt/other"]
                .map(|path| covered.iter().any(|one| one.path == Path::new(path)))
        };
        assert_eq!(covers(&narrowed), [true, false, true]);
        assert_eq!(covers(&other), [true, true, false]);
        assert_eq!(covers(&rules), [false, false, true]);
    }
}
