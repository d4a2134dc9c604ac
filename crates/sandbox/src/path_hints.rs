//! Hints about paths that commands may not write or do not see.

use std::path::{Path, PathBuf};

#[cfg(target_os = "linux")]
use super::path_grants::SYSTEM_FOLDERS;
use super::sandbox_rules::SandboxRules;
use super::services::{leads_to_service, service_hint};
#[cfg(target_os = "linux")]
use super::shown_parts::is_shown;
use super::untrusted_links::follow_links;

/// Without a view, the home is hidden by single paths, and the system is readable.
#[cfg(not(target_os = "linux"))]
fn is_shown(_: &Path, _: &Path) -> bool {
    false
}
#[cfg(not(target_os = "linux"))]
const SYSTEM_FOLDERS: &[&str] = &["/"];

/// The places of temporary files, of which commands see their own.
const TEMP_PLACES: &[&str] = &["/tmp", "/var/tmp", "/dev/shm"];

/// Explains that a path is hidden, or that commands may not write it, with the setting that would allow it.
pub(super) fn path_hint(rules: &SandboxRules, path: &Path) -> String {
    let shown = path.display();
    if let Some(folder) = find_shut_folder(rules, path) {
        return format!(
            "{} is not readable (see its mode), so the runner cannot tell which of its files must stay hidden. Until the \
             owner runs `chmod u+rwx` on it, commands cannot read the home folder.",
            folder.display()
        );
    }
    if is_too_broad(rules, path) {
        return format!(
            "Commands cannot list or write {shown} as a whole, because it contains hidden files such as keys. Name a file or \
             folder inside it, or use the workspace or $TMPDIR."
        );
    }
    let is_readable = is_readable_path(rules, path);
    // A path that is missing cannot be named in the settings, but its folder can.
    let named = match path.parent() {
        Some(parent) if is_readable && !path.exists() => parent,
        _ => path,
    };
    let is_broad = is_too_broad(rules, named);
    if leads_to_service(rules.user_home.as_deref(), path)
        || !is_broad && leads_to_service(rules.user_home.as_deref(), named)
    {
        return service_hint(path);
    }
    if is_readable {
        if !may_user(WRITE_BIT, named) {
            return format!(
                "This may be because {shown} is outside of what commands may write: the workspace and $TMPDIR. Its mode \
                 keeps your user out as well, so no setting opens it."
            );
        }
        if is_broad {
            return format!(
                "This may be because {shown} is outside of what commands may write: the workspace and $TMPDIR. {} as a \
                 whole cannot be given to them; a folder of its own in it can, by write = [...] under [sandbox] in \
                 config.toml. It takes effect at once.",
                named.display()
            );
        }
        return format!(
            "This may be because {shown} is outside of what commands may write: the workspace and $TMPDIR. The owner can \
             allow it: write = [{:?}] under [sandbox] in config.toml. It takes effect at once.",
            named.display().to_string()
        );
    }
    format!(
        "This may be because {shown} is hidden from commands. The owner can show it: read = [{:?}] under [sandbox] in \
         config.toml. It takes effect at once.",
        shown.to_string()
    )
}

/// Returns the folder that keeps commands from all of the home, if the path is in the home.
fn find_shut_folder(rules: &SandboxRules, path: &Path) -> Option<PathBuf> {
    let home = rules.user_home.as_ref()?;
    let is_home = path.starts_with(home);
    is_home.then(|| super::hidden_paths::unresolvable_folder(rules))?
}

/// Returns whether a folder contains the user's home or a workspace, or is at the top of the file system: no setting
/// should name it.
fn is_too_broad(rules: &SandboxRules, path: &Path) -> bool {
    let is_around = |inner: &Path| inner.starts_with(path);
    path.components().count() <= 2
        || rules.user_home.as_deref().is_some_and(is_around)
        || rules
            .workspaces
            .iter()
            .any(|workspace| is_around(workspace) && workspace != path)
}

/// Explains that a path is there for the owner only.
pub(super) fn unseen_hint(rules: &SandboxRules, path: &Path) -> String {
    let shown = path.display().to_string();
    if leads_to_service(rules.user_home.as_deref(), path) {
        return service_hint(path);
    }
    format!(
        "This may be because commands see only a part of the home, and {shown} is not in it. The owner can show it: \
         read = [{shown:?}] under [sandbox] in config.toml. It takes effect at once."
    )
}

/// Explains that a program which the shell did not find is on the PATH as a link into what commands do not see.
pub(super) fn hidden_program_hint(rules: &SandboxRules, name: &str) -> Option<String> {
    let home = rules.user_home.as_ref()?;
    let of_user = ["bin", ".local/bin"].map(|folder| home.join(folder));
    let folders = rules.search_path.iter().chain(&of_user);
    let mut leads = folders.filter_map(|folder| {
        let link = folder.join(name);
        let target = follow_links(&link);
        (link.is_symlink() && is_unseen(rules, &target)).then_some((link, target))
    });
    let (link, target) = leads.next()?;
    if leads_to_service(Some(home), &target) {
        return Some(service_hint(&target));
    }
    let link = link.display();
    let target = target.display().to_string();
    Some(format!(
        "{link} is a link to {target}, in a part of the home that commands do not see. The owner can show it: read = \
         [{target:?}] under [sandbox] in config.toml. It takes effect at once."
    ))
}

/// Returns the folders that commands see whatever lies around them.
fn seen_folders(rules: &SandboxRules) -> impl Iterator<Item = &PathBuf> {
    let named = [&rules.workspaces, &rules.write, &rules.read, &rules.shown];
    named.into_iter().flatten().chain(&rules.search_path)
}

/// Returns whether a path of the home is there, and commands do not see it.
fn is_unseen(rules: &SandboxRules, path: &Path) -> bool {
    let Some(home) = &rules.user_home else {
        return false;
    };
    path != home
        && path.starts_with(home)
        && !seen_folders(rules).any(|seen| path.starts_with(seen))
        && !is_shown(home, path)
        && path.symlink_metadata().is_ok()
}

/// Finds the first path of the home in a line that is there and that commands do not see.
pub(super) fn find_unseen_path(rules: &SandboxRules, line: &str) -> Option<PathBuf> {
    let mut named = named_paths(rules, line).into_iter();
    named.find(|path| is_unseen(rules, path))
}

/// Returns the absolute paths in a line, and those that begin with `~/`.
fn named_paths(rules: &SandboxRules, line: &str) -> Vec<PathBuf> {
    let is_end = |c: char| c.is_whitespace() || "'\"`:,;()[]<>‘’“”".contains(c);
    let words = line
        .split(is_end)
        .filter(|word| word.starts_with('/') && word.len() > 1);
    let home = |word: &str| {
        let rest = word.strip_prefix("~/")?;
        Some(rules.user_home.as_ref()?.join(rest))
    };
    // An address such as unix:///run/x begins with several slashes.
    words
        .map(|word| Path::new(word).components().collect())
        .chain(line.split(is_end).filter_map(home))
        .collect()
}

/// Finds the first path in a line that commands may not write. Where the mode keeps the user from reading, too, it is the
/// reason, and not the confinement.
pub(super) fn find_unwritable_path(rules: &SandboxRules, line: &str) -> Option<PathBuf> {
    // Not programs: many error messages begin with a script's own name.
    let is_readable =
        |path: &Path| may_user(READ_BIT, path) || find_shut_folder(rules, path).is_some();
    named_paths(rules, line)
        .into_iter()
        .filter(|path| !is_writable_path(rules, path) && is_readable(path))
        .find(|path| !path.starts_with("/bin") && !path.starts_with("/usr/bin"))
}

/// The bits of a mode for others.
const READ_BIT: u32 = 0o4;
const WRITE_BIT: u32 = 0o2;

/// Returns whether the mode of a path lets the runner's user do this; true for a path that is missing.
#[cfg(unix)]
fn may_user(bit: u32, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(cause) => return cause.kind() != std::io::ErrorKind::PermissionDenied,
    };
    let groups = || rustix::process::getgroups().unwrap_or_default();
    let is_of_group = |group: u32| {
        rustix::process::getegid().as_raw() == group
            || groups().iter().any(|one| one.as_raw() == group)
    };
    let class = if metadata.uid() == rustix::process::geteuid().as_raw() {
        6
    } else if is_of_group(metadata.gid()) {
        3
    } else {
        0
    };
    metadata.mode() >> class & bit != 0
}

#[cfg(not(unix))]
fn may_user(_: u32, _: &Path) -> bool {
    true
}

fn is_writable_path(rules: &SandboxRules, path: &Path) -> bool {
    let mut places = rules
        .workspaces
        .iter()
        .chain(&rules.write)
        .chain([&rules.temp]);
    places.any(|place| path.starts_with(place))
        || path.starts_with("/dev")
        || path.starts_with("/proc")
}

/// Returns whether commands read a path, so that they were refused writing it. A path that is missing was to be made.
fn is_readable_path(rules: &SandboxRules, path: &Path) -> bool {
    let hidden = super::hidden_paths::hidden_paths(rules).paths;
    if hidden.iter().any(|hole| path.starts_with(hole)) {
        return false;
    }
    let mut shown = seen_folders(rules).chain(&rules.user_home);
    let mut places = SYSTEM_FOLDERS.iter().chain(TEMP_PLACES);
    shown.any(|folder| path.starts_with(folder))
        || places.any(|folder| path.starts_with(folder))
        || path.symlink_metadata().is_err()
            && ["/root", "/mnt", "/media"]
                .iter()
                .all(|folder| !path.starts_with(folder))
}
