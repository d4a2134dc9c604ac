//! What a person is asked before a call runs, and what is made of the answer. Decided by the kind of the option that
//! was chosen, never by its place or its id's looks; whatever is unclear is a no.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::acp::protocol::{
    PermissionOption, PermissionOptionId, PermissionOptionKind, RequestPermissionOutcome,
};

/// How far a yes for the whole session reaches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// This tool on files of this folder.
    Folder { tool: String, root: PathBuf },
    /// This tool with simple commands that begin with these words.
    Command { tool: String, words: Vec<String> },
    /// This tool with exactly these arguments.
    Exactly { tool: String, args: String },
    /// This tool.
    Tool(String),
}

/// Names of the argument that is a command line.
const COMMANDS: &[&str] = &["command", "script", "cmd"];
/// Names of the argument that is a path.
const PATHS: &[&str] = &["file_path", "path", "notebook_path", "cwd"];

impl Scope {
    /// What a yes to this call may be taken to cover.
    pub(super) fn of(tool: &str, args: &Value, roots: &[PathBuf]) -> Self {
        let text = |names: &[&str]| names.iter().find_map(|name| args.get(name)?.as_str());
        let tool = tool.to_owned();
        if let Some(line) = text(COMMANDS) {
            return match beginning(line) {
                // Where it runs, and with which other settings, belongs to what was allowed.
                Some(words) if is_plain(args) => Self::Command { tool, words },
                _ => Self::exactly(tool, args),
            };
        }
        match text(PATHS).and_then(|path| root_of(Path::new(path), roots)) {
            Some(root) => Self::Folder { tool, root },
            None if args.as_object().is_some_and(|args| args.contains_key("patch")) => {
                Self::exactly(tool, args)
            }
            None => Self::Tool(tool),
        }
    }

    /// These arguments, in whatever order they come.
    fn exactly(tool: String, args: &Value) -> Self {
        let mut args = args.clone();
        args.sort_all_objects();
        Self::Exactly { tool, args: args.to_string() }
    }

    /// As the person reads it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Folder { tool, root } => format!("Allow {tool} in {} for this session", root.display()),
            Self::Command { words, .. } => format!("Allow `{} …` for this session", words.join(" ")),
            Self::Exactly { tool, .. } => format!("Allow exactly this {tool} call for this session"),
            Self::Tool(tool) => format!("Allow {tool} for this session"),
        }
    }
}

/// Programs that run whatever their arguments name.
const RUNNERS: &[&str] = &[
    "sh", "bash", "zsh", "fish", "dash", "env", "sudo", "doas", "xargs", "eval", "exec", "nohup", "time",
    "timeout", "nice", "find", "python", "python3", "node", "perl", "ruby", "awk", "ssh", "watch",
];
/// Programs that are many programs: the first argument says which.
const OF_MANY: &[&str] = &[
    "git",
    "cargo",
    "npm",
    "npx",
    "pnpm",
    "yarn",
    "bun",
    "deno",
    "go",
    "docker",
    "podman",
    "kubectl",
    "make",
    "just",
    "pip",
    "uv",
    "poetry",
    "dotnet",
    "gh",
    "brew",
    "apt",
    "systemctl",
    "rustup",
    "mvn",
    "gradle",
    "terraform",
];

/// Whether nothing but the command and how long it may take is set.
fn is_plain(args: &Value) -> bool {
    let known = |key: &String| {
        COMMANDS.contains(&key.as_str()) || ["description", "timeout", "timeout_ms"].contains(&key.as_str())
    };
    args.as_object().is_some_and(|args| args.keys().all(known))
}

/// The words that tell one kind of command from another, of a command that is nothing but words: the program, and its
/// subcommand where there is one. None where the shell would make more of it than words.
fn beginning(line: &str) -> Option<Vec<String>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./:=@%+,".contains(c);
    if !line.chars().all(plain) {
        return None;
    }
    let mut words = line.split(' ').filter(|word| !word.is_empty());
    let program = words.next().filter(|word| !word.contains('='))?;
    let name = program.rsplit('/').next().unwrap_or(program);
    if RUNNERS.contains(&name) {
        return None;
    }
    if !OF_MANY.contains(&name) {
        return Some(vec![program.to_owned()]);
    }
    // Before the subcommand there may be options that change what it does.
    let subcommand = words.next().filter(|word| !word.starts_with('-'))?;
    Some(vec![program.to_owned(), subcommand.to_owned()])
}

/// The project's folder that a path lies in, by its spelling; a relative one lies in the first.
fn root_of(path: &Path, roots: &[PathBuf]) -> Option<PathBuf> {
    let climbs = path.components().any(|part| part == std::path::Component::ParentDir);
    if climbs {
        return None;
    }
    if path.is_relative() {
        return roots.first().cloned();
    }
    roots.iter().find(|root| path.starts_with(root)).cloned()
}

/// What was allowed for a whole session.
#[derive(Debug, Default)]
pub(super) struct Remembered(Mutex<HashSet<Scope>>);

impl Remembered {
    pub(super) fn holds(&self, scope: &Scope) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(scope)
    }

    pub(super) fn add(&self, scope: Scope) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(scope);
    }

    pub(super) fn clear(&self) -> usize {
        let mut scopes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *scopes).len()
    }
}

/// What may be chosen.
pub(super) fn options(scope: &Scope) -> Vec<PermissionOption> {
    use PermissionOptionKind::{AllowAlways, AllowOnce, RejectOnce};
    let option = |id: &str, name: String, kind| {
        PermissionOption::new(PermissionOptionId::from(id.to_owned()), name, kind)
    };
    vec![
        option("allow_once", "Allow".to_owned(), AllowOnce),
        option("allow_always", scope.name(), AllowAlways),
        option("reject_once", "Reject".to_owned(), RejectOnce),
    ]
}

/// What was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// Yes, to this call.
    Once,
    /// Yes, to all of this kind in the session.
    Always,
    /// No.
    No,
    /// The question was put away without an answer.
    Dismissed,
    /// An answer that is none of what was offered.
    Unclear,
}

/// What an outcome says, by the kind of what was chosen from what was offered.
pub(super) fn said(outcome: &RequestPermissionOutcome, offered: &[PermissionOption]) -> Said {
    let chosen = match outcome {
        RequestPermissionOutcome::Selected(chosen) => &chosen.option_id,
        RequestPermissionOutcome::Cancelled => return Said::Dismissed,
        _ => return Said::Unclear,
    };
    match offered.iter().find(|option| option.option_id == *chosen).map(|option| &option.kind) {
        Some(PermissionOptionKind::AllowOnce) => Said::Once,
        Some(PermissionOptionKind::AllowAlways) => Said::Always,
        Some(PermissionOptionKind::RejectOnce | PermissionOptionKind::RejectAlways) => Said::No,
        _ => Said::Unclear,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::protocol::SelectedPermissionOutcome;

    fn scope(tool: &str, args: &Value) -> Scope {
        Scope::of(tool, args, &[PathBuf::from("/work/app"), PathBuf::from("/work/lib")])
    }

    #[test]
    fn a_yes_for_the_session_covers_commands_that_begin_alike_and_are_nothing_but_words() {
        let bash = |command: &str| scope("Bash", &json!({ "command": command }));
        assert_eq!(bash("cargo test --lib"), bash("cargo test"));
        assert_ne!(bash("cargo test"), bash("cargo run"));
        assert_eq!(bash("ls -l /etc"), bash("ls"));
        assert_eq!(bash("echo hi"), bash("echo there"));
        assert!(matches!(bash("git -c core.pager=x log"), Scope::Exactly { .. }));
        for more in
            ["cargo test; rm -rf x", "cargo test && y", "cargo test $(x)", "cargo test > f", "cargo test\nx"]
        {
            assert_ne!(bash(more), bash("cargo test"), "{more}");
            assert!(matches!(bash(more), Scope::Exactly { .. }), "{more}");
        }
        for runner in ["sh x", "env x", "/bin/bash x", "sudo ls", "A=b ls"] {
            assert!(matches!(bash(runner), Scope::Exactly { .. }), "{runner}");
        }
        assert!(matches!(
            scope("Bash", &json!({ "command": "ls", "run_in_background": true })),
            Scope::Exactly { .. }
        ));
    }

    #[test]
    fn a_yes_for_the_session_covers_files_of_the_same_folder() {
        let write = |path: &str| scope("Write", &json!({ "file_path": path, "content": "x" }));
        assert_eq!(write("/work/app/a"), write("b/c"));
        assert_ne!(write("/work/app/a"), write("/work/lib/a"));
        assert_eq!(write("../a"), Scope::Tool("Write".into()));
    }

    #[test]
    fn only_the_kind_of_an_offered_option_is_a_yes() {
        let offered = options(&Scope::Tool("Write".into()));
        let chosen = |id: &str| {
            let outcome = SelectedPermissionOutcome::new(PermissionOptionId::from(id.to_owned()));
            said(&RequestPermissionOutcome::Selected(outcome), &offered)
        };
        assert_eq!(chosen("allow_once"), Said::Once);
        assert_eq!(chosen("allow_always"), Said::Always);
        assert_eq!(chosen("reject_once"), Said::No);
        for unclear in ["", "allow", "ALLOW_ONCE", "reject_always", "0"] {
            assert_eq!(chosen(unclear), Said::Unclear, "{unclear:?}");
        }
        assert_eq!(said(&RequestPermissionOutcome::Cancelled, &offered), Said::Dismissed);
        // An option that was renamed counts by its kind.
        let odd = [PermissionOption::new(
            PermissionOptionId::from("allow_once".to_owned()),
            "Yes",
            PermissionOptionKind::RejectOnce,
        )];
        let outcome = SelectedPermissionOutcome::new(PermissionOptionId::from("allow_once".to_owned()));
        assert_eq!(said(&RequestPermissionOutcome::Selected(outcome), &odd), Said::No);
    }
}
