//! Reads scripts of sed, as far as it takes to tell that no command in them starts another program.

/// Commands without an argument.
const PLAIN: &str = "=dDgGhHnNpPxzF";
/// Commands that a number may follow.
const WITH_NUMBER: &str = "lLqQ";
/// Flags of `s`, without `e` and `w`.
const SUBSTITUTE_FLAGS: &str = "0123456789gpiImM";

/// Returns whether a script may start a command: it has `e` or `s///e`, or something that is not read here.
pub(super) fn sed_may_start(script: &str) -> bool {
    let text: Vec<char> = script.chars().collect();
    SedReader { text: &text, at: 0 }.read_all().is_none()
}

/// Reads a script. `None` stands for what may start a command.
struct SedReader<'t> {
    text: &'t [char],
    at: usize,
}

impl SedReader<'_> {
    fn read_all(&mut self) -> Option<()> {
        loop {
            self.skip_while(|c| c.is_whitespace() || ";{}".contains(c));
            if self.peek().is_none() {
                return Some(());
            }
            self.skip_addresses()?;
            // An address may stand before a group.
            if self.peek() != Some('{') {
                self.read_command()?;
            }
        }
    }

    fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    fn skip_while(&mut self, skips: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&skips) {
            self.at += 1;
        }
    }

    fn skip_blanks(&mut self) {
        self.skip_while(|c| c == ' ' || c == '\t');
    }

    fn skip_addresses(&mut self) -> Option<()> {
        self.skip_address()?;
        self.skip_blanks();
        if self.peek() == Some(',') {
            self.at += 1;
            self.skip_blanks();
            self.skip_while(|c| c == '+' || c == '~');
            self.skip_address()?;
        }
        self.skip_while(|c| c == '!' || c == ' ' || c == '\t');
        Some(())
    }

    fn skip_address(&mut self) -> Option<()> {
        match self.peek() {
            Some('$') => self.at += 1,
            Some('/') => self.skip_pattern()?,
            Some('\\') => {
                self.at += 1;
                self.skip_pattern()?;
            }
            _ => {
                self.skip_while(|c| c.is_ascii_digit() || c == '~');
                return Some(());
            }
        }
        self.skip_while(|c| c == 'I' || c == 'M');
        Some(())
    }

    /// Skips a regular expression with its delimiters.
    fn skip_pattern(&mut self) -> Option<()> {
        let delimiter = self.peek().filter(char::is_ascii_punctuation)?;
        let begin = self.at + 1;
        self.skip_text(delimiter)?;
        let closes_sets = closes_sets(&self.text[begin..self.at - 1]);
        closes_sets.then_some(())
    }

    /// Skips a text from its first delimiter to its last one.
    fn skip_text(&mut self, delimiter: char) -> Option<()> {
        loop {
            self.at += 1;
            match self.peek()? {
                '\\' => self.at += 1,
                c if c == delimiter => break,
                _ => {}
            }
        }
        self.at += 1;
        Some(())
    }

    fn read_command(&mut self) -> Option<()> {
        let command = self.peek()?;
        match command {
            's' | 'y' => {
                self.at += 1;
                let delimiter = self.peek()?;
                self.skip_pattern()?;
                self.at -= 1;
                self.skip_text(delimiter)?;
                if command == 's' {
                    self.skip_while(|c| SUBSTITUTE_FLAGS.contains(c));
                    if self.peek() == Some('w') {
                        self.skip_line();
                    }
                }
                self.end_command()
            }
            'a' | 'i' | 'c' => {
                self.skip_text_lines();
                Some(())
            }
            'r' | 'R' | 'w' | 'W' | '#' => {
                self.skip_line();
                Some(())
            }
            ':' | 'b' | 't' | 'T' => {
                self.at += 1;
                self.skip_blanks();
                let begin = self.at;
                self.skip_while(|c| !c.is_whitespace() && c != ';');
                // Some end a label at a bracket.
                let label: String = self.text[begin..self.at].iter().collect();
                (!label.trim_end_matches('}').contains('}')).then_some(())
            }
            _ if PLAIN.contains(command) => {
                self.at += 1;
                self.end_command()
            }
            _ if WITH_NUMBER.contains(command) => {
                self.at += 1;
                self.skip_while(|c| c.is_ascii_digit() || c == ' ');
                self.end_command()
            }
            _ => None,
        }
    }

    fn skip_line(&mut self) {
        self.skip_while(|c| c != '\n');
    }

    /// Skips to the end of a line that no backslash continues.
    fn skip_text_lines(&mut self) {
        while let Some(c) = self.peek() {
            if c == '\n' {
                break;
            }
            self.at += if c == '\\' { 2 } else { 1 };
        }
        self.at = self.at.min(self.text.len());
    }

    fn end_command(&mut self) -> Option<()> {
        self.skip_blanks();
        self.peek()
            .is_none_or(|c| ";}#\n".contains(c))
            .then_some(())
    }
}

/// Returns whether all bracket expressions of a pattern are closed in it. Some programs look for the delimiter behind
/// one that is not.
fn closes_sets(pattern: &[char]) -> bool {
    let mut at = 0;
    while at < pattern.len() {
        match pattern[at] {
            '\\' => at += 1,
            '[' => {
                at += 1;
                at += usize::from(pattern.get(at) == Some(&'^'));
                at += usize::from(pattern.get(at) == Some(&']'));
                while pattern.get(at) != Some(&']') {
                    // A class such as `[:alpha:]`.
                    if pattern.get(at) == Some(&'[')
                        && pattern.get(at + 1).is_some_and(|c| ":.=".contains(*c))
                    {
                        let kind = pattern[at + 1];
                        at += 2;
                        while pattern.get(at).is_some_and(|c| *c != kind) {
                            at += 1;
                        }
                        at += 1;
                    }
                    if at >= pattern.len() {
                        return false;
                    }
                    at += 1;
                }
            }
            _ => {}
        }
        at += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::sed_may_start;

    #[test]
    fn a_script_that_only_edits_is_told_from_one_that_starts_commands() {
        for script in [
            "1,20p",
            "s/the/one/; p",
            "/^the/,$ {s/the/one/; p}",
            ":a;N;$!ba;s/\\n/ /g",
            ":a;$!{N;ba};s/e\\/e/e/",
            "s/^[^]]+$/some/Ig; y/a/f/; $!d",
            "s/[[:space:]]*e/e/w e",
            "1i\\\n e the text",
            "/e/I,+3!d # e x",
            "0~3d;5q;l 3;$=",
            "s|/e|e|2g;\\,e,p",
            "/x/r e\np",
        ] {
            assert!(!sed_may_start(script), "{script}");
        }
        for script in [
            "1ex",
            "1e x",
            "e",
            "$!N;1 e x",
            "$!{1ex}",
            "/a/ex",
            "/a/,/b/!ex",
            "p;ex",
            "{ex",
            "s/a/b/e",
            "s/a/b/2ge",
            "s|a|b|;ex",
            "s/[/]/x/;s/y/]/e",
            "s/[]/]/b/;1e x",
            ":}a;b}a;1e x",
            "b}1ex",
            "v 4;1e x",
            "sxaxbxe",
            "y/a/b/ex",
            "1i\\\ntext\n1ex",
            "/x/r f\n1ex",
            "s/a/b/w f\n1ex",
            "#c\n1ex",
            "#c\\\n1ex",
            "r f\\\n1ex",
            "s/a/b/w f\\\n1ex",
            "s/a",
            "/a",
            "s/a\\/b/e/e",
        ] {
            assert!(sed_may_start(script), "{script}");
        }
    }
}
