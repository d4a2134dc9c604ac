//! write_file: a whole file, without options. Not here: conditions on the existing file (Write).

use schemars::JsonSchema;
use serde::Deserialize;

use super::placeholder::refuse_placeholder_overwrite;
use super::seen_files::SeenLines;
use super::write::check_content_size;
use super::{FileDeps, mask_guard, written_file_meta};
use punie_host::RawPath;
use punie_host::files::{NewContent, WritePrecondition, WriteTextFile};
use punie_tool::{
    CallDescription, DeclaredAccess, ErrorCode, PeopleField, ProposedContent, Tool, ToolContext,
    ToolEffect, ToolError, ToolReply,
};

/// Same as Write: creates or replaces a text file. To change a part use Edit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteFile {
    /// Absolute, or below the first workspace.
    path: RawPath,
    /// The whole text.
    content: String,
}

impl Tool for WriteFile {
    const NAME: &'static str = "write_file";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const SAME_AS: Option<&'static str> = Some("Write");
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"path":"notes.txt","content":"one\n"}"#,
        r#"{"path":"docs/empty.md","content":""}"#,
    ];
    const LIMITS: &'static [&'static str] =
        &["10 MB of text; over the backend's HTTP wire 900 KB of arguments a request"];
    const PEOPLE_FIELDS: &'static [PeopleField] = &[PeopleField::Text("content")];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::writing_paths([self.path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let content = ProposedContent::Whole(self.content.clone());
        CallDescription::for_file_change("Write", self.path.as_str(), content)
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        check_content_size(&self.content)?;
        let path = deps.resolve_for_call(cx, &self.path).await?;
        mask_guard::refuse_masked_overwrite(cx, deps, &path, ("content", &self.content)).await?;
        refuse_placeholder_overwrite(cx, deps, &path, &self.content).await?;
        let lines = SeenLines::from_whole_text(self.content.as_bytes());
        let request = WriteTextFile {
            path: path.clone(),
            content: NewContent::Text(self.content),
            only_if: WritePrecondition::None,
            create_folders: true,
            executable: None,
        };
        let written =
            deps.client
                .write_text_file(cx, request)
                .await
                .map_err(|error| match error.stable_code() {
                    ErrorCode::PolicyDenied | ErrorCode::PermissionDenied => ToolError::new(
                        error.stable_code(),
                        format!(
                            "Permission denied to write {}: {}",
                            self.path.as_str(),
                            error.model_text()
                        ),
                    ),
                    _ => error,
                })?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let mut text = format!("Successfully wrote to {}", self.path.as_str());
        if written.unchanged {
            text.push_str("\nIt held exactly this text already.");
        }
        for warning in &written.warnings {
            text.push('\n');
            text.push_str(warning);
        }
        let reply = ToolReply::from_text(text).with_meta(written_file_meta(&path, written));
        Ok(deps.check_changed(cx, reply).await)
    }
}
