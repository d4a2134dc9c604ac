//! The user's git settings without credentials. Commands get this copy: git needs a name, an address and aliases, and
//! a settings file may hold tokens. Not here: the place of the copy (view).
#![expect(
    clippy::disallowed_methods,
    reason = "the user's settings file is read, and its copy written, in folders that no command writes"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The user's settings files, relative to the home.
pub(super) const SETTINGS: [&str; 2] = [".gitconfig", ".config/git/config"];

/// Words in a key that mark its value as a credential.
const SECRET_KEYS: &[&str] = &[
    "extraheader",
    "token",
    "password",
    "passwd",
    "secret",
    "cookiefile",
];

/// Writes the copy, if it would differ.
pub(super) fn copy_git_settings(from: &Path, to: &Path) -> io::Result<()> {
    let copy = without_credentials(&fs::read_to_string(from).unwrap_or_default());
    if fs::read_to_string(to).unwrap_or_default() == copy {
        return Ok(());
    }
    if let Some(parent) = to.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(to, copy)
}

/// Returns the files and folders of certificate authorities that the settings in this home name.
pub(super) fn authorities_in_settings(home: &Path) -> Vec<PathBuf> {
    let texts = SETTINGS.map(|name| fs::read_to_string(home.join(name)).unwrap_or_default());
    let lines = texts.iter().flat_map(|text| text.lines());
    let entries = lines.filter_map(|line| line.split_once('='));
    let named = entries.filter(|(key, _)| {
        let key = key.trim().to_ascii_lowercase();
        key == "sslcainfo" || key == "sslcapath"
    });
    let paths = named.map(|(_, value)| {
        let value = value.trim().trim_matches('"');
        home.join(value.strip_prefix("~/").unwrap_or(value))
    });
    paths.collect()
}

/// Leaves out sections about credentials, keys that name one, addresses with a password, and what signing needs, which
/// commands cannot do.
fn without_credentials(text: &str) -> String {
    let (mut copy, mut is_left_out, mut continues) = (String::new(), false, false);
    for line in text.lines() {
        let trimmed = line.trim().to_ascii_lowercase();
        if trimmed.starts_with('[') {
            is_left_out = trimmed.starts_with("[credential") || has_password(&trimmed);
        }
        let key = trimmed.split(['=', ' ', '\t']).next().unwrap_or_default();
        let is_secret = SECRET_KEYS.iter().any(|word| key.contains(word)) || has_password(&trimmed);
        let is_kept = !is_left_out && !is_secret && !continues;
        // A value goes on in the next line after a backslash.
        continues = !is_kept && trimmed.ends_with('\\');
        if is_kept {
            copy.push_str(line);
            copy.push('\n');
        }
    }
    copy
}

/// Returns whether a line has an address of the form `scheme://user:password@host`, or `scheme://token@host`.
fn has_password(line: &str) -> bool {
    line.split("://").skip(1).any(|rest| {
        let host = rest.split(['/', '"']).next().unwrap_or_default();
        host.contains('@') && !host.starts_with("git@")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_left_out_and_the_rest_stays() {
        let text = "[user]\n\tname = A\n\temail = a@example.com\n[credential \"https://x\"]\n\thelper = store\n\tusername = a\n\
                    [http \"https://x\"]\n\textraHeader = AUTHORIZATION: basic x\n\tproxy = p\n[alias]\n\tst = status\n\
                    [url \"https://user:secret@example.com/\"]\n\tinsteadOf = https://example.com/\n[github]\n\toauth-token = \
                    abc\\\n\tdef\n[core]\n\teditor = vi\n[url \"ssh://git@example.com/\"]\n\tinsteadOf = https://example.com/\n";
        let copy = without_credentials(text);
        for kept in [
            "name = A",
            "a@example.com",
            "proxy = p",
            "st = status",
            "editor = vi",
            "ssh://git@",
        ] {
            assert!(copy.contains(kept), "{kept} is not in {copy}");
        }
        for gone in [
            "helper",
            "AUTHORIZATION",
            "secret",
            "abc",
            "def",
            "username",
        ] {
            assert!(!copy.contains(gone), "{gone} is in {copy}");
        }
    }
}
