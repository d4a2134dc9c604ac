//! Small files of the home that only this user may read.
#![expect(
    clippy::disallowed_methods,
    reason = "the files of the home are removed by the modules that own them"
)]

use std::io::ErrorKind;
use std::path::Path;

use super::error::HomeError;
use punie_core::durable::{self, Readers};

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

pub(super) fn remove_file_if_exists(path: &Path) -> Result<bool, HomeError> {
    let removed = durable::allow_missing(std::fs::remove_file(path));
    removed
        .map(|gone| gone.is_some())
        .map_err(HomeError::unwritable(path))
}
