//! One window of a text file, in flat memory whatever the file's size. Not here: how lines are counted and cut.

use std::fs::File;
use std::io::{self, Read, Seek};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::line_index::{CHUNK, LineIndex, LineIndexes, Miss, Scan, last_lines, read_at};
use super::near_names;
use super::sniff::{self, Binary, InvalidBytes};
use super::text_lines::{LineRest, Lines};
use crate::acp::WorkspacePath;
use crate::acp::files::{Encoding, Endings, LineTotal, ReadTextFile, Stamp, Start, TextWindow};
use crate::acp::workspace::in_words;
use crate::ids::hex;
use crate::output::figures;
use crate::tool::{ErrorCode, ToolError};

/// Files up to this size are counted to their end.
const COUNTED: u64 = 100 << 20;
/// UTF-16 has no newline byte to search for, so such a file is decoded whole.
const DECODED: u64 = 32 << 20;
/// Above this size a line is searched only near the start or from the end: a scan of the whole would take long.
const SCANNED: u64 = 64 << 30;
/// How far such a scan goes from the start.
const NEAR: u64 = 256 << 20;
/// No single line is followed further than this, nor the last lines further back.
const LONGEST_LINE: u64 = 64 << 20;

/// Hex of SHA-256.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// What tells this state of a file from another.
pub(super) fn stamp_of(metadata: &std::fs::Metadata) -> Stamp {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let nanos = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
    #[cfg(not(unix))]
    {
        let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or(0, |d| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX));
        Stamp { file: (0, 0), size: metadata.len(), modified, changed: 0 }
    }
}

/// Opens a file, with an answer for every way in which that fails.
pub(super) fn open(path: &WorkspacePath) -> Result<(File, std::fs::Metadata), ToolError> {
    let opened = path.open_read().and_then(|file| {
        let metadata = file.metadata().map_err(in_words)?;
        Ok((file, metadata))
    });
    opened.map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => near_names::missing(path),
        io::ErrorKind::InvalidInput => {
            ToolError::new(ErrorCode::NotText, format!("{} {cause}.", path.shown()))
        }
        io::ErrorKind::IsADirectory => {
            ToolError::new(ErrorCode::IsDirectory, format!("{} is a folder, not a file.", path.shown()))
        }
        _ => ToolError::io(path.shown(), &cause),
    })
}

/// Reads a window.
pub(super) fn read(
    request: &ReadTextFile,
    indexes: &LineIndexes,
    cancel: &CancellationToken,
) -> Result<TextWindow, ToolError> {
    let (file, metadata) = open(&request.path)?;
    let failed = |cause: io::Error| ToolError::io(request.path.shown(), &in_words(cause));
    let size = metadata.len();
    if size <= TextWindow::HASHED {
        // What is appended meanwhile is not looked at. A file of /proc says 0 and has bytes: those are bounded.
        let limit = if size == 0 { TextWindow::HASHED } else { size };
        let bytes = read_bounded(&file, limit).map_err(failed)?;
        let encoding = classify(&request.path, &bytes, bytes.len() as u64)?;
        let mut window = in_memory(request, &bytes, encoding)?;
        if size > 0 || bytes.len() as u64 != limit {
            window.sha256 = Some(sha256_hex(&bytes));
        }
        return Ok(window);
    }
    let mut head = vec![0; 64 << 10];
    let n = read_at(&file, 0, &mut head).map_err(failed)?;
    head.truncate(n);
    let encoding = classify(&request.path, &head, size)?;
    if matches!(encoding, Encoding::Utf16Le | Encoding::Utf16Be) {
        if size > DECODED {
            let text = format!(
                "{} is {} of {}; such files are read up to {}. Convert it with Bash, for example `iconv -t utf-8`.",
                request.path.shown(),
                figures::size(size),
                encoding.as_str(),
                figures::size(DECODED)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        (&file).rewind().map_err(failed)?;
        let bytes = read_bounded(&file, DECODED).map_err(failed)?;
        return in_memory(request, &bytes, encoding);
    }
    let stamp = stamp_of(&metadata);
    let mut index = indexes.take(stamp);
    let reach = if size > SCANNED { NEAR } else { u64::MAX };
    let scan = Scan { file: &file, size, reach, cancel };
    let window = streamed(request, &scan, &mut index, encoding, &head);
    indexes.put(stamp, index);
    window
}

fn read_bounded(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(usize::try_from(limit).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The encoding, or the refusal of what is not text.
pub(super) fn classify(path: &WorkspacePath, head: &[u8], size: u64) -> Result<Encoding, ToolError> {
    sniff::classify(head).map_err(|Binary { kind, hint }| {
        let shown: Vec<String> = head.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
        let text = format!(
            "{} is not text: it is {kind}, {}. {hint}\nThe first {} bytes: {}",
            path.shown(),
            figures::size(size),
            shown.len(),
            shown.join(" ")
        );
        ToolError::new(ErrorCode::NotText, text)
    })
}

/// A window of a file that is in memory.
fn in_memory(request: &ReadTextFile, bytes: &[u8], encoding: Encoding) -> Result<TextWindow, ToolError> {
    let decoded;
    let body = match encoding {
        Encoding::Utf8 | Encoding::Utf8Bom | Encoding::Legacy(_) => &bytes[encoding.mark().len()..],
        Encoding::Utf16Le | Encoding::Utf16Be => {
            decoded = decode_utf16(&bytes[2..], encoding);
            decoded.as_bytes()
        }
    };
    let newlines = memchr::memchr_iter(b'\n', body).count() as u64;
    let total = newlines + u64::from(body.last().is_some_and(|last| *last != b'\n'));
    let line = match request.start {
        Start::Line(line) | Start::Inside { line, .. } => line.max(1),
        Start::FromEnd(back) => total.saturating_sub(back.max(1)) + 1,
    };
    let mut window = blank(bytes.len() as u64, encoding, Endings::of(body));
    window.invalid_bytes = InvalidBytes::of(body);
    window.total = LineTotal::Exactly(total);
    window.first = i64::try_from(line).unwrap_or(i64::MAX);
    if line > total {
        window.at_end = true;
        return Ok(window);
    }
    let start = match line {
        1 => 0,
        _ => memchr::memchr_iter(b'\n', body)
            .nth(usize::try_from(line - 2).unwrap_or(usize::MAX))
            .map_or(body.len(), |newline| newline + 1),
    };
    if let Start::Inside { column, .. } = request.start {
        let mut rest = LineRest::new(column, request.max_chars);
        rest.push(&body[start..]);
        return inside(request, window, rest, line, column);
    }
    let mut lines = Lines::new(request.lines, request.max_chars, request.line_chars);
    if lines.push(&body[start..]) {
        lines.finish(false);
    }
    window.at_end = start as u64 + lines.consumed >= body.len() as u64;
    Ok(filled(window, lines))
}

fn decode_utf16(bytes: &[u8], encoding: Encoding) -> String {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let units = pairs.iter().map(|pair| match encoding {
        Encoding::Utf16Be => u16::from_be_bytes(*pair),
        _ => u16::from_le_bytes(*pair),
    });
    let mut text: String =
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect();
    if !odd.is_empty() {
        text.push(char::REPLACEMENT_CHARACTER);
    }
    text
}

/// A window of a file that is too big to hold.
fn streamed(
    request: &ReadTextFile,
    scan: &Scan<'_>,
    index: &mut LineIndex,
    encoding: Encoding,
    head: &[u8],
) -> Result<TextWindow, ToolError> {
    let failed = |miss| explain(request, scan, miss);
    if scan.size <= COUNTED {
        index.count_all(scan).map_err(failed)?;
    }
    let mut window = blank(scan.size, encoding, Endings::of(head));
    let found = match (request.start, index.total(scan.size)) {
        (Start::FromEnd(back), Some(total)) => {
            let line = total.saturating_sub(back.max(1)) + 1;
            window.first = i64::try_from(line).unwrap_or(i64::MAX);
            index.start_of(scan, line)
        }
        (Start::FromEnd(back), None) => {
            let place = last_lines(scan, back.max(1), LONGEST_LINE).map_err(failed)?;
            let Some((start, lines)) = place else { return Err(failed(Miss::TooFar)) };
            window.first = if start == 0 { 1 } else { -i64::try_from(lines).unwrap_or(i64::MAX) };
            Ok(start)
        }
        (Start::Line(line) | Start::Inside { line, .. }, _) => {
            window.first = i64::try_from(line.max(1)).unwrap_or(i64::MAX);
            index.start_of(scan, line)
        }
    };
    let start = match found {
        Err(Miss::PastEnd) => {
            window.total = total_of(index, scan, &window);
            window.at_end = true;
            return Ok(window);
        }
        other => other.map_err(failed)?,
    };
    let start = if start == 0 { encoding.mark().len() as u64 } else { start };
    if let Start::Inside { line, column } = request.start {
        let mut rest = LineRest::new(column, request.max_chars);
        for_chunks(scan, start, |chunk, passed| rest.push(chunk) && passed < LONGEST_LINE).map_err(failed)?;
        window.total = total_of(index, scan, &window);
        return inside(request, window, rest, line, column);
    }
    let mut lines = Lines::new(request.lines, request.max_chars, request.line_chars);
    let mut wanted = true;
    let at_end = for_chunks(scan, start, |chunk, _| {
        wanted = lines.push(chunk);
        wanted && lines.line_bytes() < LONGEST_LINE
    })
    .map_err(failed)?;
    if wanted {
        window.stopped_in_line = !at_end;
        lines.finish(!at_end);
    }
    window.at_end = !window.stopped_in_line && start + lines.consumed >= scan.size;
    let mut window = filled(window, lines);
    window.total = total_of(index, scan, &window);
    Ok(window)
}

/// Hands the file out from `start` on, with how much was handed out before; true when it came to the end.
fn for_chunks(scan: &Scan<'_>, start: u64, mut each: impl FnMut(&[u8], u64) -> bool) -> Result<bool, Miss> {
    let mut at = start;
    // Small at first: one page of source code is less than this.
    let mut buffer = vec![0; 64 << 10];
    while at < scan.size {
        if scan.cancel.is_cancelled() {
            return Err(Miss::Cancelled);
        }
        let want = usize::try_from(scan.size - at).unwrap_or(CHUNK).min(buffer.len());
        let n = read_at(scan.file, at, &mut buffer[..want])?;
        if n == 0 {
            break;
        }
        if !each(&buffer[..n], at - start) {
            return Ok(false);
        }
        at += n as u64;
        buffer.resize(CHUNK, 0);
    }
    Ok(true)
}

fn total_of(index: &LineIndex, scan: &Scan<'_>, window: &TextWindow) -> LineTotal {
    let last = u64::try_from(window.first).unwrap_or(0) + window.lines.saturating_sub(1);
    match index.total(scan.size) {
        Some(total) => LineTotal::Exactly(total),
        None if window.at_end && window.first > 0 && window.lines > 0 => LineTotal::Exactly(last),
        None => LineTotal::MoreThan(index.seen().max(last).max(window.lines)),
    }
}

/// The window on the rest of one line.
fn inside(
    request: &ReadTextFile,
    mut window: TextWindow,
    rest: LineRest,
    line: u64,
    column: u64,
) -> Result<TextWindow, ToolError> {
    if !rest.reached {
        return Err(ToolError::invalid_args(format!(
            "{}: line {} ends before column {}. Leave out column to see the line.",
            request.path.shown(),
            figures::grouped(line),
            figures::grouped(column)
        )));
    }
    window.lines = 1;
    window.stopped_in_line = rest.more;
    set_text(&mut window, rest.out);
    Ok(window)
}

fn blank(size: u64, encoding: Encoding, endings: Endings) -> TextWindow {
    TextWindow {
        text: String::new(),
        first: 1,
        lines: 0,
        total: LineTotal::MoreThan(0),
        at_end: false,
        stopped_in_line: false,
        size,
        encoding,
        endings,
        sha256: None,
        lossy: 0,
        invalid_bytes: 0,
        control: 0,
        omitted_bytes: 0,
    }
}

fn filled(mut window: TextWindow, lines: Lines) -> TextWindow {
    window.lines = lines.gathered;
    window.omitted_bytes = lines.omitted;
    set_text(&mut window, lines.into_bytes());
    window
}

fn set_text(window: &mut TextWindow, bytes: Vec<u8>) {
    window.control =
        bytes.iter().filter(|b| (**b < 0x20 && !matches!(**b, b'\t' | b'\n' | b'\r')) || **b == 0x7F).count()
            as u64;
    window.text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.into_bytes();
        window.invalid_bytes = window.invalid_bytes.max(InvalidBytes::of(&bytes));
        window.lossy = bytes.utf8_chunks().filter(|chunk| !chunk.invalid().is_empty()).count() as u64;
        String::from_utf8_lossy(&bytes).into_owned()
    });
}

fn explain(request: &ReadTextFile, scan: &Scan<'_>, miss: Miss) -> ToolError {
    let shown = request.path.shown();
    match miss {
        Miss::Cancelled => {
            ToolError::cancelled(format!("Reading {shown} was cancelled. Nothing was changed."))
        }
        Miss::Io(cause) => ToolError::io(shown, &in_words(cause)),
        Miss::TooFar | Miss::PastEnd => {
            let size = figures::size(scan.size);
            let text = match request.start {
                Start::FromEnd(lines) => format!(
                    "{shown} ({size}): the last {} lines are more than {}. Ask for fewer, or use Bash, for example \
                     `tail -c 10000`.",
                    figures::grouped(lines),
                    figures::size(LONGEST_LINE)
                ),
                Start::Line(line) | Start::Inside { line, .. } => format!(
                    "{shown} is {size}, too large to search all of it for line {}, which is not in its first {}. Use \
                     a negative offset to read from the end, or Bash, for example `tail -c +N | head`.",
                    figures::grouped(line),
                    figures::size(scan.reach)
                ),
            };
            ToolError::new(ErrorCode::TooLarge, text)
        }
    }
}
