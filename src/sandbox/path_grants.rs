//! The paths that a command may use, and how: workspaces and temporary files for writing, the system and most of the
//! user's home for reading. Not here: the kernel's ruleset (ruleset).
//!
//! Landlock has grants and no exceptions. A folder that contains a hidden path is therefore not granted itself. Its
//! current children are granted one by one, so it cannot be listed, and later children are not granted.
#![expect(
    clippy::disallowed_methods,
    reason = "the folders that are granted child by child are listed here"
)]

use std::io;
use std::path::{Path, PathBuf};

use super::hidden_paths::{HiddenPaths, hidden_paths, is_absent};
use super::sandbox_rules::SandboxRules;
use super::untrusted_links::WritableFolders;

/// The access to a path.
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

/// A path and its access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathGrant {
    pub(super) path: PathBuf,
    pub(super) access: PathAccess,
}

/// All grants, the folders that were listed for them, and the hidden paths in them.
#[derive(Debug, Default)]
pub(super) struct PathGrants {
    pub(super) list: Vec<PathGrant>,
    pub(super) listed: Vec<PathBuf>,
    pub(super) hidden: Vec<PathBuf>,
}

/// The folders of programs and their dependencies. Not temporary files, mail, removable media or other users' folders.
const SYSTEM_FOLDERS: &[&str] = &[
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
pub(super) fn compute_grants(rules: &SandboxRules) -> io::Result<PathGrants> {
    let HiddenPaths { paths, unresolved } = hidden_paths(rules);
    if let Some(folder) = unresolved {
        let text = format!(
            "{} lets nobody in (see its mode), so that nobody can tell where what is hidden in it leads. `chmod u+rwx` \
             opens it",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(grant_except_hidden(paths, rules))
}

/// Computes the grants for the self-test, which runs no foreign code; ignores hidden paths that cannot be resolved.
pub(super) fn compute_self_test_grants(rules: &SandboxRules) -> PathGrants {
    grant_except_hidden(hidden_paths(rules).paths, rules)
}

/// Grants everything except these hidden paths.
fn grant_except_hidden(hidden: Vec<PathBuf>, rules: &SandboxRules) -> PathGrants {
    let writable = WritableFolders::from_rules(rules);
    // A path that does not exist cannot be granted.
    let real = |folder: &Path| {
        writable
            .resolve_trusted(folder)
            .filter(|real| real.symlink_metadata().is_ok())
    };
    let mut grants = PathGrants::default();
    for device in DEVICES {
        grants.push_grant(Path::new(device), PathAccess::Device);
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
        grants.grant_path(&folder, &hidden, PathAccess::Read);
    }
    for folder in rules.read.iter().filter_map(|folder| real(folder)) {
        // A named path may lie within a hidden one; hidden paths within it stay hidden. The runner's home is never
        // shown.
        if !folder.starts_with(&rules.own_home) {
            grants.grant_path(&folder, &hidden_below(&hidden, &folder), PathAccess::Read);
        }
    }
    for folder in rules
        .workspaces
        .iter()
        .chain(&rules.write)
        .filter_map(|folder| real(folder))
    {
        grants.grant_path(&folder, &hidden_below(&hidden, &folder), PathAccess::Write);
    }
    grants.push_grant(&rules.temp, PathAccess::Write);
    grants.push_grant(&rules.pipes, PathAccess::Reopen);
    for shown in &rules.shown {
        grants.push_grant(shown, PathAccess::Read);
    }
    PathGrants { hidden, ..grants }
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
    fn push_grant(&mut self, path: &Path, access: PathAccess) {
        let grant = PathGrant {
            path: path.to_owned(),
            access,
        };
        if !self.list.contains(&grant) {
            self.list.push(grant);
        }
    }

    /// Grants a folder by its resolved path, or its children that are not hidden.
    fn grant_path(&mut self, path: &Path, hidden: &[PathBuf], access: PathAccess) {
        if hidden.iter().any(|hidden| path.starts_with(hidden)) {
            return;
        }
        if !hidden
            .iter()
            .any(|hidden| hidden.starts_with(path) && may_exist(hidden))
        {
            return self.push_grant(path, access);
        }
        self.listed.push(path.to_owned());
        for child in std::fs::read_dir(path)
            .into_iter()
            .flatten()
            .filter_map(Result::ok)
        {
            // A link's target has its own grant, or none.
            if child.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.grant_path(&child.path(), hidden, access);
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    pub(in crate::sandbox) fn rules(home: &Path) -> SandboxRules {
        let least = SandboxRules::minimal_rules(home.join(".punie"), home.join(".punie/tmp"));
        SandboxRules {
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
        for inside in [
            "work",
            ".punie",
            ".ssh",
            ".cargo/bin",
            ".config/gh",
            ".config/app",
            "dotfiles/aws",
        ] {
            fs::create_dir_all(home.join(inside)).expect("made");
        }
        symlink("dotfiles/aws", home.join(".aws")).expect("a link");
        (folder, home)
    }

    pub(in crate::sandbox) fn uses(
        rules: &SandboxRules,
        home: &Path,
        wanted: PathAccess,
    ) -> Vec<String> {
        let list = compute_grants(rules).expect("known").list;
        let below = list.iter().filter(|place| place.access == wanted);
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
        let read = uses(&rules(&home), &home, PathAccess::Read);
        assert_eq!(
            read,
            [".cargo", ".config/app", ".punie/skills", "work"],
            "dotfiles holds what .aws is"
        );
    }

    #[test]
    fn the_owner_shows_and_hides_by_name() {
        let (_kept, home) = home();
        let rules = SandboxRules {
            read: vec![home.join(".ssh")],
            hide: vec![home.join(".cargo")],
            ..rules(&home)
        };
        let read = uses(&rules, &home, PathAccess::Read);
        assert_eq!(read, [".config/app", ".punie/skills", ".ssh", "work"]);
        let all = SandboxRules {
            read: vec![home.clone()],
            hide: Vec::new(),
            ..rules
        };
        let read = uses(&all, &home, PathAccess::Read);
        assert!(
            !read.contains(&".aws".to_owned()) && !read.contains(&".punie".to_owned()),
            "{read:?}"
        );
        assert!(
            read.contains(&".cargo".to_owned()) && !read.contains(&".ssh".to_owned()),
            "{read:?}"
        );
        let inside = SandboxRules {
            read: vec![home.join(".config/gh")],
            hide: vec![home.join(".config")],
            ..all
        };
        assert!(uses(&inside, &home, PathAccess::Read).contains(&".config/gh".to_owned()));
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
            assert_eq!(
                installation_folder(Path::new(folder)),
                Path::new(granted),
                "{folder}"
            );
        }
    }

    #[test]
    fn a_link_that_commands_may_have_made_leads_no_grant_anywhere() {
        let (_kept, home) = home();
        for (link, target) in [
            ("freed", ".ssh"),
            ("venv", ".config/gh"),
            ("sub", "dotfiles"),
            ("shown", ".ssh"),
        ] {
            symlink(home.join(target), home.join("work").join(link)).expect("a link");
        }
        let work = |name: &str| home.join("work").join(name);
        let rules = SandboxRules {
            write: vec![work("freed"), work("freed/deeper")],
            read: vec![work("shown")],
            search_path: vec![work("venv"), work("venv/bin")],
            workspaces: vec![home.join("work"), work("sub")],
            ..rules(&home)
        };
        assert_eq!(
            uses(&rules, &home, PathAccess::Write),
            [".punie/tmp", "work"]
        );
        assert_eq!(
            uses(&rules, &home, PathAccess::Read),
            [".cargo", ".config/app", ".punie/skills", "work"]
        );
        // Links that the owner created are followed.
        symlink(home.join(".cargo"), home.join("mine")).expect("a link");
        let rules = SandboxRules {
            write: vec![home.join("mine")],
            ..rules
        };
        assert_eq!(
            uses(&rules, &home, PathAccess::Write),
            [".cargo", ".punie/tmp", "work"]
        );
    }

    #[test]
    fn a_folder_that_becomes_a_link_while_it_is_granted_leads_nowhere() {
        use std::sync::atomic::{AtomicBool, Ordering};
        let (_kept, home) = home();
        let (sub, link) = (home.join("work/sub"), home.join("work/link"));
        fs::create_dir(&sub).expect("made");
        symlink(home.join(".config/gh"), &link).expect("a link");
        let rules = SandboxRules {
            write: vec![sub.clone()],
            read: vec![sub.clone()],
            ..rules(&home)
        };
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
                let granted = compute_grants(&rules).expect("known").list;
                assert!(
                    granted.iter().all(|place| !place.path.starts_with(&secret)),
                    "{granted:?}"
                );
            }
            done.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn a_workspace_that_holds_secrets_is_written_around_them() {
        let (_kept, home) = home();
        let rules = SandboxRules {
            workspaces: vec![home.clone()],
            ..rules(&home)
        };
        let write = uses(&rules, &home, PathAccess::Write);
        assert_eq!(write, [".cargo", ".config/app", ".punie/tmp", "work"]);
        let hidden = SandboxRules {
            hide: vec![home.clone()],
            workspaces: vec![home.join("work")],
            ..rules
        };
        assert_eq!(
            uses(&hidden, &home, PathAccess::Write),
            [".punie/tmp", "work"],
            "named, so not hidden"
        );
    }
}
