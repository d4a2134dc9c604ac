//! Write: a whole file.

use schemars::JsonSchema;
use serde::Deserialize;

use super::placeholder::refuse_placeholder_overwrite;
use super::seen_files::SeenLines;
use super::text_transcoding::TranscodedText;
use super::{FileDeps, mask_guard, written_file_meta};
use punie_host::files::{NewContent, WritePrecondition, WriteTextFile};
use punie_host::{RawPath, WorkspacePath};
use punie_text::output::number_format::{format_count, format_size};
use punie_tool::{
    CallDescription, DeclaredAccess, ErrorCode, PeopleField, ProposedContent, Tool, ToolContext,
    ToolEffect, ToolError, ToolReply,
};

/// The largest content that is accepted.
const MAX_BYTES: usize = 10 << 20;

/// Create a text file or replace all of it. To change a part use Edit.
///
/// Keeps mode, owner, CRLF line endings and byte order mark.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Write {
    /// Absolute, or below the first workspace.
    file_path: RawPath,
    /// The whole text.
    content: String,
    /// Create folders; true if absent.
    create_dirs: Option<bool>,
    /// `if_unchanged` needs expected_sha256.
    #[serde(default)]
    overwrite: Overwrite,
    /// Refuse unless the file has this hash.
    expected_sha256: Option<String>,
    /// Set or clear the executable bit.
    executable: Option<bool>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum Overwrite {
    #[default]
    Always,
    Never,
    IfUnchanged,
}

impl Tool for Write {
    const NAME: &'static str = "Write";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const KNOWN_AS: &'static [&'static str] = &["create_file", "save_file", "write_to_file"];
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"notes/todo.md","content":"- one\n"}"#,
        r##"{"file_path":"run.sh","content":"#!/bin/sh\n","overwrite":"never","executable":true}"##,
    ];
    const LIMITS: &'static [&'static str] =
        &["10 MB of text; over the backend's HTTP wire 900 KB of arguments a request"];
    const PEOPLE_FIELDS: &'static [PeopleField] = &[PeopleField::Text("content")];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::writing_paths([self.file_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let content = ProposedContent::Whole(self.content.clone());
        CallDescription::for_file_change("Write", self.file_path.as_str(), content)
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        check_content_size(&self.content)?;
        let only_if = self.precondition()?;
        let path = deps.resolve_for_call(cx, &self.file_path).await?;
        mask_guard::refuse_masked_overwrite(cx, deps, &path, ("content", &self.content)).await?;
        refuse_placeholder_overwrite(cx, deps, &path, &self.content).await?;
        let shown = path.head_text();
        let chars = self.content.chars().count() as u64;
        let lines = self.content.lines().count() as u64;
        let new_lines = SeenLines::from_whole_text(self.content.as_bytes());
        // By default a file that this conversation read is replaced only in that version, so that
        // other changes are not lost.
        let seen = deps
            .seen
            .sha256(cx, &path)
            .filter(|_| path.existed_when_resolved() && only_if == WritePrecondition::None);
        let is_guarded = seen.is_some();
        let request = WriteTextFile {
            path: path.clone(),
            content: NewContent::Text(self.content),
            only_if: seen.map_or(only_if, WritePrecondition::Content),
            create_folders: self.create_dirs.unwrap_or(true),
            executable: self.executable,
        };
        let written = match deps.client.write_text_file(cx, request).await {
            Err(error) if is_guarded && error.stable_code() == ErrorCode::Stale => {
                return Err(changed_since_refusal(cx, deps, &path)
                    .await
                    .unwrap_or(error));
            }
            written => written?,
        };
        deps.seen
            .record(cx, &path, written.after.clone(), new_lines);
        let mut text = if written.unchanged {
            format!("No change: {shown} holds exactly this text already.")
        } else {
            let verb = if written.created {
                "Created"
            } else {
                "Replaced"
            };
            format!(
                "{verb} {shown}: {}, {}.",
                format_count(chars, "character"),
                format_count(lines, "line")
            )
        };
        for warning in &written.warnings {
            text.push('\n');
            text.push_str(warning);
        }
        let reply = ToolReply::from_text(text).with_meta(written_file_meta(&path, written));
        Ok(deps.check_changed(cx, reply).await)
    }
}

/// The error for replacing a file that changed since this conversation read it.
async fn changed_since_refusal(
    cx: &ToolContext,
    deps: &FileDeps,
    path: &WorkspacePath,
) -> Option<ToolError> {
    let loaded = deps
        .client
        .load_file(cx, path.clone(), MAX_BYTES as u64)
        .await
        .ok()?;
    let text = TranscodedText::decode_for_edit(&path.display_text(), &loaded).ok()?;
    let changed =
        deps.seen
            .describe_change_since(cx, path, || loaded.bytes_sha256(), Some(text.utf8()))?;
    let text = format!("{changed} Nothing was written. Read it again, then decide.");
    Some(ToolError::new(ErrorCode::Stale, text))
}

impl Write {
    fn precondition(&self) -> Result<WritePrecondition, ToolError> {
        let expected = parse_expected_sha256(self.expected_sha256.as_deref())?;
        match (self.overwrite, expected) {
            (Overwrite::Never, None) => Ok(WritePrecondition::Absent),
            (Overwrite::Never, Some(_)) => Err(ToolError::invalid_args(
                "overwrite=\"never\" and expected_sha256 exclude each other.",
            )),
            (Overwrite::IfUnchanged, None) => Err(ToolError::invalid_args(
                "overwrite=\"if_unchanged\" needs expected_sha256, as Read gives it in meta.sha256.",
            )),
            (_, Some(expected)) => Ok(WritePrecondition::Content(expected)),
            (Overwrite::Always, None) => Ok(WritePrecondition::None),
        }
    }
}

/// Refuses content that is too large.
pub(super) fn check_content_size(content: &str) -> Result<(), ToolError> {
    if content.len() <= MAX_BYTES {
        return Ok(());
    }
    let text = format!(
        "The content is {}; the limit is {}. Nothing was written. Write it in parts with Bash.",
        format_size(content.len() as u64),
        format_size(MAX_BYTES as u64)
    );
    Err(ToolError::new(ErrorCode::TooLarge, text))
}

/// Validates a SHA-256 hash, if one is given, and returns it in lower case.
pub(super) fn parse_expected_sha256(text: Option<&str>) -> Result<Option<String>, ToolError> {
    let Some(text) = text else { return Ok(None) };
    let hash = text
        .trim()
        .strip_prefix("sha256:")
        .unwrap_or(text.trim())
        .to_ascii_lowercase();
    if hash.len() == 64 && hash.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Ok(Some(hash));
    }
    Err(ToolError::invalid_args(
        "expected_sha256 must be 64 hex digits, as Read gives them in meta.sha256.",
    ))
}
