//! Named secrets, one per file that only this user may read, so that none needs to be on a command line. Each belongs to
//! a backend and lies in a folder that is named after its address: `tokens/my-app.convex.cloud/caller`.
//! Not here: the device's private key.
#![expect(clippy::disallowed_methods, reason = "this file moves and lists the files of tokens")]

use std::fmt::Write as _;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::error::HomeError;
use super::layout::Home;
use super::modes::{self, Openness};
use crate::durable::{self, Readers};
use crate::redact::Secret;

/// Longer than any token or signed claim in use.
const MAX_BYTES: u64 = 16 * 1024;

/// The secrets that have a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TokenName {
    /// The device's session with its backend.
    Device,
    /// What a caller shows to ask for tools.
    Caller,
    /// What the owner of the embedded backend shows to call any function as Convex's own tools do.
    Admin,
    /// What the backend itself wants to be shown, where it wants something.
    Backend,
}

impl TokenName {
    /// The file's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Device => "device",
            Self::Caller => "caller",
            Self::Admin => "admin",
            Self::Backend => "backend",
        }
    }
}

/// All of them.
const ALL: [TokenName; 4] = [TokenName::Device, TokenName::Caller, TokenName::Admin, TokenName::Backend];
/// The file with the id of the deployment that answered last. It is no secret.
const BACKEND_ID: &str = "backend-id";

/// The tokens of one backend.
#[derive(Debug, Clone)]
pub struct Tokens {
    dir: PathBuf,
}

impl Tokens {
    /// The tokens of the backend at this address.
    pub fn of(home: &Home, address: &str) -> Self {
        Self { dir: home.tokens_dir().join(folder_name(address)) }
    }

    /// Those of every backend that has some.
    ///
    /// # Errors
    /// [`HomeError`] when the folder cannot be read.
    pub fn of_all(home: &Home) -> Result<Vec<Self>, HomeError> {
        let dir = home.tokens_dir();
        let failed = HomeError::unreadable(&dir);
        let entries =
            std::fs::read_dir(&dir).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(failed)?;
        let folders = entries.into_iter().map(|entry| entry.path()).filter(|path| path.is_dir());
        Ok(folders.map(|dir| Self { dir }).collect())
    }

    /// Those that a version before this one kept, without saying whose they are.
    pub fn unassigned(home: &Home) -> Self {
        Self { dir: home.tokens_dir() }
    }

    /// Gives this backend what lies in `tokens/` itself, but for the key of the embedded backend: a version before this
    /// one kept its tokens there, and their owner may put one there.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn adopt_unassigned(&self, home: &Home) -> Result<(), HomeError> {
        let before = Self::unassigned(home);
        for name in [TokenName::Device, TokenName::Caller, TokenName::Backend] {
            self.take_from(&before, name)?;
            if before.path(name).is_file() && name != TokenName::Device {
                let (unused, used) = (before.path(name), self.path(name));
                tracing::warn!(unused = %unused.display(), used = %used.display(), "a token is not used, because there is one already");
            }
        }
        Ok(())
    }

    /// Moves a token here, if it is there and none is here.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn take_from(&self, other: &Self, name: TokenName) -> Result<(), HomeError> {
        let (from, to) = (other.path(name), self.path(name));
        if !from.is_file() || to.exists() {
            return Ok(());
        }
        self.make_dir()?;
        std::fs::rename(&from, &to).map_err(HomeError::unwritable(&to))
    }

    /// Gives a token that is not used any more a name that nothing looks for.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn set_aside(&self, name: TokenName) -> Result<(), HomeError> {
        let path = self.path(name);
        let mut named = (1..1_000).map(|n| self.dir.join(format!("{}.old-{n}", name.as_str())));
        let aside = named.find(|path| !path.exists()).unwrap_or_else(|| path.with_extension("old"));
        std::fs::rename(&path, aside).map_err(HomeError::unwritable(&path))
    }

    /// Removes all of them.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn remove(self) -> Result<(), HomeError> {
        std::fs::remove_dir_all(&self.dir).map_err(HomeError::unwritable(&self.dir))
    }

    /// The id of the deployment that answered here last, where it said one.
    pub fn backend_id(&self) -> Option<String> {
        let path = self.dir.join(BACKEND_ID);
        let mut id = String::new();
        let file = modes::open_secret(&path).ok().flatten()?;
        file.take(256).read_to_string(&mut id).ok()?;
        Some(id.trim().to_owned()).filter(|id| !id.is_empty())
    }

    /// Keeps that id.
    ///
    /// # Errors
    /// [`HomeError::Unwritable`].
    pub fn keep_backend_id(&self, id: &str) -> Result<(), HomeError> {
        if self.backend_id().as_deref() == Some(id) {
            return Ok(());
        }
        self.make_dir()?;
        let path = self.dir.join(BACKEND_ID);
        durable::replace_file(&path, id.as_bytes(), Readers::OwnerOnly).map_err(HomeError::unwritable(&path))
    }

    /// Every token that can be read.
    ///
    /// # Errors
    /// As [`Tokens::read`]; but a session's token that is none is passed over: the next session replaces it.
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

    fn make_dir(&self) -> Result<(), HomeError> {
        modes::ensure_dir(&self.dir, Openness::OursAlone)
    }

    /// The folder.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where this token lies, for messages.
    pub fn path(&self, name: TokenName) -> PathBuf {
        self.dir.join(name.as_str())
    }

    /// The token, if its file is there. Blanks around it are not part of it.
    ///
    /// # Errors
    /// [`HomeError`] when others may read the file, or it holds no usable token.
    pub fn read(&self, name: TokenName) -> Result<Option<Secret<String>>, HomeError> {
        let path = self.path(name);
        let Some(file) = modes::open_secret(&path)? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(HomeError::unreadable(&path))?;
        let token = String::from_utf8(bytes).map_err(|_| "it is not text").and_then(|text| usable(&text));
        token.map(Some).map_err(|why| HomeError::Damaged {
            path: path.clone(),
            why: why.to_owned(),
            mend: "Put the token in it again, or remove it".to_owned(),
        })
    }

    /// Writes the token in place of the old one.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written, or could not be read again.
    pub fn write(&self, name: TokenName, token: &Secret<String>) -> Result<(), HomeError> {
        let path = self.path(name);
        let token = self.checked(name, token)?;
        self.make_dir()?;
        durable::replace_file(&path, token.expose().as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&path))
    }

    /// The token, made now if there is none. Of several at once, one makes it and all get the same.
    ///
    /// # Errors
    /// As [`Tokens::read`] and [`Tokens::write`].
    pub fn read_or_mint(&self, name: TokenName) -> Result<Secret<String>, HomeError> {
        let path = self.path(name);
        self.make_dir()?;
        loop {
            if let Some(token) = self.read(name)? {
                return Ok(token);
            }
            let token = fresh_token();
            match durable::create_file(&path, token.expose().as_bytes(), Readers::OwnerOnly) {
                Ok(()) => return Ok(token),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(HomeError::unwritable(&path)(error)),
            }
        }
    }

    fn checked(&self, name: TokenName, token: &Secret<String>) -> Result<Secret<String>, HomeError> {
        usable(token.expose()).map_err(|why| HomeError::Damaged {
            path: self.path(name),
            why: format!("the new token cannot be used: {why}"),
            mend: "Give another one; the old one was kept".to_owned(),
        })
    }
}

/// The folder of a backend's address: its host, its port where it has one, its path. What stands in a URL and not in a
/// plain name is told apart, so that no two addresses share a folder but those that differ in `http` and `https`.
fn folder_name(address: &str) -> String {
    let place = address.split_once("://").map_or(address, |(_scheme, place)| place);
    let mut name = String::new();
    for c in place.trim_end_matches('/').chars() {
        match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '-' => name.push(c),
            ':' => name.push('_'),
            other => {
                // Writing to a text does not fail.
                let _ = write!(name, "%{:x}", u32::from(other));
            }
        }
    }
    // Files of these names stood here before, and may still.
    if name.starts_with('.') || ALL.iter().any(|token| token.as_str() == name) {
        name.push('_');
    }
    name
}

/// A token goes into headers and JSON: printable, without blanks, of a sensible length.
fn usable(text: &str) -> Result<Secret<String>, &'static str> {
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

/// A new random token: 32 bytes as base64url.
pub fn fresh_token() -> Secret<String> {
    Secret::new(URL_SAFE_NO_PAD.encode(random_32()))
}

/// 32 bytes from the system's random source.
pub(super) fn random_32() -> [u8; 32] {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).expect("the system's random source does not fail once the system is up");
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
            assert_eq!(folder_name(address), name);
        }
    }
}
