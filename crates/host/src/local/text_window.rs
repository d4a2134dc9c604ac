//! Reads one window of a text file, in constant memory.

use std::fs::File;
use std::io::{self, Read};

use tokio_util::sync::CancellationToken;

use super::file_open::{empty_window, file_stamp, open_to_read, sha256_hex};
use super::large_file_window::read_large_window;
use super::recent_indexes::LineIndexCache;
use super::stream_decoder::line_feed_of;
use super::text_detection;
use super::text_lines::{LineGatherer, LineRemainder};
use super::window_text::{WindowRequest, window_of_lines, window_of_remainder};
use crate::encoding::count_invalid_bytes;
use crate::files::{FileEncoding, LineEndings, LineTotal, ReadTextFile, TextWindow, WindowStart};
use punie_text::output::line_index::{LineScan, read_at_offset};
use punie_text::output::{SecretBoundaries, number_format};
use punie_tool::{ErrorCode, ToolError};

/// Files up to this size are read whole. A file of unknown size is read up to this limit.
const MAX_WHOLE_BYTES: u64 = 1 << 20;
/// The bytes of a bigger file that are examined for its encoding, beside the window.
const HEAD_BYTES: usize = 64 << 10;
/// Above this size, a line is searched only near the start or from the end, because a full scan would take long.
const MAX_SCANNED_BYTES: u64 = 64 << 30;
/// The distance from the start that such a search covers.
const NEAR_START_BYTES: u64 = 256 << 20;
pub(super) fn read_window(
    request: &ReadTextFile,
    uncut: &SecretBoundaries,
    indexes: &LineIndexCache,
    cancel: &CancellationToken,
) -> Result<TextWindow, ToolError> {
    let (file, metadata) = open_to_read(&request.path)?;
    let failed = |cause: io::Error| request.path.access_error(cause);
    let stamp = file_stamp(&metadata);
    let mut window = if stamp.size <= MAX_WHOLE_BYTES {
        read_whole_file(request, uncut, &file, stamp.size)?
    } else {
        let mut head = vec![0; HEAD_BYTES];
        let n = read_at_offset(&file, 0, &mut head).map_err(failed)?;
        head.truncate(n);
        let encoding = choose_encoding(request, &head, stamp.size, false)?;
        let feed = line_feed_of(encoding);
        let mut index = indexes.take(stamp, feed);
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
        let window = read_large_window(request, &scan, &mut index, encoding, &head);
        indexes.put(stamp, feed, index);
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
    file.take(limit)
        .read_to_end(&mut bytes)
        .map_err(|cause| request.path.access_error(cause))?;
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
    let mut window = empty_window(bytes.len() as u64, encoding, LineEndings::detect(body));
    if encoding.is_utf8() {
        window.invalid_bytes = count_invalid_bytes(body);
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
        if rest.push(&body[start..]) {
            rest.finish(goes_on);
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
