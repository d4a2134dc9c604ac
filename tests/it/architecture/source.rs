//! Reads the module path, the length and the imports of a source file. It splits the text into tokens and does not
//! parse Rust. Comments, literals and `#[cfg(test)]` modules are left out.

use std::path::Path;

pub struct SourceFile {
    module: Vec<String>,
    tokens: Vec<SourceToken>,
    lines: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct SourceToken {
    text: String,
    line: usize,
}

impl SourceFile {
    /// Reads a file, given its path below `src`.
    pub fn of(path: &Path, text: &str) -> Self {
        let mut module: Vec<String> = path
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        if module.last().is_some_and(|last| last == "mod") {
            module.pop();
        }
        let (tokens, tested) = without_tests(&split_tokens(text));
        Self {
            module,
            tokens,
            lines: text.lines().count() - tested,
        }
    }

    /// The module path: `acp/local/kill.rs` is acp, local, kill.
    pub fn module(&self) -> &[String] {
        &self.module
    }

    /// The number of lines outside its unit tests.
    pub fn lines(&self) -> usize {
        self.lines
    }

    /// The paths that begin at the crate, at a parent module or at another crate of ours, from the crate on.
    /// `punie_policy::X` is `policy::X`. `punie_core` is left out, since all modules may use it.
    pub fn uses(&self) -> Vec<Vec<String>> {
        let mut uses = Vec::new();
        for at in 0..self.tokens.len() {
            let goes_on = at > 0 && self.text(at - 1) == "::";
            if goes_on || self.text(at + 1) != "::" {
                continue;
            }
            let start = match self.text(at) {
                "crate" => Vec::new(),
                "super" => parent_module(&self.module),
                other => match other.strip_prefix("punie_") {
                    Some(name) if name != "core" => vec![name.to_owned()],
                    _ => continue,
                },
            };
            self.follow(at + 2, start, &mut uses);
        }
        uses
    }

    /// Follows a path, or every branch of an import tree, and returns the index after its end.
    fn follow(&self, mut at: usize, mut here: Vec<String>, uses: &mut Vec<Vec<String>>) -> usize {
        if self.text(at) == "{" {
            at += 1;
            while !matches!(self.text(at), "}" | "") {
                at = self.follow(at, here.clone(), uses);
                while !matches!(self.text(at), "," | "}" | "") {
                    at += 1;
                }
                at += usize::from(self.text(at) == ",");
            }
            return at + 1;
        }
        match self.text(at) {
            "super" => here = parent_module(&here),
            "self" | "*" => {}
            name => here.push(name.to_owned()),
        }
        if self.text(at + 1) == "::" {
            return self.follow(at + 2, here, uses);
        }
        uses.push(here);
        at + 1
    }

    fn text(&self, at: usize) -> &str {
        self.tokens.get(at).map_or("", |token| token.text.as_str())
    }
}

fn parent_module(module: &[String]) -> Vec<String> {
    module[..module.len().saturating_sub(1)].to_vec()
}

/// Returns true if a module with `#[cfg(test)]` or `#[cfg(all(test, ...))]` begins here.
fn begins_test_module(tokens: &[SourceToken]) -> bool {
    let mut texts = tokens.iter().map(|token| token.text.as_str());
    let opened = texts.by_ref().take(4).eq(["#", "[", "cfg", "("]);
    let condition = match texts.next() {
        Some("all") => texts.nth(1),
        first => first,
    };
    let item = texts.skip_while(|text| *text != "]").nth(1);
    opened && condition == Some("test") && item == Some("mod")
}

/// Removes the test modules and counts their lines.
fn without_tests(tokens: &[SourceToken]) -> (Vec<SourceToken>, usize) {
    let mut kept = Vec::new();
    let mut lines = 0;
    let mut at = 0;
    while at < tokens.len() {
        if !begins_test_module(&tokens[at..]) {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        let begin = at;
        let mut depth = 0;
        for token in &tokens[begin..] {
            at += 1;
            match token.text.as_str() {
                "{" => depth += 1,
                "}" => depth -= 1,
                _ => {}
            }
            if depth == 0 && matches!(token.text.as_str(), "}" | ";") {
                break;
            }
        }
        lines += tokens[at - 1].line + 1 - tokens[begin].line;
    }
    (kept, lines)
}

/// Splits a text into names, `::` and single characters, without comments and literals.
fn split_tokens(text: &str) -> Vec<SourceToken> {
    let mut tokens = Vec::new();
    let mut rest = text;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let length = passed_over(rest).unwrap_or_else(|| {
            let length = match first {
                ':' if rest.starts_with("::") => 2,
                c if is_name(c) => rest.find(|c| !is_name(c)).unwrap_or(rest.len()),
                c => c.len_utf8(),
            };
            tokens.push(SourceToken {
                text: rest[..length].to_owned(),
                line,
            });
            length
        });
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    tokens
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of a blank, a comment, a literal or a lifetime at the start of a text.
fn passed_over(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(text.find("*/").map_or(text.len(), |end| end + 2));
    }
    let quoted = text.trim_start_matches(['b', 'c']);
    let prefix = text.len() - quoted.len();
    if prefix <= 1 && quoted.starts_with('"') {
        return Some(prefix + 1 + until_quote(&quoted[1..], '"'));
    }
    if let Some(raw) = quoted.strip_prefix('r').filter(|_| prefix <= 1) {
        let hashes = raw.len() - raw.trim_start_matches('#').len();
        if raw[hashes..].starts_with('"') {
            let end = format!("\"{}", "#".repeat(hashes));
            let body = &raw[hashes + 1..];
            let length = body.find(&end).map_or(body.len(), |at| at + end.len());
            return Some(prefix + 1 + hashes + 1 + length);
        }
    }
    let sign = quoted.strip_prefix('\'').filter(|_| prefix <= 1)?;
    let is_char = sign.starts_with('\\') || sign.chars().nth(1) == Some('\'');
    if is_char {
        return Some(prefix + 1 + until_quote(sign, '\''));
    }
    (prefix == 0).then(|| 1 + sign.find(|c| !is_name(c)).unwrap_or(sign.len()))
}

/// The length up to and including the closing quote.
fn until_quote(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}
