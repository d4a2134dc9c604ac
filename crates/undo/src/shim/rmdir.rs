//! `rmdir`: the system's program removes the folders. Which empty folders there were, and with which modes, is written
//! down first.
#![expect(
    clippy::disallowed_methods,
    reason = "this file looks at the folders that are to be removed"
)]

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::{ShimEnv, SystemProgram, TrashWriter, resolve_parent_links, write_error_message};
use crate::manifest::{ManifestLine, ManifestPath};

/// Announces the empty folders among the operands, runs the program, and withdraws those that it did not remove.
pub(super) fn remove_empty_folders(env: &ShimEnv, args: &[OsString], system: &SystemProgram) -> u8 {
    let mut writer = TrashWriter::new(env, system.name);
    let folders: Vec<PathBuf> = find_candidates(args)
        .into_iter()
        .filter_map(resolve_parent_links)
        .filter(|path| env.find_workspace(path).is_some())
        .collect();
    let lines: Vec<ManifestLine> = folders
        .iter()
        .filter_map(|path| {
            let mode = fs::symlink_metadata(path)
                .ok()
                .filter(fs::Metadata::is_dir)?
                .permissions()
                .mode();
            Some(ManifestLine::EmptyFolder {
                path: ManifestPath(path.clone()),
                mode: mode & 0o7777,
            })
        })
        .collect();
    let announced = if lines.is_empty() {
        None
    } else {
        writer.announce_removal(&lines)
    };
    if let Some(why) = &writer.failure {
        write_error_message(
            system.name,
            &format!("the trash cannot be used ({why}); what is removed cannot be undone"),
        );
    }
    let exit_code = system.run_program(args);
    if let Some(folder) = announced {
        let stayed: Vec<PathBuf> = folders
            .into_iter()
            .filter(|path| path.symlink_metadata().is_ok())
            .collect();
        writer.withdraw_removal(&folder, stayed);
    }
    exit_code
}

/// The operands that are empty folders; with `-p` also the folders above them that the path names.
fn find_candidates(args: &[OsString]) -> Vec<&Path> {
    let (options, operands): (Vec<&OsString>, Vec<&OsString>) = args
        .iter()
        .partition(|arg| arg.as_bytes().starts_with(b"-"));
    // One option too many that is taken for `-p` costs a line that is withdrawn.
    let with_parents = options
        .iter()
        .any(|option| option.as_bytes().contains(&b'p'));
    let is_empty =
        |path: &Path| fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none());
    operands
        .into_iter()
        .map(Path::new)
        .filter(|path| is_empty(path))
        .flat_map(|path| {
            path.ancestors()
                .take(if with_parents { usize::MAX } else { 1 })
        })
        .collect()
}
