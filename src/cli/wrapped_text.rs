//! Sentences on a terminal: wrapped at word boundaries.

use std::borrow::Cow;

use textwrap::core::display_width;
use textwrap::{Options, WordSplitter, WrapAlgorithm};

/// The longest label before the text of a line, with the blanks around it.
const MAX_LABEL: usize = 24;
/// The longest command between backticks that stays in one line.
const MAX_WHOLE_COMMAND: usize = 40;
/// A blank at which no line is broken.
const FIXED_BLANK: &str = "\u{a0}";

/// Wraps the lines of a text that are longer than the width, if there is one. A line goes on below its own text: after
/// its indent, its bullet, or a label with two blanks behind it. A long word stays whole.
pub fn wrap_lines(text: &str, width: Option<usize>) -> Cow<'_, str> {
    let fits = |width: usize| text.split('\n').all(|line| display_width(line) <= width);
    let Some(width) = width.filter(|width| !fits(*width)) else {
        return Cow::Borrowed(text);
    };
    let lines: Vec<String> = text
        .split('\n')
        .map(|line| wrap_line(line, width))
        .collect();
    Cow::Owned(lines.join("\n"))
}

fn wrap_line(line: &str, width: usize) -> String {
    // A prompt ends with a blank, which stays.
    let text = line.trim_end_matches(' ');
    let indent = text_start(text).min(width / 2);
    let wrapped = wrap_words(&keep_commands(text), width, indent, false).join("\n");
    wrapped.replace(FIXED_BLANK, " ") + &line[text.len()..]
}

/// Wraps a text at blanks and line breaks. Continued lines have this indent. Words longer than the width are broken only
/// on request.
pub fn wrap_words(text: &str, width: usize, indent: usize, breaks_words: bool) -> Vec<String> {
    let indent = " ".repeat(indent);
    let options = Options::new(width)
        .subsequent_indent(&indent)
        .break_words(breaks_words)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    let lines = textwrap::wrap(text, options).into_iter();
    lines.map(Cow::into_owned).collect()
}

/// Replaces the blanks of short commands between backticks, so that they stay in one line.
fn keep_commands(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(number, part)| {
        let is_command = number % 2 == 1 && part.len() <= MAX_WHOLE_COMMAND;
        if is_command {
            part.replace(' ', FIXED_BLANK)
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<String>>().join("`")
}

/// Returns the column at which the text of a line begins.
fn text_start(line: &str) -> usize {
    let indent = line.len() - line.trim_start_matches(' ').len();
    let text = &line[indent..];
    if text.starts_with("- ") {
        return indent + 2;
    }
    let label = text.find("  ").map(|end| {
        let rest = text[end..].trim_start_matches(' ');
        display_width(&line[..line.len() - rest.len()])
    });
    label.filter(|start| *start <= MAX_LABEL).unwrap_or(indent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_line_is_wrapped_between_words_and_below_its_own_text() {
        for (text, wrapped) in [
            ("one two three four", "one two three\nfour"),
            ("one two three", "one two three"),
            (
                "--new-device --new-device-now",
                "--new-device\n--new-device-now",
            ),
            ("  1  one two three", "  1  one two\n     three"),
            ("  - one two three", "  - one two\n    three"),
            ("Label  one two three", "Label  one two\n       three"),
            ("Now run `a b c d`.", "Now run\n`a b c d`."),
            ("See /a/path/longer/than/it", "See\n/a/path/longer/than/it"),
            ("Are you sure? [y/N] ", "Are you sure?\n[y/N] "),
            (
                "one\n\ntwo three four five\n",
                "one\n\ntwo three four\nfive\n",
            ),
            ("日本語 日本語 日本語", "日本語 日本語\n日本語"),
            (
                "\u{1b}[2m15:04\u{1b}[0m  one two three",
                "\u{1b}[2m15:04\u{1b}[0m  one two\n       three",
            ),
        ] {
            assert_eq!(wrap_lines(text, Some(14)), wrapped);
        }
    }

    #[test]
    fn off_a_terminal_a_sentence_stays_one_line() {
        let text = "word ".repeat(100);
        assert_eq!(wrap_lines(&text, None), text);
    }
}
