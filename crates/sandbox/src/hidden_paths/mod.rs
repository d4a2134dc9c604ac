//! The paths in the user's home that are hidden from commands where they have no view: there the home is not shown at all
//! but for what `view_contents` lists. Not here: enforcement by the kernel's rules (path_grants).

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use super::sandbox_rules::SandboxRules;
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

pub(super) fn builtin_hidden_names() -> impl Iterator<Item = &'static &'static str> {
    HIDDEN.iter().chain(
        HIDDEN_IN_LIBRARY
            .iter()
            .filter(|_| cfg!(target_os = "macos")),
    )
}

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
    let named = hidden_paths_by_name(rules);
    let writable = WritableFolders::from_rules(rules);
    let mut hidden = HiddenPaths {
        paths: named.clone(),
        unresolved: None,
    };
    let mut resolved = rules.resolved_hidden.0.lock();
    let mut is_closed = false;
    for path in named {
        match resolve_hidden_path(&path) {
            Some(Ok(real)) => {
                let known = resolved.entry(path.clone()).or_default();
                // A target that commands may have chosen is hidden only while the link leads there.
                if real != path && !writable.resolve_path(&path).via_untrusted_symlink {
                    known.insert(real.clone());
                }
                hidden.paths.push(real);
            }
            Some(Err(folder)) => {
                is_closed = true;
                if !resolved.contains_key(&path) {
                    hidden.unresolved.get_or_insert(folder);
                }
            }
            None => drop(resolved.entry(path.clone()).or_default()),
        }
        let known = resolved.get(&path).into_iter().flatten().cloned();
        hidden.paths.extend(known);
    }
    let whole_home = rules.user_home.clone().filter(|_| is_closed);
    hidden.paths.extend(whole_home);
    hidden
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

/// Returns the paths of credentials and private data in a user's home that the owner does not grant by name, and the
/// paths that the owner hides.
pub fn hidden_by_settings(
    user_home: Option<&Path>,
    granted: &[&[PathBuf]],
    hide: &[PathBuf],
) -> Vec<PathBuf> {
    let builtin = user_home
        .into_iter()
        .flat_map(|home| builtin_hidden_names().map(|name| home.join(name)));
    builtin
        .filter(|path| !granted.iter().any(|paths| paths.contains(path)))
        .chain(hide.iter().cloned())
        .collect()
}

fn hidden_paths_by_name(rules: &SandboxRules) -> Vec<PathBuf> {
    let granted: [&[PathBuf]; 2] = [&rules.read, &rules.write];
    let mut hidden = hidden_by_settings(rules.user_home.as_deref(), &granted, &rules.hide);
    hidden.push(rules.own_home.clone());
    hidden.extend(rules.other_folders());
    hidden
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
mod tests;
