//! Carrying out an undo: one step after the other, and all of them taken back if one fails. Each name is opened beneath
//! its workspace, as a call's is.
#![expect(
    clippy::disallowed_methods,
    reason = "this file puts back what the trash has"
)]

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::content_store::ContentStore;
use super::made_tree::{MadeTree, find_other_content};
use super::step_changes::{has_content, make_folder, make_link, set_folder_mode, write_file};
use super::tree::move_without_replacing;
use punie_core::durable::temp_name;
use punie_core::failpoint::reach;
use punie_host::WorkspacePath;
use punie_host::workspace::FolderHandle;

/// One change that an undo makes.
#[derive(Debug)]
pub(super) enum UndoStep {
    /// Gives a file a kept content and its mode. `expected` is the hash of what it holds now; `None` if there is no file.
    Write {
        path: WorkspacePath,
        sha256: String,
        mode: Option<u32>,
        expected: Option<String>,
    },
    /// Removes a file that the request made, as long as it has the content of this hash.
    Remove {
        path: WorkspacePath,
        expected: String,
    },
    /// Moves a file back where it was.
    MoveBack {
        at: WorkspacePath,
        to: WorkspacePath,
    },
    /// Moves what the request made to the trash, as long as it is as the request left it.
    TrashMade {
        path: WorkspacePath,
        item: PathBuf,
        expected: MadeTree,
    },
    /// Gives a folder these permission bits.
    SetMode { path: WorkspacePath, mode: u32 },
    /// Brings back what a command removed, to its place or into another item of the trash that comes back later. What is
    /// there is moved to `newer` first.
    BringBack {
        removed: RemovedContent,
        to: WorkspacePath,
        newer: Option<PathBuf>,
    },
}

/// Content that a command removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RemovedContent {
    /// It lies here in the trash.
    Item(PathBuf),
    /// An empty folder with this mode.
    EmptyFolder(u32),
    Link(PathBuf),
}

/// A step that is done, with what takes it back. No folder is held open: there may be more than a process may have open.
struct CompletedStep<'a> {
    step: &'a UndoStep,
    /// The name in the same folder of what the request had left there, until all steps are done.
    aside: Option<OsString>,
    /// The item that was moved out of the way.
    cleared: Option<ClearedPath>,
    /// The permission bits that a folder had.
    earlier_mode: Option<u32>,
}

/// A place that was cleared for something older.
struct ClearedPath {
    /// The item that lay there is here; if there was none, an empty folder marks that.
    newer: PathBuf,
    was_empty: bool,
}

/// Does all steps, or nothing. What was put aside is compared once more before it goes: it may have been changed since the
/// undo was planned, and then everything is taken back.
pub(super) fn apply_steps(steps: &[UndoStep], contents: &ContentStore) -> Result<(), String> {
    let mut done: Vec<CompletedStep<'_>> = Vec::new();
    for step in steps {
        match CompletedStep::apply(step, contents) {
            Ok(one) => done.push(one),
            Err(cause) => return Err(revert_steps(done, step, &cause)),
        }
        reach("undo.step");
    }
    if let Some((step, cause)) = done
        .iter()
        .find_map(|one| Some((one.step, one.check_moved_aside().err()?)))
    {
        return Err(revert_steps(done, step, &cause));
    }
    done.into_iter().for_each(CompletedStep::discard_replaced);
    Ok(())
}

fn revert_steps(done: Vec<CompletedStep<'_>>, failed: &UndoStep, cause: &io::Error) -> String {
    let mut text = format!(
        "{}: {cause}",
        failed.changed_path().absolute_path().display()
    );
    for one in done.into_iter().rev() {
        if let Err(cause) = one.revert() {
            text.push_str("; what was put back before it could not be taken away again: ");
            text.push_str(&cause.to_string());
        }
    }
    text
}

impl UndoStep {
    pub fn changed_path(&self) -> &WorkspacePath {
        match self {
            Self::Write { path, .. }
            | Self::Remove { path, .. }
            | Self::TrashMade { path, .. }
            | Self::SetMode { path, .. } => path,
            Self::MoveBack { to, .. } | Self::BringBack { to, .. } => to,
        }
    }
}

impl<'a> CompletedStep<'a> {
    fn apply(step: &'a UndoStep, contents: &ContentStore) -> io::Result<Self> {
        let makes = !matches!(
            step,
            UndoStep::Remove { .. } | UndoStep::TrashMade { .. } | UndoStep::SetMode { .. }
        );
        let (folder, name) = step.changed_path().open_parent_folder(makes)?;
        let mut done = Self {
            step,
            aside: None,
            cleared: None,
            earlier_mode: None,
        };
        match step {
            UndoStep::Write {
                sha256,
                mode,
                expected,
                ..
            } => {
                let temp = temp_name(&name)?;
                let written =
                    write_file(&folder, &temp, contents, sha256, *mode).and_then(
                        |()| match expected {
                            Some(_) => folder.exchange_entries(&temp, &name),
                            None => folder.rename_without_replacing(&temp, &name),
                        },
                    );
                if let Err(cause) = written {
                    let _ = folder.remove_file_entry(&temp);
                    return Err(cause);
                }
                done.aside = expected.is_some().then_some(temp);
            }
            UndoStep::Remove { .. } => {
                let aside = temp_name(&name)?;
                folder.rename_entry(&name, &aside)?;
                done.aside = Some(aside);
            }
            UndoStep::TrashMade { item, .. } => {
                move_without_replacing(&folder.entry_path(&name), item)?;
            }
            UndoStep::SetMode { mode, .. } => {
                done.earlier_mode = set_folder_mode(&folder, &name, *mode)?;
            }
            UndoStep::MoveBack { at, .. } => {
                let (from, old) = at.open_parent_folder(false)?;
                from.move_without_replacing(&old, &folder, &name)?;
            }
            UndoStep::BringBack { removed, newer, .. } => {
                done.cleared = newer
                    .as_deref()
                    .map(|newer| clear_path(&folder, &name, newer))
                    .transpose()?;
                let brought = match removed {
                    RemovedContent::Item(item) => {
                        move_without_replacing(item, &folder.entry_path(&name))
                    }
                    RemovedContent::EmptyFolder(mode) => make_folder(&folder, &name, *mode),
                    RemovedContent::Link(target) => make_link(&folder.entry_path(&name), target),
                };
                if let Err(cause) = brought {
                    done.restore_cleared(&folder, &name)?;
                    return Err(cause);
                }
            }
        }
        folder.fsync_folder()?;
        Ok(done)
    }

    fn revert(self) -> io::Result<()> {
        let (folder, name) = self.step.changed_path().open_parent_folder(false)?;
        match (self.step, &self.aside) {
            // A change that was made to it meanwhile is kept.
            (UndoStep::Write { sha256, .. }, Some(aside)) => {
                folder.exchange_entries(aside, &name)?;
                if !has_content(&folder, aside, sha256)? {
                    let text = format!(
                        "it was changed meanwhile; the change is kept as {}",
                        aside.display()
                    );
                    return Err(io::Error::other(text));
                }
                folder.remove_file_entry(aside)?;
            }
            (UndoStep::Write { sha256, .. }, None) => {
                if !has_content(&folder, &name, sha256)? {
                    return Err(io::Error::other(
                        "it was changed meanwhile, and stays as it is",
                    ));
                }
                folder.remove_file_entry(&name)?;
            }
            // It may be no file any more.
            (UndoStep::Remove { .. }, aside) => {
                aside.as_ref().map_or(Ok(()), |aside| {
                    folder.move_without_replacing(aside, &folder, &name)
                })?;
            }
            (UndoStep::TrashMade { item, .. }, _) => {
                move_without_replacing(item, &folder.entry_path(&name))?;
            }
            (UndoStep::SetMode { .. }, _) => {
                if let Some(mode) = self.earlier_mode {
                    set_folder_mode(&folder, &name, mode)?;
                }
            }
            (UndoStep::MoveBack { at, .. }, _) => {
                let (from, old) = at.open_parent_folder(true)?;
                folder.move_without_replacing(&name, &from, &old)?;
            }
            (
                UndoStep::BringBack {
                    removed: RemovedContent::Item(item),
                    ..
                },
                _,
            ) => {
                move_without_replacing(&folder.entry_path(&name), item)?;
            }
            (
                UndoStep::BringBack {
                    removed: RemovedContent::Link(_),
                    ..
                },
                _,
            ) => folder.remove_file_entry(&name)?,
            (UndoStep::BringBack { .. }, _) => folder.remove_folder_entry(&name)?,
        }
        self.restore_cleared(&folder, &name)
    }

    /// Moves back an item that was moved out of the way.
    fn restore_cleared(&self, folder: &FolderHandle, name: &OsStr) -> io::Result<()> {
        match &self.cleared {
            None => Ok(()),
            Some(ClearedPath {
                newer,
                was_empty: true,
            }) => fs::remove_dir(newer),
            Some(ClearedPath { newer, .. }) => {
                move_without_replacing(newer, &folder.entry_path(name))
            }
        }
    }

    /// Fails if the item that was put aside differs from the result of the request.
    fn check_moved_aside(&self) -> io::Result<()> {
        if let UndoStep::TrashMade { item, expected, .. } = self.step {
            return match find_other_content(item, expected) {
                None => Ok(()),
                Some(_) => Err(changed_meanwhile()),
            };
        }
        let (
            Some(aside),
            UndoStep::Write {
                expected: Some(expected),
                ..
            }
            | UndoStep::Remove { expected, .. },
        ) = (&self.aside, self.step)
        else {
            return Ok(());
        };
        let (folder, _) = self.step.changed_path().open_parent_folder(false)?;
        if has_content(&folder, aside, expected)? {
            return Ok(());
        }
        Err(changed_meanwhile())
    }

    /// Removes the results of the request, which were put aside.
    fn discard_replaced(self) {
        let Some(aside) = self.aside else { return };
        let removed = self
            .step
            .changed_path()
            .open_parent_folder(false)
            .and_then(|(folder, _)| {
                folder.remove_file_entry(&aside)?;
                folder.fsync_folder()
            });
        if let Err(cause) = removed {
            tracing::warn!(name = %aside.display(), %cause, "what an undo replaced is left beside its file");
        }
    }
}

fn changed_meanwhile() -> io::Error {
    io::Error::other("it was changed while it was being put back; nothing of the change was lost")
}

/// Moves the item at a name to `newer`. If nothing is, an empty folder there says so.
fn clear_path(folder: &FolderHandle, name: &OsStr, newer: &Path) -> io::Result<ClearedPath> {
    // A link is something too.
    let was_empty = folder
        .entry_metadata(name)
        .is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound);
    if was_empty {
        fs::create_dir(newer)?;
    } else {
        move_without_replacing(&folder.entry_path(name), newer)?;
    }
    Ok(ClearedPath {
        newer: newer.to_owned(),
        was_empty,
    })
}

#[cfg(all(test, unix))]
mod tests {
    use std::fs::File;

    use super::*;
    use punie_host::Workspace;

    #[test]
    fn what_changes_after_the_planning_is_not_lost_and_all_steps_are_taken_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let [work, objects] = ["work", "objects"].map(|name| dir.path().join(name));
        for folder in [&work, &objects] {
            fs::create_dir(folder).expect("made");
        }
        let workspace = Workspace::open_roots(std::slice::from_ref(&work)).expect("open");
        let contents = ContentStore::in_folder(objects);
        let keep = |text: &str| {
            let path = dir.path().join("draft");
            fs::write(&path, text).expect("written");
            contents
                .store_from_file(&mut File::open(&path).expect("there"))
                .expect("kept")
                .0
        };
        let (old, new) = (keep("old\n"), keep("new\n"));
        let names = ["first", "second"];
        let path = |name: &str| {
            workspace
                .path_if_inside(&workspace.first_root().join(name))
                .expect("inside")
        };
        let read = |name: &str| fs::read_to_string(work.join(name)).expect(name);
        let put = |name| UndoStep::Write {
            path: path(name),
            sha256: old.clone(),
            mode: None,
            expected: Some(new.clone()),
        };
        let drop = |name| UndoStep::Remove {
            path: path(name),
            expected: new.clone(),
        };
        for second in [put("second"), drop("second")] {
            fs::write(work.join("first"), "new\n").expect("written");
            fs::write(work.join("second"), "by hand\n").expect("written");
            let refused =
                apply_steps(&[put("first"), second], &contents).expect_err("it was changed");
            assert!(refused.contains("second: it was changed"), "{refused}");
            assert_eq!(names.map(read), ["new\n", "by hand\n"]);
            assert_eq!(
                fs::read_dir(&work).expect("there").count(),
                2,
                "nothing lies about"
            );
        }
        // A folder with something in it instead of the file.
        fs::remove_file(work.join("second")).expect("there");
        fs::create_dir(work.join("second")).expect("made");
        fs::write(work.join("second/mine"), "by hand\n").expect("written");
        assert!(apply_steps(&[drop("second")], &contents).is_err());
        assert_eq!(read("second/mine"), "by hand\n");
        fs::write(work.join("first"), "new\n").expect("written");
        apply_steps(&[put("first")], &contents).expect("as it was left");
        assert_eq!(read("first"), "old\n");
    }
    #[test]
    fn what_made_room_for_something_older_is_put_back_when_a_later_step_fails() {
        let dir = tempfile::tempdir().expect("a folder");
        let [work, trash, objects] = ["work", "trash", "objects"].map(|name| dir.path().join(name));
        fs::create_dir_all(trash.join("1/sub")).expect("made");
        for (path, text) in [("1/out", "newer"), ("1/sub/f", "newer"), ("0", "older")] {
            fs::write(trash.join(path), text).expect("written");
        }
        fs::create_dir(&work).expect("made");
        let workspace = Workspace::open_roots(std::slice::from_ref(&work)).expect("open");
        let path = |name: &str| {
            workspace
                .path_if_inside(&workspace.first_root().join(name))
                .expect("inside")
        };
        let newer = |name: &str| Some(trash.join(name));
        fs::write(work.join("last"), "by hand").expect("written");
        let mut steps = vec![
            UndoStep::BringBack {
                removed: RemovedContent::Item(trash.join("1")),
                to: path("build"),
                newer: None,
            },
            UndoStep::BringBack {
                removed: RemovedContent::Item(trash.join("0")),
                to: path("build/out"),
                newer: newer("a"),
            },
            UndoStep::BringBack {
                removed: RemovedContent::EmptyFolder(0o700),
                to: path("build/sub"),
                newer: newer("b"),
            },
            UndoStep::Remove {
                path: path("last"),
                expected: "something else".to_owned(),
            },
        ];
        let contents = ContentStore::in_folder(objects);
        apply_steps(&steps, &contents).expect_err("the last was changed");
        let read = |path: PathBuf| fs::read_to_string(&path).expect("there");
        assert_eq!(
            ["1/out", "1/sub/f", "0"].map(|it| read(trash.join(it))),
            ["newer", "newer", "older"]
        );
        assert_eq!(
            fs::read_dir(&trash).expect("there").count(),
            2,
            "nothing lies about"
        );
        assert!(!work.join("build").exists());
        steps.pop();
        apply_steps(&steps, &contents).expect("nothing is in the way");
        assert_eq!(read(work.join("build/out")), "older");
        assert_eq!(
            fs::read_dir(work.join("build/sub")).expect("there").count(),
            0
        );
        assert_eq!(
            [read(trash.join("a")), read(trash.join("b/f"))],
            ["newer", "newer"]
        );
    }
}
