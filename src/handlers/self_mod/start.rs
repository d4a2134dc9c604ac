//! SelfModStart: a feature, whose changes are staged from then on.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::SelfModDeps;
use super::self_mod_area::{AGENT_TYPE, SelfModArea, run_blocking, state_error};
use punie_core::ids::to_hex;
use punie_home::{FeatureRecord, FeatureStatus, ModStore};
use punie_text::output::number_format::format_count;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError,
};

/// The longest name and description, in characters.
const MAX_NAME: usize = 200;
const MAX_DESCRIPTION: usize = 4_000;

/// Start a feature: from then on this conversation's file changes below the root are staged.
///
/// Read, Edit, Glob and Grep see them, other agents and commands do not. SelfModApply writes them.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SelfModStart {
    /// A short name.
    name: String,
    /// The purpose.
    description: Option<String>,
}

impl Tool for SelfModStart {
    const NAME: &'static str = "SelfModStart";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    // The id is that of the request, so that a second attempt finds the feature of the first.
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"name":"Dark theme"}"#,
        r#"{"name":"Dark theme","description":"Colours for the night"}"#,
    ];
    const LIMITS: &'static [&'static str] = &["200 characters of name, 4,000 of description"];
    type Deps = SelfModDeps;
    type Output = String;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!(
            "Start the feature `{}`",
            self.name
        )))
    }

    async fn run(self, cx: &ToolContext, deps: &SelfModDeps) -> Result<String, ToolError> {
        let name = self.name.trim().to_owned();
        let description = self.description.unwrap_or_default().trim().to_owned();
        if name.is_empty() || name.chars().count() > MAX_NAME {
            return Err(ToolError::invalid_args(format!(
                "`name` needs 1 to {MAX_NAME} characters."
            )));
        }
        if description.chars().count() > MAX_DESCRIPTION {
            return Err(ToolError::invalid_args(format!(
                "`description` has more than {MAX_DESCRIPTION} characters."
            )));
        }
        let hash = to_hex(&Sha256::digest(cx.request.as_str().as_bytes()));
        let now = ModStore::unix_time_ms();
        let feature = FeatureRecord {
            id: format!("mod-{}", &hash[..12]),
            name,
            description,
            root: deps.area.root_text(),
            conversation: cx.conversation.key(),
            request: cx.request.as_str().to_owned(),
            status: FeatureStatus::Active,
            created_at_ms: now,
            updated_at_ms: now,
            next_batch: 1,
            batches: Vec::new(),
            reverted_by: None,
        };
        let area = Arc::clone(&deps.area);
        let created = run_blocking(move || {
            let lock = area.lock_state()?;
            refuse_with_staged_files(&area, &feature)?;
            area.store
                .create_feature(&lock, feature)
                .map_err(state_error)
        })
        .await?;
        let root = deps.area.root.display();
        let who = if cx.agent_type.as_deref() == Some(AGENT_TYPE) {
            String::new()
        } else {
            "\nThis request has no agent type self_mod: calls without it change the real files."
                .to_owned()
        };
        Ok(format!(
            "Feature {} ({}) is active for this conversation.\nChanges of file tools below {root} are staged; \
             SelfModApply writes them together. Commands such as Bash see and change the real files, which are not \
             staged.{who}",
            created.id, created.name
        ))
    }
}

/// Refuses a second feature while the conversation's active one has staged files, which no tool would show any more.
fn refuse_with_staged_files(area: &SelfModArea, new: &FeatureRecord) -> Result<(), ToolError> {
    let Ok(Some(active)) = area.store.active_feature(&new.conversation) else {
        return Ok(());
    };
    // A damaged record stops its own feature only, as one of another root does.
    let staged = area
        .read_feature(&active)
        .and_then(|_| area.store.read_staged(&active).map_err(state_error));
    let count = staged.map_or(0, |staged| staged.changed().count());
    if active == new.id || count == 0 {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!(
        "The active feature {active} has {} that a new feature would hide. Apply them by SelfModApply, or drop them by \
         SelfModRevert with discard_staged.",
        format_count(count as u64, "staged file")
    )))
}
