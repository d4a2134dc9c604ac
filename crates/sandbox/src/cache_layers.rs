//! The caches of package managers that commands see: the user's own cache, with a layer above it that takes what commands
//! write (an overlay), or an empty folder where the kernel refuses that. Nothing is copied. This file plans the mounts.
//! Not here: making them (acp::local), and which caches there are (home_table).
//!
//! The kernel lets a layer for writing be mounted twice and then guarantees nothing. The layers are therefore numbered:
//! if a process still uses the first ones, the next are taken.
#![expect(
    clippy::disallowed_methods,
    reason = "the layers lie in a folder that no command sees"
)]

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::io::Errno;

use super::home_table::PRIVATE;
use super::sandbox_rules::SandboxRules;
use super::untrusted_links::WritableFolders;

/// The longest options of a mount: the kernel reads one page.
const MAX_OPTIONS: usize = 4000;

/// A cache of commands in one run of the runner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandCache {
    /// The path in the home, such as `.cargo/registry`.
    pub path: PathBuf,
    /// How it came to its content.
    pub content: CacheContent,
    /// The folder that is shown there. `None` for one in the commands' home.
    pub(super) folder: Option<PathBuf>,
}

/// The content of a cache of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheContent {
    /// What the user's cache has, and what commands wrote.
    Shared,
    /// What commands wrote: the user has no such cache.
    Own,
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
    /// Records what came of it. Makes no system call and allocates nothing.
    pub fn record_outcome(&self, outcome: &io::Result<()>) {
        let number = match outcome {
            Ok(()) => 0,
            Err(cause) => cause.raw_os_error().unwrap_or(Errno::IO.raw_os_error()),
        };
        self.outcome.store(number, Ordering::SeqCst);
    }
}

/// The layers of one cache.
#[derive(Debug)]
struct CacheLayer {
    path: PathBuf,
    folder: PathBuf,
    /// The user has such a cache.
    is_users: bool,
    /// It was an overlay before: what commands removed is marked in it in a way that only an overlay hides.
    was_overlay: bool,
    /// The index in the list of mounts.
    mount: Option<usize>,
}

/// The layers of all caches for one run of the runner.
#[derive(Debug)]
pub struct CacheLayers {
    layers: Vec<CacheLayer>,
    /// The overlays to mount.
    pub mounts: Vec<OverlayMount>,
}

impl CacheLayers {
    /// Plans the layers with this number, and makes their folders. Blocks for some hundred system calls.
    ///
    /// # Errors
    /// The system's, for a folder that cannot be made.
    pub fn plan_layers(rules: &SandboxRules, number: u32) -> io::Result<Self> {
        let trusted = WritableFolders::from_rules(rules);
        let top = rules.cache_layers.join(number.to_string());
        let none = rules.cache_layers.join("none");
        fs::create_dir_all(&none)?;
        let mut planned = Self {
            layers: Vec::new(),
            mounts: Vec::new(),
        };
        for path in PRIVATE.iter().flat_map(|private| private.shared_paths()) {
            let folder = top.join(path.to_string_lossy().replace('/', "-"));
            let [upper, work, merged] = layer_folders(&folder);
            for folder in [&upper, &merged] {
                fs::create_dir_all(folder)?;
            }
            // A command may have closed it to all later ones.
            fs::set_permissions(&upper, fs::Permissions::from_mode(0o700))?;
            let lower = rules.user_home.as_ref().and_then(|home| {
                let resolved = trusted.resolve_trusted(&home.join(&path))?;
                resolved.is_dir().then_some(resolved)
            });
            let (is_users, was_overlay) = (lower.is_some(), work.exists());
            let mount = if is_users || was_overlay {
                fs::create_dir_all(&work)?;
                let lower = lower.as_deref().unwrap_or(&none);
                planned
                    .mounts
                    .push(overlay_mount(lower, &upper, &work, &merged));
                Some(planned.mounts.len() - 1)
            } else {
                None
            };
            planned.layers.push(CacheLayer {
                path,
                folder,
                is_users,
                was_overlay,
                mount,
            });
        }
        Ok(planned)
    }

    /// Returns the caches, once their mounts were tried. `None` if another process still uses these layers.
    pub fn list_caches(&self) -> Option<Vec<CommandCache>> {
        let outcomes: Vec<i32> = self
            .mounts
            .iter()
            .map(|mount| mount.outcome.load(Ordering::SeqCst))
            .collect();
        if outcomes.contains(&Errno::BUSY.raw_os_error()) {
            return None;
        }
        for layer in &self.layers {
            // The kernel makes it without any rights, and `rm -r` of the runner's home would end there.
            let inner = layer.folder.join("work/work");
            let _ = fs::set_permissions(inner, fs::Permissions::from_mode(0o700));
        }
        let cache = |layer: &CacheLayer| {
            let [upper, work, merged] = layer_folders(&layer.folder);
            let (content, folder) = match layer.mount.map(|mount| outcomes[mount]) {
                Some(0) if layer.is_users => (CacheContent::Shared, Some(merged)),
                Some(0) => (CacheContent::Own, Some(merged)),
                None => (CacheContent::Own, Some(upper)),
                Some(error) if layer.was_overlay => (CacheContent::Refused(error), None),
                Some(error) => {
                    let _ = fs::remove_dir_all(work);
                    (CacheContent::Refused(error), Some(upper))
                }
            };
            CommandCache {
                path: layer.path.clone(),
                content,
                folder,
            }
        };
        Some(self.layers.iter().map(cache).collect())
    }
}

fn layer_folders(folder: &Path) -> [PathBuf; 3] {
    ["upper", "work", "merged"].map(|name| folder.join(name))
}

fn overlay_mount(lower: &Path, upper: &Path, work: &Path, merged: &Path) -> OverlayMount {
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
    OverlayMount {
        at: CString::new(merged.as_os_str().as_bytes()).unwrap_or_default(),
        options: options.unwrap_or_default(),
        outcome: AtomicI32::default(),
    }
}

/// Escapes the characters that separate options and layers.
fn escape_option(path: &OsStr) -> Vec<u8> {
    let escaped = path.as_bytes().iter().flat_map(|byte| {
        let is_special = matches!(byte, b'\\' | b',' | b':');
        is_special.then_some(b'\\').into_iter().chain([*byte])
    });
    escaped.collect()
}
