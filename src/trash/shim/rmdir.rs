//! `rmdir`: empty folders only, as that program removes them. The folder itself goes; that it was there, and with which
//! mode, is written down first. Not here: the options.
#![expect(clippy::disallowed_methods, reason = "this file removes folders, which is what was asked for")]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::bin::{Bin, empty_folder};
use super::options::Rmdir;
use super::quoting::quoted;
use super::terms::Terms;
use super::walk::true_path;
use super::{complain, in_words, say};

/// `rmdir`.
pub(super) fn remove(terms: &Terms, asked: &Rmdir) -> u8 {
    let mut bin = Bin::new(terms, "rmdir");
    let mut failed = false;
    for operand in &asked.operands {
        let mut path = Path::new(operand);
        let mut what = "failed to remove";
        loop {
            if asked.verbose {
                say(&format!("rmdir: removing directory, {}", quoted(path.as_os_str())));
            }
            if let Err(cause) = one(terms, &mut bin, path) {
                let full =
                    matches!(cause.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists);
                if !(full && asked.full_is_fine) {
                    complain("rmdir", &format!("{what} {}: {}", quoted(path.as_os_str()), in_words(&cause)));
                    failed = true;
                }
                break;
            }
            match path.parent().filter(|parent| asked.parents && *parent != Path::new("")) {
                Some(parent) => (path, what) = (parent, "failed to remove directory"),
                None => break,
            }
        }
    }
    if let Some(why) = &bin.unusable {
        complain("rmdir", &format!("the trash cannot be used ({why}); what is removed cannot be undone"));
    }
    u8::from(failed)
}

fn one(terms: &Terms, bin: &mut Bin<'_>, path: &Path) -> io::Result<()> {
    let inside = true_path(path).filter(|real| terms.workspace(real).is_some());
    if let Some(real) = inside
        && let Ok(metadata) = fs::symlink_metadata(path)
        && metadata.is_dir()
        && fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
    {
        let announced = bin.announce(&[empty_folder(&real, metadata.permissions().mode() & 0o7777)]);
        return fs::remove_dir(path).inspect_err(|_| {
            if announced {
                bin.stayed();
            }
        });
    }
    fs::remove_dir(path)
}
