//! The owner's policy in the home: the text of policy.toml, and the grants beside it.

use std::fs;
use std::io::{self, ErrorKind, Read};
use std::path::PathBuf;
use std::time::Duration;

use super::error::HomeError;
use super::layout::Home;
use super::private_files::create_private_file;
use punie_core::bounded_file::{FinalLink, open_nonblocking};
use punie_core::durable::{self, FileStamp, Readers};
use punie_core::ids::RequestId;

/// The time in which a changed file must stay the same, because an editor may still be saving it.
const SETTLE_INTERVAL: Duration = Duration::from_millis(30);
/// The most checks before the text is used as it is.
const MAX_SETTLE_CHECKS: u32 = 10;
/// The largest file that is read.
const MAX_BYTES: u64 = 1024 * 1024;

/// The text of policy.toml.
#[derive(Debug, Clone)]
pub struct PolicyFile {
    path: PathBuf,
    workspaces: Vec<PathBuf>,
}

/// The metadata that changes with the file; `None` if there is no file.
pub type PolicyStamp = FileStamp;

impl PolicyFile {
    /// Returns the policy file of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            path: home.policy_file(),
            workspaces: Vec::new(),
        }
    }

    /// Refuses a symlink into one of these folders (absolute, without symlinks), where a call could change its own
    /// rules.
    #[must_use]
    pub fn outside_workspaces(self, workspaces: Vec<PathBuf>) -> Self {
        Self { workspaces, ..self }
    }

    /// Returns its path.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Returns the file's current stamp.
    ///
    /// # Errors
    /// The system's error, unless there is no file.
    pub fn read_stamp(&self) -> io::Result<PolicyStamp> {
        durable::read_file_stamp(&self.path)
    }

    /// Reads the current text; `None` if there is no file.
    ///
    /// # Errors
    /// The system's error. `InvalidData` if it is not a file, too large or not UTF-8; `PermissionDenied` if others may
    /// write it.
    pub fn read_checked(&self) -> io::Result<Option<String>> {
        let Some(found) = durable::allow_missing(fs::symlink_metadata(&self.path))? else {
            return Ok(None);
        };
        check_ours(&found)?;
        if found.is_symlink() {
            self.check_target()?;
        }
        durable::allow_missing(self.read_text())
    }

    /// Reads the content of the file.
    fn read_text(&self) -> io::Result<String> {
        let invalid = |text: &str| Err(io::Error::new(ErrorKind::InvalidData, text));
        let file = open_nonblocking(&self.path, FinalLink::Follow)?;
        if !file.metadata()?.is_file() {
            return invalid("is no file; put a file with the rules here, or remove it");
        }
        let mut text = String::new();
        file.take(MAX_BYTES + 1).read_to_string(&mut text)?;
        if text.len() as u64 > MAX_BYTES {
            return invalid("is larger than 1 MiB; keep fewer rules in it");
        }
        Ok(text)
    }

    /// Checks the target of a symlink like the file itself.
    fn check_target(&self) -> io::Result<()> {
        let target = fs::canonicalize(&self.path).map_err(|error| {
            let text = format!(
                "is a link that leads nowhere ({error}); remove it, or mend what it leads to"
            );
            io::Error::new(ErrorKind::InvalidData, text)
        })?;
        if self
            .workspaces
            .iter()
            .any(|folder| target.starts_with(folder))
        {
            let text = "is a link into a workspace, where a call could change the rules; put the file itself here";
            return Err(io::Error::new(ErrorKind::PermissionDenied, text));
        }
        check_ours(&fs::metadata(&target)?)
    }

    /// Reads the text once it has stopped changing, with the stamp it had then. Blocks for a moment.
    ///
    /// # Errors
    /// The system's error.
    pub fn read_settled(&self) -> io::Result<(Option<String>, PolicyStamp)> {
        let mut before = self.read_stamp()?;
        for _ in 0..MAX_SETTLE_CHECKS {
            std::thread::park_timeout(SETTLE_INTERVAL);
            let text = self.read_checked()?;
            let after = self.read_stamp()?;
            if after == before {
                return Ok((text, after));
            }
            before = after;
        }
        Ok((self.read_checked()?, before))
    }

    /// Writes the file.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn write(&self, text: &str) -> Result<(), HomeError> {
        let readers = if self.path.exists() {
            Readers::AsBefore
        } else {
            Readers::OwnerOnly
        };
        durable::replace_file(&self.path, text.as_bytes(), readers)
            .map_err(HomeError::unwritable(&self.path))
    }
}

/// Fails if another user may write the file, and so could set the rules.
#[cfg(unix)]
fn check_ours(found: &fs::Metadata) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let is_ours = found.uid() == rustix::process::geteuid().as_raw();
    if !is_ours || (found.is_file() && found.mode() & 0o022 != 0) {
        let text = "belongs to another user or may be written by others; chmod go-w it";
        return Err(io::Error::new(ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

#[cfg(not(unix))]
#[expect(
    clippy::unnecessary_wraps,
    reason = "elsewhere there is something to check"
)]
fn check_ours(_: &fs::Metadata) -> io::Result<()> {
    Ok(())
}

/// The grants of a home: one file each, and beside it the name of the request that used it up.
#[derive(Debug, Clone)]
pub struct GrantFiles {
    folder: PathBuf,
}

impl GrantFiles {
    /// Returns the grants of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            folder: home.grants_dir(),
        }
    }

    fn file(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.json"))
    }

    fn used_marker(&self, id: &str) -> PathBuf {
        self.folder.join(format!("{id}.used"))
    }

    /// Stores a grant.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn store(&self, id: &str, text: &[u8]) -> Result<(), HomeError> {
        let path = self.file(id);
        create_private_file(&path, text)
    }

    /// Returns the texts of all grants, used up or not.
    pub fn texts(&self) -> Vec<Vec<u8>> {
        let files = fs::read_dir(&self.folder)
            .into_iter()
            .flatten()
            .flatten()
            .map(|file| file.path());
        let mut files: Vec<PathBuf> = files
            .filter(|path| path.extension().is_some_and(|ending| ending == "json"))
            .collect();
        files.sort();
        files
            .iter()
            .filter_map(|path| fs::read(path).ok())
            .collect()
    }

    /// Returns the request that used a grant up; an empty name if that cannot be read.
    pub fn used_by(&self, id: &str) -> Option<String> {
        match fs::read_to_string(self.used_marker(id)) {
            Ok(request) => Some(request),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(_) => Some(String::new()),
        }
    }

    /// Uses a grant up for this request, durably. Returns whether the grant belongs to this request; a repeated call
    /// gives the same answer.
    pub fn claim(&self, id: &str, request: &RequestId) -> bool {
        match durable::create_file(
            &self.used_marker(id),
            request.as_str().as_bytes(),
            Readers::OwnerOnly,
        ) {
            Ok(()) => true,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                self.used_by(id).is_some_and(|by| by == request.as_str())
            }
            Err(error) => {
                tracing::warn!(%error, "a grant cannot be used up, so it is not used");
                false
            }
        }
    }

    /// Removes a grant.
    pub fn remove(&self, id: &str) {
        // The grant first, because the other file is ignored without it.
        for path in [self.file(id), self.used_marker(id)] {
            if let Err(error) = durable::allow_missing(fs::remove_file(&path)) {
                tracing::warn!(path = %path.display(), %error, "a grant that is over cannot be removed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grant_is_one_request_s_and_stays_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let grants = GrantFiles {
            folder: folder.path().to_owned(),
        };
        let request = |text: &str| RequestId::parse(text).expect("an id");
        grants.store("g1", b"{}").expect("written");
        assert_eq!(
            (grants.texts(), grants.used_by("g1")),
            (vec![b"{}".to_vec()], None)
        );
        assert!(grants.claim("g1", &request("a")) && grants.claim("g1", &request("a")));
        assert!(!grants.claim("g1", &request("b")));
        assert_eq!(grants.used_by("g1").as_deref(), Some("a"));
        grants.remove("g1");
        assert_eq!((grants.texts().len(), grants.used_by("g1")), (0, None));
    }

    #[cfg(unix)]
    #[test]
    fn rules_that_others_may_write_are_not_read() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| PolicyFile {
            path: folder.path().join(name),
            workspaces: Vec::new(),
        };
        let file = at("policy.toml");
        assert_eq!(file.read_settled().expect("nothing is there"), (None, None));
        file.write("default = \"ask\"").expect("written");
        assert_eq!(
            file.read_settled().expect("read").0.as_deref(),
            Some("default = \"ask\"")
        );
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o666)).expect("opened up");
        assert_eq!(
            file.read_checked().expect_err("others may write it").kind(),
            ErrorKind::PermissionDenied
        );
        let pipe = at("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            pipe.path(),
            rustix::fs::FileType::Fifo,
            mode,
            0,
        )
        .expect("made");
        let large = at("large");
        large.write(&" ".repeat(1024 * 1024 + 1)).expect("written");
        for (file, words) in [(&pipe, "is no file"), (&large, "larger than 1 MiB")] {
            let error = file.read_checked().expect_err(words);
            assert!(
                error.kind() == ErrorKind::InvalidData && error.to_string().contains(words),
                "{error}"
            );
        }
        let link = at("link");
        std::os::unix::fs::symlink(file.path(), link.path()).expect("linked");
        assert_eq!(
            link.read_checked()
                .expect_err("others may write what it leads to")
                .kind(),
            ErrorKind::PermissionDenied
        );
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o600)).expect("closed");
        assert_eq!(
            link.read_checked().expect("read").as_deref(),
            Some("default = \"ask\"")
        );
        let root = fs::canonicalize(folder.path()).expect("a folder");
        let inside = link.clone().outside_workspaces(vec![root]);
        assert_eq!(
            inside
                .read_checked()
                .expect_err("a call could write it")
                .kind(),
            ErrorKind::PermissionDenied
        );
        fs::remove_file(file.path()).expect("removed");
        assert_eq!(
            link.read_checked()
                .expect_err("rules that are gone are not none")
                .kind(),
            ErrorKind::InvalidData
        );
    }
}
