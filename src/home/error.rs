//! The errors of the home, each with advice.

use std::io;
use std::path::{Path, PathBuf};

use super::command_hint::{command_to_type, shell_word};

/// The reason why the home, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The disk, the mount or the permissions prevent writing.
    #[error("{} cannot be written: {source}. {}, or name another home with --home", path.display(), write_remedy(source))]
    Unwritable {
        /// The file or folder to be written.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// It exists but cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file or folder to be read.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Other users of the machine may read or change it.
    #[error(
        "{} is open to other users of this machine (mode {mode:04o}). Mend it with: chmod {mend} {}",
        path.display(),
        shell_word(&path.display().to_string())
    )]
    TooOpen {
        /// The file or folder.
        path: PathBuf,
        /// Its mode.
        mode: u32,
        /// The argument of `chmod` that fixes it.
        mend: &'static str,
    },
    /// It belongs to another user.
    #[error(
        "{} belongs to user {owner}, and this process runs as user {us}. Run as its owner, or name another home with \
         --home",
        path.display()
    )]
    NotOurs {
        /// The file or folder.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
        /// The user id of this process.
        us: u32,
    },
    /// It is neither the folder nor the plain file that is needed.
    #[error("{} is not {wanted}. Move it aside, or name another home with --home", path.display())]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// The kind of file that is needed.
        wanted: &'static str,
    },
    /// The file has wrong content.
    #[error("{} is damaged: {why}. {mend}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        why: String,
        /// The advice.
        mend: String,
    },
    /// The system's keychain does not store or return the key of the owner's secrets.
    #[error(
        "the key of the secrets is not to be had from the system's keychain: {why}. Unlock it, or log in to the desktop \
         that it belongs to. Where it is lost, restore {} from a backup of the time when the key was in it; or move that \
         file and the secrets aside and set them again",
        file.display()
    )]
    Keychain {
        /// The reason, as part of a sentence.
        why: String,
        /// The file that holds the key otherwise.
        file: PathBuf,
    },
    /// The home was copied here from the machine that the identity belongs to.
    #[error(
        "{} belongs to another machine: this home was copied. Two runners under one identity would take each other's \
         requests, and run some of them twice. Make this machine a device of its own with `{}`; or, where it is the same \
         machine after all, delete the entry \"machine\" from that file",
        record.display(),
        command_to_type("pair --new-device CODE")
    )]
    OtherMachine {
        /// The file with the id and the machine.
        record: PathBuf,
    },
    /// One half of the device's identity is missing.
    #[error(
        "this device's identity is not whole: {} is missing while {} is there. Restore it from a backup; or move the \
         other half aside too and pair again, as a new device",
        missing.display(),
        present.display()
    )]
    HalfIdentity {
        /// The missing file.
        missing: PathBuf,
        /// The existing file.
        present: PathBuf,
    },
    /// The private key does not match the recorded public key.
    #[error(
        "this device's identity does not fit together: {} is not the key of {}. Restore both from one backup; or move \
         both aside and pair again, as a new device",
        key.display(),
        record.display()
    )]
    MixedIdentity {
        /// The file with the private key.
        key: PathBuf,
        /// The file with the id and the public key.
        record: PathBuf,
    },
}

/// The kind of a failure, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HomeFailureKind {
    /// State cannot be written or read (73).
    Disk,
    /// Refused, because others could read or change it (77).
    Safety,
    /// The content of a file is wrong (78).
    Content,
}

impl HomeError {
    /// Returns the kind of failure.
    pub fn failure_kind(&self) -> HomeFailureKind {
        match self {
            Self::Unwritable { .. } | Self::Unreadable { .. } | Self::Keychain { .. } => {
                HomeFailureKind::Disk
            }
            Self::TooOpen { .. } | Self::NotOurs { .. } | Self::OtherMachine { .. } => {
                HomeFailureKind::Safety
            }
            Self::WrongKind { .. }
            | Self::Damaged { .. }
            | Self::HalfIdentity { .. }
            | Self::MixedIdentity { .. } => HomeFailureKind::Content,
        }
    }

    /// Returns the exit code of a command that stops with this error.
    pub fn exit_code(&self) -> u8 {
        match self.failure_kind() {
            HomeFailureKind::Disk => 73,
            HomeFailureKind::Safety => 77,
            HomeFailureKind::Content => 78,
        }
    }

    pub(super) fn unwritable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Unwritable { path, source }
    }

    pub(super) fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Unreadable { path, source }
    }
}

/// Returns what a person can do so that a file can be written.
fn write_remedy(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::PermissionDenied => "Give this user the right to write there",
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "Free space on that disk",
        io::ErrorKind::ReadOnlyFilesystem => "Mount that disk so that it can be written",
        _ => "Free or mount the disk",
    }
}
