//! Replaces a file in one step: writes a new file beside it, syncs it and renames it over the target, all beneath the
//! opened folder. A hard link elsewhere keeps the old content. Not here: building the new content and writing it to
//! the temporary file.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::filling::{self, Bytes, Filled};
use super::modes::{mode_stays, set_mode};
use super::near_names;
use super::reshaping::kept_as_it_was;
use super::sniff::{self, InvalidBytes};
use super::temp_file::TempFile;
use super::text_window::stamp_of;
use crate::acp::WorkspacePath;
use crate::acp::files::{NewContent, Precondition, Source, Stamp, WriteTextFile, Written};
use crate::acp::prepared::PreparedWrite;
use crate::acp::workspace::{Folder, in_words};
use crate::durable::temp_name;
use crate::failpoint::reach_of;
use crate::ids::hex;
use crate::output::figures;
use crate::tool::{ErrorCode, Intent, ToolError};

/// A file up to this size is compared with the new content; a bigger one is only hashed.
const COMPARED: u64 = 64 << 20;

/// The target file before the write.
struct Old {
    file: File,
    metadata: Metadata,
    stamp: Stamp,
    /// The whole content, or its beginning if the file is too big to hold.
    bytes: Vec<u8>,
    whole: bool,
    sha256: Option<String>,
    /// The number of bytes that are not UTF-8.
    invalid: u64,
}

/// A write that passed its checks, with the names that it will use.
pub(super) struct Prepared {
    request: WriteTextFile,
    /// The folder and the file's name in it, or `None` if the folder is still to be created.
    spot: Option<Spot>,
    old: Option<Old>,
    /// The bytes, if the request gives the whole content.
    whole: Vec<u8>,
    /// The report of the write. `None` until staging, if the content is hashed while it is written.
    outcome: Option<Written>,
    unchanged: bool,
    warnings: Vec<String>,
    temp_name: OsString,
    staged: Option<TempFile>,
    cancel: CancellationToken,
}

type Spot = (Arc<Folder>, OsString);

pub(super) fn prepare(request: WriteTextFile, cancel: &CancellationToken) -> Result<Prepared, ToolError> {
    let shown = request.path.shown();
    if let Some(protection) = request.path.protection() {
        return Err(protection.denied(&shown));
    }
    let spot = match spot(&request, false) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound && request.create_folders => None,
        found => Some(found.map_err(|cause| no_folder(&request.path, cause))?),
    };
    let old = match &spot {
        Some((folder, name)) => look(folder, name, &request, cancel)?,
        None => None,
    };
    check(&request, old.as_ref(), &shown)?;
    let (whole, warnings) = match (&request.content, &old) {
        (NewContent::Text(text), Some(old)) => kept_as_it_was(text, &old.bytes, old.invalid),
        (NewContent::Text(text), None) => (text.as_bytes().to_vec(), Vec::new()),
        (NewContent::SplicedOnDisk { .. }, None) => return Err(stale(&shown, "does not exist any more")),
        _ => (Vec::new(), Vec::new()),
    };
    let is_whole = matches!(request.content, NewContent::Text(_));
    let unchanged = is_whole
        && old.as_ref().is_some_and(|old| {
            old.whole && old.bytes == whole && mode_stays(&old.metadata, request.executable)
        });
    if cancel.is_cancelled() && !unchanged {
        return Err(cancelled(&shown));
    }
    let name = request.path.absolute().file_name().unwrap_or_default();
    let temp_name = temp_name(name).map_err(|cause| ToolError::io(&shown, &cause))?;
    let mut prepared = Prepared {
        request,
        spot,
        old,
        whole,
        outcome: None,
        unchanged,
        warnings: if unchanged { Vec::new() } else { warnings },
        temp_name,
        staged: None,
        cancel: cancel.clone(),
    };
    prepared.outcome = prepared.hashed_ahead().map(|filled| prepared.written(filled));
    // From here on, only the old file's metadata and location are needed.
    if let Some(old) = &mut prepared.old {
        old.bytes = Vec::new();
    }
    Ok(prepared)
}

impl Prepared {
    fn bytes(&self) -> Bytes<'_> {
        match (&self.request.content, &self.old) {
            (NewContent::Spliced { old, splices }, _) => Bytes::Spliced(old, splices),
            (NewContent::SplicedOnDisk { old: ends, splices }, Some(old)) => {
                Bytes::Copied { file: &old.file, size: old.stamp.size, ends, splices }
            }
            _ => Bytes::Whole(&self.whole),
        }
    }

    fn known(&self) -> Option<&str> {
        self.old.as_ref().and_then(|old| old.sha256.as_deref())
    }

    fn hashed_ahead(&self) -> Option<Filled> {
        filling::hashed_ahead(&self.bytes(), self.known())
    }

    fn written(&self, filled: Filled) -> Written {
        let Filled { before, after, size } = filled;
        Written {
            created: self.old.is_none(),
            unchanged: self.unchanged,
            before: before.filter(|_| self.old.is_some()),
            after,
            size,
            warnings: Vec::new(),
            by: Source::Disk,
        }
    }

    /// Fills the temporary file and syncs it.
    fn fill(&self, file: &mut File, warnings: &mut Vec<String>) -> io::Result<Option<Filled>> {
        let old = self.old.as_ref().map(|old| (&old.file, &old.metadata));
        let sync = |file: &File| {
            set_mode(file, old, self.request.executable, warnings)?;
            file.sync_all()
        };
        if self.outcome.is_some() {
            filling::write(file, &self.bytes(), sync).map(|()| None)
        } else {
            filling::fill(file, &self.bytes(), self.known(), sync, &self.cancel).map(Some)
        }
    }
}

impl PreparedWrite for Prepared {
    fn intent(&self) -> Option<Intent> {
        if self.unchanged {
            return None;
        }
        let path = self.request.path.absolute();
        let temp = path.with_file_name(&self.temp_name);
        Some(match (path.to_str(), temp.to_str(), &self.outcome) {
            (Some(path), Some(temp), Some(outcome)) => Intent::File {
                path: path.to_owned(),
                before: outcome.before.clone(),
                after: Some(outcome.after.clone()),
                executable: self.request.executable,
                temp: temp.to_owned(),
            },
            (Some(_), Some(temp), None) => Intent::Beside { temp: temp.to_owned() },
            _ => Intent::Vague { what: format!("write {}", self.request.path.shown()) },
        })
    }

    fn stage(&mut self) -> Result<(), ToolError> {
        if self.unchanged {
            return Ok(());
        }
        let shown = self.request.path.shown();
        let failed = |cause: io::Error| ToolError::io(&shown, &in_words(cause));
        let (folder, name) = match self.spot.take() {
            Some(spot) => spot,
            None => spot(&self.request, self.request.create_folders)
                .map_err(|cause| no_folder(&self.request.path, cause))?,
        };
        let mut temp =
            TempFile::create(Arc::clone(&folder), &self.temp_name, self.old.is_none()).map_err(failed)?;
        self.spot = Some((folder, name));
        let mut warnings = std::mem::take(&mut self.warnings);
        let filled = self.fill(&mut temp.file, &mut warnings).map_err(|cause| match cause.kind() {
            _ if self.cancel.is_cancelled() => cancelled(&shown),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                stale(&shown, "was changed meanwhile")
            }
            _ => failed(cause),
        })?;
        self.warnings = warnings;
        if let Some(filled) = filled {
            self.outcome = Some(self.written(filled));
        }
        self.staged = Some(temp);
        reach_of("temp.written", &shown);
        Ok(())
    }

    fn place(mut self: Box<Self>) -> Result<Written, ToolError> {
        let shown = self.request.path.shown();
        let failed = |cause: io::Error| ToolError::io(&shown, &in_words(cause));
        let Some(outcome) = self.outcome.take() else {
            return Err(ToolError::internal(format!("{shown} was not staged.")));
        };
        let outcome = Written { warnings: std::mem::take(&mut self.warnings), ..outcome };
        if self.unchanged {
            return Ok(outcome);
        }
        let (Some(mut temp), Some((folder, name))) = (self.staged.take(), &self.spot) else {
            return Err(ToolError::internal(format!("{shown} was not staged.")));
        };
        if let Some(old) = &self.old {
            let now = folder.metadata(name).map(|metadata| stamp_of(&metadata));
            if self.request.only_if != Precondition::None && now.ok() != Some(old.stamp) {
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
        Ok(outcome)
    }
}

/// Opens the file's folder, and returns it with the file's name.
fn spot(request: &WriteTextFile, create: bool) -> io::Result<Spot> {
    if request.path.names_folder() {
        return Err(io::Error::new(io::ErrorKind::NotADirectory, "names a folder"));
    }
    request.path.open_parent(create).map(|(folder, name)| (Arc::new(folder), name))
}

fn no_folder(path: &WorkspacePath, cause: io::Error) -> ToolError {
    let shown = path.shown();
    let code = ErrorCode::IsDirectory;
    match cause.kind() {
        _ if path.names_folder() => {
            ToolError::new(code, format!("{shown}/ names a folder. Give the path of a file."))
        }
        io::ErrorKind::NotFound => near_names::missing(path),
        io::ErrorKind::IsADirectory => {
            ToolError::new(code, format!("{shown} is a workspace folder. Give the path of a file."))
        }
        _ => ToolError::io(shown, &in_words(cause)),
    }
}

/// Opens the existing file, if any, and reads as much of it as the write needs.
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
    let mut old = Old { file, metadata, stamp, bytes: Vec::new(), whole: false, sha256: None, invalid: 0 };
    // Content loaded for an edit is not read again while the file's stamp is unchanged; content to be copied is never
    // read here.
    let is_loaded = matches!(&request.only_if, Precondition::AsLoaded(loaded) if *loaded == stamp);
    if is_loaded && matches!(request.content, NewContent::Spliced { .. })
        || matches!(request.content, NewContent::SplicedOnDisk { .. })
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
        let n = (&old.file).read(&mut buffer).map_err(failed)?;
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
            // The file was touched but has the same bytes, so no change is lost.
            let same = match &request.content {
                NewContent::Spliced { old: loaded, .. } => old.whole && old.bytes == **loaded,
                NewContent::Text(_) | NewContent::SplicedOnDisk { .. } => false,
            };
            if *loaded == old.stamp || same { Ok(()) } else { Err(stale(shown, "was changed meanwhile")) }
        }
    }
}

fn cancelled(shown: &str) -> ToolError {
    ToolError::cancelled(format!("Writing {shown} was cancelled before anything was changed."))
}

fn stale(shown: &str, what: &str) -> ToolError {
    ToolError::new(
        ErrorCode::Stale,
        format!("{shown} {what}. Nothing was written. Read it again, then decide."),
    )
}
