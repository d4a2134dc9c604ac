//! Reads one window of a text file, in constant memory. Not here: counting and cutting lines.

use std::fs::File;
use std::io::{self, Read};

use tokio_util::sync::CancellationToken;

use super::decoding::{Decoding, line_feed_of};
use super::opening::blank;
pub(super) use super::opening::{open, sha256_hex, stamp_of};
use super::recent_indexes::LineIndexes;
use super::sniff::{self, InvalidBytes};
use super::text_lines::{LineRest, Lines};
use crate::acp::files::{Encoding, Endings, LineTotal, ReadTextFile, Start, TextWindow};
use crate::acp::workspace::in_words;
use crate::output::line_index::{CHUNK, LineIndex, LineMiss, LineScan, find_last_lines, read_at};
use crate::output::{Uncut, figures};
use crate::tool::{ErrorCode, ToolError};

/// Files up to this size are read whole. A file of unknown size is read up to this limit.
const HELD: u64 = 1 << 20;
/// The bytes of a bigger file that are examined for its encoding, beside the window.
const JUDGED: usize = 64 << 10;
/// Above this size, a line is searched only near the start or from the end, because a full scan would take long.
const SCANNED: u64 = 64 << 30;
/// The distance from the start that such a search covers.
const NEAR: u64 = 256 << 20;
/// The longest distance to follow a single line, or to go back for the last lines.
const LONGEST_LINE: u64 = 64 << 20;

/// Reads a window.
pub(super) fn read(
    request: &ReadTextFile,
    uncut: &Uncut,
    indexes: &LineIndexes,
    cancel: &CancellationToken,
) -> Result<TextWindow, ToolError> {
    let (file, metadata) = open(&request.path)?;
    let failed = |cause: io::Error| ToolError::io(request.path.shown(), &in_words(cause));
    let stamp = stamp_of(&metadata);
    let mut window = if stamp.size <= HELD {
        held(request, uncut, &file, stamp.size)?
    } else {
        let mut head = vec![0; JUDGED];
        let n = read_at(&file, 0, &mut head).map_err(failed)?;
        head.truncate(n);
        let encoding = told(request, &head, stamp.size, false)?;
        let feed = line_feed_of(encoding);
        let mut index = indexes.take(stamp, feed);
        let reach = if stamp.size > SCANNED { NEAR } else { u64::MAX };
        let is_hashed = stamp.size <= TextWindow::HASHED;
        let scan = LineScan { file: &file, size: stamp.size, reach, feed, is_hashed, cancel };
        let request = Asked { request, uncut };
        let window = streamed(request, &scan, &mut index, encoding, &head);
        indexes.put(stamp, feed, index);
        window?
    };
    let now = stamp_of(&file.metadata().map_err(failed)?);
    if (now.size, now.modified) != (stamp.size, stamp.modified) {
        window.changed = true;
        window.sha256 = None;
    }
    Ok(window)
}

/// Returns the requested encoding, or the one detected from the bytes, or an error if it is not text.
fn told(request: &ReadTextFile, bytes: &[u8], size: u64, whole: bool) -> Result<Encoding, ToolError> {
    match request.encoding {
        Some(asked) => Ok(asked.in_file(bytes)),
        None => sniff::encoding_of(&request.path, bytes, size, whole),
    }
}

/// Reads a window of a file that fits in memory. Bytes appended meanwhile are not read. A file in /proc reports 0
/// bytes but has some: those are limited.
fn held(request: &ReadTextFile, uncut: &Uncut, file: &File, size: u64) -> Result<TextWindow, ToolError> {
    let limit = if size == 0 { HELD } else { size };
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|cause| ToolError::io(request.path.shown(), &in_words(cause)))?;
    let goes_on = size == 0 && bytes.len() as u64 == limit;
    if goes_on && matches!(request.start, Start::FromEnd(_)) {
        let text = format!(
            "{}: the system does not say how long it is, and it is longer than {}. Read it from the start, or its end \
             with Bash, for example `tail`.",
            request.path.shown(),
            figures::size(limit)
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let encoding = told(request, &bytes, bytes.len() as u64, !goes_on)?;
    let mut window = in_memory(request, uncut, &bytes, encoding, goes_on)?;
    if bytes.len() as u64 == size {
        window.sha256 = Some(sha256_hex(&bytes));
    }
    Ok(window)
}

/// Returns a window of bytes in memory.
pub(super) fn in_memory(
    request: &ReadTextFile,
    uncut: &Uncut,
    bytes: &[u8],
    encoding: Encoding,
    goes_on: bool,
) -> Result<TextWindow, ToolError> {
    let decoded;
    let body = &bytes[encoding.mark().len()..];
    let body = if encoding.is_utf8() {
        body
    } else {
        decoded = encoding.decode(body).0;
        decoded.as_bytes()
    };
    let newlines = memchr::memchr_iter(b'\n', body).count() as u64;
    let total = newlines + u64::from(body.last().is_some_and(|last| *last != b'\n'));
    let line = match request.start {
        Start::Line(line) | Start::Inside { line, .. } => line.max(1),
        Start::FromEnd(back) => total.saturating_sub(back.max(1)) + 1,
    };
    let mut window = blank(bytes.len() as u64, encoding, Endings::of(body));
    if encoding.is_utf8() {
        window.invalid_bytes = InvalidBytes::of(body);
    }
    window.total = if goes_on { LineTotal::MoreThan(newlines) } else { LineTotal::Exactly(total) };
    window.first = i64::try_from(line).unwrap_or(i64::MAX);
    if line > total {
        window.at_end = !goes_on;
        return Ok(window);
    }
    let start = match line {
        1 => 0,
        _ => memchr::memchr_iter(b'\n', body)
            .nth(usize::try_from(line - 2).unwrap_or(usize::MAX))
            .map_or(body.len(), |newline| newline + 1),
    };
    if let Start::Inside { column, .. } = request.start {
        let mut rest = LineRest::new(column, request.max_chars, uncut.clone());
        if rest.push(&body[start..]) {
            rest.finish(goes_on);
        }
        return inside(request, window, rest, line, column);
    }
    let mut lines = Lines::new(request.lines, request.max_chars, request.line_chars, uncut.clone());
    if lines.push(&body[start..]) {
        lines.finish(goes_on);
    }
    window.at_end = !goes_on && start as u64 + lines.consumed >= body.len() as u64;
    Ok(filled(window, lines))
}

/// The request, and the ranges that must not be cut.
#[derive(Clone, Copy)]
struct Asked<'a> {
    request: &'a ReadTextFile,
    uncut: &'a Uncut,
}

/// Reads a window of a file that is too big for memory.
fn streamed(
    asked: Asked<'_>,
    scan: &LineScan<'_>,
    index: &mut LineIndex,
    encoding: Encoding,
    head: &[u8],
) -> Result<TextWindow, ToolError> {
    let request = asked.request;
    let failed = |miss| explain(request, scan, miss);
    if scan.is_hashed {
        index.count_all(scan).map_err(failed)?;
    }
    let mut window = blank(scan.size, encoding, sniff::endings_of(head, encoding));
    window.sha256 = index.sha256(scan);
    let found = match (request.start, index.total(scan.size)) {
        (Start::FromEnd(back), Some(total)) => {
            let line = total.saturating_sub(back.max(1)) + 1;
            window.first = i64::try_from(line).unwrap_or(i64::MAX);
            index.find_line(scan, line)
        }
        (Start::FromEnd(back), None) => {
            let place = find_last_lines(scan, back.max(1), LONGEST_LINE).map_err(failed)?;
            let Some((start, lines)) = place else { return Err(failed(LineMiss::TooFar)) };
            window.first = if start == 0 { 1 } else { -i64::try_from(lines).unwrap_or(i64::MAX) };
            Ok(start)
        }
        (Start::Line(line) | Start::Inside { line, .. }, _) => {
            window.first = i64::try_from(line.max(1)).unwrap_or(i64::MAX);
            index.find_line(scan, line)
        }
    };
    let start = match found {
        Err(LineMiss::PastEnd) => {
            window.total = total_of(index, scan, &window);
            window.at_end = true;
            return Ok(window);
        }
        other => other.map_err(failed)?,
    };
    let start = if start == 0 { encoding.mark().len() as u64 } else { start };
    // UTF-8 comes first, unless the encoding is UTF-16 or requested: the raw bytes reveal the encoding.
    let as_is = if encoding.is_utf16() || request.encoding.is_some() { encoding } else { Encoding::Utf8 };
    if let Start::Inside { line, column } = request.start {
        let mut rest = rest_of_line(asked, scan, start, column, as_is).map_err(failed)?;
        if request.encoding.is_none() {
            window.encoding = sniff::judged(head, &rest.out, encoding);
            if !window.encoding.is_utf8() && window.encoding != as_is {
                rest = rest_of_line(asked, scan, start, column, window.encoding).map_err(failed)?;
            }
        }
        window.total = total_of(index, scan, &window);
        return inside(request, window, rest, line, column);
    }
    let mut page = page_of_lines(asked, scan, start, as_is).map_err(failed)?;
    if request.encoding.is_none() {
        window.encoding = sniff::judged(head, page.lines.bytes(), encoding);
        if !window.encoding.is_utf8() && window.encoding != as_is {
            page = page_of_lines(asked, scan, start, window.encoding).map_err(failed)?;
        }
    }
    window.at_end = page.at_end;
    window.stopped_in_line = page.stopped_in_line;
    let mut window = filled(window, page.lines);
    window.total = total_of(index, scan, &window);
    Ok(window)
}

/// Lines of a big file.
struct Page {
    lines: Lines,
    at_end: bool,
    stopped_in_line: bool,
}

fn page_of_lines(
    asked: Asked<'_>,
    scan: &LineScan<'_>,
    start: u64,
    encoding: Encoding,
) -> Result<Page, LineMiss> {
    let Asked { request, uncut } = asked;
    let mut lines = Lines::new(request.lines, request.max_chars, request.line_chars, uncut.clone());
    let mut wanted = true;
    let at_end = for_pieces(scan, start, encoding, |piece, _| {
        wanted = lines.push(piece);
        wanted && lines.line_bytes() < LONGEST_LINE
    })?;
    let stopped_in_line = wanted && !at_end;
    if wanted {
        lines.finish(!at_end);
    }
    Ok(Page { at_end: at_end && lines.consumed == lines.offered, stopped_in_line, lines })
}

fn rest_of_line(
    asked: Asked<'_>,
    scan: &LineScan<'_>,
    start: u64,
    column: u64,
    encoding: Encoding,
) -> Result<LineRest, LineMiss> {
    let mut rest = LineRest::new(column, asked.request.max_chars, asked.uncut.clone());
    let mut wanted = true;
    let at_end = for_pieces(scan, start, encoding, |piece, passed| {
        wanted = rest.push(piece);
        wanted && passed < LONGEST_LINE
    })?;
    if wanted {
        rest.finish(!at_end);
    }
    Ok(rest)
}

/// Passes on the decoded text from `start`, with the number of bytes read before each piece. Returns true at the
/// file's end.
fn for_pieces(
    scan: &LineScan<'_>,
    start: u64,
    encoding: Encoding,
    mut each: impl FnMut(&[u8], u64) -> bool,
) -> Result<bool, LineMiss> {
    let mut decoding = Decoding::new(encoding);
    let mut at = start;
    // Small at first: one page of source code is less than this.
    let mut buffer = vec![0; 64 << 10];
    let mut wanted = true;
    while at < scan.size {
        if scan.cancel.is_cancelled() {
            return Err(LineMiss::Cancelled);
        }
        let want = usize::try_from(scan.size - at).unwrap_or(CHUNK).min(buffer.len());
        let n = read_at(scan.file, at, &mut buffer[..want])?;
        if n == 0 {
            break;
        }
        let passed = at - start;
        at += n as u64;
        wanted = each(decoding.push(&buffer[..n]), passed);
        if !wanted && at < scan.size {
            return Ok(false);
        }
        buffer.resize(CHUNK, 0);
    }
    let left = decoding.finish();
    if wanted && !left.is_empty() {
        each(left, at - start);
    }
    Ok(wanted || left.is_empty())
}

fn total_of(index: &LineIndex, scan: &LineScan<'_>, window: &TextWindow) -> LineTotal {
    let last = u64::try_from(window.first).unwrap_or(0) + window.lines.saturating_sub(1);
    match index.total(scan.size) {
        Some(total) => LineTotal::Exactly(total),
        None if window.at_end && window.first > 0 && window.lines > 0 => LineTotal::Exactly(last),
        None => LineTotal::MoreThan(index.seen().max(last).max(window.lines)),
    }
}

/// Returns the window on the rest of one line.
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
    window.back = rest.back;
    set_text(&mut window, rest.out);
    Ok(window)
}

fn filled(mut window: TextWindow, lines: Lines) -> TextWindow {
    window.lines = lines.gathered;
    window.omitted_bytes = lines.omitted;
    window.first_cut = lines.first_cut;
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
    // Decoded text contains them already.
    if !window.encoding.is_utf8() {
        window.lossy = window.text.matches(char::REPLACEMENT_CHARACTER).count() as u64;
    }
}

fn explain(request: &ReadTextFile, scan: &LineScan<'_>, miss: LineMiss) -> ToolError {
    let shown = request.path.shown();
    match miss {
        LineMiss::Cancelled => {
            ToolError::cancelled(format!("Reading {shown} was cancelled. Nothing was changed."))
        }
        LineMiss::Io(cause) => ToolError::io(shown, &in_words(cause)),
        LineMiss::TooFar | LineMiss::PastEnd => {
            let size = figures::size(scan.size);
            let text = match request.start {
                Start::FromEnd(1) => format!(
                    "{shown} ({size}): its last line is longer than {}. Use Bash, for example `tail -c 10000`.",
                    figures::size(LONGEST_LINE)
                ),
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
