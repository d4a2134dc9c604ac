//! The screen of a terminal as a person would see it, for programs that move the cursor about or use the alternate
//! screen. Plain lines need none: see hygiene.

use avt::parser::{EdScope, Function};
use avt::{Line, Observation, Observer, Operation, Terminal};
use memchr::memchr;

/// A sequence that has not ended after so many bytes is taken for text.
const MAX_SEQUENCE_CHECK: usize = 64;
/// The modes that switch to the alternate screen.
const ALTERNATE_SCREEN_MODES: [&str; 3] = ["47", "1047", "1049"];

/// A screen that a program draws on.
pub struct TerminalScreen {
    terminal: Terminal,
    scrolled: ScrolledLines,
}

impl TerminalScreen {
    /// An empty screen of this size; one column and one line at least.
    #[expect(clippy::missing_panics_doc, reason = "both sides are positive")]
    pub fn new(cols: u16, rows: u16) -> Self {
        let cols = usize::from(cols.max(1));
        let rows = usize::from(rows.max(1));
        let terminal = Terminal::new(cols, rows).expect("both sides are positive");
        Self {
            terminal,
            scrolled: ScrolledLines::default(),
        }
    }

    /// Draws the program's output. Returns the lines that scrolled off the top, each with its end.
    pub fn draw_text(&mut self, text: &str) -> String {
        self.terminal.feed_with(text, &mut self.scrolled)
    }

    /// Returns the visible lines without trailing blanks. Lines that the terminal wrapped are joined.
    pub fn text(&self) -> String {
        let lines = self.terminal.screen().text();
        let used = lines
            .iter()
            .rposition(|line| !line.is_empty())
            .map_or(0, |last| last + 1);
        lines[..used].join("\n")
    }
}

/// Collects the lines that scroll off. Lines that a program clears are left out: a program that clears the
/// screen before it draws would otherwise add every frame.
#[derive(Debug, Default)]
struct ScrolledLines {
    lines: String,
    clears: bool,
}

impl Observer for ScrolledLines {
    type Output = String;

    fn before(&mut self, _: &mut Observation<'_>, operation: &Operation) {
        self.clears = matches!(operation, Operation::Function(Function::Ed(EdScope::All)));
    }

    fn evicted(&mut self, _: &mut Observation<'_>, line: &Line) {
        if !self.clears {
            self.lines.extend(line.chars());
            if !line.is_wrapped() {
                self.lines.truncate(self.lines.trim_end_matches(' ').len());
                self.lines.push('\n');
            }
        }
    }

    fn end(&mut self, _: &mut Observation<'_>) -> String {
        // A line that the terminal broke may go on with the next text.
        let whole = self.lines.rfind('\n').map_or(0, |newline| newline + 1);
        let rest = self.lines.split_off(whole);
        std::mem::replace(&mut self.lines, rest)
    }
}

/// The position at which a text begins to draw on a screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DrawingStart {
    /// Nowhere. From here on it ends in a sequence without its end.
    NotYet(usize),
    /// With the sequence here.
    From(usize),
}

/// Finds the first sequence that moves the cursor to another line or switches to the alternate screen.
pub fn find_drawing(text: &str) -> DrawingStart {
    let bytes = text.as_bytes();
    let mut from = 0;
    while let Some(found) = memchr(0x1b, &bytes[from..]) {
        let start = from + found;
        from = start + 1;
        let rest = &text[from..];
        if rest.starts_with('M') {
            return DrawingStart::From(start);
        }
        let Some(control) = rest.strip_prefix('[') else {
            if rest.is_empty() {
                return DrawingStart::NotYet(start);
            }
            continue;
        };
        let Some(end) = control.find(|c: char| !(' '..='?').contains(&c)) else {
            if rest.len() < MAX_SEQUENCE_CHECK {
                return DrawingStart::NotYet(start);
            }
            continue;
        };
        let modes = control[..end].strip_prefix('?');
        let draws = match control.as_bytes()[end] {
            b'A' | b'B' | b'E' | b'F' | b'H' | b'f' | b'd' | b'L' | b'M' | b'S' | b'T' => {
                modes.is_none()
            }
            b'h' => modes.is_some_and(|modes| {
                modes
                    .split(';')
                    .any(|mode| ALTERNATE_SCREEN_MODES.contains(&mode))
            }),
            _ => false,
        };
        if draws {
            return DrawingStart::From(start);
        }
    }
    DrawingStart::NotYet(text.len())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_sequence_of_a_program_is_too_much(
            parts in prop::collection::vec("\x1b?[\\[\\]P#(?]{0,2}[0-9;]{0,12}[ -~äé日]", 1..80),
            cols in 1_u16..200,
            rows in 1_u16..80,
        ) {
            let mut screen = TerminalScreen::new(cols, rows);
            for part in &parts {
                screen.draw_text(part);
            }
            prop_assert!(screen.text().lines().count() <= usize::from(rows));
        }
    }

    #[test]
    fn drawing_begins_with_a_move_to_another_line_and_not_with_colours() {
        for plain in [
            "one\r\ntwo",
            "\x1b[1;31mred\x1b[0m",
            "\x1b[?2004h$ \x1b[K\x1b[3C",
            "\x1b]0;H\x07",
            "\x1b[2Jx",
        ] {
            assert_eq!(
                find_drawing(plain),
                DrawingStart::NotYet(plain.len()),
                "{plain:?}"
            );
        }
        for drawn in [
            "ab\x1b[H",
            "ab\x1b[2A",
            "ab\x1b[?25;1049h",
            "ab\x1bM",
            "ab\x1b[3;4f",
        ] {
            assert_eq!(find_drawing(drawn), DrawingStart::From(2), "{drawn:?}");
        }
        for open in ["ab\x1b", "ab\x1b[", "ab\x1b[?104"] {
            assert_eq!(find_drawing(open), DrawingStart::NotYet(2), "{open:?}");
        }
    }

    #[test]
    fn what_scrolls_off_is_given_once_and_what_is_cleared_is_not() {
        let mut screen = TerminalScreen::new(10, 3);
        let off: String = (1..=6)
            .map(|line| screen.draw_text(&format!("line {line}\r\n")))
            .collect();
        assert_eq!(off, "line 1\nline 2\nline 3\nline 4\n");
        assert_eq!(screen.text(), "line 5\nline 6");
        assert_eq!(screen.draw_text("\x1b[H\x1b[2Jfresh"), "");
        assert_eq!(screen.text(), "fresh");
    }

    #[test]
    fn a_line_that_the_terminal_broke_is_one_line() {
        let mut screen = TerminalScreen::new(5, 2);
        let off = screen.draw_text("abcdefgh\r\n1\r\n2\r\n");
        assert_eq!(
            (off.as_str(), screen.text().as_str()),
            ("abcdefgh\n1\n", "2")
        );
    }

    #[test]
    fn the_alternate_screen_hides_the_other_until_it_is_left() {
        let mut screen = TerminalScreen::new(20, 4);
        screen.draw_text("before\r\n\x1b[?1049h\x1b[2;3Hin it");
        assert_eq!(screen.text(), "\n  in it");
        screen.draw_text("\x1b[?1049lafter");
        assert_eq!(screen.text(), "before\nafter");
    }

    #[test]
    fn wide_characters_keep_their_places() {
        let mut screen = TerminalScreen::new(10, 2);
        screen.draw_text("日本\x1b[1;5Hx\x1b[2;1H😀é");
        assert_eq!(screen.text(), "日本x\n😀é");
    }
}
