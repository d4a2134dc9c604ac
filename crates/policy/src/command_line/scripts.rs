//! Programs with a small language of their own that may contain commands: sed, awk and make.

use super::command::{CommandWord, NOT_WRITTEN_OUT, SimpleCommand, is_device};
use super::interpreters::RUNS_INPUT;
use super::options::parse_options;
use super::parse_state::Reason;
use super::sed::sed_may_start;

const BY_SCRIPT: Reason = "its program may start commands";
const SED_OPTIONS: &str = "n r E s z u i? l: e: f: quiet silent regexp-extended null-data separate unbuffered debug \
                           posix follow-symlinks sandbox in-place? line-length: expression: file: help version";
const AWK_OPTIONS: &str = "h V P r c b n N O s t k F: v: f: version help posix csv re-interval field-separator: \
                           assign: file:";

/// Returns the known options of sed and awk, under any of their names.
pub(super) fn program_options(name: &str) -> Option<&'static str> {
    match name {
        "sed" | "gsed" => Some(SED_OPTIONS),
        "awk" | "gawk" | "mawk" | "nawk" => Some(AWK_OPTIONS),
        _ => None,
    }
}

/// Checks that the script of this program is literal, and starts no command.
///
/// # Errors
/// It may start one.
pub(super) fn check_script(name: &str, command: &SimpleCommand) -> Result<(), Reason> {
    let words = &command.words[1..];
    let Some(known) = program_options(name) else {
        return match name {
            "make" | "gmake" | "just" | "ninja" => check_make(words),
            _ => Ok(()),
        };
    };
    let is_sed = name.ends_with("sed");
    let options = parse_options(known, words)?;
    // A variable of awk may have any value.
    let is_open = |word: &CommandWord| !word.is_literal && (is_sed || !word.text.contains('='));
    let (before, operands) = words.split_at(options.operands);
    let has_script = options.has_any(&["e", "expression", "f", "file", "version", "help"]);
    let script = operands.first().filter(|_| !has_script);
    if before.iter().any(is_open)
        || script.is_some_and(|word| !word.is_literal)
        || (script.is_none() && !has_script && command.is_open_ended)
    {
        return Err(NOT_WRITTEN_OUT);
    }
    let is_file = |name: &str| matches!(name, "f" | "file");
    if options
        .given
        .iter()
        .any(|(name, file)| is_file(name) && (*file == "-" || is_device(file)))
    {
        return Err(RUNS_INPUT);
    }
    let scripts = options
        .given
        .iter()
        .filter(|(name, _)| matches!(*name, "e" | "expression"));
    let mut texts = scripts
        .map(|(_, text)| *text)
        .chain(script.map(|word| word.text.as_str()));
    let has_late_option = is_sed && operands.iter().any(|word| word.text.starts_with('-'));
    let starts = if is_sed { sed_may_start } else { awk_may_start };
    if has_late_option || texts.any(starts) {
        Err(BY_SCRIPT)
    } else {
        Ok(())
    }
}

/// Returns whether an awk program may contain `system`, a pipe, or an indirect function call.
fn awk_may_start(program: &str) -> bool {
    let program = program.replace("\\\n", "");
    let calls = |rest: &str| {
        rest.trim_start()
            .starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
    };
    program.contains("system")
        || program.replace("||", "").contains('|')
        || program.split('@').skip(1).any(calls)
}

/// Checks the arguments of `make` and similar programs: they name no input as their file, and no
/// shell.
fn check_make(words: &[CommandWord]) -> Result<(), Reason> {
    for (at, word) in words.iter().enumerate() {
        let text = word.text.as_str();
        let is_option = text.starts_with('-');
        let behind_option = at > 0 && words[at - 1].text.starts_with('-');
        let is_file = behind_option && words[at - 1].text.ends_with(['f', 'e']);
        let attached = text
            .rsplit(['f', '='])
            .next()
            .filter(|_| is_option && text.contains('f'));
        let file = attached.unwrap_or(if is_file { text } else { "" });
        if text == "-" || file == "-" || is_device(file) {
            return Err(RUNS_INPUT);
        }
        // The number of jobs may be computed when it runs.
        let is_open = (is_file && text.is_empty()) || (is_option && !text.starts_with("-j"));
        if !word.is_literal && is_open {
            return Err(NOT_WRITTEN_OUT);
        }
        let holds_code = ["$(", "${", "`"].iter().any(|sign| text.contains(sign));
        if holds_code || (text.contains("SHELL") && text.contains('=')) {
            return Err(BY_SCRIPT);
        }
    }
    Ok(())
}
