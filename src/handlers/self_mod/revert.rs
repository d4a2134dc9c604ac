//! SelfModRevert: takes applied batches back, all or none, or drops what is staged.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::SelfModDeps;
use super::apply::{change_letter, declare_and_make};
use super::file_changes::check_present_state;
use super::pending_changes::{conflict_error, finish_pending, keep_present_mode};
use super::self_mod_area::{SelfModArea, run_blocking, state_error};
use punie_home::{ChangePhase, FeatureRecord, ModLock, PendingChange, PendingFinish, StagedFiles};
use punie_text::output::number_format::format_count;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ResultMeta, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// Take back a feature's last applied batches, all or none; or drop what is staged.
///
/// Refused if a file has changed since it was applied.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SelfModRevert {
    /// The active one if absent.
    feature_id: Option<String>,
    /// Batches, from the last; at most all.
    #[serde(default = "one")]
    steps: u64,
    /// Only drop staged files; no applied batch changes.
    #[serde(default)]
    discard_staged: bool,
}

fn one() -> u64 {
    1
}

impl Tool for SelfModRevert {
    const NAME: &'static str = "SelfModRevert";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] =
        &["{}", r#"{"steps":2}"#, r#"{"discard_staged":true}"#];
    const LIMITS: &'static [&'static str] = &["all batches of one feature a call"];
    type Deps = SelfModDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess {
            unnamed: Some("the files of the feature's batches"),
            ..DeclaredAccess::none()
        }
    }

    fn describe(&self) -> CallDescription {
        let title = if self.discard_staged {
            "Drop the staged files"
        } else {
            "Revert applied files"
        };
        CallDescription::with_title(CallTitle::from_sentence(title))
    }

    async fn run(self, cx: &ToolContext, deps: &SelfModDeps) -> Result<ToolReply, ToolError> {
        if self.steps == 0 {
            return Err(ToolError::invalid_args(
                "`steps` is the number of batches to take back, 1 or more. Nothing was reverted.",
            ));
        }
        let area = Arc::clone(&deps.area);
        let cx = cx.clone();
        let runtime = tokio::runtime::Handle::current();
        run_blocking(move || {
            let lock = area.lock_state()?;
            finish_pending(&area, &lock)?;
            let feature = area.find_feature(self.feature_id.as_deref(), &cx)?;
            if self.discard_staged {
                if feature.conversation != cx.conversation.key() {
                    return Err(ToolError::invalid_args(format!(
                        "{} belongs to another conversation, which drops its staged files itself. Nothing was dropped.",
                        feature.id
                    )));
                }
                return discard_staged(&area, &lock, &feature);
            }
            if feature.reverted_by.as_deref() == Some(cx.request.as_str()) {
                return Ok(ToolReply::from_text(format!(
                    "Reverted by an earlier attempt of this call; {} left of {}.",
                    feature.batches.len(),
                    feature.id
                )));
            }
            let pending = plan_revert(&area, &feature, self.steps, &cx)?;
            declare_and_make(&area, &lock, &runtime, &cx, pending.clone())?;
            Ok(describe_reverted(&area, &feature, &pending))
        })
        .await
    }
}

fn discard_staged(
    area: &SelfModArea,
    lock: &ModLock,
    feature: &FeatureRecord,
) -> Result<ToolReply, ToolError> {
    let staged = area.store.read_staged(&feature.id).map_err(state_error)?;
    let dropped: Vec<&String> = staged.changed().map(|(rel, _)| rel).collect();
    let written = area
        .store
        .write_staged(lock, &feature.id, &StagedFiles::default());
    written.map_err(state_error)?;
    let names: Vec<&str> = dropped
        .iter()
        .flat_map(|rel| ["\n", rel.as_str()])
        .collect();
    let count = format_count(dropped.len() as u64, "staged file");
    Ok(ToolReply::from_text(format!(
        "Dropped {count} of {}. The real files are unchanged.{}",
        feature.id,
        names.concat()
    )))
}

/// Compares every file with the state that its last batch left, and plans the change over all batches at once.
fn plan_revert(
    area: &SelfModArea,
    feature: &FeatureRecord,
    steps: u64,
    cx: &ToolContext,
) -> Result<PendingChange, ToolError> {
    let count = feature.batches.len();
    let first = count.saturating_sub(usize::try_from(steps).unwrap_or(usize::MAX));
    let Some(first) = feature.batches.get(first).map(|batch| batch.id) else {
        return Err(ToolError::not_found(format!(
            "{} has no applied batch, so nothing was reverted. With discard_staged, its staged files are dropped.",
            feature.id
        )));
    };
    let mut planned = Vec::new();
    let mut conflicts = Vec::new();
    let (net, interrupted) = feature.net_changes_from(first);
    for (rel, file) in net {
        let path = area.real_path(&rel)?;
        if interrupted.contains(&rel) {
            conflicts.push(format!(
                "{rel}: somebody changed it between two of these batches; revert the last one alone (steps 1)"
            ));
            continue;
        }
        let present = match check_present_state(&path, &rel, file.after.as_ref()) {
            Ok(present) => present,
            Err(conflict) => {
                conflicts.push(conflict);
                continue;
            }
        };
        let target = keep_present_mode(file.before.as_ref(), file.after.as_ref(), present.as_ref());
        if present.is_none() && target.is_none() {
            continue;
        }
        planned.push(area.plan_step(&rel, present, target, file.made_folders)?);
    }
    if !conflicts.is_empty() {
        return Err(conflict_error(&conflicts));
    }
    Ok(PendingChange {
        root: area.root_text(),
        feature: feature.id.clone(),
        phase: ChangePhase::Staging,
        steps: planned,
        finish: PendingFinish::RemoveFrom {
            first,
            request: cx.request.as_str().to_owned(),
        },
    })
}

fn describe_reverted(
    area: &SelfModArea,
    feature: &FeatureRecord,
    pending: &PendingChange,
) -> ToolReply {
    let PendingFinish::RemoveFrom { first, .. } = pending.finish else {
        return ToolReply::from_text("Reverted.");
    };
    let left = feature
        .batches
        .iter()
        .filter(|batch| batch.id < first)
        .count();
    let reverted = match feature.batches.len() - left {
        1 => "1 batch".to_owned(),
        many => format!("{many} batches"),
    };
    let files = pending.steps.iter().map(|step| &step.file);
    let lines: Vec<String> = files
        .clone()
        .map(|file| format!("\n{} {}", change_letter(file), file.path))
        .collect();
    let text = format!(
        "Reverted {reverted} of {}: {}; {left} left.{}",
        feature.id,
        format_count(pending.steps.len() as u64, "file"),
        lines.concat()
    );
    ToolReply::from_text(text).with_meta(ResultMeta {
        files: files.map(|file| area.to_file_change(file)).collect(),
        ..ResultMeta::default()
    })
}
