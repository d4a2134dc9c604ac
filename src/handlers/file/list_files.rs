//! list_files: a folder's content.

use schemars::JsonSchema;
use serde::Deserialize;

use super::rendered_page::LineSelection;
use super::{FileDeps, folder_view};
use punie_host::RawPath;
use punie_text::output::TextBudget;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, DefaultLocation, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// Same as Read of a folder: up to 500 entries. With `recursive` all below it, but ignored files.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// Folder; the first workspace if absent.
    path: Option<RawPath>,
    /// Show all below it, too.
    #[serde(default)]
    recursive: bool,
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("Read");
    const KNOWN_AS: &'static [&'static str] = &["LS", "list", "list_dir", "list_directory"];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src","recursive":true}"#];
    const LIMITS: &'static [&'static str] = &[
        "500 entries an answer",
        "30,000 characters an answer",
        "200,000 entries are looked at with recursive",
    ];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths(self.path.as_ref().map(RawPath::as_str))
            .with_default_location(DefaultLocation::FirstWorkspace)
    }

    fn describe(&self) -> CallDescription {
        let path = self.path.as_ref().map_or(".", RawPath::as_str);
        CallDescription::with_title(CallTitle::about_files("List the files in", [path]))
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        let path = deps
            .workspace
            .resolve_inside(&self.path.unwrap_or_else(|| ".".into()))?;
        let all = LineSelection {
            offset: 1,
            limit: folder_view::MAX_FOLDER_ENTRIES as u64,
            budget: TextBudget::default(),
        };
        folder_view::show_folder_entries(cx, &*deps.client, path, self.recursive, all, false).await
    }
}
