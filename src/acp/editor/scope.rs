//! The scope of a permission for a whole session. It is exactly the same call, except for a file tool in one workspace
//! folder and a few commands with known effects.

use std::path::PathBuf;

use serde_json::Value;

use crate::acp::{RawPath, Workspace};
use crate::tool::{AllowScope, CallDescription, CallView, CommandText};

/// The calls that a permission for the whole session covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// This tool on files of this workspace folder.
    Folder { tool: String, root: PathBuf },
    /// This tool with simple commands that begin with these words.
    Command { tool: String, words: Vec<String> },
    /// This tool with exactly these arguments.
    Exactly { tool: String, args: String },
}

/// Programs that only show something, with any plain arguments.
const SHOWING: &[&str] = &[
    "ls", "cat", "head", "tail", "wc", "grep", "pwd", "echo", "which", "stat", "du", "df", "diff", "cmp",
    "true", "false", "uname",
];
/// Programs with subcommands, and the subcommands with known effects.
const BY_FIRST_WORD: &[(&str, &[&str])] = &[
    ("cargo", &["build", "check", "test", "clippy", "fmt", "doc", "bench", "tree"]),
    ("git", &["status", "log", "diff", "show", "blame"]),
    ("go", &["build", "test", "vet"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
];
/// Options that make one of those programs write elsewhere or run another program.
const TELLING: &[&str] = &["--output", "--config", "--ext-diff", "--textconv", "-c", "-C", "-O", "-o"];

impl Scope {
    /// Returns the widest scope that allowing this call may have.
    pub(super) fn of_call(call: CallView<'_>, workspace: Option<&Workspace>) -> Self {
        let wider = Self::wider(&call.tool.name, call.description, workspace);
        wider.unwrap_or_else(|| Self::same_call(&call.tool.name, call.args))
    }

    /// Returns a scope that covers more than the same call, if the tool and the call allow it.
    fn wider(tool: &str, call: &CallDescription, workspace: Option<&Workspace>) -> Option<Self> {
        let (tool, access) = (tool.to_owned(), &call.access);
        match call.scope {
            AllowScope::SameCall => None,
            AllowScope::SameFolder => {
                let path = RawPath::from(access.writes.first()?.as_str());
                let root = workspace?.resolve(&path).ok()?.root().to_owned();
                Some(Self::Folder { tool, root })
            }
            AllowScope::SameCommand => match &access.command.as_ref()?.text {
                CommandText::Line(line) => Some(Self::Command { tool, words: beginning(line)? }),
                CommandText::Program(..) | CommandText::Typed(..) => None,
            },
        }
    }

    /// Returns the scope of these arguments, in any order.
    pub(super) fn same_call(tool: &str, args: &Value) -> Self {
        let mut args = args.clone();
        args.sort_all_objects();
        Self::Exactly { tool: tool.to_owned(), args: args.to_string() }
    }

    /// Returns the label of the option that the person sees.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Folder { tool, root } => format!("Allow {tool} in {} for this session", root.display()),
            Self::Command { words, .. } => format!("Allow `{} …` for this session", words.join(" ")),
            Self::Exactly { tool, .. } => format!("Allow exactly this {tool} call for this session"),
        }
    }
}

/// Returns the words that identify a simple command's effect; `None` for any command that is not plain and known.
fn beginning(line: &str) -> Option<Vec<String>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./:=@%+,".contains(c);
    if !line.chars().all(plain) {
        return None;
    }
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (program, rest) = words.split_first()?;
    if SHOWING.contains(program) {
        return Some(vec![(*program).to_owned()]);
    }
    let (_, firsts) = BY_FIRST_WORD.iter().find(|(name, _)| name == program)?;
    let (first, rest) = rest.split_first()?;
    let tells = |word: &&str| TELLING.iter().any(|telling| word.starts_with(telling));
    if !firsts.contains(first) || rest.iter().any(tells) {
        return None;
    }
    Some(vec![(*program).to_owned(), (*first).to_owned()])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::tool::Access;

    fn bash(command: &str) -> Option<Scope> {
        let access = Access::command(CommandText::Line(command.to_owned()), None);
        let call = CallDescription { access, scope: AllowScope::SameCommand, ..CallDescription::default() };
        Scope::wider("Bash", &call, None)
    }

    #[test]
    fn a_yes_covers_known_commands_that_begin_alike_and_are_nothing_but_words() {
        assert_eq!(bash("cargo test --lib"), bash("cargo  test"));
        assert_ne!(bash("cargo test"), bash("cargo build"));
        assert_eq!(bash("ls -l /etc"), bash("ls"));
        for same_call in [
            "cargo test; rm -rf x",
            "cargo test && y",
            "cargo test $(x)",
            "cargo test > f",
            "cargo test\nx",
            "cargo run",
            "cargo test --config x=y",
            "git -c core.pager=x log",
            "git log --output=f",
            "git push",
            "npm run deploy",
            "sh x",
            "env x",
            "command rm -rf x",
            ". a.sh",
            "./t.sh",
            "/tmp/ls",
            "A=b ls",
            "find . -delete",
            "",
        ] {
            assert_eq!(bash(same_call), None, "{same_call}");
        }
    }

    #[test]
    fn a_yes_covers_files_of_the_folder_that_the_tool_would_write_to() {
        let dir = tempfile::tempdir().expect("a folder");
        let (one, two) = (dir.path().join("one"), dir.path().join("two"));
        for root in [&one, &two] {
            std::fs::DirBuilder::new().create(root).expect("made");
        }
        let workspace = Workspace::open(&[one.clone(), two.clone()]).expect("a workspace");
        let write = |path: &str| {
            let call = CallDescription {
                access: Access::writes([path]),
                scope: AllowScope::SameFolder,
                ..CallDescription::default()
            };
            Scope::wider("Write", &call, Some(&workspace))
        };
        assert_eq!(write(&format!("{}/a", one.display())), write("b/c"));
        assert_ne!(write("a"), write(&format!("{}/a", two.display())));
        for outside in ["../a", "/etc/passwd", ""] {
            assert_eq!(write(outside), None, "{outside}");
        }
        let one_link = one.join("link");
        std::os::unix::fs::symlink(&two, &one_link).expect("a link");
        assert_eq!(write("link/x"), write(&format!("{}/x", two.display())), "where it would be written");
    }

    #[test]
    fn a_yes_to_the_same_call_covers_exactly_its_arguments_in_any_order() {
        let call = |args: Value| Scope::same_call("OpenApp", &args);
        assert_eq!(call(json!({ "b": 1, "a": 2 })), call(json!({ "a": 2, "b": 1 })));
        assert_ne!(call(json!({ "a": 1 })), call(json!({ "a": 2 })));
    }
}
