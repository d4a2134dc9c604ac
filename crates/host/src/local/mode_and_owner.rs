//! Copies mode and owner to a file that replaces another.

use std::fs::{File, Metadata};
use std::io;

#[cfg(unix)]
use super::extended_attributes::{self, AclCopy};
use punie_core::file_metadata::is_executable;

/// Returns whether the file is executable already, or not, as requested.
pub(super) fn has_wanted_mode(metadata: &Metadata, executable: Option<bool>) -> bool {
    let found = is_executable(metadata);
    found.is_none() || executable.is_none() || found == executable
}

/// Copies mode, owner and attributes of the replaced file, and sets the execute permission. No user gets a right to
/// the new file that they did not have to the old one.
#[cfg(unix)]
pub fn copy_mode_and_owner(
    file: &File,
    old: Option<(&File, &Metadata)>,
    executable: Option<bool>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;

    let kept = match old {
        // The set-user-ID and set-group-ID bits are left out: a write in place clears them too.
        Some((old, metadata)) => {
            let group_stays = copy_owner(file, metadata, warnings)?;
            let acl = extended_attributes::copy_attributes(old, file, group_stays, warnings);
            mode_bits(metadata.permissions().mode() & 0o777, group_stays, acl)
        }
        None => file.metadata()?.permissions().mode() & 0o777,
    };
    let mode = match executable {
        Some(true) => kept | ((kept & 0o444) >> 2),
        Some(false) => kept & !0o111,
        None => kept,
    };
    if mode != file.metadata()?.permissions().mode() & 0o777 {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

/// Copies the old file's owner and group, and returns whether the group is the same then.
#[cfg(unix)]
fn copy_owner(file: &File, old: &Metadata, warnings: &mut Vec<String>) -> io::Result<bool> {
    use std::os::unix::fs::{MetadataExt, fchown};

    let new = file.metadata()?;
    if (old.uid(), old.gid()) == (new.uid(), new.gid())
        || fchown(file, Some(old.uid()), Some(old.gid())).is_ok()
    {
        return Ok(true);
    }
    let group_stays = old.gid() == new.gid() || fchown(file, None, Some(old.gid())).is_ok();
    warnings.push(if group_stays {
        "The file's owner could not be kept; it belongs to the runner's user now.".to_owned()
    } else {
        "The file's owner and group could not be kept; it belongs to the runner's user and group now, and the group has \
         no rights to it."
            .to_owned()
    });
    Ok(group_stays)
}

/// Returns the mode bits of the new file. Under an access control list, the group bits are the mask of all entries,
/// not the owning group's rights (acl(5)): without the list, the group would get them.
#[cfg(unix)]
fn mode_bits(old: u32, group_stays: bool, acl: AclCopy) -> u32 {
    match acl {
        _ if !group_stays => old & 0o707,
        AclCopy::Same => old,
        AclCopy::Lost { group } => old & (0o707 | group << 3),
    }
}

#[cfg(not(unix))]
pub fn copy_mode_and_owner(
    _file: &File,
    _old: Option<(&File, &Metadata)>,
    executable: Option<bool>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    if executable == Some(true) {
        warnings.push("This system has no executable bit; the name decides.".to_owned());
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn no_group_gets_what_only_a_mask_allowed_or_what_another_group_had() {
        assert_eq!(mode_bits(0o664, true, AclCopy::Same), 0o664);
        assert_eq!(mode_bits(0o664, true, AclCopy::Lost { group: 0 }), 0o604);
        assert_eq!(mode_bits(0o674, true, AclCopy::Lost { group: 4 }), 0o644);
        assert_eq!(mode_bits(0o664, false, AclCopy::Same), 0o604);
        assert_eq!(mode_bits(0o775, false, AclCopy::Lost { group: 7 }), 0o705);
    }
}
