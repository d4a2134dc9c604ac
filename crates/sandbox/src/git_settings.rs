//! The user's git settings without credentials, for commands: git needs a name, an address and aliases, and a settings
//! file may hold tokens under any name.

use std::path::{Path, PathBuf};

use super::settings_files::{names_secret, read_settings};

/// The user's settings files, relative to the home.
const FILES: [&str; 2] = [".gitconfig", ".config/git/config"];

/// The sections that commands see, but for keys that name a secret. Of those in [`KEYS`] they see these keys alone.
const SECTIONS: &[&str] = &[
    "advice",
    "apply",
    "blame",
    "branch",
    "checkout",
    "clean",
    "clone",
    "color",
    "column",
    "commit",
    "commitgraph",
    "diff",
    "difftool",
    "feature",
    "fetch",
    "filter",
    "format",
    "fsck",
    "gc",
    "grep",
    "help",
    "i18n",
    "include",
    "includeif",
    "index",
    "init",
    "interactive",
    "log",
    "maintenance",
    "merge",
    "mergetool",
    "notes",
    "pack",
    "pager",
    "pretty",
    "protocol",
    "pull",
    "push",
    "rebase",
    "rerere",
    "safe",
    "sequence",
    "stash",
    "status",
    "submodule",
    "tag",
    "transfer",
    "url",
    "versionsort",
];

/// The keys that commands see of further sections.
const KEYS: &[(&str, &[&str])] = &[
    ("user", &["name", "email", "useconfigonly", "signingkey"]),
    ("remote", &["pushdefault"]),
    ("author", &["name", "email"]),
    ("committer", &["name", "email"]),
    // An alias that is no command of the shell.
    ("alias", &[]),
    (
        "core",
        &[
            "abbrev",
            "attributesfile",
            "autocrlf",
            "bigfilethreshold",
            "checkstat",
            "commentchar",
            "compression",
            "editor",
            "eol",
            "excludesfile",
            "filemode",
            "hookspath",
            "ignorecase",
            "longpaths",
            "pager",
            "precomposeunicode",
            "preloadindex",
            "quotepath",
            "safecrlf",
            "symlinks",
            "trustctime",
            "untrackedcache",
            "whitespace",
        ],
    ),
    (
        "http",
        &[
            "lowspeedlimit",
            "lowspeedtime",
            "postbuffer",
            "proxy",
            "sslcainfo",
            "sslcapath",
            "sslverify",
            "sslversion",
            "version",
        ],
    ),
    (
        "lfs",
        &[
            "concurrenttransfers",
            "fetchexclude",
            "fetchinclude",
            "locksverify",
        ],
    ),
];

/// Returns the files and folders of certificate authorities that the settings in this home name.
pub(super) fn authorities_in_settings(home: &Path) -> Vec<PathBuf> {
    let texts = FILES.map(|name| read_settings(&home.join(name)).unwrap_or_default());
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

/// The sections of a repository in a cache.
const OF_REPOSITORIES: &[&str] = &["branch", "core", "extensions", "remote"];

/// Leaves the sections and keys that are listed, without those that name a secret or an address with a user.
pub(super) fn without_credentials(text: &str) -> String {
    let is_listed = |section: &str| {
        SECTIONS.contains(&section) || KEYS.iter().any(|(name, _)| *name == section)
    };
    filter_sections(text, is_listed, is_shown_entry)
}

/// Leaves what a repository needs, and out of its addresses users and passwords.
pub(super) fn without_remote_users(text: &str) -> String {
    let is_listed = |section: &str| OF_REPOSITORIES.contains(&section);
    filter_sections(&without_users_in_addresses(text), is_listed, |_, entry| {
        let (key, _) = entry.split_once('=').unwrap_or((entry, ""));
        !names_secret(key)
    })
}

/// Leaves the sections and entries for which this holds. A section with an entry on the line of its name is left out, and so
/// is every line of comment.
fn filter_sections(
    text: &str,
    is_listed: impl Fn(&str) -> bool,
    is_shown_entry: impl Fn(&str, &str) -> bool,
) -> String {
    let mut copy = String::new();
    let mut section = String::new();
    let mut is_shown = false;
    let mut lines = text.lines();
    while let Some(first) = lines.next() {
        // A value goes on in the next line after a backslash.
        let mut entry = first.to_owned();
        while entry.ends_with('\\') {
            let Some(next) = lines.next() else { break };
            entry.push('\n');
            entry.push_str(next);
        }
        let trimmed = entry.trim();
        if trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = trimmed.strip_prefix('[') {
            let is_end = |c: char| c.is_whitespace() || c == ']' || c == '.';
            section = header
                .split(is_end)
                .next()
                .unwrap_or_default()
                .to_ascii_lowercase();
            let end = trimmed.find(']').map_or(trimmed.len(), |at| at + 1);
            let (name, rest) = trimmed.split_at(end);
            let is_whole = rest.is_empty() || rest.trim_start().starts_with(['#', ';']);
            is_shown = is_whole && !has_address_with_user(name) && is_listed(&section);
            entry.truncate(entry.find(']').map_or(entry.len(), |at| at + 1));
        } else if !is_shown || !is_shown_entry(&section, trimmed) {
            continue;
        }
        if is_shown {
            copy.push_str(&entry);
            copy.push('\n');
        }
    }
    copy
}

/// Returns whether commands see an entry of a section that is listed.
fn is_shown_entry(section: &str, entry: &str) -> bool {
    let (key, value) = entry.split_once('=').unwrap_or((entry, ""));
    let key = key.trim().to_ascii_lowercase();
    let value = value.trim();
    let may_be_secret = names_secret(&key)
        || has_address_with_user(value)
        || value.to_ascii_lowercase().contains("authorization");
    if may_be_secret || (key == "proxy" && value.contains('@')) {
        return false;
    }
    match KEYS.iter().find(|(name, _)| *name == section) {
        Some((_, [])) => !value.trim_start_matches('"').starts_with('!'),
        Some((_, keys)) => keys.contains(&key.as_str()),
        None => true,
    }
}

/// Returns whether a text has an address of the form `scheme://user:password@host`, or `scheme://token@host`.
pub(super) fn has_address_with_user(text: &str) -> bool {
    text.split("://")
        .skip(1)
        .any(|rest| user_in_address(rest).is_some())
}

/// Returns the user and password, with the `@`, at the beginning of an address without its scheme.
fn user_in_address(rest: &str) -> Option<&str> {
    let is_end = |c: char| c == '/' || c == '"' || c.is_whitespace();
    let host = rest.split(is_end).next().unwrap_or_default();
    let user = &host[..=host.rfind('@')?];
    (user != "git@").then_some(user)
}

/// Leaves out users and passwords in addresses.
fn without_users_in_addresses(text: &str) -> String {
    let mut parts = text.split("://");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for rest in parts {
        shown.push_str("://");
        shown.push_str(&rest[user_in_address(rest).map_or(0, str::len)..]);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listed_keys_stay_and_credentials_under_any_name_are_left_out() {
        let text = "[user]\n\tname = A\n\temail = a@example.com\n[credential \"https://x\"]\n\thelper = store\n\tusername = a\n\
                    [http \"https://x\"]\n\textraHeader = AUTHORIZATION: basic x\n\tproxy = p\n[alias]\n\tst = status\n\
                    \tapi = \"!curl -H aliasX\"\n\
                    [url \"https://user:secret@example.com/\"]\n\tinsteadOf = https://example.com/\n[github]\n\toauth-token = \
                    abc\\\n\tdef\n[core]\n\teditor = vi\n\taskPass = askX\n[url \"ssh://git@example.com/\"]\n\tinsteadOf = \
                    https://example.com/\n[sendemail]\n\tsmtpPass = mailX\n[gitlab] private = labX\n[core] sshCommand = sshX\n\
                    [http]\n\tproxy = u:proxyX@p\n\tcookieFile = jar\n[gitlab]\n\tname = otherX\n[pull] # commentX\n\t; commentX\n\t\
                    rebase = true\n";
        let copy = without_credentials(text);
        for kept in [
            "name = A",
            "a@example.com",
            "proxy = p",
            "st = status",
            "editor = vi",
            "ssh://git@",
            "rebase = true",
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
            "aliasX",
            "askX",
            "mailX",
            "labX",
            "sshX",
            "proxyX",
            "jar",
            "otherX",
            "commentX",
        ] {
            assert!(!copy.contains(gone), "{gone} is in {copy}");
        }
    }

    #[test]
    fn addresses_keep_their_host_and_lose_their_user() {
        for (text, shown) in [
            ("url = https://token@host/a", "url = https://host/a"),
            ("url = https://u:p@host/a b", "url = https://host/a b"),
            ("url = https://host/a@b", "url = https://host/a@b"),
            ("url = ssh://git@host/a", "url = ssh://git@host/a"),
            (
                "url = https://host/jsonwebtoken",
                "url = https://host/jsonwebtoken",
            ),
        ] {
            assert_eq!(without_users_in_addresses(text), shown);
        }
        let plain = "[core]\n\tbare = true\n[remote \"origin\"]\n\turl = https://host/a\n\tfetch = +refs/*:refs/*\n";
        assert_eq!(without_remote_users(plain), plain);
        let more = format!("{plain}[http]\n\textraHeader = Authorization: x\n");
        assert_eq!(without_remote_users(&more), plain);
    }
}
