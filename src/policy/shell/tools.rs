//! Programs that start nothing but by certain options, or by what they are told in a language of their own. Not here:
//! interpreters; programs that are there to start others.

use super::files::is_device;
use super::found::holds_substitution;
use super::interpreters::{NOT_WRITTEN_OUT, RUNS_WHAT_IT_READS};
use super::sed;
use super::{Simple, Word};

const BY_OPTION: &str = "one of its options starts a command";
const BY_PROGRAM: &str = "its program may start commands";

/// Programs, the names of their long options that start a command, and the letters of the short ones.
const OPTIONS: &[(&[&str], &[&str], &str)] = &[
    (&["rg"], &["pre", "hostname-bin"], ""),
    (&["ag", "bat", "batcat"], &["pager"], ""),
    (&["sort", "gsort"], &["compress-program"], ""),
    (&["split", "gsplit"], &["filter"], ""),
    (&["man"], &["pager", "html", "preprocessor", "config-file"], "PHpC"),
    (&["less", "more"], &["cmd", "lesskey-src", "lesskey-content"], ""),
    (
        &["tar", "gtar", "bsdtar"],
        &[
            "checkpoint-action",
            "to-command",
            "use-compress-program",
            "info-script",
            "new-volume-script",
            "rsh-command",
            "rmt-command",
        ],
        "IF",
    ),
    (&["rsync"], &["rsh", "rsync-path"], "e"),
    (&["scp", "sftp"], &[], "SoD"),
    (&["zip"], &["unzip-command"], "T"),
    (&["just"], &["command", "shell", "shell-arg", "chooser", "choose", "edit"], "ce"),
    (&["make", "gmake"], &["eval"], "E"),
    (&["gdb", "lldb"], &["ex", "eval-command", "batch", "one-line"], "exoQ"),
    (&["vi", "vim", "nvim", "ex", "view"], &["cmd"], "csS"),
    (&["emacs"], &["eval", "execute", "funcall", "batch", "script", "load"], "fl"),
];

/// Options of `go` that start a command.
const GO_OPTIONS: &[&str] = &["exec", "toolexec", "vettool", "overlay", "extld"];

/// Why one of these programs starts a command by what its words say; nothing where it does not.
pub(super) fn started_by_option(name: &str, simple: &Simple) -> Option<&'static str> {
    let words = &simple.words[1..];
    if let Some((_, long, short)) = OPTIONS.iter().find(|(names, ..)| names.contains(&name)) {
        let is_it = |word: &Word| {
            long.iter().any(|option| is_long(&word.text, option)) || has_letter(&word.text, short)
        };
        if words.iter().any(is_it) {
            return Some(BY_OPTION);
        }
    }
    let first = words.first().map_or("", |word| &word.text);
    match name {
        // Its first word is a bundle of options, with a sign before it or without.
        "tar" | "gtar" | "bsdtar" if !first.starts_with('-') && first.contains(['I', 'F']) => Some(BY_OPTION),
        "less" | "more" | "vi" | "vim" | "nvim" | "ex" | "view"
            if words.iter().any(|word| word.text.starts_with('+')) =>
        {
            Some(BY_OPTION)
        }
        "make" | "gmake" | "just" | "ninja" => made(words),
        "go" if words.iter().any(|word| GO_OPTIONS.contains(&go_option(&word.text))) => Some(BY_OPTION),
        "ed" | "red" => Some(RUNS_WHAT_IT_READS),
        "sed" | "gsed" => sed::may_start(simple),
        "awk" | "gawk" | "mawk" | "nawk" => awk(simple),
        _ => None,
    }
}

/// The name of an option of `go`, which has one dash or two.
fn go_option(text: &str) -> &str {
    let name = text.strip_prefix('-').map_or("", |rest| rest.strip_prefix('-').unwrap_or(rest));
    name.split('=').next().unwrap_or(name)
}

/// Whether a word is this long option, whole or by its beginning, with a value or without.
pub(super) fn is_long(text: &str, option: &str) -> bool {
    let Some(name) = text.strip_prefix("--") else { return false };
    let name = name.split('=').next().unwrap_or(name);
    !name.is_empty() && option.starts_with(name)
}

/// Whether a bundle of short options may hold one of these.
pub(super) fn has_letter(text: &str, letters: &str) -> bool {
    text.strip_prefix('-')
        .is_some_and(|rest| !rest.starts_with('-') && rest.contains(|c| letters.contains(c)))
}

/// What `make` and its kin are given beside their file, or in place of it.
fn made(words: &[Word]) -> Option<&'static str> {
    let is_read = |text: &str| text == "-" || (text.starts_with(['/', '.']) && is_device(text));
    let value = |text: &str| match text.split_once('=') {
        Some((_, value)) => value.to_owned(),
        None => text.trim_start_matches(|c: char| c == '-' || c.is_ascii_alphabetic()).to_owned(),
    };
    let mut names_file = false;
    for word in words {
        let text = word.text.as_str();
        // What names its file, by this word or by the one before it.
        let file = if std::mem::take(&mut names_file) { Some(text) } else { made_from(text) };
        names_file = file.is_some_and(str::is_empty);
        if names_file && !word.literal {
            return Some(NOT_WRITTEN_OUT);
        }
        if !names_file && file.is_some_and(is_device) {
            return Some(RUNS_WHAT_IT_READS);
        }
        let is_option = text.starts_with('-');
        let reads_attached = is_option && (is_read(&value(text)) || (text.ends_with('-') && text.len() > 2));
        if is_read(text) || reads_attached {
            return Some(RUNS_WHAT_IT_READS);
        }
        if (text.contains("SHELL") && text.contains('=')) || holds_substitution(text) {
            return Some(BY_OPTION);
        }
        // A number of jobs may be counted when it runs.
        if is_option && !word.literal && !text.starts_with("-j") {
            return Some(NOT_WRITTEN_OUT);
        }
    }
    None
}

/// The file that this option names, or nothing where it is the next word; none where it is another option.
fn made_from(text: &str) -> Option<&str> {
    if ["file", "makefile", "justfile"].iter().any(|option| is_long(text, option)) {
        return Some(text.split_once('=').map_or("", |(_, file)| file));
    }
    let letters = text.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    letters.split_once('f').map(|(_, file)| file)
}

/// `awk`: `system(...)`, a pipe to a command or from one (`||` is none), a function that is called by a name in a text.
fn awk(simple: &Simple) -> Option<&'static str> {
    let words = &simple.words[1..];
    let starts = |word: &Word| {
        let text = word.text.replace("\\\n", "");
        text.contains("system") || text.replace("||", "").contains('|')
    };
    if words.iter().any(starts) {
        return Some(BY_PROGRAM);
    }
    let (mut at, mut has_program) = (0, false);
    while let Some(word) = words.get(at) {
        let text = word.text.as_str();
        let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty() && *option != "-")
        else {
            at += usize::from(text == "--");
            break;
        };
        let takes_next = option.len() == 1;
        let value = if takes_next { words.get(at + 1) } else { Some(word) };
        let text = value.map_or("", |value| if takes_next { &value.text } else { &option[1..] });
        match option.chars().next() {
            _ if value.is_some_and(|value| value.splits) => return Some(NOT_WRITTEN_OUT),
            // What is put into a variable, or parts the fields, is no program.
            Some('v' | 'F') => at += usize::from(takes_next),
            _ if value.is_some_and(|value| !value.literal) => return Some(NOT_WRITTEN_OUT),
            Some('f') if text == "-" || text.is_empty() || is_device(text) => {
                return Some(RUNS_WHAT_IT_READS);
            }
            Some('f') => {
                has_program = true;
                at += usize::from(takes_next);
            }
            Some('-') if matches!(option, "-version" | "-help" | "-posix" | "-csv" | "-re-interval") => {
                has_program |= matches!(option, "-version" | "-help");
            }
            Some('h' | 'V' | 'P' | 'r' | 'c' | 'b' | 'n' | 'N' | 'O' | 's' | 't' | 'k') if takes_next => {
                has_program |= matches!(option, "h" | "V");
            }
            _ => return Some(BY_PROGRAM),
        }
        at += 1;
    }
    let calls = |text: &str| {
        let behind = text.split('@').skip(1);
        behind
            .into_iter()
            .any(|rest| rest.trim_start().starts_with(|c: char| c.is_ascii_alphabetic() || c == '_'))
    };
    match words.get(at) {
        _ if has_program => None,
        Some(word) if !word.literal => Some(NOT_WRITTEN_OUT),
        Some(word) if calls(&word.text) => Some(BY_PROGRAM),
        Some(_) => None,
        None => simple.open_end.then_some(NOT_WRITTEN_OUT),
    }
}
