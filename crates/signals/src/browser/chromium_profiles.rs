//! The profiles of a browser of the Chromium family.

use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use crate::file_access::{exists, read_if_present};

/// The profiles of one browser that are read.
pub(super) const MAX_PROFILES: usize = 10;
const MAX_LOCAL_STATE_BYTES: u64 = 16 << 20;

/// Returns the folders of profiles below a root, and whether there are more than [`MAX_PROFILES`].
pub(super) fn find_profiles(root: &Path) -> (Vec<PathBuf>, bool) {
    let mut names = listed_profiles(root);
    let usual = std::iter::once("Default".to_owned());
    for name in usual.chain((1..=MAX_PROFILES).map(|number| format!("Profile {number}"))) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let below = names.iter().map(|name| root.join(name));
    // Opera's root is itself a profile.
    let candidates = std::iter::once(root.to_owned()).chain(below);
    let mut profiles: Vec<PathBuf> = candidates.filter(|folder| is_profile(folder)).collect();
    let has_more = profiles.len() > MAX_PROFILES;
    profiles.truncate(MAX_PROFILES);
    (profiles, has_more)
}

fn is_profile(folder: &Path) -> bool {
    exists(&folder.join("History")) || exists(&folder.join("Bookmarks"))
}

/// Reads the names of folders from `Local State`, the browser's own list of its profiles.
fn listed_profiles(root: &Path) -> Vec<String> {
    let bytes = read_if_present(&root.join("Local State"), MAX_LOCAL_STATE_BYTES);
    let state: Option<Value> = bytes
        .ok()
        .flatten()
        .and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let profiles = state
        .as_ref()
        .and_then(|state| state.pointer("/profile/info_cache")?.as_object());
    let names = profiles.into_iter().flat_map(|profiles| profiles.keys());
    names.filter(|name| is_folder_name(name)).cloned().collect()
}

/// One name, which leads to no other folder.
fn is_folder_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    let is_one =
        matches!(components.next(), Some(Component::Normal(_))) && components.next().is_none();
    is_one && !name.contains(['/', '\\', ':'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_leads_elsewhere_is_no_profile() {
        for name in ["..", "/etc", "a/b", "a\\b", "C:x", "", "."] {
            assert!(!is_folder_name(name), "{name}");
        }
        assert!(is_folder_name("Profile 1"));
    }
}
