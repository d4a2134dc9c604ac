//! Reads one window of a text file, in constant memory. Not here: counting and cutting lines.

use std::fs::File;
use std::io::{self, Read};

use tokio_util::sync::CancellationToken;

use super::file_open::empty_window;
pub(super) use super::file_open::{file_stamp, open_to_read, sha256_hex};
use super::recent_indexes::LineIndexCache;
use super::stream_decoder::{StreamDecoder, line_feed_of};
use super::text_detection::{self, InvalidByteCounter};
use super::text_lines::{LineGatherer, LineRemainder};
use crate::acp::files::{
    FileEncoding, LineEndings, LineTotal, ReadTextFile, TextWindow, WindowStart,
};
use crate::acp::workspace::explain_io_error;
use crate::output::line_index::{
    LineIndex, LineMiss, LineScan, READ_CHUNK_BYTES, find_last_lines, read_at_offset,
};
use crate::output::{SecretBoundaries, number_format};
use crate::tool::{ErrorCode, ToolError};

/// Files up to this size are read whole. A file of unknown size is read up to this limit.
const MAX_WHOLE_BYTES: u64 = 1 << 20;
/// The bytes of a bigger file that are examined for its encoding, beside the window.
const HEAD_BYTES: usize = 64 << 10;
/// Above this size, a line is searched only near the start or from the end, because a full scan would take long.
const MAX_SCANNED_BYTES: u64 = 64 << 30;
/// The distance from the start that such a search covers.
const NEAR_START_BYTES: u64 = 256 << 20;
/// The longest distance to follow a single line, or to go back for the last lines.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Reads a window.
pub(super) fn read_window(
    request: &ReadTextFile,
    uncut: &SecretBoundaries,
    indexes: &LineIndexCache,
    cancel: &CancellationToken,
) -> Result<TextWindow, ToolError> {
    let (file, metadata) = open_to_read(&request.path)?;
    let failed = |cause: io::Error| {
        ToolError::from_io(request.path.display_text(), &explain_io_error(cause))
    };
    let stamp = file_stamp(&metadata);
    let mut window = if stamp.size <= MAX_WHOLE_BYTES {
        read_whole_file(request, uncut, &file, stamp.size)?
    } else {
        let mut head = vec![0; HEAD_BYTES];
        let n = read_at_offset(&file, 0, &mut head).map_err(failed)?;
        head.truncate(n);
        let encoding = choose_encoding(request, &head, stamp.size, false)?;
        let feed = line_feed_of(encoding);
        let mut index = indexes.take_index(stamp, feed);
        let reach = if stamp.size > MAX_SCANNED_BYTES {
            NEAR_START_BYTES
        } else {
            u64::MAX
        };
        let is_hashed = stamp.size <= TextWindow::HASHED;
        let scan = LineScan {
            file: &file,
            size: stamp.size,
            reach,
            feed,
            is_hashed,
            cancel,
        };
        let request = WindowRequest { request, uncut };
        let window = stream_window(request, &scan, &mut index, encoding, &head);
        indexes.put_index(stamp, feed, index);
        window?
    };
    let now = file_stamp(&file.metadata().map_err(failed)?);
    if (now.size, now.modified) != (stamp.size, stamp.modified) {
        window.changed = true;
        window.sha256 = None;
    }
    Ok(window)
}

/// Returns the requested encoding, or the one detected from the bytes, or an error if it is not text.
fn choose_encoding(
    request: &ReadTextFile,
    bytes: &[u8],
    size: u64,
    whole: bool,
) -> Result<FileEncoding, ToolError> {
    match request.encoding {
        Some(asked) => Ok(asked.with_bom_of(bytes)),
        None => text_detection::require_text_encoding(&request.path, bytes, size, whole),
    }
}

/// Reads a window of a file that fits in memory. Bytes appended meanwhile are not read. A file in /proc reports 0
/// bytes but has some: those are limited.
fn read_whole_file(
    request: &ReadTextFile,
    uncut: &SecretBoundaries,
    file: &File,
    size: u64,
) -> Result<TextWindow, ToolError> {
    let limit = if size == 0 { MAX_WHOLE_BYTES } else { size };
    let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or_default());
    file.take(limit).read_to_end(&mut bytes).map_err(|cause| {
        ToolError::from_io(request.path.display_text(), &explain_io_error(cause))
    })?;
    let goes_on = size == 0 && bytes.len() as u64 == limit;
    if goes_on && matches!(request.start, WindowStart::FromEnd(_)) {
        let text = format!(
            "{}: the system does not say how long it is, and it is longer than {}. Read it from the start, or its end \
             with Bash, for example `tail`.",
            request.path.display_text(),
            number_format::format_size(limit)
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let encoding = choose_encoding(request, &bytes, bytes.len() as u64, !goes_on)?;
    let mut window = window_in_memory(request, uncut, &bytes, encoding, goes_on)?;
    if bytes.len() as u64 == size {
        window.sha256 = Some(sha256_hex(&bytes));
    }
    Ok(window)
}

/// Returns a window of bytes in memory.
pub(super) fn window_in_memory(
    request: &ReadTextFile,
    uncut: &SecretBoundaries,
    bytes: &[u8],
    encoding: FileEncoding,
    goes_on: bool,
) -> Result<TextWindow, ToolError> {
    let decoded;
    let body = &bytes[encoding.bom_bytes().len()..];
    let body = if encoding.is_utf8() {
        body
    } else {
        decoded = encoding.decode_lossy(body).0;
        decoded.as_bytes()
    };
    let newlines = memchr::memchr_iter(b'\n', body).count() as u64;
    let total = newlines + u64::from(body.last().is_some_and(|last| *last != b'\n'));
    let line = match request.start {
        WindowStart::Line(line) | WindowStart::Inside { line, .. } => line.max(1),
        WindowStart::FromEnd(back) => total.saturating_sub(back.max(1)) + 1,
    };
    let mut window = empty_window(
        bytes.len() as u64,
        encoding,
        LineEndings::detect_endings(body),
    );
    if encoding.is_utf8() {
        window.invalid_bytes = InvalidByteCounter::count_invalid(body);
    }
    window.total = if goes_on {
        LineTotal::MoreThan(newlines)
    } else {
        LineTotal::Exactly(total)
    };
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
    if let WindowStart::Inside { column, .. } = request.start {
        let mut rest = LineRemainder::new(column, request.max_chars, uncut.clone());
        if rest.push_remainder(&body[start..]) {
            rest.finish_remainder(goes_on);
        }
        return window_of_remainder(request, window, rest, line, column);
    }
    let mut lines = LineGatherer::new(
        request.lines,
        request.max_chars,
        request.line_chars,
        uncut.clone(),
    );
    if lines.push_bytes(&body[start..]) {
        lines.finish_gathering(goes_on);
    }
    window.at_end = !goes_on && start as u64 + lines.consumed >= body.len() as u64;
    Ok(window_of_lines(window, lines))
}

/// The request, and the ranges that must not be cut.
#[derive(Clone, Copy)]
struct WindowRequest<'a> {
    request: &'a ReadTextFile,
    uncut: &'a SecretBoundaries,
}

/// Reads a window of a file that is too big for memory.
fn stream_window(
    asked: WindowRequest<'_>,
    scan: &LineScan<'_>,
    index: &mut LineIndex,
    encoding: FileEncoding,
    head: &[u8],
) -> Result<TextWindow, ToolError> {
    let request = asked.request;
    let failed = |miss| explain_scan_error(request, scan, miss);
    if scan.is_hashed {
        index.count_to_end(scan).map_err(failed)?;
    }
    let mut window = empty_window(
        scan.size,
        encoding,
        text_detection::head_line_endings(head, encoding),
    );
    window.sha256 = index.known_sha256(scan);
    let found = match (request.start, index.known_line_count(scan.size)) {
        (WindowStart::FromEnd(back), Some(total)) => {
            let line = total.saturating_sub(back.max(1)) + 1;
            window.first = i64::try_from(line).unwrap_or(i64::MAX);
            index.find_line(scan, line)
        }
        (WindowStart::FromEnd(back), None) => {
            let place = find_last_lines(scan, back.max(1), MAX_LINE_BYTES).map_err(failed)?;
            let Some((start, lines)) = place else {
                return Err(failed(LineMiss::TooFar));
            };
            window.first = if start == 0 {
                1
            } else {
                -i64::try_from(lines).unwrap_or(i64::MAX)
            };
            Ok(start)
        }
        (WindowStart::Line(line) | WindowStart::Inside { line, .. }, _) => {
            window.first = i64::try_from(line.max(1)).unwrap_or(i64::MAX);
            index.find_line(scan, line)
        }
    };
    let start = match found {
        Err(LineMiss::PastEnd) => {
            window.total = line_total(index, scan, &window);
            window.at_end = true;
            return Ok(window);
        }
        other => other.map_err(failed)?,
    };
    let start = if start == 0 {
        encoding.bom_bytes().len() as u64
    } else {
        start
    };
    // UTF-8 comes first, unless the encoding is UTF-16 or requested: the raw bytes reveal the encoding.
    let as_is = if encoding.is_utf16() || request.encoding.is_some() {
        encoding
    } else {
        FileEncoding::Utf8
    };
    if let WindowStart::Inside { line, column } = request.start {
        let mut rest = read_line_remainder(asked, scan, start, column, as_is).map_err(failed)?;
        if request.encoding.is_none() {
            window.encoding = text_detection::refine_encoding(head, &rest.out, encoding);
            if !window.encoding.is_utf8() && window.encoding != as_is {
                rest = read_line_remainder(asked, scan, start, column, window.encoding)
                    .map_err(failed)?;
            }
        }
        window.total = line_total(index, scan, &window);
        return window_of_remainder(request, window, rest, line, column);
    }
    let mut page = read_line_page(asked, scan, start, as_is).map_err(failed)?;
    if request.encoding.is_none() {
        window.encoding =
            text_detection::refine_encoding(head, page.lines.gathered_bytes(), encoding);
        if !window.encoding.is_utf8() && window.encoding != as_is {
            page = read_line_page(asked, scan, start, window.encoding).map_err(failed)?;
        }
    }
    window.at_end = page.at_end;
    window.stopped_in_line = page.stopped_in_line;
    let mut window = window_of_lines(window, page.lines);
    window.total = line_total(index, scan, &window);
    Ok(window)
}

/// Lines of a big file.
struct LinePage {
    lines: LineGatherer,
    at_end: bool,
    stopped_in_line: bool,
}

fn read_line_page(
    asked: WindowRequest<'_>,
    scan: &LineScan<'_>,
    start: u64,
    encoding: FileEncoding,
) -> Result<LinePage, LineMiss> {
    let WindowRequest { request, uncut } = asked;
    let mut lines = LineGatherer::new(
        request.lines,
        request.max_chars,
        request.line_chars,
        uncut.clone(),
    );
    let mut wanted = true;
    let at_end = decode_each_piece(scan, start, encoding, |piece, _| {
        wanted = lines.push_bytes(piece);
        wanted && lines.current_line_bytes() < MAX_LINE_BYTES
    })?;
    let stopped_in_line = wanted && !at_end;
    if wanted {
        lines.finish_gathering(!at_end);
    }
    Ok(LinePage {
        at_end: at_end && lines.consumed == lines.offered,
        stopped_in_line,
        lines,
    })
}

fn read_line_remainder(
    asked: WindowRequest<'_>,
    scan: &LineScan<'_>,
    start: u64,
    column: u64,
    encoding: FileEncoding,
) -> Result<LineRemainder, LineMiss> {
    let mut rest = LineRemainder::new(column, asked.request.max_chars, asked.uncut.clone());
    let mut wanted = true;
    let at_end = decode_each_piece(scan, start, encoding, |piece, passed| {
        wanted = rest.push_remainder(piece);
        wanted && passed < MAX_LINE_BYTES
    })?;
    if wanted {
        rest.finish_remainder(!at_end);
    }
    Ok(rest)
}

/// Passes on the decoded text from `start`, with the number of bytes read before each piece. Returns true at the
/// file's end.
fn decode_each_piece(
    scan: &LineScan<'_>,
    start: u64,
    encoding: FileEncoding,
    mut each: impl FnMut(&[u8], u64) -> bool,
) -> Result<bool, LineMiss> {
    let mut decoding = StreamDecoder::new(encoding);
    let mut at = start;
    // Small at first: one page of source code is less than this.
    let mut buffer = vec![0; 64 << 10];
    let mut wanted = true;
    while at < scan.size {
        if scan.cancel.is_cancelled() {
            return Err(LineMiss::Cancelled);
        }
        let want = usize::try_from(scan.size - at)
            .unwrap_or(READ_CHUNK_BYTES)
            .min(buffer.len());
        let n = read_at_offset(scan.file, at, &mut buffer[..want])?;
        if n == 0 {
            break;
        }
        let passed = at - start;
        at += n as u64;
        wanted = each(decoding.decode_piece(&buffer[..n]), passed);
        if !wanted && at < scan.size {
            return Ok(false);
        }
        buffer.resize(READ_CHUNK_BYTES, 0);
    }
    let left = decoding.finish_decoding();
    if wanted && !left.is_empty() {
        each(left, at - start);
    }
    Ok(wanted || left.is_empty())
}

fn line_total(index: &LineIndex, scan: &LineScan<'_>, window: &TextWindow) -> LineTotal {
    let last = u64::try_from(window.first).unwrap_or(0) + window.lines.saturating_sub(1);
    match index.known_line_count(scan.size) {
        Some(total) => LineTotal::Exactly(total),
        None if window.at_end && window.first > 0 && window.lines > 0 => LineTotal::Exactly(last),
        None => LineTotal::MoreThan(index.seen_line_count().max(last).max(window.lines)),
    }
}

/// Returns the window on the rest of one line.
fn window_of_remainder(
    request: &ReadTextFile,
    mut window: TextWindow,
    rest: LineRemainder,
    line: u64,
    column: u64,
) -> Result<TextWindow, ToolError> {
    if !rest.reached {
        return Err(ToolError::invalid_args(format!(
            "{}: line {} ends before column {}. Leave out column to see the line.",
            request.path.display_text(),
            number_format::group_digits(line),
            number_format::group_digits(column)
        )));
    }
    window.lines = 1;
    window.stopped_in_line = rest.more;
    window.back = rest.back;
    set_window_text(&mut window, rest.out);
    Ok(window)
}

fn window_of_lines(mut window: TextWindow, lines: LineGatherer) -> TextWindow {
    window.lines = lines.gathered;
    window.omitted_bytes = lines.omitted;
    window.first_cut = lines.first_cut;
    set_window_text(&mut window, lines.into_bytes());
    window
}

fn set_window_text(window: &mut TextWindow, bytes: Vec<u8>) {
    window.control = bytes
        .iter()
        .filter(|b| (**b < 0x20 && !matches!(**b, b'\t' | b'\n' | b'\r')) || **b == 0x7F)
        .count() as u64;
    window.text = String::from_utf8(bytes).unwrap_or_else(|error| {
        let bytes = error.into_bytes();
        window.invalid_bytes = window
            .invalid_bytes
            .max(InvalidByteCounter::count_invalid(&bytes));
        window.lossy = bytes
            .utf8_chunks()
            .filter(|chunk| !chunk.invalid().is_empty())
            .count() as u64;
        String::from_utf8_lossy(&bytes).into_owned()
    });
    // Decoded text contains them already.
    if !window.encoding.is_utf8() {
        window.lossy = window.text.matches(char::REPLACEMENT_CHARACTER).count() as u64;
    }
}

fn explain_scan_error(request: &ReadTextFile, scan: &LineScan<'_>, miss: LineMiss) -> ToolError {
    let shown = request.path.display_text();
    match miss {
        LineMiss::Cancelled => ToolError::call_cancelled(format!(
            "Reading {shown} was cancelled. Nothing was changed."
        )),
        LineMiss::Io(cause) => ToolError::from_io(shown, &explain_io_error(cause)),
        LineMiss::TooFar | LineMiss::PastEnd => {
            let size = number_format::format_size(scan.size);
            let text = match request.start {
                WindowStart::FromEnd(1) => format!(
                    "{shown} ({size}): its last line is longer than {}. Use Bash, for example `tail -c 10000`.",
                    number_format::format_size(MAX_LINE_BYTES)
                ),
                WindowStart::FromEnd(lines) => format!(
                    "{shown} ({size}): the last {} lines are more than {}. Ask for fewer, or use Bash, for example \
                     `tail -c 10000`.",
                    number_format::group_digits(lines),
                    number_format::format_size(MAX_LINE_BYTES)
                ),
                WindowStart::Line(line) | WindowStart::Inside { line, .. } => format!(
                    "{shown} is {size}, too large to search all of it for line {}, which is not in its first {}. Use \
                     a negative offset to read from the end, or Bash, for example `tail -c +N | head`.",
                    number_format::group_digits(line),
                    number_format::format_size(scan.reach)
                ),
            };
            ToolError::new(ErrorCode::TooLarge, text)
        }
    }
}
