//! The description of a call for the person who follows or approves it. The tool builds it from the decoded arguments,
//! so editors need no list of tools and no names of arguments.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{DeclaredAccess, RequestedCommand};

/// The number of arguments in the default title.
const NAMED_ARGUMENTS: usize = 4;

/// The description of a call.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallDescription {
    /// The call in one sentence. If `None`, it is derived from the call's access.
    pub title: Option<CallTitle>,
    /// The line at which it reads its first file, from 1.
    pub line: Option<u64>,
    /// The largest scope of an approval for a whole session.
    pub scope: AllowScope,
    /// The proposed changes to files.
    pub changes: Vec<ProposedChange>,
    /// The call's access, from [`Tool::access`](super::Tool::access).
    pub access: DeclaredAccess,
}

/// The largest scope of an approval for a whole session.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum AllowScope {
    /// The same tool with the same arguments.
    #[default]
    SameCall,
    /// The same tool on files of the same workspace folder.
    SameFolder,
    /// The same tool with plain commands that begin with the same words.
    SameCommand,
}

/// A sentence about a call, such as `Edit src/main.rs`. Its paths are as the caller wrote them until it is rendered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallTitle {
    before: String,
    paths: Vec<String>,
    after: String,
}

/// A change that a call would make to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProposedChange {
    /// The file, as the caller wrote it.
    pub path: String,
    /// The file's new path.
    pub moved_to: Option<String>,
    /// The change to its text.
    pub content: ProposedContent,
}

/// The change to a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposedContent {
    /// It becomes this text.
    Whole(String),
    /// The file is deleted.
    Deleted,
    /// Pieces of it are replaced.
    Replaced(Vec<TextReplacement>),
}

/// A piece of text and its replacement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextReplacement {
    /// The current text.
    pub old: String,
    /// The new text.
    pub new: String,
    /// True if all occurrences are replaced.
    pub everywhere: bool,
}

impl CallDescription {
    /// Describes a call by this title.
    pub fn with_title(title: CallTitle) -> Self {
        Self {
            title: Some(title),
            ..Self::default()
        }
    }

    /// Describes a change of one file, with a title from a verb and the path.
    pub fn for_file_change(verb: &str, path: &str, content: ProposedContent) -> Self {
        let change = ProposedChange {
            path: path.to_owned(),
            moved_to: None,
            content,
        };
        Self {
            scope: AllowScope::SameFolder,
            changes: vec![change],
            ..Self::with_title(CallTitle::about_files(verb, [path]))
        }
    }

    /// Returns the title for a call without its own: the command, or the tool with its first plain arguments.
    pub(super) fn default_title(&self, tool: &str, args: &Value) -> CallTitle {
        match self.access.command.as_ref().map(|command| &command.text) {
            Some(RequestedCommand::Line(line)) => CallTitle::from_sentence(format!("Run `{line}`")),
            Some(RequestedCommand::Program(program, words)) => {
                let line: Vec<&str> = std::iter::once(program)
                    .chain(words)
                    .map(String::as_str)
                    .collect();
                CallTitle::from_sentence(format!("Run `{}`", line.join(" ")))
            }
            Some(RequestedCommand::Typed(..)) | None => {
                CallTitle::from_sentence(call_sentence(tool, args))
            }
        }
    }
}

impl CallTitle {
    /// Creates a title without a path.
    pub fn from_sentence(text: impl Into<String>) -> Self {
        Self {
            before: text.into(),
            ..Self::default()
        }
    }

    /// Creates a title from a verb and the files.
    pub fn about_files<P: Into<String>>(verb: &str, paths: impl IntoIterator<Item = P>) -> Self {
        let paths = paths.into_iter().map(Into::into).collect();
        Self {
            before: verb.to_owned(),
            paths,
            after: String::new(),
        }
    }

    /// Appends this text.
    #[must_use]
    pub fn followed_by(mut self, text: &str) -> Self {
        self.after.push_str(text);
        self
    }

    /// Returns the sentence, with paths relative to the project's folders.
    pub fn render(&self, roots: &[PathBuf]) -> String {
        let shown = |path: &String| path_from_root(path, roots).to_owned();
        let paths = match self.paths.as_slice() {
            [] => String::new(),
            [one] => format!(" {}", shown(one)),
            [one, two] => format!(" {} and {}", shown(one), shown(two)),
            [one, rest @ ..] => format!(" {} and {} more files", shown(one), rest.len()),
        };
        format!("{}{paths}{}", self.before, self.after)
    }

    /// Returns the title of a call that starts another one.
    pub(super) fn starting_call(self, other: &Self) -> Self {
        let before = format!("{}: {}", self.before, other.before);
        Self {
            before,
            paths: other.paths.clone(),
            after: other.after.clone(),
        }
    }
}

/// Returns a sentence from the tool's name and its first plain arguments.
fn call_sentence(tool: &str, args: &Value) -> String {
    let plain = |(name, value): (&String, &Value)| match value {
        Value::String(text) => Some(format!("{name} `{text}`")),
        Value::Number(_) | Value::Bool(_) => Some(format!("{name} {value}")),
        _ => None,
    };
    let arguments = args.as_object().into_iter().flatten();
    let named: Vec<String> = arguments.filter_map(plain).take(NAMED_ARGUMENTS).collect();
    if named.is_empty() {
        format!("Call {tool}")
    } else {
        format!("Call {tool} with {}", named.join(", "))
    }
}

/// Returns a path relative to the folder that it lies in, if it lies in one of these.
pub(super) fn path_from_root<'p>(path: &'p str, roots: &[PathBuf]) -> &'p str {
    let inside = roots
        .iter()
        .find_map(|root| Path::new(path).strip_prefix(root).ok()?.to_str());
    inside.filter(|inside| !inside.is_empty()).unwrap_or(path)
}
