//! The source of an import: a folder, an archive or a git repository.

use std::fs;
use std::path::{Path, PathBuf};

const ARCHIVE_ENDINGS: &[&str] = &[".tar.gz", ".tgz", ".tar", ".zip"];

/// A folder, an archive or a git repository with skills or agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportSource {
    /// A folder, by its absolute path.
    Folder(PathBuf),
    /// An archive, by its absolute path.
    Archive(PathBuf),
    /// The address of a repository.
    Repository(String),
}

impl ImportSource {
    /// Parses a source as the owner types it: a path, or the address of a git repository.
    ///
    /// # Errors
    /// The reason why it is none, as a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.contains("://") || is_scp_address(text) {
            return check_address(text).map(|()| Self::Repository(text.to_owned()));
        }
        let path = fs::canonicalize(text).map_err(|error| format!("{text}: {error}"))?;
        if path.is_dir() {
            return Ok(Self::Folder(path));
        }
        if path.is_file() && archive_stem(&path).is_some() {
            return Ok(Self::Archive(path));
        }
        Err(format!(
            "{text} is neither a folder nor an archive ({}), nor the address of a git repository",
            ARCHIVE_ENDINGS.join(", ")
        ))
    }

    /// Returns the source as it is stored and shown.
    pub fn as_text(&self) -> String {
        match self {
            Self::Folder(path) | Self::Archive(path) => path.display().to_string(),
            Self::Repository(address) => address.clone(),
        }
    }

    /// Returns the name of the source, for a document at its root.
    pub(super) fn root_name(&self) -> String {
        let file_name = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        match self {
            Self::Folder(path) => file_name(path),
            Self::Archive(path) => archive_stem(path).unwrap_or_default(),
            Self::Repository(address) => {
                let last = address.trim_end_matches('/').rsplit(['/', ':']).next();
                let last = last.unwrap_or_default();
                last.strip_suffix(".git").unwrap_or(last).to_owned()
            }
        }
    }
}

/// Returns the name of an archive without its ending.
fn archive_stem(path: &Path) -> Option<String> {
    let name = path.file_name()?.to_str()?;
    let stems = ARCHIVE_ENDINGS
        .iter()
        .filter_map(|ending| name.strip_suffix(ending));
    stems.map(str::to_owned).next()
}

/// Returns whether a text is an address such as `git@example.com:team/skills`.
fn is_scp_address(text: &str) -> bool {
    let host = text.split_once(':').map(|(host, _)| host);
    host.is_some_and(|host| host.contains('@') && !host.contains('/'))
}

fn check_address(address: &str) -> Result<(), String> {
    let scheme = address
        .split_once("://")
        .map_or("ssh", |(scheme, _)| scheme);
    if !["https", "ssh", "file"].contains(&scheme) {
        return Err(format!(
            "{address}: repositories are cloned over https, ssh or file only, because others can be changed on the way"
        ));
    }
    let host = address.split("://").nth(1).unwrap_or_default();
    let user = host
        .split('/')
        .next()
        .and_then(|host| host.rsplit_once('@'));
    if user.is_some_and(|(user, _)| user.contains(':') || scheme == "https") {
        return Err(
            "the address has a password or token in it, which would be stored. Clone the repository yourself and \
             import the folder"
                .to_owned(),
        );
    }
    if address.starts_with('-') || address.chars().any(|c| c.is_control() || c == ' ') {
        return Err(format!("{address:?} is not an address"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_are_unsafe_are_refused() {
        for fine in [
            "https://example.com/team/skills.git",
            "ssh://git@example.com/skills",
            "git@example.com:team/skills.git",
            "file:///srv/skills",
        ] {
            let source = ImportSource::parse(fine).expect(fine);
            assert_eq!(source.root_name(), "skills", "{fine}");
            assert_eq!(source.as_text(), fine);
        }
        for bad in [
            "http://example.com/x",
            "git://example.com/x",
            "ext::sh -c id://x",
            "https://user:token@example.com/x",
            "https://token@example.com/x",
            "--upload-pack=id://x",
            "-a@b:c",
            "/no/such/path",
        ] {
            ImportSource::parse(bad).expect_err(bad);
        }
    }
}
