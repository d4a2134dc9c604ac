//! The head and the tail of a stream of text, in flat memory however long it runs.

use memchr::{memchr, memchr_iter, memrchr};

use super::elided_text::ElidedText;
use super::long_line::LongLine;
use super::text_budget::{MARKER_CHARS, OmittedGap, gap_marker, long_lines_marker};
use super::{ClippedText, TextBudget};

/// Text is taken in blocks of this size, so that one huge piece costs no more memory than many small ones.
const BLOCK_BYTES: usize = 64 << 10;

/// Keeps the first 40 % and the last 60 % of a budget of a text that arrives in pieces. How the text was cut into
/// pieces makes no difference.
#[derive(Debug, Clone)]
pub struct HeadTail {
    budget: TextBudget,
    /// The line that has not ended yet.
    line: LongLine,
    newlines: u64,
    bytes: u64,
    /// The first line that lost its middle; 0 when none did.
    first_cut: u64,
    /// Set once the text is over the budget.
    head: Option<ElidedText>,
    /// Everything while there is no head, then the last part of everything.
    recent: ElidedText,
    /// Characters in `recent`, counted while there is no head.
    chars: usize,
}

impl HeadTail {
    /// An empty one.
    pub fn new(budget: TextBudget) -> Self {
        Self {
            budget,
            line: LongLine::default(),
            newlines: 0,
            bytes: 0,
            first_cut: 0,
            head: None,
            recent: ElidedText::default(),
            chars: 0,
        }
    }

    /// Takes the next piece of text.
    pub fn push(&mut self, piece: &str) {
        let mut rest = piece;
        while !rest.is_empty() {
            let (block, after) = rest.split_at(rest.ceil_char_boundary(BLOCK_BYTES));
            self.push_block(block);
            rest = after;
        }
    }

    /// The number of lines so far; a last line without its end counts.
    pub fn line_count(&self) -> u64 {
        self.newlines + u64::from(!self.line.is_empty())
    }

    /// Renders the text so far, with the marker between head and tail where something is left out.
    pub fn render_clipped(&self, handle: Option<&str>) -> ClippedText {
        self.render_with_marker(handle, |gap| gap_marker(gap, handle))
    }

    pub(super) fn render_with_marker(
        &self,
        handle: Option<&str>,
        marker: impl FnOnce(OmittedGap) -> String,
    ) -> ClippedText {
        let mut ended = self.clone();
        let lines = self.line_count();
        if !ended.line.is_empty() {
            ended.emit_line();
        }
        match ended.head.take() {
            None => ended.render_fitting(handle),
            Some(head) => ended.render_with_gap(&head, lines, marker),
        }
    }

    fn push_block(&mut self, block: &str) {
        self.bytes += block.len() as u64;
        let mut rest = block;
        while !rest.is_empty() {
            if self.line.is_empty() {
                let (run, newlines) = measure_short_lines(rest);
                if newlines > 0 {
                    self.newlines += newlines;
                    self.emit_text(&rest[..run]);
                    rest = &rest[run..];
                    continue;
                }
            }
            let Some(end) = memchr(b'\n', rest.as_bytes()) else {
                self.line.push(rest);
                return;
            };
            self.line.push(&rest[..end]);
            self.emit_line();
            self.emit_text("\n");
            self.newlines += 1;
            rest = &rest[end + 1..];
        }
    }

    /// Hands on the collected line, without its end.
    fn emit_line(&mut self) {
        let mut line = std::mem::take(&mut self.line);
        let ends = line.split_ends();
        self.emit_text(ends.start);
        if let Some(cut) = ends.cut {
            if self.first_cut == 0 {
                self.first_cut = self.newlines + 1;
            }
            self.recent.mark_note(cut.note.len(), cut.bytes);
            self.emit_text(&cut.note);
            self.emit_text(cut.end);
        }
        line.clear();
        self.line = line;
    }

    fn emit_text(&mut self, shown: &str) {
        self.recent.text.push_str(shown);
        if self.head.is_some() {
            let keep = 4 * self.tail_chars() + 8;
            if self.recent.text.len() > 2 * keep {
                self.recent.drop_front(keep);
            }
            return;
        }
        self.chars += shown.chars().count();
        let closing = if self.first_cut == 0 { 0 } else { MARKER_CHARS };
        if self.chars + closing > self.budget.max_chars() {
            self.head = Some(self.recent.cut_head(self.head_chars()));
        }
    }

    fn head_chars(&self) -> usize {
        (self.budget.max_chars() - MARKER_CHARS) * 2 / 5
    }

    fn tail_chars(&self) -> usize {
        self.budget.max_chars() - MARKER_CHARS - self.head_chars()
    }

    fn render_fitting(self, handle: Option<&str>) -> ClippedText {
        let (_, cut) = self.recent.original_bytes();
        let mut text = self.recent.text;
        if cut > 0
            && let Some(marker) = long_lines_marker(self.first_cut, handle)
        {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str(&marker);
        }
        ClippedText {
            text,
            omitted_lines: 0,
            omitted_bytes: cut,
        }
    }

    fn render_with_gap(
        self,
        head: &ElidedText,
        lines: u64,
        marker: impl FnOnce(OmittedGap) -> String,
    ) -> ClippedText {
        let (tail, on_line) = self.recent.cut_tail(self.tail_chars());
        let first_line = count_newlines(&head.text) + 1;
        let last_open = u64::from(!tail.text.is_empty() && !tail.text.ends_with('\n'));
        let in_tail = count_newlines(&tail.text) + last_open - u64::from(!on_line);
        let omitted_lines = lines - (first_line - 1) - in_tail;
        let (head_bytes, head_cut) = head.original_bytes();
        let (tail_bytes, tail_cut) = tail.original_bytes();
        let gap_bytes = self.bytes - head_bytes - tail_bytes;
        let marker = marker(OmittedGap {
            lines: omitted_lines,
            bytes: gap_bytes,
            first_line,
        });
        let mut text = String::with_capacity(head.text.len() + marker.len() + tail.text.len() + 2);
        text.push_str(&head.text);
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str(&marker);
        text.push('\n');
        text.push_str(&tail.text);
        ClippedText {
            text,
            omitted_lines,
            omitted_bytes: gap_bytes + head_cut + tail_cut,
        }
    }
}

fn count_newlines(text: &str) -> u64 {
    memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// Measures the leading whole lines that are surely short enough (a byte is at least a character), and counts them. It
/// searches for the furthest line end within the limit, so the cost does not grow with the number of lines.
fn measure_short_lines(text: &str) -> (usize, u64) {
    let bytes = text.as_bytes();
    let mut end = 0;
    while let Some(newline) = memrchr(
        b'\n',
        &bytes[end..bytes.len().min(end + TextBudget::MAX_LINE_CHARS + 1)],
    ) {
        end += newline + 1;
    }
    (end, count_newlines(&text[..end]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::text_budget::clip_to_budget;
    use super::*;

    fn budget(chars: u64) -> TextBudget {
        TextBudget::from_requested(Some(chars))
    }

    fn shown_chars(text: &str) -> usize {
        text.chars().count()
    }

    /// Head and tail of a clipped text, apart from its marker line.
    fn around_the_gap(text: &str) -> (&str, &str) {
        let at = text.find("\n[... ").expect("a marker") + 1;
        let end = at + text[at..].find("]\n").expect("the marker's end") + 2;
        (&text[..at], &text[end..])
    }

    fn numbered(lines: u64) -> String {
        (1..=lines).fold(String::new(), |text, n| text + &format!("line {n}\n"))
    }

    #[test]
    fn a_fitting_text_is_untouched() {
        for text in ["", "\n", "one", "one\r\ntwo\n\n", &"é".repeat(1_000)] {
            let clipped = clip_to_budget(text, budget(1_000), Some("out_0123456789ab"));
            assert_eq!(clipped.text, text);
            assert!(clipped.is_whole());
            assert_eq!(clipped.omitted_lines, 0);
        }
    }

    #[test]
    fn the_marker_says_what_is_missing_and_where_it_is() {
        let text = numbered(2_000);
        let clipped = clip_to_budget(&text, budget(1_000), Some("out_0123456789ab"));
        let shown = count_newlines(around_the_gap(&clipped.text).0);
        let expected = format!(
            "line {shown}\n[... {} lines (17 KB) omitted; ReadOutput handle=\"out_0123456789ab\" offset={} for the rest]\n",
            grouped_lines(clipped.omitted_lines),
            shown + 1
        );
        assert!(clipped.text.contains(&expected), "{}", clipped.text);
        assert!(clipped.text.starts_with("line 1\n") && clipped.text.ends_with("line 2000\n"));
        let without = clip_to_budget(&text, budget(1_000), None);
        assert!(
            without.text.contains(" lines (17 KB) omitted]\n"),
            "{}",
            without.text
        );
    }

    fn grouped_lines(n: u64) -> String {
        super::super::number_format::group_digits(n)
    }

    #[test]
    fn one_endless_line_shows_both_ends_and_its_length() {
        let text = format!("<{}>", "ü".repeat(1_000_000));
        let clipped = clip_to_budget(&text, budget(1_000), Some("out_0123456789ab"));
        assert!(shown_chars(&clipped.text) <= 1_000);
        assert!(
            clipped.text.starts_with("<ü") && clipped.text.ends_with("ü>"),
            "{}",
            clipped.text
        );
        let clipped = clip_to_budget(&text, budget(5_000), Some("out_0123456789ab"));
        assert!(
            clipped
                .text
                .contains("of this line's 1,000,002 characters omitted"),
            "{}",
            clipped.text
        );
        assert!(
            clipped
                .text
                .ends_with("ReadOutput handle=\"out_0123456789ab\" offset=1 for the rest]")
        );
        assert_eq!(clipped.omitted_bytes, 2 * (1_000_002 - 1_800));
    }

    #[test]
    fn a_line_that_fills_the_head_is_shown_and_not_counted_as_left_out() {
        let head = HeadTail::new(budget(1_000)).head_chars();
        let text = format!("{}\n{}", "h".repeat(head), "t\n".repeat(1_000));
        let clipped = clip_to_budget(&text, budget(1_000), Some("out_0123456789ab"));
        assert!(
            clipped
                .text
                .starts_with(&format!("{}\n[...", "h".repeat(head)))
                && clipped.text.contains(" offset=2 for the rest]\n"),
            "{}",
            clipped.text
        );
        let (head, tail) = around_the_gap(&clipped.text);
        assert_eq!(
            head.len() as u64 + clipped.omitted_bytes + tail.len() as u64,
            text.len() as u64
        );
    }

    #[test]
    fn memory_stays_flat() {
        for piece in [
            "\n".repeat(1 << 20),
            "x".repeat(1 << 20),
            "12345678\n".repeat(1 << 17),
        ] {
            let mut kept = HeadTail::new(TextBudget::default());
            for _ in 0..64 {
                kept.push(&piece);
                let held = kept.recent.text.capacity()
                    + kept.head.as_ref().map_or(0, |head| head.text.capacity());
                assert!(
                    held < 20 * TextBudget::DEFAULT_CHARS,
                    "{held} bytes are held"
                );
            }
            assert_eq!(kept.bytes, 64 * piece.len() as u64);
            assert!(shown_chars(&kept.render_clipped(None).text) <= TextBudget::DEFAULT_CHARS);
        }
    }

    fn line() -> impl Strategy<Value = String> {
        prop_oneof![
            6 => "[ -~é😀\r]{0,90}",
            2 => Just(String::new()),
            1 => (1_990_usize..2_010).prop_map(|n| "é".repeat(n)),
            1 => (1_usize..9_000, "[a-zé😀]{1,7}").prop_map(|(n, unit)| unit.repeat(n / unit.len() + 1)),
        ]
    }

    fn text() -> impl Strategy<Value = String> {
        (prop::collection::vec(line(), 0..60), any::<bool>()).prop_map(|(lines, end)| {
            let mut text = lines.join("\n");
            if end {
                text.push('\n');
            }
            text
        })
    }

    fn short_text() -> impl Strategy<Value = String> {
        prop::collection::vec("[ -Z^-~é😀]{0,300}", 1..40).prop_map(|lines| lines.join("\n"))
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(text in text(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20), chars in 1_000_u64..6_000) {
            let mut at: Vec<usize> = cuts.iter().map(|cut| text.floor_char_boundary(cut.index(text.len() + 1))).collect();
            at.push(text.len());
            at.sort_unstable();
            let mut kept = HeadTail::new(budget(chars));
            let mut from = 0;
            for to in at {
                kept.push(&text[from..to]);
                from = to;
            }
            prop_assert_eq!(kept.line_count(), text.lines().count() as u64);
            prop_assert_eq!(kept.bytes, text.len() as u64);
            prop_assert_eq!(kept.render_clipped(Some("out_0123456789ab")), clip_to_budget(&text, budget(chars), Some("out_0123456789ab")));
        }

        #[test]
        fn never_over_the_budget_and_never_longer_than_the_text(text in text(), chars in 1_000_u64..6_000, named in any::<bool>()) {
            let clipped = clip_to_budget(&text, budget(chars), named.then_some("out_0123456789ab"));
            prop_assert!(shown_chars(&clipped.text) <= budget(chars).max_chars());
            if clipped.is_whole() {
                prop_assert_eq!(clipped.text, text);
            } else {
                prop_assert!(shown_chars(&clipped.text) <= shown_chars(&text));
                prop_assert!(clipped.text.len() <= text.len());
            }
        }

        #[test]
        fn a_character_is_never_split(text in "[é😀漢]{0,4000}", chars in 1_000_u64..3_000) {
            let clipped = clip_to_budget(&text, budget(chars), Some("out_0123456789ab"));
            let shown = clipped.text.chars().filter(|c| "é😀漢".contains(*c)).collect::<String>();
            prop_assert!(!clipped.text.contains(char::REPLACEMENT_CHARACTER));
            prop_assert!(shown.len() as u64 + clipped.omitted_bytes == text.len() as u64);
            prop_assert!(shown_chars(&clipped.text) <= shown_chars(&text).max(1) || clipped.is_whole());
        }

        #[test]
        fn head_and_tail_are_the_text_and_the_counts_add_up(text in short_text(), chars in 1_000_u64..3_000) {
            let clipped = clip_to_budget(&text, budget(chars), Some("out_0123456789ab"));
            if !clipped.is_whole() {
                let (head, tail) = around_the_gap(&clipped.text);
                // A head that ends inside a line got a line end of its own.
                let head = if text.starts_with(head) { head } else { head.trim_end_matches('\n') };
                prop_assert!(text.starts_with(head));
                prop_assert!(text.ends_with(tail));
                prop_assert_eq!(head.len() as u64 + clipped.omitted_bytes + tail.len() as u64, text.len() as u64);
                let gap = &text[head.len()..text.len() - tail.len()];
                let offset = format!(" offset={} for the rest]", count_newlines(head) + 1);
                prop_assert!(clipped.text.contains(&offset));
                prop_assert_eq!(clipped.omitted_lines, gap.lines().count() as u64);
            }
        }
    }
}
