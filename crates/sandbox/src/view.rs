//! The view of the files that commands get: `/` is read-only, the home, `/run` and the folders for temporary files hold
//! only what is listed, and what commands may write is mounted writable. This file plans the mounts. Not here: making
//! them (make_mount, in a process that host::local starts), and the choice of what is shown (view_contents).
#![expect(
    clippy::disallowed_methods,
    reason = "the paths of the user's home are looked at as they are"
)]

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::cache_layers::{CacheContent, CommandCache};
use super::mount_steps::{BindAccess, MountStep};
use super::sandbox_rules::SandboxRules;
use super::unix_sockets::bound_sockets;
use super::view_contents::{Covered, TEMP_FOLDERS, ViewContents, is_inside};

/// The mounts of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPlan {
    /// The steps in their order.
    pub steps: Vec<MountStep>,
    /// The folders whose content is replaced.
    pub covered: Vec<PathBuf>,
    /// The overlays over the user's caches.
    pub(super) shared_caches: Vec<CString>,
    /// The folders on the disk that commands may write through the view, beside those of the rules.
    pub(super) writable: Vec<PathBuf>,
    /// The paths on the disk that commands may read through the view.
    pub(super) readable: Vec<PathBuf>,
}

impl ViewPlan {
    /// Plans the view for a conversation with this folder for temporary files. `shown` is one more path for one command.
    /// Makes the folders that it needs; blocks for some hundred system calls.
    ///
    /// # Errors
    /// The system's, for a folder that cannot be made.
    pub fn new(
        rules: &SandboxRules,
        temp: &Path,
        shown: Option<&Path>,
        caches: &[CommandCache],
    ) -> io::Result<Self> {
        let stage = &rules.view_stage;
        for folder in [stage, temp, &rules.command_home] {
            fs::create_dir_all(folder)?;
        }
        // A command may have closed it, and with it every later view.
        fs::set_permissions(&rules.command_home, fs::Permissions::from_mode(0o700))?;
        for (_, name) in TEMP_FOLDERS {
            fs::create_dir_all(temp.join(name))?;
        }
        let contents = ViewContents::collect(rules, temp, shown, stage)?;
        let mut plan = Self::from_contents(contents, stage, &rules.command_home, caches);
        let temps = TEMP_FOLDERS.iter().map(|(_, name)| temp.join(name));
        plan.writable.extend(temps);
        Ok(plan)
    }

    fn from_contents(
        contents: ViewContents,
        stage: &Path,
        command_home: &Path,
        caches: &[CommandCache],
    ) -> Self {
        let mut shared_caches = Vec::new();
        let mut steps = vec![MountStep::SealMounts, MountStep::MountEmpty(to_c(stage))];
        let empty = stage.join("empty");
        steps.push(MountStep::MakeFile(to_c(&empty)));
        for covered in &contents.covered {
            steps.push(MountStep::MakeFolder(to_c(&covered.staged)));
            let base = covered.base.as_ref().unwrap_or(&covered.staged);
            steps.push(bind(base, &covered.staged, BindAccess::Writable));
            // The rest of the folder becomes read-only below.
            let inner = contents
                .private
                .iter()
                .filter(|folder| is_inside(folder, base));
            steps.extend(inner.map(|folder| {
                let place = covered
                    .staged
                    .join(folder.strip_prefix(base).unwrap_or(folder));
                bind(folder, &place, BindAccess::Writable)
            }));
            if base == command_home {
                add_caches(&covered.staged, caches, &mut steps);
                let shared = caches
                    .iter()
                    .filter(|cache| cache.content == CacheContent::Shared);
                shared_caches.extend(shared.map(|cache| to_c(&covered.path.join(&cache.path))));
            }
        }
        for entry in &contents.entries {
            add_mount_point(&contents, &entry.path, &mut steps);
            let access = if entry.writable {
                BindAccess::Writable
            } else {
                BindAccess::Unchanged
            };
            steps.push(bind(&entry.path, &contents.staged(&entry.path), access));
        }
        for covered in &contents.covered {
            add_mount_point(&contents, &covered.path, &mut steps);
        }
        add_links(&contents, &mut steps);
        for socket in bound_sockets() {
            if contents.is_foreign_socket(&socket) {
                steps.push(bind(
                    &empty,
                    &contents.staged(&socket),
                    BindAccess::Unchanged,
                ));
            }
        }
        // Inner ones first, since each mount takes with it what is mounted below. The one around the stage hides it.
        let (last, first): (Vec<&Covered>, Vec<&Covered>) =
            contents.covered.iter().rev().partition(|covered| {
                stage.starts_with(&covered.path) && contents.around(&covered.path).is_none()
            });
        for covered in first.into_iter().chain(last) {
            let place = contents.staged(&covered.path);
            steps.push(if covered.path.is_dir() {
                MountStep::Move {
                    from: to_c(&covered.staged),
                    to: to_c(&place),
                    read_only: !contents.temps.contains(&covered.path),
                }
            } else {
                bind(&empty, &place, BindAccess::Unchanged)
            });
        }
        let covered = contents
            .covered
            .into_iter()
            .map(|covered| covered.path)
            .collect();
        Self {
            steps,
            covered,
            shared_caches,
            writable: contents.private,
            readable: contents.readable,
        }
    }
}

/// Shows the caches in the folder that commands see as the home.
fn add_caches(home: &Path, caches: &[CommandCache], steps: &mut Vec<MountStep>) {
    for cache in caches {
        add_folders(home, Some(&cache.path), steps);
        if let Some(folder) = &cache.folder {
            let place = home.join(&cache.path);
            steps.push(bind(folder, &place, BindAccess::Writable));
        }
    }
}

/// Makes the folders that lead to an entry, unless an outer entry has them.
fn add_mount_point(contents: &ViewContents, path: &Path, steps: &mut Vec<MountStep>) {
    let outer = contents
        .entries
        .iter()
        .filter(|outer| is_inside(path, &outer.path));
    let Some(covered) = contents.around(path) else {
        return;
    };
    if outer
        .into_iter()
        .any(|outer| is_inside(&outer.path, &covered.path))
    {
        return;
    }
    let inner = path.strip_prefix(&covered.path).unwrap_or(path);
    add_folders(&covered.staged, inner.parent(), steps);
    let last = to_c(&covered.staged.join(inner));
    steps.push(if path.is_dir() {
        MountStep::MakeFolder(last)
    } else {
        MountStep::MakeFile(last)
    });
}

/// Makes the user's links again where they would be missing.
fn add_links(contents: &ViewContents, steps: &mut Vec<MountStep>) {
    for link in &contents.links {
        let (Some(covered), Ok(target)) = (contents.around(link), fs::read_link(link)) else {
            continue;
        };
        let inner = link.strip_prefix(&covered.path).unwrap_or(link);
        add_folders(&covered.staged, inner.parent(), steps);
        let at = to_c(&covered.staged.join(inner));
        steps.push(MountStep::MakeLink {
            at,
            target: to_c(&target),
        });
    }
}

/// Makes each folder on the way to a mount point.
fn add_folders(top: &Path, inner: Option<&Path>, steps: &mut Vec<MountStep>) {
    let mut folder = top.to_owned();
    for part in inner.into_iter().flat_map(Path::iter) {
        folder.push(part);
        let step = MountStep::MakeFolder(to_c(&folder));
        if !steps.contains(&step) {
            steps.push(step);
        }
    }
}

fn bind(from: &Path, to: &Path, access: BindAccess) -> MountStep {
    MountStep::Bind {
        from: to_c(from),
        to: to_c(to),
        access,
    }
}

/// Converts a path, which the system gave and which therefore has no NUL.
fn to_c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
