//! Hidden paths behind links and in folders that are closed and opened again.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::ProfileBuilder;
use crate::path_grants::tests::{home, rules, uses};
use crate::path_grants::{PathAccess, compute_grants};

/// Runs this as a user other than root, because root can enter every folder.
fn as_a_user<T: Send>(home: &Path, run: impl FnOnce() -> T + Send) -> T {
    let is_root = rustix::process::geteuid().is_root();
    let user = rustix::fs::Uid::from_raw(if is_root {
        54_321
    } else {
        rustix::process::geteuid().as_raw()
    });
    let mut waiting = vec![home.to_owned()];
    while let Some(path) = waiting.pop() {
        std::os::unix::fs::lchown(&path, Some(user.as_raw()), None).expect("given");
        if path.symlink_metadata().expect("there").is_dir() {
            waiting.extend(
                fs::read_dir(&path)
                    .expect("a folder")
                    .map(|entry| entry.expect("one").path()),
            );
        }
    }
    std::thread::scope(|scope| {
        let running = scope.spawn(|| {
            // For this thread only.
            rustix::thread::set_thread_res_uid(user, user, user).expect("a user");
            run()
        });
        running.join().expect("it ran")
    })
}

#[test]
fn what_a_command_shuts_shows_nothing_of_what_is_hidden_in_it_or_by_it() {
    let (_kept, home) = home();
    let rules = rules(&home);
    let set = |name: &str, mode: u32| {
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).expect("shut");
    };
    as_a_user(&home, || {
        let usual = uses(&rules, &home, PathAccess::Read);
        assert_eq!(usual, [".cargo", ".config/app", ".punie/skills", "work"]);
        // The first holds the hidden path; the second holds the target of such a link.
        for folder in [".config", "dotfiles", ""] {
            set(folder, 0o000);
            assert_eq!(
                uses(&rules, &home, PathAccess::Read),
                [".punie/skills"],
                "{folder}"
            );
            let hint = |path: &Path| {
                let output = format!("cat: {}: Permission denied", path.display());
                crate::hint::hint_after_failure(&rules, crate::NetworkAccess::Full, &output)
                    .expect("said")
            };
            let shut: PathBuf = home.join(folder).components().collect();
            let way_in = format!("{} is not readable", shut.display());
            assert!(hint(&home.join("notes")).contains(&way_in), "{folder}");
            assert!(
                !hint(Path::new("/srv/other/file")).contains("is not readable"),
                "{folder}"
            );
            // A workspace that is inaccessible as well is granted, but nothing can be opened in it.
            assert_eq!(
                uses(&rules, &home, PathAccess::Write)
                    .last()
                    .map(String::as_str),
                Some(if folder.is_empty() {
                    ".punie/tmp"
                } else {
                    "work"
                })
            );
            set(folder, 0o700);
            assert_eq!(uses(&rules, &home, PathAccess::Read), usual, "{folder}");
        }
    });
}

#[test]
fn what_a_hidden_link_leads_to_stays_hidden_in_a_workspace_when_the_way_is_shut() {
    let (_kept, home) = home();
    for made in [
        "dotfiles/gh",
        "dotfiles/ssh/.ssh",
        "dotfiles/app",
        "shared/kube",
    ] {
        fs::create_dir_all(home.join(made)).expect("made");
    }
    for (link, target) in [
        (".config/gh", "dotfiles/gh"),
        (".ssh", "dotfiles/ssh/.ssh"),
        (".kube", "shared/kube"),
    ] {
        let link = home.join(link);
        drop(fs::remove_dir(&link));
        symlink(home.join(target), link).expect("a link");
    }
    let rules = || SandboxRules {
        workspaces: vec![home.join("dotfiles")],
        read: vec![home.join("shared")],
        ..rules(&home)
    };
    let set = |name: &str, mode: u32| {
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(mode)).expect("set");
    };
    as_a_user(&home, || {
        let known = rules();
        let granted = |wanted: PathAccess| uses(&known, &home, wanted);
        let usual = granted(PathAccess::Write);
        assert_eq!(
            usual,
            [".punie/tmp", "dotfiles/app"],
            "and none of what the links lead to"
        );
        for shut in [".config", "dotfiles/ssh"] {
            set(shut, 0o000);
            assert_eq!(granted(PathAccess::Write), usual, "{shut}");
            assert_eq!(granted(PathAccess::Read), [".punie/skills"], "{shut}");
            // If it was never resolved, nothing is granted at all.
            let unknown = compute_grants(&rules()).expect_err("unknown");
            assert!(
                unknown
                    .to_string()
                    .contains(&format!("{shut} is not readable")),
                "{unknown}"
            );
            // The self-test still runs: the folder may become accessible again during this process.
            assert!(
                ProfileBuilder::new(rules()).build_self_test().is_ok(),
                "{shut}"
            );
            set(shut, 0o700);
            assert_eq!(granted(PathAccess::Write), usual, "{shut}");
        }
        // A target that commands chose is not hidden forever.
        let led = SandboxRules {
            hide: vec![home.join("dotfiles/app/led")],
            ..rules()
        };
        symlink(home.join("work"), home.join("dotfiles/app/led")).expect("a link");
        assert!(!uses(&led, &home, PathAccess::Read).contains(&"work".to_owned()));
        fs::remove_file(home.join("dotfiles/app/led")).expect("removed");
        assert!(uses(&led, &home, PathAccess::Read).contains(&"work".to_owned()));
    });
}
