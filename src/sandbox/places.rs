//! Which places a command may use, and how: the workspaces and a folder for temporary files to write, the system and
//! most of the user's own folder to read. Not here: telling the kernel (ruleset).
//!
//! The kernel takes grants and no exceptions. A folder that holds something hidden is therefore granted child by
//! child, as it is now, and not itself: it cannot be listed, and what is made in it later is not part of the grant.
#![expect(clippy::disallowed_methods, reason = "the folders that are granted child by child are listed here")]

use std::io;
use std::path::{Path, PathBuf};

use super::Rules;
use super::hidden::{Holes, holes, is_absent};
use super::links::Writable;

/// How a place may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// Read, list and execute.
    Read,
    /// Everything.
    Write,
    /// Read and write what is there.
    Reopen,
    /// The same of a device, and control it.
    Device,
}

/// A place and its use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) path: PathBuf,
    pub(super) usage: Use,
}

/// All places, and the folders that were listed to find them.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub(super) list: Vec<Place>,
    pub(super) listed: Vec<PathBuf>,
}

/// Where systems keep programs and what these need. Not temporary files, mail, mounted media, other people's folders.
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

/// Not the other ends of terminals: whoever opens one types into it and reads what is typed, and all of them are the
/// user's.
const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What the rules come to on this machine, as it is now.
///
/// # Errors
/// It cannot be told where something hidden lies, so that any grant might hold it.
pub(super) fn places(rules: &Rules) -> io::Result<Places> {
    let Holes { paths: holes, unknown } = holes(rules);
    if let Some(folder) = unknown {
        let text = format!(
            "{} lets nobody in (see its mode), so that nobody can tell where what is hidden in it leads. `chmod u+rwx` \
             opens it",
            folder.display()
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    let writable = Writable::of(rules);
    // What is not there cannot be granted.
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
        // What is named lies in something hidden perhaps; what is hidden in it stays so. The runner's own never shows.
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
    Ok(places)
}

/// What a folder of programs belongs to: a toolchain needs what lies beside its `bin`. Not where that is somebody's
/// whole folder.
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

/// Those below a folder: one that was named itself is not hidden by what is above it.
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

    /// Grants a folder by its real path, or what of it is not hidden.
    fn grant(&mut self, path: &Path, holes: &[PathBuf], usage: Use) {
        if holes.iter().any(|hole| path.starts_with(hole)) {
            return;
        }
        if !holes.iter().any(|hole| hole.starts_with(path) && may_be_there(hole)) {
            return self.push(path, usage);
        }
        self.listed.push(path.to_owned());
        for child in std::fs::read_dir(path).into_iter().flatten().filter_map(Result::ok) {
            // A link leads to a place that has its own grant, or none.
            if child.file_type().is_ok_and(|kind| !kind.is_symlink()) {
                self.grant(&child.path(), holes, usage);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn rules(home: &Path) -> Rules {
        let least = Rules::least(home.join(".punie"), home.join(".punie/tmp"));
        Rules {
            workspaces: vec![home.join("work")],
            user_home: Some(home.to_owned()),
            shown: vec![home.join(".punie/skills")],
            ..least
        }
    }

    /// A home with secrets; its name is the real one.
    fn home() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let home = folder.path().canonicalize().expect("real");
        for inside in ["work", ".punie", ".ssh", ".cargo/bin", ".config/gh", ".config/app", "dotfiles/aws"] {
            fs::create_dir_all(home.join(inside)).expect("made");
        }
        symlink("dotfiles/aws", home.join(".aws")).expect("a link");
        (folder, home)
    }

    fn uses(rules: &Rules, home: &Path, wanted: Use) -> Vec<String> {
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
        // The owner's own links are followed.
        symlink(home.join(".cargo"), home.join("mine")).expect("a link");
        let rules = Rules { write: vec![home.join("mine")], ..rules };
        assert_eq!(uses(&rules, &home, Use::Write), [".cargo", ".punie/tmp", "work"]);
    }

    /// As another user than root, whom nothing keeps out.
    fn as_a_user<T: Send>(home: &Path, run: impl FnOnce() -> T + Send) -> T {
        let is_root = rustix::process::geteuid().is_root();
        let user =
            rustix::fs::Uid::from_raw(if is_root { 54_321 } else { rustix::process::geteuid().as_raw() });
        let mut waiting = vec![home.to_owned()];
        while let Some(path) = waiting.pop() {
            std::os::unix::fs::lchown(&path, Some(user.as_raw()), None).expect("given");
            if path.symlink_metadata().expect("there").is_dir() {
                waiting
                    .extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("one").path()));
            }
        }
        std::thread::scope(|scope| {
            let running = scope.spawn(|| {
                // Of this thread alone.
                rustix::thread::set_thread_res_uid(user, user, user).expect("a user");
                run()
            });
            running.join().expect("it ran")
        })
    }

    #[test]
    fn what_a_command_shuts_shows_nothing_of_what_is_hidden_in_it_or_by_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_kept, home) = home();
        let rules = rules(&home);
        let set = |name: &str, mode: u32| {
            fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).expect("shut");
        };
        as_a_user(&home, || {
            let usual = uses(&rules, &home, Use::Read);
            assert_eq!(usual, [".cargo", ".config/app", ".punie/skills", "work"]);
            // What is hidden lies in the first; the second holds what a link of that kind leads to.
            for folder in [".config", "dotfiles", ""] {
                set(folder, 0o000);
                assert_eq!(uses(&rules, &home, Use::Read), [".punie/skills"], "{folder}");
                let hint = |path: &Path| {
                    let output = format!("cat: {}: Permission denied", path.display());
                    crate::sandbox::hint::line(&rules, crate::sandbox::Network::Full, &output).expect("said")
                };
                let shut: PathBuf = home.join(folder).components().collect();
                let way_in = format!("{} lets nobody in", shut.display());
                assert!(hint(&home.join("notes")).contains(&way_in), "{folder}");
                assert!(!hint(Path::new("/srv/other/file")).contains("lets nobody in"), "{folder}");
                // A workspace that is shut as well is granted and opens for nobody.
                assert_eq!(
                    uses(&rules, &home, Use::Write).last().map(String::as_str),
                    Some(if folder.is_empty() { ".punie/tmp" } else { "work" })
                );
                set(folder, 0o700);
                assert_eq!(uses(&rules, &home, Use::Read), usual, "{folder}");
            }
        });
    }

    #[test]
    fn what_a_hidden_link_leads_to_stays_hidden_in_a_workspace_when_the_way_is_shut() {
        use std::os::unix::fs::PermissionsExt as _;
        let (_kept, home) = home();
        for made in ["dotfiles/gh", "dotfiles/ssh/.ssh", "dotfiles/app", "shared/kube"] {
            fs::create_dir_all(home.join(made)).expect("made");
        }
        for (link, target) in
            [(".config/gh", "dotfiles/gh"), (".ssh", "dotfiles/ssh/.ssh"), (".kube", "shared/kube")]
        {
            let link = home.join(link);
            drop(fs::remove_dir(&link));
            symlink(home.join(target), link).expect("a link");
        }
        let rules = || Rules {
            workspaces: vec![home.join("dotfiles")],
            read: vec![home.join("shared")],
            ..rules(&home)
        };
        let set = |name: &str, mode: u32| {
            fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).expect("set");
        };
        as_a_user(&home, || {
            let known = rules();
            let granted = |wanted: Use| uses(&known, &home, wanted);
            let usual = granted(Use::Write);
            assert_eq!(usual, [".punie/tmp", "dotfiles/app"], "and none of what the links lead to");
            for shut in [".config", "dotfiles/ssh"] {
                set(shut, 0o000);
                assert_eq!(granted(Use::Write), usual, "{shut}");
                assert_eq!(granted(Use::Read), [".punie/skills"], "{shut}");
                // Where it was never seen, nothing is given at all.
                let unknown = places(&rules()).expect_err("unknown");
                assert!(unknown.to_string().contains(&format!("{shut} lets nobody in")), "{unknown}");
                set(shut, 0o700);
                assert_eq!(granted(Use::Write), usual, "{shut}");
            }
            // What commands have led somewhere is not hidden for good.
            let led = Rules { hide: vec![home.join("dotfiles/app/led")], ..rules() };
            symlink(home.join("work"), home.join("dotfiles/app/led")).expect("a link");
            assert!(!uses(&led, &home, Use::Read).contains(&"work".to_owned()));
            fs::remove_file(home.join("dotfiles/app/led")).expect("removed");
            assert!(uses(&led, &home, Use::Read).contains(&"work".to_owned()));
        });
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
