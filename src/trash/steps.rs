//! Carrying out an undo: one step after the other, and all of them back if one fails. Each name is opened beneath its
//! workspace, as a call's is. Not here: which steps there are (undo).
#![expect(clippy::disallowed_methods, reason = "this file puts back what the trash has")]

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::contents::Contents;
use super::tree;
use crate::acp::WorkspacePath;
use crate::acp::workspace::Folder;
use crate::failpoint::reach;
use crate::ids::hex;

/// One thing to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// A file gets a kept content and its mode; it is there, or not.
    Put { path: WorkspacePath, sha256: String, mode: Option<u32>, replaces: bool },
    /// A file that the request made goes.
    Drop { path: WorkspacePath },
    /// A file goes back where it was.
    MoveBack { at: WorkspacePath, to: WorkspacePath },
    /// Something comes out of the trash.
    Bring { item: PathBuf, to: WorkspacePath },
    /// An empty folder is made again.
    Folder { path: WorkspacePath, mode: u32 },
}

/// A step that is done, with what it takes to take it back.
enum Done {
    Exchanged(Folder, OsString, OsString),
    Made(Folder, OsString),
    Aside(Folder, OsString, OsString),
    Moved { at: (Folder, OsString), to: (Folder, OsString) },
    Brought { item: PathBuf, folder: Folder, name: OsString },
    MadeFolder(Folder, OsString),
}

/// Does all of it, or nothing.
pub(super) fn carry_out(steps: &[Step], contents: &Contents) -> Result<(), String> {
    let mut done = Vec::new();
    for step in steps {
        match carry_out_one(step, contents) {
            Ok(this) => done.push(this),
            Err(cause) => {
                let mut text = format!("{}: {cause}", step.path().display());
                for this in done.into_iter().rev() {
                    if let Err(cause) = this.take_back() {
                        text.push_str("; what was put back before it could not be taken away again: ");
                        text.push_str(&cause.to_string());
                    }
                }
                return Err(text);
            }
        }
        reach("undo.step");
    }
    for this in done {
        this.finish();
    }
    Ok(())
}

impl Step {
    pub fn path(&self) -> &std::path::Path {
        match self {
            Self::Put { path, .. } | Self::Drop { path } | Self::Folder { path, .. } => path.absolute(),
            Self::MoveBack { to, .. } | Self::Bring { to, .. } => to.absolute(),
        }
    }
}

fn carry_out_one(step: &Step, contents: &Contents) -> io::Result<Done> {
    match step {
        Step::Put { path, sha256, mode, replaces } => {
            let (folder, name) = path.open_parent(true)?;
            let temp = temp_name(&name)?;
            let placed = put(&folder, &temp, contents, sha256, *mode).and_then(|()| {
                if *replaces { folder.exchange(&temp, &name) } else { folder.rename_new(&temp, &name) }
            });
            if let Err(cause) = placed {
                let _ = folder.remove(&temp);
                return Err(cause);
            }
            folder.sync()?;
            Ok(if *replaces { Done::Exchanged(folder, temp, name) } else { Done::Made(folder, name) })
        }
        Step::Drop { path } => {
            let (folder, name) = path.open_parent(false)?;
            let aside = temp_name(&name)?;
            folder.rename(&name, &aside)?;
            Ok(Done::Aside(folder, aside, name))
        }
        Step::MoveBack { at, to } => {
            let (at, to) = (at.open_parent(false)?, to.open_parent(true)?);
            at.0.move_new(&at.1, &to.0, &to.1)?;
            to.0.sync()?;
            Ok(Done::Moved { at, to })
        }
        Step::Bring { item, to } => {
            let (folder, name) = to.open_parent(true)?;
            tree::move_new(item, &folder.path_of(&name))?;
            folder.sync()?;
            Ok(Done::Brought { item: item.clone(), folder, name })
        }
        Step::Folder { path, mode } => {
            let (folder, name) = path.open_parent(true)?;
            let made = folder.path_of(&name);
            fs::create_dir(&made)?;
            set_mode(&File::open(&made)?, Some(*mode))?;
            Ok(Done::MadeFolder(folder, name))
        }
    }
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

/// A name beside a file that nobody can foresee.
fn temp_name(name: &OsStr) -> io::Result<OsString> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
    let stem: String = name.to_string_lossy().chars().take(40).collect();
    Ok(format!(".{stem}.{}.tmp", hex(&random)).into())
}

impl Done {
    fn take_back(self) -> io::Result<()> {
        match self {
            Self::Exchanged(folder, temp, name) => {
                folder.exchange(&temp, &name)?;
                folder.remove(&temp)
            }
            Self::Made(folder, name) => folder.remove(&name),
            Self::Aside(folder, aside, name) => folder.rename_new(&aside, &name),
            Self::Moved { at, to } => to.0.move_new(&to.1, &at.0, &at.1),
            Self::Brought { item, folder, name } => tree::move_new(&folder.path_of(&name), &item),
            Self::MadeFolder(folder, name) => folder.remove_folder(&name),
        }
    }

    /// Lets go of what the request had left.
    fn finish(self) {
        let (folder, name) = match self {
            Self::Exchanged(folder, temp, _) => (folder, temp),
            Self::Aside(folder, aside, _) => (folder, aside),
            _ => return,
        };
        if let Err(cause) = folder.remove(&name).and_then(|()| folder.sync()) {
            tracing::warn!(name = %name.display(), %cause, "what an undo replaced is left beside its file");
        }
    }
}
