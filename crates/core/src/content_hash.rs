//! The SHA-256 of a content that is read piece by piece.

use std::io::{self, Read, Write};

use sha2::{Digest as _, Sha256};

use crate::ids::to_hex;

/// The number of bytes that are read at once.
const PIECE_BYTES: usize = 256 << 10;

/// Copies all bytes to the end. Returns their hash in hexadecimal and their number.
///
/// # Errors
/// The system's, when the bytes are read or written.
pub fn copy_hashed(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<(String, u64)> {
    let (hash, size) = copy_pieces(from, to)?;
    Ok((to_hex(&hash), size))
}

/// Reads all bytes to the end, and returns their hash.
///
/// # Errors
/// The system's, when the bytes are read.
pub fn hash_content(mut from: impl Read) -> io::Result<[u8; 32]> {
    Ok(copy_pieces(&mut from, &mut io::sink())?.0)
}

fn copy_pieces(from: &mut dyn Read, to: &mut dyn Write) -> io::Result<([u8; 32], u64)> {
    let mut hasher = Sha256::new();
    let mut size = 0;
    let mut piece = vec![0; PIECE_BYTES];
    loop {
        let n = match from.read(&mut piece) {
            Ok(0) => return Ok((hasher.finalize().into(), size)),
            Ok(n) => n,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
            Err(cause) => return Err(cause),
        };
        to.write_all(&piece[..n])?;
        hasher.update(&piece[..n]);
        size += n as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_of_several_pieces_has_the_hash_of_the_whole() {
        let content: Vec<u8> = (0..=250).cycle().take(2 * PIECE_BYTES + 7).collect();
        let mut copy = Vec::new();
        let (hash, size) = copy_hashed(&mut content.as_slice(), &mut copy).expect("copied");
        assert_eq!(copy, content);
        assert_eq!(size, content.len() as u64);
        assert_eq!(hash, to_hex(&Sha256::digest(&content)));
        assert_eq!(to_hex(&hash_content(copy.as_slice()).expect("read")), hash);
    }
}
