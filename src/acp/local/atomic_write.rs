//! Replacing a file in one step: a new file beside it, made durable, then renamed over it, all beneath the opened
//! folder. A hard link elsewhere keeps the old content. Not here: what to write, and how it gets there (filling).

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::filling::{self, Bytes, Filled};
use super::near_names;
use super::sniff::{self, InvalidBytes};
use super::temp_file::TempFile;
use super::text_window::{sha256_hex, stamp_of};
use crate::acp::files::{Encoding, Endings, NewContent, Precondition, Stamp, WriteTextFile, Written};
use crate::acp::workspace::{Folder, in_words};
use crate::ids::hex;
use crate::output::figures;
use crate::tool::{ErrorCode, ToolError};

/// A file up to this size is compared with what replaces it; a bigger one is only hashed.
const COMPARED: u64 = 64 << 20;

/// What is there before the write.
struct Old {
    file: File,
    metadata: Metadata,
    stamp: Stamp,
    /// The whole content, or its beginning where the file is too big to hold.
    bytes: Vec<u8>,
    whole: bool,
    sha256: Option<String>,
    /// Bytes that are not UTF-8.
    invalid: u64,
}

pub(super) fn write(request: &WriteTextFile, cancel: &CancellationToken) -> Result<Written, ToolError> {
    let shown = request.path.shown();
    let failed = |cause: io::Error| ToolError::io(&shown, &in_words(cause));
    if let Some(protection) = request.path.protection() {
        return Err(protection.denied(&shown));
    }
    let (folder, name) = open_parent(request)?;
    let old = look(&folder, &name, request, cancel)?;
    check(request, old.as_ref(), &shown)?;

    let (content, mut warnings) = match &request.content {
        NewContent::Text(text) => match &old {
            Some(old) => kept_as_it_was(text, old),
            None => (Bytes::Whole(text.as_bytes().to_vec()), Vec::new()),
        },
        NewContent::Spliced { old, splices } => (Bytes::Spliced(old, splices), Vec::new()),
        NewContent::SplicedOnDisk { old: ends, splices } => match &old {
            Some(old) => (Bytes::Copied { file: &old.file, size: old.stamp.size, ends, splices }, Vec::new()),
            None => return Err(stale(&shown, "does not exist any more")),
        },
    };
    if let (Some(old), Bytes::Whole(bytes)) = (&old, &content)
        && old.whole
        && old.bytes == *bytes
        && mode_stays(&old.metadata, request.executable)
    {
        let sha256 = sha256_hex(bytes);
        let (before, size) = (Some(sha256.clone()), bytes.len() as u64);
        return Ok(Written {
            created: false,
            unchanged: true,
            before,
            after: sha256,
            size,
            warnings: Vec::new(),
        });
    }
    if cancel.is_cancelled() {
        return Err(cancelled(&shown));
    }
    let mut temp = TempFile::create(&folder, &name, old.is_none()).map_err(failed)?;
    let known = old.as_ref().and_then(|old| old.sha256.as_deref());
    let sync = |file: &File| {
        set_mode(file, old.as_ref().map(|old| &old.metadata), request.executable, &mut warnings)?;
        file.sync_all()
    };
    let Filled { before, after, size } = filling::fill(&mut temp.file, &content, known, sync, cancel)
        .map_err(|cause| match cause.kind() {
            _ if cancel.is_cancelled() => cancelled(&shown),
            io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof => {
                stale(&shown, "was changed meanwhile")
            }
            _ => failed(cause),
        })?;
    let is_new = old.is_none();
    if let Some(old) = &old {
        let now = folder.metadata(&name).map(|metadata| stamp_of(&metadata));
        if request.only_if != Precondition::None && now.ok() != Some(old.stamp) {
            return Err(stale(&shown, "was changed by somebody else just now"));
        }
        temp.replace(&name).map_err(failed)?;
    } else {
        temp.appear(&name).map_err(|cause| match cause.kind() {
            io::ErrorKind::AlreadyExists => stale(&shown, "was made by somebody else just now"),
            _ => failed(cause),
        })?;
    }
    folder.sync().map_err(failed)?;
    Ok(Written { created: is_new, unchanged: false, before, after, size, warnings })
}

/// The folder that is written in, and the file's name in it.
fn open_parent(request: &WriteTextFile) -> Result<(Folder, OsString), ToolError> {
    let shown = request.path.shown();
    if request.path.names_folder() {
        return Err(ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown}/ names a folder. Give the path of a file."),
        ));
    }
    request.path.open_parent(request.create_folders).map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => near_names::missing(&request.path),
        io::ErrorKind::IsADirectory => ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown} is a workspace folder. Give the path of a file."),
        ),
        _ => ToolError::io(&shown, &in_words(cause)),
    })
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
    let mut old = Old { file, metadata, stamp, bytes: Vec::new(), whole: false, sha256: None, invalid: 0 };
    // What was loaded for an edit is not read again while the file's state is the same, and what is copied not at all.
    if matches!(&request.only_if, Precondition::AsLoaded(loaded) if *loaded == stamp)
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
            // Touched, but the same bytes: nobody's change is lost.
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

/// Plain text in the shape of the file that it replaces, with what was done to it.
fn kept_as_it_was(text: &str, old: &Old) -> (Bytes<'static>, Vec<String>) {
    let mut warnings = Vec::new();
    let invalid = figures::counted(old.invalid, "invalid byte");
    let encoding = match sniff::classify(&old.bytes) {
        Ok(encoding) => encoding,
        Err(binary) => {
            warnings.push(format!(
                "The file was {}, not UTF-8 text: {invalid}; replaced as a whole.",
                binary.kind
            ));
            return (Bytes::Whole(text.as_bytes().to_vec()), warnings);
        }
    };
    if old.invalid > 0 && matches!(encoding, Encoding::Utf8 | Encoding::Utf8Bom) {
        warnings.push(format!("The file was not UTF-8 text: {invalid}; replaced as a whole."));
    }
    let body = old.bytes.get(encoding.mark().len()..).unwrap_or_default();
    let is_crlf = match encoding {
        Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Legacy(_) => Endings::of(body) == Endings::Crlf,
        Encoding::Utf16Le | Encoding::Utf16LeUnmarked => all_crlf(body, *b"\r\0\n\0"),
        Encoding::Utf16Be | Encoding::Utf16BeUnmarked => all_crlf(body, *b"\0\r\0\n"),
    };
    let mut text = std::borrow::Cow::Borrowed(text);
    if is_crlf && text.contains('\n') && !text.contains('\r') {
        text = text.replace('\n', "\r\n").into();
        warnings.push("The file's CRLF line endings were kept.".to_owned());
    }
    if encoding == Encoding::Utf8 || text.starts_with('\u{FEFF}') {
        return (Bytes::Whole(text.into_owned().into_bytes()), warnings);
    }
    let mut bytes = encoding.mark().to_vec();
    match encoding.encode(&text) {
        Ok(encoded) => bytes.extend_from_slice(&encoded),
        Err(lacking) => {
            warnings.push(format!(
                "The file was {}, not UTF-8 text: {lacking}; replaced as a whole, in UTF-8.",
                encoding.as_str()
            ));
            return (Bytes::Whole(text.into_owned().into_bytes()), warnings);
        }
    }
    warnings.push(format!("The file's encoding was kept: {}.", encoding.as_str()));
    (Bytes::Whole(bytes), warnings)
}

/// Whether every UTF-16 line feed comes behind a carriage return, and there is one.
fn all_crlf(body: &[u8], crlf: [u8; 4]) -> bool {
    let (units, _) = body.as_chunks::<2>();
    let feeds = units.iter().filter(|unit| **unit == crlf[2..]).count();
    let pairs = units.windows(2).filter(|pair| pair[0] == crlf[..2] && pair[1] == crlf[2..]).count();
    feeds > 0 && feeds == pairs
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
