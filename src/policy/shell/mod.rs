//! Command lines as the policy sees them: every simple command that bash might run of a text, wherever it is nested,
//! and what of it cannot be told before it runs. Not here: whether any of it may run (rules).
//!
//! It is a reader of its own, strict where a shell is lenient: what it does not know for certain is said to be hidden,
//! and then a person is asked (docs/contributing/decisions.md says why no parser was taken). It works in bounded depth and steps.

mod ansi;
mod arithmetic;
mod builtins;
mod compound;
mod counting;
mod files;
mod folders;
mod found;
mod git;
mod heredocs;
mod interpreters;
mod languages;
mod names;
mod perhaps;
mod reader;
mod sed;
mod tools;
mod unfold;
mod words;
mod wrappers;

pub use folders::moves_somewhere;
pub use interpreters::runs_files;
pub(super) use unfold::base_name;

/// What a command line would do, as far as its text tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Script {
    /// Every simple command, those behind wrappers and in substitutions too.
    pub commands: Vec<Simple>,
    /// Why something of it cannot be told, in words; empty where all can.
    pub hidden: Vec<String>,
    /// It sets variables, which may change what a name stands for.
    pub assigns: bool,
    /// It changes, or may change, where programs are looked for.
    pub paths: bool,
    /// It changes the folder, or may, so that relative paths in it are uncertain.
    pub moves: bool,
}

/// A program or builtin with its arguments.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Simple {
    /// The words, the name first; none where there are redirections only.
    pub words: Vec<Word>,
    /// The files that its input or output is redirected to.
    pub redirects: Vec<Redirect>,
    /// It only starts the command behind it, which stands beside it in the list (`env`, `nohup`, `bash -c`).
    pub transparent: bool,
    /// More arguments come when it runs (`xargs`).
    pub open_end: bool,
    /// Why what it does is not in its words (`sh` without a script, `python -c`), although these are known.
    pub opaque: Option<&'static str>,
    /// Commands that it may start, which are known by a text in its words (`git rebase --exec TEXT`).
    pub perhaps: Vec<Simple>,
    /// The first of its words from which on they may be a command that it starts; none where it plainly starts none.
    pub starts_from: Option<usize>,
}

/// A word of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own that was seen in the text")]
pub struct Word {
    /// What it stands for, without quotes; of expansions, nothing.
    pub text: String,
    /// Whether that is all of it: no expansion, no pattern.
    pub literal: bool,
    /// As it was written.
    pub raw: String,
    /// It is `NAME=...`.
    pub(super) assigns: bool,
    /// It has neither quotes nor expansions.
    pub(super) plain: bool,
    /// It may become several words, or none.
    pub(super) splits: bool,
}

/// A file of a redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// The file's name.
    pub target: Word,
    /// Whether it is opened for writing.
    pub writes: bool,
    /// Whether it is opened for reading.
    pub reads: bool,
}

impl Word {
    /// A word that is just this.
    pub fn literally(text: &str) -> Self {
        Self { text: text.to_owned(), literal: true, raw: quoted(text), plain: true, ..Self::default() }
    }
}

impl Simple {
    /// The command, its words as they are meant where that is known, else as they were written; shortened.
    pub fn shown(&self) -> String {
        const MOST: usize = 120;
        let plainly = |word: &Word| if word.literal { quoted(&word.text) } else { word.raw.clone() };
        let words: Vec<String> = self.words.iter().map(|word| one_line(&plainly(word))).collect();
        let line = words.join(" ");
        match line.char_indices().nth(MOST) {
            Some((at, _)) => format!("{}…", &line[..at]),
            None => line,
        }
    }

    /// The command with its redirections, nothing left out: what it is told from others by.
    pub fn in_full(&self) -> String {
        let plainly = |word: &Word| if word.literal { quoted(&word.text) } else { word.raw.clone() };
        let redirect =
            |one: &Redirect| format!("{} {}", if one.writes { ">" } else { "<" }, plainly(&one.target));
        let words = self.words.iter().map(plainly).chain(self.redirects.iter().map(redirect));
        words.collect::<Vec<String>>().join(" ")
    }
}

impl Script {
    /// A program with arguments that no shell reads.
    pub fn of_program(program: &str, args: &[String]) -> Self {
        let words = std::iter::once(program).chain(args.iter().map(String::as_str)).map(Word::literally);
        let simple = Simple { words: words.collect(), ..Simple::default() };
        unfold::unfolded(found::Found::with(vec![simple]))
    }

    /// Takes in a variable that it is given from outside: it may change what a name stands for, as one that it sets itself.
    pub fn is_given(&mut self, name: &str, value: &str) {
        self.assigns = true;
        self.paths |= name == "PATH";
        if names::sets_program(&format!("{name}={value}")) {
            self.hidden.push(format!("by the variable {} programs run others", one_line(name)));
        }
        if found::holds_substitution(value) {
            self.hidden.push("a variable holds text that looks like a substitution".to_owned());
        }
    }
}

/// Reads a command line. It always gives a script; what could not be read is in its `hidden`.
pub fn read(text: &str) -> Script {
    let chars: Vec<char> = text.chars().collect();
    let mut found = found::Found::for_text(chars.len());
    if let Err(why) = reader::Reader::new(&chars, 0, &mut found).whole() {
        found.hide(&format!("the command line cannot be read: {why}"));
    }
    unfold::unfolded(found)
}

/// A word as a shell would have to be given it.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests;
