//! Text in `$'...'`, whose backslashes stand for other signs. Not here: other quotes.

use super::Word;
use super::found::Read;
use super::reader::Reader;

impl Reader<'_, '_> {
    /// Reads it, from after its first quote. What a sign cannot be told of leaves the word uncertain.
    pub fn ansi_quoted(&mut self, word: &mut Word) -> Read<()> {
        loop {
            self.step()?;
            let c = *self.text.get(self.at).ok_or("a quote is not closed")?;
            self.at += 1;
            match c {
                '\'' => return Ok(()),
                '\\' => self.escape(word)?,
                c => word.text.push(c),
            }
        }
    }

    fn escape(&mut self, word: &mut Word) -> Read<()> {
        let c = *self.text.get(self.at).ok_or("a quote is not closed")?;
        let digits = |from: usize, radix: u32, most: usize| {
            let rest = self.text.get(from..).unwrap_or_default();
            rest.iter().take(most).take_while(|c| c.is_digit(radix)).count()
        };
        let (from, radix, count) = match c {
            '0'..='7' => (self.at, 8, digits(self.at, 8, 3)),
            'x' => (self.at + 1, 16, digits(self.at + 1, 16, 2)),
            'u' => (self.at + 1, 16, digits(self.at + 1, 16, 4)),
            'U' => (self.at + 1, 16, digits(self.at + 1, 16, 8)),
            _ => {
                self.at += 1;
                let plain = match c {
                    'n' => '\n',
                    't' => '\t',
                    'r' => '\r',
                    'a' => '\u{7}',
                    'b' => '\u{8}',
                    'e' | 'E' => '\u{1b}',
                    'f' => '\u{c}',
                    'v' => '\u{b}',
                    '\\' | '\'' | '"' | '?' => c,
                    _ => return Err("a sign after a backslash in `$'` is not known here"),
                };
                word.text.push(plain);
                return Ok(());
            }
        };
        let number: String = self.text[from..from + count].iter().collect();
        self.at = from + count;
        match u8::from_str_radix(&number, radix) {
            // A NUL ends the text, and what is no ASCII may be a part of a sign.
            Ok(code @ 1..=127) => word.text.push(char::from(code)),
            _ => return Err("a number in `$'` is no plain sign"),
        }
        Ok(())
    }
}
