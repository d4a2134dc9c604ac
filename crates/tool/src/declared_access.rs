//! The declaration of a call's access, derived from its decoded arguments. Policy, approvals and confinement decide by
//! it, and contain no names of tools or arguments.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// The access of a call. Paths are as the caller wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeclaredAccess {
    /// The files and folders to read.
    pub reads: Vec<String>,
    /// The files and folders to write.
    pub writes: Vec<String>,
    /// The location to read if it names no path.
    pub default_location: DefaultLocation,
    /// Other files, described in words because they cannot be named before the call runs.
    pub unnamed: Option<&'static str>,
    /// A name that may be a file of the workspace or a program.
    pub file_or_program: Option<String>,
    /// The command to run.
    pub command: Option<CommandAccess>,
    /// True if it starts programs that no argument names, such as git's hooks and filters.
    pub starts_programs: bool,
    /// The reason for which its command needs the runner's own network, if it asks for that.
    pub whole_network: Option<String>,
    /// The reason for which the owner is asked whatever the rules say, unless one of theirs allows this tool by name.
    pub owner_question: Option<String>,
    /// The call that it starts as a new request.
    pub starts_call: Option<StartedCall>,
}

/// The location that a call reads if it names no path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum DefaultLocation {
    /// None.
    #[default]
    Nowhere,
    /// The first workspace.
    FirstWorkspace,
    /// All workspaces; with a single workspace, this folder of it.
    AllWorkspaces(Option<String>),
}

/// A command that a call runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandAccess {
    /// The command itself.
    pub text: RequestedCommand,
    /// The folder in which it starts.
    pub folder: CommandFolder,
    /// The environment variables that the call sets.
    pub env: BTreeMap<String, String>,
}

/// A command as a call gives it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedCommand {
    /// A command line for the shell.
    Line(String),
    /// A program with its arguments, without a shell.
    Program(String, Vec<String>),
    /// Text and keys for a running program.
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
    /// A folder that is known only when the command runs, with the path that the call gives.
    Unknown(Option<String>),
}

/// A call that another call starts as a new request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartedCall {
    /// The tool's name.
    pub tool: String,
    /// The tool's arguments.
    pub args: Map<String, Value>,
}

impl DeclaredAccess {
    /// Declares no access to files and no command.
    pub fn none() -> Self {
        Self::default()
    }

    /// Declares reads of these files and folders; empty paths are ignored.
    pub fn reading_paths<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            reads: non_empty_paths(paths),
            ..Self::default()
        }
    }

    /// Declares writes of these files; empty paths are ignored.
    pub fn writing_paths<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Self {
        Self {
            writes: non_empty_paths(paths),
            ..Self::default()
        }
    }

    /// Adds the location to read if no path is named.
    #[must_use]
    pub fn with_default_location(self, default_location: DefaultLocation) -> Self {
        Self {
            default_location,
            ..self
        }
    }

    /// Adds the start of programs that no argument names.
    #[must_use]
    pub fn starting_programs(self) -> Self {
        Self {
            starts_programs: true,
            ..self
        }
    }

    /// Adds a question to the owner.
    #[must_use]
    pub fn asking_owner(self, reason: String) -> Self {
        Self {
            owner_question: Some(reason),
            ..self
        }
    }

    /// Declares a command in this folder, or in the first workspace.
    pub fn running_command(text: RequestedCommand, folder: Option<&str>) -> Self {
        let folder = folder.map_or(CommandFolder::FirstWorkspace, |path| {
            CommandFolder::Named(path.to_owned())
        });
        let command = CommandAccess {
            text,
            folder,
            env: BTreeMap::new(),
        };
        Self {
            command: Some(command),
            ..Self::default()
        }
    }

    /// Returns all named paths.
    pub fn all_paths(&self) -> impl Iterator<Item = &str> {
        self.reads.iter().chain(&self.writes).map(String::as_str)
    }
}

fn non_empty_paths<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Vec<String> {
    let given = paths.into_iter().map(|path| path.as_ref().to_owned());
    given.filter(|path| !path.is_empty()).collect()
}
