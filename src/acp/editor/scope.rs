//! How far a yes for a whole session reaches. Narrow where in doubt: exactly the same call. Wider only for a file tool in
//! one folder of the workspace, and for a few commands whose first words say what they do.

use std::path::PathBuf;

use serde_json::Value;

use crate::acp::{RawPath, Workspace};

/// How far a yes for the whole session reaches.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    /// This tool on files of this folder of the workspace.
    Folder { tool: String, root: PathBuf },
    /// This tool with simple commands that begin with these words.
    Command { tool: String, words: Vec<String> },
    /// This tool with exactly these arguments.
    Exactly { tool: String, args: String },
}

/// Tools that write one file, which they name.
const ONE_FILE: &[&str] = &["Write", "Edit", "MultiEdit", "write_file"];
/// The names of that argument.
const PATHS: &[&str] = &["file_path", "path"];
/// Tools whose command is a line for the shell.
const LINES: &[&str] = &["Bash"];
/// What may stand beside the command without changing what it does.
const BESIDE: &[&str] = &["command", "description", "timeout_ms"];

/// Programs that only show, whatever plain words follow.
const SHOWING: &[&str] = &[
    "ls", "cat", "head", "tail", "wc", "grep", "pwd", "echo", "which", "stat", "du", "df", "diff", "cmp",
    "true", "false", "uname",
];
/// Programs that are many programs: with which first words what they do is known.
const BY_FIRST_WORD: &[(&str, &[&str])] = &[
    ("cargo", &["build", "check", "test", "clippy", "fmt", "doc", "bench", "tree"]),
    ("git", &["status", "log", "diff", "show", "blame"]),
    ("go", &["build", "test", "vet"]),
    ("npm", &["test"]),
    ("pnpm", &["test"]),
    ("yarn", &["test"]),
];
/// Words by which one of those would write elsewhere, or run something that it was not asked for.
const TELLING: &[&str] = &["--output", "--config", "--ext-diff", "--textconv", "-c", "-C", "-O", "-o"];

impl Scope {
    /// What a yes to this call may be taken to cover. The arguments are under their own names.
    pub(super) fn of(tool: &str, args: &Value, workspace: Option<&Workspace>) -> Self {
        let text = |names: &[&str]| names.iter().find_map(|name| args.get(name)?.as_str());
        if LINES.contains(&tool) {
            let words = text(&["command"]).filter(|_| is_plain(args)).and_then(beginning);
            return words.map_or_else(
                || Self::exactly(tool, args),
                |words| Self::Command { tool: tool.to_owned(), words },
            );
        }
        let root = ONE_FILE.contains(&tool).then(|| text(PATHS)).flatten().and_then(|path| {
            let found = workspace?.resolve(&RawPath::from(path)).ok()?;
            Some(found.root().to_owned())
        });
        match root {
            Some(root) => Self::Folder { tool: tool.to_owned(), root },
            None => Self::exactly(tool, args),
        }
    }

    /// These arguments, in whatever order they come.
    pub(super) fn exactly(tool: &str, args: &Value) -> Self {
        let mut args = args.clone();
        args.sort_all_objects();
        Self::Exactly { tool: tool.to_owned(), args: args.to_string() }
    }

    /// As the person reads it.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Folder { tool, root } => format!("Allow {tool} in {} for this session", root.display()),
            Self::Command { words, .. } => format!("Allow `{} …` for this session", words.join(" ")),
            Self::Exactly { tool, .. } => format!("Allow exactly this {tool} call for this session"),
        }
    }
}

/// Whether nothing but the command and how long it may take is set.
fn is_plain(args: &Value) -> bool {
    args.as_object().is_some_and(|args| args.keys().all(|key| BESIDE.contains(&key.as_str())))
}

/// The words that tell what a command does, of one that is nothing but words and known by its first ones.
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

    fn bash(command: &str) -> Scope {
        Scope::of("Bash", &json!({ "command": command }), None)
    }

    #[test]
    fn a_yes_covers_known_commands_that_begin_alike_and_are_nothing_but_words() {
        assert_eq!(bash("cargo test --lib"), bash("cargo  test"));
        assert_ne!(bash("cargo test"), bash("cargo build"));
        assert_eq!(bash("ls -l /etc"), bash("ls"));
        for exactly in [
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
            assert!(matches!(bash(exactly), Scope::Exactly { .. }), "{exactly}");
            assert_ne!(bash(exactly), bash(&format!("{exactly} more")));
        }
        for beside in
            [json!({ "command": "ls", "run_in_background": true }), json!({ "command": "ls", "cwd": "/" })]
        {
            assert!(matches!(Scope::of("Bash", &beside, None), Scope::Exactly { .. }), "{beside}");
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
        let write =
            |path: &str| Scope::of("Write", &json!({ "file_path": path, "content": "x" }), Some(&workspace));
        assert_eq!(write(&format!("{}/a", one.display())), write("b/c"));
        assert_ne!(write("a"), write(&format!("{}/a", two.display())));
        for outside in ["../a", "/etc/passwd", ""] {
            assert!(matches!(write(outside), Scope::Exactly { .. }), "{outside}");
        }
        let one_link = one.join("link");
        std::os::unix::fs::symlink(&two, &one_link).expect("a link");
        assert_eq!(write("link/x"), write(&format!("{}/x", two.display())), "where it would be written");
    }

    #[test]
    fn every_other_tool_is_allowed_exactly_as_it_was_asked() {
        let task = |command: &str| {
            let args = json!({ "tool": "Bash", "args": { "command": command } });
            Scope::of("Task", &args, None)
        };
        assert_ne!(task("cargo build"), task("rm -rf ~"));
        assert_eq!(task("cargo build"), task("cargo build"));
        for tool in ["run_command", "ApplyPatch", "OpenApp", "SqliteQuery", "ide_rename"] {
            let scope = |x: &str| Scope::of(tool, &json!({ "command": x, "path": x, "patch": x }), None);
            assert_ne!(scope("a"), scope("b"), "{tool}");
        }
        let other_order = Scope::of("OpenApp", &json!({ "b": 1, "a": 2 }), None);
        assert_eq!(other_order, Scope::of("OpenApp", &json!({ "a": 2, "b": 1 }), None));
    }
}
