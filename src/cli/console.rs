//! Output to stdout and stderr: sentences, raw text, JSON lines, tables, and questions to the person at the terminal.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufRead as _, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

use super::prompt_line::{self, ShownPrompt};
use super::table::{self, Column};
use super::wrapped_text::wrap_lines;
use crate::config::ColorChoice;
use punie_text::output::hidden_characters::{escape_hidden_characters, replace_hidden_characters};

/// Writes sentences to stdout and flushes them. On a terminal they are wrapped at word boundaries. Write errors are
/// ignored if the reader is gone: a command must still clean up, and a server must go on.
pub fn print_line(text: &str) {
    print_unwrapped(&wrap_sentences(text));
}

/// Wraps sentences as [`print_line`] does.
pub fn wrap_sentences(text: &str) -> Cow<'_, str> {
    wrap_lines(text, terminal_width())
}

/// Writes a text that is not ours, such as the output of a command, and a line's end to stdout. It ignores write errors
/// as [`print_line`] does.
pub fn print_unwrapped(text: &str) {
    let _ = try_print_line(text);
}

/// Writes to stdout unchanged, without a line's end.
pub fn print_text(text: &str) {
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Writes a line to stdout unchanged, and fails if it cannot be written whole.
pub fn try_print_line(text: &str) -> io::Result<()> {
    prompt_line::write_above_prompt(&mut io::stdout(), format!("{text}\n").as_bytes())
}

/// Writes a line of a list of facts: a label, and its text in the second column.
pub fn print_row(label: &str, text: &str) {
    print_line(&format!("{label:<14}{text}"));
}

/// Writes a value as one line of JSON. Terminal control characters in its strings are escaped.
///
/// # Panics
/// If a value has keys that are not strings; the runner's own types have none.
pub fn print_json(value: &impl serde::Serialize) {
    print_unwrapped(&json_line(value));
}

/// Returns a value as one line of JSON, as [`print_json`] writes it.
///
/// # Panics
/// If a value has keys that are not strings; the runner's own types have none.
pub fn json_line(value: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(value).expect("our own values have string keys");
    let escaped = replace_hidden_characters(&text, |c, out| {
        for unit in c.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    });
    escaped.into_owned()
}

/// Writes an error to stderr, with control characters escaped, because it may contain foreign text.
pub fn print_error(text: &str) {
    print_stderr(&format!("{}\n", escape_hidden_characters(text)));
}

/// Writes sentences to stderr, beside the result on stdout. On a terminal they are wrapped at word boundaries.
pub fn print_stderr(text: &str) {
    print_stderr_unwrapped(&wrap_lines(text, stderr_width()));
}

/// Writes to stderr unchanged.
pub fn print_stderr_unwrapped(text: &str) {
    // If stderr is closed, there is no other place to report it.
    let _ = prompt_line::write_above_prompt(&mut io::stderr(), text.as_bytes());
}

/// Asks the person at the terminal, and reads a line. `None` at the end of the input.
pub fn ask_line(question: &str) -> io::Result<Option<String>> {
    let wrapped = wrap_lines(question, terminal_width().or_else(stderr_width));
    let (before, prompt) = wrapped.rsplit_once('\n').unwrap_or(("", &wrapped));
    if !before.is_empty() {
        print_stderr_unwrapped(&format!("{before}\n"));
    }
    let _standing = ShownPrompt::show(prompt);
    let mut line = String::new();
    let bytes = io::stdin().lock().read_line(&mut line)?;
    Ok((bytes > 0).then(|| line.trim().to_owned()))
}

/// Asks the person at the terminal a question whose default is no.
pub fn ask_yes_no(question: &str) -> io::Result<bool> {
    let answer = ask_line(&format!("{question} [y/N] "))?;
    Ok(matches!(answer.as_deref(), Some("y" | "Y" | "yes")))
}

/// Returns whether stdout is a terminal.
pub fn is_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Prints a table. On a terminal it fits the width, and has colours if they are wanted.
pub fn print_table<'h, C: Copy + Into<Column<'h>>>(columns: &[C], rows: &[Vec<String>]) {
    let columns: Vec<Column<'h>> = columns.iter().map(|column| (*column).into()).collect();
    for line in table::render_table(&columns, rows, terminal_width(), is_colored()) {
        print_unwrapped(&line);
    }
}

/// Prints a table as [`print_table`] does, or this sentence if it has no row.
pub fn print_list<'h, C: Copy + Into<Column<'h>>>(
    columns: &[C],
    rows: &[Vec<String>],
    empty: &str,
) {
    if rows.is_empty() {
        print_line(empty);
    } else {
        print_table(columns, rows);
    }
}

/// Prints a paragraph with each line indented. On a terminal it is wrapped at the width.
pub fn print_paragraph(indent: &str, text: &str) {
    for line in text.split('\n') {
        print_line(format!("{indent}{line}").trim_end());
    }
}

/// Sets when stdout has colours. The first call of a process counts.
pub fn choose_color(color: ColorChoice) {
    let _ = COLOR.set(color);
}

static COLOR: OnceLock<ColorChoice> = OnceLock::new();

fn is_colored() -> bool {
    match COLOR.get() {
        Some(ColorChoice::Always) => true,
        Some(ColorChoice::Never) => false,
        Some(ColorChoice::Auto) | None => is_terminal(),
    }
}

/// Returns the first line of a text for a table's cell, cut to this many characters. Hidden characters are escaped.
pub fn cell_text(text: &str, width: usize) -> String {
    let first = text
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or_default()
        .trim();
    truncate_text(&escape_hidden_characters(&first.replace('\t', " ")), width)
}

/// Returns a path with `~` for the user's home.
pub fn shorten_path(path: &Path, home: Option<&Path>) -> String {
    let below = home.and_then(|home| path.strip_prefix(home).ok());
    match below {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}

fn truncate_text(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let cut: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{cut}…")
}

/// Returns the number of columns if stdout is a terminal; 80 if the terminal does not say.
pub fn terminal_width() -> Option<usize> {
    is_terminal().then(|| stream_width(io::stdout()).unwrap_or(80))
}

/// Returns the number of columns if stderr is a terminal; 80 if the terminal does not say.
pub fn stderr_width() -> Option<usize> {
    let stderr = io::stderr();
    stderr
        .is_terminal()
        .then(|| stream_width(&stderr).unwrap_or(80))
}

/// Returns the number of columns of a stream that is a terminal, if the terminal says it.
#[cfg(unix)]
fn stream_width(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Returns nothing: the width is not known on this system.
#[cfg(not(unix))]
fn stream_width(_stream: impl IsTerminal) -> Option<usize> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_cannot_steer_the_terminal() {
        assert_eq!(
            cell_text("\u{1b}]0;title\u{7}x\u{202E}y", 40),
            "\\u{1b}]0;title\\u{7}x\\u{202e}y"
        );
        assert_eq!(cell_text("\n  first\nsecond", 40), "first");
        assert_eq!(cell_text("abcdef", 4), "abc…");
    }

    #[test]
    fn a_path_in_the_home_is_shown_shorter() {
        let home = Some(Path::new("/home/me"));
        for (path, shown) in [
            ("/home/me", "~"),
            ("/home/me/proj", "~/proj"),
            ("/home/mexico", "/home/mexico"),
        ] {
            assert_eq!(shorten_path(Path::new(path), home), shown);
        }
    }
}
