//! Replacing a file in one step: a new file beside it, made durable, then renamed over it, all beneath the opened
//! folder. A hard link elsewhere keeps the old content. Not here: what to write (new_bytes).

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::near_names;
use super::new_bytes::{Bytes, kept_as_it_was};
use super::sniff::{self, InvalidBytes};
use super::temp_file::{TempFile, temp_name};
use super::text_window::stamp_of;
use crate::acp::WorkspacePath;
use crate::acp::files::{NewContent, Precondition, Stamp, WriteTextFile, Written};
use crate::acp::prepared::PreparedWrite;
use crate::acp::workspace::{Folder, in_words};
use crate::failpoint::reach_of;
use crate::ids::hex;
use crate::output::figures;
use crate::tool::{ErrorCode, Intent, ToolError};

/// A file up to this size is compared with what replaces it; a bigger one is only hashed.
const COMPARED: u64 = 64 << 20;

/// What is there before the write.
struct Old {
    metadata: Metadata,
    stamp: Stamp,
    /// The whole content, or its beginning where the file is too big to hold.
    bytes: Vec<u8>,
    whole: bool,
    sha256: Option<String>,
    /// Bytes that are not UTF-8.
    invalid: u64,
}

/// A write whose checks held, with the names that it will use.
pub(super) struct Prepared {
    path: WorkspacePath,
    create_folders: bool,
    only_if: Precondition,
    executable: Option<bool>,
    /// The folder and the file's name in it; none where the folder is to be made.
    spot: Option<Spot>,
    old: Option<Old>,
    content: Bytes,
    /// What the write comes to.
    outcome: Written,
    temp_name: OsString,
    staged: Option<TempFile>,
}

type Spot = (Arc<Folder>, OsString);

pub(super) fn prepare(request: WriteTextFile, cancel: &CancellationToken) -> Result<Prepared, ToolError> {
    let shown = request.path.shown();
    if let Some(protection) = request.path.protection() {
        return Err(protection.denied(&shown));
    }
    if request.path.names_folder() {
        return Err(ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown}/ names a folder. Give the path of a file."),
        ));
    }
    let spot = match spot(&request.path, false) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && request.create_folders => None,
        found => Some(found.map_err(|cause| no_folder(&request.path, cause))?),
    };
    let old = match &spot {
        Some((folder, name)) => look(folder, name, &request, cancel)?,
        None => None,
    };
    check(&request, old.as_ref(), &shown)?;
    let (content, warnings) = match (request.content, &old) {
        (NewContent::Text(text), Some(old)) => kept_as_it_was(&text, &old.bytes, old.invalid),
        (NewContent::Text(text), None) => (Bytes::Whole(text.into_bytes()), Vec::new()),
        (NewContent::Spliced { old, splices }, _) => (Bytes::Spliced(old, splices), Vec::new()),
    };
    let unchanged = match (&old, &content) {
        (Some(old), Bytes::Whole(bytes)) => {
            old.whole && old.bytes == *bytes && mode_stays(&old.metadata, request.executable)
        }
        _ => false,
    };
    let (before, after, size) = content.hashes(old.as_ref().and_then(|old| old.sha256.clone()));
    let before = before.filter(|_| old.is_some());
    let warnings = if unchanged { Vec::new() } else { warnings };
    if cancel.is_cancelled() && !unchanged {
        return Err(cancelled(&shown));
    }
    let temp_name = temp_name(request.path.absolute().file_name().unwrap_or_default())
        .map_err(|cause| ToolError::io(&shown, &cause))?;
    Ok(Prepared {
        create_folders: request.create_folders,
        only_if: request.only_if,
        executable: request.executable,
        spot,
        // The content was looked at; what is still needed is what the file system knows.
        old: old.map(|old| Old { bytes: Vec::new(), ..old }),
        content,
        outcome: Written { created: before.is_none(), unchanged, before, after, size, warnings },
        temp_name,
        staged: None,
        path: request.path,
    })
}

impl PreparedWrite for Prepared {
    fn intent(&self) -> Option<Intent> {
        if self.outcome.unchanged {
            return None;
        }
        let path = self.path.absolute();
        let temp = path.with_file_name(&self.temp_name);
        Some(match (path.to_str(), temp.to_str()) {
            (Some(path), Some(temp)) => Intent::File {
                path: path.to_owned(),
                before: self.outcome.before.clone(),
                after: Some(self.outcome.after.clone()),
                executable: self.executable,
                temp: temp.to_owned(),
            },
            _ => Intent::Vague { what: format!("write {}", self.path.shown()) },
        })
    }

    fn stage(&mut self) -> Result<(), ToolError> {
        if self.outcome.unchanged {
            return Ok(());
        }
        let shown = self.path.shown();
        let failed = |cause: io::Error| ToolError::io(&shown, &in_words(cause));
        let (folder, name) = match self.spot.take() {
            Some(spot) => spot,
            None => spot(&self.path, self.create_folders).map_err(|cause| no_folder(&self.path, cause))?,
        };
        let mut temp =
            TempFile::create(Arc::clone(&folder), &self.temp_name, self.old.is_none()).map_err(failed)?;
        self.spot = Some((folder, name));
        self.content.write_to(&mut temp.file).map_err(failed)?;
        let old = self.old.as_ref().map(|old| &old.metadata);
        set_mode(&temp.file, old, self.executable, &mut self.outcome.warnings).map_err(failed)?;
        temp.file.sync_all().map_err(failed)?;
        self.staged = Some(temp);
        reach_of("temp.written", &shown);
        Ok(())
    }

    fn place(mut self: Box<Self>) -> Result<Written, ToolError> {
        let shown = self.path.shown();
        let failed = |cause: io::Error| ToolError::io(&shown, &in_words(cause));
        let (Some(mut temp), Some((folder, name))) = (self.staged.take(), &self.spot) else {
            return if self.outcome.unchanged {
                Ok(self.outcome)
            } else {
                Err(ToolError::internal(format!("{shown} was not staged.")))
            };
        };
        if let Some(old) = &self.old {
            let now = folder.metadata(name).map(|metadata| stamp_of(&metadata));
            if self.only_if != Precondition::None && now.ok() != Some(old.stamp) {
                return Err(stale(&shown, "was changed by somebody else just now"));
            }
            temp.replace(name).map_err(failed)?;
        } else {
            temp.appear(name).map_err(|cause| match cause.kind() {
                io::ErrorKind::AlreadyExists => stale(&shown, "was made by somebody else just now"),
                _ => failed(cause),
            })?;
        }
        reach_of("rename.after", &shown);
        folder.sync().map_err(failed)?;
        Ok(self.outcome)
    }
}

/// The folder of a file, and the file's name in it.
fn spot(path: &WorkspacePath, create: bool) -> io::Result<Spot> {
    path.open_parent(create).map(|(folder, name)| (Arc::new(folder), name))
}

fn no_folder(path: &WorkspacePath, cause: io::Error) -> ToolError {
    let shown = path.shown();
    match cause.kind() {
        io::ErrorKind::NotFound => near_names::missing(path),
        io::ErrorKind::IsADirectory => ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown} is a workspace folder. Give the path of a file."),
        ),
        _ => ToolError::io(shown, &in_words(cause)),
    }
}

fn cancelled(shown: &str) -> ToolError {
    ToolError::cancelled(format!("Writing {shown} was cancelled before anything was changed."))
}

/// The file that is there, if any; only as much of it as the write needs to know.
fn look(
    folder: &Folder,
    name: &OsStr,
    request: &WriteTextFile,
    cancel: &CancellationToken,
) -> Result<Option<Old>, ToolError> {
    let shown = request.path.shown();
    let failed = |cause: io::Error| ToolError::io(&shown, &in_words(cause));
    let file = match folder.open_file(name) {
        Ok(file) => file,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(cause) => return Err(failed(cause)),
    };
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown} is a folder. Give the path of a file."),
        ));
    }
    if !metadata.is_file() {
        let text = format!("{shown} is a FIFO, a socket or a device. Only regular files are written.");
        return Err(ToolError::new(ErrorCode::PermissionDenied, text));
    }
    let stamp = stamp_of(&metadata);
    let mut old = Old { metadata, stamp, bytes: Vec::new(), whole: false, sha256: None, invalid: 0 };
    // What was loaded for an edit is not read again while the file's state is the same.
    if matches!(&request.only_if, Precondition::AsLoaded(loaded) if *loaded == stamp)
        && matches!(request.content, NewContent::Spliced { .. })
    {
        return Ok(Some(old));
    }
    let (mut hasher, mut invalid) = (Sha256::new(), InvalidBytes::default());
    let mut buffer = vec![0; 256 << 10];
    let hold = if stamp.size <= COMPARED { COMPARED } else { sniff::HEAD as u64 };
    loop {
        if cancel.is_cancelled() {
            return Err(cancelled(&shown));
        }
        let n = (&file).read(&mut buffer).map_err(failed)?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
        invalid.push(&buffer[..n]);
        if (old.bytes.len() as u64) < hold {
            old.bytes.extend_from_slice(&buffer[..n]);
        }
    }
    old.whole = hold == COMPARED;
    old.invalid = invalid.total();
    old.sha256 = Some(hex(&hasher.finalize()));
    Ok(Some(old))
}

fn check(request: &WriteTextFile, old: Option<&Old>, shown: &str) -> Result<(), ToolError> {
    match (&request.only_if, old) {
        (Precondition::None, _) | (Precondition::Absent, None) => Ok(()),
        (Precondition::Absent, Some(old)) => {
            let size = figures::size(old.stamp.size);
            Err(stale(shown, &format!("exists already ({size}), and overwrite is \"never\"")))
        }
        (Precondition::Content(_) | Precondition::AsLoaded(_), None) => {
            Err(stale(shown, "does not exist any more"))
        }
        (Precondition::Content(expected), Some(old)) => {
            let is = old.sha256.as_deref().unwrap_or_default();
            if is.eq_ignore_ascii_case(expected) {
                return Ok(());
            }
            Err(stale(shown, &format!("is not what was expected: its SHA-256 is {is}, not {expected}")))
        }
        (Precondition::AsLoaded(loaded), Some(old)) => {
            // Touched, but the same bytes: nobody's change is lost.
            let same = match &request.content {
                NewContent::Spliced { old: loaded, .. } => old.whole && old.bytes == **loaded,
                NewContent::Text(_) => false,
            };
            if *loaded == old.stamp || same { Ok(()) } else { Err(stale(shown, "was changed meanwhile")) }
        }
    }
}

fn stale(shown: &str, what: &str) -> ToolError {
    ToolError::new(
        ErrorCode::Stale,
        format!("{shown} {what}. Nothing was written. Read it again, then decide."),
    )
}

#[cfg(unix)]
fn mode_stays(metadata: &Metadata, executable: Option<bool>) -> bool {
    use std::os::unix::fs::PermissionsExt;
    executable.is_none_or(|wanted| (metadata.permissions().mode() & 0o100 != 0) == wanted)
}

#[cfg(not(unix))]
fn mode_stays(_metadata: &Metadata, _executable: Option<bool>) -> bool {
    true
}

/// Mode and owner of the file that is replaced, and the right to run it.
#[cfg(unix)]
fn set_mode(
    file: &File,
    old: Option<&Metadata>,
    executable: Option<bool>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

    let new = file.metadata()?;
    if let Some(old) = old
        && (old.uid(), old.gid()) != (new.uid(), new.gid())
        && fchown(file, Some(old.uid()), Some(old.gid())).is_err()
    {
        warnings.push("The file's owner could not be kept; it belongs to the runner's user now.".to_owned());
    }
    // Without the set-user and set-group bits, which a write in place takes away too.
    let kept = old.unwrap_or(&new).permissions().mode() & 0o777;
    let mode = match executable {
        Some(true) => kept | ((kept & 0o444) >> 2),
        Some(false) => kept & !0o111,
        None => kept,
    };
    if mode != new.permissions().mode() & 0o777 {
        file.set_permissions(std::fs::Permissions::from_mode(mode))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn set_mode(
    _file: &File,
    _old: Option<&Metadata>,
    executable: Option<bool>,
    warnings: &mut Vec<String>,
) -> io::Result<()> {
    if executable == Some(true) {
        warnings.push("This system has no executable bit; the name decides.".to_owned());
    }
    Ok(())
}
