//! SelfModStatus: a feature's staged files and applied batches.

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::SelfModDeps;
use super::apply::letter_for;
use super::self_mod_area::{run_blocking, state_error};
use punie_text::output::number_format::format_count;
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError};

/// Show a feature's staged files and applied batches.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SelfModStatus {
    /// The active one if absent.
    feature_id: Option<String>,
}

impl Tool for SelfModStatus {
    const NAME: &'static str = "SelfModStatus";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const EXAMPLES: &'static [&'static str] = &["{}", r#"{"feature_id":"mod-0a1b2c3d4e5f"}"#];
    const LIMITS: &'static [&'static str] = &["30,000 characters an answer"];
    type Deps = SelfModDeps;
    type Output = String;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &SelfModDeps) -> Result<String, ToolError> {
        let area = Arc::clone(&deps.area);
        let cx = cx.clone();
        run_blocking(move || {
            let feature = area.find_feature(self.feature_id.as_deref(), &cx)?;
            let staged = area.store.read_staged(&feature.id).map_err(state_error)?;
            let mut text = format!(
                "Feature {} ({}): {}, root {}",
                feature.id,
                feature.name,
                feature.status.as_str(),
                area.root.display()
            );
            let changed: Vec<_> = staged.changed().collect();
            let _ = write!(
                text,
                "\nStaged: {}",
                format_count(changed.len() as u64, "file")
            );
            for (rel, file) in changed {
                let letter = letter_for(file.base.is_some(), file.content.is_some());
                let _ = write!(text, "\n{letter} {rel}");
            }
            let _ = write!(text, "\nApplied, newest first: {}", feature.batches.len());
            for batch in feature.batches.iter().rev() {
                let files = format_count(batch.files.len() as u64, "file");
                let _ = write!(text, "\nbatch {}: {files}", batch.id);
                if !batch.message.is_empty() {
                    let _ = write!(text, ", {}", batch.message);
                }
            }
            Ok(text)
        })
        .await
    }
}
