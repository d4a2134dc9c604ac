//! The parts of the user's home that commands see as they are, and the folders that commands fill themselves. Beside
//! them they see parts of toolchains (toolchain_table), and settings without credentials (settings_table). Everything
//! else in the home does not exist for them.

use std::path::{Path, PathBuf};

/// Files and folders that commands read as they are.
pub(super) const SHOWN: &[&str] = &[
    // Programs of the user, and libraries beside them.
    "bin",
    ".local/bin",
    ".local/lib",
    ".local/share/man",
    ".cargo/bin",
    "go/bin",
    ".bun/bin",
    ".deno/bin",
    // Settings.
    ".tool-versions",
    ".config/git/ignore",
    ".config/git/attributes",
    ".editorconfig",
    ".terminfo",
    ".fonts",
    ".local/share/fonts",
    ".config/fontconfig",
];

/// A folder that belongs to commands: it is shown in the place of the user's own, and is kept.
pub(super) struct PrivateFolder {
    /// The path in the home.
    pub path: &'static str,
    /// The caches in it of which commands see what the user's own have.
    pub shared: &'static [&'static str],
    /// Those of which they do not: the user's tools change files in them in place, such as databases. What a command
    /// has begun to write would be joined with what the tools write later.
    pub unshared: &'static [&'static str],
}

impl PrivateFolder {
    /// Returns the paths in the home of the caches.
    pub fn shared_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.shared
            .iter()
            .map(|name| Path::new(self.path).join(name))
    }

    /// Returns the paths in the home of the others.
    pub fn unshared_paths(&self) -> impl Iterator<Item = PathBuf> {
        self.unshared
            .iter()
            .map(|name| Path::new(self.path).join(name))
    }
}

const fn folder(path: &'static str, shared: &'static [&'static str]) -> PrivateFolder {
    partly(path, shared, &[])
}

const fn partly(
    path: &'static str,
    shared: &'static [&'static str],
    unshared: &'static [&'static str],
) -> PrivateFolder {
    PrivateFolder {
        path,
        shared,
        unshared,
    }
}

/// Caches of package managers and build tools. Files that may hold credentials are in no list.
pub(super) const PRIVATE: &[PrivateFolder] = &[
    folder(".cargo", &["registry", "git"]),
    folder(".npm", &["_cacache"]),
    partly(
        ".cache",
        &[
            "pip/wheels",
            "uv",
            "pypoetry/cache",
            "go-build",
            "yarn",
            "pnpm",
            "deno/deps",
            "deno/npm",
            "node",
            "node-gyp",
            "coursier",
            "composer",
            "bazelisk",
        ],
        &["pre-commit"],
    ),
    folder(".local/state", &[]),
    folder(".local/share", &["pnpm"]),
    folder(".yarn", &["berry/cache"]),
    folder(".bun/install", &["cache"]),
    folder("go/pkg", &["mod"]),
    folder(".m2", &["repository"]),
    partly(".gradle", &["wrapper", "jdks"], &["caches"]),
    folder(".ivy2", &["cache", "local"]),
    folder(".nuget", &["packages"]),
    folder(".cabal", &["packages", "store"]),
    partly(".stack", &["programs", "snapshots"], &["pantry"]),
    folder(".hex", &["packages"]),
    folder(".mix", &["archives", "elixir"]),
    folder(".pub-cache", &["hosted"]),
    folder(".julia", &["packages", "registries", "artifacts"]),
];

/// Files of `/run` that programs read. Everything else there, every socket above all, does not exist for commands.
pub(super) const SHOWN_IN_RUN: &[&str] = &[
    "/run/current-system",
    "/run/booted-system",
    "/run/opengl-driver",
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/resolvconf/resolv.conf",
    "/run/NetworkManager/resolv.conf",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hidden_paths::builtin_hidden_names;

    #[test]
    fn nothing_that_may_hold_credentials_is_shown() {
        let shared = PRIVATE.iter().flat_map(PrivateFolder::shared_paths);
        let shown = SHOWN.iter().map(|path| Path::new(path).to_owned());
        for path in shown.chain(shared) {
            for hidden in builtin_hidden_names().map(Path::new) {
                assert!(
                    !hidden.starts_with(&path) && !path.starts_with(hidden),
                    "{} holds {}",
                    path.display(),
                    hidden.display()
                );
            }
        }
    }
}
