//! The result of parsing a command line so far, and its remaining budget of steps.

use super::command::{CommandLine, CommandWord, SimpleCommand};
use super::variables::{is_program_variable, sets_program_variable};

/// The reason for which a text cannot be analysed.
pub(super) type Reason = &'static str;
/// The parsed item, or the reason for which parsing failed.
pub(super) type Parsed<T> = Result<T, Reason>;

/// The most steps (characters and words): per character of the text, and for every text.
const STEPS: (usize, usize) = (64, 100_000);
/// The most commands of one text.
const MOST_COMMANDS: usize = 100_000;
pub(super) const TOO_MANY_STEPS: Reason = "it is too intricate";
const SETS_PROGRAM: Reason = "it sets a variable by which programs run others";
const TEXT_IN_ARITHMETIC: Reason =
    "text may get into arithmetic, where a shell would run the substitutions in it";
/// Escape sequences of terminal colours, whose bracket begins no array index.
const COLOURS: &[&str] = &["\\033[", "\\e[", "\\x1b[", "\\x1B[", "\u{1b}["];

/// The most bytes of texts that are kept of a line.
const MOST_KEPT_TEXT: usize = 256 << 10;

/// A command line while it is parsed.
#[derive(Default)]
pub(super) struct ParseState {
    pub line: CommandLine,
    /// True if a shell evaluates a variable or an argument as arithmetic.
    pub evaluates_variables: bool,
    /// True if the line contains text that arithmetic would parse as an array index with a
    /// substitution in it.
    pub holds_index: bool,
    steps: usize,
}

impl ParseState {
    pub fn for_length(length: usize) -> Self {
        Self {
            steps: length.saturating_mul(STEPS.0) + STEPS.1,
            ..Self::default()
        }
    }

    /// Counts steps, so that parsing time is bounded.
    pub fn spend_steps(&mut self, steps: usize) -> Parsed<()> {
        self.steps = self.steps.checked_sub(steps).ok_or(TOO_MANY_STEPS)?;
        Ok(())
    }

    pub fn add_reason(&mut self, reason: String) {
        if !self.line.unanalysed.contains(&reason) {
            self.line.unanalysed.push(reason);
        }
    }

    pub fn add_command(&mut self, command: SimpleCommand) -> Parsed<()> {
        if self.line.commands.len() >= MOST_COMMANDS {
            return Err("it has too many commands");
        }
        // As an argument this may be joined with others to an index.
        self.holds_index |= command.words.iter().skip(1).any(|word| word.text == "[");
        self.line.commands.push(command);
        Ok(())
    }

    /// Records that a variable of this name is set to an unknown value.
    pub fn record_variable(&mut self, name: &str) {
        self.line.sets_variables = true;
        self.line.sets_path |= name == "PATH";
        if is_program_variable(name) {
            self.add_reason(SETS_PROGRAM.to_owned());
        }
    }

    /// Records `NAME=VALUE`.
    pub fn record_assignment(&mut self, word: &CommandWord) {
        let (name, value) = word.text.split_once('=').unwrap_or(("", &word.text));
        self.line.sets_variables = true;
        if name.split(['[', '+']).next() == Some("PATH") {
            self.line.sets_path = true;
            let written = word.raw.split_once('=').map_or("", |(_, value)| value);
            self.line.search_paths.push(written.to_owned());
        }
        self.record_value(value);
        self.line.values.push(value.to_owned());
        if let Some((_, index)) = word
            .raw
            .split('=')
            .next()
            .and_then(|name| name.split_once('['))
        {
            self.record_arithmetic(index);
        }
        self.holds_index |= !word.is_literal && value.contains('[');
        if sets_program_variable(word) {
            self.add_reason(SETS_PROGRAM.to_owned());
        }
    }

    /// Records the literal part of a variable's value. A `$` in it may become a substitution.
    pub fn record_value(&mut self, value: &str) {
        self.holds_index |= value.contains(['$', '`']);
        self.record_text(value);
    }

    /// Records the literal part of any text.
    pub fn record_text(&mut self, text: &str) {
        self.keep_text(text);
        self.holds_index = self.holds_index || may_become_index(text);
    }

    /// Keeps a text that may name files.
    pub fn keep_text(&mut self, text: &str) {
        if self.line.texts.len() + text.len() < MOST_KEPT_TEXT {
            self.line.texts.push_str(text);
            self.line.texts.push('\n');
        }
    }

    /// Records arithmetic, as it was written. A shell also evaluates the values of the names in it.
    pub fn record_arithmetic(&mut self, written: &str) {
        let has_output = written.contains("$(") || written.contains('`');
        let may_set = ["=", "++", "--"].iter().any(|sign| written.contains(sign));
        self.evaluates_variables |=
            written.contains(|c: char| c.is_ascii_alphabetic() || "_$".contains(c));
        self.line.sets_variables |= has_output || may_set;
        self.line.sets_path |= has_output || (may_set && written.contains("PATH"));
    }

    /// Records the inside of `${...}`, as it was written.
    pub fn record_parameter(&mut self, written: &str) {
        let bare = written.trim_start_matches(['!', '#']);
        let end = bare
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(bare.len());
        let (name, rest) = bare.split_at(end);
        let rest = rest
            .strip_prefix(['@', '*', '?', '$', '-'])
            .filter(|_| name.is_empty())
            .unwrap_or(rest);
        let (index, operator) = rest
            .split_once(']')
            .filter(|_| rest.starts_with('['))
            .unwrap_or(("", rest));
        self.holds_index |= operator.contains('[');
        let sets = operator.starts_with('=') || operator.starts_with(":=");
        if sets {
            self.record_variable(name);
        }
        if operator.starts_with('@') || (sets && written.starts_with('!')) {
            self.add_reason("`${...}` may run or set what a variable names".to_owned());
        }
        let is_offset =
            operator.starts_with(':') && !operator[1..].starts_with(['-', '+', '?', '=']);
        if is_offset || written.starts_with('!') || !matches!(index, "" | "[@" | "[*") {
            self.record_arithmetic(if is_offset { rest } else { index });
            self.evaluates_variables = true;
        }
    }

    /// Records findings that depend on the whole line.
    pub fn finish_line(&mut self) {
        if self.evaluates_variables && self.holds_index {
            self.add_reason(TEXT_IN_ARITHMETIC.to_owned());
        }
    }
}

/// Returns whether a text, or its decoded form, may be an array index that contains a substitution,
/// or a piece of one.
fn may_become_index(text: &str) -> bool {
    let text = COLOURS
        .iter()
        .fold(text.to_owned(), |text, colour| text.replace(colour, ""));
    let holds_code =
        |text: &str| text.contains(['(', '$', '`', '[']) || holds_numbered_character(text);
    let begins_index = |at: usize| {
        let before = text[..at].chars().next_back();
        let behind = &text[at + 1..];
        let is_test =
            before.is_none() && (behind.is_empty() || behind.starts_with([' ', '[', '\n']));
        let follows_name = before.is_none_or(|c| c.is_ascii_alphanumeric() || c == '_');
        follows_name
            && !is_test
            && behind
                .split_once(']')
                .is_none_or(|(index, _)| holds_code(index))
    };
    holds_numbered_character(&text) || text.match_indices('[').any(|(at, _)| begins_index(at))
}

/// Returns whether a text contains a character written as a number after a backslash.
fn holds_numbered_character(text: &str) -> bool {
    text.match_indices('\\').any(|(at, _)| {
        let behind = &text[at + 1..];
        let digits = behind
            .chars()
            .take_while(|c| ('0'..='7').contains(c))
            .count();
        digits > 1 || behind.starts_with(['x', 'u', 'U'])
    })
}
