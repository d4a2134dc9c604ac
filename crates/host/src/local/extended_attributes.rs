//! Copies extended attributes, including the access control list, to the file that replaces another (xattr(7), acl(5)).

use std::fs::File;

#[cfg(target_os = "linux")]
use rustix::fs::{XattrFlags, fgetxattr, flistxattr, flistxattr_query, fremovexattr, fsetxattr};
#[cfg(target_os = "linux")]
use rustix::io::{Errno, Result};

/// The result of copying the access control list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AclCopy {
    /// The new file has the same list, or neither file has one.
    Same,
    /// The new file has no list, or not the old file's.
    Lost {
        /// The rights of the owning group by the old list, as three bits.
        group: u32,
    },
}

/// Does nothing: only Linux has lists that the mode bits contradict.
#[cfg(not(target_os = "linux"))]
pub(super) fn copy_attributes(
    _from: &File,
    _to: &File,
    _group_stays: bool,
    _warnings: &mut Vec<String>,
) -> AclCopy {
    AclCopy::Same
}

#[cfg(target_os = "linux")]
const ACL: &str = "system.posix_acl_access";
/// Attributes that a write in place removes too, or that describe the old content.
#[cfg(target_os = "linux")]
const NOT_COPIED: [&str; 3] = ["security.capability", "security.ima", "security.evm"];
/// The kernel's limit for all names together, and for one value.
#[cfg(target_os = "linux")]
const MAX_ATTRIBUTE_BYTES: usize = 64 << 10;

/// Copies the old file's attributes to the new file. A list with group rights is not copied if the group has changed.
#[cfg(target_os = "linux")]
pub(super) fn copy_attributes(
    from: &File,
    to: &File,
    group_stays: bool,
    warnings: &mut Vec<String>,
) -> AclCopy {
    let mut lost = Vec::new();
    for name in attribute_names(from) {
        if name == ACL || NOT_COPIED.contains(&name.as_str()) {
            continue;
        }
        let copied = read_attribute(from, &name).and_then(|value| match value {
            Some(value) => fsetxattr(to, name.as_str(), &value, XattrFlags::empty()),
            None => Ok(()),
        });
        // The system labels a new file itself, and attributes for root only cannot be copied.
        if copied.is_err() && (name.starts_with("user.") || name.starts_with("system.")) {
            lost.push(name);
        }
    }
    if !lost.is_empty() {
        warnings.push(format!(
            "These attributes of the file could not be kept: {}.",
            lost.join(", ")
        ));
    }
    let acl = copy_acl(from, to, group_stays);
    if matches!(acl, AclCopy::Lost { .. }) {
        warnings.push(
            "The file's access control list could not be kept: those whom it named have no rights by it any more. \
             setfacl sets it again."
                .to_owned(),
        );
    }
    acl
}

#[cfg(target_os = "linux")]
fn copy_acl(from: &File, to: &File, group_stays: bool) -> AclCopy {
    let Ok(old) = read_attribute(from, ACL) else {
        return remove_acl(to, 0);
    };
    match old {
        Some(old) if group_stays && fsetxattr(to, ACL, &old, XattrFlags::empty()).is_ok() => {
            AclCopy::Same
        }
        Some(old) => remove_acl(to, group_rights(&old)),
        // A list inherited from the folder would name other users than the old file did.
        None => match fremovexattr(to, ACL) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => AclCopy::Same,
            Err(_) => AclCopy::Lost { group: 0 },
        },
    }
}

/// Removes the new file's list, even one inherited from its folder.
#[cfg(target_os = "linux")]
fn remove_acl(to: &File, group: u32) -> AclCopy {
    let removed = fremovexattr(to, ACL);
    let is_gone = matches!(removed, Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP));
    // If a list stays, the mode's group bits are its mask. No bits are set then, so the list grants nothing.
    AclCopy::Lost {
        group: if is_gone { group } else { 0 },
    }
}

/// Returns the rights of the owning group by this list: its own entry, limited by the mask. The kernel's format is a
/// version, then entries of a tag, rights and an id, all little-endian.
#[cfg(target_os = "linux")]
fn group_rights(acl: &[u8]) -> u32 {
    const OWNING_GROUP: u16 = 0x04;
    const MASK: u16 = 0x10;
    let entries = acl.get(4..).unwrap_or_default().chunks_exact(8);
    let of = |wanted: u16| {
        entries
            .clone()
            .find(|entry| u16::from_le_bytes([entry[0], entry[1]]) == wanted)
            .map(|entry| entry[2])
    };
    u32::from(of(OWNING_GROUP).unwrap_or(0) & of(MASK).unwrap_or(7) & 7)
}

/// Lists the names of a file's attributes; empty if the file system has none.
#[cfg(target_os = "linux")]
fn attribute_names(of: &File) -> Vec<String> {
    if matches!(flistxattr_query(of), Err(_) | Ok(0)) {
        return Vec::new();
    }
    let mut names = vec![0_u8; MAX_ATTRIBUTE_BYTES];
    let length = flistxattr(of, &mut names[..]).unwrap_or(0);
    let names = names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    names
        .filter_map(|name| String::from_utf8(name.to_vec()).ok())
        .collect()
}

/// Reads an attribute's value, or `None` if it is not set.
#[cfg(target_os = "linux")]
fn read_attribute(of: &File, name: &str) -> Result<Option<Vec<u8>>> {
    let mut value = vec![0_u8; MAX_ATTRIBUTE_BYTES];
    match fgetxattr(of, name, &mut value[..]) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some(value))
        }
        Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(None),
        Err(cause) => Err(cause),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_owning_group_has_what_its_entry_says_within_the_mask() {
        let entry = |tag: u16, rights: u16, id: u32| {
            [
                &tag.to_le_bytes()[..],
                &rights.to_le_bytes(),
                &id.to_le_bytes(),
            ]
            .concat()
        };
        let acl = |group: u16, mask: u16| {
            let entries = [
                entry(1, 6, u32::MAX),
                entry(2, 6, 65_534),
                entry(4, group, u32::MAX),
            ];
            [
                2_u32.to_le_bytes().to_vec(),
                entries.concat(),
                entry(16, mask, u32::MAX),
                entry(32, 0, u32::MAX),
            ]
            .concat()
        };
        assert_eq!(
            [(0, 6), (4, 6), (7, 4), (6, 0)].map(|(group, mask)| group_rights(&acl(group, mask))),
            [0, 4, 4, 0]
        );
        assert_eq!(group_rights(b"nothing"), 0);
    }
}
