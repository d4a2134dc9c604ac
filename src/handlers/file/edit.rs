//! Edit: replaces one text in a file and leaves every other byte unchanged.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::edit_plan::{
    EditPlan, MAX_BYTES, PreparedEdit, append_change_note, check_expected_hash, join_notes_below,
};
use super::edit_report::{describe_replacements, diff_edit, show_changed_places};
use super::edit_sequence::apply_splices;
use super::format_check::describe_broken_format;
use super::placeholder::refuse_placeholder;
use super::requested_edit::{RequestedEdit, ResolvedEdit};
use super::seen_files::{SeenFiles, SeenLines};
use super::text_transcoding::TranscodedText;
use super::write::{check_content_size, parse_expected_sha256};
use super::{FileDeps, mask_guard, notebook_edit, written_file_meta};
use punie_host::files::{ByteSplice, LoadedFile, NewContent, WritePrecondition, WriteTextFile};
use punie_host::{RawPath, WorkspacePath};
use punie_text::output::SecretBoundaries;
use punie_tool::{
    CallDescription, DeclaredAccess, ErrorCode, PeopleField, ProposedContent, ResultMeta,
    TextReplacement, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// Replace a text in a file. `old_string` is literal and must name one place: quote enough lines.
///
/// Forgiven where one place is left, and reported: line endings, trailing blanks, typographic quotes, indentation.
/// replace_all forgives line endings only. An empty `old_string` creates a file.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Edit {
    /// Absolute, or below the first workspace.
    file_path: RawPath,
    /// As in the file, without line numbers.
    old_string: String,
    /// What to put there.
    new_string: String,
    /// Replace every place.
    #[serde(default)]
    replace_all: bool,
    /// Replace every place if so many.
    expected_count: Option<u64>,
    /// Only show the diff.
    #[serde(default)]
    dry_run: bool,
    /// Refuse unless the file has this hash.
    expected_sha256: Option<String>,
}

impl Tool for Edit {
    const NAME: &'static str = "Edit";
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const KNOWN_AS: &'static [&'static str] = &[
        "replace",
        "search_replace",
        "str_replace",
        "str_replace_editor",
        "str_replace_based_edit_tool",
        "replace_in_file",
        "edit_file",
    ];
    const DECLARES: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("expected_replacements", "expected_count")];
    const ACCEPTED: &'static [&'static str] = &["instruction"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"src/main.rs","old_string":"let n = 1;","new_string":"let n = 2;"}"#,
        r#"{"file_path":"README.md","old_string":"colour","new_string":"color","replace_all":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "10 MB of new text; over the backend's HTTP wire 900 KB of arguments a request",
        "files of 64 MB, 32 MB in another encoding than UTF-8",
        "200,000 places a call, 64 MB of new text in all of them",
    ];
    const PEOPLE_FIELDS: &'static [PeopleField] = &[
        PeopleField::Text("old_string"),
        PeopleField::Text("new_string"),
    ];
    type Deps = FileDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::writing_paths([self.file_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let replacement = TextReplacement {
            old: self.old_string.clone(),
            new: self.new_string.clone(),
            everywhere: self.replace_all,
        };
        let content = ProposedContent::Replaced(vec![replacement]);
        CallDescription::for_file_change("Edit", self.file_path.as_str(), content)
    }

    async fn run(self, cx: &ToolContext, deps: &FileDeps) -> Result<ToolReply, ToolError> {
        check_content_size(&self.new_string)?;
        let path = deps.resolve_for_call(cx, &self.file_path).await?;
        path.check_writable()?;
        let expected = parse_expected_sha256(self.expected_sha256.as_deref())?;
        if self.old_string.is_empty() {
            let reply = self.create_file(cx, deps, path, expected).await?;
            return Ok(deps.check_changed(cx, reply).await);
        }
        refuse_placeholder("new_string", &self.old_string, &self.new_string)?;
        if self.old_string == self.new_string {
            return Err(ToolError::invalid_args(
                "old_string and new_string are the same; there is nothing to change.",
            ));
        }
        let loaded = deps.client.load_file(cx, path.clone(), MAX_BYTES).await?;
        let plan = self
            .plan_in_memory(cx, deps, &path, loaded, expected)
            .await?;
        let reply = self.carry_out(cx, deps, path, plan).await?;
        Ok(deps.check_changed(cx, reply).await)
    }
}

impl Edit {
    /// The requested edit.
    fn requested(&self, uncut: &SecretBoundaries) -> RequestedEdit {
        RequestedEdit {
            old: self.old_string.clone(),
            new: self.new_string.clone(),
            replace_all: self.replace_all,
            expected_count: self.expected_count,
            is_notebook: notebook_edit::has_notebook_name(self.file_path.as_str().as_ref()),
            secret_boundaries: uncut.clone(),
        }
    }

    /// The arguments that may contain a masked secret, with their names.
    fn quoted_arguments(&self) -> [(&'static str, &str); 2] {
        [
            ("old_string", &self.old_string),
            ("new_string", &self.new_string),
        ]
    }

    /// Describes these changed places.
    fn describe_splices(
        &self,
        path: &WorkspacePath,
        text: &[u8],
        splices: &[ByteSplice],
        uncut: &SecretBoundaries,
    ) -> (String, String) {
        let view = if self.dry_run {
            diff_edit(&path.relative_path().display().to_string(), text, splices)
        } else {
            show_changed_places(text, splices, uncut)
        };
        (describe_replacements(text, splices), view)
    }

    async fn plan_in_memory(
        &self,
        cx: &ToolContext,
        deps: &FileDeps,
        path: &WorkspacePath,
        loaded: LoadedFile,
        expected: Option<String>,
    ) -> Result<EditPlan, ToolError> {
        let this = self.clone();
        let path = path.clone();
        let cx = cx.clone();
        let seen = deps.seen.clone();
        tokio::task::spawn_blocking(move || {
            this.plan_loaded(&cx, &seen, &path, &loaded, expected.as_deref())
        })
        .await
        .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?
    }

    fn plan_loaded(
        &self,
        cx: &ToolContext,
        seen: &SeenFiles,
        path: &WorkspacePath,
        loaded: &LoadedFile,
        expected: Option<&str>,
    ) -> Result<EditPlan, ToolError> {
        let shown = &path.display_text();
        let uncut = &cx.secret_boundaries;
        check_expected_hash(shown, expected, || loaded.bytes_sha256())?;
        let transcoded = TranscodedText::decode_for_edit(shown, loaded)?;
        let text = transcoded.utf8();
        mask_guard::refuse_unless_masked(shown, text, &self.quoted_arguments())?;
        let changed = seen.describe_change_since(cx, path, || loaded.bytes_sha256(), Some(text));
        let step = self
            .requested(uncut)
            .resolve(shown, text)
            .map_err(|error| append_change_note(error, changed.as_deref()))?;
        Ok(match step {
            ResolvedEdit::AlreadyDone(words) => EditPlan::NoChange(words, loaded.bytes_sha256()),
            ResolvedEdit::Splices { splices, mut notes } => {
                notes.extend(changed);
                let new = || apply_splices(text, &splices);
                notes.extend(describe_broken_format(path.absolute_path(), text, new));
                let lines = SeenLines::from_spliced(text, &splices);
                let (places, view) = self.describe_splices(path, text, &splices, uncut);
                let splices = transcoded.to_stored_splices(shown, splices)?;
                let content = NewContent::Spliced {
                    old: Arc::clone(&loaded.bytes),
                    splices,
                };
                EditPlan::Change(PreparedEdit {
                    places,
                    view,
                    notes,
                    content,
                    stamp: loaded.stamp,
                    lines,
                })
            }
        })
    }

    async fn carry_out(
        self,
        cx: &ToolContext,
        deps: &FileDeps,
        path: WorkspacePath,
        plan: EditPlan,
    ) -> Result<ToolReply, ToolError> {
        let shown = path.head_text();
        let PreparedEdit {
            places,
            view,
            notes,
            content,
            stamp,
            lines,
        } = match plan {
            EditPlan::NoChange(text, sha256) => {
                let meta = ResultMeta {
                    sha256: Some(sha256),
                    ..ResultMeta::default()
                };
                return Ok(ToolReply::from_text(text).with_meta(meta));
            }
            EditPlan::Change(prepared) => prepared,
        };
        let said = join_notes_below(&notes);
        if self.dry_run {
            let text = format!("Dry run, nothing was written: {places} of {shown}.{said}\n{view}");
            return Ok(ToolReply::from_text(text).with_meta(ResultMeta {
                warnings: notes,
                ..ResultMeta::default()
            }));
        }
        let only_if = WritePrecondition::AsLoaded(stamp);
        let request = WriteTextFile {
            path: path.clone(),
            content,
            only_if,
            create_folders: false,
            executable: None,
        };
        let mut written = deps.client.write_text_file(cx, request).await?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let text = format!(
            "Edited {shown}: {places}.{said}{}\n{view}",
            join_notes_below(&written.warnings)
        );
        written.warnings.splice(0..0, notes);
        Ok(ToolReply::from_text(text).with_meta(written_file_meta(&path, written)))
    }

    /// Creates the file, or fills an empty one, for an empty `old_string`.
    async fn create_file(
        self,
        cx: &ToolContext,
        deps: &FileDeps,
        path: WorkspacePath,
        expected: Option<String>,
    ) -> Result<ToolReply, ToolError> {
        mask_guard::refuse_masked_overwrite(cx, deps, &path, ("new_string", &self.new_string))
            .await?;
        let shown = path.head_text();
        let only_if = if path.existed_when_resolved() {
            let loaded = deps.client.load_file(cx, path.clone(), MAX_BYTES).await?;
            check_expected_hash(&shown, expected.as_deref(), || loaded.bytes_sha256())?;
            if loaded.bytes.len() > loaded.encoding.bom_bytes().len() {
                return Err(ToolError::invalid_args(format!(
                    "old_string is empty, but {shown} has text. Quote the text to replace, or use Write to replace all."
                )));
            }
            WritePrecondition::Content(loaded.bytes_sha256())
        } else if expected.is_some() {
            let text = format!(
                "{shown} does not exist, so it has no SHA-256 to expect. Nothing was written."
            );
            return Err(ToolError::new(ErrorCode::Stale, text));
        } else {
            WritePrecondition::Absent
        };
        if self.dry_run {
            let name = path.relative_path().display().to_string();
            let splice = ByteSplice {
                range: 0..0,
                with: self.new_string.into_bytes(),
            };
            return Ok(ToolReply::from_text(format!(
                "Dry run, nothing was written: {shown} would be made with new_string.\n{}",
                diff_edit(&name, b"", &[splice])
            )));
        }
        let lines = SeenLines::from_whole_text(self.new_string.as_bytes());
        let content = NewContent::Text(self.new_string);
        let request = WriteTextFile {
            path: path.clone(),
            content,
            only_if,
            create_folders: true,
            executable: None,
        };
        let written = deps.client.write_text_file(cx, request).await?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let verb = if written.created { "Created" } else { "Filled" };
        let text = format!(
            "{verb} {shown} with new_string.{}",
            join_notes_below(&written.warnings)
        );
        Ok(ToolReply::from_text(text).with_meta(written_file_meta(&path, written)))
    }
}
