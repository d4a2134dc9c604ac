//! Parses lists of commands, the words, redirections and assignments of each, and here-documents.
//! Uncertain syntax is an error, so that no command a shell would run is missed.

use super::command::{CommandRedirection, SimpleCommand};
use super::parse_state::{ParseState, Parsed};
use punie_core::variable_name::is_variable_name;

/// The most levels of nested substitutions.
const DEEPEST: u32 = 60;
/// Words with a special meaning at the start of a command.
const KEYWORDS: &[&str] = &[
    "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "{", "}", "!", "time",
    "for", "[[", "coproc", "select", "case", "esac", "function",
];

/// A here-document whose body has not been parsed yet.
struct HereDocument {
    end: String,
    is_quoted: bool,
    strips_tabs: bool,
}

/// A parser of one text.
pub(super) struct ShellParser<'t, 's> {
    pub text: &'t [char],
    pub at: usize,
    pub depth: u32,
    pub state: &'s mut ParseState,
    /// Here-documents whose bodies follow the next line break.
    pending: Vec<HereDocument>,
    /// True if a command around this substitution waits for such a body too.
    is_awaited_outside: bool,
    in_substitution: bool,
    /// True if the next command's input comes from a pipe.
    is_behind_pipe: bool,
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

/// Returns whether a character ends a word.
pub(super) fn ends_word(c: char) -> bool {
    is_blank(c) || matches!(c, '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}

/// The text without backslash-newline pairs, which a shell removes first.
pub(super) fn join_lines(text: &str) -> String {
    text.replace("\\\n", "")
}

impl<'t, 's> ShellParser<'t, 's> {
    /// Creates a parser of a text at this depth.
    ///
    /// # Errors
    /// The text is nested too deeply, or too long for the remaining step budget.
    pub fn new(text: &'t [char], depth: u32, state: &'s mut ParseState) -> Parsed<Self> {
        state.spend_steps(text.len())?;
        if depth > DEEPEST {
            return Err("it is nested too deeply");
        }
        let pending = Vec::new();
        Ok(Self {
            text,
            at: 0,
            depth,
            state,
            pending,
            is_awaited_outside: false,
            in_substitution: false,
            is_behind_pipe: false,
        })
    }

    /// Parses the whole text as a list of commands.
    pub fn parse_all(mut self) -> Parsed<()> {
        self.parse_list()?;
        if self.pending.is_empty() {
            Ok(())
        } else {
            Err("a here-document does not begin")
        }
    }

    /// The character this many places ahead.
    pub fn peek(&self, places: usize) -> Option<char> {
        self.text.get(self.at + places).copied()
    }

    /// The text from an index to the current one.
    pub fn text_since(&self, begin: usize) -> String {
        self.text[begin..self.at].iter().collect()
    }

    /// Skips this text if it comes next.
    pub fn skip_text(&mut self, wanted: &str) -> bool {
        let is_next = wanted
            .chars()
            .enumerate()
            .all(|(n, c)| self.peek(n) == Some(c));
        self.at += if is_next { wanted.len() } else { 0 };
        is_next
    }

    /// Skips blanks and joined lines, and a comment after them.
    pub fn skip_blanks(&mut self) {
        while self.skip_text(" ") || self.skip_text("\t") || self.skip_text("\\\n") {}
        if self.peek(0) == Some('#') {
            // In a comment a backslash joins no lines.
            while self.peek(0).is_some_and(|c| c != '\n') {
                self.at += 1;
            }
        }
    }

    /// Parses commands to the end of the text, or to the bracket that ends a substitution.
    fn parse_list(&mut self) -> Parsed<()> {
        let mut open = 0_u32;
        loop {
            self.skip_blanks();
            match (self.peek(0), self.peek(1)) {
                (None, _) if self.in_substitution || open > 0 => {
                    return Err("a bracket is not closed");
                }
                (None, _) => return Ok(()),
                (Some('\n'), _) => self.end_line()?,
                (Some('&'), Some('>')) => self.parse_simple_command()?,
                (Some('|'), Some('|')) => {
                    self.at += 2;
                    self.is_behind_pipe = false;
                }
                (Some('|'), next) => {
                    self.at += 1 + usize::from(next == Some('&'));
                    self.is_behind_pipe = true;
                }
                (Some(';' | '&'), _) => {
                    self.at += 1;
                    self.is_behind_pipe = false;
                }
                (Some('('), Some('\\')) => return Err("a backslash stands behind a bracket"),
                (Some('('), Some('(')) if self.parse_arithmetic(false)? => {}
                (Some('('), _) => {
                    open += 1;
                    self.at += 1;
                }
                (Some(')'), _) => {
                    self.at += 1;
                    match open.checked_sub(1) {
                        Some(rest) => open = rest,
                        None if self.in_substitution => return Ok(()),
                        None => return Err("a closing bracket stands where none can"),
                    }
                }
                _ => self.parse_command()?,
            }
        }
    }

    /// Skips a line break and the bodies of here-documents that follow it.
    pub fn end_line(&mut self) -> Parsed<()> {
        if self.is_awaited_outside {
            return Err("a here-document and a bracket cross");
        }
        self.at += 1;
        for document in std::mem::take(&mut self.pending) {
            let begin = self.at;
            let end = self.skip_body(&document)?;
            let body = &self.text[begin..end];
            if document.is_quoted {
                self.state.record_text(&body.iter().collect::<String>());
            } else {
                ShellParser::new(body, self.depth + 1, self.state)?.parse_expansions()?;
            }
        }
        Ok(())
    }

    /// Skips the body of a here-document and the line that ends it; returns the index of the body's
    /// end.
    fn skip_body(&mut self, document: &HereDocument) -> Parsed<usize> {
        let mut continues = false;
        while self.at < self.text.len() {
            let begin = self.at;
            let rest = &self.text[begin..];
            self.at += rest
                .iter()
                .position(|c| *c == '\n')
                .map_or(rest.len(), |at| at + 1);
            let line = self.text_since(begin);
            let line = line.trim_end_matches('\n');
            let line = if document.strips_tabs {
                line.trim_start_matches('\t')
            } else {
                line
            };
            if line == document.end && !continues {
                return Ok(begin);
            }
            // A line joined by a backslash may or may not end the body. In a substitution bash also
            // ends it at a line that only begins with the delimiter.
            continues = !document.is_quoted && line.ends_with('\\');
            let may_end = continues && document.end.starts_with(line.trim_end_matches('\\'));
            let ends_early =
                self.in_substitution && line.starts_with(&document.end) && line.contains(')');
            if line == document.end || may_end || ends_early {
                return Err("a line of a here-document may be its last one");
            }
        }
        Ok(self.text.len())
    }

    /// Parses the list of a substitution, from its bracket.
    pub fn parse_substitution(&mut self) -> Parsed<()> {
        if self.peek(1) == Some('\\') {
            return Err("a backslash stands behind a bracket");
        }
        self.at += 1;
        let pending = std::mem::take(&mut self.pending);
        let outer = (self.is_awaited_outside, self.in_substitution);
        self.is_awaited_outside |= !pending.is_empty();
        self.in_substitution = true;
        self.parse_list()?;
        if !self.pending.is_empty() {
            return Err("a here-document and a bracket cross");
        }
        self.pending = pending;
        (self.is_awaited_outside, self.in_substitution) = outer;
        Ok(())
    }

    /// Parses the syntax at a position where a command may begin.
    fn parse_command(&mut self) -> Parsed<()> {
        let rest = &self.text[self.at..];
        let length = rest
            .iter()
            .position(|c| ends_word(*c))
            .unwrap_or(rest.len());
        let keyword = KEYWORDS
            .iter()
            .find(|keyword| keyword.chars().eq(rest[..length].iter().copied()));
        let Some(keyword) = keyword else {
            return self.parse_simple_command();
        };
        self.at += length;
        match *keyword {
            "for" => self.parse_loop_head(),
            "[[" => self.parse_condition(),
            "coproc" | "select" | "case" | "esac" | "function" => {
                Err("such compound commands are not read")
            }
            "time" => {
                self.skip_blanks();
                if self.skip_text("-p") && !self.peek(0).is_some_and(ends_word) {
                    return Err("options of `time` are not known here");
                }
                self.skip_blanks();
                if self.peek(0) == Some('-') {
                    Err("options of `time` are not known here")
                } else {
                    Ok(())
                }
            }
            // The others precede a command, or end one.
            _ => Ok(()),
        }
    }

    /// Parses a simple command, or the head of a function, whose body then follows as its own
    /// command.
    fn parse_simple_command(&mut self) -> Parsed<()> {
        let mut command = SimpleCommand {
            has_input: std::mem::take(&mut self.is_behind_pipe),
            ..SimpleCommand::default()
        };
        let begin = self.at;
        loop {
            self.skip_blanks();
            match (self.peek(0), self.peek(1)) {
                (Some('<' | '>'), Some('(')) => self.parse_argument(&mut command)?,
                (Some('<' | '>'), _) | (Some('&'), Some('>')) => {
                    self.parse_redirection(&mut command)?;
                }
                (None | Some('\n' | ';' | '|' | ')' | '&'), _) => break,
                (Some('('), _) => {
                    let is_head = is_variable_name(self.text_since(begin).trim_end());
                    self.at += 1;
                    self.skip_blanks();
                    let is_function = is_head && self.skip_text(")");
                    return if is_function {
                        Ok(())
                    } else {
                        Err("a bracket stands where none can")
                    };
                }
                _ => self.parse_argument(&mut command)?,
            }
        }
        if command.words.is_empty() && command.redirections.is_empty() {
            return Ok(());
        }
        self.state.add_command(command)
    }

    /// Parses a word of a command, or an assignment before it.
    fn parse_argument(&mut self, command: &mut SimpleCommand) -> Parsed<()> {
        let word = self.parse_word()?;
        if matches!(self.peek(0), Some('<' | '>')) && self.peek(1) != Some('(') {
            let is_descriptor = join_lines(&word.raw).chars().all(|c| c.is_ascii_digit());
            if is_descriptor {
                return Ok(());
            }
            if word.raw.starts_with('{') {
                return Err("a variable names a descriptor");
            }
        }
        if self.peek(0) == Some('(') && word.text.ends_with('=') {
            return Err("arrays are not read");
        }
        if word.is_assignment {
            self.state.record_assignment(&word);
        }
        if command.words.is_empty() {
            let is_index = word
                .text
                .split_once('[')
                .is_some_and(|(name, _)| is_variable_name(name));
            if word.is_assignment {
                return Ok(());
            }
            if is_index || KEYWORDS.contains(&word.text.as_str()) {
                return Err("an index or a keyword stands where it may mean different things");
            }
        }
        command.words.push(word);
        Ok(())
    }

    fn parse_redirection(&mut self, command: &mut SimpleCommand) -> Parsed<()> {
        let forms = [
            "<<<", "<<-", "<<", "&>>", "&>", "<&", "<>", "<", ">>", ">|", ">&", ">",
        ];
        let form = forms
            .into_iter()
            .find(|form| self.skip_text(form))
            .unwrap_or_default();
        command.has_input |= form.starts_with('<');
        self.skip_blanks();
        let begin = self.at;
        let target = self.parse_word()?;
        if self.at == begin {
            return Err("a redirection leads nowhere");
        }
        if matches!(form, "<<" | "<<-") {
            if !target.is_literal {
                return Err("the end of a here-document is no plain word");
            }
            let is_quoted = join_lines(&target.raw).contains(['\'', '"', '\\']);
            self.pending.push(HereDocument {
                end: target.text,
                is_quoted,
                strips_tabs: form == "<<-",
            });
            return Ok(());
        }
        let digits = target.text.trim_end_matches('-');
        let duplicates =
            form.ends_with('&') && target.is_literal && digits.chars().all(|c| c.is_ascii_digit());
        if form != "<<<" && !duplicates {
            let writes = form != "<" && form != "<&";
            let reads = form.starts_with('<');
            command.redirections.push(CommandRedirection {
                target,
                writes,
                reads,
            });
        }
        Ok(())
    }
}
