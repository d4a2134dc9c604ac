//! A conservative reader of command lines: every simple command that bash might run of a text, and the reasons for
//! which parts of it cannot be analysed. Not here: whether any of it may run (rules).
//!
//! It reads words, lists, redirections, substitutions and common wrappers. Where it is not certain, it gives a reason,
//! and a person is asked wherever a rule might apply. Its depth and its work are bounded.

mod builtins;
mod command;
mod compound;
mod expand;
mod folder;
mod git;
mod interpreters;
mod options;
mod parse_state;
mod parser;
mod programs;
mod scripts;
#[cfg(test)]
mod tests;
mod variables;
mod words;
mod wrappers;

pub use command::{CommandLine, CommandRedirection, CommandWord, SimpleCommand, quote_word};
pub(super) use command::{FOLDS_CASE, base_name};
pub use folder::changes_to_unknown_folder;
pub use interpreters::runs_files;

/// Reads a command line as bash would. What cannot be read is among the reasons in the answer.
pub fn read_command_line(text: &str) -> CommandLine {
    let chars: Vec<char> = text.chars().collect();
    let mut state = parse_state::ParseState::for_length(chars.len());
    let parsed =
        parser::ShellParser::new(&chars, 0, &mut state).and_then(parser::ShellParser::parse_all);
    if let Err(why) = parsed {
        state.add_reason(format!("the command line cannot be analysed: {why}"));
    }
    expand::expand_commands(state)
}

/// Reads a program with its arguments, which no shell reads first.
pub fn read_program(program: &str, args: &[String]) -> CommandLine {
    let words: Vec<CommandWord> = std::iter::once(program)
        .chain(args.iter().map(String::as_str))
        .map(CommandWord::from_literal)
        .collect();
    let length = words.iter().map(|word| word.text.len()).sum();
    let mut state = parse_state::ParseState::for_length(length);
    state.line.commands.push(SimpleCommand::from_words(words));
    expand::expand_commands(state)
}

impl CommandLine {
    /// Adds a variable that is set for the whole line. It may change what a name stands for.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        self.sets_variables = true;
        self.sets_path |= name == "PATH";
        if variables::sets_program_variable(&CommandWord::from_literal(&format!("{name}={value}")))
        {
            let shown = command::remove_control_characters(name);
            self.unanalysed
                .push(format!("by the variable {shown} programs run others"));
        }
        if ["$(", "${", "`"].iter().any(|sign| value.contains(sign)) {
            self.unanalysed
                .push("a variable holds text that looks like a substitution".to_owned());
        }
    }
}
