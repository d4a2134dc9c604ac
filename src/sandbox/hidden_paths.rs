//! The paths in the user's home that are hidden from commands. Not here: enforcement by the kernel's rules.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use super::SandboxRules;
use super::untrusted_links::{self, WritableFolders};

/// The paths of credentials and private data in the user's home: keys, tokens, passwords, browser profiles, shell
/// histories.
const HIDDEN: &[&str] = &[
    ".ssh",
    ".aws",
    ".azure",
    ".gnupg",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".pgpass",
    ".my.cnf",
    ".pypirc",
    ".vault-token",
    ".password-store",
    ".terraform.d",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".config/gh",
    ".config/gcloud",
    ".config/git/credentials",
    ".config/op",
    ".config/sops",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/Signal",
    ".config/keepassxc",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/opera",
    ".config/vivaldi",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".thunderbird",
    ".var/app",
    "snap/firefox",
    "snap/chromium",
    ".npmrc",
    ".yarnrc.yml",
    ".claude/.credentials.json",
    ".claude.json",
    ".codex/auth.json",
    ".gemini",
    ".gem/credentials",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".cache/huggingface/token",
    ".s3cfg",
    ".fly",
    ".boto",
    ".config/containers/auth.json",
    ".config/glab-cli",
    ".config/github-copilot",
    ".config/rclone",
    ".config/doctl",
    ".config/composer/auth.json",
    ".config/mozilla",
    ".Xauthority",
    ".local/share/fish/fish_history",
    ".viminfo",
    ".node_repl_history",
    ".zhistory",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".psql_history",
    ".mysql_history",
];

/// The additional paths on macOS.
const HIDDEN_IN_LIBRARY: &[&str] = &[
    "Library/Keychains",
    "Library/Cookies",
    "Library/Messages",
    "Library/Mail",
    "Library/Safari",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Firefox",
    "Library/Application Support/1Password",
    "Library/Application Support/Signal",
    "Library/Group Containers",
];

fn builtin_hidden_names() -> impl Iterator<Item = &'static &'static str> {
    HIDDEN.iter().chain(
        HIDDEN_IN_LIBRARY
            .iter()
            .filter(|_| cfg!(target_os = "macos")),
    )
}

/// The resolved targets of hidden paths, cached as long as the rules exist, because a path may become inaccessible
/// later. An entry without targets was resolved and led nowhere else.
#[derive(Debug, Default)]
pub struct ResolvedHiddenPaths(Mutex<BTreeMap<PathBuf, BTreeSet<PathBuf>>>);

/// The hidden paths at this moment.
#[derive(Debug)]
pub(super) struct HiddenPaths {
    pub(super) paths: Vec<PathBuf>,
    /// An inaccessible folder with a hidden path beyond it that was never resolved, so it may be anywhere.
    pub(super) unresolved: Option<PathBuf>,
}

/// Returns the hidden paths: the runner's home, the paths that the owner hides, and the built-in list without those
/// that the owner grants by name. Granting a parent folder does not reveal a hidden path. The current and earlier
/// targets of links are hidden too. If a target cannot be resolved, the user's whole home is hidden.
pub(super) fn hidden_paths(rules: &SandboxRules) -> HiddenPaths {
    let (named, writable) = (
        hidden_paths_by_name(rules),
        WritableFolders::from_rules(rules),
    );
    let mut holes = HiddenPaths {
        paths: named.clone(),
        unresolved: None,
    };
    let mut found = rules
        .resolved_hidden
        .0
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    let mut is_shut = false;
    for path in named {
        match resolve_hidden_path(&path) {
            Some(Ok(real)) => {
                let known = found.entry(path.clone()).or_default();
                // A target that commands may have chosen is hidden only while the link leads there.
                if real != path && !writable.resolve_path(&path).via_untrusted_symlink {
                    known.insert(real.clone());
                }
                holes.paths.push(real);
            }
            Some(Err(there)) => {
                is_shut = true;
                if !found.contains_key(&path) {
                    holes.unresolved.get_or_insert(there);
                }
            }
            None => drop(found.entry(path.clone()).or_default()),
        }
        holes
            .paths
            .extend(found.get(&path).into_iter().flatten().cloned());
    }
    holes
        .paths
        .extend(rules.user_home.clone().filter(|_| is_shut));
    holes
}

/// Returns an inaccessible folder of the user that keeps a hidden path from being resolved.
pub(super) fn unresolvable_folder(rules: &SandboxRules) -> Option<PathBuf> {
    hidden_paths_by_name(rules)
        .iter()
        .find_map(|path| resolve_hidden_path(path)?.err())
}

/// Returns whether an error proves that nothing is there. Any other error counts as present: a command can make a path
/// inaccessible and accessible again later.
pub fn is_absent(cause: &io::Error) -> bool {
    matches!(
        cause.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

/// Returns the hidden paths by name.
fn hidden_paths_by_name(rules: &SandboxRules) -> Vec<PathBuf> {
    let named = |path: &Path| {
        rules
            .read
            .iter()
            .chain(&rules.write)
            .any(|named| path == named)
    };
    let listed = rules
        .user_home
        .iter()
        .flat_map(|home| builtin_hidden_names().map(|name| home.join(name)));
    let mut holes: Vec<PathBuf> = listed.filter(|path| !named(path)).collect();
    holes.extend(rules.hide.iter().cloned());
    holes.push(rules.own_home.clone());
    holes
}

/// Resolves a path, if it exists. An error is the inaccessible folder on the way, which its owner could open again.
fn resolve_hidden_path(path: &Path) -> Option<Result<PathBuf, PathBuf>> {
    match path.canonicalize() {
        Ok(real) => Some(Ok(real)),
        Err(cause) if cause.kind() == io::ErrorKind::PermissionDenied => {
            // For a link, look at its target's path: that is where access is denied.
            let (there, metadata) = untrusted_links::follow_links(path)
                .ancestors()
                .find_map(|above| Some((above.to_owned(), above.symlink_metadata().ok()?)))?;
            // A folder that another user closes stays closed.
            is_own_file(&metadata).then_some(Err(there))
        }
        Err(_) => None,
    }
}

#[cfg(unix)]
fn is_own_file(metadata: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    metadata.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(not(unix))]
fn is_own_file(_: &Metadata) -> bool {
    true
}

#[cfg(all(test, target_os = "linux"))]
#[expect(clippy::disallowed_methods, reason = "folders and links are laid out")]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;
    use crate::sandbox::ProfileBuilder;
    use crate::sandbox::path_grants::tests::{home, rules, uses};
    use crate::sandbox::path_grants::{PathAccess, compute_grants};

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
                    crate::sandbox::hint::hint_after_failure(
                        &rules,
                        crate::sandbox::NetworkAccess::Full,
                        &output,
                    )
                    .expect("said")
                };
                let shut: PathBuf = home.join(folder).components().collect();
                let way_in = format!("{} lets nobody in", shut.display());
                assert!(hint(&home.join("notes")).contains(&way_in), "{folder}");
                assert!(
                    !hint(Path::new("/srv/other/file")).contains("lets nobody in"),
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
                        .contains(&format!("{shut} lets nobody in")),
                    "{unknown}"
                );
                // The self-test still runs: the folder may become accessible again during this process.
                assert!(
                    ProfileBuilder::new(rules())
                        .build_self_test_profile()
                        .is_ok(),
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
}
