//! The session that a request belongs to: the program that shows it to its user, and the folders that it works in.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The most folders of a session.
const MOST_FOLDERS: usize = 16;
/// The most bytes of a client's name.
const MOST_CLIENT_BYTES: usize = 128;
/// The most bytes of a folder's path.
const MOST_PATH_BYTES: usize = 4096;

/// A session's client and folders, as the caller named them. The folders narrow the request; they grant nothing.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestSession {
    /// The client's name for people, such as `Claude Code`.
    pub client: String,
    /// Absolute paths, the session's own folder first. Never empty after [`RequestSession::check_limits`].
    pub folders: Vec<PathBuf>,
}

/// The reason why a session cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionMismatch(&'static str);

impl fmt::Display for SessionMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for SessionMismatch {}

impl RequestSession {
    /// Checks the lengths and that each path is absolute text on one line.
    ///
    /// # Errors
    /// The first limit that is not met.
    pub fn check_limits(&self) -> Result<(), SessionMismatch> {
        let name_fits = (1..=MOST_CLIENT_BYTES).contains(&self.client.len());
        if !name_fits || self.client.chars().any(char::is_control) {
            return Err(SessionMismatch(
                "session.client must be 1 to 128 bytes without control characters",
            ));
        }
        if !(1..=MOST_FOLDERS).contains(&self.folders.len()) {
            return Err(SessionMismatch(
                "session.folders must be 1 to 16 absolute paths",
            ));
        }
        let is_usable = |folder: &PathBuf| {
            folder.to_str().is_some_and(|path| {
                path.starts_with('/')
                    && path.len() <= MOST_PATH_BYTES
                    && !path.chars().any(char::is_control)
            })
        };
        if !self.folders.iter().all(is_usable) {
            return Err(SessionMismatch(
                "each of session.folders must be an absolute path of at most 4096 bytes without control characters",
            ));
        }
        Ok(())
    }

    /// Reads the JSON of a session and checks its limits.
    ///
    /// # Errors
    /// It is no session, or a limit is not met.
    pub fn from_json(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let session: Self = serde_json::from_str(text)?;
        session.check_limits()?;
        Ok(session)
    }

    /// Writes the JSON that [`RequestSession::from_json`] reads.
    ///
    /// # Panics
    /// If a path is not UTF-8, which [`RequestSession::check_limits`] refuses.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("both fields are text after check_limits")
    }

    /// The lines that a caller's signature covers: the client, then each folder.
    pub fn signed_lines(&self) -> String {
        let folders = self.folders.iter().map(|folder| folder.to_string_lossy());
        std::iter::once(self.client.as_str().into())
            .chain(folders)
            .collect::<Vec<std::borrow::Cow<'_, str>>>()
            .join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_outside_its_limits_is_refused() {
        let folders = |list: &[&str]| list.iter().map(PathBuf::from).collect::<Vec<_>>();
        let long = format!("/{}", "x".repeat(4096));
        let cases = [
            ("Claude Code", folders(&["/a", "/b/ü"]), true),
            ("", folders(&["/a"]), false),
            ("a\u{1b}[2J", folders(&["/a"]), false),
            ("x", folders(&[]), false),
            ("x", folders(&["/a"; 16]), true),
            ("x", folders(&["/a"; 17]), false),
            ("x", folders(&["a"]), false),
            ("x", folders(&["~/a"]), false),
            ("x", folders(&["/a\n/b"]), false),
            ("x", folders(&[&long]), false),
        ];
        for (client, folders, is_good) in cases {
            let session = RequestSession {
                client: client.to_owned(),
                folders,
            };
            assert_eq!(session.check_limits().is_ok(), is_good, "{session:?}");
            assert_eq!(
                RequestSession::from_json(&session.to_json()).is_ok(),
                is_good
            );
        }
    }
}
