//! SelfModApply: writes the staged files to the real ones, all or none.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::SelfModDeps;
use super::file_changes::check_present_state;
use super::pending_changes::{conflict_error, finish_pending, keep_present_mode, make_change};
use super::self_mod_area::{SelfModArea, run_blocking, state_error};
use punie_home::{
    AppliedBatch, ChangePhase, FeatureRecord, ModLock, ModStore, PendingChange, PendingFinish,
    PendingStep,
};
use punie_text::output::number_format::format_count;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ResultMeta, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// The longest message, in characters.
const MAX_MESSAGE: usize = 2_000;

/// Write this conversation's staged files to the real ones, all or none.
///
/// Refused if a real file has changed since it was first staged.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SelfModApply {
    /// The change in a few words.
    message: Option<String>,
}

impl Tool for SelfModApply {
    const NAME: &'static str = "SelfModApply";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] =
        &["{}", r#"{"message":"Use the dark theme at night"}"#];
    const LIMITS: &'static [&'static str] = &["2,000 characters of message"];
    type Deps = SelfModDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess {
            unnamed: Some("the staged files of the feature"),
            ..DeclaredAccess::none()
        }
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence("Apply the staged files"))
    }

    async fn run(self, cx: &ToolContext, deps: &SelfModDeps) -> Result<ToolReply, ToolError> {
        let message = self.message.unwrap_or_default().trim().to_owned();
        if message.chars().count() > MAX_MESSAGE {
            return Err(ToolError::invalid_args(format!(
                "`message` has more than {MAX_MESSAGE} characters."
            )));
        }
        let area = Arc::clone(&deps.area);
        let cx = cx.clone();
        let runtime = tokio::runtime::Handle::current();
        run_blocking(move || {
            let lock = area.lock_state()?;
            finish_pending(&area, &lock)?;
            let feature = area.find_feature(None, &cx)?;
            let Some(pending) = plan_apply(&area, &feature, message)? else {
                return Ok(ToolReply::from_text(format!(
                    "Nothing is staged for {}, so nothing was applied.",
                    feature.id
                )));
            };
            declare_and_make(&area, &lock, &runtime, &cx, pending.clone())?;
            Ok(describe_applied(&area, &feature, &pending))
        })
        .await
    }
}

/// Declares the changes of files for the record of the call, then makes them.
pub(super) fn declare_and_make(
    area: &SelfModArea,
    lock: &ModLock,
    runtime: &tokio::runtime::Handle,
    cx: &ToolContext,
    pending: PendingChange,
) -> Result<(), ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::call_cancelled(
            "The call was cancelled before anything was changed.",
        ));
    }
    let intents = pending.steps.iter().map(|step| area.step_intent(step));
    runtime.block_on(cx.declare_intents(intents.collect()))?;
    make_change(area, lock, pending)
}

/// Compares every staged file with the real one, and plans the change. `None` if nothing is staged.
fn plan_apply(
    area: &SelfModArea,
    feature: &FeatureRecord,
    message: String,
) -> Result<Option<PendingChange>, ToolError> {
    let staged = area.store.read_staged(&feature.id).map_err(state_error)?;
    let mut steps = Vec::<PendingStep>::new();
    let mut conflicts = Vec::new();
    for (rel, file) in staged.changed() {
        let path = area.real_path(rel)?;
        let present = match check_present_state(&path, rel, file.base.as_ref()) {
            Ok(present) => present,
            Err(conflict) => {
                conflicts.push(conflict);
                continue;
            }
        };
        let base = file.base.as_ref();
        let content = file.content.as_ref();
        let after = keep_present_mode(content, base, present.as_ref());
        let folders = if after.is_some() {
            area.missing_folders(rel)
        } else {
            Vec::new()
        };
        steps.push(area.plan_step(rel, present, after, folders)?);
    }
    if !conflicts.is_empty() {
        return Err(conflict_error(&conflicts));
    }
    if steps.is_empty() {
        return Ok(None);
    }
    let batch = AppliedBatch {
        id: feature.next_batch,
        message,
        applied_at_ms: ModStore::unix_time_ms(),
        files: steps.iter().map(|step| step.file.clone()).collect(),
    };
    Ok(Some(PendingChange {
        root: area.root_text(),
        feature: feature.id.clone(),
        phase: ChangePhase::Staging,
        steps,
        finish: PendingFinish::Append(batch),
    }))
}

fn describe_applied(
    area: &SelfModArea,
    feature: &FeatureRecord,
    pending: &PendingChange,
) -> ToolReply {
    let files = pending.steps.iter().map(|step| &step.file);
    let count = format_count(pending.steps.len() as u64, "file");
    let lines: Vec<String> = files
        .clone()
        .map(|file| format!("{} {}", change_letter(file), file.path))
        .collect();
    let text = format!(
        "Applied batch {} of {}: {count}.\n{}\nSelfModRevert takes it back.",
        feature.next_batch,
        feature.id,
        lines.join("\n")
    );
    ToolReply::from_text(text).with_meta(ResultMeta {
        files: files.map(|file| area.to_file_change(file)).collect(),
        ..ResultMeta::default()
    })
}

/// Returns the letter of a change: added, modified, deleted.
pub(super) fn change_letter(file: &punie_home::AppliedFile) -> char {
    letter_for(file.before.is_some(), file.after.is_some())
}

/// Returns the letter of a change between two states.
pub(super) fn letter_for(existed: bool, exists: bool) -> char {
    match (existed, exists) {
        (_, false) => 'D',
        (false, true) => 'A',
        (true, true) => 'M',
    }
}
