//! What arithmetic works with. A shell takes what a variable holds there for an expression, and runs the substitutions in
//! an index of it: `x='a[$(ls)]'; ((x))`. So do builtins that take the names of variables. Here is noted which variables
//! these use, what is put into variables, and whether text of the line may become code that way. Not here: how it is read.

use std::collections::{BTreeSet, HashSet};

use super::builtins::may_set_by_option;
use super::found::holds_substitution;
use super::interpreters::is_shell;
use super::perhaps::is_quiet;
use super::reader::is_name;
use super::unfold::base_name;
use super::wrappers::wrapper;
use super::{Simple, Word};

/// Variables that hold what was given to something: arguments, what was read, what was matched.
const GIVEN: &[&str] = &[
    "_",
    "REPLY",
    "OPTARG",
    "MAPFILE",
    "FUNCNAME",
    "BASH_ARGV",
    "BASH_ARGV0",
    "BASH_COMMAND",
    "BASH_EXECUTION_STRING",
    "BASH_REMATCH",
    "BASH_SOURCE",
];

/// Programs that say what no word of theirs tells.
const DECODERS: &[&str] = &["base64", "base32", "basenc", "xxd", "rev", "openssl", "uudecode"];

/// What was seen of arithmetic, and of what may get into it.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a sign that was seen in the text")]
pub(super) struct Counting {
    /// What it uses by name.
    names: BTreeSet<String>,
    /// What is set to more than a number.
    assigned: BTreeSet<String>,
    /// It uses an argument.
    counts_arguments: bool,
    /// It uses what a command says.
    counts_output: bool,
    /// An argument is used anywhere.
    arguments: bool,
    /// A variable is set to what a command says.
    output: bool,
    /// A builtin sets variables.
    builtins: bool,
    /// A sign with which a substitution begins is put into a variable.
    sign: bool,
    /// What may become an index with a substitution is put into a variable.
    pieces: bool,
    /// A substitution, as mere text, is put into a variable.
    data: bool,
    /// What may become an index with a substitution stands anywhere.
    any_pieces: bool,
    /// The sign alone, with which a substitution begins, is given to a function, or to what is not known here.
    given_sign: bool,
}

impl Counting {
    /// Arithmetic uses this, as it was written; or a builtin takes it for a variable's name.
    pub fn uses(&mut self, written: &str) {
        self.counts_output |= has_output(written);
        let mut before = ['\0'; 2];
        let mut rest = written;
        while let Some(c) = rest.chars().next() {
            let is_sign = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = rest.find(|c| !is_sign(c)).unwrap_or(rest.len()).max(c.len_utf8());
            let (piece, behind) = rest.split_at(length);
            let is_expansion = before[1] == '$' || (before == ['$', '{']) || before[1] == '!';
            if is_name(piece) {
                self.counts_arguments |= GIVEN.contains(&piece);
                self.names.insert(piece.to_owned());
            } else if is_expansion && (c.is_ascii_digit() || c == '@' || c == '*') {
                self.counts_arguments = true;
            }
            self.counts_arguments |= before == ['{', '!'] && c == '#';
            before = [before[1], piece.chars().next_back().unwrap_or_default()];
            rest = behind;
        }
        self.arguments |= self.counts_arguments;
    }

    /// An argument of the line's, or of a function's, is used.
    pub fn uses_argument(&mut self) {
        self.arguments = true;
    }

    /// A variable is set to a word.
    pub fn sets(&mut self, name: &str, written: &str, text: &str) {
        if !is_number(written) {
            self.assigned.insert(name.to_owned());
        }
        self.value(written, text);
    }

    /// Something is put into a variable of any name.
    pub fn value(&mut self, written: &str, text: &str) {
        self.output |= !is_number(written) && has_output(written);
        self.sign |= text.contains(['$', '`']);
        self.data |= holds_substitution(text);
        self.pieces |= may_make_index(text);
    }

    /// A text stands somewhere.
    pub fn text(&mut self, text: &str) {
        self.any_pieces |= may_make_index(text);
    }

    /// What this builtin uses and sets.
    pub fn builtin(&mut self, name: &str, simple: &Simple) {
        let words = &simple.words[1..];
        let behind = |is_option: &dyn Fn(&str) -> bool| -> Vec<&Word> {
            let pairs = words.iter().enumerate().filter(|(_, word)| is_option(&word.text));
            pairs.flat_map(|(at, _)| &words[at..words.len().min(at + 2)]).collect()
        };
        let all = || words.iter().filter(|word| !word.literal || word.text.contains('[')).collect();
        let used: Vec<&Word> = match name {
            "test" | "[" => behind(&|text| matches!(text, "-v" | "-R")),
            "printf" => {
                let used = behind(&|text| text.starts_with("-v"));
                self.builtins |= may_set_by_option(words);
                used
            }
            "read" | "mapfile" | "readarray" | "getopts" | "wait" => {
                self.builtins |= name != "wait" || !behind(&|text| text.starts_with("-p")).is_empty();
                all()
            }
            "unset" => all(),
            "let" => words.iter().collect(),
            "declare" | "typeset" | "local" | "export" | "readonly" => {
                let is_number = |word: &Word| word.text.starts_with('-') && word.text.contains('i');
                if words.iter().any(is_number) { words.iter().collect() } else { all_indexed(words) }
            }
            _ => return,
        };
        for word in used {
            self.uses(&word.raw);
        }
    }

    /// Takes the words of commands in: variables that they set, and text that may be one's value, but for these texts, which
    /// are read as command lines. Gives whether text among them looks like a substitution.
    pub fn commands(&mut self, commands: &[Simple], read: &HashSet<String>) -> bool {
        let each = commands.iter();
        each.fold(false, |data, simple| {
            data | self.command(simple, read) | self.commands(&simple.perhaps, read)
        })
    }

    fn command(&mut self, simple: &Simple, read: &HashSet<String>) -> bool {
        let first = simple.words.first().map_or("", |word| base_name(&word.text));
        let mut data = false;
        let keeps = is_quiet(first) && first != "set";
        self.any_pieces |= DECODERS.contains(&first);
        // It is a text once, and for what is there to read or to hand it on; elsewhere it is a word like others.
        let mut reads =
            is_shell(first) || matches!(first, "eval" | "trap" | "find") || wrapper(first).is_some();
        for word in &simple.words {
            if reads && read.contains(&word.text) {
                reads = false;
                continue;
            }
            data |= holds_substitution(&word.text);
            self.given_sign |= !keeps && has_bare_sign(&word.text);
            self.any_pieces |= may_make_index(&word.text)
                || (matches!(first, "echo" | "printf") && has_numbered_sign(&word.text))
                || (first == "tr" && word.text.replace("[:", "").contains('['));
            if let (Some((name, text)), Some((_, written))) =
                (word.text.split_once('='), word.raw.split_once('='))
            {
                let name = name.split(['[', '+']).next().unwrap_or(name);
                if is_name(name) {
                    self.sets(name, written, text);
                }
            }
        }
        data
    }

    /// Whether text of the line may become code in arithmetic; `data` says whether text that looks like a substitution
    /// stands in it.
    pub fn may_run_text(&self, data: bool) -> bool {
        let by_name = self.counts_arguments
            || !self.names.is_disjoint(&self.assigned)
            || (self.builtins && !self.names.is_empty());
        let comes_in = self.counts_output || (by_name && (self.arguments || self.output || self.builtins));
        let is_joined = by_name && self.arguments && self.given_sign;
        let is_set = by_name && (self.data || self.sign || self.pieces);
        is_set || is_joined || (comes_in && (data || self.any_pieces))
    }
}

/// Those that set a part of an array.
fn all_indexed(words: &[Word]) -> Vec<&Word> {
    words.iter().filter(|word| word.raw.split('=').next().is_some_and(|name| name.contains('['))).collect()
}

/// Whether what was written holds what a command says.
fn has_output(written: &str) -> bool {
    written.contains("$(") && !is_number(written) || written.contains('`')
}

/// Whether a value is a number, written out or counted, whatever variables hold: no text of theirs comes out of it.
fn is_number(written: &str) -> bool {
    let digits = written.strip_prefix('-').unwrap_or(written);
    let counted = written.strip_prefix("$((").and_then(|rest| rest.strip_suffix("))"));
    digits.chars().all(|c| c.is_ascii_digit())
        || counted.is_some_and(|text| !text.contains(['(', ')', '`', '\'', '"', '\\']))
}

/// Whether a text, or what programs make of it, may be an index that holds a substitution, or a piece of one. A list of
/// signs, as patterns have it, mostly is none.
fn may_make_index(text: &str) -> bool {
    if text == "[" || text == "[[" {
        return false;
    }
    text.match_indices('[').any(|(at, _)| {
        let before = &text[..at];
        if ["\\033", "\\e", "\\x1b", "\\x1B", "\u{1b}"].iter().any(|escape| before.ends_with(escape)) {
            return false;
        }
        let behind = &text[at + 1..];
        match behind.split_once(']') {
            Some((inside, _)) => inside.contains(['(', '$', '`']) || has_numbered_sign(inside),
            None => true,
        }
    })
}

/// Whether a text holds the sign of an expansion with none behind it.
fn has_bare_sign(text: &str) -> bool {
    let begins = |c: char| c.is_ascii_alphanumeric() || "_({@*#?!$".contains(c);
    text.match_indices('$').any(|(at, _)| !text[at + 1..].starts_with(begins))
}

/// Whether a text holds a sign that is written as a number behind a backslash; not one that only begins a colour, or ends
/// a text.
fn has_numbered_sign(text: &str) -> bool {
    let colours = ["\\033[", "\\x1b[", "\\x1B["];
    text.match_indices('\\').any(|(at, _)| {
        let behind = &text[at + 1..];
        let digits = behind.chars().take_while(|c| ('0'..='7').contains(c)).count();
        let is_colour = colours.iter().any(|colour| text[at..].starts_with(colour));
        !is_colour && (digits > 1 || behind.starts_with(['x', 'u', 'U']))
    })
}
