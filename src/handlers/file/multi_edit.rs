//! MultiEdit: several replacements in one file, all or none. Not here: where one goes (change), and many files
//! (ApplyPatch).

use std::fmt::Write as _;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{Change, Step};
use super::edit::{MAX_BYTES, check_hash, said_below, with_change};
use super::edit_report::{after, diff, replacements};
use super::revision::Revision;
use super::seen_files::SeenLines;
use super::transcoded::Transcoded;
use super::write::{check_size, checked_sha256};
use super::{FileDeps, changed, mask};
use crate::acp::files::{LoadedFile, NewContent, Precondition, Splice, WriteTextFile};
use crate::acp::{RawPath, WorkspacePath};
use crate::output::Uncut;
use crate::output::figures::counted;
use crate::tool::{
    Access, CallDescription, Effect, ErrorCode, Meta, ProposedContent, Replacement, Reply, Tool, ToolCx,
    ToolError,
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
    #[serde(alias = "oldString", alias = "old_str", alias = "old_text")]
    old_string: String,
    #[serde(alias = "newString", alias = "new_str", alias = "new_text")]
    new_string: String,
    #[serde(default, alias = "replaceAll")]
    replace_all: bool,
    #[serde(alias = "expectedCount", alias = "expected_replacements")]
    expected_count: Option<u64>,
}

impl Tool for MultiEdit {
    const NAME: &'static str = "MultiEdit";
    const EFFECT: Effect = Effect::Writes;
    const KNOWN_AS: &'static [&'static str] = &["multi_edit_file"];
    const DECLARES: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("path", "file_path"), ("filename", "file_path"), ("file", "file_path"), ("changes", "edits")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"src/main.rs","edits":[{"old_string":"let n = 1;","new_string":"let n = 2;"},{"old_string":"n + 1","new_string":"n + 2"}]}"#,
        r#"{"file_path":"README.md","edits":[{"old_string":"colour","new_string":"color","replace_all":true}],"dry_run":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "500 edits a call, 10 MB of text each; over the backend's HTTP wire 900 KB of arguments a request",
        "files of 64 MB, 32 MB in another encoding than UTF-8",
    ];
    type Deps = FileDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::writes([self.file_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let replacements = self.edits.iter().map(|edit| Replacement {
            old: edit.old_string.clone(),
            new: edit.new_string.clone(),
            everywhere: edit.replace_all,
        });
        let content = ProposedContent::Replaced(replacements.collect());
        CallDescription::file_change("Edit", self.file_path.as_str(), content)
    }

    async fn run(self, cx: &ToolCx, deps: &FileDeps) -> Result<Reply, ToolError> {
        self.check()?;
        let path = deps.workspace.resolve(&self.file_path)?;
        if let Some(protection) = path.protection() {
            return Err(protection.denied(&path.shown()));
        }
        let expected = self.expected_sha256.as_deref().map(checked_sha256).transpose()?;
        let makes = self.edits[0].old_string.is_empty();
        let loaded = if makes && !path.existed() && expected.is_none() {
            None
        } else {
            Some(deps.client.load_file(cx, path.clone(), MAX_BYTES).await?)
        };
        let shown = path.shown();
        let (call, seen, file) = (cx.clone(), deps.seen.clone(), path.clone());
        let (this, planned) = tokio::task::spawn_blocking(move || {
            let changed = |text: &[u8]| {
                let loaded = loaded.as_ref()?;
                seen.change_since(&call, &file, || loaded.sha256(), Some(text))
            };
            let planned = self.plan(&shown, loaded.as_ref(), expected.as_deref(), &call.uncut, changed);
            (self, planned.map(|plan| (loaded, plan)))
        })
        .await
        .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?;
        let (loaded, plan) = planned?;
        this.carry_out(cx, deps, path, loaded, plan).await
    }
}

/// What is to be done.
struct Plan {
    /// The text before.
    text: Arc<Vec<u8>>,
    /// What changes of it, and of the bytes.
    splices: Vec<Splice>,
    stored: Vec<Splice>,
    /// The text after.
    new: Vec<u8>,
    /// A line for each edit.
    report: String,
    /// What was forgiven, with the number of its edit.
    notes: Vec<String>,
}

impl MultiEdit {
    fn check(&self) -> Result<(), ToolError> {
        if self.edits.is_empty() {
            return Err(ToolError::invalid_args("edits is empty; give at least one edit."));
        }
        if self.edits.len() > MAX_EDITS {
            let text = format!(
                "{} are too many for one call; the limit is {MAX_EDITS}. Nothing was changed. Make several calls, or \
                 replace the file with Write.",
                counted(self.edits.len() as u64, "edit")
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        for (at, edit) in self.edits.iter().enumerate() {
            check_size(&edit.new_string)?;
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
        uncut: &Uncut,
        changed: impl FnOnce(&[u8]) -> Option<String>,
    ) -> Result<Plan, ToolError> {
        let transcoded = match loaded {
            Some(loaded) => {
                check_hash(shown, expected, || loaded.sha256())?;
                Some(Transcoded::of(shown, loaded)?)
            }
            None => None,
        };
        let text = transcoded.as_ref().map(|file| Arc::clone(file.text())).unwrap_or_default();
        for edit in &self.edits {
            let arguments =
                [("old_string", edit.old_string.as_str()), ("new_string", edit.new_string.as_str())];
            mask::refuse_beside(shown, &text, &arguments)?;
        }
        let mut revision = Revision::of(&text);
        let changed = changed(&text);
        let (mut report, mut notes) = (String::new(), Vec::new());
        for (at, edit) in self.edits.iter().enumerate() {
            let (line, forgiven) = edit.apply(shown, &mut revision, uncut).map_err(|error| {
                let replaced = if error.code() == ErrorCode::NoMatch {
                    self.replaced_before(at, shown, &text, uncut)
                } else {
                    None
                };
                with_change(numbered(&error, at, self.edits.len(), replaced), changed.as_deref())
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
        let splices = revision.splices();
        let stored = match &transcoded {
            Some(transcoded) => transcoded.stored(shown, splices.clone())?,
            None => Vec::new(),
        };
        Ok(Plan { text, splices, stored, new: revision.into_text(), report, notes })
    }

    /// The edit before this one, counted from 0, that replaced what this one looks for.
    fn replaced_before(&self, at: usize, shown: &str, text: &[u8], uncut: &Uncut) -> Option<usize> {
        let wanted = self.edits[at].change(uncut);
        let mut revision = Revision::of(text);
        let mut was_there = wanted.is_found_in(text);
        let mut replaced = None;
        for (before, edit) in self.edits[..at].iter().enumerate() {
            edit.apply(shown, &mut revision, uncut).ok()?;
            let is_there = wanted.is_found_in(revision.text());
            if was_there && !is_there {
                replaced = Some(before);
            }
            was_there = is_there;
        }
        replaced
    }

    async fn carry_out(
        self,
        cx: &ToolCx,
        deps: &FileDeps,
        path: WorkspacePath,
        loaded: Option<LoadedFile>,
        plan: Plan,
    ) -> Result<Reply, ToolError> {
        let shown = path.shown();
        let report = plan.report.trim_end();
        if loaded.is_some() && plan.new == *plan.text {
            let meta = Meta { sha256: loaded.map(|loaded| loaded.sha256()), ..Meta::default() };
            return Ok(Reply::text(format!("No change in {shown}:\n{report}")).with_meta(meta));
        }
        if self.dry_run {
            let name = path.relative().display().to_string();
            let text = format!(
                "Dry run, nothing was written. In {shown}:\n{report}\n{}",
                diff(&name, &*plan.text, &plan.splices, 0)
            );
            return Ok(Reply::text(text).with_meta(Meta { warnings: plan.notes, ..Meta::default() }));
        }
        let lines = SeenLines::of_text(&plan.new);
        let view = after(&*plan.text, &plan.splices, 0, &cx.uncut);
        let (content, only_if) = match &loaded {
            Some(loaded) => (
                NewContent::Spliced { old: Arc::clone(&loaded.bytes), splices: plan.stored },
                Precondition::AsLoaded(loaded.stamp),
            ),
            // What the edits made of nothing is text, for each put text there.
            None => (NewContent::Text(String::from_utf8_lossy(&plan.new).into_owned()), Precondition::Absent),
        };
        let request =
            WriteTextFile { path: path.clone(), content, only_if, create_folders: true, executable: None };
        let mut written = deps.client.write_text_file(cx, request).await?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let verb = if written.created { "Created" } else { "Edited" };
        let text = format!("{verb} {shown}:\n{report}{}\n{view}", said_below(&written.warnings));
        written.warnings.splice(0..0, plan.notes);
        Ok(Reply::text(text).with_meta(changed(shown, written)))
    }
}

impl OneEdit {
    fn change(&self, uncut: &Uncut) -> Change {
        Change {
            old: self.old_string.clone(),
            new: self.new_string.clone(),
            replace_all: self.replace_all,
            expected_count: self.expected_count,
            uncut: uncut.clone(),
        }
    }

    /// Makes the edit; gives a line that says what it did, and what was forgiven. Lines are those that the text has
    /// then.
    fn apply(
        &self,
        shown: &str,
        revision: &mut Revision,
        uncut: &Uncut,
    ) -> Result<(String, Vec<String>), ToolError> {
        if self.old_string.is_empty() {
            if !revision.text().is_empty() {
                return Err(ToolError::invalid_args(format!(
                    "old_string is empty, but {shown} has text. Quote the text to replace, or use Write to replace all."
                )));
            }
            revision.apply(&[Splice { range: 0..0, with: self.new_string.clone().into_bytes() }]);
            let lines = counted(self.new_string.lines().count() as u64, "line");
            return Ok((format!("Put in {lines}."), Vec::new()));
        }
        match self.change(uncut).step(shown, revision.text())? {
            Step::Nothing(words) => Ok((words, Vec::new())),
            Step::Splices { splices, notes } => {
                let line = format!("{}.", replacements(revision.text(), &splices, 0));
                revision.apply(&splices);
                Ok((line, notes))
            }
        }
    }
}

/// The error of one edit, with its number, and that of the edit that replaced the text which this one looks for.
fn numbered(error: &ToolError, at: usize, of: usize, replaced: Option<usize>) -> ToolError {
    let replaced = replaced.map_or_else(String::new, |before| {
        format!(
            "\nedit {} of this call replaced it: quote the text as that edit leaves it, or join the two edits.",
            before + 1
        )
    });
    let text = format!("Edit {} of {of}: {}{replaced}\nNone of the edits was made.", at + 1, error.text());
    ToolError::new(error.code(), text)
}
