//! ApplyPatch: changes several files at once, all of them or none.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::FileDeps;
use super::patch::PatchFileSection;
use super::patch::commit::{CommittedPatch, commit_patch};
use super::patch::parse::parse_patch;
use super::patch::parse_error::PatchParseError;
use super::patch::plan::{PlannedAction, PlannedChange, plan_patch};
use super::patch::report::{diff_changes, summarize_changes};
use punie_text::output::number_format::{format_count, format_size, group_digits};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, PeopleField, ResultMeta, Tool,
    ToolContext, ToolEffect, ToolError, ToolReply,
};

/// The longest patch.
const MAX_PATCH: usize = 1 << 20;
/// The most files in a patch.
const MAX_FILES: usize = 200;

/// Apply a patch to one or many files, all or nothing.
///
/// `patch` is in Codex's format (`*** Begin Patch`, `*** Update File: PATH`, `@@`, ...) or a unified diff. Hunks
/// are found by their lines: line numbers may be wrong, slips are forgiven as by Edit.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ApplyPatch {
    /// The patch's text; paths as in Read.
    patch: String,
    /// Only show the diff.
    #[serde(default)]
    dry_run: bool,
}

impl Tool for ApplyPatch {
    const NAME: &'static str = "ApplyPatch";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const KNOWN_AS: &'static [&'static str] = &["patch", "apply_diff"];
    const DECLARES: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("input", "patch"),
        ("diff", "patch"),
        ("patch_text", "patch"),
        ("content", "patch"),
        ("text", "patch"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"patch":"*** Begin Patch\n*** Update File: src/main.rs\n@@ fn main() {\n-    let n = 1;\n+    let n = 2;\n*** Add File: notes.md\n+First line\n*** End Patch\n"}"#,
        r#"{"patch":"--- a/README.md\n+++ b/README.md\n@@ -1,2 +1,2 @@\n # Title\n-old\n+new\n","dry_run":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "patch: 1 MB, 200 files",
        "a file: 64 MB, all files of a patch: 256 MB",
        "text files only",
    ];
    const PEOPLE_FIELDS: &'static [PeopleField] = &[PeopleField::Patch("patch")];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        // These names are the ones that the call will read. A patch that cannot be parsed changes
        // nothing.
        match parse_patch(&self.patch) {
            Ok(patch) if self.patch.len() <= MAX_PATCH => {
                DeclaredAccess::writing_paths(patch.named_paths())
            }
            _ => DeclaredAccess {
                unnamed: Some("the files of the patch"),
                ..DeclaredAccess::default()
            },
        }
    }

    fn describe(&self) -> CallDescription {
        let Ok(patch) = parse_patch(&self.patch) else {
            return CallDescription::with_title(CallTitle::from_sentence("Apply a patch"));
        };
        let names = patch
            .sections
            .iter()
            .filter_map(|section| section.names.first());
        let title = CallTitle::about_files("Edit", names);
        // Shows the user the patch itself where per-file diffs would be incomplete.
        let changes = patch
            .sections
            .iter()
            .map(PatchFileSection::proposed_change)
            .collect::<Option<_>>();
        CallDescription {
            changes: changes.unwrap_or_default(),
            ..CallDescription::with_title(title)
        }
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        if self.patch.len() > MAX_PATCH {
            let text = format!(
                "The patch is {}; the limit is {}. Nothing was changed. Split it.",
                format_size(self.patch.len() as u64),
                format_size(MAX_PATCH as u64)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        let patch = parse_patch(&self.patch).map_err(|error| patch_parse_refusal(&error))?;
        if patch.sections.len() > MAX_FILES {
            let text = format!(
                "The patch names {} files; the limit is {MAX_FILES}. Nothing was changed. Split it.",
                group_digits(patch.sections.len() as u64)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        let notes = patch.notes.clone();
        let changes = Arc::new(plan_patch(cx, deps, patch).await?);
        let summary = append_notes(summarize_changes(&changes), &notes);
        let touched = changes
            .iter()
            .filter(|change| !matches!(change.action, PlannedAction::Unchanged(_)))
            .count();
        if touched == 0 {
            return Ok(ToolReply::from_text(format!(
                "No change: all of the patch is there already.\n{summary}"
            )));
        }
        if self.dry_run {
            let text = format!(
                "Dry run, nothing was written. It would do:\n{summary}\n{}",
                diff_changes(&changes)
            );
            return Ok(ToolReply::from_text(text));
        }
        let committed = commit_patch(cx, deps, Arc::clone(&changes)).await?;
        record_patched_files(cx, deps, &changes, &committed);
        let mut text = format!(
            "Applied to {}:\n{summary}",
            format_count(touched as u64, "file")
        );
        if cx.is_cancelled() {
            text.push_str(
                "The call was cancelled while it wrote; the patch was finished all the same.\n",
            );
        }
        for warning in &committed.warnings {
            text.push_str(warning);
            text.push('\n');
        }
        let sha256 = single_file_hash(&changes, &committed);
        let meta = ResultMeta {
            sha256,
            files: committed.files,
            warnings: committed.warnings,
            source: committed.source,
            ..ResultMeta::default()
        };
        let reply = ToolReply::from_text(text).with_meta(meta);
        Ok(deps.check_changed(cx, reply).await)
    }
}

/// Records the patched files in the conversation's file state.
fn record_patched_files(
    cx: &ToolContext,
    deps: &FileDeps,
    changes: &[PlannedChange],
    committed: &CommittedPatch,
) {
    for change in changes
        .iter()
        .filter(|change| !matches!(change.action, PlannedAction::Unchanged(_)))
    {
        deps.seen.forget(cx, &change.path);
        let Some((path, lines)) = change.seen_after() else {
            continue;
        };
        let shown = path.display_text();
        let after = committed.files.iter().rfind(|file| file.path == shown);
        if let Some(sha256) = after.and_then(|file| file.after.clone()) {
            deps.seen.record(cx, path, sha256, lines);
        }
    }
}

/// The hash of the changed file, if the patch changed only one.
fn single_file_hash(changes: &[PlannedChange], committed: &CommittedPatch) -> Option<String> {
    match (changes, committed.files.as_slice()) {
        ([_], [.., last]) => last.after.clone(),
        _ => None,
    }
}

fn append_notes(mut summary: String, notes: &[String]) -> String {
    for note in notes {
        summary.push_str(note);
        summary.push('\n');
    }
    summary
}

fn patch_parse_refusal(error: &PatchParseError) -> ToolError {
    let code = match error {
        PatchParseError::Neither | PatchParseError::Line { .. } => ErrorCode::InvalidArgs,
        PatchParseError::Unsupported { .. } => ErrorCode::NotText,
    };
    ToolError::new(code, format!("{error}\nNothing was changed."))
}
