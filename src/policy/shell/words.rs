//! Words: quotes, expansions, and the commands inside these. Not here: what words make a command.

use super::Word;
use super::names::is_command_table;
use super::reader::{Read, Reader, breaks, holds_substitution, is_name};

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
        let begin = self.at;
        let mut word = Word { literal: true, plain: true, ..Word::default() };
        let mut shape = Shape::default();
        while let Some(c) = self.ahead(0) {
            self.step()?;
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
        }
        word.assigns = shape.assigns;
        word.raw = self.text[begin..self.at].iter().collect();
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

    fn dollar(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
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
                while self.ahead(0).is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') {
                    self.bump(1);
                }
                Ok(())
            }
            Some(c) if c.is_ascii_digit() || "@*#?-$!".contains(c) => {
                word.literal = false;
                word.splits |= !in_quotes || c == '@';
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

    /// Goes past `((...))` if this is arithmetic, which only plain signs and expansions are taken for; stays where it
    /// is clearly a group in a group. What it may be else cannot be read: in arithmetic quotes are no quotes.
    pub fn arithmetic(&mut self) -> Read<bool> {
        let (begin, kept) = (self.at, self.found.script.commands.len());
        self.bump(2);
        let is_it = self.signs("")?;
        if !is_it {
            self.at = begin;
            // They are found again when it is read as what it is.
            self.found.script.commands.truncate(kept);
            if !self.is_nested_group()? {
                return Err("`((` begins neither plain arithmetic nor clearly a group in a group");
            }
        }
        Ok(is_it)
    }

    /// Goes past the plain signs and expansions of arithmetic, and these signs, to behind its `))`; false where it comes to
    /// anything else, at which it stays.
    pub fn signs(&mut self, more: &str) -> Read<bool> {
        let (mut open, mut scratch) = (0_u32, Word::default());
        loop {
            self.step()?;
            match self.ahead(0) {
                Some('(') => {
                    open += 1;
                    self.bump(1);
                }
                Some(')') if open > 0 => {
                    open -= 1;
                    self.bump(1);
                }
                Some(')') if self.ahead(1) == Some(')') => {
                    self.bump(2);
                    return Ok(true);
                }
                Some('$') => self.dollar(&mut scratch, true)?,
                // Arithmetic is no quote to what is in them.
                Some('`') => self.backquoted(&mut scratch, false)?,
                Some(c) if is_sign(c) || more.contains(c) => self.bump(1),
                _ => return Ok(false),
            }
        }
    }

    /// Whether the inner one of these two brackets clearly closes before the outer: by signs that mean the same in
    /// whichever way it is read, and counted with what is in quotes and without it.
    fn is_nested_group(&mut self) -> Read<bool> {
        let (mut all, mut unquoted, mut quote) = (0_i64, 0_i64, None);
        let (mut all_closed, mut unquoted_closed) = (false, false);
        let mut at = self.at + 1;
        while !(all_closed && unquoted_closed) {
            self.step()?;
            let (Some(&c), next) = (self.text.get(at), self.text.get(at + 1)) else { return Ok(false) };
            at += 1;
            let change = match c {
                '#' | '\\' | '`' => return Ok(false),
                '<' if next == Some(&'<') => return Ok(false),
                'c' if self.text[at - 1..].starts_with(&['c', 'a', 's', 'e']) => return Ok(false),
                '\'' | '"' if quote.is_none_or(|open| open == c) => {
                    quote = if quote.is_none() { Some(c) } else { None };
                    continue;
                }
                '(' => 1,
                ')' => -1,
                _ => continue,
            };
            all += if all_closed { 0 } else { change };
            unquoted += if unquoted_closed || quote.is_some() { 0 } else { change };
            let closes = (!all_closed && all == 0) || (!unquoted_closed && unquoted == 0 && quote.is_none());
            all_closed |= all == 0;
            unquoted_closed |= unquoted == 0;
            if closes && next == Some(&')') {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// `${...}`, from after its brace.
    fn parameter(&mut self, in_quotes: bool) -> Read<()> {
        if self.ahead(0).is_none_or(breaks) {
            return Err("`${` runs a command or names nothing");
        }
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
                Some('\'') if in_quotes => return Err("a quote in `${` in quotes means different things"),
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
        if is_command_table(&scratch.text) {
            self.found.hide("it may give a command another name");
        }
        Ok(())
    }

    /// A substitution in backquotes. Its text loses a layer of backslashes before it is a script.
    fn backquoted(&mut self, word: &mut Word, in_quotes: bool) -> Read<()> {
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

/// A plain sign of arithmetic.
fn is_sign(c: char) -> bool {
    c.is_ascii_alphanumeric() || " \t_+-*/%<>=!&|^~?:,[]#@".contains(c)
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
