//! Settings files of the user's, as commands see them: what may be a credential is left out. They are read anew for
//! each view, and no copy lies on the disk.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use toml::{Table, Value};

use super::closed_files::{FolderState, folder_state};
use super::git_settings::{has_address_with_user, without_credentials, without_remote_users};
use super::settings_table::{ALWAYS_THERE, OF_CARGO, SETTINGS, SettingsFilter};
use super::shown_parts::expand;
use super::toolchain_table::TOOLCHAINS;
use super::untrusted_links::{WritableFolders, follow_links};
use punie_core::bounded_file::{FinalLink, read_regular_file};

/// The most bytes of a settings file. Of a larger one commands see nothing.
const MAX_BYTES: u64 = 128 << 10;
/// The most bytes of all of them.
const MAX_ALL_BYTES: usize = 1 << 20;

/// Words in a key that mark its value as a credential.
const SECRET_WORDS: &[&str] = &[
    "token",
    "passw",
    "secret",
    "credential",
    "authorization",
    "apikey",
    "api_key",
    "api-key",
    "smtppass",
    "cookie",
    "extraheader",
    "private_key",
    "private-key",
    "privatekey",
];

/// A settings file as commands see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingsFile {
    /// The path in the home.
    pub path: PathBuf,
    /// What commands find in it.
    pub text: String,
    /// It lies in a cache, which commands may not share.
    pub is_in_cache: bool,
}

/// Returns the settings files of a home that are there, those that always are, and those of toolchains on the search path.
pub(super) fn settings_files(
    home: &Path,
    search_path: &[PathBuf],
    trusted: &WritableFolders,
) -> Vec<SettingsFile> {
    // Not one to which a link leads that a command may have made.
    let read = |path: &Path| read_settings(&trusted.resolve_trusted(path)?);
    let mut files = Vec::new();
    let mut bytes_left = MAX_ALL_BYTES;
    let mut add = |path: PathBuf, whole: Option<String>, filter: SettingsFilter| {
        let mut text = filter.apply(whole.as_deref().unwrap_or_default());
        let is_in_cache = filter == SettingsFilter::Remotes;
        // Most repositories in caches hold nothing to leave out.
        if is_in_cache && whole.as_deref() == Some(&text) {
            return;
        }
        if text.len() > bytes_left {
            text.clear();
        }
        bytes_left -= text.len();
        files.push(SettingsFile {
            path,
            text,
            is_in_cache,
        });
    };
    let one_by_one = SETTINGS
        .iter()
        .filter(|(_, filter)| *filter != SettingsFilter::Remotes);
    for (name, filter) in one_by_one {
        if ALWAYS_THERE.contains(name) {
            let mut others = OF_CARGO
                .iter()
                .filter(|other| OF_CARGO.contains(name) && *other != name);
            let other = || read(&home.join(others.next()?));
            let path = home.join(name);
            add(path.clone(), read(&path).or_else(other), *filter);
            continue;
        }
        for path in expand(home, name, &mut BTreeSet::new()) {
            let whole = read(&path);
            // The folder of a toolchain may be a link; those of commands stand where the user's would be.
            let place = if is_of_toolchain(home, &path) {
                trusted.resolve_place(&path)
            } else {
                Some(path)
            };
            if let Some(place) = place {
                add(place, whole, *filter);
            }
        }
    }
    for path in repositories_with_users(home) {
        add(path.clone(), read(&path), SettingsFilter::Remotes);
    }
    let in_home = search_path.iter().filter(|folder| folder.starts_with(home));
    let of_go = in_home.filter_map(|folder| Some(folder.parent()?.join("go.env")));
    for path in of_go.filter(|path| path.exists() && !is_of_toolchain(home, path)) {
        if let Some(place) = trusted.resolve_place(&path) {
            add(place, read(&path), SettingsFilter::Whole);
        }
    }
    files
}

fn is_of_toolchain(home: &Path, path: &Path) -> bool {
    let path = path.strip_prefix(home).unwrap_or(path);
    TOOLCHAINS
        .iter()
        .any(|toolchain| path.starts_with(toolchain.at))
}

/// Returns the paths whose change may change what commands find in the settings files of a home.
pub(super) fn settings_sources(home: &Path) -> BTreeSet<PathBuf> {
    let mut sources = BTreeSet::new();
    for (pattern, filter) in SETTINGS {
        if *filter == SettingsFilter::Remotes {
            sources.extend(folders_around(home, pattern));
            continue;
        }
        let files = expand(home, pattern, &mut sources);
        let targets: Vec<PathBuf> = files.iter().map(|path| follow_links(path)).collect();
        sources.extend(files.into_iter().chain(targets));
    }
    sources
}

/// Returns the folders in which repositories lie that a pattern stands for. Thousands may be there: a new one shows in these,
/// and an address with a password seldom comes later.
fn folders_around(home: &Path, pattern: &str) -> Vec<PathBuf> {
    let around: Vec<&str> = pattern.split('/').take_while(|part| *part != "*").collect();
    expand(home, &around.join("/"), &mut BTreeSet::new())
}

/// Repositories in caches whose addresses have users, and the folders around all of them as they were then.
type Repositories = (Vec<(PathBuf, FolderState)>, Vec<PathBuf>);

/// What the last search found. It is done again where a folder has changed.
static REPOSITORIES: Mutex<Option<Repositories>> = Mutex::new(None);

/// Returns the configurations of repositories in caches that hold something to leave out.
fn repositories_with_users(home: &Path) -> Vec<PathBuf> {
    let patterns = SETTINGS
        .iter()
        .filter(|(_, filter)| *filter == SettingsFilter::Remotes);
    let patterns: Vec<&str> = patterns.map(|(pattern, _)| *pattern).collect();
    let around = patterns
        .iter()
        .flat_map(|pattern| folders_around(home, pattern));
    let around: Vec<_> = around
        .map(|folder| (folder.clone(), folder_state(&folder)))
        .collect();
    let mut last = REPOSITORIES.lock();
    if let Some((_, found)) = last.as_ref().filter(|(then, _)| *then == around) {
        return found.clone();
    }
    let all = patterns
        .iter()
        .flat_map(|pattern| expand(home, pattern, &mut BTreeSet::new()));
    let holds_user =
        |path: &PathBuf| read_settings(path).is_none_or(|text| without_remote_users(&text) != text);
    let found: Vec<PathBuf> = all.filter(holds_user).collect();
    *last = Some((around, found.clone()));
    found
}

/// Reads a settings file. `None` for one that is missing, too large, no text, or no file.
pub(super) fn read_settings(path: &Path) -> Option<String> {
    let bytes = read_regular_file(path, FinalLink::Follow, MAX_BYTES).ok()?;
    String::from_utf8(bytes).ok()
}

impl SettingsFilter {
    fn apply(self, text: &str) -> String {
        match self {
            Self::Git => without_credentials(text),
            Self::Remotes => without_remote_users(text),
            Self::Toml(tables) => filter_toml(text, tables),
            Self::PathScript if sets_only_the_path(text) => text.to_owned(),
            Self::Whole if !text.lines().any(may_hold_secret) => text.to_owned(),
            Self::PathScript | Self::Whole => String::new(),
            Self::Fixed(text) => text.to_owned(),
        }
    }
}

/// Returns whether a key has a word of a secret.
pub(super) fn names_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| key.contains(word))
}

/// Returns whether a line has a word of a secret, or an address with a user.
fn may_hold_secret(line: &str) -> bool {
    names_secret(line) || has_address_with_user(line)
}

/// Returns whether a shell script sets no variable but the PATH.
fn sets_only_the_path(text: &str) -> bool {
    let mut before_signs = text.lines().flat_map(|line| {
        let mut parts: Vec<&str> = line.split('=').collect();
        parts.pop();
        parts
    });
    before_signs.all(|part| part.ends_with("PATH")) && !text.lines().any(may_hold_secret)
}

/// Leaves out the tables that are not in the list, keys that name a secret, and addresses with a user. Nothing stays of a
/// text that is no TOML.
fn filter_toml(text: &str, tables: &[&str]) -> String {
    let Ok(mut table) = text.parse::<Table>() else {
        return String::new();
    };
    table.retain(|key, _| tables.contains(&key));
    retain_harmless(&mut table);
    toml::to_string(&table).unwrap_or_default()
}

fn retain_harmless(table: &mut Table) {
    table.retain(|key, value| {
        let key = key.to_ascii_lowercase();
        let is_proxy_with_user =
            key == "proxy" && value.as_str().is_some_and(|text| text.contains('@'));
        !is_proxy_with_user && !names_secret(&key) && is_harmless(value)
    });
}

fn is_harmless(value: &mut Value) -> bool {
    match value {
        Value::String(text) => !has_address_with_user(text),
        Value::Array(values) => {
            values.retain_mut(is_harmless);
            true
        }
        Value::Table(table) => {
            retain_harmless(table);
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn of_cargos_settings_the_harmless_tables_stay() {
        let text = "[registry]\ntoken = \"cioX\"\ndefault = \"own\"\n[registries]\nown = { index = \"https://example.com/i\", \
                    token = \"regX\" }\n[source.mine]\nregistry = \"https://user:urlX@example.com\"\n[build]\njobs = 2\n\
                    [http]\nproxy = \"user:proxyX@proxy:3128\"\ncainfo = \"/c.pem\"\n[env]\nAPI = \"envX\"\n[alias]\nb = \"build\"\n";
        let seen =
            SettingsFilter::Toml(&["registry", "registries", "source", "build", "http", "alias"])
                .apply(text);
        for kept in [
            "default = \"own\"",
            "https://example.com/i",
            "jobs = 2",
            "/c.pem",
            "b = \"build\"",
        ] {
            assert!(seen.contains(kept), "{kept} is not in {seen}");
        }
        for gone in ["cioX", "regX", "urlX", "proxyX", "envX"] {
            assert!(!seen.contains(gone), "{gone} is in {seen}");
        }
        assert_eq!(SettingsFilter::Toml(&["a"]).apply("a = \"not closed"), "");
    }

    #[test]
    fn a_script_that_sets_more_than_the_path_is_not_shown() {
        let rustups = "#!/bin/sh\ncase \":${PATH}:\" in\n*:\"$HOME/.cargo/bin\":*) ;;\n*) export PATH=\"$HOME/.cargo/bin:$PATH\" ;;\nesac\n";
        assert_eq!(SettingsFilter::PathScript.apply(rustups), rustups);
        let more = format!("{rustups}export API=x\n");
        assert_eq!(SettingsFilter::PathScript.apply(&more), "");
        assert_eq!(
            SettingsFilter::Whole.apply("GOPROXY=https://u:p@example.com"),
            ""
        );
        assert_eq!(
            SettingsFilter::Whole.apply("GOPROXY=direct"),
            "GOPROXY=direct"
        );
    }

    #[test]
    fn a_pipe_and_a_large_file_are_empty_and_a_cache_is_named_where_it_has_a_password() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().canonicalize().expect("real");
        let write = |path: &str, text: &str| {
            let path = home.join(path);
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write(".gitconfig", &"# x\n".repeat(100_000));
        write(
            ".cargo/git/db/one/config",
            "[remote \"a\"]\n\turl = https://x:tokenX@example.com/a\n",
        );
        write(
            ".cargo/git/db/two/config",
            "[remote \"a\"]\n\turl = https://example.com/a\n",
        );
        rustix::fs::mkfifoat(rustix::fs::CWD, home.join(".cargo/env"), 0o600.into())
            .expect("a pipe");
        let files = settings_files(&home, &[], &WritableFolders::none());
        let seen = |name: &str| {
            let found = files.iter().find(|file| file.path == home.join(name));
            found.map(|file| file.text.as_str())
        };
        assert_eq!([seen(".gitconfig"), seen(".cargo/env")], [Some(""); 2]);
        assert_eq!(seen(".cargo/git/db/two/config"), None);
        let shown = seen(".cargo/git/db/one/config").expect("named");
        assert!(
            shown.contains("https://example.com/a") && !shown.contains("tokenX"),
            "{shown}"
        );
        assert!(settings_sources(&home).contains(&home.join(".cargo/git/db")));
    }
}
