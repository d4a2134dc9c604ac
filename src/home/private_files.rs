//! Small files of the home that only this user may read.

use std::io::{ErrorKind, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::error::HomeError;
use super::file_modes;
use punie_core::durable::{self, Readers};

/// The most bytes of a file with one key.
const MAX_KEY_FILE_BYTES: u64 = 4096;

/// Writes a file in one step, replacing an existing one.
pub(super) fn replace_private_file(path: &Path, bytes: &[u8]) -> Result<(), HomeError> {
    durable::replace_file(path, bytes, Readers::OwnerOnly).map_err(HomeError::unwritable(path))
}

/// Creates a file that must not exist yet.
pub(super) fn create_private_file(path: &Path, bytes: &[u8]) -> Result<(), HomeError> {
    durable::create_file(path, bytes, Readers::OwnerOnly).map_err(HomeError::unwritable(path))
}

/// Creates a file. One that exists stays as it is. Returns whether it was created.
pub(super) fn ensure_private_file(path: &Path, bytes: &[u8]) -> Result<bool, HomeError> {
    match durable::create_file(path, bytes, Readers::OwnerOnly) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(HomeError::unwritable(path)(error)),
    }
}

/// Reads the key of a secret file, if it exists: 32 bytes as base64. `advice` says how to mend a damaged file.
pub(super) fn read_key_file(path: &Path, advice: &str) -> Result<Option<[u8; 32]>, HomeError> {
    let Some(file) = file_modes::open_secret_file(path)? else {
        return Ok(None);
    };
    let mut bytes = Vec::new();
    let read = file.take(MAX_KEY_FILE_BYTES).read_to_end(&mut bytes);
    read.map_err(HomeError::unreadable(path))?;
    // The error must not show the content, which may be most of a key.
    let damaged = || HomeError::Damaged {
        path: path.to_owned(),
        why: "it does not hold 32 bytes as base64".to_owned(),
        mend: advice.to_owned(),
    };
    decode_key(&bytes).map(Some).ok_or_else(damaged)
}

/// Decodes a key: 32 bytes as base64, with blanks around it.
pub(super) fn decode_key(text: &[u8]) -> Option<[u8; 32]> {
    let bytes = STANDARD.decode(text.trim_ascii()).ok()?;
    bytes.try_into().ok()
}

pub(super) fn remove_file_if_exists(path: &Path) -> Result<bool, HomeError> {
    let removed = durable::allow_missing(std::fs::remove_file(path));
    removed
        .map(|gone| gone.is_some())
        .map_err(HomeError::unwritable(path))
}
