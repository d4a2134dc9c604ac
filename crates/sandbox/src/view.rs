//! The view of the files that commands get: `/` is read-only, the home, `/run` and the folders for temporary files hold
//! only what is listed, and what commands may write is mounted writable. This file plans the mounts. Not here: making
//! them (acp::local), and the lists of the home (home_table).
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

use super::git_settings::copy_git_settings;
use super::home_table::{SHOWN, SHOWN_IN_RUN};
use super::mount_steps::{BindAccess, MountStep};
use super::private_folders::make_command_folders;
use super::sandbox_rules::SandboxRules;
use super::unix_sockets::bound_sockets;
use super::untrusted_links::WritableFolders;

/// The mounts of a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ViewPlan {
    /// The steps in their order.
    pub steps: Vec<MountStep>,
    /// The folders whose content is replaced.
    pub covered: Vec<PathBuf>,
    /// The folders on the disk that commands may write through the view, beside those of the rules.
    pub(super) writable: Vec<PathBuf>,
    /// The paths on the disk that commands may read through the view.
    pub(super) readable: Vec<PathBuf>,
}

/// The folder of a conversation for temporary files: what its commands see as `/tmp`, `/var/tmp` and `/dev/shm`.
const TEMP_FOLDERS: [(&str, &str); 3] = [
    ("/tmp", "tmp"),
    ("/var/tmp", "var-tmp"),
    ("/dev/shm", "shm"),
];

/// A folder or file whose content is replaced.
#[derive(Debug)]
struct Covered {
    path: PathBuf,
    /// The folder that takes its place, or an empty one.
    base: Option<PathBuf>,
    /// Where it is built.
    staged: PathBuf,
}

/// A path that commands see within what is covered, or that they may write.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    path: PathBuf,
    writable: bool,
}

impl ViewPlan {
    /// Plans the view for a conversation with this folder for temporary files. `shown` is one more path for one command.
    /// Makes the folders that it needs; blocks for some hundred system calls, and longer when caches are copied.
    ///
    /// # Errors
    /// The system's, for a folder that cannot be made.
    pub fn new(rules: &SandboxRules, temp: &Path, shown: Option<&Path>) -> io::Result<Self> {
        let stage = rules.own_home.join("view");
        for folder in [&stage, temp, &private_home(rules)] {
            fs::create_dir_all(folder)?;
        }
        // A command may have closed it, and with it every later view.
        fs::set_permissions(private_home(rules), fs::Permissions::from_mode(0o700))?;
        let mut planner = Planner {
            trusted: WritableFolders::from_rules(rules),
            covered: covered_paths(rules, temp, &stage),
            entries: Vec::new(),
            links: Vec::new(),
            private: Vec::new(),
            own_home: rules.own_home.clone(),
            temps: TEMP_FOLDERS
                .map(|(path, _)| real_path(Path::new(path)))
                .to_vec(),
        };
        for (_, name) in TEMP_FOLDERS {
            fs::create_dir_all(temp.join(name))?;
        }
        planner.add_entries(rules, temp, shown)?;
        let mut plan = planner.into_plan(&stage);
        let temps = TEMP_FOLDERS.iter().map(|(_, name)| temp.join(name));
        plan.writable.extend(temps.chain([temp.to_owned()]));
        Ok(plan)
    }
}

/// Returns the folder that commands see as the user's home. They may write in some of its folders only.
fn private_home(rules: &SandboxRules) -> PathBuf {
    rules.own_home.join("command-home")
}

fn real_path(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Returns what is covered, outer paths first.
fn covered_paths(rules: &SandboxRules, temp: &Path, stage: &Path) -> Vec<Covered> {
    let temps =
        TEMP_FOLDERS.map(|(path, name)| (real_path(Path::new(path)), Some(temp.join(name))));
    let own = ["/run", "/dev/pts"].map(|path| real_path(Path::new(path)));
    let home = rules
        .user_home
        .iter()
        .map(|home| (real_path(home), Some(private_home(rules))));
    let hidden = rules
        .hide
        .iter()
        .chain([&rules.own_home])
        .map(|path| real_path(path));
    let empty = hidden.chain(own).map(|path| (path, None));
    let mut all: Vec<(PathBuf, Option<PathBuf>)> =
        temps.into_iter().chain(home).chain(empty).collect();
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

struct Planner {
    trusted: WritableFolders,
    covered: Vec<Covered>,
    entries: Vec<Entry>,
    /// Links of the user's on the way to an entry.
    links: Vec<PathBuf>,
    /// The folders of commands in the folder that they see as the home.
    private: Vec<PathBuf>,
    /// The covered folders that are writable as a whole.
    temps: Vec<PathBuf>,
    own_home: PathBuf,
}

impl Planner {
    /// Adds everything that the rules and the tables show.
    fn add_entries(
        &mut self,
        rules: &SandboxRules,
        temp: &Path,
        shown: Option<&Path>,
    ) -> io::Result<()> {
        for path in rules.workspaces.iter().chain(&rules.write) {
            self.add_path(path, true);
        }
        self.add_path(temp, true);
        for path in rules
            .read
            .iter()
            .chain(&rules.shown)
            .map(PathBuf::as_path)
            .chain(shown)
        {
            self.add_path(path, false);
        }
        for path in SHOWN_IN_RUN {
            self.add_path(Path::new(path), false);
        }
        if let Some(home) = &rules.user_home {
            for name in SHOWN {
                self.add_path(&home.join(name), false);
            }
            let private_home = private_home(rules);
            for name in [".gitconfig", ".config/git/config"] {
                copy_git_settings(&home.join(name), &private_home.join(name))?;
            }
            let too_large;
            (self.private, too_large) = make_command_folders(&private_home, home)?;
            for path in &too_large {
                self.add_path(path, false);
            }
        }
        for folder in &rules.search_path {
            let Some(path) = self.trusted.resolve_trusted(folder) else {
                continue;
            };
            let is_around_home = |home: &PathBuf| home.starts_with(&path);
            if !rules.user_home.as_ref().is_some_and(is_around_home) {
                let shown = installation_in_home(&path, rules.user_home.as_deref());
                self.add_path(folder, false);
                self.add_path(shown, false);
            }
        }
        Ok(())
    }

    /// Adds a path that is there, unless a command may have chosen where it leads.
    fn add_path(&mut self, path: &Path, writable: bool) {
        let resolved = self.trusted.resolve_path(path);
        if resolved.via_untrusted_symlink || resolved.path.symlink_metadata().is_err() {
            return;
        }
        // A covered folder itself stays covered, and the home of the runner with the workspaces is never shown.
        if self
            .covered
            .iter()
            .any(|covered| covered.path.starts_with(&resolved.path))
            && !writable
        {
            return;
        }
        self.links.extend(resolved.links);
        self.entries.push(Entry {
            path: resolved.path,
            writable,
        });
    }

    /// Returns the innermost covered folder around a path.
    fn around(&self, path: &Path) -> Option<&Covered> {
        let around = self
            .covered
            .iter()
            .filter(|covered| is_inside(path, &covered.path));
        around.max_by_key(|covered| covered.path.as_os_str().len())
    }

    /// Returns where a path of the view is built.
    fn staged(&self, path: &Path) -> PathBuf {
        self.around(path).map_or_else(
            || path.to_owned(),
            |covered| {
                covered
                    .staged
                    .join(path.strip_prefix(&covered.path).unwrap_or(path))
            },
        )
    }

    fn into_plan(mut self, stage: &Path) -> ViewPlan {
        // Of several for one path, the writable one stays.
        self.entries.sort_by(|a, b| b.cmp(a));
        self.entries.dedup_by(|next, kept| next.path == kept.path);
        self.entries.reverse();
        let shown: Vec<PathBuf> = self
            .entries
            .iter()
            .map(|entry| entry.path.clone())
            .collect();
        let needed = self
            .entries
            .iter()
            .filter(|entry| self.is_needed(entry))
            .cloned()
            .collect();
        self.entries = needed;
        let readable = shown
            .into_iter()
            .filter(|path| self.around(path).is_none())
            .collect();
        let mut steps = vec![MountStep::SealMounts, MountStep::MountEmpty(to_c(stage))];
        let empty = stage.join("empty");
        steps.push(MountStep::MakeFile(to_c(&empty)));
        for covered in &self.covered {
            steps.push(MountStep::MakeFolder(to_c(&covered.staged)));
            let base = covered.base.as_ref().unwrap_or(&covered.staged);
            steps.push(bind(base, &covered.staged, BindAccess::Writable));
            // The rest of the folder becomes read-only below.
            let inner = self.private.iter().filter(|folder| is_inside(folder, base));
            steps.extend(inner.map(|folder| {
                let place = covered
                    .staged
                    .join(folder.strip_prefix(base).unwrap_or(folder));
                bind(folder, &place, BindAccess::Writable)
            }));
        }
        for entry in &self.entries {
            self.add_mount_point(&entry.path, &mut steps);
            let access = if entry.writable {
                BindAccess::Writable
            } else {
                BindAccess::Unchanged
            };
            steps.push(bind(&entry.path, &self.staged(&entry.path), access));
        }
        for covered in &self.covered {
            self.add_mount_point(&covered.path, &mut steps);
        }
        self.add_links(&mut steps);
        for socket in bound_sockets() {
            if self.is_foreign_socket(&socket) {
                steps.push(bind(&empty, &self.staged(&socket), BindAccess::Unchanged));
            }
        }
        // Inner ones first, since each mount takes with it what is mounted below. The one around the stage hides it.
        let (last, first): (Vec<&Covered>, Vec<&Covered>) =
            self.covered.iter().rev().partition(|covered| {
                stage.starts_with(&covered.path) && self.around(&covered.path).is_none()
            });
        for covered in first.into_iter().chain(last) {
            let place = self.staged(&covered.path);
            steps.push(if !covered.path.is_dir() {
                bind(&empty, &place, BindAccess::Unchanged)
            } else {
                let read_only = !self.temps.contains(&covered.path);
                MountStep::Move {
                    from: to_c(&covered.staged),
                    to: to_c(&place),
                    read_only,
                }
            });
        }
        let covered = self
            .covered
            .into_iter()
            .map(|covered| covered.path)
            .collect();
        ViewPlan {
            steps,
            covered,
            writable: self.private,
            readable,
        }
    }

    /// Returns whether an entry shows more than the one around it does.
    fn is_needed(&self, entry: &Entry) -> bool {
        let outer = self
            .entries
            .iter()
            .filter(|outer| is_inside(&entry.path, &outer.path));
        let Some(outer) = outer.max_by_key(|outer| outer.path.as_os_str().len()) else {
            // Outside of what is covered, everything may be looked at.
            return entry.writable || self.around(&entry.path).is_some();
        };
        let is_covered_between = self.covered.iter().any(|covered| {
            covered.path.starts_with(&outer.path) && is_inside(&entry.path, &covered.path)
        });
        (entry.writable && !outer.writable) || is_covered_between
    }

    /// Makes the folders that lead to an entry, unless an outer entry has them.
    fn add_mount_point(&self, path: &Path, steps: &mut Vec<MountStep>) {
        let outer = self
            .entries
            .iter()
            .filter(|outer| is_inside(path, &outer.path));
        let Some(covered) = self.around(path) else {
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
    fn add_links(&self, steps: &mut Vec<MountStep>) {
        for link in &self.links {
            let (Some(covered), Ok(target)) = (self.around(link), fs::read_link(link)) else {
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

    /// Returns whether commands would see a socket that is not among what they may write. The runner's own ones that they
    /// see are meant for them.
    fn is_foreign_socket(&self, socket: &Path) -> bool {
        if socket.starts_with(&self.own_home) {
            return false;
        }
        let entries = self
            .entries
            .iter()
            .filter(|entry| socket.starts_with(&entry.path));
        let nearest = entries.max_by_key(|entry| entry.path.as_os_str().len());
        match (nearest, self.around(socket)) {
            (Some(entry), Some(covered)) if entry.path.starts_with(&covered.path) => {
                !entry.writable
            }
            (Some(entry), None) => !entry.writable,
            (_, around) => around.is_none(),
        }
    }
}

/// Returns whether a path lies in a folder, and is not the folder itself.
fn is_inside(path: &Path, folder: &Path) -> bool {
    path != folder && path.starts_with(folder)
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

/// Returns the folder of a toolchain with its libraries around a folder of programs in the home, if it is not one of the
/// home's own folders, which hold other things too.
fn installation_in_home<'a>(path: &'a Path, home: Option<&Path>) -> &'a Path {
    let is_programs = path
        .file_name()
        .is_some_and(|name| name == "bin" || name == "shims");
    let Some(around) = path.parent().filter(|_| is_programs) else {
        return path;
    };
    let depth = home.and_then(|home| Some(around.strip_prefix(home).ok()?.components().count()));
    if depth.is_some_and(|depth| depth >= 2) {
        around
    } else {
        path
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
