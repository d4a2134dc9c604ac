//! The trust store of Java machines, which read no file of certificates that a variable names.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::certificates::certificate_files;
use super::hidden_paths::hidden_paths;
use super::profile::ProfileBuilder;

/// The first bytes of a store in Java's own format (JKS), and its version. A reader without a password skips the checksum
/// at the end, so there is none. Source: `sun.security.provider.JavaKeyStore` of OpenJDK.
const HEAD: [u32; 2] = [0xfeed_feed, 2];
/// The kind of an entry that holds an authority's certificate.
const TRUSTED_CERTIFICATE: u32 = 2;

/// Builds a trust store of the authorities that the user's variables and git's settings name, and those of the system.
/// `None` if the user names none. Blocks.
pub fn build_java_trust_store(profiles: &ProfileBuilder) -> Option<Vec<u8>> {
    let rules = profiles.current_rules();
    let hidden = hidden_paths(&rules).paths;
    let files = certificate_files(&rules, &hidden, |_| false);
    let in_file = |path: &PathBuf| rustls_native_certs::load_certs_from_paths(Some(path), None);
    let named: Vec<_> = files.iter().flat_map(|path| in_file(path).certs).collect();
    if named.is_empty() {
        return None;
    }
    let of_system = rustls_native_certs::load_native_certs().certs;
    let all: BTreeSet<Vec<u8>> = named
        .iter()
        .chain(&of_system)
        .map(|certificate| certificate.to_vec())
        .collect();
    let count = u32::try_from(all.len()).ok()?;
    let mut store: Vec<u8> = HEAD.iter().flat_map(|word| word.to_be_bytes()).collect();
    store.extend(count.to_be_bytes());
    for (number, certificate) in all.iter().enumerate() {
        store.extend(TRUSTED_CERTIFICATE.to_be_bytes());
        add_text(&mut store, &format!("authority-{number}"));
        // The time at which it was added: the same for the same certificates.
        store.extend(0_u64.to_be_bytes());
        add_text(&mut store, "X.509");
        store.extend(u32::try_from(certificate.len()).ok()?.to_be_bytes());
        store.extend(certificate);
    }
    Some(store)
}

/// Adds a short text in ASCII, with its length before it.
fn add_text(store: &mut Vec<u8>, text: &str) {
    let length = u16::try_from(text.len()).unwrap_or(u16::MAX);
    store.extend(length.to_be_bytes());
    store.extend(text.as_bytes());
}
