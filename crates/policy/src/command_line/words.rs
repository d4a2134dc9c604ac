//! Parses words: quotes, expansions, and the substitutions in them.

use super::command::CommandWord;
use super::parse_state::{Parsed, Reason};
use super::parser::{ShellParser, ends_word, join_lines};
use punie_core::variable_name::is_variable_name;

const UNCLOSED_QUOTE: Reason = "a quote is not closed";

impl ShellParser<'_, '_> {
    /// Parses a word; returns an empty one if none begins here.
    pub fn parse_word(&mut self) -> Parsed<CommandWord> {
        let mut word = CommandWord {
            is_literal: true,
            ..CommandWord::default()
        };
        let begin = self.at;
        let mut unquoted = String::new();
        while let Some(c) = self.peek(0) {
            match c {
                '<' | '>' if self.peek(1) == Some('(') => {
                    self.at += 1;
                    word.is_literal = false;
                    self.parse_nested_level(Self::parse_substitution)?;
                }
                c if ends_word(c) => break,
                '\0' => return Err("it holds a NUL"),
                '\\' => {
                    let next = self.peek(1);
                    self.at = (self.at + 2).min(self.text.len());
                    word.text.extend(next.filter(|next| *next != '\n'));
                }
                '\'' => self.parse_single_quoted(&mut word, false)?,
                '"' => self.parse_double_quoted(&mut word)?,
                '$' | '`' => self.parse_expansion(&mut word, false)?,
                c => {
                    if c == '=' && !unquoted.contains('=') {
                        word.is_assignment =
                            is_assignment_name(&join_lines(&self.text_since(begin)));
                    }
                    self.at += 1;
                    word.text.push(c);
                    unquoted.push(c);
                }
            }
        }
        word.raw = self.text_since(begin);
        word.may_split |= may_be_pattern(&unquoted);
        word.is_literal &= !word.may_split && !word.raw.starts_with('~');
        self.state.record_text(&word.text);
        Ok(word)
    }

    /// Parses `'...'`, or `$'...'`, whose backslash escapes are not decoded.
    fn parse_single_quoted(&mut self, word: &mut CommandWord, has_escapes: bool) -> Parsed<()> {
        loop {
            self.at += 1;
            match self.peek(0).ok_or(UNCLOSED_QUOTE)? {
                '\'' => break,
                '\\' if has_escapes => {
                    word.is_literal = false;
                    self.at += 1;
                    word.text.push('\\');
                    word.text.extend(self.peek(0));
                }
                c => word.text.push(c),
            }
        }
        self.at += 1;
        Ok(())
    }

    fn parse_double_quoted(&mut self, word: &mut CommandWord) -> Parsed<()> {
        self.at += 1;
        while self.peek(0).ok_or(UNCLOSED_QUOTE)? != '"' {
            self.parse_expanded(word, true)?;
        }
        self.at += 1;
        Ok(())
    }

    /// Parses one piece of a text with expansions, in which single quotes are literal.
    fn parse_expanded(&mut self, word: &mut CommandWord, in_quotes: bool) -> Parsed<()> {
        match (self.peek(0), self.peek(1)) {
            (Some('$' | '`'), _) => return self.parse_expansion(word, true),
            (Some('\\'), Some(next)) => {
                let is_escaped = matches!(next, '$' | '`' | '\\') || (in_quotes && next == '"');
                word.text.extend((!is_escaped).then_some('\\'));
                word.text.push(next);
                self.at += 2;
            }
            (next, _) => {
                word.text.extend(next);
                self.at += 1;
            }
        }
        Ok(())
    }

    /// Parses a whole text with expansions, in which quotes are literal.
    pub fn parse_expansions(mut self) -> Parsed<()> {
        let mut word = CommandWord::default();
        while self.peek(0).is_some() {
            self.parse_expanded(&mut word, false)?;
        }
        self.state.record_text(&word.text);
        Ok(())
    }

    /// Parses one level deeper.
    fn parse_nested_level(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<()>) -> Parsed<()> {
        ShellParser::new(&[], self.depth + 1, self.state)?;
        self.depth += 1;
        parse(self)?;
        self.depth -= 1;
        Ok(())
    }

    /// Parses an expansion that begins with `$` or a backquote.
    fn parse_expansion(&mut self, word: &mut CommandWord, in_quotes: bool) -> Parsed<()> {
        let first = self.peek(0);
        let next = self.peek(1);
        self.at += 1;
        match next {
            Some('\'') if first == Some('$') && !in_quotes => {
                return self.parse_single_quoted(word, true);
            }
            Some('"') if first == Some('$') && !in_quotes => return self.parse_double_quoted(word),
            Some('[') if first == Some('$') => return Err("`$[` is an old spelling of arithmetic"),
            Some('\\') if self.peek(1) == Some('\n') => {
                return Err("a line ends within an expansion");
            }
            Some(c) if c.is_ascii_alphanumeric() || "_({@*#?-$!".contains(c) => {}
            _ if first == Some('$') => {
                word.text.push('$');
                return Ok(());
            }
            _ => {}
        }
        word.is_literal = false;
        word.may_split |= !in_quotes || next == Some('@');
        match next {
            _ if first == Some('`') => self.parse_backquoted(),
            Some('(') if self.peek(1) == Some('(') && self.parse_arithmetic(false)? => Ok(()),
            Some('(') => self.parse_nested_level(Self::parse_substitution),
            Some('{') => self.parse_nested_level(|parser| parser.parse_parameter(word, in_quotes)),
            _ => {
                self.at += 1;
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                while next.is_some_and(is_name) && self.peek(0).is_some_and(is_name) {
                    self.at += 1;
                }
                Ok(())
            }
        }
    }

    /// Parses `${...}`, from its brace.
    fn parse_parameter(&mut self, word: &mut CommandWord, in_quotes: bool) -> Parsed<()> {
        self.at += 1;
        if self.peek(0).is_none_or(ends_word) {
            return Err("`${` runs a command or names nothing");
        }
        let begin = self.at;
        let mut inner = CommandWord::default();
        loop {
            match self.peek(0).ok_or("a `${` is not closed")? {
                '}' => break,
                '\'' if in_quotes => {
                    return Err("a quote in `${` in quotes means different things");
                }
                '<' | '>' if self.peek(1) == Some('(') => {
                    return Err("a substitution stands in `${`");
                }
                '\'' => self.parse_single_quoted(&mut inner, false)?,
                '"' => self.parse_double_quoted(&mut inner)?,
                _ => self.parse_expanded(&mut inner, in_quotes)?,
            }
        }
        let written = join_lines(&self.text_since(begin));
        self.at += 1;
        // In quotes, only all parts of a list or another variable become several words.
        word.may_split |= written.contains('@') || written.starts_with('!');
        self.state.record_text(&inner.text);
        self.state.record_parameter(&written);
        Ok(())
    }

    /// Parses a substitution in backquotes, from after the first.
    fn parse_backquoted(&mut self) -> Parsed<()> {
        let rest = &self.text[self.at..];
        let end = rest.iter().position(|c| matches!(c, '`' | '\\'));
        let end = end
            .filter(|end| rest[*end] == '`')
            .ok_or("a backquote is not closed, or holds a backslash")?;
        self.at += end + 1;
        ShellParser::new(&rest[..end], self.depth + 1, self.state)?.parse_all()
    }
}

/// Returns whether an unquoted text may be a pattern, which may expand to several words.
fn may_be_pattern(unquoted: &str) -> bool {
    let inside = |open, close| Some(unquoted.split_once(open)?.1.rsplit_once(close)?.0);
    unquoted.contains(['*', '?'])
        || inside('[', ']').is_some()
        || inside('{', '}').is_some_and(|text| text.contains(',') || text.contains(".."))
}

/// Returns whether the text before an equals sign is `NAME`, `NAME+` or `NAME[...]`.
fn is_assignment_name(text: &str) -> bool {
    let text = text.strip_suffix('+').unwrap_or(text);
    let index = text.strip_suffix(']').and_then(|rest| rest.split_once('['));
    is_variable_name(index.map_or(text, |(name, _)| name))
}
