//! The paths of the user's home that are there and that the tables show, at this moment.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::home_table::SHOWN;
use super::toolchain_table::{EXECUTABLES, TOOLCHAINS, UNKNOWN};

/// The most entries of a folder. Of further ones nothing is shown, and no settings are filtered.
const MAX_MATCHES: usize = 10_000;

/// The paths of the home at which something shown begins, and the folders in which more of it may appear.
#[derive(Debug, Default)]
pub(super) struct ShownParts {
    /// Folders of toolchains, of which nothing but the parts is shown.
    pub toolchains: BTreeSet<PathBuf>,
    /// What is shown of them, and what is shown as it is.
    pub paths: BTreeSet<PathBuf>,
    /// The folders whose entries decide about the other paths.
    pub listed: BTreeSet<PathBuf>,
}

impl ShownParts {
    /// Looks for everything that the tables show of this home.
    pub fn in_home(home: &Path) -> Self {
        let mut parts = Self::default();
        for path in SHOWN {
            parts.paths.extend(expand(home, path, &mut parts.listed));
        }
        for toolchain in TOOLCHAINS {
            let tops = expand(home, toolchain.at, &mut parts.listed);
            for top in tops.into_iter().filter(|top| top.is_dir()) {
                parts.add_layout(&top, toolchain.layout);
                parts.toolchains.insert(top);
            }
        }
        parts
    }

    /// Returns what the tables show of one folder of toolchains.
    pub fn of_toolchain(home: &Path, at: &str) -> BTreeSet<PathBuf> {
        let mut parts = Self::default();
        for toolchain in TOOLCHAINS.iter().filter(|toolchain| toolchain.at == at) {
            parts.add_layout(&home.join(at), toolchain.layout);
        }
        parts.paths
    }

    /// Returns the parts of an unknown toolchain around a folder of programs.
    pub fn of_unknown(top: &Path) -> BTreeSet<PathBuf> {
        // Composer's programs lie among its libraries.
        if top.ends_with("vendor") {
            return BTreeSet::from([top.to_owned()]);
        }
        let mut parts = Self::default();
        for layout in UNKNOWN {
            parts.add_layout(top, layout);
        }
        parts.paths
    }

    fn add_layout(&mut self, top: &Path, layout: &[(&str, &'static [&'static str])]) {
        for (folder, parts) in layout {
            for folder in expand(top, folder, &mut self.listed) {
                // One list for all parts: there may be a hundred versions.
                let names = list_names(&folder);
                self.listed.insert(folder.clone());
                for part in *parts {
                    let (first, rest) = part.split_once('/').unwrap_or((part, ""));
                    let meant = names.iter().filter(|name| is_meant(first, &folder, name));
                    for name in meant {
                        let found = expand(&folder.join(name), rest, &mut self.listed);
                        self.paths.extend(found);
                    }
                }
            }
        }
    }
}

/// Returns the paths below a folder that a pattern stands for and that are there. Adds the folders that decide about it to
/// `listed`.
pub(super) fn expand(top: &Path, pattern: &str, listed: &mut BTreeSet<PathBuf>) -> Vec<PathBuf> {
    let mut found = vec![top.to_owned()];
    for part in pattern.split('/').filter(|part| !part.is_empty()) {
        listed.extend(found.iter().cloned());
        let inside = found.iter().flat_map(|folder| {
            let names = if part == EXECUTABLES || part.contains('*') {
                list_names(folder)
            } else {
                let is_there = folder.join(part).symlink_metadata().is_ok();
                is_there.then(|| part.to_owned()).into_iter().collect()
            };
            let meant = names
                .into_iter()
                .filter(|name| is_meant(part, folder, name));
            meant.map(|name| folder.join(name)).collect::<Vec<_>>()
        });
        found = inside.collect();
    }
    found
}

fn list_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.truncate(MAX_MATCHES);
    names
}

/// Returns whether a part of a pattern stands for this name in a folder.
fn is_meant(part: &str, folder: &Path, name: &str) -> bool {
    match part.split_once('*') {
        None if part == EXECUTABLES => is_executable(&folder.join(name)),
        None => name == part,
        Some((start, end)) => is_match(name, start, end),
    }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.mode() & 0o100 != 0)
}

/// Returns whether a name begins and ends so. Hidden ones are named in full.
fn is_match(name: &str, start: &str, end: &str) -> bool {
    let is_named = start.starts_with('.') || !name.starts_with('.');
    is_named
        && name.len() >= start.len() + end.len()
        && name.starts_with(start)
        && name.ends_with(end)
}

/// Returns whether the tables show a path of the home, there or not.
pub(super) fn is_shown(home: &Path, path: &Path) -> bool {
    let Ok(path) = path.strip_prefix(home) else {
        return false;
    };
    let of_toolchains = TOOLCHAINS.iter().any(|toolchain| {
        let Ok(inside) = path.strip_prefix(toolchain.at) else {
            return false;
        };
        // The folder itself is there.
        inside.as_os_str().is_empty() || is_in_layout(inside, toolchain.layout)
    });
    of_toolchains || SHOWN.iter().any(|shown| path.starts_with(shown))
}

fn is_in_layout(path: &Path, layout: &[(&str, &'static [&'static str])]) -> bool {
    layout.iter().any(|(folder, parts)| {
        parts.iter().any(|part| {
            let pattern = folder.split('/').chain(part.split('/'));
            starts_with_pattern(path, pattern.filter(|part| !part.is_empty()))
        })
    })
}

fn starts_with_pattern<'a>(path: &Path, mut pattern: impl Iterator<Item = &'a str>) -> bool {
    let mut names = path.iter();
    pattern.all(|part| {
        let name = names.next().and_then(|name| name.to_str());
        name.is_some_and(|name| match part.split_once('*') {
            None => name == part || part == EXECUTABLES,
            Some((start, end)) => is_match(name, start, end),
        })
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Files of toolchains, and whether commands see them.
    const FILES: &[(&str, bool)] = &[
        (".pyenv/versions/3.12/bin/python", true),
        (".pyenv/versions/3.12/lib/python3.12/token.py", true),
        (".pyenv/versions/3.12/openssl/ssl/cert.pem", true),
        (".pyenv/versions/3.12/openssl/ssl/private/key.pem", false),
        (".pyenv/versions/3.12/pip.conf", false),
        (".pyenv/versions/3.12/envs/web/bin/python", true),
        (".pyenv/versions/3.12/envs/web/src/x/.git/config", false),
        (".pyenv/version", true),
        (".pyenv/pyenv.d/rehash/x.bash", true),
        (".pyenv/.git/config", false),
        (".pyenv/plugins/pyenv-virtualenv/bin/x", true),
        (".pyenv/plugins/pyenv-virtualenv/etc/pyenv.d/x", true),
        (".pyenv/plugins/pyenv-virtualenv/.git/config", false),
        (".nvm/versions/node/v20/bin/node", true),
        (".nvm/versions/node/v20/lib/node_modules/x/token.js", true),
        (".nvm/versions/node/v20/etc/npmrc", false),
        (".nvm/alias/default", true),
        (".nvm/.npmrc", false),
        (".rustup/settings.toml", true),
        (".rustup/toolchains/stable/lib/rustlib/components", true),
        (".rustup/token", false),
        (".opam/config", false),
        (".opam/default/bin/dune", true),
        (".opam/default/.opam-switch/environment", true),
        (".opam/default/.opam-switch/sources/x/.git/config", false),
        (".opam/plugins/opam-publish/user.token", false),
        ("miniconda3/bin/conda", true),
        ("miniconda3/envs/data/ssl/cacert.pem", true),
        ("miniconda3/.condarc", false),
        ("miniconda3/conda-meta/x.json", false),
        (
            ".sdkman/candidates/java/17/conf/security/java.security",
            true,
        ),
        (
            ".sdkman/candidates/java/17/conf/management/jmxremote.password",
            false,
        ),
        (".sdkman/candidates/maven/3.9/conf/settings.xml", false),
        (".sdkman/candidates/gradle/8/gradle.properties", false),
        (".local/share/uv/python/cpython-3.12/bin/python3", true),
        (".local/share/uv/credentials/credentials.toml", false),
        (".local/share/pipx/venvs/black/pyvenv.cfg", true),
        (".local/share/pipx/venvs/black/pipx_metadata.json", false),
        (".dotnet/sdk/8/x.dll", true),
        (".dotnet/corefx/cryptography/x509stores/my/a.pfx", false),
        (".rye/credentials", false),
        ("bin/program", true),
        ("Documents/x", false),
    ];

    #[test]
    fn of_a_toolchain_its_programs_and_libraries_are_shown_and_what_lies_beside_them_is_not() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().canonicalize().expect("real");
        for (file, _) in FILES {
            let file = home.join(file);
            fs::create_dir_all(file.parent().expect("one")).expect("made");
            fs::write(file, "").expect("written");
        }
        let parts = ShownParts::in_home(&home);
        for (file, shown) in FILES {
            let file = home.join(file);
            let found = parts.paths.iter().any(|path| file.starts_with(path));
            assert_eq!(found, *shown, "{}", file.display());
            assert_eq!(is_shown(&home, &file), *shown, "{}", file.display());
        }
        assert!(parts.toolchains.contains(&home.join(".opam")));
        assert!(parts.listed.contains(&home.join(".pyenv/versions/3.12")));
    }

    #[test]
    fn a_link_of_the_users_is_one_of_the_versions_and_hidden_folders_are_none() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().canonicalize().expect("real");
        for folder in ["real/lib", ".nvm/versions/node/.cache/bin"] {
            fs::create_dir_all(home.join(folder)).expect("made");
        }
        symlink("../../../real", home.join(".nvm/versions/node/v1")).expect("a link");
        let parts = ShownParts::in_home(&home);
        let expected = BTreeSet::from([home.join(".nvm/versions/node/v1/lib")]);
        assert_eq!(parts.paths, expected);
    }
}
