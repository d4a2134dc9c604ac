//! Interpreters of other languages than the shell's: whether the program is a file that is named, or a text that nobody
//! reads here. Not here: shells.

use super::Simple;
use super::files::is_device;
use super::interpreters::{NOT_WRITTEN_OUT, RUNS_WHAT_IT_READS};

pub(super) const NOT_READ: &str = "it runs a program that is not read here";

/// An interpreter and its options, by their letters.
struct Interpreter {
    /// Its names, without a version.
    names: &'static [&'static str],
    /// Options that give it a program's text, or have it read one beside its file.
    text: &'static str,
    /// Options that stand alone.
    flags: &'static str,
    /// Options whose value follows, in the same word or the next.
    valued: &'static str,
    /// Long options that stand alone.
    long: &'static [&'static str],
    /// Options by which it says something about itself and ends, where nothing else is given.
    asks: &'static [&'static str],
    /// The first word that is no option is a subcommand.
    subcommands: bool,
}

const fn plain(names: &'static [&'static str], text: &'static str) -> Interpreter {
    let asks = &["--version", "--help"];
    Interpreter { names, text, flags: "", valued: "", long: &[], asks, subcommands: false }
}

const INTERPRETERS: &[Interpreter] = &[
    Interpreter {
        flags: "bBdEhIOPqRsStuvx3V",
        valued: "mWXQ",
        asks: &["--version", "--help", "-V", "-VV", "-h"],
        ..plain(&["python", "pypy"], "ci")
    },
    Interpreter {
        flags: "acflnpsSTtUuvwWX0123456789",
        valued: "I",
        asks: &["--version", "--help", "-v", "-V", "-h"],
        // Its modules may be followed by a program; so may a pattern at which it parts lines.
        ..plain(&["perl"], "eEMmFdxi")
    },
    Interpreter {
        flags: "acdlnpsSvwyW0123456789",
        valued: "ICrE",
        asks: &["--version", "--help", "-v", "-h"],
        ..plain(&["ruby"], "eFxi")
    },
    Interpreter {
        flags: "c",
        valued: "rC",
        long: &[
            "--check",
            "--enable-source-maps",
            "--experimental-strip-types",
            "--expose-gc",
            "--inspect",
            "--inspect-brk",
            "--no-deprecation",
            "--no-warnings",
            "--preserve-symlinks",
            "--test",
            "--throw-deprecation",
            "--trace-deprecation",
            "--trace-uncaught",
            "--trace-warnings",
            "--use-strict",
            "--watch",
        ],
        asks: &["--version", "--help", "-v", "-h"],
        ..plain(&["node", "nodejs", "tsx", "ts-node"], "epi")
    },
    Interpreter { subcommands: true, asks: &["--version", "--help", "-v", "-h"], ..plain(&["bun"], "ep") },
    Interpreter { subcommands: true, asks: &["--version", "--help", "-V", "-h"], ..plain(&["deno"], "ep") },
    Interpreter {
        flags: "nqlswCHe",
        valued: "dcfz",
        asks: &["--version", "--help", "-v", "-h", "-m", "-i"],
        ..plain(&["php"], "rBREaF")
    },
    Interpreter { flags: "vEW", valued: "l", asks: &["-v"], ..plain(&["lua", "luajit"], "ei") },
    Interpreter { valued: "ls", ..plain(&["osascript"], "ei") },
    Interpreter { long: &["--vanilla", "--verbose", "--no-save"], ..plain(&["Rscript"], "e") },
    Interpreter {
        long: &["--vanilla", "--no-save", "--slave", "--quiet"],
        flags: "q",
        ..plain(&["R"], "efg")
    },
    plain(&["julia"], "eEi"),
    plain(&["elixir", "raku"], "e"),
    plain(&["guile"], "c"),
];

/// Long options that give a program's text.
const TEXT_OPTIONS: &[&str] = &[
    "--eval",
    "--print",
    "--run",
    "--interactive",
    "--command",
    "--process-code",
    "--process-begin",
    "--process-end",
];
/// Modules of Python's that run a text in their words, or what they read.
const RUNNING_MODULES: &[&str] = &[
    "code", "timeit", "pdb", "bdb", "asyncio", "runpy", "trace", "profile", "cProfile", "IPython", "idlelib",
];

fn known(name: &str) -> Option<&'static Interpreter> {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-');
    INTERPRETERS.iter().find(|one| one.names.contains(&bare) || one.names.contains(&name))
}

/// Whether this is an interpreter, with its version or without.
pub(super) fn is_interpreter(name: &str) -> bool {
    known(name).is_some()
}

/// What is known of a command's words while they are looked at.
enum Step {
    /// The options go on, with the word at so many places.
    On(usize),
    /// It is not known whether the word behind it is its value.
    Unsure,
    /// What comes now is the program's own.
    Program,
    /// It runs what is not read here.
    Runs(&'static str),
}

/// Why what an interpreter runs is not in a file that its words name; nothing where it is.
pub(super) fn interpreted(name: &str, simple: &Simple) -> Option<&'static str> {
    let interpreter = known(name)?;
    let words = &simple.words[1..];
    if !words.is_empty()
        && words.iter().all(|word| interpreter.asks.contains(&word.text.as_str()))
        && !simple.open_end
    {
        return None;
    }
    if interpreter.subcommands {
        return interpreter.subcommand(words);
    }
    // After an option whose value may follow, nothing ends the options for sure.
    let (mut at, mut unsure, mut may_be_value) = (0, false, false);
    while let Some(word) = words.get(at) {
        if !word.literal {
            return Some(NOT_WRITTEN_OUT);
        }
        let is_option = word.text.starts_with('-');
        if !is_option && !may_be_value {
            if is_given(&word.text) {
                return Some(RUNS_WHAT_IT_READS);
            }
            let gives = |word: &super::Word| !word.literal || interpreter.gives_text(&word.text);
            return (unsure && words[at..].iter().any(gives)).then_some(NOT_READ);
        }
        may_be_value = false;
        let step = match word.text.as_str() {
            option if is_option => interpreter.option(option, words.get(at + 1)),
            value if value.contains("data:") => Step::Runs(NOT_READ),
            _ => Step::On(1),
        };
        match step {
            Step::On(places) => at += places,
            Step::Unsure => {
                (unsure, may_be_value) = (true, true);
                at += 1;
            }
            Step::Program => return None,
            Step::Runs(why) => return Some(why),
        }
    }
    Some(if simple.open_end { NOT_WRITTEN_OUT } else { RUNS_WHAT_IT_READS })
}

/// Whether a program's file is what the interpreter reads, or is a text itself.
fn is_given(text: &str) -> bool {
    is_device(text) || text.contains("data:") || text.contains("://")
}

impl Interpreter {
    /// The same for one that is told what to do by its first word.
    fn subcommand(&self, words: &[super::Word]) -> Option<&'static str> {
        let command = words.iter().position(|word| !word.text.starts_with('-'));
        let (options, rest) = words.split_at(command.unwrap_or(words.len()));
        let is_given =
            |text: &str| text == "-" || text.contains("data:") || (text.starts_with('/') && is_device(text));
        match rest.first() {
            _ if options.iter().any(|word| self.gives_text(&word.text)) => Some(NOT_READ),
            Some(word) if matches!(word.text.as_str(), "eval" | "repl" | "exec") => Some(NOT_READ),
            _ if words.iter().any(|word| is_given(&word.text)) => Some(RUNS_WHAT_IT_READS),
            Some(word) if word.literal => None,
            Some(_) => Some(NOT_WRITTEN_OUT),
            None => Some(RUNS_WHAT_IT_READS),
        }
    }

    fn option(&self, text: &str, next: Option<&super::Word>) -> Step {
        if self.gives_text(text) || is_given(text) {
            return Step::Runs(NOT_READ);
        }
        if text.starts_with("--") {
            let stands_alone = text == "--" || text.contains('=') || self.long.contains(&text);
            return if stands_alone { Step::On(1) } else { Step::Unsure };
        }
        let letters = &text[1..];
        for (at, letter) in letters.char_indices() {
            if self.valued.contains(letter) {
                let rest = &letters[at + letter.len_utf8()..];
                let value = if rest.is_empty() { next.map_or("", |word| &word.text) } else { rest };
                if next.is_some_and(|word| rest.is_empty() && !word.literal) {
                    return Step::Runs(NOT_WRITTEN_OUT);
                }
                return self.value(letter, value, if rest.is_empty() { 2 } else { 1 });
            }
            if !self.flags.contains(letter) {
                return Step::Unsure;
            }
        }
        Step::On(1)
    }

    /// What the value of an option makes of the words behind it.
    fn value(&self, letter: char, value: &str, places: usize) -> Step {
        match (self.names[0], letter) {
            ("python", 'm') if RUNNING_MODULES.contains(&value.split('.').next().unwrap_or(value)) => {
                Step::Runs(NOT_READ)
            }
            ("python", 'm') if value.is_empty() => Step::Runs(NOT_WRITTEN_OUT),
            ("python", 'm') => Step::Program,
            ("php", 'f') if is_given(value) => Step::Runs(RUNS_WHAT_IT_READS),
            ("php", 'f') if !value.is_empty() => Step::Program,
            // A setting may name a file that is run first.
            ("php", 'd') if value.contains("auto_") || is_given(value) => Step::Runs(NOT_READ),
            _ if is_given(value) => Step::Runs(NOT_READ),
            _ => Step::On(places),
        }
    }

    /// Whether an option gives a program's text, or may.
    fn gives_text(&self, text: &str) -> bool {
        let name = text.split('=').next().unwrap_or(text);
        if text == "-" || TEXT_OPTIONS.contains(&name) {
            return true;
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.starts_with('-')) else {
            return false;
        };
        // What follows one that takes a value is that.
        letters
            .chars()
            .take_while(|letter| !self.valued.contains(*letter))
            .any(|letter| self.text.contains(letter))
    }
}
