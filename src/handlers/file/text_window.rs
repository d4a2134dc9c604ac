//! Formats a window of a text as an answer: its heading, its numbered lines, and a hint for the next page.

use std::fmt::Write as _;
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::Regex;

use super::line_numbers;
use punie_host::encoding::FileEncoding;
use punie_host::files::{LineEndings, LineTotal, TextWindow, WindowStart};
use punie_text::output::number_format::{format_count, format_size, group_digits};
use punie_text::output::{SecretBoundaries, TextBudget};
use punie_tool::{ResultMeta, ToolReply};

/// Characters reserved for the footer.
pub(super) const FOOTER_CHARS: usize = 400;

/// Answers with a window of a text.
pub(super) fn window_reply(
    shown: &str,
    window: &TextWindow,
    start: WindowStart,
    asked: u64,
    budget: TextBudget,
    forced: bool,
    uncut: &SecretBoundaries,
) -> ToolReply {
    let mut meta = ResultMeta {
        sha256: window.sha256.clone(),
        source: window.source.label(),
        lossy_chars: Some(window.lossy).filter(|n| *n > 0),
        control_chars: Some(window.control).filter(|n| *n > 0),
        omitted_bytes: Some(window.omitted_bytes).filter(|n| *n > 0),
        truncated: window.omitted_bytes > 0,
        ..ResultMeta::default()
    };
    meta.warnings = window_warnings(window, forced);
    let mut text = window_header(shown, window, forced);
    if window.lines == 0 {
        write_empty_window(&mut text, window);
        return ToolReply::from_fitted_text(text)
            .with_budget(budget)
            .with_meta(meta);
    }
    let room = budget
        .max_chars()
        .saturating_sub(text.chars().count() + FOOTER_CHARS);
    if let WindowStart::Inside { line, column } = start {
        meta.truncated = write_line_part(&mut text, window, line, column, room, uncut);
        return ToolReply::from_fitted_text(text)
            .with_budget(budget)
            .with_meta(meta);
    }
    let body = line_numbers::number_lines(&window.text, window.first, room);
    text.push_str(&body.text);
    meta.truncated |= body.lines < asked && !(window.at_end && body.lines == window.lines);
    write_window_footer(&mut text, window, body.lines);
    ToolReply::from_fitted_text(text)
        .with_budget(budget)
        .with_meta(meta)
}

pub(super) fn window_warnings(window: &TextWindow, forced: bool) -> Vec<String> {
    let mut warnings: Vec<String> = window
        .source
        .disk_warning()
        .map(str::to_owned)
        .into_iter()
        .collect();
    if window.lossy > 0 {
        let encoding = if window.encoding.is_utf8() {
            "UTF-8"
        } else {
            window.encoding.as_str()
        };
        warnings.push(format!(
            "Bytes that are not valid {encoding} are shown as U+FFFD; do not write them back."
        ));
    }
    if !forced && matches!(window.encoding, FileEncoding::Legacy(_)) {
        warnings.push(format!(
            "That it is {} is told from its bytes; if the text looks wrong, give `encoding`.",
            window.encoding.as_str()
        ));
    }
    if !forced && window.text.is_ascii() {
        warnings.extend(describe_packed_text(&window.text));
    }
    if window.changed {
        warnings.push(
            "The file changed while it was read: this is its beginning of before. Read it again."
                .to_owned(),
        );
    }
    warnings
}

/// Says of a text in ASCII that it stands for other letters.
fn describe_packed_text(text: &str) -> Option<String> {
    static UTF7: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"\+([A-Za-z0-9+/]{3,})-").expect("a valid pattern"));
    if text.contains("\u{1b}$B") || text.contains("\u{1b}$@") {
        return Some("It looks like ISO-2022-JP: encoding=\"iso-2022-jp\" shows it.".to_owned());
    }
    // RFC 2152: UTF-16 in base64 without padding.
    let decode = |packed: &str| -> Option<Vec<char>> {
        let bytes = STANDARD_NO_PAD.decode(packed).ok()?;
        let (units, rest) = bytes.as_chunks::<2>();
        let units = units.iter().map(|unit| u16::from_be_bytes(*unit));
        let letters: Vec<char> = char::decode_utf16(units).collect::<Result<_, _>>().ok()?;
        let are_letters = letters.iter().all(|c| !c.is_ascii() && !c.is_control());
        (rest.is_empty() && are_letters).then_some(letters)
    };
    let found: Vec<_> = UTF7.captures_iter(text).take(100).collect();
    let letters = found.iter().map(|found| decode(&found[1]));
    let letters: Vec<Vec<char>> = letters.collect::<Option<_>>()?;
    // Words between such signs may stand for some Chinese character, but hardly all of them, or for a Latin letter.
    let is_latin = letters.iter().flatten().all(|c| *c < '\u{600}');
    (letters.len() > 2 || (is_latin && !letters.is_empty())).then(|| {
        let example = &found[0][0];
        format!("`{example}` looks like UTF-7: `iconv -f UTF-7` in Bash shows such text.")
    })
}

/// `path (38.2 KB, 1,204 lines, utf-8, lf)`, and the decoding where it is not obvious.
fn window_header(shown: &str, window: &TextWindow, forced: bool) -> String {
    let lines = match window.total {
        LineTotal::Exactly(n) => format_count(n, "line"),
        LineTotal::MoreThan(n) => format!("more than {}", format_count(n, "line")),
    };
    let name = window.encoding.as_str();
    let encoding = match (window.invalid_bytes, window.lossy) {
        (0, 0) => name.to_owned(),
        (n @ 1.., _) => format!(
            "not utf-8, {} shown as U+FFFD",
            format_count(n, "invalid byte")
        ),
        (_, n) => format!(
            "{name}, {} here shown as U+FFFD",
            format_count(n, "invalid place")
        ),
    };
    let decoded = match window.encoding {
        _ if forced => format!(" [decoded from {name}, as asked]"),
        FileEncoding::Utf8
        | FileEncoding::Utf8Bom
        | FileEncoding::Utf16Le
        | FileEncoding::Utf16Be => String::new(),
        _ => format!(" [decoded from {name}]"),
    };
    let unsaved = window
        .source
        .unsaved_note()
        .map(|note| format!(" [{note}]"))
        .unwrap_or_default();
    let size = format_size(window.size);
    let endings = window.endings.as_str();
    format!("{shown} ({size}, {lines}, {encoding}, {endings}){decoded}{unsaved}\n")
}

fn write_empty_window(text: &mut String, window: &TextWindow) {
    match window.total {
        LineTotal::Exactly(0) => text.push_str("The file is empty.\n"),
        LineTotal::Exactly(n) => {
            let _ = writeln!(
                text,
                "There is no line {}: the file has {}. Use a smaller offset, or a negative one for the end.",
                window.first,
                format_count(n, "line")
            );
        }
        LineTotal::MoreThan(_) => {
            let _ = writeln!(
                text,
                "There is no line {}. Use a negative offset for the end.",
                window.first
            );
        }
    }
}

/// Writes the rest of one line, from this column on; returns whether the line continues.
fn write_line_part(
    text: &mut String,
    window: &TextWindow,
    line: u64,
    column: u64,
    room: usize,
    uncut: &SecretBoundaries,
) -> bool {
    let column = column - window.back;
    // The carriage return before a line feed is not part of the line.
    let body = if window.stopped_in_line || window.endings == LineEndings::Lf {
        window.text.as_str()
    } else {
        window.text.strip_suffix('\r').unwrap_or(&window.text)
    };
    let shown = match body.char_indices().nth(room) {
        None => body,
        // A secret at the beginning is masked as a whole and then short, so it is shown despite the
        // limit.
        Some((at, _)) => match uncut.cut_end_before(body.as_bytes(), at, true) {
            0 => &body[..uncut.extend_to_whole(body.as_bytes(), 0..at).end],
            end => &body[..end],
        },
    };
    let count = shown.chars().count() as u64;
    let more = window.stopped_in_line || shown.len() < body.len();
    text.push_str(shown);
    let next = column + count;
    let _ = match (count, more) {
        (0, _) => write!(text, "Line {line} ends before column {column}."),
        (_, true) => write!(
            text,
            "\n\nShowing characters {column}-{} of line {line}. Continue with offset={line} column={next}.",
            next - 1
        ),
        _ => write!(
            text,
            "\n\nShowing characters {column}-{} of line {line}, which ends there.",
            next - 1
        ),
    };
    text.push('\n');
    more
}

fn write_window_footer(text: &mut String, window: &TextWindow, shown: u64) {
    let last = window.first + i64::try_from(shown).unwrap_or(i64::MAX) - 1;
    let ends_here = window.at_end && shown == window.lines;
    let of = match window.total {
        LineTotal::Exactly(n) => group_digits(n),
        LineTotal::MoreThan(n) => format!("more than {}", group_digits(n)),
    };
    let mut notes = Vec::new();
    if window.first < 0 {
        notes.push("Lines are numbered from the end: -1 is the last.".to_owned());
    }
    if window.stopped_in_line && shown == window.lines {
        notes.push(format!(
            "Line {last} is too long to look past: only a negative offset, which counts from the end, reaches what \
             may follow it."
        ));
    } else if !ends_here {
        notes.push(format!(
            "Showing {}-{last} of {of}. Continue with offset={}.",
            window.first,
            last + 1
        ));
    } else if window.first > 1 {
        notes.push(format!(
            "Showing {}-{last} of {of}, to the end.",
            window.first
        ));
    }
    if let Some((at, before)) = window.first_cut.filter(|(at, _)| *at < shown) {
        let line = window.first + i64::try_from(at).unwrap_or(i64::MAX);
        let next = before + 1;
        notes.push(if line > 0 {
            format!("Line {line} is cut in its middle: offset={line} column={next} reads it on.")
        } else {
            format!(
                "Line {line} is cut in its middle. `column` reads on only lines counted from the start; use Bash, for \
                 example `tail -n {} FILE | head -n 1 | cut -c {next}-`.",
                line.unsigned_abs()
            )
        });
    }
    if ends_here && !window.text.ends_with('\n') {
        notes.push("There is no newline at the end of the file.".to_owned());
    }
    if !notes.is_empty() {
        text.push('\n');
        text.push_str(&notes.join("\n"));
        text.push('\n');
    }
}
