//! Lists and simple commands. Not here: words and what is in them, compound commands, here-documents.

use std::mem;

use super::found::{Found, Read, holds_substitution};
use super::heredocs::HereDoc;
use super::{Redirect, Simple, Word};

/// How deeply things may be nested.
const DEEPEST: u32 = 60;

/// Where a list ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// With the text.
    End,
    /// With a closing bracket, which is taken.
    Bracket,
    /// Before `;;` and its kin, and before `esac`.
    Clause,
}

/// Reads one text.
pub(super) struct Reader<'t, 'f> {
    pub text: &'t [char],
    pub at: usize,
    pub depth: u32,
    pub found: &'f mut Found,
    /// Here-documents whose bodies come after the next line break.
    pub awaited: Vec<HereDoc>,
    /// Some are awaited outside of this bracket: then a line break in here would be theirs.
    outer_waits: bool,
    /// It is in brackets, which may be those of a substitution.
    pub in_brackets: bool,
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Whether it ends a word.
pub(super) fn breaks(c: char) -> bool {
    is_blank(c) || matches!(c, '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

impl<'t, 'f> Reader<'t, 'f> {
    pub fn new(text: &'t [char], depth: u32, found: &'f mut Found) -> Self {
        Self { text, at: 0, depth, found, awaited: Vec::new(), outer_waits: false, in_brackets: false }
    }

    /// Reads all of it.
    pub fn whole(mut self) -> Read<()> {
        if self.depth > DEEPEST {
            return Err("it is nested too deeply");
        }
        self.list(Until::End)?;
        if self.awaited.is_empty() { Ok(()) } else { Err("a here-document does not begin") }
    }

    /// Counts a step, so that no text takes long.
    pub fn step(&mut self) -> Read<()> {
        self.found.step()
    }

    /// From this place on, the next that is not a line break after a backslash, which a shell takes out first.
    fn joined(&self, mut at: usize) -> usize {
        while self.text.get(at) == Some(&'\\') && self.text.get(at + 1) == Some(&'\n') {
            at += 2;
        }
        at
    }

    /// The character so many places ahead.
    pub fn ahead(&self, places: usize) -> Option<char> {
        let mut at = self.joined(self.at);
        for _ in 0..places {
            at = self.joined(at + 1);
        }
        self.text.get(at).copied()
    }

    /// Goes past so many characters.
    pub fn bump(&mut self, places: usize) {
        for _ in 0..places {
            self.at = self.joined(self.at) + 1;
        }
        self.at = self.at.min(self.text.len());
    }

    /// Goes past this text if it is next.
    pub fn eat(&mut self, wanted: &str) -> bool {
        let is_next = wanted.chars().enumerate().all(|(n, c)| self.ahead(n) == Some(c));
        if is_next {
            self.bump(wanted.chars().count());
        }
        is_next
    }

    pub fn blanks_only(&mut self) {
        while self.ahead(0).is_some_and(is_blank) {
            self.bump(1);
        }
        self.at = self.joined(self.at);
    }

    /// Goes past blanks, and a comment if one begins here. In a comment a backslash joins nothing.
    pub fn blanks(&mut self) {
        self.blanks_only();
        if self.ahead(0) == Some('#') {
            while self.text.get(self.at).is_some_and(|c| *c != '\n') {
                self.at += 1;
            }
        }
    }

    /// A line break that ends a command: bodies of here-documents follow it.
    fn newline(&mut self) -> Read<()> {
        if self.outer_waits {
            return Err("a here-document and a bracket cross");
        }
        self.bump(1);
        self.bodies()
    }

    /// A line break where a command goes on.
    pub fn newline_inside(&mut self) -> Read<()> {
        if self.outer_waits || !self.awaited.is_empty() {
            return Err("a here-document begins inside a command");
        }
        self.bump(1);
        Ok(())
    }

    /// Blanks, comments and line breaks where a command goes on.
    pub fn gap(&mut self) -> Read<()> {
        loop {
            self.blanks();
            if self.ahead(0) != Some('\n') {
                return Ok(());
            }
            self.newline_inside()?;
        }
    }

    /// Goes one level deeper for this; everything that may hold itself goes through here.
    pub fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth >= DEEPEST {
            return Err("it is nested too deeply");
        }
        self.depth += 1;
        let done = read(self);
        self.depth -= 1;
        done
    }

    /// A list in brackets, the first of which is gone past.
    pub fn bracketed(&mut self) -> Read<()> {
        self.deeper(Self::list_in_brackets)
    }

    fn list_in_brackets(&mut self) -> Read<()> {
        let outer = mem::take(&mut self.awaited);
        let waits = self.outer_waits;
        self.outer_waits |= !outer.is_empty();
        let was_in = mem::replace(&mut self.in_brackets, true);
        self.list(Until::Bracket)?;
        self.in_brackets = was_in;
        if !self.awaited.is_empty() {
            return Err("a here-document and a bracket cross");
        }
        self.awaited = outer;
        self.outer_waits = waits;
        Ok(())
    }

    /// Commands until the end. A word after a separator is a command, whatever a stricter grammar says of it: so none is
    /// missed.
    pub fn list(&mut self, until: Until) -> Read<()> {
        loop {
            self.step()?;
            self.blanks();
            match self.ahead(0) {
                None if until == Until::End => return Ok(()),
                None => return Err("something that was opened is not closed"),
                Some('\n') => self.newline()?,
                Some(';') if matches!(self.ahead(1), Some(';' | '&')) => {
                    return if until == Until::Clause {
                        Ok(())
                    } else {
                        Err("`;;` stands outside of `case`")
                    };
                }
                Some('&') if self.ahead(1) == Some('>') => self.simple()?,
                Some(';' | '&' | '|') => self.bump(1),
                Some(')') if until == Until::Bracket => {
                    self.bump(1);
                    return Ok(());
                }
                Some(')') => return Err("there is a closing bracket too many"),
                Some(_)
                    if until == Until::Clause && self.keyword().is_some_and(|(word, _)| word == "esac") =>
                {
                    return Ok(());
                }
                Some(_) => self.command()?,
            }
        }
    }

    /// A simple command, or the head of a function.
    pub fn simple(&mut self) -> Read<()> {
        let mut simple = Simple::default();
        let mut assigned = false;
        loop {
            self.step()?;
            self.blanks();
            match self.ahead(0) {
                None | Some('\n' | ';' | '|' | ')') => break,
                Some('&') if self.ahead(1) != Some('>') => break,
                Some('&') => self.redirect(&mut simple)?,
                Some('<' | '>') if self.ahead(1) != Some('(') => self.redirect(&mut simple)?,
                Some('(') => {
                    self.bump(1);
                    self.blanks_only();
                    let is_head = simple.words.len() == 1 && !assigned && self.eat(")");
                    // What the function does follows, as a command of its own.
                    return if is_head { Ok(()) } else { Err("a bracket stands where none can") };
                }
                Some(_) => assigned |= self.argument(&mut simple)?,
            }
        }
        self.found.script.assigns |= assigned;
        if !simple.words.is_empty() || !simple.redirects.is_empty() {
            self.found.keep(simple)?;
        }
        Ok(())
    }

    /// A word of a command, which may be an assignment before it; whether it is one.
    fn argument(&mut self, simple: &mut Simple) -> Read<bool> {
        let word = self.word()?;
        if matches!(self.ahead(0), Some('<' | '>')) {
            // A part of an array may be named there, too.
            if let Some(name) = word.raw.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
                let (name, index) = name.split_once('[').unwrap_or((name, ""));
                self.found.note_variable(name);
                self.found.counting.uses(index);
            }
            if names_descriptor(&word) {
                return Ok(false);
            }
        }
        let is_array = word.text.ends_with('=') && self.ahead(0) == Some('(');
        if word.assigns {
            self.found.note_value(&word);
            let name = word.raw.split('=').next().unwrap_or_default();
            if let Some((_, index)) = name.split_once('[') {
                self.found.counting.uses(index);
            }
        }
        if is_array {
            self.found.counting.sets(word.text.split(['=', '+', '[']).next().unwrap_or_default(), "()", "");
            self.array()?;
            // Text right behind it is no argument: what follows it would be the command.
            if !self.ahead(0).is_none_or(breaks) {
                return Err("text stands right behind an array");
            }
        }
        if simple.words.is_empty() && word.assigns {
            return Ok(true);
        }
        if simple.words.is_empty() && begins_subscript(&word.text) {
            // Blanks in a subscript belong to it, and what follows it would be the command.
            return Err("an array's subscript stands before a command");
        }
        simple.words.push(word);
        Ok(false)
    }

    fn redirect(&mut self, simple: &mut Simple) -> Read<()> {
        if self.eat("<<<") {
            let word = self.target()?;
            self.found.data |= holds_substitution(&word.text);
            self.found.counting.text(&word.text);
            return Ok(());
        }
        if self.eat("<<-") {
            return self.announced(true);
        }
        if self.eat("<<") {
            return self.announced(false);
        }
        let forms = ["&>>", "&>", "<&", "<>", "<", ">>", ">|", ">&", ">"];
        let Some(form) = forms.into_iter().find(|form| self.eat(form)) else {
            return Err("a redirection is not one");
        };
        let target = self.target()?;
        let digits = target.text.trim_end_matches('-');
        let duplicates = form.ends_with('&') && target.literal && digits.chars().all(|c| c.is_ascii_digit());
        if !duplicates {
            let (writes, reads) = (form != "<" && form != "<&", form.starts_with('<'));
            simple.redirects.push(Redirect { target, writes, reads });
        }
        Ok(())
    }

    /// The word after a redirection's sign.
    pub fn target(&mut self) -> Read<Word> {
        self.blanks_only();
        let begin = self.at;
        let word = self.word()?;
        if self.at == begin { Err("a redirection leads nowhere") } else { Ok(word) }
    }
}

/// `2` or `{name}` right before a redirection's sign.
fn names_descriptor(word: &Word) -> bool {
    let digits = !word.raw.is_empty() && word.raw.chars().all(|c| c.is_ascii_digit());
    let name = word.raw.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_name);
    digits || name
}

pub(super) fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn begins_subscript(text: &str) -> bool {
    text.split_once('[').is_some_and(|(name, _)| is_name(name))
}
