//! The caches of package managers that commands see: the user's own cache, with a layer above it that takes what
//! commands write (an overlay), or an empty folder where the kernel refuses that. Nothing is copied. This file plans
//! the mounts.
//!
//! The kernel lets a layer for writing be mounted twice and then guarantees nothing. The layers are therefore numbered:
//! if a process still uses the first ones, the next are taken.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;

use super::home_table::{PRIVATE, PrivateFolder};
use super::sandbox_rules::SandboxRules;
use super::untrusted_links::WritableFolders;

/// The longest options of a mount: the kernel reads one page.
const MAX_OPTIONS: usize = 4000;

/// A cache that the user has too, in one run of the runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandCache {
    /// The path in the home, such as `.cargo/registry`.
    pub path: PathBuf,
    /// How commands see it.
    pub content: CacheContent,
    /// The folder that is shown there. `None` for one in the commands' home.
    pub(super) folder: Option<PathBuf>,
}

/// The content of a cache of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheContent {
    /// What the user's cache has, and what commands wrote.
    Shared,
    /// What commands wrote: the user has removed this cache since an earlier run.
    Removed,
    /// What commands wrote: the user's tools change files of this cache in place.
    ChangedInPlace,
    /// What commands wrote: the kernel refused the overlay with this error.
    Refused(i32),
}

/// An overlay to mount.
#[derive(Debug)]
pub struct OverlayMount {
    /// The place.
    pub at: CString,
    /// The options with the layers.
    pub options: CString,
    /// The error number, zero for success.
    outcome: AtomicI32,
}

impl OverlayMount {
    fn from_layers(lower: &Path, upper: &Path, work: &Path, merged: &Path) -> Self {
        let mut options = Vec::new();
        for (name, path) in [
            ("lowerdir=", lower),
            ("upperdir=", upper),
            ("workdir=", work),
        ] {
            options.extend(name.bytes());
            options.extend(escape_option(path.as_os_str()));
            options.push(b',');
        }
        // With an index the kernel refuses a layer that is in use. It makes none in a user namespace.
        options.extend(b"userxattr,index=on");
        // Without any, the kernel refuses the mount.
        let options = CString::new(options).ok();
        let options = options.filter(|options| options.as_bytes().len() <= MAX_OPTIONS);
        Self {
            at: CString::new(merged.as_os_str().as_bytes()).unwrap_or_default(),
            options: options.unwrap_or_default(),
            outcome: AtomicI32::default(),
        }
    }

    fn error_number(&self) -> i32 {
        self.outcome.load(Ordering::SeqCst)
    }

    /// Records what came of it. Makes no system call and allocates nothing.
    pub fn record_outcome(&self, outcome: &io::Result<()>) {
        let number = match outcome {
            Ok(()) => 0,
            Err(cause) => cause.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
        };
        self.outcome.store(number, Ordering::SeqCst);
    }
}

#[derive(Debug)]
struct CacheLayer {
    path: PathBuf,
    folder: PathBuf,
    is_users: bool,
    mount: OverlayMount,
}

/// The layers of all caches for one run of the runner.
#[derive(Debug)]
pub struct CacheLayers {
    layers: Vec<CacheLayer>,
    /// Those of the user's caches that get no layers.
    unshared: Vec<PathBuf>,
}

impl CacheLayers {
    /// Plans the layers with this number, and makes their folders. Blocks for some hundred system calls.
    ///
    /// # Errors
    /// The system's, for a folder that cannot be made.
    pub fn plan(rules: &SandboxRules, number: u32) -> io::Result<Self> {
        let trusted = WritableFolders::from_rules(rules);
        let users = |path: &Path| {
            let resolved = trusted.resolve_trusted(&rules.user_home.as_ref()?.join(path))?;
            resolved.is_dir().then_some(resolved)
        };
        let top = rules.cache_layers.join(number.to_string());
        let none = rules.cache_layers.join("none");
        fs::create_dir_all(&none)?;
        let mut layers = Vec::new();
        for path in PRIVATE.iter().flat_map(PrivateFolder::shared_paths) {
            let lower = users(&path);
            let folder = top.join(path.to_string_lossy().replace('/', "-"));
            // What commands removed is marked in a layer in a way that only an overlay hides.
            if lower.is_none() && !folder.exists() {
                continue;
            }
            let [upper, work, merged] = layer_folders(&folder);
            for folder in [&upper, &work, &merged] {
                fs::create_dir_all(folder)?;
            }
            // A command may have closed it to all later ones.
            fs::set_permissions(&upper, fs::Permissions::from_mode(0o700))?;
            let below = lower.as_deref().unwrap_or(&none);
            layers.push(CacheLayer {
                mount: OverlayMount::from_layers(below, &upper, &work, &merged),
                is_users: lower.is_some(),
                path,
                folder,
            });
        }
        let unshared = PRIVATE.iter().flat_map(PrivateFolder::unshared_paths);
        Ok(Self {
            layers,
            unshared: unshared.filter(|path| users(path).is_some()).collect(),
        })
    }

    /// Returns the overlays to mount.
    pub fn overlay_mounts(&self) -> impl Iterator<Item = &OverlayMount> {
        self.layers.iter().map(|layer| &layer.mount)
    }

    /// Returns the caches, once their mounts were tried. `None` if another process still uses these layers.
    pub fn list(&self) -> Option<Vec<CommandCache>> {
        let is_in_use = |mount: &OverlayMount| mount.error_number() == Errno::BUSY.raw_os_error();
        if self.overlay_mounts().any(is_in_use) {
            return None;
        }
        let shared = self.layers.iter().map(|layer| {
            let error = layer.mount.error_number();
            let content = match error {
                _ if !layer.is_users => CacheContent::Removed,
                0 => CacheContent::Shared,
                error => CacheContent::Refused(error),
            };
            let [_, work, merged] = layer_folders(&layer.folder);
            // The kernel makes it without any rights, and `rm -r` of the runner's home would end there.
            let _ = fs::set_permissions(work.join("work"), fs::Permissions::from_mode(0o700));
            CommandCache {
                path: layer.path.clone(),
                content,
                folder: (error == 0).then_some(merged),
            }
        });
        let unshared = self.unshared.iter().map(|path| CommandCache {
            path: path.clone(),
            content: CacheContent::ChangedInPlace,
            folder: None,
        });
        Some(shared.chain(unshared).collect())
    }
}

fn layer_folders(folder: &Path) -> [PathBuf; 3] {
    ["upper", "work", "merged"].map(|name| folder.join(name))
}

/// Escapes the characters that separate options and layers.
fn escape_option(path: &OsStr) -> Vec<u8> {
    let escaped = path.as_bytes().iter().flat_map(|byte| {
        let is_special = matches!(byte, b'\\' | b',' | b':');
        is_special.then_some(b'\\').into_iter().chain([*byte])
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_caches_that_the_user_has_get_layers_and_one_in_use_refuses_the_set() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path().canonicalize().expect("real");
        let mut rules = SandboxRules::minimal(root.join("own"), root.join("temp"));
        rules.user_home = Some(root.join("a:b,c"));
        for path in [
            ".npm/_cacache",
            ".cargo/registry",
            ".stack/pantry",
            ".cache/other",
        ] {
            fs::create_dir_all(root.join("a:b,c").join(path)).expect("made");
        }
        let layers = CacheLayers::plan(&rules, 1).expect("planned");
        let mounts: Vec<&OverlayMount> = layers.overlay_mounts().collect();
        let options: Vec<&str> = mounts
            .iter()
            .map(|mount| mount.options.to_str().expect("a text"))
            .collect();
        let lower = root.display();
        assert!(
            options[0].starts_with(&format!(
                "lowerdir={lower}/a\\:b\\,c/.cargo/registry,upperdir="
            )),
            "{options:?}"
        );
        let contents = || {
            let caches = layers.list()?;
            Some(
                caches
                    .into_iter()
                    .map(|cache| (cache.path, cache.content, cache.folder))
                    .collect::<Vec<_>>(),
            )
        };
        mounts[0].record_outcome(&Ok(()));
        mounts[1].record_outcome(&Err(io::Error::from_raw_os_error(libc::EINVAL)));
        let merged = root.join("own/commands/caches/1/.cargo-registry/merged");
        let expected = vec![
            (".cargo/registry".into(), CacheContent::Shared, Some(merged)),
            (
                ".npm/_cacache".into(),
                CacheContent::Refused(libc::EINVAL),
                None,
            ),
            (".stack/pantry".into(), CacheContent::ChangedInPlace, None),
        ];
        assert_eq!(contents(), Some(expected));
        mounts[1].record_outcome(&Err(io::Error::from_raw_os_error(libc::EBUSY)));
        assert_eq!(contents(), None);
    }
}
