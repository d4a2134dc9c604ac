//! Read: a window of numbered lines of one text file, or a folder's content. Not here: formats that are not text
//! (document), and finding text (output_search).

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::document::{self, DocumentQuery};
use super::rendered_page::LineSelection;
use super::{FileDeps, folder_view, line_numbers};
use crate::acp::RawPath;
use crate::acp::encoding::FileEncoding;
use crate::acp::files::{LineEndings, LineTotal, ReadTextFile, TextWindow, WindowStart};
use crate::output::number_format::{format_count, format_size, group_digits};
use crate::output::{SecretBoundaries, TextBudget};
use crate::tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, ResultMeta, Tool, ToolContext,
    ToolEffect, ToolError, ToolReply,
};

/// Lines where the call does not say.
const DEFAULT_LINES: u64 = 2_000;
/// Lines at most.
const MAX_LINES: u64 = 10_000;
/// Left for the footer.
const FOOTER_CHARS: usize = 400;

/// Read a file: text as numbered lines (`number<tab>text`), PDF pages, office documents as text, notebook cells, an
/// image, an archive's or folder's listing.
///
/// Cuts lines over 2,000 characters. Images come as JSON with base64 `data`. For databases use SqliteQuery.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Read {
    /// Absolute, or below the first workspace.
    file_path: RawPath,
    /// First line, from 1; -100: the last 100.
    offset: Option<i64>,
    /// Lines; 2000 if absent.
    limit: Option<u64>,
    /// PDF pages, such as `2,4-6`.
    pages: Option<String>,
    /// Show one line from this character.
    column: Option<u64>,
    /// Such as `shift_jis`; detected if absent.
    encoding: Option<String>,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

impl Tool for Read {
    const NAME: &'static str = "Read";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const KNOWN_AS: &'static [&'static str] = &[
        "view",
        "view_image",
        "cat",
        "open_file",
        "get_file_contents",
    ];
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("path", "file_path"),
        ("filename", "file_path"),
        ("file", "file_path"),
        ("absolute_path", "file_path"),
        ("target_file", "file_path"),
        ("line", "offset"),
        ("lines", "limit"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"src/main.rs"}"#,
        r#"{"file_path":"src/main.rs","offset":120,"limit":40}"#,
        r#"{"file_path":"build.log","offset":-100}"#,
        r#"{"file_path":"paper.pdf","pages":"2-4"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "2,000 lines a call unless asked for more, 10,000 at most",
        "30,000 characters an answer, up to 200,000 with max_chars",
        "lines over 2,000 characters are cut in the middle",
        "meta.sha256 and the exact number of lines for files up to 100 MB",
        "images over 525 KB (700 KB of base64) or over max_chars are scaled down, up to 67 megapixels",
        "PDF documents up to 64 MB, 10 pages a call unless asked for more, 20 s",
        "Word, Excel, PowerPoint and OpenDocument files: the first 4 MB of their text",
        "notebooks up to 16 MB; 500 entries of an archive or a folder a call",
    ];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.file_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let line = self
            .offset
            .and_then(|offset| u64::try_from(offset).ok())
            .filter(|line| *line > 0);
        CallDescription {
            line,
            ..CallDescription::with_title(CallTitle::about_files("Read", [self.file_path.as_str()]))
        }
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        let path = deps.workspace.resolve_in_workspace(&self.file_path)?;
        let budget = TextBudget::from_requested(self.max_chars);
        let start = self.read_start()?;
        let limit = self.limit.unwrap_or(DEFAULT_LINES).min(MAX_LINES);
        if limit == 0 {
            return Err(ToolError::invalid_args("limit is 0; give at least 1."));
        }
        let encoding = self
            .encoding
            .as_deref()
            .map(parse_encoding_label)
            .transpose()?;
        let lines = LineSelection {
            offset: self.offset.unwrap_or(1),
            limit,
            budget,
        };
        let pages = self
            .pages
            .as_deref()
            .map(document::parse_page_ranges)
            .transpose()?;
        let ask = DocumentQuery {
            lines,
            offset: self.offset,
            limit: self.limit,
            pages,
            image_budget: self
                .max_chars
                .map(|asked| TextBudget::from_requested(Some(asked))),
        };
        let mut no_notebook = None;
        if document::has_notebook_name(&path) && encoding.is_none() && self.column.is_none() {
            match document::read_notebook(cx, &*deps.client, &path, ask.clone(), &deps.worker).await
            {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(why)) => no_notebook = Some(why),
                // A folder may be called so, too.
                Err(error) if error.stable_code() == ErrorCode::IsDirectory => {}
                Err(error) => return Err(error),
            }
        }
        let line_chars = TextBudget::MAX_LINE_CHARS.min(budget.max_chars() / 2);
        let room = budget.max_chars().saturating_sub(FOOTER_CHARS);
        let request = ReadTextFile {
            path: path.clone(),
            start,
            lines: limit,
            max_chars: room,
            line_chars,
            encoding,
        };
        match deps.client.read_text_file(cx, request).await {
            Ok(_) if ask.pages.is_some() => Err(ToolError::invalid_args(format!(
                "pages is for PDF documents; {} is text. Use offset and limit.",
                path.display_text()
            ))),
            Ok(window) => {
                deps.seen
                    .record_seen_window(cx, &path, &window, encoding.is_some());
                let mut reply = window_reply(
                    &path.display_text(),
                    &window,
                    start,
                    limit,
                    budget,
                    encoding.is_some(),
                    &cx.secret_boundaries,
                );
                if let Some(why) = no_notebook {
                    reply
                        .meta
                        .warnings
                        .push(format!("Shown as text, not as a notebook: {why}."));
                }
                Ok(reply)
            }
            Err(error) if error.stable_code() == ErrorCode::IsDirectory => {
                folder_view::show_folder_entries(cx, &*deps.client, path, false, lines, true).await
            }
            Err(error) if error.stable_code() == ErrorCode::NotText => {
                document::show_document(cx, &*deps.client, &path, ask, error, &deps.worker).await
            }
            Err(error) => Err(error),
        }
    }
}

impl Read {
    fn read_start(&self) -> Result<WindowStart, ToolError> {
        let offset = self.offset.unwrap_or(1);
        match (self.column, offset) {
            (Some(_), ..0) => Err(ToolError::invalid_args(
                "column needs a line counted from the start: give offset from 1 on.",
            )),
            (Some(column), _) => Ok(WindowStart::Inside {
                line: offset.unsigned_abs().max(1),
                column: column.max(1),
            }),
            (None, ..0) => Ok(WindowStart::FromEnd(offset.unsigned_abs())),
            // Line 0 is what a caller who counts from 0 means by the first.
            (None, _) => Ok(WindowStart::Line(offset.unsigned_abs().max(1))),
        }
    }
}

/// The encoding of this label.
fn parse_encoding_label(label: &str) -> Result<FileEncoding, ToolError> {
    FileEncoding::from_label(label.trim()).ok_or_else(|| {
        ToolError::invalid_args(format!(
            "encoding: {label:?} is not known. Give a label of the Encoding Standard, for example utf-8, utf-16le, \
             windows-1252, iso-8859-15, shift_jis, euc-kr, gb18030 or koi8-r; or leave it out."
        ))
    })
}

fn window_reply(
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
        source: window.source.source_label(),
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

/// What is to be known of a window beside its text.
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
    if window.changed {
        warnings.push(
            "The file changed while it was read: this is its beginning of before. Read it again."
                .to_owned(),
        );
    }
    warnings
}

/// `path (38.2 KB, 1,204 lines, utf-8, lf)`, and how it was decoded where that is not plain.
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
    let (size, endings) = (format_size(window.size), window.endings.as_str());
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

/// The rest of one line, from this column on; whether the line has more.
fn write_line_part(
    text: &mut String,
    window: &TextWindow,
    line: u64,
    column: u64,
    room: usize,
    uncut: &SecretBoundaries,
) -> bool {
    let column = column - window.back;
    // The carriage return before a line feed is no part of the line.
    let body = if window.stopped_in_line || window.endings == LineEndings::Lf {
        window.text.as_str()
    } else {
        window.text.strip_suffix('\r').unwrap_or(&window.text)
    };
    let shown = match body.char_indices().nth(room) {
        None => body,
        // What is masked as a whole is short then: one at the beginning is shown, though it has no room as it is.
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
