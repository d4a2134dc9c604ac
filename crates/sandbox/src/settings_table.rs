//! The settings files of the user's that commands see without what may be a credential.

/// What is left out of a settings file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SettingsFilter {
    /// Git's settings, but for the keys of a list.
    Git,
    /// A git configuration of a cache: users and passwords in addresses, and sections that a repository does not need.
    Remotes,
    /// TOML: tables that are not in this list, keys that name a secret, addresses with a user.
    Toml(&'static [&'static str]),
    /// All of it, where it sets another variable than the PATH.
    PathScript,
    /// All of it, where it names a secret or an address with a user.
    Whole,
    /// All of it, in any case: this stands there.
    Fixed(&'static str),
}

/// The tables of Cargo's settings that commands see.
const CARGO_TABLES: &[&str] = &[
    "alias",
    "build",
    "cache",
    "cargo-new",
    "doc",
    "future-incompat-report",
    "http",
    "install",
    "net",
    "patch",
    "paths",
    "profile",
    "registries",
    "registry",
    "resolver",
    "source",
    "target",
    "term",
    "unstable",
];
const MISE_TABLES: &[&str] = &["alias", "min_version", "settings", "tool_alias", "tools"];

/// The files that commands find in any case, read-only and empty where the user has none: they lie in folders that
/// commands write, and a tool runs what another command has put there.
pub(super) const ALWAYS_THERE: &[&str] = &[
    ".gitconfig",
    ".config/git/config",
    ".cargo/config",
    ".cargo/config.toml",
    ".gradle/gradle.properties",
    ".gradle/init.gradle",
    ".gradle/init.gradle.kts",
    ".m2/settings.xml",
];

/// Two names of Cargo's settings. Cargo reads the first one before the second one, and does not mind if both are one file.
pub(super) const OF_CARGO: [&str; 2] = [".cargo/config", ".cargo/config.toml"];

/// Folders of settings that commands find empty and read-only, for the same reason.
pub(super) const SHUT_FOLDERS: &[&str] = &[".gradle/init.d", ".julia/config"];

/// The files, by their paths in the home, in which a `*` stands for any part of one name. Commands find each one read-only.
pub(super) const SETTINGS: &[(&str, SettingsFilter)] = &[
    (".gitconfig", SettingsFilter::Git),
    (".config/git/config", SettingsFilter::Git),
    (".cargo/config", SettingsFilter::Toml(CARGO_TABLES)),
    (".cargo/config.toml", SettingsFilter::Toml(CARGO_TABLES)),
    (".cargo/env", SettingsFilter::PathScript),
    (
        ".config/mise/config.toml",
        SettingsFilter::Toml(MISE_TABLES),
    ),
    (".ghcup/env", SettingsFilter::PathScript),
    (".elan/env", SettingsFilter::PathScript),
    (".opam/config", SettingsFilter::Whole),
    (".sdkman/etc/config", SettingsFilter::Whole),
    // People keep passwords in them, under names of their own.
    (".gradle/gradle.properties", SettingsFilter::Fixed("")),
    (".gradle/init.gradle", SettingsFilter::Fixed("")),
    (".gradle/init.gradle.kts", SettingsFilter::Fixed("")),
    (".m2/settings.xml", SettingsFilter::Fixed("<settings/>\n")),
    ("sdk/go*/go.env", SettingsFilter::Whole),
    (".goenv/versions/*/go.env", SettingsFilter::Whole),
    (".gvm/gos/*/go.env", SettingsFilter::Whole),
    (".asdf/installs/go*/*/go/go.env", SettingsFilter::Whole),
    (
        ".local/share/mise/installs/go/*/go.env",
        SettingsFilter::Whole,
    ),
    // The repositories in caches.
    (".cargo/git/db/*/config", SettingsFilter::Remotes),
    (
        ".cargo/git/checkouts/*/*/.git/config",
        SettingsFilter::Remotes,
    ),
    (
        ".cargo/registry/index/*/.git/config",
        SettingsFilter::Remotes,
    ),
    (".cache/uv/git-v*/db/*/config", SettingsFilter::Remotes),
    (
        ".cache/uv/git-v*/checkouts/*/*/.git/config",
        SettingsFilter::Remotes,
    ),
    (".cache/composer/vcs/*/config", SettingsFilter::Remotes),
    ("go/pkg/mod/cache/vcs/*/config", SettingsFilter::Remotes),
    (".julia/registries/*/.git/config", SettingsFilter::Remotes),
];
