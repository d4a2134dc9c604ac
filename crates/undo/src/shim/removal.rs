//! `rm` and `unlink`: what lies in a workspace goes to the trash, a tree in one step where that is possible. What the
//! trash does not take is handed to the system's program, which removes it or says why not.
use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::file_quoting::quote_file_name;
use super::removal_plan::{PlannedMove, RemovalPlan, RemovalRun, list_folder_paths};
use super::shim_env::{ShimEnv, UsedQuota};
use super::trash_writer::{MAX_LINES, TrashWriter};
use super::{
    RmRequest, SystemProgram, format_os_error, resolve_parent_links, without_trailing_slashes,
};
use crate::item_mover::request_move;
use crate::manifest::{ManifestLine, ManifestPath};
use crate::tree;

/// The result for one path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RemovalResult {
    Gone,
    /// It is there, and the reason was given.
    Stays,
    /// The system's program is to remove it.
    Left,
}

/// Removes the operands and returns the exit code.
pub(super) fn remove_files(env: &ShimEnv, request: &RmRequest, system: SystemProgram) -> u8 {
    let asks = system.name == "rm" && !request.force && io::stdin().is_terminal();
    let mut removal = RemovalRun {
        env,
        request,
        writer: TrashWriter::new(env, system.name),
        system,
        used: UsedQuota::default(),
        mover: env.mover.as_deref(),
        asks_about_protected: asks,
        move_failure: None,
        has_warned: false,
        depth: 0,
        exit_code: 0,
    };
    let paths: Vec<PathBuf> = request.operands.iter().map(PathBuf::from).collect();
    removal.remove_paths(&paths);
    removal.exit_code
}

impl RemovalRun<'_> {
    /// Removes the operands, or what is in one folder: plans them, announces at once what goes to the trash, and removes
    /// one after the other. Returns whether all of it is gone.
    fn remove_paths(&mut self, paths: &[PathBuf]) -> bool {
        let mut all_gone = true;
        for paths in paths.chunks(MAX_LINES) {
            let mut used = self.used;
            let plans: Vec<RemovalPlan> = paths
                .iter()
                .map(|path| self.plan(path, &mut used))
                .collect();
            let lines: Vec<ManifestLine> = plans
                .iter()
                .filter_map(RemovalPlan::manifest_announcement)
                .collect();
            let folder = if lines.is_empty() {
                None
            } else {
                self.writer.announce_removal(&lines)
            };
            if folder.is_some() {
                self.used = used;
            }
            let mut left: Vec<&Path> = Vec::new();
            for (path, plan) in paths.iter().zip(plans) {
                let end = match (plan, &folder) {
                    (RemovalPlan::Skip, _) => RemovalResult::Gone,
                    (RemovalPlan::Move(planned), Some(folder)) => {
                        self.move_to_trash(path, &planned, folder)
                    }
                    (RemovalPlan::Empty, _) => self.remove_folder_contents(path),
                    (RemovalPlan::Move(_) | RemovalPlan::HandOver, _) => RemovalResult::Left,
                };
                all_gone &= end != RemovalResult::Stays;
                left.extend((end == RemovalResult::Left).then_some(path.as_path()));
            }
            all_gone &= left.is_empty() || self.run_system_program(&left, None);
        }
        all_gone
    }

    fn move_to_trash(
        &mut self,
        path: &Path,
        planned: &PlannedMove,
        folder: &Path,
    ) -> RemovalResult {
        let Err(cause) = self.move_item(without_trailing_slashes(path), planned, folder) else {
            for (path, is_folder) in &planned.size.paths {
                self.print_removed(path, *is_folder);
            }
            return RemovalResult::Gone;
        };
        self.used
            .subtract_bytes(planned.share, planned.size.on_disk);
        self.writer.withdraw_removal(folder, [planned.real.clone()]);
        if planned.is_folder {
            return if self.may_divide(path, planned.depth) {
                self.remove_folder_contents(path)
            } else {
                RemovalResult::Left
            };
        }
        self.move_failure = Some(format_os_error(&cause));
        RemovalResult::Left
    }

    /// Moves an item in one step, by the runner where the kernel refuses that to this command. A file that both refuse is
    /// copied.
    fn move_item(&mut self, from: &Path, planned: &PlannedMove, folder: &Path) -> io::Result<()> {
        let to = folder.join(&planned.item);
        let cause = match tree::rename_without_replacing(from, &to) {
            Err(cause) if cause.kind() == io::ErrorKind::CrossesDevices => cause,
            renamed => return renamed,
        };
        if self.is_moved_by_runner(&planned.real, &to) {
            return Ok(());
        }
        if planned.is_folder {
            return Err(cause);
        }
        tree::move_file_without_replacing(from, &to)
    }

    /// Returns whether the runner moved an item.
    fn is_moved_by_runner(&mut self, real: &Path, to: &Path) -> bool {
        let Some(socket) = self.mover else {
            return false;
        };
        let below = to.strip_prefix(&self.env.into).unwrap_or(to);
        request_move(socket, real, below).unwrap_or_else(|_| {
            self.mover = None;
            // It may have moved the item and ended before its answer: no other process uses this name.
            fs::symlink_metadata(to).is_ok()
        })
    }

    /// Removes the entries of a folder, then the folder.
    fn remove_folder_contents(&mut self, path: &Path) -> RemovalResult {
        let (Ok(metadata), Ok(entries)) = (fs::symlink_metadata(path), list_folder_paths(path))
        else {
            return RemovalResult::Left;
        };
        self.depth += 1;
        let all_gone = self.remove_paths(&entries);
        self.depth -= 1;
        if !all_gone {
            return RemovalResult::Stays;
        }
        let real =
            resolve_parent_links(path).filter(|real| self.env.find_workspace(real).is_some());
        let announced = real.and_then(|real| {
            let mode = metadata.permissions().mode() & 0o7777;
            let line = ManifestLine::EmptyFolder {
                path: ManifestPath(real.clone()),
                mode,
            };
            Some((self.writer.announce_removal(&[line])?, real))
        });
        if fs::remove_dir(without_trailing_slashes(path)).is_ok() {
            self.print_removed(path, true);
            return RemovalResult::Gone;
        }
        if let Some((folder, real)) = announced {
            self.writer.withdraw_removal(&folder, [real]);
        }
        if self.run_system_program(&[path], Some("-d")) {
            RemovalResult::Gone
        } else {
            RemovalResult::Stays
        }
    }

    /// Has the system's program remove these paths, with our options or with this one in place of `-r`. What it removed
    /// in a workspace is noted as gone for good. Returns whether it succeeded.
    fn run_system_program(&mut self, paths: &[&Path], instead: Option<&'static str>) -> bool {
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        let before: Vec<(&Path, PathBuf)> = paths
            .iter()
            .filter(|path| is_there(path))
            .filter_map(|path| Some((*path, resolve_parent_links(path)?)))
            .filter(|(_, real)| self.env.find_workspace(real).is_some())
            .collect();
        let options = self.request.rm_options().map(|option| match instead {
            Some(other) if option == "-r" => other,
            _ => option,
        });
        let args = options
            .map(Path::new)
            .chain([Path::new("--")])
            .chain(paths.iter().copied());
        let exit_code = self.system.run_program(args);
        if exit_code != 0 {
            self.exit_code = exit_code;
        }
        let gone: Vec<(&Path, PathBuf)> = before
            .into_iter()
            .filter(|(_, real)| !is_there(real))
            .collect();
        if let Some((first, _)) = gone.first() {
            self.warn_about_loss(first);
            let lines: Vec<ManifestLine> = gone
                .into_iter()
                .map(|(_, real)| ManifestLine::ForGood {
                    path: ManifestPath(real),
                })
                .collect();
            self.writer.announce_removal(&lines);
        }
        exit_code == 0
    }

    fn warn_about_loss(&mut self, path: &Path) {
        let because = |why: &String| format!(" ({why})");
        let text = if let Some(why) = &self.writer.failure {
            format!(
                "the trash cannot be used{}; what is removed is gone for good",
                because(why)
            )
        } else {
            let why = self.move_failure.as_ref().map(because).unwrap_or_default();
            format!(
                "{} could not be put into the trash{why}; it is removed for good",
                quote_file_name(path)
            )
        };
        self.warn_once(&text);
    }

    /// Prints a removed path, as `rm -v` does.
    fn print_removed(&mut self, path: &Path, is_folder: bool) {
        let what = if is_folder {
            "removed directory"
        } else {
            "removed"
        };
        if self.request.verbose
            && writeln!(io::stdout().lock(), "{what} {}", quote_file_name(path)).is_err()
        {
            self.exit_code = 1;
        }
    }
}
