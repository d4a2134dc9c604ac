//! The paths that a command may use, and how: workspaces and temporary files for writing, the system and most of the
//! user's home for reading. Not here: the kernel's ruleset (ruleset).
//!
//! Landlock has grants and no exceptions. A folder that contains a hidden path is therefore not granted itself. Its
//! current children are granted one by one, so it cannot be listed, and later children are not granted.
#![expect(clippy::disallowed_methods, reason = "the folders that are granted child by child are listed here")]

use std::io;
use std::path::{Path, PathBuf};

use super::Rules;
use super::hidden::{Holes, holes, is_absent};
use super::links::Writable;

/// The access to a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Read, list and execute.
    Read,
    /// Everything.
    Write,
    /// Read and write existing files.
    Reopen,
    /// Read and write a device, and control it by ioctl.
    Device,
}

/// A path and its access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) usage: Use,
}

/// All grants, the folders that were listed for them, and the hidden paths in them.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) list: Vec<Place>,
    pub(super) listed: Vec<PathBuf>,
    pub(super) holes: Vec<PathBuf>,
}

/// The folders of programs and their dependencies. Not temporary files, mail, removable media or other users' folders.
const SYSTEM: &[&str] = &[
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
    "/srv",
    "/proc",
    "/sys",
    "/var/lib",
    "/var/cache",
    "/var/db",
    "/home/linuxbrew",
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/systemd/resolve",
    "/run/resolvconf",
];

/// The granted devices. Not the other terminals: all of them belong to this user, and opening one allows typing into
/// it and reading its input.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// Computes the grants from the rules and the current state of the disk.
///
/// # Errors
/// A hidden path cannot be resolved, so any grant might contain it.
pub(super) fn places(rules: &Rules) -> io::Result<Places> {
    let Holes { paths, unknown } = holes(rules);
    if let Some(folder) = unknown {
        let text = format!(
            "{} lets nobody in (see its mode), so that nobody can tell where what is hidden in it leads. `chmod u+rwx` \
             opens it",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(around(paths, rules))
}

/// Computes the grants for the self-test, which runs no foreign code; ignores hidden paths that cannot be resolved.
pub(super) fn for_a_trial(rules: &Rules) -> Places {
    around(holes(rules).paths, rules)
}

/// Grants everything except these hidden paths.
fn around(holes: Vec<PathBuf>, rules: &Rules) -> Places {
    let writable = Writable::of(rules);
    // A path that does not exist cannot be granted.
    let real = |folder: &Path| writable.real(folder).filter(|real| real.symlink_metadata().is_ok());
    let mut places = Places::default();
    for device in DEVICES {
        places.push(Path::new(device), Use::Device);
    }
    let programs = rules.search_path.iter().map(|folder| installation(folder));
    let shown = SYSTEM.iter().map(Path::new).chain(programs).chain(rules.user_home.as_deref());
    for folder in shown.filter_map(real) {
        places.grant(&folder, &holes, Use::Read);
    }
    for folder in rules.read.iter().filter_map(|folder| real(folder)) {
        // A named path may lie within a hidden one; hidden paths within it stay hidden. The runner's home is never
        // shown.
        if !folder.starts_with(&rules.own_home) {
            places.grant(&folder, &beneath(&holes, &folder), Use::Read);
        }
    }
    for folder in rules.workspaces.iter().chain(&rules.write).filter_map(|folder| real(folder)) {
        places.grant(&folder, &beneath(&holes, &folder), Use::Write);
    }
    places.push(&rules.temp, Use::Write);
    places.push(&rules.pipes, Use::Reopen);
    for shown in &rules.shown {
        places.push(shown, Use::Read);
    }
    Places { holes, ..places }
}

/// Returns the installation folder of a folder of programs: a toolchain needs the folders beside its `bin`. A user's
/// whole home is not returned.
fn installation(folder: &Path) -> &Path {
    let is_one = folder.file_name().is_some_and(|name| name == "bin" || name == "sbin" || name == "shims");
    match folder.parent() {
        Some(around)
            if is_one && around.components().count() > 2 && around.parent() != Some(Path::new("/home")) =>
        {
            around
        }
        _ => folder,
    }
}

fn may_be_there(hole: &Path) -> bool {
    hole.symlink_metadata().map_or_else(|cause| !is_absent(&cause), |_| true)
}

/// Returns the hidden paths below a folder. A folder named by the owner is not hidden by its parents.
fn beneath(holes: &[PathBuf], real: &Path) -> Vec<PathBuf> {
    holes.iter().filter(|hole| *hole != real && hole.starts_with(real)).cloned().collect()
}

impl Places {
    fn push(&mut self, path: &Path, usage: Use) {
        let place = Place { path: path.to_owned(), usage };
        if !self.list.contains(&place) {
            self.list.push(place);
        }
    }

    /// Grants a folder by its resolved path, or its children that are not hidden.
    fn grant(&mut self, path: &Path, holes: &[PathBuf], usage: Use) {
        if holes.iter().any(|hole| path.starts_with(hole)) {
            return;
        }
        if !holes.iter().any(|hole| hole.starts_with(path) && may_be_there(hole)) {
            return self.push(path, usage);
        }
        self.listed.push(path.to_owned());
        for child in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
            // A link's target has its own grant, or none.
            if child.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.grant(&child.path(), holes, usage);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    pub(in crate::sandbox) fn rules(home: &Path) -> Rules {
        let least = Rules::least(home.join(".punie"), home.join(".punie/tmp"));
        Rules {
            workspaces: vec![home.join("work")],
            user_home: Some(home.to_owned()),
            shown: vec![home.join(".punie/skills")],
            ..least
        }
    }

    /// Creates a home with secrets and returns its resolved path.
    pub(in crate::sandbox) fn home() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("real");
        for inside in ["work", ".punie", ".ssh", ".cargo/bin", ".config/gh", ".config/app", "dotfiles/aws"] {
            fs::create_dir_all(home.join(inside)).expect("made");
        }
        symlink("dotfiles/aws", home.join(".aws")).expect("a link");
        (folder, home)
    }

    pub(in crate::sandbox) fn uses(rules: &Rules, home: &Path, wanted: Use) -> Vec<String> {
        let list = places(rules).expect("known").list;
        let below = list.iter().filter(|place| place.usage == wanted);
        let mut names: Vec<String> = below
            .filter_map(|place| place.path.strip_prefix(home).ok())
            .map(|path| path.display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn the_home_is_read_but_for_what_is_hidden_and_where_links_to_that_lead() {
        let (_kept, home) = home();
        let read = uses(&rules(&home), &home, Use::Read);
        assert_eq!(read, [".cargo", ".config/app", ".punie/skills", "work"], "dotfiles holds what .aws is");
    }

    #[test]
    fn the_owner_shows_and_hides_by_name() {
        let (_kept, home) = home();
        let rules = Rules { read: vec![home.join(".ssh")], hide: vec![home.join(".cargo")], ..rules(&home) };
        let read = uses(&rules, &home, Use::Read);
        assert_eq!(read, [".config/app", ".punie/skills", ".ssh", "work"]);
        let all = Rules { read: vec![home.clone()], hide: Vec::new(), ..rules };
        let read = uses(&all, &home, Use::Read);
        assert!(!read.contains(&".aws".to_owned()) && !read.contains(&".punie".to_owned()), "{read:?}");
        assert!(read.contains(&".cargo".to_owned()) && !read.contains(&".ssh".to_owned()), "{read:?}");
        let inside = Rules { read: vec![home.join(".config/gh")], hide: vec![home.join(".config")], ..all };
        assert!(uses(&inside, &home, Use::Read).contains(&".config/gh".to_owned()));
    }

    #[test]
    fn a_toolchain_is_read_with_what_lies_beside_its_programs_and_a_persons_folder_is_not() {
        for (folder, granted) in [
            ("/root/.pyenv/shims", "/root/.pyenv"),
            ("/data/tools/go/bin", "/data/tools/go"),
            ("/data/tools", "/data/tools"),
            ("/root/bin", "/root/bin"),
            ("/home/b/bin", "/home/b/bin"),
            ("/home/b/.cargo/bin", "/home/b/.cargo"),
        ] {
            assert_eq!(installation(Path::new(folder)), Path::new(granted), "{folder}");
        }
    }

    #[test]
    fn a_link_that_commands_may_have_made_leads_no_grant_anywhere() {
        let (_kept, home) = home();
        for (link, target) in
            [("freed", ".ssh"), ("venv", ".config/gh"), ("sub", "dotfiles"), ("shown", ".ssh")]
        {
            symlink(home.join(target), home.join("work").join(link)).expect("a link");
        }
        let work = |name: &str| home.join("work").join(name);
        let rules = Rules {
            write: vec![work("freed"), work("freed/deeper")],
            read: vec![work("shown")],
            search_path: vec![work("venv"), work("venv/bin")],
            workspaces: vec![home.join("work"), work("sub")],
            ..rules(&home)
        };
        assert_eq!(uses(&rules, &home, Use::Write), [".punie/tmp", "work"]);
        assert_eq!(uses(&rules, &home, Use::Read), [".cargo", ".config/app", ".punie/skills", "work"]);
        // Links that the owner created are followed.
        symlink(home.join(".cargo"), home.join("mine")).expect("a link");
        let rules = Rules { write: vec![home.join("mine")], ..rules };
        assert_eq!(uses(&rules, &home, Use::Write), [".cargo", ".punie/tmp", "work"]);
    }

    #[test]
    fn a_folder_that_becomes_a_link_while_it_is_granted_leads_nowhere() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (_kept, home) = home();
        let (sub, link) = (home.join("work/sub"), home.join("work/link"));
        fs::create_dir(&sub).expect("made");
        symlink(home.join(".config/gh"), &link).expect("a link");
        let rules = Rules { write: vec![sub.clone()], read: vec![sub.clone()], ..rules(&home) };
        let secret = home.join(".config/gh");
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                use rustix::fs::{CWD, RenameFlags, renameat_with};
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &sub, CWD, &link, RenameFlags::EXCHANGE).expect("exchanged");
                }
            });
            for _ in 0..500 {
                let granted = places(&rules).expect("known").list;
                assert!(granted.iter().all(|place| !place.path.starts_with(&secret)), "{granted:?}");
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_workspace_that_holds_secrets_is_written_around_them() {
        let (_kept, home) = home();
        let rules = Rules { workspaces: vec![home.clone()], ..rules(&home) };
        let write = uses(&rules, &home, Use::Write);
        assert_eq!(write, [".cargo", ".config/app", ".punie/tmp", "work"]);
        let hidden = Rules { hide: vec![home.clone()], workspaces: vec![home.join("work")], ..rules };
        assert_eq!(uses(&hidden, &home, Use::Write), [".punie/tmp", "work"], "named, so not hidden");
    }
}
