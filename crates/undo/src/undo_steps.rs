//! Carrying out an undo: one step after the other, and all of them taken back if one fails. Each name is opened beneath
//! its workspace, as a call's is.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;

use super::content_store::ContentStore;
use super::made_tree::{MadeTree, find_other_content};
use super::step_changes::{has_content, make_folder, make_link, set_folder_mode, write_file};
use super::tree::move_without_replacing;
use punie_core::durable::temp_name;
use punie_core::failpoint::reach;
use punie_host::WorkspacePath;

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
    /// Makes an empty folder with this mode.
    MakeFolder { path: WorkspacePath, mode: u32 },
    /// Makes a link.
    MakeLink {
        path: WorkspacePath,
        target: PathBuf,
    },
    /// Moves an item of the trash back to its place.
    BringBack { item: PathBuf, to: WorkspacePath },
}

/// A step that is done, with what takes it back. No folder is held open: there may be more than a process may have open.
struct CompletedStep<'a> {
    step: &'a UndoStep,
    /// The name in the same folder of what the request had left there, until all steps are done.
    aside: Option<OsString>,
    /// The permission bits that a folder had.
    earlier_mode: Option<u32>,
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
            | Self::SetMode { path, .. }
            | Self::MakeFolder { path, .. }
            | Self::MakeLink { path, .. } => path,
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
            UndoStep::MakeFolder { mode, .. } => make_folder(&folder, &name, *mode)?,
            UndoStep::MakeLink { target, .. } => make_link(&folder.entry_path(&name), target)?,
            UndoStep::BringBack { item, .. } => {
                move_without_replacing(item, &folder.entry_path(&name))?;
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
            (UndoStep::MakeFolder { .. }, _) => folder.remove_folder_entry(&name)?,
            (UndoStep::MakeLink { .. }, _) => folder.remove_file_entry(&name)?,
            (UndoStep::BringBack { item, .. }, _) => {
                move_without_replacing(&folder.entry_path(&name), item)?;
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
        }
        Ok(())
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

#[cfg(all(test, unix))]
mod tests {
    use std::fs::{self, File};

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
        let old = keep("old\n");
        let new = keep("new\n");
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
}
