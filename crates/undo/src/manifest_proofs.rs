//! Proofs that a manifest was written for the request that it names. Every command may write to the folder of removed
//! things, and may name any request; only a request's own shims are told its proof.
#![expect(
    clippy::disallowed_methods,
    reason = "a key that is none is taken away here"
)]

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use sha2::{Digest as _, Sha256};

use punie_core::ids::{RequestId, to_hex};
use punie_home::{Home, HomeError, make_request_key, read_request_key};

/// Makes proofs. Clones share the key, which no confined command reads.
#[derive(Debug, Clone, Default)]
pub(super) struct ManifestProofs(Arc<OnceLock<[u8; 32]>>);

impl ManifestProofs {
    /// The proof for a request, which only the shims of its commands are told.
    ///
    /// # Errors
    /// The system's, where the key is neither there nor can be made.
    pub fn make(&self, home: &Home, request: &RequestId) -> io::Result<String> {
        if self.0.get().is_none() {
            let _ = self.0.set(load_or_create_key(&home.trash_key_file())?);
        }
        let key = self
            .0
            .get()
            .ok_or_else(|| io::Error::other("there is no key"))?;
        // Twice, as HMAC does it, so that nothing can be hung on.
        let inner = Sha256::new()
            .chain_update(key)
            .chain_update(request.as_str())
            .finalize();
        Ok(to_hex(
            &Sha256::new()
                .chain_update(key)
                .chain_update(inner)
                .finalize(),
        ))
    }
}

/// The key of the trash, made where there is none. In place of one that is none anybody can make another: what was
/// proven by it then counts as said.
fn load_or_create_key(file: &Path) -> io::Result<[u8; 32]> {
    match read_request_key(file) {
        Ok(Some(key)) => return Ok(*key.expose()),
        Ok(None) => {}
        // Nor can others vouch for what they may read or change.
        Err(HomeError::Damaged { .. } | HomeError::TooOpen { .. }) => std::fs::remove_file(file)?,
        Err(cause) => return Err(io::Error::other(cause)),
    }
    make_request_key(file)
        // Another process made one meanwhile.
        .or_else(|failed| read_request_key(file)?.ok_or(failed))
        .map(|key| *key.expose())
        .map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_of_one_request_and_one_home_and_the_same_in_the_next_life() {
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let [one, other] = folders
            .each_ref()
            .map(|folder| Home::open_home(folder.path()).expect("a home"));
        let of = |home: &Home, request: &str| {
            let request = RequestId::parse(request).expect("an id");
            ManifestProofs::default()
                .make(home, &request)
                .expect("a key")
        };
        let first = of(&one, "request-1");
        assert_eq!(first, of(&one, "request-1"));
        assert!(![of(&one, "request-2"), of(&other, "request-1")].contains(&first));
        std::fs::remove_file(one.trash_key_file()).expect("there");
        assert_ne!(first, of(&one, "request-1"));
        std::fs::write(one.trash_key_file(), "").expect("cut");
        let before = of(&one, "request-1");
        assert_eq!(before.len(), 64, "one that is broken is replaced");
        #[cfg(unix)]
        {
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(one.trash_key_file(), mode).expect("opened to others");
            assert_ne!(
                before,
                of(&one, "request-1"),
                "and so is one that others could read"
            );
        }
    }
}
