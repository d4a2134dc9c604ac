//! Named secrets, one per file that only this user may read, so that no command line needs them. Each belongs to a
//! backend and lies in a folder that is named after its address: `tokens/my-app.convex.cloud/caller`.

use std::fmt::Write as _;
use std::io::Read;
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::HomeError;
use super::file_modes::{self, FolderAccess};
use super::layout::Home;
use super::private_files::replace_private_file;
use punie_text::redact::Secret;

/// The most bytes of a token; tokens and signed claims in use are shorter.
const MAX_BYTES: u64 = 16 * 1024;

/// The secrets that have a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenName {
    /// The device's session with its backend.
    Device,
    /// The caller's token for tool requests, which agents get.
    Caller,
    /// The token of this home's own commands, whose user may approve as well.
    Approver,
    /// The owner's key to the embedded backend, which allows calling any function as Convex's own tools do.
    Admin,
    /// The backend's own access token, if it requires one.
    Backend,
}

impl TokenName {
    /// Returns the file's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Caller => "caller",
            Self::Approver => "approver",
            Self::Admin => "admin",
            Self::Backend => "backend",
        }
    }
}

const ALL: [TokenName; 5] = [
    TokenName::Device,
    TokenName::Caller,
    TokenName::Approver,
    TokenName::Admin,
    TokenName::Backend,
];
/// The file with the id of the deployment that answered last. It is not secret.
const BACKEND_ID: &str = "backend-id";

/// The tokens of one backend.
#[derive(Debug, Clone)]
pub struct BackendTokens {
    dir: PathBuf,
}

impl BackendTokens {
    /// Returns the tokens of the backend at this address.
    pub fn for_backend(home: &Home, address: &str) -> Self {
        Self {
            dir: home.tokens_dir().join(address_folder_name(address)),
        }
    }

    /// Returns the tokens of every backend that has some.
    ///
    /// # Errors
    /// [`HomeError`] when the folder cannot be read.
    pub fn for_all(home: &Home) -> Result<Vec<Self>, HomeError> {
        let dir = home.tokens_dir();
        let failed = HomeError::unreadable(&dir);
        let entries = std::fs::read_dir(&dir)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(failed)?;
        let folders = entries
            .into_iter()
            .map(|entry| entry.path())
            .filter(|path| path.is_dir());
        Ok(folders.map(|dir| Self { dir }).collect())
    }

    /// Returns the tokens of an earlier version, which stored them without a backend.
    pub fn unassigned(home: &Home) -> Self {
        Self {
            dir: home.tokens_dir(),
        }
    }

    /// Moves the tokens in `tokens/` itself to this backend, except the key of the embedded backend. An earlier version
    /// stored its tokens there, and the owner may still put one there.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn adopt_unassigned(&self, home: &Home) -> Result<(), HomeError> {
        let before = Self::unassigned(home);
        for name in ALL.into_iter().filter(|name| *name != TokenName::Admin) {
            self.move_token_from(&before, name)?;
            if before.path(name).is_file() && name != TokenName::Device {
                let unused = before.path(name);
                let used = self.path(name);
                tracing::warn!(unused = %unused.display(), used = %used.display(), "a token is not used, because there is one already");
            }
        }
        Ok(())
    }

    /// Moves a token here, if it exists there and not here.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn move_token_from(&self, other: &Self, name: TokenName) -> Result<(), HomeError> {
        let from = other.path(name);
        let to = self.path(name);
        if !from.is_file() || to.exists() {
            return Ok(());
        }
        self.ensure_dir()?;
        std::fs::rename(&from, &to).map_err(HomeError::unwritable(&to))
    }

    /// Renames a token that is not used any more.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn set_aside(&self, name: TokenName) -> Result<(), HomeError> {
        let path = self.path(name);
        let mut named = (1..1_000).map(|n| self.dir.join(format!("{}.old-{n}", name.as_str())));
        let aside = named
            .find(|path| !path.exists())
            .unwrap_or_else(|| path.with_extension("old"));
        std::fs::rename(&path, aside).map_err(HomeError::unwritable(&path))
    }

    /// Removes all tokens of this backend.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn remove(self) -> Result<(), HomeError> {
        std::fs::remove_dir_all(&self.dir).map_err(HomeError::unwritable(&self.dir))
    }

    /// Returns the id of the deployment that answered here last, if it sent one.
    pub fn id(&self) -> Option<String> {
        let path = self.dir.join(BACKEND_ID);
        let mut id = String::new();
        let file = file_modes::open_secret_file(&path).ok().flatten()?;
        file.take(256).read_to_string(&mut id).ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Stores the deployment's id.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn write_id(&self, id: &str) -> Result<(), HomeError> {
        if self.id().as_deref() == Some(id) {
            return Ok(());
        }
        self.ensure_dir()?;
        let path = self.dir.join(BACKEND_ID);
        replace_private_file(&path, id.as_bytes())
    }

    /// Reads every token that can be read.
    ///
    /// # Errors
    /// As [`BackendTokens::read`], except that an invalid session token is skipped, because the next session
    /// replaces it.
    pub fn read_all(&self) -> Result<Vec<Secret<String>>, HomeError> {
        let mut known = Vec::new();
        for name in ALL {
            match self.read(name) {
                Ok(token) => known.extend(token),
                Err(error @ HomeError::Damaged { .. }) if name == TokenName::Device => {
                    tracing::warn!(%error, "a new session will be opened");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(known)
    }

    fn ensure_dir(&self) -> Result<(), HomeError> {
        file_modes::ensure_dir(&self.dir, FolderAccess::OwnerOnly)
    }

    /// Returns the token's path, for messages.
    pub fn path(&self, name: TokenName) -> PathBuf {
        self.dir.join(name.as_str())
    }

    /// Reads the token, if its file exists, without surrounding blanks.
    ///
    /// # Errors
    /// [`HomeError`] when others may read the file, or it has no usable token.
    pub fn read(&self, name: TokenName) -> Result<Option<Secret<String>>, HomeError> {
        let path = self.path(name);
        let Some(file) = file_modes::open_secret_file(&path)? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(HomeError::unreadable(&path))?;
        let token = String::from_utf8(bytes)
            .map_err(|_| "it is not text")
            .and_then(|text| parse_token(&text));
        token.map(Some).map_err(|why| HomeError::Damaged {
            path: path.clone(),
            why: why.to_owned(),
            mend: "Put the token in it again, or remove it".to_owned(),
        })
    }

    /// Writes the token, replacing the old one.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written, or could not be read again.
    pub fn write(&self, name: TokenName, token: &Secret<String>) -> Result<(), HomeError> {
        let path = self.path(name);
        let token = self.check_new(name, token)?;
        self.ensure_dir()?;
        replace_private_file(&path, token.expose().as_bytes())
    }

    fn check_new(
        &self,
        name: TokenName,
        token: &Secret<String>,
    ) -> Result<Secret<String>, HomeError> {
        parse_token(token.expose()).map_err(|why| HomeError::Damaged {
            path: self.path(name),
            why: format!("the new token cannot be used: {why}"),
            mend: "Give another one; the old one was kept".to_owned(),
        })
    }
}

/// Names the folder of a backend's address by its host, port and path. Special characters are encoded, so that only
/// addresses that differ in `http` and `https` share a folder.
fn address_folder_name(address: &str) -> String {
    let place = address
        .split_once("://")
        .map_or(address, |(_scheme, place)| place);
    let mut name = String::new();
    for c in place.trim_end_matches('/').chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => name.push(c),
            ':' => name.push('_'),
            other => {
                // Writing to a `String` does not fail.
                let _ = write!(name, "%{:x}", u32::from(other));
            }
        }
    }
    // Files of these names may still exist here from earlier versions.
    if name.starts_with('.') || ALL.iter().any(|token| token.as_str() == name) {
        name.push('_');
    }
    name
}

/// Checks a token, which must fit into headers and JSON: printable, without blanks, of limited length.
fn parse_token(text: &str) -> Result<Secret<String>, &'static str> {
    let token = text.trim();
    if token.is_empty() {
        return Err("it is empty");
    }
    if token.len() as u64 > MAX_BYTES {
        return Err("it is longer than 16 KiB");
    }
    if !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("it has characters that no token has");
    }
    Ok(Secret::new(token.to_owned()))
}

/// Creates a random token: 32 bytes as base64url.
pub fn random_token() -> Secret<String> {
    Secret::new(URL_SAFE_NO_PAD.encode(random_bytes()))
}

/// Returns 32 bytes from the system's random source.
pub(super) fn random_bytes() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes)
        .expect("the system's random source does not fail once the system is up");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_folder_of_its_own() {
        for (address, name) in [
            ("https://my-app-123.convex.cloud", "my-app-123.convex.cloud"),
            ("http://127.0.0.1:3210", "127.0.0.1_3210"),
            ("http://[::1]:80", "%5b__1%5d_80"),
            ("https://example.com/convex/", "example.com%2fconvex"),
            ("http://backend", "backend_"),
            ("http://..", ".._"),
        ] {
            assert_eq!(address_folder_name(address), name);
        }
    }
}
