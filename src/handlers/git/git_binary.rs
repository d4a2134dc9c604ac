//! The git program: found by absolute path, and never inside a workspace.

use std::ffi::OsString;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use super::GitDeps;
use punie_core::file_metadata::permission_bits;

/// Returns the PATH for git and its child processes: absolute folders outside the workspaces.
pub(super) fn trusted_search_path(deps: &GitDeps) -> OsString {
    std::env::join_paths(trusted_folders(deps)).unwrap_or_default()
}

/// Returns the absolute path of git, which never lies in a workspace.
pub(super) fn find_git(deps: &GitDeps) -> Option<PathBuf> {
    let name = if cfg!(windows) { "git.exe" } else { "git" };
    trusted_folders(deps)
        .map(|folder| folder.join(name))
        .find(|file| is_trusted_program(file, deps))
}

fn trusted_folders(deps: &GitDeps) -> impl Iterator<Item = PathBuf> {
    std::env::split_paths(&deps.search_path).filter(|folder| {
        let real = folder.canonicalize().unwrap_or_else(|_| folder.clone());
        folder.is_absolute() && !is_untrusted(&real, deps) && !is_untrusted(folder, deps)
    })
}

fn is_trusted_program(file: &Path, deps: &GitDeps) -> bool {
    let trusted = |real: PathBuf| !is_untrusted(&real, deps) && is_program(&real);
    file.canonicalize().is_ok_and(trusted)
}

/// Returns whether calls may write a path, those of other sessions included.
fn is_untrusted(path: &Path, deps: &GitDeps) -> bool {
    deps.workspace.is_in_rules(path) || deps.confinement.knows_folder_around(path)
}

/// Returns whether a path is an executable file; any file, where the system does not tell.
pub(super) fn is_program(file: &Path) -> bool {
    let may_run = |meta: &Metadata| permission_bits(meta).is_none_or(|bits| bits & 0o111 != 0);
    file.metadata()
        .is_ok_and(|meta| meta.is_file() && may_run(&meta))
}

/// Guesses SystemRoot, which Windows programs need: on the drive of git.
pub(super) fn windows_system_root(program: &Path) -> Option<OsString> {
    let mut root: OsString = program.components().next()?.as_os_str().to_owned();
    root.push("\\Windows");
    Some(root)
}
