//! Shells and interpreters whose words are programs themselves. Not here: builtins; wrappers, behind which a command
//! stands word by word.

use super::builtins::builtin;
use super::names::sets_git_program;
use super::{Simple, Word};

const READS_ITS_FILES: &str = "it runs files of its own first, or what it ran before";

/// Shells whose command lines bash would read alike, as far as they are read here.
const SHELLS: &[&str] = &["bash", "sh", "dash", "ksh", "mksh", "ash", "rbash"];
/// Shells of another language.
const STRANGE_SHELLS: &[&str] =
    &["zsh", "fish", "csh", "tcsh", "nu", "pwsh", "powershell", "elvish", "xonsh"];
/// Interpreters, and the options behind which they take a program.
const INTERPRETERS: &[(&str, &[char])] = &[
    ("python", &['c']),
    ("pypy", &['c']),
    ("perl", &['e', 'E']),
    ("ruby", &['e']),
    ("node", &['e', 'p']),
    ("nodejs", &['e', 'p']),
    ("bun", &['e', 'p']),
    ("php", &['r']),
    ("lua", &['e']),
    ("osascript", &['e']),
    ("Rscript", &['e']),
];
/// Programs that hand text to a shell, whatever their options.
const HAND_TO_SHELL: &[&str] = &[
    "su",
    "runuser",
    "watch",
    "script",
    "parallel",
    "flock",
    "systemd-run",
    "at",
    "batch",
    "ssh",
    "expect",
    "hyperfine",
    "tmux",
    "screen",
    "sg",
];
/// What a command does with text in its words.
pub(super) enum Program {
    /// Nothing.
    None,
    /// It runs this as a command line; and why it may run more, if so.
    Script(String, Option<&'static str>),
    /// It runs something that is not in its words.
    Opaque(&'static str),
    /// It changes what later words mean.
    Hidden(&'static str),
}

pub(super) const NOT_WRITTEN_OUT: &str = "what it runs is not written out";

/// What this command does, by its name.
pub(super) fn program(name: &str, simple: &Simple) -> Program {
    match builtin(name, simple) {
        Program::None => {}
        known => return known,
    }
    match name {
        "git" if sets_git_program(&simple.words[1..]) => {
            Program::Hidden("it sets which command git runs by a name")
        }
        _ if SHELLS.contains(&name) => shell(name, simple),
        _ if STRANGE_SHELLS.contains(&name) => Program::Opaque("its language is not read here"),
        _ if HAND_TO_SHELL.contains(&name) => Program::Opaque("it hands its words to a shell"),
        "awk" | "gawk" | "mawk" | "nawk" if simple.words.iter().any(runs_in_awk) => {
            Program::Opaque("its program may start commands")
        }
        _ => interpreter(name, simple),
    }
}

/// Whether this is a shell that is read here.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// `system(...)`, a pipe to a command or from one. `||` is none.
fn runs_in_awk(word: &Word) -> bool {
    word.text.contains("system") || word.text.replace("||", "").contains('|')
}

/// `bash` and its kin: `-c TEXT`, a script's file, or commands from its input.
fn shell(name: &str, simple: &Simple) -> Program {
    let words = &simple.words[1..];
    let (mut at, mut takes_text, mut more) = (0, false, None);
    while let Some(word) = words.get(at) {
        if !word.literal {
            return Program::Opaque(NOT_WRITTEN_OUT);
        }
        let text = word.text.as_str();
        at += 1;
        if text == "-" || text == "--" {
            break;
        }
        if let Some(long) = text.strip_prefix("--") {
            match long {
                "rcfile" | "init-file" => {
                    at += 1;
                    more = Some(READS_ITS_FILES);
                }
                "version" | "help" => return Program::None,
                "login" | "norc" | "noprofile" | "posix" | "restricted" | "verbose" | "noediting" => {}
                _ => return Program::Opaque("its options are not known here"),
            }
            continue;
        }
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) else {
            at -= 1;
            break;
        };
        if text.starts_with('-') {
            if letters.contains('s') {
                return Program::Opaque("it runs what it reads");
            }
            takes_text |= letters.contains('c');
        }
        if letters.contains(['i', 'H']) {
            more = Some(READS_ITS_FILES);
        }
        for value in words.iter().skip(at).take(letters.matches(['o', 'O']).count()) {
            if !value.literal {
                return Program::Opaque(NOT_WRITTEN_OUT);
            }
            if value.text.starts_with("hist") {
                more = Some("it may run what it ran before");
            }
            at += 1;
        }
    }
    match words.get(at) {
        // Other shells know no `$'...'`: what is quoted in there for one is a command for the other.
        Some(script)
            if takes_text
                && script.literal
                && !matches!(name, "bash" | "rbash")
                && script.text.contains("$'") =>
        {
            Program::Opaque("its text means other things to other shells")
        }
        Some(script) if takes_text && script.literal => Program::Script(script.text.clone(), more),
        Some(script) if takes_text || !script.literal => Program::Opaque(NOT_WRITTEN_OUT),
        // `/dev/stdin` and its kin are what it reads, too.
        Some(script) if script.text.starts_with("/dev/") || script.text.starts_with("/proc/") => {
            Program::Opaque("it runs what it reads")
        }
        Some(_) => more.map_or(Program::None, Program::Opaque),
        None => Program::Opaque("it runs what it reads"),
    }
}

/// An interpreter that is given a program in its words, or reads one.
fn interpreter(name: &str, simple: &Simple) -> Program {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let Some((_, letters)) = INTERPRETERS.iter().find(|(known, _)| *known == bare || *known == name) else {
        return Program::None;
    };
    let words = &simple.words[1..];
    let gives_text = |text: &str| {
        text == "-"
            || matches!(text, "--eval" | "--print" | "--run")
            || text.strip_prefix('-').is_some_and(|rest| !rest.starts_with('-') && rest.contains(*letters))
    };
    let asks_only = |text: &str| matches!(text, "--version" | "-V" | "-v" | "--help" | "-h");
    match words.first() {
        None => Program::Opaque("it runs what it reads"),
        Some(word) if asks_only(&word.text) => Program::None,
        Some(_)
            if words
                .iter()
                .take_while(|word| !is_file(&word.text))
                .any(|word| !word.literal || gives_text(&word.text)) =>
        {
            Program::Opaque("it runs a program that is not read here")
        }
        Some(_) if simple.open_end && words.iter().all(|word| !is_file(&word.text)) => {
            Program::Opaque(NOT_WRITTEN_OUT)
        }
        Some(_) => Program::None,
    }
}

/// The first word that is no option: what comes after it is the script's own.
fn is_file(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-')
}
