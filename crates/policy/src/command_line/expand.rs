//! Finds commands that other commands start: through wrappers, in texts for shells, and in the
//! arguments of programs that may start others.

use super::builtins::{builtin_text, record_builtin};
use super::command::{
    CommandLine, CommandWord, FOLDS_CASE, NOT_WRITTEN_OUT, SimpleCommand, table_name,
};
use super::folder::may_change_folder;
use super::git::first_word_git_runs;
use super::interpreters::{RUNS_INPUT, interpreted_text};
use super::options::has_short_option;
use super::parse_state::{ParseState, Reason};
use super::parser::ShellParser;
use super::programs::{ANY_COMMAND, first_possible_word, hands_to_shell, is_launcher, is_quiet};
use super::script_files::{runs_command_file, runs_files};
use super::variables::sets_program_variable;
use super::wrappers::{is_transparent_wrapper, wrapped_commands};

/// The deepest nesting of commands that start each other.
const DEEPEST: u32 = 20;
/// The most commands expanded from one text.
const MOST_COMMANDS: usize = 100_000;
/// The parsing steps charged for each nested text.
const NESTED_STEPS: usize = 2_000;
/// Programs whose output their arguments do not determine.
const DECODERS: &[&str] = &[
    "base64", "base32", "basenc", "xxd", "rev", "openssl", "uudecode",
];

/// The reason for which a command cannot be analysed.
enum AnalysisRefusal {
    /// Opaque. A rule that allows exactly this command avoids the question.
    Opaque(Reason),
    /// The command may change the meaning of other words of the line, or start any other command.
    Line(Reason),
}

impl From<Reason> for AnalysisRefusal {
    fn from(why: Reason) -> Self {
        Self::Opaque(why)
    }
}

/// Adds to the parsed commands all those that they start.
pub(super) fn expand_commands(mut state: ParseState) -> CommandLine {
    let mut queue: Vec<(SimpleCommand, u32)> = std::mem::take(&mut state.line.commands)
        .into_iter()
        .rev()
        .map(|command| (command, 0))
        .collect();
    let mut done = Vec::new();
    while let Some((mut command, depth)) = queue.pop() {
        let may_go_on = done.len() < MOST_COMMANDS && depth <= DEEPEST;
        if !may_go_on || state.spend_steps(command.words.len()).is_err() {
            state.add_reason("the command line cannot be analysed: it is too intricate".to_owned());
            break;
        }
        match start_command(&mut state, &mut command) {
            Ok(started) => queue.extend(
                started
                    .into_iter()
                    .rev()
                    .map(|command| (command, depth + 1)),
            ),
            Err(AnalysisRefusal::Opaque(why)) => command.opaque = Some(why),
            Err(AnalysisRefusal::Line(why)) => {
                state.add_reason(format!("`{}`: {why}", command.short_text()));
            }
        }
        done.push(command);
    }
    state.line.commands = done;
    state.finish_line();
    state.line
}

/// Returns the commands that one certainly starts; marks those that it may start among its words.
fn start_command(
    state: &mut ParseState,
    command: &mut SimpleCommand,
) -> Result<Vec<SimpleCommand>, AnalysisRefusal> {
    let Some((first, words)) = command.words.split_first() else {
        return Ok(Vec::new());
    };
    if !first.is_literal {
        return Err(NOT_WRITTEN_OUT.into());
    }
    let name = table_name(&first.text, FOLDS_CASE);
    let is_elsewhere = first.text.contains(['/', '\\']);
    state.holds_index |= DECODERS.contains(&name.as_str());
    state.line.changes_folder |= may_change_folder(&name, command);
    record_builtin(&name, words, state);
    if (is_elsewhere || !is_quiet(&name)) && words.iter().any(sets_program_variable) {
        let shown = command.short_text();
        state.add_reason(format!(
            "`{shown}`: it sets a variable by which programs run others"
        ));
    }
    if let Some(started) = wrapped_commands(&name, command).map_err(AnalysisRefusal::Line)? {
        let is_find = name == "find";
        command.is_transparent =
            !started.is_empty() && !is_find && !is_elsewhere && is_transparent_wrapper(&name);
        command.possible_from = is_find.then_some(1);
        return Ok(started);
    }
    let text = match builtin_text(&name, words).map_err(AnalysisRefusal::Line)? {
        None => interpreted_text(&name, words)?.map(str::to_owned),
        text => text,
    };
    if let Some(text) = text {
        let started = parse_nested(state, &text);
        // If the text contains no command, only this command itself represents its effect.
        command.is_transparent =
            !is_elsewhere && started.iter().any(|inner| !inner.words.is_empty());
        return Ok(started);
    }
    command.runs_command_file = runs_command_file(&name, words, command.is_open_ended);
    command.possible_from = match name.as_str() {
        "git" => first_word_git_runs(command).map_err(AnalysisRefusal::Line)?,
        name if name.starts_with("git-") => {
            return Err(AnalysisRefusal::Line("it is a part of git"));
        }
        name => first_possible_word(name, command)?,
    };
    check_shells(state, &name, command)?;
    Ok(Vec::new())
}

/// Parses the commands of a nested text.
fn parse_nested(state: &mut ParseState, text: &str) -> Vec<SimpleCommand> {
    let chars: Vec<char> = text.chars().collect();
    let outer = std::mem::take(&mut state.line.commands);
    let parsed = state
        .spend_steps(NESTED_STEPS)
        .and_then(|()| ShellParser::new(&chars, 0, state)?.parse_all());
    if let Err(why) = parsed {
        state.add_reason(format!(
            "a command line in the command line cannot be analysed: {why}"
        ));
    }
    std::mem::replace(&mut state.line.commands, outer)
}

/// Checks texts for shells among a program's arguments, and what runs commands from a file, and marks the command so that
/// rules apply to it.
fn check_shells(
    state: &mut ParseState,
    name: &str,
    command: &mut SimpleCommand,
) -> Result<(), Reason> {
    let words = &command.words;
    let gives_text = |word: &CommandWord| !word.is_literal || has_short_option(&word.text, "ceEpr");
    // Behind a subcommand most words are no programs.
    let starts_any = command.possible_from == Some(1) || name == "git";
    let last_text = words.iter().rposition(gives_text).unwrap_or_default();
    for at in command.possible_from.unwrap_or(words.len())..words.len() {
        let shell = table_name(&words[at].text, FOLDS_CASE);
        if !words[at].is_literal {
            continue;
        }
        command.runs_command_file |= starts_any && begins_script(&words[at].text);
        if is_launcher(name) && hands_to_shell(&shell) {
            return Err(ANY_COMMAND);
        }
        if !runs_files(&shell) || shell == "." {
            continue;
        }
        let behind = &words[at + 1..];
        state.spend_steps(behind.len())?;
        // A name with a folder is more often a file than a program.
        let is_started = is_launcher(name) || (starts_any && words[at].text == shell);
        command.runs_command_file |= is_started && runs_command_file(&shell, behind, false);
        match interpreted_text(&shell, behind) {
            Ok(Some(text)) if text.contains(['$', '`']) => return Err(NOT_WRITTEN_OUT),
            Ok(Some(_)) => command.possible_from = Some(1),
            Err(why)
                if is_launcher(name)
                    || (why == RUNS_INPUT && command.has_input)
                    || (why != RUNS_INPUT && last_text > at) =>
            {
                return Err(why);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns whether a text of several words begins with what runs commands from a file, as in `|sh FILE`.
fn begins_script(text: &str) -> bool {
    let parts = text.split([';', '|', '&', '(', '{', '!', '=']);
    let begins = |part: &str| {
        let mut words = part.split_whitespace();
        words.next().is_some_and(runs_files) && words.next().is_some()
    };
    parts.into_iter().any(begins)
}
