//! The parts of a command line that was read: commands, words and redirections.

/// True if the system tells names apart by case alone.
pub(in crate::policy) const FOLDS_CASE: bool = cfg!(any(target_os = "macos", windows));

/// The reason for a command that is, or starts, something its words do not tell.
pub(super) const NOT_WRITTEN_OUT: &str = "its words are known only when it runs";

/// A command line, as far as its text tells what it would run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandLine {
    /// Every simple command, also those behind wrappers and in substitutions.
    pub commands: Vec<SimpleCommand>,
    /// The reasons for which parts of it cannot be analysed; empty where all of it can.
    pub unanalysed: Vec<String>,
    /// It sets variables, which may change what a name stands for.
    pub sets_variables: bool,
    /// It changes, or may change, where programs are looked up.
    pub sets_path: bool,
    /// It changes the folder, or may, so that relative paths in it are uncertain.
    pub changes_folder: bool,
}

/// A program or builtin with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SimpleCommand {
    /// The words, the name first; none where there are redirections only.
    pub words: Vec<CommandWord>,
    /// The files that its input or output is redirected to.
    pub redirections: Vec<CommandRedirection>,
    /// It only starts another command, which stands beside it in the list (`env`, `nohup`, `bash -c`).
    pub is_transparent: bool,
    /// More arguments come when it runs (`xargs`).
    pub is_open_ended: bool,
    /// The reason for which its words do not tell what it runs (`sh` without a script, `python -c`).
    pub opaque: Option<&'static str>,
    /// The first of its words that may be a command which it starts; none where it starts nothing.
    pub possible_from: Option<usize>,
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandWord {
    /// Its value without quotes; an expansion adds nothing to it.
    pub text: String,
    /// True if `text` is the whole value: there is no expansion and no pattern.
    pub is_literal: bool,
    /// The word as it was written.
    pub raw: String,
    /// It is `NAME=...`.
    pub(super) is_assignment: bool,
    /// It may become several words, or none.
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
    /// A word that stands for this text.
    pub fn from_literal(text: &str) -> Self {
        Self {
            text: text.to_owned(),
            is_literal: true,
            raw: quote_word(text),
            ..Self::default()
        }
    }

    /// The word as a person reads it: its value where that is known, else its spelling.
    fn display_text(&self) -> String {
        if self.is_literal {
            quote_word(&self.text)
        } else {
            self.raw.clone()
        }
    }
}

impl SimpleCommand {
    /// A command of these words.
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

    /// The whole command with its redirections, by which it is told from others.
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

/// A word with the quotes that a shell needs to take it as it is.
pub fn quote_word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// A program's name without its folder.
pub(in crate::policy) fn base_name(text: &str) -> &str {
    text.rsplit(['/', '\\']).next().unwrap_or(text)
}

/// A program's name as the tables here have it. Where the system ignores case and the ending `.exe`, so does this.
pub(super) fn table_name(text: &str, folds_case: bool) -> String {
    let name = base_name(text);
    if !folds_case {
        return name.to_owned();
    }
    let name = name.to_ascii_lowercase();
    name.strip_suffix(".exe").map(str::to_owned).unwrap_or(name)
}

/// Returns whether a path leads to standard input, a terminal or another process's files, instead of to a script.
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
    // A relative path may be meant from within such a folder.
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
