//! Commands that are known to change no file. Not here: permission to run them (gate).

use punie_policy::command_line::{CommandLine, SimpleCommand, read_command_line, read_program};
use punie_tool::{DeclaredAccess, RequestedCommand};

/// Programs that write nothing, whatever their arguments are.
const READERS: &[&str] = &[
    "[",
    "basename",
    "cat",
    "cd",
    "cmp",
    "comm",
    "cut",
    "date",
    "df",
    "dirname",
    "du",
    "echo",
    "expr",
    "false",
    "grep",
    "egrep",
    "fgrep",
    "head",
    "hostname",
    "id",
    "ls",
    "md5sum",
    "nl",
    "nproc",
    "od",
    "paste",
    "printenv",
    "ps",
    "pwd",
    "readlink",
    "realpath",
    "seq",
    "sha1sum",
    "sha256sum",
    "sleep",
    "stat",
    "tac",
    "tail",
    "test",
    "tr",
    "true",
    "type",
    "uname",
    "wc",
    "which",
    "whoami",
];
/// Subcommands of git that change no file of the working tree, and start no program of the repository's.
const GIT_READERS: &[&str] = &["rev-parse", "ls-files", "ls-tree", "cat-file", "merge-base"];

/// Returns whether a call runs only commands that are known to change no file.
pub fn only_reads(access: &DeclaredAccess) -> bool {
    let Some(command) = &access.command else {
        return false;
    };
    if access.starts_programs || !command.env.is_empty() {
        return false;
    }
    match &command.text {
        RequestedCommand::Line(line) => is_all_readers(&read_command_line(line)),
        RequestedCommand::Program(program, args) => is_all_readers(&read_program(program, args)),
        // What is typed goes to a program whose change began with it.
        RequestedCommand::Typed(..) => true,
    }
}

fn is_all_readers(line: &CommandLine) -> bool {
    line.unanalysed.is_empty()
        && !line.sets_variables
        && !line.sets_path
        && !line.commands.is_empty()
        && line.commands.iter().all(is_reader)
}

fn is_reader(command: &SimpleCommand) -> bool {
    let writes = command
        .redirections
        .iter()
        .any(|to| to.writes && to.target.text != "/dev/null" && !is_descriptor(&to.target.text));
    let words: Option<Vec<&str>> = command
        .words
        .iter()
        .map(|word| word.is_literal.then_some(word.text.as_str()))
        .collect();
    let is_reader = match command.words.first() {
        Some(name) if READERS.contains(&name.text.as_str()) => name.is_literal,
        _ => words.is_some_and(|words| match words.as_slice() {
            ["git", subcommand, ..] => GIT_READERS.contains(subcommand),
            _ => false,
        }),
    };
    is_reader && !writes && command.opaque.is_none() && !command.is_open_ended
}

/// Returns whether a redirection goes to an open descriptor: `2>&1`.
fn is_descriptor(target: &str) -> bool {
    !target.is_empty() && target.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_known_to_read_counts_as_a_read() {
        let reads = |line: &str| {
            let text = RequestedCommand::Line(line.to_owned());
            only_reads(&DeclaredAccess::running_command(text, None))
        };
        for line in [
            "ls -la",
            "cat a b | grep x | wc -l",
            "cd sub && ls 2>/dev/null",
            "git rev-parse HEAD",
            "echo $HOME",
        ] {
            assert!(reads(line), "{line}");
        }
        for line in [
            "ls > out",
            "echo x >> a",
            "make",
            "cat a | sh",
            "git checkout .",
            "git status",
            "find . -delete",
            "FOO=1 ls",
            "ls; rm a",
            "echo `rm a`",
            "",
        ] {
            assert!(!reads(line), "{line}");
        }
    }
}
