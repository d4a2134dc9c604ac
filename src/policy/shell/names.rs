//! Names that matter: variables by which programs run others, and how a program's name is compared. Not here: what the
//! programs do.

/// Variables whose value a shell or a program runs, or takes commands from.
const PROGRAM_VARIABLES: &[&str] =
    &["BASH_ENV", "ENV", "PROMPT_COMMAND", "BASH_CMDS", "BASH_ALIASES", "SHELLOPTS", "BASHOPTS"];
/// Beginnings of the names of more of them.
const PROGRAM_PREFIXES: &[&str] = &["GIT_", "LD_", "DYLD_", "BASH_FUNC_"];
/// Variables that hold a program's name, which is often a harmless one.
const PAGERS: &[&str] =
    &["PAGER", "EDITOR", "VISUAL", "GIT_PAGER", "GIT_EDITOR", "GIT_SEQUENCE_EDITOR", "MANPAGER"];
/// Programs that do no more than show or leave a file as it is.
const HARMLESS: &[&str] = &["", "cat", "true", ":", "less", "more"];
/// Variables of git that only say who and how.
const PLAIN_GIT: &[&str] = &["GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"];

/// Whether `NAME=VALUE` sets a variable by which programs run others.
pub(super) fn sets_program(text: &str) -> bool {
    let Some((name, value)) = text.split_once('=') else { return false };
    let name = name.split(['[', '+']).next().unwrap_or(name);
    if PAGERS.contains(&name) {
        return !HARMLESS.contains(&value);
    }
    names_program(name)
}

/// Whether a variable of this name is one by which programs run others.
pub(super) fn names_program(name: &str) -> bool {
    let harmless =
        PLAIN_GIT.contains(&name) || name.starts_with("GIT_AUTHOR_") || name.starts_with("GIT_COMMITTER_");
    !harmless
        && (PROGRAM_VARIABLES.contains(&name)
            || PAGERS.contains(&name)
            || PROGRAM_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
}

/// Whether a text names bash's own lists of what a command's name stands for.
pub(super) fn is_command_table(text: &str) -> bool {
    text.contains("BASH_CMDS") || text.contains("BASH_ALIASES")
}

/// A program's name without its folder, as it is compared with the names that are known here. Where the system does not
/// tell case apart, neither does this, nor the ending of programs there.
pub(super) fn known_name(text: &str, folds_case: bool) -> String {
    let name = super::base_name(text);
    if !folds_case {
        return name.to_owned();
    }
    let name = name.to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// Parts of the names of git's settings by which it runs commands.
const GIT_PROGRAMS: &[&str] = &[
    "alias.",
    "pager",
    "editor",
    "command",
    "helper",
    "external",
    "textconv",
    "cmd",
    "hook",
    "fsmonitor",
    "program",
    "filter.",
    "driver",
    "askpass",
    "proxy",
    "uploadpack",
    "receivepack",
    "include",
];

/// Whether words of git's set what it runs: an alias, a pager, a helper.
pub(super) fn sets_git_program(words: &[super::Word]) -> bool {
    let runs = |text: &str| GIT_PROGRAMS.iter().any(|part| text.contains(part));
    let value = |pair: &[super::Word]| {
        let name = pair[1].text.split('=').next().unwrap_or_default().to_ascii_lowercase();
        pair[0].text == "-c" && (!pair[1].literal && !pair[1].text.contains('=') || runs(&name))
    };
    words.windows(2).any(value)
        || words.iter().any(|word| {
            let text = word.text.to_ascii_lowercase();
            text.contains("alias.") || text.contains("--config-env")
        })
}
