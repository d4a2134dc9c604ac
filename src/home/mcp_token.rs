//! The token that clients of the MCP server over HTTP send. It stays the same, because it is in their settings.

use std::fs;

use super::error::HomeError;
use super::layout::Home;
use super::private_files::ensure_private_file;
use punie_core::ids::to_hex;
use punie_text::redact::Secret;

/// Reads the token, and makes one the first time.
///
/// # Errors
/// [`HomeError`] when it cannot be read or written.
pub fn load_mcp_token(home: &Home) -> Result<Secret<String>, HomeError> {
    let path = home.mcp_token_file();
    let mut random = [0; 32];
    getrandom::fill(&mut random)
        .map_err(std::io::Error::other)
        .map_err(HomeError::unwritable(&path))?;
    ensure_private_file(&path, to_hex(&random).as_bytes())?;
    let text = fs::read_to_string(&path).map_err(HomeError::unreadable(&path))?;
    Ok(Secret::new(text.trim().to_owned()))
}
