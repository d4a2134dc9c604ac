//! Shells, interpreters and builtins whose words are programs themselves. Not here: wrappers, behind which a command
//! stands word by word.

use super::Simple;

/// Shells whose command lines bash would read alike, as far as they are read here.
const SHELLS: &[&str] = &["bash", "sh", "dash", "zsh", "ksh", "mksh", "ash", "rbash"];
/// Shells of another language.
const STRANGE_SHELLS: &[&str] = &["fish", "csh", "tcsh", "nu", "pwsh", "powershell", "elvish", "xonsh"];
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
const HAND_TO_SHELL: &[&str] =
    &["su", "runuser", "watch", "script", "parallel", "flock", "systemd-run", "at", "batch", "ssh", "expect"];
/// Builtins that may take the text of a name for code.
const NAME_TAKERS: &[&str] = &[
    "test",
    "[",
    "let",
    "unset",
    "printf",
    "read",
    "declare",
    "typeset",
    "local",
    "export",
    "readonly",
    "wait",
    "mapfile",
    "readarray",
];

/// What a command does with text in its words.
pub(super) enum Program {
    /// Nothing.
    None,
    /// It runs this as a command line.
    Script(String),
    /// It runs something that is not in its words.
    Opaque(&'static str),
    /// It changes what later words mean.
    Hidden(&'static str),
}

const NOT_WRITTEN_OUT: &str = "what it runs is not written out";

/// What this command does, by its name.
pub(super) fn program(name: &str, simple: &Simple) -> Program {
    let words = &simple.words[1..];
    let any = |wanted: &str| words.iter().any(|word| word.text == wanted);
    match name {
        "eval" => joined(simple),
        "trap" => trap(simple),
        "source" | "." => match words.first() {
            Some(word)
                if word.literal && !word.text.starts_with("/dev/") && !word.text.starts_with("/proc/") =>
            {
                Program::None
            }
            Some(_) => Program::Hidden("it reads commands from a file that is not named"),
            None => Program::None,
        },
        "alias" if words.iter().any(|word| word.text.contains('=') || !word.literal) => {
            Program::Hidden("it gives a command another name")
        }
        "hash" if any("-p") => Program::Hidden("it gives a command another name"),
        "enable" if any("-f") => Program::Hidden("it loads a builtin"),
        "mapfile" | "readarray" if any("-C") => Program::Hidden("it runs a command for each line"),
        "compgen" | "complete" if !words.is_empty() => Program::Hidden("it may run what completes a word"),
        "git" if words.iter().any(|word| is_git_alias(&word.text)) => {
            Program::Hidden("it gives a git command another name")
        }
        _ if NAME_TAKERS.contains(&name)
            && words.iter().any(|word| super::reader::holds_substitution(&word.text)) =>
        {
            Program::Hidden("text that looks like a substitution is given to a builtin that may run it")
        }
        _ if SHELLS.contains(&name) => shell(simple),
        _ if STRANGE_SHELLS.contains(&name) => Program::Opaque("its language is not read here"),
        _ if HAND_TO_SHELL.contains(&name) => Program::Opaque("it hands its words to a shell"),
        _ => interpreter(name, simple),
    }
}

fn is_git_alias(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("alias.") || text.contains("--config-env")
}

/// All words as one line.
fn joined(simple: &Simple) -> Program {
    if simple.open_end || simple.words.iter().any(|word| !word.literal) {
        return Program::Opaque(NOT_WRITTEN_OUT);
    }
    let words = simple.words[1..].iter().map(|word| word.text.as_str()).filter(|text| *text != "--");
    Program::Script(words.collect::<Vec<_>>().join(" "))
}

fn trap(simple: &Simple) -> Program {
    let mut words = simple.words[1..].iter().filter(|word| word.text != "--");
    match words.next() {
        Some(word) if !word.literal => Program::Opaque(NOT_WRITTEN_OUT),
        Some(word) if !word.text.starts_with('-') => Program::Script(word.text.clone()),
        _ => Program::None,
    }
}

/// `bash` and its kin: `-c TEXT`, a script's file, or commands from its input.
fn shell(simple: &Simple) -> Program {
    let words = &simple.words[1..];
    let (mut at, mut takes_text) = (0, false);
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
                "rcfile" | "init-file" => at += 1,
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
        at += usize::from(letters.contains(['o', 'O']));
    }
    match words.get(at) {
        Some(script) if takes_text && script.literal => Program::Script(script.text.clone()),
        Some(script) if takes_text || !script.literal => Program::Opaque(NOT_WRITTEN_OUT),
        // `/dev/stdin` and its kin are what it reads, too.
        Some(script) if script.text.starts_with("/dev/") || script.text.starts_with("/proc/") => {
            Program::Opaque("it runs what it reads")
        }
        Some(_) => Program::None,
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
        Some(_) => Program::None,
    }
}

/// The first word that is no option: what comes after it is the script's own.
fn is_file(text: &str) -> bool {
    !text.is_empty() && !text.starts_with('-')
}
