//! The key by which a caller signs requests: a file that the caller chooses, created once and readable by its owner
//! alone. It need not be on the device, where only its public key is pinned.

use std::io::Read;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::error::HomeError;
use super::file_modes;
use super::tokens::random_bytes;

use super::private_files::create_private_file;
use punie_text::redact::Secret;

/// The most bytes of a key file.
const MAX_BYTES: u64 = 4096;

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
    let Some(file) = file_modes::open_secret_file(path)? else {
        return Ok(None);
    };
    let mut text = String::new();
    file.take(MAX_BYTES)
        .read_to_string(&mut text)
        .map_err(HomeError::unreadable(path))?;
    let seed = STANDARD
        .decode(text.trim())
        .ok()
        .and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
    // The error must not show the text, which may be most of a key.
    let seed = seed.ok_or_else(|| HomeError::Damaged {
        path: path.to_owned(),
        why: "it does not hold 32 bytes as base64".to_owned(),
        mend:
            "Make a new one with `punie-runner keygen FILE`, and pin its public key at the device"
                .to_owned(),
    })?;
    Ok(Some(Secret::new(seed)))
}
