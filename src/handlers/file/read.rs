//! Read: a window of numbered lines of one text file, or a folder's content.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::document::{self, DocumentQuery};
use super::rendered_page::LineSelection;
use super::text_window::{FOOTER_CHARS, window_reply};
use super::{FileDeps, folder_view, notebook_edit};
use punie_host::RawPath;
use punie_host::encoding::FileEncoding;
use punie_host::files::{ReadTextFile, WindowStart};
use punie_text::output::TextBudget;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// The number of lines without a limit in the call.
const DEFAULT_LINES: u64 = 2_000;
/// The highest limit of lines.
const MAX_LINES: u64 = 10_000;
#[cfg_attr(
    feature = "documents",
    doc = " Read a file: text as numbered lines (`number<tab>text`), PDF pages, office documents as text, notebook cells, an",
    doc = " image, an archive's or folder's listing.",
    doc = "",
    doc = " Cuts lines over 2,000 characters. Images come as JSON with base64 `data`. For databases use SqliteQuery."
)]
#[cfg_attr(
    not(feature = "documents"),
    doc = " Read a text file as numbered lines (`number<tab>text`), or a folder's listing.",
    doc = "",
    doc = " Cuts lines over 2,000 characters. For databases use SqliteQuery."
)]
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
    #[cfg_attr(not(feature = "documents"), schemars(skip))]
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
        #[cfg(feature = "documents")]
        "view_image",
        "cat",
        "open_file",
        "get_file_contents",
    ];
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("line", "offset"), ("lines", "limit")];
    const ACCEPTED: &'static [&'static str] = &["start_line", "end_line", "view_range"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"src/main.rs"}"#,
        r#"{"file_path":"src/main.rs","offset":120,"limit":40}"#,
        r#"{"file_path":"build.log","offset":-100}"#,
        #[cfg(feature = "documents")]
        r#"{"file_path":"paper.pdf","pages":"2-4"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "2,000 lines a call unless asked for more, 10,000 at most",
        "30,000 characters an answer, up to 200,000 with max_chars",
        "lines over 2,000 characters are cut in the middle",
        "meta.sha256 and the exact number of lines for files up to 100 MB",
        #[cfg(feature = "documents")]
        "images over 525 KB (700 KB of base64) or over max_chars are scaled down, up to 67 megapixels (16-bit RGB 56, RGBA 42)",
        #[cfg(feature = "documents")]
        "PDF documents up to 64 MB, 10 pages a call unless asked for more, 20 s",
        #[cfg(feature = "documents")]
        "Word, Excel, PowerPoint and OpenDocument files: the first 4 MB of their text",
        #[cfg(not(feature = "documents"))]
        "500 entries of a folder a call",
        #[cfg(feature = "documents")]
        "notebooks up to 16 MB; 500 entries of an archive or a folder a call",
    ];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.file_path.as_str()])
    }

    /// Takes a range of lines as other tools have it, a line behind the path, and numbers of pages.
    fn normalize(arguments: &mut Map<String, Value>) {
        let number = |value: &Value| {
            value
                .as_i64()
                .or_else(|| value.as_str()?.trim().parse().ok())
        };
        let range = arguments
            .get("view_range")
            .and_then(Value::as_array)
            .cloned();
        let range = range.unwrap_or_default();
        let line = |at: usize, key: &str| {
            range
                .get(at)
                .or_else(|| arguments.get(key))
                .and_then(number)
        };
        let mut first = line(0, "start_line");
        let last = line(1, "end_line");
        let path = arguments.get("file_path").and_then(Value::as_str);
        if first.is_none()
            && let Some((path, line)) = path.and_then(split_line_number)
        {
            first = Some(line);
            arguments.insert("file_path".to_owned(), Value::from(path));
        }
        if let Some(first) = first.or(last.map(|_| 1)) {
            arguments.entry("offset").or_insert(Value::from(first));
            // -1 is the last line of the file.
            if let Some(lines) = last
                .filter(|last| *last >= first)
                .map(|last| last - first + 1)
            {
                arguments.entry("limit").or_insert(Value::from(lines));
            }
        }
        let pages = arguments.get("pages").map(|pages| match pages {
            Value::Array(pages) => {
                let pages: Vec<String> = pages.iter().filter_map(page_text).collect();
                pages.join(",")
            }
            page => page_text(page).unwrap_or_default(),
        });
        if let Some(pages) = pages {
            arguments.insert("pages".to_owned(), Value::from(pages));
        }
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
        let path = deps.workspace.resolve_inside(&self.file_path)?;
        let start = self.read_start()?;
        let lines = self.line_selection()?;
        let asked = (self.offset, self.limit);
        let pages = self.pages.as_deref();
        let query = DocumentQuery::new(lines, asked, pages, self.max_chars.is_some())?;
        let encoding = self
            .encoding
            .as_deref()
            .map(parse_encoding_label)
            .transpose()?;
        let mut no_notebook = None;
        if notebook_edit::has_notebook_name(path.absolute_path())
            && encoding.is_none()
            && self.column.is_none()
        {
            match document::read_notebook(cx, &*deps.client, &path, query.clone(), &deps.worker)
                .await
            {
                Ok(Ok(reply)) => return Ok(reply),
                Ok(Err(why)) => no_notebook = Some(why),
                Err(error) => match error.stable_code() {
                    ErrorCode::Cancelled => return Err(error),
                    // A folder may have such a name, too.
                    ErrorCode::IsDirectory => {}
                    _ => no_notebook = Some(error.model_text().trim_end_matches('.').to_owned()),
                },
            }
        }
        let line_chars = TextBudget::MAX_LINE_CHARS.min(lines.budget.max_chars() / 2);
        let request = ReadTextFile {
            path: path.clone(),
            start,
            lines: lines.limit,
            max_chars: lines.budget.max_chars().saturating_sub(FOOTER_CHARS),
            line_chars,
            encoding,
        };
        match deps.client.read_text_file(cx, request).await {
            Ok(_) if self.pages.is_some() => Err(ToolError::invalid_args(format!(
                "pages is for PDF documents; {} is text. Use offset and limit.",
                path.display_text()
            ))),
            Ok(window) => {
                deps.seen
                    .record_window(cx, &path, &window, encoding.is_some());
                let mut reply = window_reply(
                    &path.head_text(),
                    &window,
                    start,
                    lines.limit,
                    lines.budget,
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
                document::show_document(cx, &*deps.client, &path, query, error, &deps.worker).await
            }
            Err(error) => Err(error),
        }
    }
}

fn page_text(page: &Value) -> Option<String> {
    let text = page.as_str().map(str::to_owned);
    text.or_else(|| page.as_u64().map(|page| page.to_string()))
}

/// Splits `src/a.py:12` and `src/a.py:12:5`, as compilers print places, into path and line. A name needs an extension.
fn split_line_number(path: &str) -> Option<(String, i64)> {
    let (mut rest, mut line) = path.rsplit_once(':')?;
    if let Some((before, number)) = rest.rsplit_once(':')
        && number.parse::<u32>().is_ok()
    {
        (rest, line) = (before, number);
    }
    let extension = rest.rsplit('/').next()?.rsplit_once('.')?.1;
    let is_name =
        !extension.is_empty() && extension.bytes().all(|byte| byte.is_ascii_alphanumeric());
    Some((
        rest.to_owned(),
        i64::from(line.parse::<u32>().ok().filter(|_| is_name)?),
    ))
}

impl Read {
    fn line_selection(&self) -> Result<LineSelection, ToolError> {
        let limit = self.limit.unwrap_or(DEFAULT_LINES).min(MAX_LINES);
        if limit == 0 {
            return Err(ToolError::invalid_args("limit is 0; give at least 1."));
        }
        Ok(LineSelection {
            offset: self.offset.unwrap_or(1),
            limit,
            budget: TextBudget::from_requested(self.max_chars),
        })
    }

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
            // A caller that counts from 0 means the first line by line 0.
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
