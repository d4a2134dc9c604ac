//! SelfModPackage: the applied changes of a feature as a blueprint that another agent can read.

use std::io::Read as _;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::SelfModDeps;
use super::pending_changes::finish_pending;
use super::self_mod_area::{SelfModArea, content_error, run_blocking, state_error};
use punie_home::{AppliedFile, FeatureStatus, FileState, ModStore};
use punie_text::output::number_format::format_size;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// The name of the format.
const FORMAT: &str = "punie-blueprint-v1";
/// The most bytes of contents in a blueprint.
const MAX_CONTENT: u64 = 512 << 10;

/// Describe a feature's applied changes as a blueprint: JSON with every file and its hashes before and after.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SelfModPackage {
    /// The active one if absent.
    feature_id: Option<String>,
    /// What it does, for its users.
    description: String,
    /// How it is made, for whoever builds it again.
    implementation: String,
}

impl Tool for SelfModPackage {
    const NAME: &'static str = "SelfModPackage";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    // A second attempt makes the same blueprint.
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"description":"A dark theme","implementation":"New colours in theme.css"}"#,
        r#"{"feature_id":"mod-0a1b2c3d4e5f","description":"A dark theme","implementation":"Colours"}"#,
    ];
    const LIMITS: &'static [&'static str] =
        &["512 KB of contents; ReadOutput has what exceeds an answer"];
    type Deps = SelfModDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence("Package the applied changes"))
    }

    async fn run(self, cx: &ToolContext, deps: &SelfModDeps) -> Result<ToolReply, ToolError> {
        let area = Arc::clone(&deps.area);
        let cx = cx.clone();
        let blueprint = run_blocking(move || {
            let lock = area.lock_state()?;
            finish_pending(&area, &lock)?;
            let mut feature = area.find_feature(self.feature_id.as_deref(), &cx)?;
            let (net, _) = feature.net_changes_from(0);
            let changed = net.values().filter(|file| file.before != file.after);
            let changed: Vec<&AppliedFile> = changed.collect();
            if changed.is_empty() {
                return Err(ToolError::not_found(format!(
                    "{} has no applied changes to package. SelfModApply applies what is staged.",
                    feature.id
                )));
            }
            check_size(&changed)?;
            let files: Vec<Value> = changed
                .iter()
                .map(|file| describe_file(&area, file))
                .collect::<Result<_, _>>()?;
            feature.status = FeatureStatus::Packaged;
            feature.updated_at_ms = ModStore::unix_time_ms();
            area.store
                .write_feature(&lock, &feature)
                .map_err(state_error)?;
            Ok(json!({
                "format": FORMAT,
                "name": feature.name,
                "description": self.description,
                "implementation": self.implementation,
                "version": "1.0.0",
                "featureId": feature.id,
                "referenceFiles": files,
                "createdAtMs": feature.updated_at_ms,
            }))
        })
        .await?;
        Ok(ToolReply::from_text(format!("{blueprint:#}")))
    }
}

fn check_size(changed: &[&AppliedFile]) -> Result<(), ToolError> {
    let sizes = changed.iter().filter_map(|file| file.after.as_ref());
    let size: u64 = sizes.map(|state| state.size).sum();
    if size <= MAX_CONTENT {
        return Ok(());
    }
    let text = format!(
        "The changed files have {}; a blueprint holds {}.",
        format_size(size),
        format_size(MAX_CONTENT)
    );
    Err(ToolError::new(ErrorCode::TooLarge, text))
}

/// Describes one file. A content that is not UTF-8 text is base64.
fn describe_file(area: &SelfModArea, file: &AppliedFile) -> Result<Value, ToolError> {
    let action = match (&file.before, &file.after) {
        (None, _) => "create",
        (_, Some(_)) => "modify",
        (_, None) => "remove",
    };
    let hash = |state: &FileState| Value::from(format!("sha256-{}", state.sha256));
    let mut described = Map::new();
    described.insert("path".into(), Value::from(file.path.as_str()));
    described.insert("action".into(), Value::from(action));
    if let Some(before) = &file.before {
        described.insert("originalHash".into(), hash(before));
    }
    if let Some(after) = &file.after {
        described.insert("newHash".into(), hash(after));
        let mut bytes = Vec::new();
        area.store
            .open_content(&after.sha256)
            .and_then(|mut content| content.read_to_end(&mut bytes))
            .map_err(content_error(&file.path))?;
        let text = String::from_utf8(bytes).unwrap_or_else(|binary| {
            described.insert("encoding".into(), Value::from("base64"));
            STANDARD.encode(binary.as_bytes())
        });
        described.insert("content".into(), Value::from(text));
    }
    Ok(Value::Object(described))
}
