//! Edit: one text replaced by another in a file, every other byte untouched. Not here: how the place is found
//! (matcher) and what an answer shows of it (edit_report).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;

use super::change::{Change, Step};
use super::edit_report::{after, diff, replacements};
use super::seen_files::{SeenFiles, SeenLines};
use super::sheet::Sheet;
use super::transcoded::Transcoded;
use super::write::{check_size, checked_sha256};
use super::{FileDeps, changed, long_edit, mask};
use crate::acp::files::{LoadedFile, NewContent, Precondition, Splice, Stamp, WriteTextFile};
use crate::acp::{RawPath, WorkspacePath};
use crate::output::Uncut;
use crate::tool::{
    Access, CallDescription, Effect, ErrorCode, Meta, ProposedContent, Replacement, Reply, Tool, ToolCx,
    ToolError,
};

/// The largest file that is held whole to be edited.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// A bigger one is held only where its text is not found exactly.
const HELD: u64 = 1 << 20;

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
    const EFFECT: Effect = Effect::Writes;
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
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("path", "file_path"),
        ("filename", "file_path"),
        ("file", "file_path"),
        ("old_str", "old_string"),
        ("old_text", "old_string"),
        ("new_str", "new_string"),
        ("new_text", "new_string"),
        ("expected_replacements", "expected_count"),
    ];
    const ACCEPTED: &'static [&'static str] = &["instruction"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"file_path":"src/main.rs","old_string":"let n = 1;","new_string":"let n = 2;"}"#,
        r#"{"file_path":"README.md","old_string":"colour","new_string":"color","replace_all":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "10 MB of new text; over the backend's HTTP wire 900 KB of arguments a request",
        "files of 1 GB; of 64 MB where old_string is not exact, of 32 MB in another encoding than UTF-8",
        "200,000 places a call, 64 MB of new text in all of them",
    ];
    type Deps = FileDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::writes([self.file_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        let replacement = Replacement {
            old: self.old_string.clone(),
            new: self.new_string.clone(),
            everywhere: self.replace_all,
        };
        let content = ProposedContent::Replaced(vec![replacement]);
        CallDescription::file_change("Edit", self.file_path.as_str(), content)
    }

    async fn run(self, cx: &ToolCx, deps: &FileDeps) -> Result<Reply, ToolError> {
        check_size(&self.new_string)?;
        let path = deps.workspace.resolve(&self.file_path)?;
        if let Some(protection) = path.protection() {
            return Err(protection.denied(&path.shown()));
        }
        let expected = self.expected_sha256.as_deref().map(checked_sha256).transpose()?;
        if self.old_string.is_empty() {
            return self.create(cx, deps, path, expected).await;
        }
        if self.old_string == self.new_string {
            return Err(ToolError::invalid_args(
                "old_string and new_string are the same; there is nothing to change.",
            ));
        }
        let plan = match deps.client.load_file(cx, path.clone(), HELD).await {
            // Too big to be held if it need not be.
            Err(error) if error.code() == ErrorCode::TooLarge => {
                if let Some(plan) = long_edit::plan(cx, deps, &path, &self, expected.as_deref()).await? {
                    plan
                } else {
                    let loaded = deps.client.load_file(cx, path.clone(), MAX_BYTES).await?;
                    self.plan_held(cx, deps, &path, loaded, expected).await?
                }
            }
            loaded => self.plan_held(cx, deps, &path, loaded?, expected).await?,
        };
        self.carry_out(cx, deps, path, plan).await
    }
}

/// What is to be done.
#[derive(Debug)]
pub(super) enum Plan {
    /// The file stays as it is, as the words say; with its SHA-256.
    Nothing(String, String),
    Change(Prepared),
}

/// A change and what to say of it.
#[derive(Debug)]
pub(super) struct Prepared {
    /// Where something changes.
    pub places: String,
    /// What it looks like then: lines, or for a dry run a diff.
    pub view: String,
    /// What was forgiven.
    pub notes: Vec<String>,
    pub content: NewContent,
    /// The state that the file had.
    pub stamp: Stamp,
    /// The lines that it will have, where they are remembered.
    pub lines: SeenLines,
}

impl Edit {
    /// What is asked for.
    pub(super) fn change(&self, uncut: &Uncut) -> Change {
        Change {
            old: self.old_string.clone(),
            new: self.new_string.clone(),
            replace_all: self.replace_all,
            expected_count: self.expected_count,
            uncut: uncut.clone(),
        }
    }

    /// The arguments in which a masked secret may come back, with their names.
    pub(super) fn texts(&self) -> [(&'static str, &str); 2] {
        [("old_string", &self.old_string), ("new_string", &self.new_string)]
    }

    /// What to say of these changed places; there are `more` behind them.
    pub(super) fn said(
        &self,
        path: &WorkspacePath,
        text: Sheet<'_>,
        splices: &[Splice],
        more: usize,
        uncut: &Uncut,
    ) -> (String, String) {
        let view = if self.dry_run {
            diff(&path.relative().display().to_string(), text, splices, more)
        } else {
            after(text, splices, more, uncut)
        };
        (replacements(text, splices, more), view)
    }

    async fn plan_held(
        &self,
        cx: &ToolCx,
        deps: &FileDeps,
        path: &WorkspacePath,
        loaded: LoadedFile,
        expected: Option<String>,
    ) -> Result<Plan, ToolError> {
        let (this, path, cx, seen) = (self.clone(), path.clone(), cx.clone(), deps.seen.clone());
        tokio::task::spawn_blocking(move || this.plan(&cx, &seen, &path, &loaded, expected.as_deref()))
            .await
            .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))?
    }

    fn plan(
        &self,
        cx: &ToolCx,
        seen: &SeenFiles,
        path: &WorkspacePath,
        loaded: &LoadedFile,
        expected: Option<&str>,
    ) -> Result<Plan, ToolError> {
        let (shown, uncut) = (&path.shown(), &cx.uncut);
        check_hash(shown, expected, || loaded.sha256())?;
        let transcoded = Transcoded::of(shown, loaded)?;
        let text = transcoded.text();
        mask::refuse_beside(shown, text, &self.texts())?;
        let changed = seen.change_since(cx, path, || loaded.sha256(), Some(text));
        let step =
            self.change(uncut).step(shown, text).map_err(|error| with_change(error, changed.as_deref()))?;
        Ok(match step {
            Step::Nothing(words) => Plan::Nothing(words, loaded.sha256()),
            Step::Splices { splices, mut notes } => {
                notes.extend(changed);
                let lines = SeenLines::of_spliced(text, &splices);
                let (places, view) = self.said(path, (&**text).into(), &splices, 0, uncut);
                let splices = transcoded.stored(shown, splices)?;
                let content = NewContent::Spliced { old: Arc::clone(&loaded.bytes), splices };
                Plan::Change(Prepared { places, view, notes, content, stamp: loaded.stamp, lines })
            }
        })
    }

    async fn carry_out(
        self,
        cx: &ToolCx,
        deps: &FileDeps,
        path: WorkspacePath,
        plan: Plan,
    ) -> Result<Reply, ToolError> {
        let shown = path.shown();
        let Prepared { places, view, notes, content, stamp, lines } = match plan {
            Plan::Nothing(text, sha256) => {
                let meta = Meta { sha256: Some(sha256), ..Meta::default() };
                return Ok(Reply::text(text).with_meta(meta));
            }
            Plan::Change(prepared) => prepared,
        };
        let said = said_below(&notes);
        if self.dry_run {
            let text = format!("Dry run, nothing was written: {places} of {shown}.{said}\n{view}");
            return Ok(Reply::text(text).with_meta(Meta { warnings: notes, ..Meta::default() }));
        }
        let only_if = Precondition::AsLoaded(stamp);
        let request =
            WriteTextFile { path: path.clone(), content, only_if, create_folders: false, executable: None };
        let mut written = deps.client.write_text_file(cx, request).await?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let text = format!("Edited {shown}: {places}.{said}{}\n{view}", said_below(&written.warnings));
        written.warnings.splice(0..0, notes);
        Ok(Reply::text(text).with_meta(changed(shown, written)))
    }

    /// An empty old_string: makes the file, or fills an empty one.
    async fn create(
        self,
        cx: &ToolCx,
        deps: &FileDeps,
        path: WorkspacePath,
        expected: Option<String>,
    ) -> Result<Reply, ToolError> {
        mask::refuse_over(cx, &path, ("new_string", &self.new_string)).await?;
        let shown = path.shown();
        let only_if = if path.existed() {
            let loaded = deps.client.load_file(cx, path.clone(), MAX_BYTES).await?;
            check_hash(&shown, expected.as_deref(), || loaded.sha256())?;
            if loaded.bytes.len() > loaded.encoding.mark().len() {
                return Err(ToolError::invalid_args(format!(
                    "old_string is empty, but {shown} has text. Quote the text to replace, or use Write to replace all."
                )));
            }
            Precondition::Content(loaded.sha256())
        } else if expected.is_some() {
            let text =
                format!("{shown} does not exist, so it has no SHA-256 to expect. Nothing was written.");
            return Err(ToolError::new(ErrorCode::Stale, text));
        } else {
            Precondition::Absent
        };
        if self.dry_run {
            let name = path.relative().display().to_string();
            let splice = Splice { range: 0..0, with: self.new_string.into_bytes() };
            return Ok(Reply::text(format!(
                "Dry run, nothing was written: {shown} would be made with new_string.\n{}",
                diff(&name, b"", &[splice], 0)
            )));
        }
        let lines = SeenLines::of_text(self.new_string.as_bytes());
        let content = NewContent::Text(self.new_string);
        let request =
            WriteTextFile { path: path.clone(), content, only_if, create_folders: true, executable: None };
        let written = deps.client.write_text_file(cx, request).await?;
        deps.seen.record(cx, &path, written.after.clone(), lines);
        let verb = if written.created { "Created" } else { "Filled" };
        let text = format!("{verb} {shown} with new_string.{}", said_below(&written.warnings));
        Ok(Reply::text(text).with_meta(changed(shown, written)))
    }
}

/// An error with what changed in the file since the caller read it: that may be its cause.
pub(super) fn with_change(error: ToolError, changed: Option<&str>) -> ToolError {
    match changed {
        Some(changed) => ToolError::new(error.code(), format!("{}\n{changed}", error.text())),
        None => error,
    }
}

/// Each on a line of its own, below what is said already.
pub(super) fn said_below(warnings: &[String]) -> String {
    warnings.iter().flat_map(|warning| ["\n", warning.as_str()]).collect()
}

/// Refuses a file that is not as the caller knew it.
pub(super) fn check_hash(
    shown: &str,
    expected: Option<&str>,
    hash: impl FnOnce() -> String,
) -> Result<(), ToolError> {
    let Some(expected) = expected else { return Ok(()) };
    let is = hash();
    if is == expected {
        return Ok(());
    }
    let text = format!(
        "{shown} is not what was expected: its SHA-256 is {is}, not {expected}. Nothing was changed. Read it again, \
         then decide."
    );
    Err(ToolError::new(ErrorCode::Stale, text))
}
