//! Parses loops, conditions and arithmetic, as far as they contain commands or set variables.

use super::parse_state::Parsed;
use super::parser::{ShellParser, ends_word};

/// Operators of `[[` whose operands are arithmetic.
const ARITHMETIC_OPERATORS: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

impl ShellParser<'_, '_> {
    /// Parses the head of `for`, including its list.
    pub fn parse_loop_head(&mut self) -> Parsed<()> {
        self.skip_blanks();
        if self.peek(0) == Some('(') {
            let is_arithmetic = self.peek(1) == Some('(') && self.parse_arithmetic(true)?;
            return if is_arithmetic {
                Ok(())
            } else {
                Err("the head of a loop is no arithmetic")
            };
        }
        let name = self.parse_word()?;
        self.state.record_variable(&name.text);
        self.skip_blanks();
        // Without a list the body may follow at once.
        let begin = self.at;
        if self.peek(0).is_some_and(|c| !matches!(c, ';' | '\n')) && self.parse_word()?.raw != "in"
        {
            self.at = begin;
            return Ok(());
        }
        loop {
            self.skip_blanks();
            if self.peek(0).is_none_or(|c| matches!(c, ';' | '\n')) {
                return Ok(());
            }
            let begin = self.at;
            let word = self.parse_word()?;
            if self.at == begin {
                return Err("a loop has no list");
            }
            self.state.record_value(&word.text);
        }
    }

    /// Parses `[[ ... ]]`, from after the opening brackets.
    pub fn parse_condition(&mut self) -> Parsed<()> {
        let mut is_arithmetic = false;
        let mut written = String::new();
        loop {
            match self.peek(0) {
                None | Some(';' | '#') => {
                    return Err("a condition is not closed, or holds a comment");
                }
                Some('\n') => self.end_line()?,
                Some(c)
                    if ends_word(c) && !(matches!(c, '<' | '>') && self.peek(1) == Some('(')) =>
                {
                    self.at += 1;
                }
                Some(_) => {
                    let word = self.parse_word()?;
                    match word.text.as_str() {
                        "]]" => break,
                        "=" | "==" | "!=" | "=~" => {}
                        text => {
                            is_arithmetic |= ARITHMETIC_OPERATORS.contains(&text);
                            written.push_str(&word.raw);
                        }
                    }
                }
            }
        }
        if is_arithmetic {
            self.state.record_arithmetic(&written);
        }
        Ok(())
    }

    /// Parses `((...))`. For a group within a group it parses nothing and returns false.
    pub fn parse_arithmetic(&mut self, in_loop: bool) -> Parsed<bool> {
        let body = &self.text[self.at + 2..];
        let mut open = 0_u32;
        let end = body.iter().position(|c| {
            let is_end = *c == ')' && open == 0;
            open = if *c == '(' {
                open + 1
            } else {
                open.saturating_sub(u32::from(*c == ')'))
            };
            is_end
        });
        let end = end.ok_or("arithmetic is not closed")?;
        self.state.spend_steps(end)?;
        let is_arithmetic = body.get(end + 1) == Some(&')');
        let body = &body[..end];
        let written: String = body.iter().collect();
        // A comment, a quote or a here-document may contain a bracket that does not count.
        let is_plain =
            |c: char| c.is_ascii_alphanumeric() || " \t\n_+-*/%<>=!&|^~?:,;.${}@[]()".contains(c);
        let is_unclear = !written
            .replace("{#", "")
            .replace("$#", "")
            .chars()
            .all(is_plain)
            || (!is_arithmetic && written.contains("<<"))
            || (is_arithmetic && !in_loop && written.contains(';'));
        if is_unclear {
            return Err("arithmetic, or a group in a group, holds what may mean different things");
        }
        if is_arithmetic {
            self.at += end + 4;
            self.state.record_arithmetic(&written);
            ShellParser::new(body, self.depth + 1, self.state)?.parse_expansions()?;
        }
        Ok(is_arithmetic)
    }
}
