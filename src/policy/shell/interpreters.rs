//! What a command runs beside itself, by its name; shells. Not here: builtins; interpreters of other languages; wrappers,
//! behind which a command stands word by word.

use super::Simple;
use super::builtins::builtin;
use super::files::is_device;
use super::git::sets_git_program;
use super::languages::{interpreted, is_interpreter};
use super::tools::started_by_option;

/// Letters of a shell's options that change nothing about which commands are run, or are looked at one by one.
const SHELL_LETTERS: &str = "abcefhilmnoprstuvxBCEHOPT";
const UNKNOWN_OPTIONS: &str = "its options are not known here";
const TAKES_VARIABLES: &str = "it takes variables from behind a command's name";
const READS_ITS_FILES: &str = "it runs files of its own first, or what it ran before";

/// Shells whose command lines bash would read alike, as far as they are read here.
const SHELLS: &[&str] = &["bash", "sh", "dash", "ksh", "ksh93", "mksh", "ash", "rbash"];
/// Shells of another language.
const STRANGE_SHELLS: &[&str] =
    &["zsh", "yash", "fish", "csh", "tcsh", "nu", "pwsh", "powershell", "elvish", "xonsh"];
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

pub(super) const RUNS_WHAT_IT_READS: &str = "it runs what it reads";
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
        "tmux" if only_looks(simple) => Program::None,
        _ if HAND_TO_SHELL.contains(&name) => Program::Opaque("it hands its words to a shell"),
        _ => match interpreted(name, simple).or_else(|| started_by_option(name, simple)) {
            Some(why) => Program::Opaque(why),
            None => Program::None,
        },
    }
}

/// Whether `tmux` is told by a single word to show or to end something.
fn only_looks(simple: &Simple) -> bool {
    const LOOKS: &[&str] = &[
        "ls",
        "list-sessions",
        "list-windows",
        "list-panes",
        "has-session",
        "kill-session",
        "kill-server",
        "-V",
    ];
    matches!(&simple.words[1..], [word] if word.literal && LOOKS.contains(&word.text.as_str()) && !simple.open_end)
}

/// Whether this is a shell that is read here.
pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name)
}

/// Whether bash reads a text as another shell would: what is arithmetic, a condition, a redirection to one may be a
/// command, or two, to the other.
fn reads_alike(text: &str) -> bool {
    const STRANGE: &[&str] = &["((", "[[", "&>", "<<<", "|&", "<(", ">(", "$'"];
    // A line break after a backslash is taken out, but for comments.
    let joined = text.replace("\\\n", "");
    [text, joined.as_str()].iter().all(|text| {
        // This begins arithmetic for all of them.
        let rest = text.replace("$((", "");
        STRANGE.iter().all(|sign| !rest.contains(sign))
    })
}

/// Whether a program of this name runs a file that it is given.
pub fn runs_files(name: &str) -> bool {
    is_shell(name)
        || STRANGE_SHELLS.contains(&name)
        || is_interpreter(name)
        || matches!(name, "source" | "." | "make" | "gmake" | "just")
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
                _ => return Program::Opaque(UNKNOWN_OPTIONS),
            }
            continue;
        }
        let Some(letters) = text.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) else {
            at -= 1;
            break;
        };
        if text.starts_with('-') {
            if letters.contains('s') {
                return Program::Opaque(RUNS_WHAT_IT_READS);
            }
            takes_text |= letters.contains('c');
        }
        if letters.contains(['i', 'H']) {
            more = Some(READS_ITS_FILES);
        }
        if letters.contains('k') {
            more = Some(TAKES_VARIABLES);
        } else if !letters.chars().all(|letter| SHELL_LETTERS.contains(letter)) {
            return Program::Opaque(UNKNOWN_OPTIONS);
        }
        for value in words.iter().skip(at).take(letters.matches(['o', 'O']).count()) {
            if !value.literal {
                return Program::Opaque(NOT_WRITTEN_OUT);
            }
            if value.text.starts_with("hist") {
                more = Some("it may run what it ran before");
            } else if value.text.starts_with("key") {
                more = Some(TAKES_VARIABLES);
            }
            at += 1;
        }
    }
    match words.get(at) {
        Some(script)
            if takes_text
                && script.literal
                && !matches!(name, "bash" | "rbash")
                && !reads_alike(&script.text) =>
        {
            Program::Opaque("its text means other things to other shells")
        }
        Some(script) if takes_text && script.literal => Program::Script(script.text.clone(), more),
        Some(script) if takes_text || !script.literal => Program::Opaque(NOT_WRITTEN_OUT),
        // `/dev/stdin` and its kin are what it reads, too.
        Some(script) if is_device(&script.text) => Program::Opaque(RUNS_WHAT_IT_READS),
        Some(_) => more.map_or(Program::None, Program::Opaque),
        None => Program::Opaque(RUNS_WHAT_IT_READS),
    }
}
