//! Unpacks archives into an empty folder. An archive with a name that leads out of it, a hard link, a device, or more
//! than the limits is refused as a whole. Symlinks are made last, so that no file is written through one.

use std::fs::{self, File};
use std::io::{self, BufReader, Read};
use std::path::{Component, Path, PathBuf};

use flate2::read::MultiGzDecoder;
use tar::EntryType;
use zip::ZipArchive;

use super::super::installed_tree::{create_link, create_plain_file};

/// The most entries and unpacked bytes of an archive, and levels of folders in it.
const MAX_ENTRIES: usize = 50_000;
const MAX_BYTES: u64 = 512 << 20;
const MAX_DEPTH: usize = 32;

/// Unpacks an archive by the ending of its name.
pub(super) fn unpack_archive(archive: &Path, into: &Path) -> Result<(), String> {
    let file = File::open(archive).map_err(|error| error.to_string())?;
    let name = archive.to_string_lossy();
    let mut target = UnpackTarget {
        folder: into,
        left_bytes: MAX_BYTES,
        entries: 0,
        links: Vec::new(),
    };
    if name.ends_with(".zip") {
        target.unpack_zip(file)?;
    } else if name.ends_with(".tar") {
        target.unpack_tar(BufReader::new(file))?;
    } else {
        target.unpack_tar(MultiGzDecoder::new(BufReader::new(file)))?;
    }
    target.make_links()
}

struct UnpackTarget<'a> {
    folder: &'a Path,
    left_bytes: u64,
    entries: usize,
    links: Vec<(PathBuf, PathBuf)>,
}

impl UnpackTarget<'_> {
    fn unpack_tar(&mut self, reader: impl Read) -> Result<(), String> {
        let damaged = |error: io::Error| format!("the archive is damaged: {error}");
        // Headers of long names count too, so that they cannot fill the memory.
        let mut archive = tar::Archive::new(reader.take(MAX_BYTES * 2));
        for entry in archive.entries().map_err(damaged)? {
            let mut entry = entry.map_err(damaged)?;
            let kind = entry.header().entry_type();
            if kind.is_pax_global_extensions() || kind.is_pax_local_extensions() {
                continue;
            }
            let name = entry.path().map_err(damaged)?.into_owned();
            let path = self.check_name(&name)?;
            let refused = |why: &str| Err(format!("the archive has {}, {why}", name.display()));
            match kind {
                EntryType::Directory => self.make_folder(&path)?,
                EntryType::Symlink => {
                    let target = entry.link_name().map_err(damaged)?;
                    self.links
                        .push((path, target.unwrap_or_default().into_owned()));
                }
                EntryType::Regular | EntryType::Continuous => {
                    let mode = entry.header().mode().unwrap_or(0o644);
                    self.write_file(&path, &mut entry, mode & 0o100 != 0)?;
                }
                EntryType::Link => return refused("a hard link"),
                _ => return refused("which is neither a file nor a folder nor a link"),
            }
        }
        Ok(())
    }

    fn unpack_zip(&mut self, file: File) -> Result<(), String> {
        let damaged = |error: zip::result::ZipError| format!("the archive is damaged: {error}");
        let mut archive = ZipArchive::new(BufReader::new(file)).map_err(damaged)?;
        if archive.len() > MAX_ENTRIES {
            return Err(format!("the archive has more than {MAX_ENTRIES} entries"));
        }
        for index in 0..archive.len() {
            let mut entry = archive.by_index(index).map_err(damaged)?;
            let name = String::from_utf8_lossy(entry.name_raw()).replace('\\', "/");
            let path = self.check_name(Path::new(&name))?;
            if entry.is_dir() {
                self.make_folder(&path)?;
            } else if entry.is_symlink() {
                let mut target = String::new();
                let read = (&mut entry).take(4096).read_to_string(&mut target);
                read.map_err(|error| format!("the archive has {name}: {error}"))?;
                self.links.push((path, target.into()));
            } else {
                let is_executable = entry.unix_mode().is_some_and(|mode| mode & 0o100 != 0);
                self.write_file(&path, &mut entry, is_executable)?;
            }
        }
        Ok(())
    }

    /// Counts an entry, and returns its path if it stays in the folder.
    fn check_name(&mut self, name: &Path) -> Result<PathBuf, String> {
        self.entries += 1;
        if self.entries > MAX_ENTRIES {
            return Err(format!("the archive has more than {MAX_ENTRIES} entries"));
        }
        let mut path = PathBuf::new();
        for component in name.components() {
            match component {
                Component::Normal(part) => path.push(part),
                Component::CurDir => {}
                _ => {
                    return Err(format!(
                        "the archive has {:?}, a name that leads out of it",
                        name.display().to_string()
                    ));
                }
            }
        }
        if path.components().count() > MAX_DEPTH {
            return Err(format!(
                "the archive has folders more than {MAX_DEPTH} deep"
            ));
        }
        Ok(path)
    }

    fn make_folder(&self, path: &Path) -> Result<(), String> {
        fs::create_dir_all(self.folder.join(path)).map_err(|error| fault(path, &error))
    }

    fn write_file(
        &mut self,
        path: &Path,
        content: &mut impl Read,
        is_executable: bool,
    ) -> Result<(), String> {
        if let Some(parent) = path.parent() {
            self.make_folder(parent)?;
        }
        let mut file = create_plain_file(&self.folder.join(path), is_executable)
            .map_err(|error| fault(path, &error))?;
        let written = io::copy(&mut content.take(self.left_bytes + 1), &mut file);
        let written = written.map_err(|error| fault(path, &error))?;
        if written > self.left_bytes {
            return Err(format!("the archive has more than {} MiB", MAX_BYTES >> 20));
        }
        self.left_bytes -= written;
        Ok(())
    }

    fn make_links(&self) -> Result<(), String> {
        // The folders first: a link that stands where a folder belongs would lead the next one astray.
        for (path, _) in &self.links {
            if let Some(parent) = path.parent() {
                self.make_folder(parent)?;
            }
        }
        for (path, target) in &self.links {
            create_link(target, &self.folder.join(path)).map_err(|error| fault(path, &error))?;
        }
        Ok(())
    }
}

fn fault(path: &Path, error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::AlreadyExists {
        return format!("the archive has {} twice", path.display());
    }
    format!("{}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn target(folder: &Path, left_bytes: u64) -> UnpackTarget<'_> {
        UnpackTarget {
            folder,
            left_bytes,
            entries: 0,
            links: Vec::new(),
        }
    }

    #[test]
    fn an_archive_that_unpacks_to_too_much_is_refused_while_it_is_unpacked() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut tar = tar::Builder::new(Vec::new());
        for name in ["a", "b"] {
            let mut header = tar::Header::new_gnu();
            header.set_size(600);
            header.set_cksum();
            tar.append_data(&mut header, name, &[0; 600][..])
                .expect("added");
        }
        let bytes = tar.into_inner().expect("whole");
        let refused = target(dir.path(), 1000)
            .unpack_tar(&*bytes)
            .expect_err("too much");
        assert!(refused.contains("more than"), "{refused}");
        assert!(
            dir.path()
                .join("b")
                .metadata()
                .is_ok_and(|meta| meta.len() <= 600)
        );
        let fine = tempfile::tempdir().expect("a folder");
        target(fine.path(), 1200)
            .unpack_tar(&*bytes)
            .expect("it fits");
    }

    #[test]
    fn names_stay_in_the_folder() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut target = target(dir.path(), 0);
        for bad in [
            "../a",
            "a/../../b",
            "/etc/passwd",
            &"d/".repeat(MAX_DEPTH + 1),
        ] {
            target.check_name(Path::new(bad)).expect_err(bad);
        }
        assert_eq!(target.check_name(Path::new("./a/./b")), Ok("a/b".into()));
        target.entries = MAX_ENTRIES;
        target
            .check_name(Path::new("one-more"))
            .expect_err("too many");
    }

    #[test]
    fn an_archive_that_is_cut_off_is_damaged() {
        let dir = tempfile::tempdir().expect("a folder");
        let archive = dir.path().join("x.tar.gz");
        let mut file = File::create(&archive).expect("made");
        file.write_all(b"\x1f\x8b\x08").expect("written");
        let refused = unpack_archive(&archive, dir.path()).expect_err("cut off");
        assert!(refused.contains("damaged"), "{refused}");
    }
}
