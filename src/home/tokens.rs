//! Named secrets, one per file that only this user may read, so that none needs to be on a command line.
//! Not here: the device's private key.

use std::io::{ErrorKind, Read};
use std::path::PathBuf;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::atomic::{self, Readers};
use super::error::HomeError;
use super::layout::Home;
use super::modes;
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

/// The folder `tokens/`.
#[derive(Debug, Clone)]
pub struct Tokens {
    dir: PathBuf,
}

impl Tokens {
    /// The tokens of this home.
    pub fn of(home: &Home) -> Self {
        Self { dir: home.tokens_dir() }
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
        atomic::write(&path, token.expose().as_bytes(), Readers::OwnerOnly)
            .map_err(HomeError::unwritable(&path))
    }

    /// The token, made now if there is none. Of several at once, one makes it and all get the same.
    ///
    /// # Errors
    /// As [`Tokens::read`] and [`Tokens::write`].
    pub fn read_or_mint(&self, name: TokenName) -> Result<Secret<String>, HomeError> {
        let path = self.path(name);
        loop {
            if let Some(token) = self.read(name)? {
                return Ok(token);
            }
            let token = fresh_token();
            match atomic::create_new(&path, token.expose().as_bytes(), Readers::OwnerOnly) {
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
