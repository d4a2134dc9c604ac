//! Here-documents: announced in a command, read after its line, with the substitutions inside them. Not here: where
//! line breaks end a command.

use super::Word;
use super::found::{Read, holds_substitution};
use super::reader::Reader;

/// A here-document whose body is still to come.
pub(super) struct HereDoc {
    end: String,
    /// Its body is taken as it is.
    quoted: bool,
    strips_tabs: bool,
}

impl Reader<'_, '_> {
    /// Notes a here-document, from after its sign.
    pub fn announced(&mut self, strips_tabs: bool) -> Read<()> {
        let end = self.target()?;
        if !end.literal {
            return Err("the end of a here-document is no plain word");
        }
        self.awaited.push(HereDoc { end: end.text, quoted: !end.plain, strips_tabs });
        Ok(())
    }

    /// Reads the bodies that begin here.
    pub fn bodies(&mut self) -> Read<()> {
        for awaited in std::mem::take(&mut self.awaited) {
            let body = self.body(&awaited)?;
            if awaited.quoted {
                let text = body.iter().collect::<String>();
                self.found.data |= holds_substitution(&text);
                if self.in_brackets {
                    self.found.counting.text(&text);
                }
            } else {
                self.substitutions(&body)?;
            }
        }
        Ok(())
    }

    /// The lines up to the one that ends it, or to the end of the text, as a shell takes them.
    fn body(&mut self, doc: &HereDoc) -> Read<Vec<char>> {
        let mut body = Vec::new();
        while self.at < self.text.len() {
            let line = self.line(!doc.quoted)?;
            let bare: String = line.iter().skip_while(|c| doc.strips_tabs && **c == '\t').collect();
            if bare == doc.end {
                return Ok(body);
            }
            // In a substitution bash ends it here, too, and reads on behind the word.
            let rest = bare.strip_prefix(&doc.end).filter(|_| self.in_brackets);
            if rest.is_some_and(|rest| rest.contains(')')) {
                return Err("a line of a here-document begins as its last one and holds a bracket");
            }
            body.extend(line);
            body.push('\n');
        }
        Ok(body)
    }

    /// One line; where the body is not quoted, with the lines that a backslash joins to it.
    fn line(&mut self, joins: bool) -> Read<Vec<char>> {
        let mut line = Vec::new();
        while let Some(&c) = self.text.get(self.at) {
            self.step()?;
            self.at += 1;
            match (c, self.text.get(self.at)) {
                ('\n', _) => break,
                ('\\', Some('\n')) if joins => self.at += 1,
                ('\\', Some(&next)) if joins => {
                    line.extend(['\\', next]);
                    self.at += 1;
                }
                (c, _) => line.push(c),
            }
        }
        Ok(line)
    }

    fn substitutions(&mut self, body: &[char]) -> Read<()> {
        let mut inner = Reader::new(body, self.depth + 1, self.found);
        let mut scratch = Word::default();
        while let Some(c) = inner.ahead(0) {
            inner.step()?;
            inner.expanding(c, &mut scratch, false)?;
        }
        self.found.data |= holds_substitution(&scratch.text);
        Ok(())
    }
}
