//! The messages of a shell about a program that it cannot start.

/// The names of shells, as they begin their messages.
const SHELLS: &[&str] = &["sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "fish"];

/// The end of a message about a program that was not found.
const NOT_FOUND_ENDS: &[&str] = &[
    ": command not found",
    ": not found",
    ": No such file or directory",
];
/// The beginning of such a message.
const NOT_FOUND_STARTS: &[&str] = &[
    "command not found: ",
    "no such file or directory: ",
    "Unknown command: ",
];

/// The words for a file that is there and cannot be executed.
const NOT_EXECUTABLE: &[&str] = &[
    "ermission denied",
    "annot execute",
    "s a directory",
    "xec format error",
    "bad interpreter",
];

/// Returns what a shell says in a line, without its own name and the number of its line; `None` for a line of another
/// program. Shells begin with `bash: line 1: `, `sh: 1: `, `zsh:1: `, `./build.sh: line 3: ` or `ksh: `.
fn shell_message(line: &str) -> Option<&str> {
    let (name, rest) = line.trim_end().split_once(':')?;
    let rest = rest.trim_start();
    let numbered = rest.strip_prefix("line ").unwrap_or(rest).split_once(": ");
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
    if let Some((_, message)) = numbered.filter(|(number, _)| is_number(number)) {
        return Some(message);
    }
    let is_shell = name
        .rsplit('/')
        .next()
        .is_some_and(|name| SHELLS.contains(&name));
    is_shell.then_some(rest)
}

/// Returns the program that a shell did not find, if a line says so.
pub fn program_not_found(line: &str) -> Option<&str> {
    let message = shell_message(line)?;
    let mut ends = NOT_FOUND_ENDS.iter();
    let mut starts = NOT_FOUND_STARTS.iter();
    let named = ends
        .find_map(|end| message.strip_suffix(end))
        .or_else(|| starts.find_map(|start| message.strip_prefix(start)));
    // `cd: /x` is a builtin's message about its argument.
    named.filter(|name| !name.contains(": "))
}

/// Returns whether a line is a shell's about a file that it could not execute.
pub fn says_not_executable(line: &str) -> bool {
    shell_message(line)
        .is_some_and(|message| NOT_EXECUTABLE.iter().any(|words| message.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_shell_names_the_program_that_it_did_not_find() {
        for line in [
            "bash: line 1: tool: command not found",
            "bash: tool: command not found\r",
            "/bin/sh: 1: tool: not found",
            "sh: tool: not found",
            "zsh:1: command not found: tool",
            "fish: Unknown command: tool",
            "./build.sh: line 30: tool: No such file or directory",
        ] {
            assert_eq!(program_not_found(line), Some("tool"), "{line}");
        }
    }

    #[test]
    fn the_words_of_other_programs_are_not_a_shells() {
        for line in [
            "",
            "lookup: tool: not found",
            "error: key not found",
            "bash: line 1: cd: tool: No such file or directory",
            "bash: line 1: tool: Permission denied",
        ] {
            assert_eq!(program_not_found(line), None, "{line}");
        }
        assert!(says_not_executable("bash: line 1: ./x: Permission denied"));
        assert!(says_not_executable("sh: 1: ./x: Exec format error"));
        assert!(!says_not_executable("cat: /x: Permission denied"));
    }
}
