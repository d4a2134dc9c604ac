//! MultiEdit: several replacements in one file, all or none.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::edit_plan::{
    MAX_BYTES, append_change_note, check_expected_hash, join_notes_below, number_edit_error,
};
use super::edit_report::{describe_replacements, diff_edit, show_changed_places};
use super::edit_sequence::EditSequence;
use super::format_check::describe_broken_format;
use super::placeholder::refuse_placeholder;
use super::requested_edit::{RequestedEdit, ResolvedEdit};
use super::seen_files::SeenLines;
use super::text_transcoding::TranscodedText;
use super::write::{check_content_size, parse_expected_sha256};
use super::{FileDeps, mask_guard, notebook_edit, written_file_meta};
use punie_host::files::{ByteSplice, LoadedFile, NewContent, WritePrecondition, WriteTextFile};
use punie_host::{RawPath, WorkspacePath};
use punie_text::output::SecretBoundaries;
use punie_text::output::number_format::format_count;
use punie_tool::{
    CallDescription, DeclaredAccess, ErrorCode, PeopleField, ProposedContent, ResultMeta,
    TextReplacement, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// The most edits of a call.
const MAX_EDITS: usize = 500;

/// Make several Edits of one file in one write, all or none.
///
/// Each works on the text that those before it left; one that is done already is passed over. For several files use
/// ApplyPatch.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct MultiEdit {
    /// Absolute, or below the first workspace.
    file_path: RawPath,
    /// In order, 500 at most; keys as in Edit.
    edits: Vec<OneEdit>,
    /// Only show the diff.
    #[serde(default)]
    dry_run: bool,
    /// Refuse unless the file has this hash.
    expected_sha256: Option<String>,
}

// Edit describes these keys.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct OneEdit {
    #[serde(
        alias = "oldString",
        alias = "old_str",
        alias = "old_text",
        alias = "old",
        alias = "search"
    )]
    old_string: String,
    #[serde(
        alias = "newString",
        alias = "new_str",
        alias = "new_text",
        alias = "new",
        alias = "replace"
    )]
    new_string: String,
    #[serde(default, alias = "replaceAll")]
    replace_all: bool,
    #[serde(alias = "expectedCount", alias = "expected_replacements")]
    expected_count: Option<u64>,
}

impl Tool for MultiEdit {
    const NAME: &'static str = "MultiEdit";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const KNOWN_AS: &'static [&'static str] = &["multi_edit_file"];
    const DECLARES: bool = true;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"src/main.rs","edits":[{"old_string":"let n = 1;","new_string":"let n = 2;"},{"old_string":"n + 1","new_string":"n + 2"}]}"#,
        r#"{"file_path":"README.md","edits":[{"old_string":"colour","new_string":"color","replace_all":true}],"dry_run":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "500 edits a call, 10 MB of text each; over the backend's HTTP wire 900 KB of arguments a request",
        "files of 64 MB, 32 MB in another encoding than UTF-8",
    ];
    const PEOPLE_FIELDS: &'static [PeopleField] = &[PeopleField::Text("edits")];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::writing_paths([self.file_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let replacements = self.edits.iter().map(|edit| TextReplacement {
            old: edit.old_string.clone(),
            new: edit.new_string.clone(),
            everywhere: edit.replace_all,
        });
        let content = ProposedContent::Replaced(replacements.collect());
        CallDescription::for_file_change("Edit", self.file_path.as_str(), content)
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        self.check_list()?;
        let path = deps.resolve_for_call(cx, &self.file_path).await?;
        path.check_writable()?;
        let expected = parse_expected_sha256(self.expected_sha256.as_deref())?;
        let makes = self.edits[0].old_string.is_empty();
        let loaded = if makes && !path.existed_when_resolved() && expected.is_none() {
            None
        } else {
            Some(deps.client.load_file(cx, path.clone(), MAX_BYTES).await?)
        };
        let shown = path.display_text();
        let call = cx.clone();
        let seen = deps.seen.clone();
        let file = path.clone();
        let (this, planned) = tokio::task::spawn_blocking(move || {
            let changed = |text: &[u8]| {
                let loaded = loaded.as_ref()?;
                seen.describe_change_since(&call, &file, || loaded.bytes_sha256(), Some(text))
            };
            let planned = self.plan(
                &shown,
                loaded.as_ref(),
                expected.as_deref(),
                &call.secret_boundaries,
                changed,
            );
            (self, planned.map(|plan| (loaded, plan)))
        })
        .await
        .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?;
        let (loaded, plan) = planned?;
        let reply = this.carry_out(cx, deps, path, loaded, plan).await?;
        Ok(deps.check_changed(cx, reply).await)
    }
}

/// The planned edits.
struct MultiEditPlan {
    /// The text before the edits.
    text: Arc<Vec<u8>>,
    /// The changes of the text, and of the stored bytes.
    splices: Vec<ByteSplice>,
    stored: Vec<ByteSplice>,
    /// The text after the edits.
    new: Vec<u8>,
    /// A line for each edit.
    report: String,
    /// The tolerated differences, each with the number of its edit.
    notes: Vec<String>,
}

impl MultiEdit {
    fn check_list(&self) -> Result<(), ToolError> {
        if self.edits.is_empty() {
            return Err(ToolError::invalid_args(
                "edits is empty; give at least one edit.",
            ));
        }
        if self.edits.len() > MAX_EDITS {
            let text = format!(
                "{} are too many for one call; the limit is {MAX_EDITS}. Nothing was changed. Make several calls, or \
                 replace the file with Write.",
                format_count(self.edits.len() as u64, "edit")
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        for (at, edit) in self.edits.iter().enumerate() {
            check_content_size(&edit.new_string)?;
            refuse_placeholder("new_string", &edit.old_string, &edit.new_string)
                .map_err(|error| number_edit_error(&error, at, self.edits.len(), None))?;
            if at > 0 && edit.old_string.is_empty() {
                return Err(ToolError::invalid_args(format!(
                    "edits[{at}]: old_string is empty; only the first edit may be, to make a new file."
                )));
            }
        }
        Ok(())
    }

    fn plan(
        &self,
        shown: &str,
        loaded: Option<&LoadedFile>,
        expected: Option<&str>,
        uncut: &SecretBoundaries,
        changed: impl FnOnce(&[u8]) -> Option<String>,
    ) -> Result<MultiEditPlan, ToolError> {
        let transcoded = match loaded {
            Some(loaded) => {
                check_expected_hash(shown, expected, || loaded.bytes_sha256())?;
                Some(TranscodedText::decode_for_edit(shown, loaded)?)
            }
            None => None,
        };
        let text = transcoded
            .as_ref()
            .map(|file| Arc::clone(file.utf8()))
            .unwrap_or_default();
        for edit in &self.edits {
            let arguments = [
                ("old_string", edit.old_string.as_str()),
                ("new_string", edit.new_string.as_str()),
            ];
            mask_guard::refuse_unless_masked(shown, &text, &arguments)?;
        }
        let mut revision = EditSequence::from_original(&text);
        let changed = changed(&text);
        let mut report = String::new();
        let mut notes = Vec::new();
        for (at, edit) in self.edits.iter().enumerate() {
            let (line, forgiven) = edit.apply(shown, &mut revision, uncut).map_err(|error| {
                let replaced = if error.stable_code() == ErrorCode::NoMatch {
                    self.find_replacing(at, shown, &text, uncut)
                } else {
                    None
                };
                append_change_note(
                    number_edit_error(&error, at, self.edits.len(), replaced),
                    changed.as_deref(),
                )
            })?;
            let _ = writeln!(report, "{}. {line}", at + 1);
            for note in forgiven {
                let _ = writeln!(report, "   {note}");
                notes.push(format!("Edit {}: {note}", at + 1));
            }
        }
        if let Some(changed) = changed {
            let _ = writeln!(report, "{changed}");
            notes.push(changed);
        }
        let broken = describe_broken_format(Path::new(shown), &text, || revision.current_text());
        if let Some(broken) = broken {
            let _ = writeln!(report, "{broken}");
            notes.push(broken);
        }
        let splices = revision.combined_splices();
        let stored = match &transcoded {
            Some(transcoded) => transcoded.to_stored_splices(shown, splices.clone())?,
            None => Vec::new(),
        };
        Ok(MultiEditPlan {
            text,
            splices,
            stored,
            new: revision.into_current_text(),
            report,
            notes,
        })
    }

    /// The index of the previous edit that replaced the text which this one looks for.
    fn find_replacing(
        &self,
        at: usize,
        shown: &str,
        text: &[u8],
        uncut: &SecretBoundaries,
    ) -> Option<usize> {
        let wanted = self.edits[at].to_requested_edit(shown, uncut);
        let mut revision = EditSequence::from_original(text);
        let mut was_there = wanted.is_quote_found(text);
        let mut replaced = None;
        for (before, edit) in self.edits[..at].iter().enumerate() {
            edit.apply(shown, &mut revision, uncut).ok()?;
            let is_there = wanted.is_quote_found(revision.current_text());
            if was_there && !is_there {
                replaced = Some(before);
            }
            was_there = is_there;
        }
        replaced
    }

    async fn carry_out(
        self,
        cx: &ToolContext,
        deps: &FileDeps,
        path: WorkspacePath,
        loaded: Option<LoadedFile>,
        plan: MultiEditPlan,
    ) -> Result<ToolReply, ToolError> {
        let shown = path.head_text();
        let report = plan.report.trim_end();
        if loaded.is_some() && plan.new == *plan.text {
            let meta = ResultMeta {
                sha256: loaded.map(|loaded| loaded.bytes_sha256()),
                ..ResultMeta::default()
            };
            return Ok(
                ToolReply::from_text(format!("No change in {shown}:\n{report}")).with_meta(meta),
            );
        }
        if self.dry_run {
            let name = path.relative_path().display().to_string();
            let text = format!(
                "Dry run, nothing was written. In {shown}:\n{report}\n{}",
                diff_edit(&name, &plan.text, &plan.splices)
            );
            return Ok(ToolReply::from_text(text).with_meta(ResultMeta {
                warnings: plan.notes,
                ..ResultMeta::default()
            }));
        }
        let lines = SeenLines::from_whole_text(&plan.new);
        let view = show_changed_places(&plan.text, &plan.splices, &cx.secret_boundaries);
        let (content, only_if) = match &loaded {
            Some(loaded) => (
                NewContent::Spliced {
                    old: Arc::clone(&loaded.bytes),
                    splices: plan.stored,
                },
                WritePrecondition::AsLoaded(loaded.stamp),
            ),
            // The text consists of the edits' own strings, so the conversion loses nothing.
            None => (
                NewContent::Text(String::from_utf8_lossy(&plan.new).into_owned()),
                WritePrecondition::Absent,
            ),
        };
        let request = WriteTextFile {
            path: path.clone(),
            content,
            only_if,
            create_folders: true,
            executable: None,
        };
        let mut written = deps.client.write_text_file(cx, request).await?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let verb = if written.created { "Created" } else { "Edited" };
        let text = format!(
            "{verb} {shown}:\n{report}{}\n{view}",
            join_notes_below(&written.warnings)
        );
        written.warnings.splice(0..0, plan.notes);
        Ok(ToolReply::from_text(text).with_meta(written_file_meta(&path, written)))
    }
}

impl OneEdit {
    fn to_requested_edit(&self, shown: &str, uncut: &SecretBoundaries) -> RequestedEdit {
        RequestedEdit {
            old: self.old_string.clone(),
            new: self.new_string.clone(),
            replace_all: self.replace_all,
            expected_count: self.expected_count,
            is_notebook: notebook_edit::has_notebook_name(shown.as_ref()),
            secret_boundaries: uncut.clone(),
        }
    }

    /// Makes the edit; returns a line that describes it, and the tolerated differences. Line
    /// numbers refer to the text after this edit.
    fn apply(
        &self,
        shown: &str,
        revision: &mut EditSequence,
        uncut: &SecretBoundaries,
    ) -> Result<(String, Vec<String>), ToolError> {
        if self.old_string.is_empty() {
            if !revision.current_text().is_empty() {
                return Err(ToolError::invalid_args(format!(
                    "old_string is empty, but {shown} has text. Quote the text to replace, or use Write to replace all."
                )));
            }
            revision.push_splices(&[ByteSplice {
                range: 0..0,
                with: self.new_string.clone().into_bytes(),
            }]);
            let lines = format_count(self.new_string.lines().count() as u64, "line");
            return Ok((format!("Put in {lines}."), Vec::new()));
        }
        match self
            .to_requested_edit(shown, uncut)
            .resolve(shown, revision.current_text())?
        {
            ResolvedEdit::AlreadyDone(words) => Ok((words, Vec::new())),
            ResolvedEdit::Splices { splices, notes } => {
                let line = format!(
                    "{}.",
                    describe_replacements(revision.current_text(), &splices)
                );
                revision.push_splices(&splices);
                Ok((line, notes))
            }
        }
    }
}
