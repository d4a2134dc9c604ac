//! A simulated disk below a folder that can lose its power (`power_cut.c`). Synced data survives, and of the rest a
//! random part does.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use super::preload::compile_library;
use crate::harness::process::PROGRAM;

/// The sync at which the power fails, and the syncs that fail.
#[derive(Debug, Clone, Copy, Default)]
pub struct PowerFailure {
    /// The number of the sync at which the power fails; 0 for never.
    pub cut_at: u32,
    /// Cuts the power after that sync has taken effect, not before.
    pub after: bool,
    /// The syncs that fail: a part of the file's path, and the first and last number among such files.
    pub refuse: Option<(&'static str, u32, u32)>,
}

/// Returns the library that intercepts the syncs, compiled once.
fn build_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| compile_library("power_cut"))
}

/// A folder, and a store with the durable part of it.
pub struct DurableDisk {
    root: PathBuf,
    store: PathBuf,
}

impl DurableDisk {
    /// Starts with everything below the folder durable.
    pub fn under(root: &Path, store: &Path) -> Self {
        let disk = Self {
            root: root.canonicalize().expect("there"),
            store: store.to_owned(),
        };
        disk.settle();
        disk
    }

    /// Returns the environment variables for a program that writes to this disk.
    pub fn variables(&self, mishap: PowerFailure) -> Vec<(&'static str, OsString)> {
        let mut variables = vec![
            ("LD_PRELOAD", build_library().into()),
            ("CUT_PROGRAM", PROGRAM.into()),
            ("CUT_ROOT", self.root.clone().into()),
            ("CUT_DISK", self.store.clone().into()),
            ("CUT_AT", mishap.cut_at.to_string().into()),
        ];
        if mishap.after {
            variables.push(("CUT_AFTER", "1".into()));
        }
        if let Some((part, from, to)) = mishap.refuse {
            variables.push(("CUT_REFUSE", part.into()));
            variables.push(("CUT_REFUSE_FROM", from.to_string().into()));
            variables.push(("CUT_REFUSE_TO", to.to_string().into()));
        }
        variables
    }

    /// Makes everything below the folder durable.
    pub fn settle(&self) {
        let _ = fs::remove_dir_all(&self.store);
        for folder in ["files", "names"] {
            fs::create_dir_all(self.store.join(folder)).expect("made");
        }
        self.settle_folder(&self.root, "");
    }

    fn settle_folder(&self, folder: &Path, inner: &str) {
        let mut lines = Vec::new();
        for entry in fs::read_dir(folder).expect("a folder") {
            let entry = entry.expect("an entry");
            let kind = entry.file_type().expect("a kind");
            let name = entry.file_name();
            let key = key_of(&entry.path());
            if kind.is_dir() {
                let inner = [inner, name.to_str().expect("text")].join("/");
                self.settle_folder(&entry.path(), inner.trim_start_matches('/'));
            } else if kind.is_file() {
                fs::copy(entry.path(), self.store.join("files").join(&key)).expect("copied");
            } else {
                continue;
            }
            let letter = if kind.is_dir() { "d" } else { "f" };
            lines.push(format!("{key} {letter} {}\n", name.to_str().expect("text")));
        }
        fs::write(self.names_file(inner), lines.concat()).expect("written");
    }

    fn names_file(&self, inner: &str) -> PathBuf {
        self.store
            .join("names")
            .join(format!("%{}", inner.replace('/', "%")))
    }

    /// Cuts the power: all unsynced data is lost, or with `chance` a random part of it.
    pub fn lose_power(&self, mut chance: Option<&mut dyn FnMut() -> bool>) {
        let after = self.root.with_extension("after");
        let _ = fs::remove_dir_all(&after);
        copy_mode(&self.root, &after);
        self.restore(&self.root, &after, "", &mut chance);
        fs::remove_dir_all(&self.root).expect("removed");
        fs::rename(&after, &self.root).expect("renamed");
        self.settle();
    }

    fn restore(
        &self,
        from: &Path,
        to: &Path,
        inner: &str,
        chance: &mut Option<&mut dyn FnMut() -> bool>,
    ) {
        let durable = fs::read_to_string(self.names_file(inner)).unwrap_or_default();
        let mut names = BTreeMap::new();
        for line in durable.lines() {
            let (key, rest) = line.split_once(' ').expect("a key");
            names.insert(
                rest[2..].to_owned(),
                (key.to_owned(), rest.starts_with('d')),
            );
        }
        if let Some(chance) = chance {
            by_chance(&mut names, from, chance);
        }
        for (name, (key, is_folder)) in names {
            let old = from.join(&name);
            let new = to.join(&name);
            if is_folder {
                // A folder that is gone by now is empty on the disk, as far as the runner uses its folders.
                if old.is_dir() {
                    copy_mode(&old, &new);
                    let inner = [inner, &name].join("/");
                    self.restore(&old, &new, inner.trim_start_matches('/'), chance);
                }
                continue;
            }
            let mut bytes = fs::read(self.store.join("files").join(&key)).unwrap_or_default();
            if let Some(chance) = chance
                && old.is_file()
                && key_of(&old) == key
            {
                tear_write(&mut bytes, &fs::read(&old).expect("reads"), chance);
            }
            fs::write(&new, bytes).expect("written");
            let mode = old.metadata().map_or(0o600, |file| {
                std::os::unix::fs::PermissionsExt::mode(&file.permissions())
            });
            fs::set_permissions(&new, std::os::unix::fs::PermissionsExt::from_mode(mode))
                .expect("set");
        }
    }
}

/// Decides for each changed and unsynced name whether the disk has the old or the new entry.
fn by_chance(
    names: &mut BTreeMap<String, (String, bool)>,
    from: &Path,
    chance: &mut dyn FnMut() -> bool,
) {
    let mut now = BTreeMap::new();
    for entry in fs::read_dir(from).expect("a folder").filter_map(Result::ok) {
        let kind = entry.file_type().expect("a kind");
        if kind.is_dir() || kind.is_file() {
            let name = entry.file_name().into_string().expect("text");
            now.insert(name, (key_of(&entry.path()), kind.is_dir()));
        }
    }
    let all: Vec<String> = names.keys().chain(now.keys()).cloned().collect();
    for name in all {
        if names.get(&name) != now.get(&name) && chance() {
            match now.get(&name) {
                Some(entry) => names.insert(name, entry.clone()),
                None => names.remove(&name),
            };
        }
    }
}

/// Decides for each changed and unsynced sector, and for the length, whether the disk has the old or the new state.
fn tear_write(durable: &mut Vec<u8>, now: &[u8], chance: &mut dyn FnMut() -> bool) {
    const SECTOR: usize = 512;
    if chance() {
        durable.resize(now.len(), 0);
    }
    let shared = durable.len().min(now.len());
    for at in (0..shared).step_by(SECTOR) {
        let end = (at + SECTOR).min(shared);
        if durable[at..end] != now[at..end] && chance() {
            durable[at..end].copy_from_slice(&now[at..end]);
        }
    }
}

fn copy_mode(from: &Path, to: &Path) {
    fs::create_dir(to).expect("made");
    let mode = from.metadata().expect("there").permissions();
    fs::set_permissions(to, mode).expect("set");
}

/// Identifies a file under any name: by its inode and birth time, as the library writes them.
fn key_of(path: &Path) -> String {
    let name = OsStr::from_bytes(path.as_os_str().as_bytes());
    let seen = statx(
        CWD,
        name,
        AtFlags::SYMLINK_NOFOLLOW,
        StatxFlags::BASIC_STATS | StatxFlags::BTIME,
    )
    .expect("it can be looked at");
    format!(
        "{}-{}-{}",
        seen.stx_ino, seen.stx_btime.tv_sec, seen.stx_btime.tv_nsec
    )
}
