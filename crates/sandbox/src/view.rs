//! The view of the files that commands get: `/` is read-only, the home, `/run` and the folders for temporary files hold
//! only what is listed, and what commands may write is mounted writable. This file plans the mounts.

use std::collections::{HashMap, HashSet};
use std::ffi::CString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::cache_layers::{CacheContent, CommandCache};
use super::covered_folders::{Covered, TEMP_FOLDERS, is_inside};
use super::mount_steps::{BindAccess, MountStep};
use super::sandbox_rules::SandboxRules;
use super::unix_sockets::bound_sockets;
use super::view_contents::ViewContents;

/// The mounts of a view.
#[derive(Debug, Clone)]
pub struct ViewPlan {
    /// The steps in their order.
    pub steps: Vec<MountStep>,
    /// The folders whose content is replaced.
    pub covered: Vec<PathBuf>,
    /// The overlays over the user's caches.
    pub(super) shared_caches: Vec<CString>,
    /// The paths that it shows, and those that it covers.
    pub(super) contents: Arc<ViewContents>,
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
        let mut steps = ViewSteps {
            list: vec![MountStep::SealMounts, MountStep::MountEmpty(to_c(stage))],
            ..ViewSteps::default()
        };
        let empty = stage.join("empty");
        steps.list.push(MountStep::MakeFile(to_c(&empty)));
        for covered in &contents.covered {
            steps.make_folder(&covered.staged);
            let base = covered.base.as_ref().unwrap_or(&covered.staged);
            steps.bind(base, &covered.staged, BindAccess::Writable);
            // The rest of the folder becomes read-only below.
            let inner = contents.private.iter();
            for folder in inner.filter(|folder| is_inside(folder, base)) {
                let place = folder.strip_prefix(base).unwrap_or(folder);
                steps.bind(folder, &covered.staged.join(place), BindAccess::Writable);
            }
            if base == command_home {
                steps.add_caches(&covered.staged, caches);
                let shared = caches
                    .iter()
                    .filter(|cache| cache.content == CacheContent::Shared);
                shared_caches.extend(shared.map(|cache| to_c(&covered.path.join(&cache.path))));
            }
        }
        for entry in &contents.entries {
            steps.add_mount_point(&contents, &entry.path);
            let access = if entry.writable {
                BindAccess::Writable
            } else {
                BindAccess::Unchanged
            };
            steps.bind(&entry.path, &contents.staged(&entry.path), access);
        }
        for covered in &contents.covered {
            steps.add_mount_point(&contents, &covered.path);
        }
        steps.add_settings(&contents, stage);
        steps.add_links(&contents);
        steps.hide_paths(&contents, stage, &empty);
        steps.move_covered(&contents, stage, &empty);
        let steps = steps.list;
        let covered = contents
            .covered
            .iter()
            .map(|covered| covered.path.clone())
            .collect();
        Self {
            steps,
            covered,
            shared_caches,
            writable: contents.private.clone(),
            readable: contents.readable.clone(),
            contents: Arc::new(contents),
        }
    }
}

/// The steps so far.
#[derive(Default)]
struct ViewSteps {
    list: Vec<MountStep>,
    /// The folders that they make.
    made: HashSet<PathBuf>,
}

impl ViewSteps {
    fn bind(&mut self, from: &Path, to: &Path, access: BindAccess) {
        self.list.push(MountStep::Bind {
            from: to_c(from),
            to: to_c(to),
            access,
        });
    }

    fn make_folder(&mut self, path: &Path) {
        if self.made.insert(path.to_owned()) {
            self.list.push(MountStep::MakeFolder(to_c(path)));
        }
    }

    /// Makes each folder on the way to a mount point.
    fn add_folders(&mut self, top: &Path, inner: Option<&Path>) {
        let mut folder = top.to_owned();
        for part in inner.into_iter().flat_map(Path::iter) {
            folder.push(part);
            self.make_folder(&folder);
        }
    }

    /// Shows the caches in the folder that commands see as the home.
    fn add_caches(&mut self, home: &Path, caches: &[CommandCache]) {
        for cache in caches {
            self.add_folders(home, Some(&cache.path));
            if let Some(folder) = &cache.folder {
                self.bind(folder, &home.join(&cache.path), BindAccess::Writable);
            }
        }
    }

    /// Makes the folders that lead to an entry and the entry itself, unless an outer entry has them.
    fn add_mount_point(&mut self, contents: &ViewContents, path: &Path) {
        let Some(covered) = contents.around(path) else {
            return;
        };
        let outer = contents.outer_entry(path);
        if outer.is_some_and(|outer| is_inside(&outer.path, &covered.path)) {
            return;
        }
        let inner = path.strip_prefix(&covered.path).unwrap_or(path);
        self.add_folders(&covered.staged, inner.parent());
        let last = covered.staged.join(inner);
        if path.is_dir() {
            self.make_folder(&last);
        } else {
            self.list.push(MountStep::MakeFile(to_c(&last)));
        }
    }

    /// Makes the user's links again where they would be missing.
    fn add_links(&mut self, contents: &ViewContents) {
        for link in &contents.links {
            let (Some(covered), Ok(target)) = (contents.around(link), fs::read_link(link)) else {
                continue;
            };
            let inner = link.strip_prefix(&covered.path).unwrap_or(link);
            self.add_folders(&covered.staged, inner.parent());
            self.list.push(MountStep::MakeLink {
                at: to_c(&covered.staged.join(inner)),
                target: to_c(&target),
            });
        }
    }

    /// Shows the settings files from a file system that ends with the view.
    fn add_settings(&mut self, contents: &ViewContents, stage: &Path) {
        for path in &contents.emptied {
            self.add_mount_point(contents, path);
        }
        let mut written: HashMap<&str, PathBuf> = HashMap::new();
        for file in &contents.settings {
            let shown = stage.join(format!("settings-{}", written.len()));
            let shown = written.entry(&file.text).or_insert_with(|| {
                self.list.push(MountStep::WriteFile {
                    at: to_c(&shown),
                    text: file.text.clone().into_bytes(),
                });
                shown
            });
            let shown = shown.clone();
            // Of a cache that commands do not share, nothing is shown.
            if !file.is_in_cache {
                self.add_mount_point(contents, &file.path);
            }
            self.bind(&shown, &contents.staged(&file.path), BindAccess::ReadOnly);
        }
    }

    /// Covers the sockets of other programs, and what is hidden in shown folders.
    fn hide_paths(&mut self, contents: &ViewContents, stage: &Path, empty: &Path) {
        for socket in bound_sockets() {
            if contents.is_foreign_socket(&socket) {
                self.bind(empty, &contents.staged(&socket), BindAccess::Unchanged);
            }
        }
        let empty_folder = stage.join("empty-folder");
        self.make_folder(&empty_folder);
        for path in &contents.shut {
            self.make_folder(&contents.staged(path));
            self.bind(&empty_folder, &contents.staged(path), BindAccess::ReadOnly);
        }
        for path in &contents.hidden {
            let cover = if path.is_dir() { &empty_folder } else { empty };
            self.bind(cover, &contents.staged(path), BindAccess::ReadOnly);
        }
    }

    /// Puts what was built in the places of what it replaces. Inner ones first, since each mount takes with it what is
    /// mounted below. The one around the stage hides it.
    fn move_covered(&mut self, contents: &ViewContents, stage: &Path, empty: &Path) {
        let (last, first): (Vec<&Covered>, Vec<&Covered>) =
            contents.covered.iter().rev().partition(|covered| {
                stage.starts_with(&covered.path) && contents.around(&covered.path).is_none()
            });
        for covered in first.into_iter().chain(last) {
            let place = contents.staged(&covered.path);
            if covered.path.is_dir() {
                self.list.push(MountStep::Move {
                    from: to_c(&covered.staged),
                    to: to_c(&place),
                    read_only: !contents.temps.contains(&covered.path),
                });
            } else {
                self.bind(empty, &place, BindAccess::Unchanged);
            }
        }
    }
}

/// Converts a path, which the system gave and which therefore has no NUL.
fn to_c(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}
