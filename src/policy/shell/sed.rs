//! Scripts of `sed`, as far as it takes to see that none of their commands starts another. Not here: what they do else.

use super::Simple;
use super::files::is_device;
use super::interpreters::{NOT_WRITTEN_OUT, RUNS_WHAT_IT_READS};

const STARTS: &str = "its script may start commands";
/// Long options that stand alone, or with a value that is no script.
const LONG: &[&str] = &[
    "--quiet",
    "--silent",
    "--debug",
    "--follow-symlinks",
    "--posix",
    "--regexp-extended",
    "--in-place",
    "--null-data",
    "--zero-terminated",
    "--separate",
    "--unbuffered",
    "--sandbox",
    "--help",
    "--version",
];

/// Why what this `sed` starts cannot be told; nothing where it starts nothing.
pub(super) fn may_start(simple: &Simple) -> Option<&'static str> {
    let words = &simple.words[1..];
    let (mut scripts, mut others, mut at) = (Vec::new(), Vec::new(), 0);
    let mut has_file = false;
    while let Some(word) = words.get(at) {
        at += 1;
        let text = word.text.as_str();
        if text == "--" {
            others.extend(&words[at..]);
            break;
        }
        let Some(option) = text.strip_prefix('-').filter(|option| !option.is_empty()) else {
            others.push(word);
            continue;
        };
        if option.starts_with('-') {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            match name {
                "--expression" if text.contains('=') => scripts.push((value.to_owned(), word.literal)),
                "--file" if word.literal && !value.is_empty() && value != "-" && !is_device(value) => {
                    has_file = true;
                }
                _ if LONG.contains(&name) || text.starts_with("--line-length=") => {}
                _ => return Some(STARTS),
            }
            continue;
        }
        // What follows this letter is a text that is put behind names.
        let letters = option.split_once('i').map_or(option, |(letters, _)| letters);
        let Some(place) = letters.find(['e', 'f', 'l']) else {
            if !word.literal && letters.len() == option.len() {
                return Some(NOT_WRITTEN_OUT);
            }
            continue;
        };
        let rest = &option[place + 1..];
        let is_attached = !rest.is_empty() || !word.literal;
        let value = if is_attached { Some(word) } else { words.get(at) };
        at += usize::from(!is_attached);
        let text = if is_attached { rest } else { value.map_or("", |value| &value.text) };
        let literal = value.is_some_and(|value| value.literal);
        match &letters[place..=place] {
            "e" => scripts.push((text.to_owned(), literal)),
            "f" if !literal => return Some(NOT_WRITTEN_OUT),
            "f" if text == "-" || is_device(text) => return Some(RUNS_WHAT_IT_READS),
            "f" => has_file = true,
            _ => {}
        }
    }
    if scripts.is_empty() && !has_file {
        match others.first() {
            Some(word) => scripts.push((word.text.clone(), word.literal)),
            None if simple.open_end => return Some(NOT_WRITTEN_OUT),
            None => {}
        }
    }
    if scripts.iter().any(|(_, literal)| !literal) {
        return Some(NOT_WRITTEN_OUT);
    }
    // One may go on in the next.
    let script = scripts.into_iter().map(|(text, _)| text).collect::<Vec<_>>().join("\n");
    (!is_plain(&script)).then_some(STARTS)
}

/// Whether every command of a script is known, and is none that starts another.
fn is_plain(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';' || c == '}');
        if rest.is_empty() {
            return true;
        }
        let Some(next) = addresses(rest).and_then(command) else { return false };
        rest = next;
    }
}

/// What follows the addresses before a command.
fn addresses(mut rest: &str) -> Option<&str> {
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_digit() || " \t$,~+!".contains(c));
        rest = match rest.chars().next()? {
            '/' => section(&rest[1..], '/')?.trim_start_matches(['I', 'M']),
            '\\' => {
                let sign = rest[1..].chars().next()?;
                section(&rest[1 + sign.len_utf8()..], sign)?.trim_start_matches(['I', 'M'])
            }
            _ => return Some(rest),
        };
    }
}

/// What follows one command.
fn command(rest: &str) -> Option<&str> {
    let sign = rest.chars().next()?;
    let behind = &rest[sign.len_utf8()..];
    let line_end = || behind.find('\n').map_or("", |at| &behind[at..]);
    match sign {
        '{' | '=' | 'd' | 'D' | 'g' | 'G' | 'h' | 'H' | 'n' | 'N' | 'p' | 'P' | 'x' | 'z' | 'F' => {
            Some(behind)
        }
        'l' | 'L' | 'q' | 'Q' => Some(behind.trim_start_matches(|c: char| c.is_ascii_digit() || c == ' ')),
        '#' | 'r' | 'R' | 'w' | 'W' => Some(line_end()),
        ':' => {
            let end = behind.trim_start_matches(' ');
            let end = end.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || "_.-".contains(c));
            (end.is_empty() || end.starts_with(['\n', ';', ' '])).then_some(end)
        }
        'b' | 't' | 'T' | 'v' => Some(behind.find(['\n', ';', '}']).map_or("", |at| &behind[at..])),
        'a' | 'i' | 'c' => Some(text_end(behind)),
        's' | 'y' => {
            let delimiter = behind.chars().next().filter(|c| *c != '\n' && *c != '\\')?;
            let second = section(&behind[delimiter.len_utf8()..], delimiter)?;
            let flags = section(second, delimiter)?;
            let end = flags.trim_start_matches(|c: char| c.is_ascii_digit() || "gpiImM".contains(c));
            match end.chars().next() {
                Some('e') => None,
                Some('w') => Some(end.find('\n').map_or("", |at| &end[at..])),
                _ => Some(end),
            }
        }
        _ => None,
    }
}

/// What follows a text up to this delimiter; nothing where it cannot be told which one ends it, for it may stand in
/// brackets.
fn section(text: &str, delimiter: char) -> Option<&str> {
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let behind = &rest[c.len_utf8()..];
        rest = match c {
            '\\' => &behind[behind.chars().next()?.len_utf8()..],
            c if c == delimiter => return Some(behind),
            '[' => {
                let length = bracket(behind)?;
                if behind[..length].contains([delimiter, '\\', '\n']) {
                    return None;
                }
                &behind[length..]
            }
            _ => behind,
        };
    }
    None
}

/// How long a bracket expression is, from after its beginning.
fn bracket(text: &str) -> Option<usize> {
    let mut at = usize::from(text.starts_with('^'));
    at += usize::from(text[at..].starts_with(']'));
    loop {
        let rest = &text[at..];
        let c = rest.chars().next()?;
        if c == ']' {
            return Some(at + 1);
        }
        let kind = rest.chars().nth(1).filter(|kind| c == '[' && ":.=".contains(*kind));
        at += match kind {
            Some(kind) => 2 + rest[2..].find(&format!("{kind}]"))? + 2,
            None => c.len_utf8(),
        };
    }
}

/// What follows a text that ends with its line; a backslash takes the next line in.
fn text_end(text: &str) -> &str {
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        match c {
            '\n' if !escaped => return &text[at..],
            '\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    ""
}
