//! What can be wrong with the home, each with the way to mend it. Not here: problems of one skill or agent, which
//! never stop anything.

use std::io;
use std::path::{Path, PathBuf};

/// Why the home, or a file in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// The disk, the mount or the permissions say no.
    #[error("{} cannot be written: {source}. Free or mount the disk, or name another home with --home", path.display())]
    Unwritable {
        /// What was to be written.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It is there and cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// What was to be read.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Other users of the machine may read or change it.
    #[error(
        "{} is open to other users of this machine (mode {mode:04o}). Mend it with: chmod {mend} {}",
        path.display(),
        shell_word(path)
    )]
    TooOpen {
        /// What is too open.
        path: PathBuf,
        /// The mode it has.
        mode: u32,
        /// The argument of `chmod` that mends it.
        mend: &'static str,
    },
    /// It belongs to somebody else.
    #[error(
        "{} belongs to user {owner}, and this process runs as user {us}. Run as its owner, or name another home with \
         --home",
        path.display()
    )]
    NotOurs {
        /// What belongs to another user.
        path: PathBuf,
        /// The owner's number.
        owner: u32,
        /// Our own number.
        us: u32,
    },
    /// Something else lies where a folder or a plain file should.
    #[error("{} is not {wanted}. Move it aside, or name another home with --home", path.display())]
    WrongKind {
        /// Where.
        path: PathBuf,
        /// What should be there.
        wanted: &'static str,
    },
    /// The file does not hold what it should.
    #[error("{} is damaged: {why}. {mend}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
        /// What to do.
        mend: String,
    },
    /// The system's keychain does not keep or give the key of the owner's secrets.
    #[error(
        "the key of the secrets is not to be had from the system's keychain: {why}. Unlock it, or log in to the desktop \
         that it belongs to. Where it is lost, restore {} from a backup of the time when the key was in it; or move that \
         file and the secrets aside and set them again",
        file.display()
    )]
    Keychain {
        /// What was wrong, as a part of a sentence.
        why: String,
        /// The file that the key is in otherwise.
        file: PathBuf,
    },
    /// The home was copied here from the machine that the identity belongs to.
    #[error(
        "{} belongs to another machine: this home was copied. Two runners under one identity would take each other's \
         requests, and run some of them twice. Make this machine a device of its own with `punie-runner pair \
         --new-device CODE`; or, where it is the same machine after all, delete the entry \"machine\" from that file",
        record.display()
    )]
    OtherMachine {
        /// The file with the id and the machine.
        record: PathBuf,
    },
    /// One half of the device's identity is gone.
    #[error(
        "this device's identity is not whole: {} is missing while {} is there. Restore it from a backup; or move the \
         other half aside too and pair again, as a new device",
        missing.display(),
        present.display()
    )]
    HalfIdentity {
        /// The file that should be there.
        missing: PathBuf,
        /// The file that is.
        present: PathBuf,
    },
    /// The private key is not the one whose public half is written down.
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

/// Which of the three kinds of failure it is, for the exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// State cannot be written or read (73).
    Disk,
    /// Refused, because others could read or change it (77).
    Safety,
    /// What lies there is not what should (78).
    Content,
}

impl HomeError {
    /// Which kind of failure it is.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Unwritable { .. } | Self::Unreadable { .. } | Self::Keychain { .. } => Cause::Disk,
            Self::TooOpen { .. } | Self::NotOurs { .. } | Self::OtherMachine { .. } => Cause::Safety,
            Self::WrongKind { .. }
            | Self::Damaged { .. }
            | Self::HalfIdentity { .. }
            | Self::MixedIdentity { .. } => Cause::Content,
        }
    }

    /// The exit code of a command that stops at this.
    pub fn exit_code(&self) -> u8 {
        match self.cause() {
            Cause::Disk => 73,
            Cause::Safety => 77,
            Cause::Content => 78,
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

/// The path as it can be pasted into a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:".contains(c);
    if text.chars().all(plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_blanks_and_quotes_can_be_pasted() {
        assert_eq!(shell_word(Path::new("/home/me/.punie")), "/home/me/.punie");
        assert_eq!(shell_word(Path::new("/it's here")), r"'/it'\''s here'");
    }
}
