//! Options by which a command does more than its first words say: `git log --output=Makefile` writes a file. A rule that
//! allows `git log` does not cover them. Not here: options that start a command which their words name (git, programs).

use super::command::{CommandWord, FOLDS_CASE, SimpleCommand, table_name};
use super::options::is_long_option;

/// The subcommands by which git shows changes.
const GIT_SHOWS: &[&str] = &["diff", "log", "show"];
/// The options by which `git log`, `git diff` and `git show` write a file or run a program.
const GIT_OPTIONS: &[&str] = &["output", "ext-diff", "textconv", "show-signature"];
/// The subcommands by which cargo compiles, with their short names.
const CARGO_COMPILES: &[&str] = &[
    "b", "bench", "build", "c", "check", "clippy", "d", "doc", "r", "run", "t", "test",
];
/// The option by which cargo changes its settings, among them the programs that it runs.
const CARGO_OPTIONS: &[&str] = &["config"];

/// Returns whether a command has, or may have, an option after its first `named` words by which it does more than those
/// say. Words that are known only when it runs may be such an option.
pub(crate) fn may_exceed_words(command: &SimpleCommand, named: usize) -> bool {
    let Some((program, rest)) = command.words.split_first() else {
        return false;
    };
    let program = table_name(&program.text, FOLDS_CASE);
    // A rule for the whole program names no subcommand. Another may name options before the subcommand.
    let names_any = |subcommands: &[&str]| {
        let mut words = rest.iter().take(named.saturating_sub(1));
        words.any(|word| subcommands.contains(&word.text.as_str()))
    };
    let (options, ends_options) = match program.as_str() {
        // Git may take `--` for the value of an option.
        "git" if names_any(GIT_SHOWS) => (GIT_OPTIONS, false),
        "cargo" if names_any(CARGO_COMPILES) => (CARGO_OPTIONS, true),
        _ => return false,
    };
    let mut words = command
        .words
        .iter()
        .skip(named)
        .take_while(|word| !(ends_options && word.is_literal && word.text == "--"));
    let is_widening = |word: &CommandWord| {
        let mut options = options.iter();
        options.any(|option| is_long_option(&word.text, option)) || may_become_option(word)
    };
    command.is_open_ended || words.any(is_widening)
}

/// Returns whether a word that is known only when it runs may be an option then, or several words.
fn may_become_option(word: &CommandWord) -> bool {
    let begins_plainly = word
        .raw
        .trim_start_matches('"')
        .starts_with(|c: char| c.is_ascii_alphanumeric() || "./@:".contains(c));
    let splits = word.may_split && word.raw.contains(['$', '`']);
    !word.is_literal && (!begins_plainly || splits)
}
