//! Reads one window of a text file that is too big for memory, in pieces.

use super::file_open::empty_window;
use super::stream_decoder::StreamDecoder;
use super::text_detection;
use super::text_lines::{LineGatherer, LineRemainder};
use super::window_text::{WindowRequest, window_of_lines, window_of_remainder};
use crate::files::{FileEncoding, LineTotal, ReadTextFile, TextWindow, WindowStart};
use punie_text::output::line_index::{
    LineIndex, LineMiss, LineScan, READ_CHUNK_BYTES, find_last_lines, read_at_offset,
};
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ToolError};

/// The longest distance to follow a single line, or to go back for the last lines.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Reads a window of a file that is too big for memory.
pub(super) fn read_large_window(
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
    let start = match find_window_start(request, scan, index, &mut window.first) {
        Err(LineMiss::PastEnd) => {
            window.total = line_total(index, scan, &window);
            window.at_end = true;
            return Ok(window);
        }
        Ok(0) => encoding.bom_bytes().len() as u64,
        Ok(start) => start,
        Err(miss) => return Err(failed(miss)),
    };
    let WindowStart::Inside { line, column } = request.start else {
        let page = read_refined(request, &mut window, head, |encoding| {
            read_line_page(asked, scan, start, encoding)
        });
        let page = page.map_err(failed)?;
        window.at_end = page.at_end;
        window.stopped_in_line = page.stopped_in_line;
        let mut window = window_of_lines(window, page.lines);
        window.total = line_total(index, scan, &window);
        return Ok(window);
    };
    let rest = read_refined(request, &mut window, head, |encoding| {
        read_line_remainder(asked, scan, start, column, encoding)
    });
    let rest = rest.map_err(failed)?;
    window.total = line_total(index, scan, &window);
    window_of_remainder(request, window, rest, line, column)
}

/// Finds the offset of the window's first line, and sets the number of that line.
fn find_window_start(
    request: &ReadTextFile,
    scan: &LineScan<'_>,
    index: &mut LineIndex,
    first: &mut i64,
) -> Result<u64, LineMiss> {
    let line = match (request.start, index.known_count(scan.size)) {
        (WindowStart::FromEnd(back), Some(total)) => total.saturating_sub(back.max(1)) + 1,
        (WindowStart::FromEnd(back), None) => {
            let found = find_last_lines(scan, back.max(1), MAX_LINE_BYTES)?;
            let (start, lines) = found.ok_or(LineMiss::TooFar)?;
            *first = if start == 0 {
                1
            } else {
                -i64::try_from(lines).unwrap_or(i64::MAX)
            };
            return Ok(start);
        }
        (WindowStart::Line(line) | WindowStart::Inside { line, .. }, _) => line.max(1),
    };
    *first = i64::try_from(line).unwrap_or(i64::MAX);
    index.find(scan, line)
}

/// Text of a big file that was read in some encoding.
trait ReadText {
    fn decoded_bytes(&self) -> &[u8];
}

/// Reads with the encoding that the text itself shows, unless one is requested. UTF-8 comes first, unless the encoding
/// is UTF-16: the raw bytes reveal the encoding.
fn read_refined<T: ReadText>(
    request: &ReadTextFile,
    window: &mut TextWindow,
    head: &[u8],
    read: impl Fn(FileEncoding) -> Result<T, LineMiss>,
) -> Result<T, LineMiss> {
    let detected = window.encoding;
    if request.encoding.is_some() {
        return read(detected);
    }
    let as_is = if detected.is_utf16() {
        detected
    } else {
        FileEncoding::Utf8
    };
    let text = read(as_is)?;
    window.encoding = text_detection::refine_encoding(head, text.decoded_bytes(), detected);
    if window.encoding.is_utf8() || window.encoding == as_is {
        Ok(text)
    } else {
        read(window.encoding)
    }
}

impl ReadText for LinePage {
    fn decoded_bytes(&self) -> &[u8] {
        self.lines.gathered_bytes()
    }
}

impl ReadText for LineRemainder {
    fn decoded_bytes(&self) -> &[u8] {
        &self.out
    }
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
        wanted && lines.current_bytes() < MAX_LINE_BYTES
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
        wanted = rest.push(piece);
        wanted && passed < MAX_LINE_BYTES
    })?;
    if wanted {
        rest.finish(!at_end);
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
    match index.known_count(scan.size) {
        Some(total) => LineTotal::Exactly(total),
        None if window.at_end && window.first > 0 && window.lines > 0 => LineTotal::Exactly(last),
        None => LineTotal::MoreThan(index.seen_count().max(last).max(window.lines)),
    }
}

fn explain_scan_error(request: &ReadTextFile, scan: &LineScan<'_>, miss: LineMiss) -> ToolError {
    let shown = request.path.display_text();
    match miss {
        LineMiss::Cancelled => ToolError::call_cancelled(format!(
            "Reading {shown} was cancelled. Nothing was changed."
        )),
        LineMiss::Io(cause) => request.path.access_error(cause),
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
