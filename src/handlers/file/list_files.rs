//! list_files: what is in a folder. Not here: finding files by pattern (search).

use schemars::JsonSchema;
use serde::Deserialize;

use super::rendered::Lines;
use super::{FileDeps, listing};
use crate::acp::RawPath;
use crate::output::Budget;
use crate::tool::{Effect, Reply, Tool, ToolCx, ToolError};

/// List what is in a folder, up to 500 entries: folders end in a slash, files show their size, links their target.
///
/// With `recursive` it shows everything below the folder, but for `.git` and what ignore files name. To find files by
/// name use Glob, by content Grep; what is in a file shows Read.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ListFiles {
    /// The folder: absolute, or relative to the first workspace folder, which it is if absent.
    path: Option<RawPath>,
    /// Show everything below it too.
    #[serde(default)]
    recursive: bool,
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("directory", "path"), ("dir", "path"), ("folder", "path"), ("file_path", "path")];
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"path":"src","recursive":true}"#];
    const LIMITS: &'static [&'static str] = &[
        "500 entries an answer",
        "30,000 characters an answer",
        "200,000 entries are looked at with recursive",
    ];
    type Deps = FileDeps;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, deps: &FileDeps) -> Result<Reply, ToolError> {
        let path = deps.workspace.resolve(&self.path.unwrap_or_else(|| ".".into()))?;
        let all = Lines { offset: 1, limit: listing::SHOWN as u64, budget: Budget::default() };
        listing::folder(cx, &*deps.client, path, self.recursive, all, false).await
    }
}
