//! The scope of a permission for a whole session. It is exactly the same call, except for a file tool in one workspace
//! folder and a few commands with known effects.

use std::path::PathBuf;

use serde_json::Value;

use punie_host::{RawPath, Workspace};
use punie_tool::{AllowScope, CallDescription, CallView, RequestedCommand};

/// The calls that a permission for the whole session covers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum PermissionScope {
    /// This tool on files of this workspace folder.
    Folder { tool: String, root: PathBuf },
    /// This tool with simple commands that begin with these words.
    Command { tool: String, words: Vec<String> },
    /// This tool with exactly these arguments.
    ExactCall { tool: String, args: String },
}

/// Programs that only show something, with any plain arguments.
const READ_ONLY_PROGRAMS: &[&str] = &[
    "ls", "cat", "head", "tail", "wc", "grep", "pwd", "echo", "which", "stat", "du", "df", "diff",
    "cmp", "true", "false", "uname",
];
/// Programs with subcommands, and the subcommands with known effects.
const KNOWN_SUBCOMMANDS: &[(&str, &[&str])] = &[
    (
        "cargo",
        &[
            "build", "check", "test", "clippy", "fmt", "doc", "bench", "tree",
        ],
    ),
    ("git", &["status", "log", "diff", "show", "blame"]),
    ("go", &["build", "test", "vet"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
];
/// Options that make one of those programs write elsewhere or run another program.
const REFUSED_OPTIONS: &[&str] = &[
    "--output",
    "--config",
    "--ext-diff",
    "--textconv",
    "-c",
    "-C",
    "-O",
    "-o",
];

impl PermissionScope {
    /// Returns the widest scope that allowing this call may have.
    pub(super) fn widest_for_call(call: CallView<'_>, workspace: Option<&Workspace>) -> Self {
        let wider = Self::beyond_same_call(&call.tool.name, call.description, workspace);
        wider.unwrap_or_else(|| Self::exact_call(&call.tool.name, call.args))
    }

    /// Returns a scope that covers more than the same call, if the tool and the call allow it.
    fn beyond_same_call(
        tool: &str,
        call: &CallDescription,
        workspace: Option<&Workspace>,
    ) -> Option<Self> {
        let tool = tool.to_owned();
        let access = &call.access;
        match call.scope {
            AllowScope::SameCall => None,
            AllowScope::SameFolder => {
                let path = RawPath::from(access.writes.first()?.as_str());
                let root = workspace?
                    .resolve_inside(&path)
                    .ok()?
                    .root_path()
                    .to_owned();
                Some(Self::Folder { tool, root })
            }
            AllowScope::SameCommand => match &access.command.as_ref()?.text {
                RequestedCommand::Line(line) => Some(Self::Command {
                    tool,
                    words: command_prefix(line)?,
                }),
                RequestedCommand::Program(..) | RequestedCommand::Typed(..) => None,
            },
        }
    }

    /// Returns the scope of these arguments, in any order.
    pub(super) fn exact_call(tool: &str, args: &Value) -> Self {
        let mut args = args.clone();
        args.sort_all_objects();
        Self::ExactCall {
            tool: tool.to_owned(),
            args: args.to_string(),
        }
    }

    /// Returns the label of the option that the person sees.
    pub(super) fn option_label(&self) -> String {
        match self {
            Self::Folder { tool, root } => {
                format!("Allow {tool} in {} for this session", root.display())
            }
            Self::Command { words, .. } => {
                format!("Allow `{} …` for this session", words.join(" "))
            }
            Self::ExactCall { tool, .. } => {
                format!("Allow exactly this {tool} call for this session")
            }
        }
    }
}

/// Returns the words that identify a simple command's effect; `None` for any command that is not plain and known.
fn command_prefix(line: &str) -> Option<Vec<String>> {
    let plain = |c: char| c.is_ascii_alphanumeric() || " _-./:=@%+,".contains(c);
    if !line.chars().all(plain) {
        return None;
    }
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    let (program, rest) = words.split_first()?;
    if READ_ONLY_PROGRAMS.contains(program) {
        return Some(vec![(*program).to_owned()]);
    }
    let (_, firsts) = KNOWN_SUBCOMMANDS.iter().find(|(name, _)| name == program)?;
    let (first, rest) = rest.split_first()?;
    let tells = |word: &&str| {
        REFUSED_OPTIONS
            .iter()
            .any(|telling| word.starts_with(telling))
    };
    if !firsts.contains(first) || rest.iter().any(tells) {
        return None;
    }
    Some(vec![(*program).to_owned(), (*first).to_owned()])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use punie_tool::DeclaredAccess;

    fn bash(command: &str) -> Option<PermissionScope> {
        let access =
            DeclaredAccess::running_command(RequestedCommand::Line(command.to_owned()), None);
        let call = CallDescription {
            access,
            scope: AllowScope::SameCommand,
            ..CallDescription::default()
        };
        PermissionScope::beyond_same_call("Bash", &call, None)
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
        let one = dir.path().join("one");
        let two = dir.path().join("two");
        for root in [&one, &two] {
            std::fs::DirBuilder::new().create(root).expect("made");
        }
        let workspace = Workspace::open_roots(&[one.clone(), two.clone()]).expect("a workspace");
        let write = |path: &str| {
            let call = CallDescription {
                access: DeclaredAccess::writing_paths([path]),
                scope: AllowScope::SameFolder,
                ..CallDescription::default()
            };
            PermissionScope::beyond_same_call("Write", &call, Some(&workspace))
        };
        assert_eq!(write(&format!("{}/a", one.display())), write("b/c"));
        assert_ne!(write("a"), write(&format!("{}/a", two.display())));
        for outside in ["../a", "/etc/passwd", ""] {
            assert_eq!(write(outside), None, "{outside}");
        }
        let one_link = one.join("link");
        std::os::unix::fs::symlink(&two, &one_link).expect("a link");
        assert_eq!(
            write("link/x"),
            write(&format!("{}/x", two.display())),
            "where it would be written"
        );
    }

    #[test]
    fn a_yes_to_the_same_call_covers_exactly_its_arguments_in_any_order() {
        let call = |args: Value| PermissionScope::exact_call("OpenApp", &args);
        assert_eq!(
            call(json!({ "b": 1, "a": 2 })),
            call(json!({ "a": 2, "b": 1 }))
        );
        assert_ne!(call(json!({ "a": 1 })), call(json!({ "a": 2 })));
    }
}
