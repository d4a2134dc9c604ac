//! One open workspace folder, and the reason why a path beneath it cannot be resolved.

use std::ffi::OsStr;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::held::RootHandle;
use punie_text::normal_forms::is_same_text;

/// One open folder.
#[derive(Debug)]
pub(super) struct WorkspaceRoot {
    pub handle: RootHandle,
    pub canonical: PathBuf,
}

/// The reason why a path could not be resolved, found by trying one component after the other.
pub(super) enum ResolveFailure {
    /// The path changed meanwhile; it must be resolved again.
    Changed,
    /// The parent exists, the rest does not.
    Missing { parent: PathBuf, rest: PathBuf },
    /// The folder has the name in another of Unicode's normal forms.
    OtherForm { found: PathBuf, rest: PathBuf },
    /// A symlink that the kernel does not follow, or that is dangling.
    Link {
        parent: PathBuf,
        name: PathBuf,
        target: PathBuf,
        rest: PathBuf,
    },
    /// The path climbs out by itself.
    Outside,
    /// There is a file in place of a folder, and the path continues below it.
    NotFolder { file: PathBuf, rest: PathBuf },
    /// Any other error, such as missing permission.
    Failed(io::Error),
}

/// Finds out why a path cannot be resolved.
pub(super) fn find_resolve_failure(root: &WorkspaceRoot, rel: &Path) -> ResolveFailure {
    let parts: Vec<Component<'_>> = rel.components().collect();
    let mut parent = PathBuf::new();
    for (at, part) in parts.iter().enumerate() {
        let cause = match root.handle.resolve_beneath(&parent.join(part)) {
            Ok(found) => {
                parent = found;
                continue;
            }
            Err(cause) => cause,
        };
        let name: &OsStr = part.as_os_str();
        if matches!(part, Component::Normal(_))
            && let Ok(target) = root.handle.read_link_beneath(&parent, name)
        {
            let rest = parts[at + 1..].iter().collect();
            return ResolveFailure::Link {
                parent,
                name: name.into(),
                target,
                rest,
            };
        }
        let rest: PathBuf = parts[at..].iter().collect();
        if is_existing_file(root, &parent) {
            return ResolveFailure::NotFolder { file: parent, rest };
        }
        if cause.kind() == io::ErrorKind::NotFound
            && let Some(found) = find_other_form(root, &parent, name)
        {
            let rest = parts[at + 1..].iter().collect();
            return ResolveFailure::OtherForm { found, rest };
        }
        return match cause.kind() {
            io::ErrorKind::NotFound => ResolveFailure::Missing { parent, rest },
            io::ErrorKind::CrossesDevices => ResolveFailure::Outside,
            _ => ResolveFailure::Failed(cause),
        };
    }
    // Every component exists, so the slash at the end was refused.
    if is_existing_file(root, &parent) {
        return ResolveFailure::NotFolder {
            file: parent,
            rest: PathBuf::new(),
        };
    }
    ResolveFailure::Changed
}

/// Finds the entry of a folder whose name is this one in another of Unicode's normal forms.
fn find_other_form(root: &WorkspaceRoot, parent: &Path, name: &OsStr) -> Option<PathBuf> {
    let name = name.to_str().filter(|name| !name.is_ascii())?;
    let folder = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let names = root
        .handle
        .open_folder_beneath(folder)
        .ok()?
        .entry_names()
        .ok()?;
    let mut same = names.into_iter().filter(|entry| {
        entry
            .to_str()
            .is_some_and(|entry| is_same_text(entry, name))
    });
    let found = same.next()?;
    same.next().is_none().then(|| parent.join(found))
}

fn is_existing_file(root: &WorkspaceRoot, rel: &Path) -> bool {
    root.handle
        .metadata_beneath(rel)
        .is_ok_and(|metadata| !metadata.is_dir())
}
