//! Detects secrets in files before a commit, by file name and by content. Not here: masking secrets in output (the
//! redact module).

use std::collections::BTreeSet;
use std::io::{self, Read};

use punie_text::redact::find_lookalikes;

/// The bytes of a file that are scanned.
pub(super) const MAX_SCANNED_BYTES: u64 = 16 << 20;
const CHUNK: usize = 256 << 10;
/// The characters that identify a match when two scans are compared.
const FINGERPRINT_CHARS: usize = 160;
/// A match this close to a chunk's end is scanned again with the text after it.
const OVERLAP_BYTES: usize = 4 << 10;

const SECRET_FILE_NAMES: &[&str] = &[
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ed25519",
    ".netrc",
    "_netrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    ".htpasswd",
    ".dockercfg",
    ".vault-token",
    ".env",
    "credentials",
    "credentials.json",
    "credentials.yml",
    "credentials.yaml",
    "secrets.json",
    "secrets.yml",
    "secrets.yaml",
    "secrets.toml",
    "terraform.tfstate",
];

const SECRET_FILE_SUFFIXES: &[&str] = &[
    ".pem",
    ".key",
    ".p12",
    ".pfx",
    ".jks",
    ".keystore",
    ".kdbx",
    ".ppk",
    ".env",
    ".ovpn",
    ".tfstate",
];

/// Example files are meant to be committed.
const EXAMPLE_SUFFIXES: &[&str] = &["example", "sample", "template", "dist", "defaults"];

/// Explains why a file name looks like that of a secret.
pub(super) fn check_file_name(path: &[u8]) -> Option<String> {
    let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or(path);
    let name = String::from_utf8_lossy(name).to_lowercase();
    if EXAMPLE_SUFFIXES
        .iter()
        .any(|word| name.ends_with(&format!(".{word}")))
    {
        return None;
    }
    let rule = if let Some(known) = SECRET_FILE_NAMES.iter().find(|known| **known == name) {
        (*known).to_owned()
    } else if let Some(ending) = SECRET_FILE_SUFFIXES
        .iter()
        .find(|ending| name.ends_with(**ending))
    {
        format!("*{ending}")
    } else if name.starts_with(".env.") {
        ".env.*".to_owned()
    } else if [("client_secret", ".json"), ("service-account", ".json")]
        .iter()
        .any(|(begin, end)| name.starts_with(begin) && name.ends_with(end))
    {
        "client_secret*.json, service-account*.json".to_owned()
    } else {
        return None;
    };
    Some(format!("its name looks like that of a secret ({rule})"))
}

/// A text that looks like a secret, identified by its beginning, which is never shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SecretMatch {
    rule: &'static str,
    print: String,
}

/// The result of scanning a file.
#[derive(Debug, Default)]
pub(super) struct SecretScan {
    pub(super) matches: BTreeSet<SecretMatch>,
    /// The rule and the line of the first match.
    first: Option<(&'static str, u64)>,
    /// The file has a conflict marker (`<<<<<<<`).
    pub(super) conflict_mark: bool,
}

impl SecretScan {
    /// Returns whether this scan found secrets that the other did not.
    pub(super) fn has_new_secrets(&self, other: &Self) -> bool {
        self.matches.difference(&other.matches).next().is_some()
    }

    /// Describes the first match by kind and line, without showing it.
    pub(super) fn describe(&self) -> Option<String> {
        let (rule, line) = self.first?;
        let what = match rule {
            "private-key" => "a private key".to_owned(),
            rule => format!("a secret of the kind `{rule}`"),
        };
        Some(format!("line {line} looks like {what}"))
    }

    /// Scans a file in chunks.
    pub(super) fn scan_reader(
        file: &mut impl Read,
        is_cancelled: impl Fn() -> bool,
    ) -> io::Result<Self> {
        let mut content = Self::default();
        let mut window: Vec<u8> = Vec::new();
        let mut line = 1;
        let mut file = file.take(MAX_SCANNED_BYTES);
        loop {
            if is_cancelled() {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let read = Read::by_ref(&mut file)
                .take(CHUNK as u64)
                .read_to_end(&mut window)?;
            let done = if read == 0 {
                window.len()
            } else {
                window.len().saturating_sub(OVERLAP_BYTES)
            };
            content.scan_window(&window, done, line);
            if read == 0 {
                return Ok(content);
            }
            line += memchr::memchr_iter(b'\n', &window[..done]).count() as u64;
            window.drain(..done);
        }
    }

    /// Records matches that begin in the first `done` bytes.
    fn scan_window(&mut self, window: &[u8], done: usize, first_line: u64) {
        let text = String::from_utf8_lossy(window);
        // Replacing invalid UTF-8 makes the text longer. A match may then be recorded twice, which is harmless.
        for found in find_lookalikes(&text) {
            if found.range.start >= done && done < window.len() {
                break;
            }
            let secret = &text[found.range.clone()];
            if found.rule == "private-key" && !contains_key_body(secret) {
                continue;
            }
            let line = first_line + text[..found.range.start].matches('\n').count() as u64;
            self.first.get_or_insert((found.rule, line));
            self.matches.insert(SecretMatch {
                rule: found.rule,
                print: secret.chars().take(FINGERPRINT_CHARS).collect(),
            });
        }
        self.conflict_mark |= text.starts_with("<<<<<<< ") || text.contains("\n<<<<<<< ");
    }
}

/// Returns whether key data follows the header. Many programs contain only the header.
fn contains_key_body(text: &str) -> bool {
    const LEAST: usize = 32;
    let Some(label) = text.find("KEY-----") else {
        return false;
    };
    let body = text[label + "KEY-----".len()..]
        .replace("\\n", "\n")
        .replace("\\r", "\n");
    body.lines().take(8).any(|line| {
        let line =
            line.trim_matches(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '+' | ','));
        line.len() >= LEAST
            && line
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(text: &str) -> SecretScan {
        SecretScan::scan_reader(&mut text.as_bytes(), || false).expect("no file fails here")
    }

    /// Assembled at run time, so that secret scanners do not flag this file.
    fn token() -> String {
        format!("ghp_{}", "Ab3".repeat(12))
    }

    fn key() -> String {
        format!(
            "-----BEGIN RSA {}-----\n{}\n-----END RSA PRIVATE KEY-----\n",
            "PRIVATE KEY",
            "MIIEabc1".repeat(8)
        )
    }

    #[test]
    fn names_of_secrets_are_known_and_examples_are_not() {
        for name in [
            ".env",
            "a/.ENV",
            ".env.local",
            "prod.env",
            "x.pem",
            "id_rsa",
            "deep/credentials.json",
            "k.P12",
        ] {
            assert!(check_file_name(name.as_bytes()).is_some(), "{name}");
        }
        for name in [
            ".env.example",
            "id_rsa.pub",
            "environment.rs",
            "credentials.rs",
            "keys.txt",
            "key",
        ] {
            assert_eq!(check_file_name(name.as_bytes()), None, "{name}");
        }
    }

    #[test]
    fn secrets_are_found_wherever_they_stand() {
        let far = format!("{}{} end", "line\n".repeat(52_428), token());
        let found = content(&far);
        assert_eq!(
            found.describe().as_deref(),
            Some("line 52429 looks like a secret of the kind `github`")
        );
        assert_eq!(found.matches.len(), 1);
        assert!(!found.describe().unwrap_or_default().contains(&token()));
        assert_eq!(
            content(&key()).describe().as_deref(),
            Some("line 1 looks like a private key")
        );
    }

    #[test]
    fn a_heading_alone_is_no_key() {
        let program = format!(
            "if text.starts_with(\"-----BEGIN {}-----\") {{\n    parse(text)\n}}\n",
            "PRIVATE KEY"
        );
        assert_eq!(content(&program).describe(), None);
    }

    #[test]
    fn what_was_there_before_is_not_new() {
        let before = content(&key());
        let after = content(&format!("comment\n{}", key()));
        assert!(!after.has_new_secrets(&before));
        assert!(content(&format!("{}{}", key(), token())).has_new_secrets(&before));
    }

    #[test]
    fn conflict_marks_are_seen() {
        assert!(content("a\n<<<<<<< HEAD\nb\n").conflict_mark);
        assert!(!content("a <<<<<<< HEAD\n").conflict_mark);
    }
}
