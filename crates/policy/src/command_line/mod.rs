//! A conservative parser of command lines: returns every simple command that bash might run, and the reasons for which
//! parts cannot be analysed.
//!
//! It parses words, lists, redirections, substitutions and common wrappers. If it is not certain,
//! it returns a reason, and the user is asked wherever a rule might apply. Its depth and its work
//! are bounded.

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
mod script_files;
mod scripts;
mod sed;
#[cfg(test)]
mod tests;
mod variables;
mod widening_options;
mod words;
mod wrappers;

pub use command::{CommandLine, CommandRedirection, CommandWord, SimpleCommand, quote_word};
pub(super) use command::{FOLDS_CASE, base_name};
pub use folder::changes_to_unknown_folder;
pub use script_files::{ScriptFiles, runs_files};
pub(super) use widening_options::may_exceed_words;

/// Parses a command line as bash would. The answer lists the reasons for any part that cannot be
/// parsed.
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

/// Parses a program with its arguments, which no shell parses first.
pub fn read_program(program: &str, args: &[String]) -> CommandLine {
    let words: Vec<CommandWord> = std::iter::once(program)
        .chain(args.iter().map(String::as_str))
        .map(CommandWord::from_literal)
        .collect();
    let length = words.iter().map(|word| word.text.len()).sum();
    let mut state = parse_state::ParseState::for_length(length);
    for word in &words {
        state.keep_text(&word.text);
    }
    state.line.commands.push(SimpleCommand::from_words(words));
    expand::expand_commands(state)
}

impl CommandLine {
    /// Adds a variable that is set for the whole line. It may change the command that a name refers
    /// to.
    pub fn add_variable(&mut self, name: &str, value: &str) {
        self.sets_variables = true;
        if name == "PATH" {
            self.sets_path = true;
            self.search_paths.push(value.to_owned());
        }
        self.values.push(value.to_owned());
        self.texts.push_str(value);
        self.texts.push('\n');
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
