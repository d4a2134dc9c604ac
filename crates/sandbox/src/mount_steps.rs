//! The steps by which a view of the files is made, in the mount namespace of its own.

use std::ffi::CString;

/// A step on the way to a view, made in the mount namespace of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MountStep {
    /// Makes every mount read-only and private.
    SealMounts,
    /// Mounts an empty file system at this folder.
    MountEmpty(CString),
    /// Makes a folder; one that exists is as good.
    MakeFolder(CString),
    /// Makes an empty file; one that exists is as good.
    MakeFile(CString),
    /// Makes a file with this text.
    WriteFile {
        /// The new file.
        at: CString,
        /// Its content.
        text: Vec<u8>,
    },
    /// Makes a symbolic link.
    MakeLink {
        /// The link.
        at: CString,
        /// The path that it leads to.
        target: CString,
    },
    /// Mounts a path with everything below it also at another. Skipped if one of them is not there.
    Bind {
        /// The path that is mounted.
        from: CString,
        /// The place of the mount.
        to: CString,
        /// The access through it.
        access: BindAccess,
    },
    /// Moves a mount with all that is mounted below it. Skipped if the place is not there.
    Move {
        /// The mount.
        from: CString,
        /// Its new place.
        to: CString,
        /// The mount itself becomes read-only, without those below it.
        read_only: bool,
    },
}

/// The access through a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindAccess {
    /// As the mount that it is taken from.
    Unchanged,
    /// Writable, except for inner mounts that the system keeps read-only.
    Writable,
    /// Read-only as a whole.
    ReadOnly,
}
