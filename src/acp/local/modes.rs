//! Mode and owner of a file that replaces another. Not here: its content.

use std::fs::{File, Metadata};
use std::io;

/// Whether the file has the right to be run that is wanted for it already.
#[cfg(unix)]
pub(super) fn mode_stays(metadata: &Metadata, executable: Option<bool>) -> bool {
    use std::os::unix::fs::PermissionsExt;
    executable.is_none_or(|wanted| (metadata.permissions().mode() & 0o100 != 0) == wanted)
}

#[cfg(not(unix))]
pub(super) fn mode_stays(_metadata: &Metadata, _executable: Option<bool>) -> bool {
    true
}

/// Mode and owner of the file that is replaced, and the right to run it.
#[cfg(unix)]
pub(super) fn set_mode(
    file: &File,
    old: Option<&Metadata>,
    executable: Option<bool>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    let new = file.metadata()?;
    if let Some(old) = old
        && (old.uid(), old.gid()) != (new.uid(), new.gid())
        && fchown(file, Some(old.uid()), Some(old.gid())).is_err()
    {
        warnings.push("The file's owner could not be kept; it belongs to the runner's user now.".to_owned());
    }
    // Without the set-user and set-group bits, which a write in place takes away too.
    let kept = old.unwrap_or(&new).permissions().mode() & 0o777;
    let mode = match executable {
        Some(true) => kept | ((kept & 0o444) >> 2),
        Some(false) => kept & !0o111,
        None => kept,
    };
    if mode != new.permissions().mode() & 0o777 {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(not(unix))]
pub(super) fn set_mode(
    _file: &File,
    _old: Option<&Metadata>,
    executable: Option<bool>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    if executable == Some(true) {
        warnings.push("This system has no executable bit; the name decides.".to_owned());
    }
    Ok(())
}
