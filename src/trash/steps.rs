//! Carrying out an undo: one step after the other, and all of them back if one fails. Each name is opened beneath its
//! workspace, as a call's is. Not here: which steps there are (undo).
#![expect(clippy::disallowed_methods, reason = "this file puts back what the trash has")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::contents::{Contents, hash};
use super::tree;
use crate::acp::WorkspacePath;
use crate::acp::workspace::Folder;
use crate::durable::temp_name;
use crate::failpoint::reach;

/// One thing to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// A file gets a kept content and its mode. It is there with the content of this hash, or there is none.
    Put { path: WorkspacePath, sha256: String, mode: Option<u32>, expected: Option<String> },
    /// A file that the request made goes, as long as it has the content of this hash.
    Drop { path: WorkspacePath, expected: String },
    /// A file goes back where it was.
    MoveBack { at: WorkspacePath, to: WorkspacePath },
    /// Something comes out of the trash, or into something else there that is to come after it. What is there makes room
    /// and is kept at `newer`.
    Bring { item: PathBuf, to: WorkspacePath, newer: Option<PathBuf> },
    /// An empty folder is made again; `newer` as above.
    Folder { path: WorkspacePath, mode: u32, newer: Option<PathBuf> },
}

/// What a step that is done left somewhere else. No folder is held meanwhile: there may be more than a process may have
/// open.
#[derive(Default)]
struct Done {
    /// In the same folder, what the request had left: until all is done.
    aside: Option<OsString>,
    room: Option<Room>,
}

/// Room for something.
struct Room {
    /// In the trash, what made it.
    newer: PathBuf,
    /// Nothing had to.
    was_empty: bool,
}

/// Does all of it, or nothing. What was put aside is looked at once more before it goes: it may have been changed since
/// the undo was planned, and then everything is taken back.
pub(super) fn carry_out(steps: &[Step], contents: &Contents) -> Result<(), String> {
    let mut done: Vec<(&Step, Done)> = Vec::new();
    for step in steps {
        match carry_out_one(step, contents) {
            Ok(this) => done.push((step, this)),
            Err(cause) => return Err(take_all_back(done, &format!("{}: {cause}", step.path().display()))),
        }
        reach("undo.step");
    }
    let changed = done.iter().find_map(|(step, this)| Some((step.path().display(), this.check(step).err()?)));
    if let Some((path, cause)) = changed {
        let text = format!("{path}: {cause}");
        return Err(take_all_back(done, &text));
    }
    for (step, this) in done {
        this.finish(step);
    }
    Ok(())
}

fn take_all_back(done: Vec<(&Step, Done)>, why: &str) -> String {
    let mut text = why.to_owned();
    for (step, this) in done.into_iter().rev() {
        if let Err(cause) = this.take_back(step) {
            text.push_str("; what was put back before it could not be taken away again: ");
            text.push_str(&cause.to_string());
        }
    }
    text
}

impl Step {
    pub fn path(&self) -> &Path {
        self.of().absolute()
    }

    fn of(&self) -> &WorkspacePath {
        match self {
            Self::Put { path, .. } | Self::Drop { path, .. } | Self::Folder { path, .. } => path,
            Self::MoveBack { to, .. } | Self::Bring { to, .. } => to,
        }
    }
}

fn carry_out_one(step: &Step, contents: &Contents) -> io::Result<Done> {
    match step {
        Step::Put { path, sha256, mode, expected } => {
            let (folder, name) = path.open_parent(true)?;
            let temp = temp_name(&name)?;
            let placed = put(&folder, &temp, contents, sha256, *mode).and_then(|()| {
                if expected.is_some() {
                    folder.exchange(&temp, &name)
                } else {
                    folder.rename_new(&temp, &name)
                }
            });
            if let Err(cause) = placed {
                let _ = folder.remove(&temp);
                return Err(cause);
            }
            folder.sync()?;
            Ok(Done { aside: expected.is_some().then_some(temp), ..Done::default() })
        }
        Step::Drop { path, .. } => {
            let (folder, name) = path.open_parent(false)?;
            let aside = temp_name(&name)?;
            folder.rename(&name, &aside)?;
            Ok(Done { aside: Some(aside), ..Done::default() })
        }
        Step::MoveBack { at, to } => {
            let (at, to) = (at.open_parent(false)?, to.open_parent(true)?);
            at.0.move_new(&at.1, &to.0, &to.1)?;
            to.0.sync()?;
            Ok(Done::default())
        }
        Step::Bring { item, to, newer } => {
            let (folder, name) = to.open_parent(true)?;
            let room = make_room(&folder, &name, newer.as_deref())?;
            let moved = tree::move_without_replacing(item, &folder.path_of(&name));
            moved.or_else(|cause| back(room.as_ref(), &folder, &name).and(Err(cause)))?;
            folder.sync()?;
            Ok(Done { room, ..Done::default() })
        }
        Step::Folder { path, mode, newer } => {
            let (folder, name) = path.open_parent(true)?;
            let room = make_room(&folder, &name, newer.as_deref())?;
            let made = make_folder(&folder, &name, *mode);
            made.or_else(|cause| back(room.as_ref(), &folder, &name).and(Err(cause)))?;
            Ok(Done { room, ..Done::default() })
        }
    }
}

/// Moves what is newer out of the way of what was there before it; where nothing is, an empty folder says so.
fn make_room(folder: &Folder, name: &OsStr, newer: Option<&Path>) -> io::Result<Option<Room>> {
    let Some(newer) = newer else { return Ok(None) };
    // A link is something too.
    let was_empty = folder.metadata(name).is_err_and(|cause| cause.kind() == io::ErrorKind::NotFound);
    if was_empty {
        fs::create_dir(newer)?;
    } else {
        tree::move_without_replacing(&folder.path_of(name), newer)?;
    }
    Ok(Some(Room { newer: newer.to_owned(), was_empty }))
}

/// Has it as it was before room was made.
fn back(room: Option<&Room>, folder: &Folder, name: &OsStr) -> io::Result<()> {
    match room {
        None => Ok(()),
        Some(Room { newer, was_empty: true }) => fs::remove_dir(newer),
        Some(Room { newer, .. }) => tree::move_without_replacing(newer, &folder.path_of(name)),
    }
}

/// A new folder with this mode; a link that is put in its place meanwhile gets none.
fn make_folder(folder: &Folder, name: &OsStr, mode: u32) -> io::Result<()> {
    let path = folder.path_of(name);
    fs::create_dir(&path)?;
    #[cfg(unix)]
    if let Err(cause) = super::copy::open_folder(rustix::fs::CWD, path.as_os_str())
        .and_then(|opened| super::copy::set_mode(opened, mode))
    {
        // It is this one's own: it was not there before.
        let _ = folder.remove_folder(name);
        return Err(cause);
    }
    #[cfg(not(unix))]
    let _ = mode;
    Ok(())
}

fn put(
    folder: &Folder,
    temp: &OsStr,
    contents: &Contents,
    sha256: &str,
    mode: Option<u32>,
) -> io::Result<()> {
    let mut file = folder.create_new(temp, 0o600)?;
    contents.copy(sha256, &mut file)?;
    set_mode(&file, mode)?;
    file.sync_all()
}

#[cfg(unix)]
fn set_mode(file: &File, mode: Option<u32>) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    mode.map_or(Ok(()), |mode| file.set_permissions(fs::Permissions::from_mode(mode)))
}

#[cfg(not(unix))]
fn set_mode(_file: &File, _mode: Option<u32>) -> io::Result<()> {
    Ok(())
}

/// Whether a name is that of a file with this content.
fn holds(folder: &Folder, name: &OsStr, sha256: &str) -> io::Result<bool> {
    Ok(folder.metadata(name)?.is_file() && hash(&mut folder.open_file(name)?)?.0 == sha256)
}

impl Done {
    fn take_back(self, step: &Step) -> io::Result<()> {
        let (folder, name) = step.of().open_parent(false)?;
        match (step, self.aside) {
            // What somebody made of it meanwhile is theirs.
            (Step::Put { sha256, .. }, Some(aside)) => {
                folder.exchange(&aside, &name)?;
                if !holds(&folder, &aside, sha256)? {
                    let text = format!("it was changed meanwhile; the change is kept as {}", aside.display());
                    return Err(io::Error::other(text));
                }
                folder.remove(&aside)?;
            }
            (Step::Put { sha256, .. }, None) => {
                if !holds(&folder, &name, sha256)? {
                    return Err(io::Error::other("it was changed meanwhile, and stays as it is"));
                }
                folder.remove(&name)?;
            }
            // It may be no file any more.
            (Step::Drop { .. }, aside) => {
                aside.map_or(Ok(()), |aside| folder.move_new(&aside, &folder, &name))?;
            }
            (Step::MoveBack { at, .. }, _) => {
                let (from, old) = at.open_parent(true)?;
                folder.move_new(&name, &from, &old)?;
            }
            (Step::Bring { item, .. }, _) => tree::move_without_replacing(&folder.path_of(&name), item)?,
            (Step::Folder { .. }, _) => folder.remove_folder(&name)?,
        }
        back(self.room.as_ref(), &folder, &name)
    }

    /// Whether what was put aside is what the request had left, so that nothing is lost with it.
    fn check(&self, step: &Step) -> io::Result<()> {
        let (Some(aside), Step::Put { expected: Some(expected), .. } | Step::Drop { expected, .. }) =
            (&self.aside, step)
        else {
            return Ok(());
        };
        let (folder, _) = step.of().open_parent(false)?;
        if holds(&folder, aside, expected)? {
            return Ok(());
        }
        Err(io::Error::other("it was changed while it was being put back; nothing of the change was lost"))
    }

    /// Lets go of what the request had left.
    fn finish(self, step: &Step) {
        let Some(aside) = self.aside else { return };
        let removed = step.of().open_parent(false).and_then(|(folder, _)| {
            folder.remove(&aside)?;
            folder.sync()
        });
        if let Err(cause) = removed {
            tracing::warn!(name = %aside.display(), %cause, "what an undo replaced is left beside its file");
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::acp::Workspace;

    #[test]
    fn what_changes_after_the_planning_is_not_lost_and_all_steps_are_taken_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let [work, objects] = ["work", "objects"].map(|name| dir.path().join(name));
        for folder in [&work, &objects] {
            fs::create_dir(folder).expect("made");
        }
        let workspace = Workspace::open(std::slice::from_ref(&work)).expect("open");
        let contents = Contents::in_folder(objects);
        let keep = |text: &str| {
            let path = dir.path().join("draft");
            fs::write(&path, text).expect("written");
            contents.keep(&mut File::open(&path).expect("there")).expect("kept").0
        };
        let (old, new) = (keep("old\n"), keep("new\n"));
        let names = ["first", "second"];
        let path = |name: &str| workspace.found(&workspace.first().join(name)).expect("inside");
        let read = |name: &str| fs::read_to_string(work.join(name)).expect(name);
        let put = |name| Step::Put {
            path: path(name),
            sha256: old.clone(),
            mode: None,
            expected: Some(new.clone()),
        };
        let drop = |name| Step::Drop { path: path(name), expected: new.clone() };
        for second in [put("second"), drop("second")] {
            fs::write(work.join("first"), "new\n").expect("written");
            fs::write(work.join("second"), "by hand\n").expect("written");
            let refused = carry_out(&[put("first"), second], &contents).expect_err("it was changed");
            assert!(refused.contains("second: it was changed"), "{refused}");
            assert_eq!(names.map(read), ["new\n", "by hand\n"]);
            assert_eq!(fs::read_dir(&work).expect("there").count(), 2, "nothing lies about");
        }
        // A folder with something in it instead of the file.
        fs::remove_file(work.join("second")).expect("there");
        fs::create_dir(work.join("second")).expect("made");
        fs::write(work.join("second/mine"), "by hand\n").expect("written");
        assert!(carry_out(&[drop("second")], &contents).is_err());
        assert_eq!(read("second/mine"), "by hand\n");
        fs::write(work.join("first"), "new\n").expect("written");
        carry_out(&[put("first")], &contents).expect("as it was left");
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
        let workspace = Workspace::open(std::slice::from_ref(&work)).expect("open");
        let path = |name: &str| workspace.found(&workspace.first().join(name)).expect("inside");
        let newer = |name: &str| Some(trash.join(name));
        fs::write(work.join("last"), "by hand").expect("written");
        let mut steps = vec![
            Step::Bring { item: trash.join("1"), to: path("build"), newer: None },
            Step::Bring { item: trash.join("0"), to: path("build/out"), newer: newer("a") },
            Step::Folder { path: path("build/sub"), mode: 0o700, newer: newer("b") },
            Step::Drop { path: path("last"), expected: "something else".to_owned() },
        ];
        let contents = Contents::in_folder(objects);
        carry_out(&steps, &contents).expect_err("the last was changed");
        let read = |path: PathBuf| fs::read_to_string(&path).expect("there");
        assert_eq!(["1/out", "1/sub/f", "0"].map(|it| read(trash.join(it))), ["newer", "newer", "older"]);
        assert_eq!(fs::read_dir(&trash).expect("there").count(), 2, "nothing lies about");
        assert!(!work.join("build").exists());
        steps.pop();
        carry_out(&steps, &contents).expect("nothing is in the way");
        assert_eq!(read(work.join("build/out")), "older");
        assert_eq!(fs::read_dir(work.join("build/sub")).expect("there").count(), 0);
        assert_eq!([read(trash.join("a")), read(trash.join("b/f"))], ["newer", "newer"]);
    }
}
