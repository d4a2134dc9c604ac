//! Numbers lines within a character budget. Pure text work; not here: the choice of the lines.

/// Numbered lines within a budget.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NumberedLines {
    pub text: String,
    /// The number of lines shown; at least one if there is one.
    pub lines: u64,
}

/// Numbers the lines of `text` from `first` on until `room` characters are used. Omits a carriage
/// return before a line feed; an answer's header names the line ending.
pub(super) fn number_lines(text: &str, first: i64, room: usize) -> NumberedLines {
    let mut out = String::with_capacity(text.len().min(room) + text.len() / 4 + 64);
    let mut used = 0;
    let mut lines = 0;
    for (n, line) in (first..).zip(text.split_inclusive('\n')) {
        let body = line
            .strip_suffix('\n')
            .map_or(line, |body| body.strip_suffix('\r').unwrap_or(body));
        let width = push_line_number(n, &mut out);
        let cost = width
            + 1
            + if body.is_ascii() {
                body.len()
            } else {
                body.chars().count()
            };
        if lines > 0 && used + cost > room {
            out.truncate(out.len() - width);
            break;
        }
        out.push_str(body);
        out.push('\n');
        used += cost;
        lines += 1;
    }
    NumberedLines { text: out, lines }
}

/// Writes six columns, more for longer numbers, and a tab; returns the width. Avoids `format!`,
/// because every read runs this for every line.
fn push_line_number(n: i64, out: &mut String) -> usize {
    let mut digits = [b' '; 21];
    let mut at = 20;
    digits[at] = b'\t';
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).expect("a digit");
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 && at > 0 {
        at -= 1;
        digits[at] = b'-';
    }
    let shown = &digits[at.min(14)..];
    out.extend(shown.iter().map(|byte| char::from(*byte)));
    shown.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_stand_in_a_column() {
        let got = number_lines("a\r\nbß\n\nlast", 9, 1_000);
        assert_eq!(got.text, "     9\ta\n    10\tbß\n    11\t\n    12\tlast\n");
        assert_eq!(got.lines, 4);
        assert_eq!(
            number_lines("x\ny", -2, 1_000).text,
            "    -2\tx\n    -1\ty\n"
        );
        assert_eq!(number_lines("x", 12_345_678, 1_000).text, "12345678\tx\n");
    }

    #[test]
    fn the_room_is_kept_but_one_line_always_comes() {
        let got = number_lines("aaaa\nbbbb\ncccc\n", 1, 25);
        assert_eq!((got.lines, got.text.chars().count()), (2, 24));
        assert_eq!(number_lines("aaaa\nb\n", 1, 1).lines, 1);
        assert_eq!(
            number_lines("", 1, 100),
            NumberedLines {
                text: String::new(),
                lines: 0
            }
        );
    }
}
