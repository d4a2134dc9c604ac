//! Shells and interpreters of other languages: detects if they run a file, a text in their
//! arguments, or their input.

use super::command::{CommandWord, NOT_WRITTEN_OUT, is_device};
use super::options::{UNKNOWN_OPTIONS, parse_options};
use super::parse_state::Reason;
use super::parser::join_lines;

pub(super) const RUNS_INPUT: Reason = "it runs what it reads";

/// Shells whose command lines are parsed here.
const SHELLS: &[&str] = &["bash", "sh", "dash", "ash", "rbash"];
/// Shells of another language.
const OTHER_SHELLS: &[&str] = &[
    "zsh",
    "ksh",
    "ksh93",
    "mksh",
    "lksh",
    "posh",
    "yash",
    "fish",
    "csh",
    "tcsh",
    "nu",
    "pwsh",
    "powershell",
    "elvish",
    "xonsh",
];
/// Shell options that do not affect which commands a text contains.
const SHELL_OPTIONS: &str = "a b c e f h l m n p r t u v x B C E P T o: O: login norc noprofile posix restricted \
                             verbose noediting version help";
/// Settings for `-o` and `-O` that do not affect it either.
const SHELL_SETTINGS: &[&str] = &[
    "allexport",
    "errexit",
    "errtrace",
    "noclobber",
    "noexec",
    "noglob",
    "nounset",
    "pipefail",
    "verbose",
    "xtrace",
    "dotglob",
    "extglob",
    "failglob",
    "globstar",
    "inherit_errexit",
    "nocaseglob",
    "nullglob",
];
/// Syntax of bash that other shells parse differently.
const BASH_ONLY: &[&str] = &["((", "[[", "&>", "<<<", "|&", "<(", ">(", "$'"];
/// The names of an interpreter without a version, its options that carry no program text, and its
/// options that only print information.
type Interpreter = (
    &'static [&'static str],
    &'static str,
    &'static [&'static str],
);

const INTERPRETERS: &[Interpreter] = &[
    (
        &["python", "pypy", "ipython"],
        "b B d E h I O P q R s S t u v V x 3 m! W: X: version help",
        &["V", "h", "version", "help"],
    ),
    (
        &["perl"],
        "a c f h l n p s T t U u V v w W X S 0? I: version help",
        &["v", "V", "h", "version", "help"],
    ),
    (
        &["ruby"],
        "a c d h l n p s S v w y W? I: C: r: E: version help yjit enable? disable?",
        &["v", "h", "version", "help"],
    ),
    (
        &["node", "nodejs", "tsx", "ts-node"],
        "c h v r: C: check enable-source-maps env-file? experimental-strip-types experimental-transform-types \
         experimental-vm-modules expose-gc import: inspect? inspect-brk? loader: max-old-space-size? no-deprecation \
         no-warnings openssl-legacy-provider preserve-symlinks require: test test-name-pattern? test-only \
         test-reporter? throw-deprecation trace-deprecation trace-uncaught trace-warnings unhandled-rejections? \
         use-strict watch version help",
        &["v", "h", "version", "help", "test"],
    ),
    (
        &["bun", "deno"],
        "V v h version help",
        &["V", "v", "h", "version", "help"],
    ),
    (
        &["php"],
        "n q l s w C H e v h m i d: c: z: f: version help",
        &["v", "h", "m", "i", "version", "help"],
    ),
    (&["lua", "luajit"], "v E W l:", &["v"]),
    (&["osascript"], "l: s:", &[]),
    (
        &["Rscript", "R"],
        "q vanilla verbose no-save slave quiet version help",
        &["version", "help"],
    ),
    (
        &[
            "julia", "elixir", "raku", "guile", "tclsh", "wish", "m4", "dc", "octave", "gnuplot",
            "ghci", "irb", "iex", "jshell",
        ],
        "v version help",
        &["v", "version", "help"],
    ),
];
/// Modules and subcommands by which an interpreter runs a text in its arguments, or its input.
const RUNS_TEXT: &[&str] = &[
    "code", "timeit", "pdb", "bdb", "asyncio", "runpy", "trace", "profile", "cProfile", "IPython",
    "idlelib", "eval", "repl", "exec", "inspect", "pyperf",
];

pub(super) fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name) || OTHER_SHELLS.contains(&name)
}

/// Returns whether this is a shell or another interpreter, with or without a version.
pub(super) fn is_interpreter(name: &str) -> bool {
    is_shell(name) || find_interpreter(name).is_some()
}

fn find_interpreter(name: &str) -> Option<&'static Interpreter> {
    // A version may follow, with more behind it: `python3.13t`, `perl5.36-x86_64-linux-gnu`.
    let end = name.find(|c: char| c.is_ascii_digit() || c == '-');
    let bare = &name[..end.unwrap_or(name.len())];
    INTERPRETERS
        .iter()
        .find(|(names, ..)| names.contains(&bare) || names.contains(&name))
}

/// The command line that a shell runs with these arguments; `None` if it is no shell, or runs a
/// file.
///
/// # Errors
/// It runs code that its arguments do not determine, or that is not parsed here.
pub(super) fn interpreted_text<'w>(
    name: &str,
    words: &'w [CommandWord],
) -> Result<Option<&'w str>, Reason> {
    if OTHER_SHELLS.contains(&name) {
        return Err("its language is not read here");
    }
    if SHELLS.contains(&name) {
        return shell_text(name, words);
    }
    find_interpreter(name)
        .map_or(Ok(()), |interpreter| check_program(interpreter, words))
        .map(|()| None)
}

fn shell_text<'w>(name: &str, words: &'w [CommandWord]) -> Result<Option<&'w str>, Reason> {
    let options = parse_options(SHELL_OPTIONS, words)?;
    let mut settings = options
        .given
        .iter()
        .filter(|(name, _)| matches!(*name, "o" | "O"));
    if !settings.all(|(_, setting)| SHELL_SETTINGS.contains(setting)) {
        return Err(UNKNOWN_OPTIONS);
    }
    let Some(script) = words.get(options.operands) else {
        return if options.has_any(&["version", "help"]) {
            Ok(None)
        } else {
            Err(RUNS_INPUT)
        };
    };
    let text = script.text.as_str();
    if !script.is_literal {
        return Err(NOT_WRITTEN_OUT);
    }
    if text == "-" || text.starts_with('+') {
        return Err(UNKNOWN_OPTIONS);
    }
    if !options.has_any(&["c"]) {
        return if is_device(text) {
            Err(RUNS_INPUT)
        } else {
            Ok(None)
        };
    }
    let is_read_alike = name.ends_with("bash") || reads_as_bash(text);
    if is_read_alike {
        Ok(Some(text))
    } else {
        Err("its text means other things to other shells")
    }
}

/// Checks that an interpreter runs only a file or a module that its arguments name.
fn check_program(
    (names, known, informs): &Interpreter,
    words: &[CommandWord],
) -> Result<(), Reason> {
    let options = parse_options(known, words)?;
    let (before, operands) = words.split_at(options.operands);
    if before.iter().any(|word| !word.is_literal) {
        return Err(NOT_WRITTEN_OUT);
    }
    let mut values = options.given.iter().filter(|(_, value)| !value.is_empty());
    if values
        .clone()
        .any(|(_, value)| value.contains('/') && may_be_program(value))
    {
        return Err(UNKNOWN_OPTIONS);
    }
    // The module of Python, and the file of PHP, may be values of options.
    let by_option = values
        .find(|(name, _)| matches!(*name, "m" | "f"))
        .map(|(_, value)| *value);
    let file = match (by_option, operands.first()) {
        (Some(file), _) => file,
        (None, Some(word)) if !word.is_literal => return Err(NOT_WRITTEN_OUT),
        (None, Some(word)) => &word.text,
        (None, None) => {
            return if options.has_any(informs) {
                Ok(())
            } else {
                Err(RUNS_INPUT)
            };
        }
    };
    let has_subcommands = names.contains(&"bun");
    let runs_input = |word: &CommandWord| word.text == "-" || word.text.contains("data:");
    if RUNS_TEXT.contains(&file.split('.').next().unwrap_or(file))
        || may_be_program(file)
        || (has_subcommands && operands.iter().any(runs_input))
    {
        return Err(RUNS_INPUT);
    }
    Ok(())
}

/// Returns whether other shells parse a text as bash does: it has no arithmetic, conditions or
/// redirections specific to bash.
fn reads_as_bash(text: &str) -> bool {
    [text, &join_lines(text)].iter().all(|text| {
        // This begins arithmetic in all of them.
        let rest = text.replace("$((", "");
        BASH_ONLY.iter().all(|sign| !rest.contains(sign))
    })
}

/// Returns whether a supposed program file is the interpreter's input, or may contain program text.
fn may_be_program(text: &str) -> bool {
    text == "-"
        || is_device(text)
        || ["data:", "://", "auto_"]
            .iter()
            .any(|part| text.contains(part))
}
