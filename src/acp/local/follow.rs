//! The latest of a command's text for those who follow it, with its place in the whole. Not here: the head and the
//! tail of all of it (output).
//!
//! A cursor counts the line that has not ended too, so that one who has seen a prompt is told of it once. Such a line
//! may yet be rewritten, as progress is. What was shown of it then stays in the count, ended by a carriage return,
//! and is left out of what is shown later: no cursor that was ever given skips anything.

/// How much of the latest text is held.
const RECENT: usize = 64 << 10;
/// How far back the beginning of a line is looked for, to show a line that went on as one.
const LINE: usize = 4 << 10;
/// Ends what was shown of a line before it was rewritten. Clean text has none of its own.
const REWRITTEN: char = '\r';

/// The latest text.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// Text as the command printed it, which is never rewritten and may hold carriage returns.
    raw: bool,
    text: String,
    total: u64,
    /// What was last shown of the line that follows the text.
    shown: String,
}

impl Recent {
    pub fn new(raw: bool) -> Self {
        Self { raw, ..Self::default() }
    }

    /// Takes text that will not be rewritten any more.
    pub fn push(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.go_on_as(piece);
            self.shown.clear();
            self.append(piece);
        }
    }

    /// Counts that something else than text has changed: a cursor from before sees that there is something new.
    pub fn count_change(&mut self) {
        self.append(&REWRITTEN.to_string());
    }

    /// The cursor after the text and the line under way, which is about to be shown.
    pub fn look(&mut self, under_way: &str) -> u64 {
        self.go_on_as(under_way);
        under_way.clone_into(&mut self.shown);
        self.total + under_way.len() as u64
    }

    /// What came after the cursor, and how many bytes of that are not held any more. A line that went on since is
    /// shown from its beginning, for half a line means little and matches no pattern.
    pub fn since(&self, cursor: u64, under_way: &str) -> (String, u64) {
        let whole = format!("{}{under_way}", self.text);
        let begins = self.total - self.text.len() as u64;
        let from = usize::try_from(cursor.saturating_sub(begins)).unwrap_or(usize::MAX).min(whole.len());
        let missed = begins.saturating_sub(cursor);
        let from = whole.ceil_char_boundary(from);
        if self.raw || from == whole.len() {
            return (whole[from..].to_owned(), missed);
        }
        let near = whole.ceil_char_boundary(from.saturating_sub(LINE));
        let from = match whole[near..from].rfind('\n') {
            Some(newline) => near + newline + 1,
            None if near == 0 && begins == 0 => 0,
            None => from,
        };
        let last = |line: &str| line.rsplit(REWRITTEN).next().unwrap_or_default().to_owned();
        (whole[from..].split_inclusive('\n').map(last).collect(), missed)
    }

    /// The line goes on with this. Where that is not what was shown of it, what was shown is kept for the count.
    fn go_on_as(&mut self, text: &str) {
        if !text.starts_with(&self.shown) {
            let mut shown = std::mem::take(&mut self.shown);
            shown.push(REWRITTEN);
            self.append(&shown);
        }
    }

    fn append(&mut self, piece: &str) {
        self.total += piece.len() as u64;
        if piece.len() >= RECENT {
            self.text.clear();
            self.text.push_str(&piece[piece.ceil_char_boundary(piece.len() - RECENT)..]);
            return;
        }
        self.text.push_str(piece);
        if self.text.len() > 2 * RECENT {
            let from = self.text.ceil_char_boundary(self.text.len() - RECENT);
            self.text.drain(..from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(recent: &Recent, cursor: u64) -> (String, u64) {
        recent.since(cursor, "")
    }

    #[test]
    fn following_gives_each_piece_once_and_says_what_was_missed() {
        let mut recent = Recent::default();
        recent.push("one\n");
        assert_eq!(since(&recent, 0), ("one\n".to_owned(), 0));
        recent.push("two\n");
        assert_eq!(since(&recent, 4), ("two\n".to_owned(), 0));
        assert_eq!(since(&recent, 8), (String::new(), 0));
        assert_eq!(since(&recent, u64::MAX), (String::new(), 0));
        recent.push(&"x".repeat(3 * RECENT));
        let (text, missed) = since(&recent, 8);
        assert_eq!(text.len(), RECENT);
        assert_eq!(missed, 2 * RECENT as u64);
    }

    #[test]
    fn the_latest_text_stays_small_and_whole() {
        let mut recent = Recent::new(true);
        for _ in 0..20_000 {
            recent.push("äöü\n");
        }
        assert!(recent.text.len() <= 2 * RECENT);
        assert_eq!(recent.total, 140_000);
        assert_eq!(since(&recent, 140_000 - 7).0, "äöü\n");
        assert_eq!(since(&recent, 140_000 - 6).0, "öü\n", "a cursor inside a character moves past it");
    }

    #[test]
    fn a_prompt_is_new_once_and_shown_whole_when_its_line_goes_on() {
        let mut recent = Recent::default();
        recent.push("begun\n");
        let before = recent.look("");
        let cursor = recent.look("Name");
        assert_eq!(recent.since(before, "Name").0, "Name");
        assert_eq!(recent.since(cursor, "Name").0, "", "nothing was printed since");
        assert_eq!(recent.look("Name"), cursor);
        let on = recent.look("Name: ");
        assert_eq!(recent.since(cursor, "Name: ").0, "Name: ");
        recent.push("Name: x\n");
        assert_eq!(since(&recent, on).0, "Name: x\n");
        assert_eq!(since(&recent, before).0, "Name: x\n");
        let end = recent.look("");
        assert_eq!(since(&recent, end).0, "");
    }

    #[test]
    fn a_line_that_is_rewritten_skips_nothing_for_any_cursor() {
        let mut recent = Recent::default();
        recent.push("begun\n");
        let before = recent.look("");
        let cursors = [recent.look("progress 10 of 100"), recent.look("progress 20")];
        assert!(before < cursors[0] && cursors[0] < cursors[1], "{before} {cursors:?}");
        recent.push("ok\nnext\n");
        let last = recent.look("");
        assert!(cursors[1] < last);
        for cursor in cursors.into_iter().chain([before]) {
            assert_eq!(since(&recent, cursor).0, "ok\nnext\n");
        }
        assert_eq!(since(&recent, 0).0, "begun\nok\nnext\n");
    }
}
