//! The paths that a command may use, and how: workspaces and temporary files for writing, the system and most of the
//! user's home for reading.
//!
//! Landlock has grants and no exceptions. A folder that contains a hidden path is therefore not granted itself. Its
//! current children are granted one by one, so it cannot be listed, and later children are not granted.

use std::io;
use std::path::{Path, PathBuf};

use super::certificates::certificate_files;
use super::hidden_paths::{HiddenPaths, hidden_paths, is_absent};
use super::sandbox_rules::{SandboxRules, WorkspaceAccess};
use super::untrusted_links::WritableFolders;
use super::view::ViewPlan;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PathAccess {
    /// Read, list and execute.
    Read,
    /// Everything.
    Write,
    /// Read and write existing files.
    Reopen,
    /// Read and write a device, and control it by ioctl.
    Device,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathGrant {
    pub(super) path: PathBuf,
    pub(super) access: PathAccess,
}

#[derive(Debug, Default)]
struct PathGrants {
    list: Vec<PathGrant>,
}

/// The folders of programs and their dependencies. Not temporary files, mail, removable media or other users' folders.
pub(super) const SYSTEM_FOLDERS: &[&str] = &[
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/usr",
    "/etc",
    "/opt",
    "/nix",
    "/gnu",
    "/snap",
    "/proc",
    "/sys",
    // Of what services keep, that of package managers and what programs look up. Not memory dumps and databases.
    "/var/cache/apt",
    "/var/cache/fontconfig",
    "/var/cache/ldconfig",
    "/var/cache/man",
    "/var/db/pkg",
    "/var/db/repos",
    "/var/lib/alternatives",
    "/var/lib/apt",
    "/var/lib/aspell",
    "/var/lib/command-not-found",
    "/var/lib/dictionaries-common",
    "/var/lib/dpkg",
    "/var/lib/gems",
    "/var/lib/ghc",
    "/var/lib/locales",
    "/var/lib/misc",
    "/var/lib/ocaml",
    "/var/lib/pacman",
    "/var/lib/rpm",
    "/var/lib/sgml-base",
    "/var/lib/tex-common",
    "/var/lib/texmf",
    "/var/lib/xml-core",
    "/home/linuxbrew",
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// The granted devices. Not the other terminals: all of them belong to this user, and opening one allows typing into
/// it and reading its input.
const DEVICES: &[&str] = &[
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
];

/// Computes the grants from the rules and the current state of the disk.
///
/// # Errors
/// A hidden path cannot be resolved, so any grant might contain it.
pub(super) fn compute_grants(rules: &SandboxRules) -> io::Result<Vec<PathGrant>> {
    let HiddenPaths { paths, unresolved } = hidden_paths(rules);
    if let Some(folder) = unresolved {
        let text = format!(
            "{} is not readable (see its mode), so the runner cannot tell which of its files must stay hidden. `chmod u+rwx` \
             opens it",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let mut grants = grant_except_hidden(&paths, rules);
    let is_granted = |path: &Path| grants.iter().any(|grant| path.starts_with(&grant.path));
    let certificates = certificate_files(rules, &paths, is_granted);
    grants.extend(certificates.into_iter().map(|path| PathGrant {
        path,
        access: PathAccess::Read,
    }));
    Ok(grants)
}

/// Computes the grants for the self-test, which runs no foreign code; ignores hidden paths that cannot be resolved.
pub(super) fn compute_self_test_grants(rules: &SandboxRules) -> Vec<PathGrant> {
    grant_except_hidden(&hidden_paths(rules).paths, rules)
}

/// Computes the grants for a view. What is hidden is not in it; the folders that it covers are granted once they are open.
pub(super) fn compute_view_grants(rules: &SandboxRules, plan: &ViewPlan) -> Vec<PathGrant> {
    let in_view = SandboxRules {
        user_home: None,
        ..rules.clone()
    };
    let mut grants = PathGrants {
        list: grant_except_hidden(&[], &in_view),
    };
    for folder in &plan.writable {
        grants.push(folder, PathAccess::Write);
    }
    for path in &plan.readable {
        grants.push(path, PathAccess::Read);
    }
    grants.list
}

/// Grants everything except these hidden paths.
fn grant_except_hidden(hidden: &[PathBuf], rules: &SandboxRules) -> Vec<PathGrant> {
    let writable = WritableFolders::from_rules(rules);
    // A path that does not exist cannot be granted.
    let real = |folder: &Path| {
        writable
            .resolve_trusted(folder)
            .filter(|real| real.symlink_metadata().is_ok())
    };
    let mut grants = PathGrants::default();
    for device in DEVICES {
        grants.push(Path::new(device), PathAccess::Device);
    }
    let programs = rules
        .search_path
        .iter()
        .map(|folder| installation_folder(folder));
    let shown = SYSTEM_FOLDERS
        .iter()
        .map(Path::new)
        .chain(programs)
        .chain(rules.user_home.as_deref());
    for folder in shown.filter_map(real) {
        grants.grant(&folder, hidden, PathAccess::Read);
    }
    for folder in rules.read.iter().filter_map(|folder| real(folder)) {
        // A named path may lie within a hidden one; hidden paths within it stay hidden. The runner's home is never
        // shown.
        if !folder.starts_with(&rules.own_home) {
            grants.grant(&folder, &hidden_below(hidden, &folder), PathAccess::Read);
        }
    }
    let access = match rules.workspace_access {
        WorkspaceAccess::Write => Some(PathAccess::Write),
        WorkspaceAccess::Read => Some(PathAccess::Read),
        WorkspaceAccess::Hidden => None,
    };
    for folder in rules.writable_paths().filter_map(|folder| real(folder)) {
        if let Some(access) = access {
            grants.grant(&folder, &hidden_below(hidden, &folder), access);
        }
    }
    grants.push(&rules.temp, PathAccess::Write);
    grants.push(&rules.pipes, PathAccess::Reopen);
    for shown in &rules.shown {
        grants.push(shown, PathAccess::Read);
    }
    if let Some(own) = &rules.own_folder {
        grants.push(own, PathAccess::Write);
    }
    grants.list
}

/// Returns the installation folder of a folder of programs: a toolchain needs the folders beside its `bin`. A user's
/// whole home is not returned.
fn installation_folder(folder: &Path) -> &Path {
    let is_one = folder
        .file_name()
        .is_some_and(|name| name == "bin" || name == "sbin" || name == "shims");
    match folder.parent() {
        Some(around)
            if is_one
                && around.components().count() > 2
                && around.parent() != Some(Path::new("/home")) =>
        {
            around
        }
        _ => folder,
    }
}

fn may_exist(path: &Path) -> bool {
    path.symlink_metadata()
        .map_or_else(|cause| !is_absent(&cause), |_| true)
}

/// Returns the hidden paths below a folder. A folder named by the owner is not hidden by its parents.
fn hidden_below(hidden: &[PathBuf], real: &Path) -> Vec<PathBuf> {
    hidden
        .iter()
        .filter(|path| *path != real && path.starts_with(real))
        .cloned()
        .collect()
}

impl PathGrants {
    fn push(&mut self, path: &Path, access: PathAccess) {
        let grant = PathGrant {
            path: path.to_owned(),
            access,
        };
        if !self.list.contains(&grant) {
            self.list.push(grant);
        }
    }

    /// Grants a folder by its resolved path, or its children that are not hidden.
    fn grant(&mut self, path: &Path, hidden: &[PathBuf], access: PathAccess) {
        if hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return;
        }
        if !hidden
            .iter()
            .any(|hidden| hidden.starts_with(path) && may_exist(hidden))
        {
            return self.push(path, access);
        }
        for child in std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            // A link's target has its own grant, or none.
            if child.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.grant(&child.path(), hidden, access);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
