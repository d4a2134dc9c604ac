//! What was found of a text so far: commands, what is hidden, what is set; and how much more may be done to find more.
//! Not here: how the text is read.

use std::collections::HashSet;

use super::counting::Counting;
use super::names::{names_program, word_sets_program};
use super::{Script, Simple, Word};

/// Steps for each character, and those that every text has.
const STEPS: (usize, usize) = (200, 100_000);
/// How many commands may be kept of one text.
const MOST: usize = 100_000;

/// Why a text cannot be read.
pub(super) type Unread = &'static str;
pub(super) type Read<T> = Result<T, Unread>;

/// What was found so far, and how much more may be done to find more.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a sign that was seen in the text")]
pub(super) struct Found {
    pub script: Script,
    /// Text that looks like a substitution stands somewhere where it is mere text.
    pub data: bool,
    /// What a command says is put into arithmetic.
    pub counts_output: bool,
    /// Texts in words that are read as command lines.
    pub read: HashSet<String>,
    /// What arithmetic works with.
    pub counting: Counting,
    /// A sign with which a substitution begins is put into a variable as mere text.
    sign: bool,
    /// What was said to be hidden, each once.
    hidden: HashSet<String>,
    /// Variables are put together to a new one.
    joins: bool,
    steps: usize,
}

impl Found {
    pub fn for_text(length: usize) -> Self {
        Self { steps: length.saturating_mul(STEPS.0) + STEPS.1, ..Self::default() }
    }

    pub fn with(commands: Vec<Simple>) -> Self {
        let length = commands.iter().flat_map(|simple| &simple.words).map(|word| word.text.len()).sum();
        let mut found = Self::for_text(length);
        found.script.commands = commands;
        found
    }

    /// Counts a step, so that no text takes long.
    pub fn step(&mut self) -> Read<()> {
        self.steps(1)
    }

    /// Counts what takes as long as so many steps.
    pub fn steps(&mut self, count: usize) -> Read<()> {
        self.steps = self.steps.checked_sub(count).ok_or("it is too intricate")?;
        Ok(())
    }

    /// How many steps are left.
    #[cfg(test)]
    pub fn left(&self) -> usize {
        self.steps
    }

    /// Notes that something cannot be told.
    pub fn hide(&mut self, why: &str) {
        if self.hidden.insert(why.to_owned()) {
            self.script.hidden.push(why.to_owned());
        }
    }

    /// Keeps a command.
    pub fn keep(&mut self, simple: Simple) -> Read<()> {
        if self.script.commands.len() >= MOST {
            return Err("it has too many commands");
        }
        self.script.commands.push(simple);
        Ok(())
    }

    /// A variable is set, to what is not known here; its name may not be known, either.
    pub fn note_variable(&mut self, name: &str) {
        self.script.assigns = true;
        self.script.paths |= name == "PATH";
        if names_program(name) {
            self.hide("it sets a variable by which programs run others");
        }
    }

    /// Text that looks like a substitution becomes one where a shell takes a variable for code; and some variables are
    /// commands whatever they hold.
    pub fn note_value(&mut self, word: &Word) {
        let (name, value) = word.text.split_once('=').unwrap_or(("", &word.text));
        let name = name.split(['[', '+']).next().unwrap_or(name);
        self.script.paths |= name == "PATH";
        if word_sets_program(word) {
            self.hide("it sets a variable by which programs run others");
        }
        let written = word.raw.split_once('=').map_or(word.raw.as_str(), |(_, written)| written);
        self.counting.sets(name, written, value);
        self.sign |= value.contains(['$', '`']);
        let expansions = word.raw.matches(['$', '`']).count();
        self.joins |= !word.literal && (!value.is_empty() || expansions > 1);
        // What comes of an expansion may be the sign before the bracket.
        if holds_substitution(&word.text) || (!word.literal && value.contains(['(', '`'])) {
            self.hide("text that looks like a substitution is put into a variable, which a shell may run");
        }
    }

    /// Notes what `${...}` of this text may set, from after its brace.
    pub fn note_parameter(&mut self, text: &str) {
        let bare = text.strip_prefix('!').unwrap_or(text);
        let end = bare.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(bare.len());
        let (name, rest) = bare.split_at(end);
        let rest = rest.strip_prefix(|c| name.is_empty() && "#@*?$!-".contains(c)).unwrap_or(rest);
        if rest.starts_with('=') || rest.starts_with(":=") {
            if bare != text {
                self.hide("which variable it sets is not written out");
            }
            self.note_variable(name);
            self.counting.sets(name, rest, rest);
            return;
        }
        // Names of a list's parts are asked for by these.
        let is_reference = bare != text && !matches!(rest, "[@]" | "[*]" | "@" | "*");
        if is_reference || bare.starts_with(|c: char| c.is_ascii_digit() || c == '@' || c == '*') {
            self.counting.uses_argument();
        }
        if is_reference {
            self.counting.uses(text);
        }
        let is_text = rest.starts_with(['-', '+', '?', '#', '%', '/', '^', ',', '@', '~'])
            || [":-", ":+", ":?"].iter().any(|sign| rest.starts_with(sign));
        // The others are arithmetic: indices and offsets.
        let has_output = !is_text && (rest.contains("$(") || rest.contains('`'));
        if has_output || (!is_text && may_set(rest)) {
            self.note_variable("");
            self.script.paths |= has_output || rest.contains("PATH");
        }
        self.counts_output |= has_output;
        if !is_text {
            self.counting.uses(rest);
        }
    }

    /// Notes what only the whole of a text tells.
    pub fn finish(&mut self) {
        let reads = |simple: &Simple| {
            simple
                .words
                .first()
                .is_some_and(|word| matches!(word.text.as_str(), "read" | "mapfile" | "readarray"))
        };
        self.data |= self.counting.commands(&self.script.commands, &self.read);
        if self.data && (self.counts_output || self.script.commands.iter().any(reads)) {
            self.hide(
                "text that looks like a substitution may be read into a variable, which a shell may run",
            );
        }
        if self.counting.may_run_text(self.data) {
            self.hide("text may get into arithmetic, where a shell would run the substitutions in it");
        }
        if self.sign && self.joins {
            self.hide("variables are put together that may make a substitution, which a shell may run");
        }
    }
}

/// Whether quoted text would be a substitution if somebody took it for code.
pub(super) fn holds_substitution(text: &str) -> bool {
    text.contains("$(") || text.contains('`') || text.contains("${")
}

/// Whether arithmetic of this text may set a variable.
pub(super) fn may_set(text: &str) -> bool {
    text.contains('=') || text.contains("++") || text.contains("--")
}
