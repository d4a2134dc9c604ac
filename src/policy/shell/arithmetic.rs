//! Arithmetic, as far as it is told from commands, and what it may set. Not here: words.

use super::Word;
use super::found::{Read, may_set};
use super::reader::Reader;

impl Reader<'_, '_> {
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
        let (mut open, mut scratch, begin) = (0_u32, Word::default(), self.at);
        let mut has_output = false;
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
                    self.note_arithmetic(begin, has_output);
                    self.bump(2);
                    return Ok(true);
                }
                Some('$') => {
                    has_output |= self.ahead(1) == Some('(');
                    self.dollar(&mut scratch, true)?;
                }
                // Arithmetic is no quote to what is in them.
                Some('`') => {
                    has_output = true;
                    self.backquoted(&mut scratch, false)?;
                }
                Some(c) if is_sign(c) || more.contains(c) => self.bump(1),
                _ => return Ok(false),
            }
        }
    }

    /// Notes what this arithmetic, up to here, may set; what a command says in it may be an assignment, too.
    fn note_arithmetic(&mut self, begin: usize, has_output: bool) {
        let written: String = self.text[begin..self.at].iter().collect();
        let written = written.replace("\\\n", "");
        self.found.script.assigns |= has_output || may_set(&written);
        self.found.script.paths |= has_output || (may_set(&written) && written.contains("PATH"));
        self.found.counts_output |= has_output;
        self.found.counting.uses(&written);
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
}

/// A plain sign of arithmetic.
fn is_sign(c: char) -> bool {
    c.is_ascii_alphanumeric() || " \t_+-*/%<>=!&|^~?:,[]#@".contains(c)
}
