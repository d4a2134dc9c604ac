//! Copies of the user's settings that earlier versions made for commands, or that commands made by writing to a file of
//! a shared cache. They may hold a credential that the user has removed since.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

use super::git_settings::has_address_with_user;
use super::home_table::{PRIVATE, PrivateFolder};
use super::settings_table::{SETTINGS, SettingsFilter};
use super::shown_parts::expand;
use punie_core::bounded_file::{FinalLink, read_regular_file};

/// The settings of which there were copies, by their paths in the home.
const COPIED: [&str; 3] = [".gitconfig", ".config/git/config", ".cargo/config.toml"];
/// The most bytes of a configuration in a layer. A larger one stays.
const MAX_BYTES: u64 = 1 << 20;

/// Removes the copies in the folder that commands see as the home, and in the layers of caches. Returns their paths: none
/// from the second time on. Blocks.
///
/// # Errors
/// The system's; a later call goes on.
pub fn remove_copied_settings(
    command_home: &Path,
    cache_layers: &Path,
) -> io::Result<Vec<PathBuf>> {
    let in_home = COPIED.iter().map(|name| command_home.join(name));
    // An empty one is the place at which the user's file is shown.
    let is_copy = |path: &PathBuf| {
        path.symlink_metadata()
            .is_ok_and(|meta| meta.is_file() && meta.len() > 0)
    };
    let mut copies: Vec<PathBuf> = in_home.filter(is_copy).collect();
    for path in &copies {
        // The file stays: a view that is in use may have the user's settings mounted there.
        let flags =
            OFlags::WRONLY | OFlags::TRUNC | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        rustix::fs::open(path, flags, Mode::empty())?;
    }
    let in_layers = repositories_in_layers(cache_layers);
    for path in &in_layers {
        fs::remove_file(path)?;
    }
    copies.extend(in_layers);
    Ok(copies)
}

/// Returns the git configurations in the layers that have an address with a user.
fn repositories_in_layers(cache_layers: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut listed = BTreeSet::new();
    let remotes = SETTINGS
        .iter()
        .filter(|(_, filter)| *filter == SettingsFilter::Remotes);
    for (pattern, _) in remotes {
        for cache in PRIVATE.iter().flat_map(PrivateFolder::shared_paths) {
            let Ok(inside) = Path::new(pattern).strip_prefix(&cache) else {
                continue;
            };
            let folder = cache.to_string_lossy().replace('/', "-");
            for layer in expand(cache_layers, "*", &mut listed) {
                let upper = layer.join(&folder).join("upper");
                found.extend(expand(&upper, &inside.to_string_lossy(), &mut listed));
            }
        }
    }
    found.retain(|path| {
        let read = read_regular_file(path, FinalLink::Refuse, MAX_BYTES);
        read.is_ok_and(|text| has_address_with_user(&String::from_utf8_lossy(&text)))
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_removed_once_and_what_holds_no_credential_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().join("home");
        let layers = place.path().join("caches");
        let write = |path: PathBuf, text: &str| {
            fs::create_dir_all(path.parent().expect("one")).expect("made");
            fs::write(&path, text).expect("written");
            path
        };
        let copies = [
            write(home.join(".gitconfig"), "[user]\n\tname = A\n"),
            write(
                home.join(".cargo/config.toml"),
                "[registry]\ntoken = \"x\"\n",
            ),
            write(
                layers.join("1/.cargo-git/upper/db/a/config"),
                "url = https://u:p@example.com\n",
            ),
        ];
        let kept = [
            write(home.join(".config/git/config"), ""),
            write(
                layers.join("1/.cargo-git/upper/db/b/config"),
                "url = https://example.com\n",
            ),
            write(layers.join("1/.cargo-registry/upper/config"), "x@y"),
        ];
        let removed = remove_copied_settings(&home, &layers).expect("removed");
        assert_eq!(removed, copies);
        assert!(kept.iter().all(|path| path.exists()));
        let text = copies
            .iter()
            .map(|path| fs::read_to_string(path).unwrap_or_default());
        assert_eq!(text.collect::<String>(), "");
        assert_eq!(
            remove_copied_settings(&home, &layers).expect("none"),
            [""; 0].map(PathBuf::from)
        );
    }
}
