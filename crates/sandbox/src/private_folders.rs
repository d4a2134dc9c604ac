//! The folders that belong to commands and stand in the place of the user's caches: filled once and kept. Copies, so
//! that no command can change files that the user's own tools later run. Not here: which folders (home_table).
#![expect(
    clippy::disallowed_methods,
    reason = "the user's caches are copied here, by names that no command chooses"
)]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::home_table::{PRIVATE, PrivateFolder};

/// The most bytes of one entry that are copied where the file system cannot share blocks.
const MAX_COPIED_BYTES: u64 = 1 << 30;

/// Makes the folders of commands that are not there yet, below the folder that commands see as the home, and fills them
/// from the user's. Returns them with the paths of the user's folders that are too large to copy, which commands see
/// read-only. Blocks, for seconds where caches are large.
pub(super) fn make_command_folders(
    private_home: &Path,
    home: &Path,
) -> io::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
    let mut made = Vec::new();
    for private in PRIVATE {
        let folder = private_home.join(private.path);
        fs::create_dir_all(&folder)?;
        // A command may have closed it to all later ones.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        // The user may have had no such cache at the first command.
        if fs::read_dir(&folder)?.next().is_none() {
            fill_folder(private, &home.join(private.path), &folder, private_home)?;
        }
        made.push(folder);
    }
    Ok((made, read_too_large(private_home)))
}

/// The file that names the user's folders that were too large.
fn too_large_file(private_home: &Path) -> PathBuf {
    private_home.with_extension("too-large")
}

fn read_too_large(private_home: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(too_large_file(private_home)).unwrap_or_default();
    text.lines().map(PathBuf::from).collect()
}

/// Fills an empty folder. The copy is made beside it first: one that breaks off is made again. The folder itself stays:
/// other conversations may see it already.
fn fill_folder(
    private: &PrivateFolder,
    own: &Path,
    to: &Path,
    private_home: &Path,
) -> io::Result<()> {
    // A link could lead anywhere.
    let is_there = |from: &PathBuf| {
        let entry = from.symlink_metadata();
        entry.is_ok_and(|entry| !entry.is_symlink())
    };
    let names: Vec<&str> = private
        .filled_from
        .iter()
        .copied()
        .filter(|name| is_there(&own.join(name)))
        .collect();
    if names.is_empty() {
        return Ok(());
    }
    // Commands of several conversations, and of other processes, may start at the same time.
    let lock = fs::File::create(private_home.with_extension("lock"))?;
    lock.lock()?;
    if fs::read_dir(to)?.next().is_some() {
        return Ok(());
    }
    let draft = private_home.with_extension("new");
    let _ = fs::remove_dir_all(&draft);
    fs::create_dir_all(&draft)?;
    let mut too_large = Vec::new();
    for name in names {
        let from = own.join(name);
        let into = draft.join(name);
        if let Some(parent) = into.parent().filter(|_| name != ".") {
            fs::create_dir_all(parent)?;
        }
        if !copy_entry(&from, &into)? {
            too_large.push(from);
        }
    }
    if !too_large.is_empty() {
        // The mount needs a folder to cover.
        for path in &too_large {
            fs::create_dir_all(draft.join(path.strip_prefix(own).unwrap_or(Path::new("."))))?;
        }
        let all = [read_too_large(private_home), too_large].concat();
        let lines: Vec<String> = all.iter().map(|path| path.display().to_string()).collect();
        fs::write(too_large_file(private_home), lines.join("\n"))?;
    }
    for entry in fs::read_dir(&draft)? {
        let entry = entry?;
        fs::rename(entry.path(), to.join(entry.file_name()))?;
    }
    fs::remove_dir(&draft)
}

/// Copies an entry with shared blocks where the file system has them, else if it is not too large. Returns whether it did.
fn copy_entry(from: &Path, into: &Path) -> io::Result<bool> {
    let small = has_at_most(from, &mut MAX_COPIED_BYTES.clone());
    let share = if small {
        "--reflink=auto"
    } else {
        "--reflink=always"
    };
    // `from/.` copies what is in a folder, also where `into` is there already.
    let from = if from.is_dir() {
        from.join(".")
    } else {
        from.to_owned()
    };
    let copied = Command::new("cp")
        .args(["-a", "--one-file-system", share, "--"])
        .args([from.as_path(), into])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !copied.success() && !small {
        let _ = fs::remove_dir_all(into);
        return Ok(false);
    }
    // A file that cannot be read is left out, as it would be by the user's own `cp`.
    Ok(true)
}

/// Returns whether a file or folder has no more bytes than are left, which are counted down.
fn has_at_most(path: &Path, left: &mut u64) -> bool {
    let Ok(metadata) = path.symlink_metadata() else {
        return true;
    };
    let Some(rest) = left.checked_sub(metadata.len()) else {
        return false;
    };
    *left = rest;
    if !metadata.is_dir() {
        return true;
    }
    let entries = fs::read_dir(path).into_iter().flatten();
    entries
        .filter_map(Result::ok)
        .all(|entry| has_at_most(&entry.path(), left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_filled_once_by_name_and_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let (caches, home) = (folder.path().join("caches"), folder.path().join("home"));
        for (path, text) in [
            (".cargo/registry/src/x/lib.rs", "code"),
            (".cargo/credentials.toml", "token"),
            (".cache/pip/wheel", "wheel"),
            (".cache/other/secret", "secret"),
            (".m2/repository/a/a.jar", "jar"),
            (".m2/settings.xml", "password"),
        ] {
            fs::create_dir_all(home.join(path).parent().expect("one")).expect("made");
            fs::write(home.join(path), text).expect("written");
        }
        let (made, too_large) = make_command_folders(&caches, &home).expect("made");
        assert_eq!((made.len(), too_large.len()), (PRIVATE.len(), 0));
        let read = |at: &str, name: &str| fs::read_to_string(caches.join(at).join(name)).ok();
        assert_eq!(
            read(".cargo", "registry/src/x/lib.rs").as_deref(),
            Some("code")
        );
        assert_eq!(read(".cache", "pip/wheel").as_deref(), Some("wheel"));
        assert_eq!(read(".m2/repository", "a/a.jar").as_deref(), Some("jar"));
        assert_eq!(read(".cargo", "credentials.toml"), None);
        assert_eq!(read(".cache", "other/secret"), None);
        fs::write(home.join(".cache/pip/wheel"), "changed").expect("written");
        fs::create_dir_all(home.join(".gradle/caches")).expect("made");
        fs::write(home.join(".gradle/caches/late"), "late").expect("written");
        make_command_folders(&caches, &home).expect("made");
        assert_eq!(read(".cache", "pip/wheel").as_deref(), Some("wheel"));
        assert_eq!(
            read(".gradle", "caches/late").as_deref(),
            Some("late"),
            "an empty one is filled"
        );
        std::thread::scope(|scope| {
            fs::remove_dir_all(caches.join(".m2/repository")).expect("removed");
            for _ in 0..8 {
                scope.spawn(|| make_command_folders(&caches, &home).expect("made beside others"));
            }
        });
        assert_eq!(read(".m2/repository", "a/a.jar").as_deref(), Some("jar"));
        assert!(has_at_most(&home.join(".cargo"), &mut 1_000_000));
        assert!(!has_at_most(&home.join(".cargo"), &mut 10));
    }
}
