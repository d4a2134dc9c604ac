//! The key by which a caller signs requests: a file that the caller chooses, created once and readable by its owner
//! alone. It need not be on the device, where only its public key is pinned.

use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::HomeError;
use super::private_files::{create_private_file, read_key_file};
use super::tokens::random_bytes;
use punie_text::redact::Secret;

/// The advice for a damaged key file.
const ADVICE: &str =
    "Make a new one with `punie-runner keygen FILE`, and pin its public key at the device";

/// Creates a key in a new file. Returns its 32 bytes.
///
/// # Errors
/// The file exists already, or it cannot be written.
pub fn make_request_key(path: &Path) -> Result<Secret<[u8; 32]>, HomeError> {
    let seed = random_bytes();
    let text = STANDARD.encode(seed) + "\n";
    create_private_file(path, text.as_bytes())?;
    Ok(Secret::new(seed))
}

/// Reads the key of a file; `None` if there is no file.
///
/// # Errors
/// Others may read the file, or it has no valid key.
pub fn read_request_key(path: &Path) -> Result<Option<Secret<[u8; 32]>>, HomeError> {
    Ok(read_key_file(path, ADVICE)?.map(Secret::new))
}
