//! read_file: a text file's plain content. Not here: line numbers and windows (Read).

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Deserialize;

use super::{FileDeps, text_window};
use punie_host::RawPath;
use punie_host::files::{LineTotal, ReadTextFile, WindowStart};
use punie_text::output::TextBudget;
use punie_text::output::number_format::group_digits;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, ResultMeta, Tool, ToolContext,
    ToolEffect, ToolError, ToolReply,
};

/// Characters reserved for the note on the omitted part.
const NOTE_CHARS: usize = 300;

/// Same as Read: plain text, up to 30,000 characters. For a part of a file use Read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReadFile {
    /// Absolute, or below the first workspace.
    path: RawPath,
}

impl Tool for ReadFile {
    const NAME: &'static str = "read_file";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("Read");
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"path":"README.md"}"#, r#"{"path":"src/lib.rs"}"#];
    const LIMITS: &'static [&'static str] = &[
        "30,000 characters an answer; the rest with Read",
        "meta.sha256 for files up to 100 MB",
    ];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::about_files("Read", [self.path.as_str()]))
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        let path = deps
            .workspace
            .resolve_inside(&self.path)
            .map_err(with_known_first_line)?;
        let budget = TextBudget::default();
        let room = budget.max_chars() - NOTE_CHARS;
        let request = ReadTextFile {
            path: path.clone(),
            start: WindowStart::Line(1),
            lines: u64::MAX,
            max_chars: room,
            line_chars: room,
            encoding: None,
        };
        let window = deps
            .client
            .read_text_file(cx, request)
            .await
            .map_err(with_known_first_line)?;
        deps.seen.record_window(cx, &path, &window, false);
        let warnings = text_window::window_warnings(&window, false);
        let note = window.source.unsaved_note();
        let source = window.source.label();
        let mut text = window.text;
        let complete = window.at_end && window.omitted_bytes == 0;
        if !complete {
            let of = match window.total {
                LineTotal::Exactly(n) => group_digits(n),
                LineTotal::MoreThan(n) => format!("more than {}", group_digits(n)),
            };
            let next = window.lines + 1;
            if !text.ends_with('\n') {
                text.push('\n');
            }
            let _ = write!(
                text,
                "[... lines 1-{} of {of} shown; Read file_path={:?} offset={next} for the rest]",
                window.lines,
                self.path.as_str()
            );
        }
        if let Some(note) = note {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            let _ = write!(text, "[{note}]");
        }
        let meta = ResultMeta {
            sha256: window.sha256,
            source,
            lossy_chars: Some(window.lossy).filter(|n| *n > 0),
            control_chars: Some(window.control).filter(|n| *n > 0),
            truncated: !complete,
            warnings,
            ..ResultMeta::default()
        };
        Ok(ToolReply::from_fitted_text(text).with_meta(meta))
    }
}

/// Gives two errors the first line by which this tool's callers recognize them.
fn with_known_first_line(error: ToolError) -> ToolError {
    let first = match error.stable_code() {
        ErrorCode::NotFound => "Error: File not found",
        ErrorCode::OutsideWorkspace => "Error: Security violation",
        _ => return error,
    };
    ToolError::new(
        error.stable_code(),
        format!("{first}\n{}", error.model_text()),
    )
}
