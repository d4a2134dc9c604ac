//! Words: quotes, expansions, and the commands inside these. Not here: what words make a command.

use super::Word;
use super::found::{Read, holds_substitution};
use super::names::is_command_table;
use super::reader::{Reader, breaks, is_name};

/// What a word was found to be while it is read.
#[derive(Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a sign that was seen")]
struct Shape {
    bracket: bool,
    brace: bool,
    comma: bool,
    assigns: bool,
}

impl Reader<'_, '_> {
    /// Reads a word; an empty one where none begins.
    pub fn word(&mut self) -> Read<Word> {
        let mut word = Word { literal: true, plain: true, ..Word::default() };
        let mut shape = Shape::default();
        while let Some(c) = self.ahead(0) {
            self.step()?;
            let begin = self.at;
            match c {
                '<' | '>' if self.ahead(1) == Some('(') => {
                    word.literal = false;
                    self.bump(2);
                    self.bracketed()?;
                }
                c if breaks(c) => break,
                '\0' => return Err("it holds a NUL"),
                '\\' => {
                    word.plain = false;
                    self.bump(1);
                    // What follows a backslash stands for itself, and a line break is gone already.
                    word.text.push(self.text.get(self.at).copied().unwrap_or('\\'));
                    self.at = (self.at + 1).min(self.text.len());
                }
                '\'' => {
                    word.plain = false;
                    self.bump(1);
                    self.single_quoted(&mut word)?;
                }
                '"' => {
                    word.plain = false;
                    self.double_quoted(&mut word)?;
                }
                '$' => {
                    word.plain = false;
                    self.dollar(&mut word, false)?;
                }
                '`' => {
                    word.plain = false;
                    word.splits = true;
                    self.backquoted(&mut word, false)?;
                }
                c => {
                    self.bump(1);
                    shape.note(c, &mut word);
                    word.text.push(c);
                }
            }
            // In these quotes nothing joins lines.
            let piece = self.text.get(begin..self.at).unwrap_or_default();
            if c == '\'' { word.raw.extend(piece) } else { word.raw.push_str(&joined(piece)) }
        }
        word.assigns = shape.assigns;
        Ok(word)
    }

    pub fn single_quoted(&mut self, word: &mut Word) -> Read<()> {
        loop {
            self.step()?;
            let c = *self.text.get(self.at).ok_or("a quote is not closed")?;
            self.at += 1;
            if c == '\'' {
                return Ok(());
            }
            word.text.push(c);
        }
    }

    fn double_quoted(&mut self, word: &mut Word) -> Read<()> {
        self.bump(1);
        loop {
            self.step()?;
            let c = self.ahead(0).ok_or("a quote is not closed")?;
            if c == '"' {
                self.bump(1);
                return Ok(());
            }
            self.expanding(c, word, true)?;
        }
    }

    /// One piece of text in which expansions are made and quotes mean nothing more.
    pub fn expanding(&mut self, c: char, word: &mut Word, in_quotes: bool) -> Read<()> {
        match c {
            '\\' => {
                self.bump(1);
                match self.text.get(self.at) {
                    Some(&next) => {
                        if !loses_backslash(next, in_quotes) {
                            word.text.push('\\');
                        }
                        word.text.push(next);
                        self.at += 1;
                    }
                    None => word.text.push('\\'),
                }
                Ok(())
            }
            '$' => self.dollar(word, true),
            '`' => self.backquoted(word, in_quotes),
            c => {
                self.bump(1);
                word.text.push(c);
                Ok(())
            }
        }
    }

    pub fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
        self.deeper(|reader| reader.expansion(word, in_quotes))
    }

    fn expansion(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
        match self.ahead(1) {
            Some('(') => {
                word.literal = false;
                word.splits |= !in_quotes;
                self.bump(1);
                if self.ahead(1) == Some('(') && self.arithmetic()? {
                    return Ok(());
                }
                self.bump(1);
                self.bracketed()
            }
            Some('{') => {
                word.literal = false;
                self.bump(2);
                let begin = self.at;
                self.parameter(in_quotes)?;
                // In quotes only what names all of a list, or another variable, may become several words.
                word.splits |=
                    !in_quotes || self.text[begin..self.at].contains(&'@') || self.text[begin] == '!';
                Ok(())
            }
            Some('[') => Err("`$[` is an old spelling of arithmetic"),
            Some('\'') if !in_quotes => {
                self.bump(2);
                self.ansi_quoted(word)
            }
            Some('"') if !in_quotes => {
                self.bump(1);
                self.double_quoted(word)
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                word.literal = false;
                word.splits |= !in_quotes;
                self.bump(1);
                let begin = self.at;
                while self.ahead(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.bump(1);
                }
                // What the command before it ended with is an argument of that one.
                if self.at == begin + 1 && c == '_' {
                    self.found.counting.uses_argument();
                }
                Ok(())
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                word.literal = false;
                word.splits |= !in_quotes || c == '@';
                if c.is_ascii_digit() || matches!(c, '@' | '*') {
                    self.found.counting.uses_argument();
                }
                self.bump(2);
                Ok(())
            }
            _ => {
                self.bump(1);
                word.text.push('$');
                Ok(())
            }
        }
    }

    /// `${...}`, from after its brace.
    fn parameter(&mut self, in_quotes: bool) -> Read<()> {
        if self.ahead(0).is_none_or(breaks) {
            return Err("`${` runs a command or names nothing");
        }
        let begin = self.at;
        let mut scratch = Word::default();
        loop {
            self.step()?;
            match self.ahead(0) {
                None => return Err("a `${` is not closed"),
                Some('}') => {
                    self.bump(1);
                    break;
                }
                Some('\\') => {
                    self.bump(1);
                    scratch.text.extend(self.text.get(self.at));
                    self.at = (self.at + 1).min(self.text.len());
                }
                Some('\'') if in_quotes => self.plainly_quoted(&mut scratch)?,
                Some('\'') => {
                    self.bump(1);
                    self.single_quoted(&mut scratch)?;
                }
                Some('"') => self.double_quoted(&mut scratch)?,
                Some('$') => self.dollar(&mut scratch, in_quotes)?,
                Some('`') => self.backquoted(&mut scratch, in_quotes)?,
                Some('<' | '>') if self.ahead(1) == Some('(') => {
                    self.bump(2);
                    self.bracketed()?;
                }
                Some('@') if self.ahead(1) == Some('P') => {
                    self.found.hide("`@P` runs what a variable holds");
                    self.bump(2);
                }
                Some(c) => {
                    scratch.text.push(c);
                    self.bump(1);
                }
            }
        }
        if holds_substitution(&scratch.text) {
            self.found
                .hide("text in `${` that looks like a substitution may be run as an index or an offset");
        }
        self.found.counting.value("", &scratch.text);
        if is_command_table(&scratch.text) {
            self.found.hide("it may give a command another name");
        }
        let written: String = self.text[begin..self.at].iter().collect();
        self.found.note_parameter(&written.replace("\\\n", ""));
        Ok(())
    }

    /// A text between two quotes where these may be quotes or mere signs: it must mean the same either way.
    fn plainly_quoted(&mut self, word: &mut Word) -> Read<()> {
        self.bump(1);
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = rest.iter().take_while(|c| c.is_alphanumeric() || " _-.,:/%+@".contains(**c)).count();
        if rest.get(length) != Some(&'\'') {
            return Err("a quote in `${` in quotes means different things");
        }
        for _ in 0..=length {
            self.step()?;
            word.text.extend(self.text.get(self.at).filter(|c| **c != '\''));
            self.at += 1;
        }
        Ok(())
    }

    /// A substitution in backquotes. Its text loses a layer of backslashes before it is a script.
    pub fn backquoted(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
        word.literal = false;
        self.bump(1);
        let mut inner = Vec::new();
        loop {
            self.step()?;
            let c = *self.text.get(self.at).ok_or("a backquote is not closed")?;
            self.at += 1;
            match (c, self.text.get(self.at)) {
                ('`', _) => break,
                ('\\', Some(&next)) => {
                    if !loses_backslash(next, in_quotes) {
                        inner.push('\\');
                    }
                    inner.push(next);
                    self.at += 1;
                }
                (c, _) => inner.push(c),
            }
        }
        Reader::new(&inner, self.depth + 1, self.found).whole()
    }
}

impl Word {
    /// Notes that it is a pattern, of which several words may come.
    fn spreads(&mut self) {
        self.literal = false;
        self.splits = true;
    }
}

impl Shape {
    /// Notes what an unquoted sign makes of a word.
    fn note(&mut self, c: char, word: &mut Word) {
        match c {
            '*' | '?' => word.spreads(),
            '[' => self.bracket = true,
            ']' if self.bracket => word.spreads(),
            '{' => self.brace = true,
            ',' => self.comma |= self.brace,
            '}' if self.brace && (self.comma || word.text.contains("..")) => word.spreads(),
            '~' if word.text.is_empty() => word.literal = false,
            '=' if !self.assigns => self.assigns = names_variable(&word.text),
            _ => {}
        }
    }
}

/// A piece of a text without the line breaks behind a backslash, which a shell takes out before it looks at it.
fn joined(piece: &[char]) -> String {
    let mut joined = String::new();
    let mut rest = piece.iter();
    while let Some(&c) = rest.next() {
        match (c, rest.as_slice().first()) {
            ('\\', Some('\n')) => drop(rest.next()),
            ('\\', Some(&next)) => {
                joined.extend([c, next]);
                rest.next();
            }
            _ => joined.push(c),
        }
    }
    joined
}

/// Whether a backslash before this sign is no more there once expansions are made.
fn loses_backslash(next: char, in_quotes: bool) -> bool {
    matches!(next, '$' | '`' | '\\') || (in_quotes && next == '"')
}

/// `NAME`, `NAME+` or `NAME[...]`, before an equals sign.
fn names_variable(text: &str) -> bool {
    let text = text.strip_suffix('+').unwrap_or(text);
    match text.strip_suffix(']').and_then(|rest| rest.split_once('[')) {
        Some((name, _)) => is_name(name),
        None => is_name(text),
    }
}
