//! What a call touches, as its decoded arguments tell. Policy, approvals and confinement decide by this and read no
//! arguments of their own. Not here: what the paths lead to (acp), and what the rules say (policy).

use std::collections::BTreeMap;

/// What a call touches. Paths are as the caller wrote them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The files and folders that it names.
    pub paths: Vec<String>,
    /// Where it looks if it names none.
    pub without_paths: WithoutPaths,
    /// Other files that it touches and that cannot be named before it runs, in words.
    pub unnamed: Option<&'static str>,
    /// A name that may be a file of the workspace or a program.
    pub file_or_program: Option<String>,
    /// What it runs.
    pub command: Option<CommandAccess>,
    /// It starts programs that no argument names: git's hooks and filters.
    pub starts_others: bool,
}

/// Where a call looks that names no path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum WithoutPaths {
    /// Nowhere.
    #[default]
    Nowhere,
    /// In the first workspace.
    FirstWorkspace,
    /// In all workspaces; where there is only one, in this folder of it.
    AllWorkspaces(Option<String>),
}

/// What a call runs.
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
    /// A program with its arguments, no shell between.
    Program(String, Vec<String>),
    /// Text and keys that a program which runs already is given.
    Typed(String, Vec<String>),
}

/// The folder in which a command starts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CommandFolder {
    /// The first workspace.
    #[default]
    FirstWorkspace,
    /// This one.
    Named(String),
    /// Found only when it runs, with what the call says of it.
    Unknown(Option<String>),
}

impl Access {
    /// A call that touches no file and runs nothing.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// Files and folders by their paths; an empty one names nothing.
    pub fn paths<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Self {
        let given = paths.into_iter().map(|path| path.as_ref().to_owned());
        Self { paths: given.filter(|path| !path.is_empty()).collect(), ..Self::default() }
    }

    /// The same, and where the call looks if none is named.
    #[must_use]
    pub fn or_else(self, without_paths: WithoutPaths) -> Self {
        Self { without_paths, ..self }
    }

    /// The same, and it starts programs that no argument names.
    #[must_use]
    pub fn starting_others(self) -> Self {
        Self { starts_others: true, ..self }
    }

    /// A command in the folder that the call names, or in the first workspace.
    pub fn command(text: CommandText, folder: Option<&str>) -> Self {
        let folder =
            folder.map_or(CommandFolder::FirstWorkspace, |path| CommandFolder::Named(path.to_owned()));
        let command = CommandAccess { text, folder, env: BTreeMap::new() };
        Self { command: Some(command), ..Self::default() }
    }
}
