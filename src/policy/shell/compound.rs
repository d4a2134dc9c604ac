//! Compound commands: loops, conditions, cases, functions, arrays. Not here: what stands between them.

use super::found::{Read, holds_substitution, may_set};
use super::reader::{Reader, Until, breaks, is_blank};

/// Words that mean something where a command begins.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time", "coproc",
    "for", "select", "case", "esac", "in", "[[", "function",
];

/// Signs in `[[` beside which arithmetic stands.
const COUNTING: &[&str] = &["-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-v", "-R"];

impl Reader<'_, '_> {
    /// The keyword that is next, without quotes and whole, and how many characters it has.
    pub fn keyword(&self) -> Option<(&'static str, usize)> {
        let mut word = String::new();
        while let Some(c) = self.ahead(word.len()).filter(|c| !breaks(*c)) {
            if !(c.is_ascii_lowercase() || "{}![".contains(c)) || word.len() > 8 {
                return None;
            }
            word.push(c);
        }
        KEYWORDS.iter().find(|known| **known == word).map(|known| (*known, word.len()))
    }

    /// Whatever begins where a command may begin.
    pub fn command(&mut self) -> Read<()> {
        if self.ahead(0) == Some('(') {
            if self.ahead(1) == Some('(') && self.arithmetic()? {
                return Ok(());
            }
            self.bump(1);
            return self.bracketed();
        }
        let Some((word, length)) = self.keyword() else { return self.simple() };
        match word {
            "in" => return self.simple(),
            // With an option it is the program of that name, for some shells.
            "time" if self.is_program_time()? => return self.simple(),
            "esac" => return Err("`esac` stands outside of `case`"),
            _ => self.bump(length),
        }
        match word {
            "time" => {
                self.blanks_only();
                while let (Some('-'), Some('p' | '-')) = (self.ahead(0), self.ahead(1)) {
                    if !self.ahead(2).is_none_or(breaks) {
                        break;
                    }
                    self.bump(2);
                    self.blanks_only();
                }
                Ok(())
            }
            "coproc" => {
                self.found.hide("`coproc` may be followed by a name or by a command");
                Ok(())
            }
            "for" | "select" => self.head_of_loop(),
            "case" => self.deeper(Self::case),
            "[[" => self.condition(),
            "function" => {
                self.blanks_only();
                self.word()?;
                self.blanks_only();
                if self.eat("(") {
                    self.blanks_only();
                    return if self.eat(")") { Ok(()) } else { Err("a function has no head") };
                }
                Ok(())
            }
            // The others stand before a command, or end one.
            _ => Ok(()),
        }
    }

    /// Whether options follow `time` that are not the keyword's.
    fn is_program_time(&mut self) -> Read<bool> {
        let begin = self.at;
        self.bump(4);
        while self.ahead(0).is_some_and(is_blank) {
            self.step()?;
            self.bump(1);
        }
        let is_keyword = matches!(self.ahead(1), Some('p' | '-')) && self.ahead(2).is_none_or(breaks);
        let is_program = self.ahead(0) == Some('-') && !is_keyword;
        self.at = begin;
        Ok(is_program)
    }

    fn head_of_loop(&mut self) -> Read<()> {
        self.blanks_only();
        if self.ahead(0) == Some('(') {
            return self.counting();
        }
        let name = self.word()?;
        self.found.note_variable(&name.text);
        self.gap()?;
        if self.keyword().is_none_or(|(word, _)| word != "in") {
            self.found.counting.sets(&name.text, "$@", "");
            self.found.counting.uses_argument();
            return Ok(());
        }
        self.bump(2);
        loop {
            self.step()?;
            self.blanks();
            let is_word = match self.ahead(0) {
                Some('<' | '>') => self.ahead(1) == Some('('),
                Some(';' | '\n') => return Ok(()),
                c => c.is_some_and(|c| !breaks(c)),
            };
            if !is_word {
                return Err("a loop has no list");
            }
            let word = self.word()?;
            self.found.counting.sets(&name.text, &word.raw, &word.text);
        }
    }

    /// `((a; b; c))` of a loop: three pieces of arithmetic.
    fn counting(&mut self) -> Read<()> {
        if !self.eat("((") {
            return Err("a loop has no list");
        }
        if self.signs(";")? { Ok(()) } else { Err("the head of a loop is no arithmetic") }
    }

    fn case(&mut self) -> Read<()> {
        self.blanks_only();
        let word = self.word()?;
        self.found.data |= holds_substitution(&word.text);
        self.gap()?;
        if self.keyword().is_none_or(|(word, _)| word != "in") {
            return Err("a `case` has no `in`");
        }
        self.bump(2);
        loop {
            self.step()?;
            self.gap()?;
            if let Some(("esac", length)) = self.keyword() {
                self.bump(length);
                return Ok(());
            }
            self.eat("(");
            self.patterns()?;
            self.list(Until::Clause)?;
            let _ = self.eat(";;&") || self.eat(";;") || self.eat(";&");
        }
    }

    fn patterns(&mut self) -> Read<()> {
        loop {
            self.blanks_only();
            let begin = self.at;
            self.word()?;
            if self.at == begin {
                return Err("a `case` has no pattern");
            }
            self.blanks_only();
            if self.eat(")") {
                return Ok(());
            }
            if !self.eat("|") {
                return Err("a pattern of `case` does not end");
            }
        }
    }

    /// `[[ ... ]]`, from after its beginning.
    fn condition(&mut self) -> Read<()> {
        let (mut counts, mut sets, mut written) = (false, false, String::new());
        loop {
            self.step()?;
            self.blanks_only();
            match self.ahead(0) {
                None | Some(';') => return Err("a `[[` is not closed"),
                Some('#') => return Err("what may be a comment stands in a condition"),
                Some('\n') => self.newline_inside()?,
                Some('<' | '>') if self.ahead(1) == Some('(') => drop(self.word()?),
                Some(c) if breaks(c) => self.bump(1),
                Some(_) => {
                    let word = self.word()?;
                    if word.raw == "]]" {
                        self.found.script.assigns |= counts && sets;
                        if counts {
                            self.found.counting.uses(&written);
                        }
                        return Ok(());
                    }
                    // What is on both sides of these is arithmetic, and so is the index of a variable that is looked for.
                    written = written + " " + &word.raw;
                    counts |= COUNTING.contains(&word.text.as_str());
                    let is_sign = matches!(word.raw.as_str(), "=" | "==" | "!=" | "=~");
                    let has_output = word.raw.contains("$(") || word.raw.contains('`');
                    sets |= has_output || (!is_sign && may_set(&word.raw));
                    self.found.counts_output |= has_output;
                    if holds_substitution(&word.text) {
                        self.found.data = true;
                        self.found.hide("a condition compares text that looks like a substitution");
                    }
                }
            }
        }
    }

    /// `(...)` of an array, from its bracket.
    pub fn array(&mut self) -> Read<()> {
        self.bump(1);
        loop {
            self.step()?;
            self.gap()?;
            match self.ahead(0) {
                Some(')') => {
                    self.bump(1);
                    return Ok(());
                }
                Some('<' | '>') if self.ahead(1) == Some('(') => drop(self.word()?),
                Some(c) if !breaks(c) => {
                    let word = self.word()?;
                    if word.raw.starts_with('[') {
                        self.found.counting.uses(word.raw.split(']').next().unwrap_or_default());
                    }
                    self.found.note_value(&word);
                }
                _ => return Err("an array is not closed"),
            }
        }
    }
}
