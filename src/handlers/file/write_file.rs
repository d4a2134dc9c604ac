//! write_file: a whole file, plainly. Not here: conditions on what is there (Write).

use schemars::JsonSchema;
use serde::Deserialize;

use super::seen_files::SeenLines;
use super::write::check_size;
use super::{FileDeps, changed, mask};
use crate::acp::RawPath;
use crate::acp::files::{NewContent, Precondition, WriteTextFile};
use crate::tool::{
    Access, CallDescription, Effect, ErrorCode, ProposedContent, Reply, Tool, ToolCx, ToolError,
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
    const EFFECT: Effect = Effect::Writes;
    const SAME_AS: Option<&'static str> = Some("Write");
    const DECLARES: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("file_path", "path"), ("filename", "path"), ("text", "content"), ("contents", "content")];
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"path":"notes.txt","content":"one\n"}"#, r#"{"path":"docs/empty.md","content":""}"#];
    const LIMITS: &'static [&'static str] =
        &["10 MB of text; over the backend's HTTP wire 900 KB of arguments a request"];
    type Deps = FileDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::writes([self.path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let content = ProposedContent::Whole(self.content.clone());
        CallDescription::file_change("Write", self.path.as_str(), content)
    }

    async fn run(self, cx: &ToolCx, deps: &FileDeps) -> Result<Reply, ToolError> {
        check_size(&self.content)?;
        let path = deps.workspace.resolve(&self.path)?;
        mask::refuse_over(cx, &path, ("content", &self.content)).await?;
        let shown = path.shown();
        let lines = SeenLines::of_text(self.content.as_bytes());
        let request = WriteTextFile {
            path: path.clone(),
            content: NewContent::Text(self.content),
            only_if: Precondition::None,
            create_folders: true,
            executable: None,
        };
        let written = deps.client.write_text_file(cx, request).await.map_err(|error| match error.code() {
            ErrorCode::PolicyDenied | ErrorCode::PermissionDenied => ToolError::new(
                error.code(),
                format!("Permission denied to write {}: {}", self.path.as_str(), error.text()),
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
        Ok(Reply::text(text).with_meta(changed(shown, written)))
    }
}
