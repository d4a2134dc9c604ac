//! The parts of a parsed command line: commands, words and redirections.

/// True if the system ignores the case of file names.
pub(crate) const FOLDS_CASE: bool = cfg!(any(target_os = "macos", windows));

/// The reason for a command that is unknown until it runs, or that starts such a command.
pub(super) const NOT_WRITTEN_OUT: &str = "its words are known only when it runs";

/// A command line, as far as its text determines the commands it would run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Every simple command, also those run by wrappers and in substitutions.
    pub commands: Vec<SimpleCommand>,
    /// The reasons for which parts of it cannot be analysed; empty if all of it can.
    pub unanalysed: Vec<String>,
    /// True if it sets variables, which may change the command that a name refers to.
    pub sets_variables: bool,
    /// True if it changes, or may change, where programs are looked up.
    pub sets_path: bool,
    /// True if it changes the folder, or may, so that relative paths in it are uncertain.
    pub changes_folder: bool,
    /// The values of variables that it sets.
    pub values: Vec<String>,
    /// The values of PATH that it sets, as they were written.
    pub search_paths: Vec<String>,
    /// The texts of its words, values and here-documents, which may name files; not all of a very long line.
    pub(super) texts: String,
}

/// A program or builtin with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a finding of its own about a command"
)]
pub struct SimpleCommand {
    /// The words, the name first; empty if there are redirections only.
    pub words: Vec<CommandWord>,
    /// The files that its input or output is redirected to.
    pub redirections: Vec<CommandRedirection>,
    /// True if it only starts another command, which is also in the list (`env`, `nohup`, `bash
    /// -c`).
    pub is_transparent: bool,
    /// True if it receives more arguments when it runs (`xargs`).
    pub is_open_ended: bool,
    /// True if the line gives it an input: `<`, `<<`, or a pipe.
    pub has_input: bool,
    /// The reason for which its words do not determine the code it runs (`sh` without a script,
    /// `python -c`).
    pub opaque: Option<&'static str>,
    /// True if it runs command lines of a file (`. FILE`, `bash FILE`, `make`, `npm run`).
    pub runs_command_file: bool,
    /// The first of its words that may be a command which it starts; `None` if it starts none.
    pub possible_from: Option<usize>,
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandWord {
    /// Its value without quotes and without the values of expansions.
    pub text: String,
    /// True if `text` is the whole value: the word has no expansion and no pattern.
    pub is_literal: bool,
    /// The word as it was written.
    pub raw: String,
    /// True if it is `NAME=...`.
    pub(super) is_assignment: bool,
    /// True if it may expand to several words, or none.
    pub(super) may_split: bool,
}

/// A file that a command's input or output is redirected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandRedirection {
    /// The file's name.
    pub target: CommandWord,
    /// True if it is opened for writing.
    pub writes: bool,
    /// True if it is opened for reading.
    pub reads: bool,
}

impl CommandWord {
    /// Creates a word with this literal text.
    pub fn from_literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_literal: true,
            raw: quote_word(text),
            ..Self::default()
        }
    }

    /// The word for display: its value if that is known, otherwise its spelling.
    fn display_text(&self) -> String {
        if self.is_literal {
            quote_word(&self.text)
        } else {
            self.raw.clone()
        }
    }
}

impl SimpleCommand {
    /// Creates a command of these words.
    pub(super) fn from_words(words: Vec<CommandWord>) -> Self {
        Self {
            words,
            ..Self::default()
        }
    }

    /// The command in one line for people, shortened.
    pub fn short_text(&self) -> String {
        const MOST: usize = 120;
        let words: Vec<String> = self
            .words
            .iter()
            .map(|word| remove_control_characters(&word.display_text()))
            .collect();
        let line = words.join(" ");
        match line.char_indices().nth(MOST) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }

    /// The whole command with its redirections, which identifies it.
    pub fn full_text(&self) -> String {
        let redirection = |one: &CommandRedirection| {
            format!(
                "{} {}",
                if one.writes { ">" } else { "<" },
                one.target.display_text()
            )
        };
        let words = self
            .words
            .iter()
            .map(CommandWord::display_text)
            .chain(self.redirections.iter().map(redirection));
        words.collect::<Vec<String>>().join(" ")
    }
}

/// The word with the quotes that make a shell read it literally.
pub fn quote_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A program's name without its folder.
pub(crate) fn base_name(text: &str) -> &str {
    text.rsplit(['/', '\\']).next().unwrap_or(text)
}

/// A program's name as in these tables. Where the system ignores case and the ending `.exe`, so
/// does this.
pub(super) fn table_name(text: &str, folds_case: bool) -> String {
    let name = base_name(text);
    if !folds_case {
        return name.to_owned();
    }
    let name = name.to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// Returns whether a path leads to standard input, a terminal or another process's files, instead
/// of a script.
pub(super) fn is_device(path: &str) -> bool {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let leaves_folder = path.starts_with('/') || path.split('/').any(|part| part == "..");
    let is_number = |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_digit());
    // A relative path may be resolved from within such a folder.
    leaves_folder && matches!(parts.first(), Some(&("dev" | "proc")))
        || parts
            .last()
            .is_some_and(|last| matches!(*last, "stdin" | "tty") || is_number(last))
}

pub(super) fn remove_control_characters(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}
