//! The declaration of what a call accesses, from its decoded arguments. Policy, approvals and confinement decide by it and
//! hold no names of tools or arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// What a call accesses. Paths are as the caller wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The files and folders that it reads.
    pub reads: Vec<String>,
    /// The files and folders that it writes.
    pub writes: Vec<String>,
    /// The place that it reads if it names no path.
    pub default_location: DefaultLocation,
    /// Other files that it accesses and that cannot be named before it runs, in words.
    pub unnamed: Option<&'static str>,
    /// A name that may be a file of the workspace or a program.
    pub file_or_program: Option<String>,
    /// The command that it runs.
    pub command: Option<CommandAccess>,
    /// It starts programs that no argument names: git's hooks and filters.
    pub starts_programs: bool,
    /// The call that it makes a request of its own of.
    pub starts_call: Option<StartedCall>,
}

/// The place that a call reads if it names no path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultLocation {
    /// None.
    #[default]
    Nowhere,
    /// The first workspace.
    FirstWorkspace,
    /// All workspaces; where there is only one, this folder of it.
    AllWorkspaces(Option<String>),
}

/// A command that a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAccess {
    /// The command itself.
    pub text: CommandText,
    /// The folder in which it starts.
    pub folder: CommandFolder,
    /// The variables that the call sets.
    pub env: BTreeMap<String, String>,
}

/// A command as a call gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandText {
    /// A line for the shell.
    Line(String),
    /// A program with its arguments, without a shell.
    Program(String, Vec<String>),
    /// Text and keys for a program that runs already.
    Typed(String, Vec<String>),
}

/// The folder in which a command starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CommandFolder {
    /// The first workspace.
    #[default]
    FirstWorkspace,
    /// The folder of this path.
    Named(String),
    /// A folder that is found only when the command runs, with the path that the call gives.
    Unknown(Option<String>),
}

/// A call that another call makes a request of its own of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedCall {
    /// The tool's name.
    pub tool: String,
    /// The tool's arguments.
    pub args: Map<String, Value>,
}

impl Access {
    /// A call that accesses no file and runs nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// A call that reads these files and folders; an empty path names nothing.
    pub fn reads<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self { reads: named_paths(paths), ..Self::default() }
    }

    /// A call that writes these files; an empty path names nothing.
    pub fn writes<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self { writes: named_paths(paths), ..Self::default() }
    }

    /// The same, reading this place if no path is named.
    #[must_use]
    pub fn or_default(self, default_location: DefaultLocation) -> Self {
        Self { default_location, ..self }
    }

    /// The same, starting programs that no argument names.
    #[must_use]
    pub fn starting_programs(self) -> Self {
        Self { starts_programs: true, ..self }
    }

    /// A call that runs a command in the folder that it names, or in the first workspace.
    pub fn command(text: CommandText, folder: Option<&str>) -> Self {
        let folder =
            folder.map_or(CommandFolder::FirstWorkspace, |path| CommandFolder::Named(path.to_owned()));
        let command = CommandAccess { text, folder, env: BTreeMap::new() };
        Self { command: Some(command), ..Self::default() }
    }

    /// All paths that it names.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().chain(&self.writes).map(String::as_str)
    }
}

fn named_paths<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Vec<String> {
    let given = paths.into_iter().map(|path| path.as_ref().to_owned());
    given.filter(|path| !path.is_empty()).collect()
}
