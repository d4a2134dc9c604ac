//! The latest text of a command for its followers, with its position in the whole.
//!
//! A cursor counts the unfinished line too, so that a follower sees a prompt once. Such a line may still be
//! rewritten, as progress lines are. The text shown of it stays in the count, ended by a carriage return, and is left
//! out of later views. So no cursor ever skips text.

/// The number of bytes of the latest text in memory.
const MAX_RECENT_BYTES: usize = 64 << 10;
/// The distance back to which the beginning of a line is searched, to show a continued line whole.
const MAX_LINE_SEARCH: usize = 4 << 10;
/// Ends the text shown of a line before it was rewritten. Clean text contains no such character.
const REWRITE_MARK: char = '\r';

/// The latest text.
#[derive(Debug, Default)]
pub(super) struct RecentOutput {
    /// Set for text exactly as the command printed it, which is never rewritten and may contain carriage returns.
    raw: bool,
    text: String,
    total: u64,
    /// The text last shown of the line that follows.
    shown: String,
}

impl RecentOutput {
    pub fn new(raw: bool) -> Self {
        Self {
            raw,
            ..Self::default()
        }
    }

    /// Appends text that will not be rewritten any more.
    pub fn push_final_text(&mut self, piece: &str) {
        if !piece.is_empty() {
            self.continue_line(piece);
            self.shown.clear();
            self.append(piece);
        }
    }

    /// Counts a change that is no text, so that an earlier cursor sees that there is something new.
    pub fn count_change(&mut self) {
        self.append(&REWRITE_MARK.to_string());
    }

    /// Returns the cursor after the text and the unfinished line, which is about to be shown.
    pub fn advance_cursor(&mut self, under_way: &str) -> u64 {
        self.continue_line(under_way);
        under_way.clone_into(&mut self.shown);
        self.total + under_way.len() as u64
    }

    /// Returns the text after the cursor, and how many bytes of it are not in memory any more. A line that was
    /// continued since is shown from its beginning: half a line means little and matches no pattern.
    pub fn text_since(&self, cursor: u64, under_way: &str) -> (String, u64) {
        let whole = format!("{}{under_way}", self.text);
        let begins = self.total - self.text.len() as u64;
        let from = usize::try_from(cursor.saturating_sub(begins))
            .unwrap_or(usize::MAX)
            .min(whole.len());
        let missed = begins.saturating_sub(cursor);
        let from = whole.ceil_char_boundary(from);
        if self.raw || from == whole.len() {
            return (whole[from..].to_owned(), missed);
        }
        let near = whole.ceil_char_boundary(from.saturating_sub(MAX_LINE_SEARCH));
        let from = match whole[near..from].rfind('\n') {
            Some(newline) => near + newline + 1,
            None if near == 0 && begins == 0 => 0,
            None => from,
        };
        let last = |line: &str| {
            line.rsplit(REWRITE_MARK)
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        (
            whole[from..].split_inclusive('\n').map(last).collect(),
            missed,
        )
    }

    /// Continues the line with this text. If it does not begin as shown before, the text shown before stays in the
    /// count.
    fn continue_line(&mut self, text: &str) {
        if !text.starts_with(&self.shown) {
            let mut shown = std::mem::take(&mut self.shown);
            shown.push(REWRITE_MARK);
            self.append(&shown);
        }
    }

    fn append(&mut self, piece: &str) {
        self.total += piece.len() as u64;
        if piece.len() >= MAX_RECENT_BYTES {
            self.text.clear();
            self.text
                .push_str(&piece[piece.ceil_char_boundary(piece.len() - MAX_RECENT_BYTES)..]);
            return;
        }
        self.text.push_str(piece);
        if self.text.len() > 2 * MAX_RECENT_BYTES {
            let from = self
                .text
                .ceil_char_boundary(self.text.len() - MAX_RECENT_BYTES);
            self.text.drain(..from);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(recent: &RecentOutput, cursor: u64) -> (String, u64) {
        recent.text_since(cursor, "")
    }

    #[test]
    fn following_gives_each_piece_once_and_says_what_was_missed() {
        let mut recent = RecentOutput::default();
        recent.push_final_text("one\n");
        assert_eq!(since(&recent, 0), ("one\n".to_owned(), 0));
        recent.push_final_text("two\n");
        assert_eq!(since(&recent, 4), ("two\n".to_owned(), 0));
        assert_eq!(since(&recent, 8), (String::new(), 0));
        assert_eq!(since(&recent, u64::MAX), (String::new(), 0));
        recent.push_final_text(&"x".repeat(3 * MAX_RECENT_BYTES));
        let (text, missed) = since(&recent, 8);
        assert_eq!(text.len(), MAX_RECENT_BYTES);
        assert_eq!(missed, 2 * MAX_RECENT_BYTES as u64);
    }

    #[test]
    fn the_latest_text_stays_small_and_whole() {
        let mut recent = RecentOutput::new(true);
        for _ in 0..20_000 {
            recent.push_final_text("äöü\n");
        }
        assert!(recent.text.len() <= 2 * MAX_RECENT_BYTES);
        assert_eq!(recent.total, 140_000);
        assert_eq!(since(&recent, 140_000 - 7).0, "äöü\n");
        assert_eq!(
            since(&recent, 140_000 - 6).0,
            "öü\n",
            "a cursor inside a character moves past it"
        );
    }

    #[test]
    fn a_prompt_is_new_once_and_shown_whole_when_its_line_goes_on() {
        let mut recent = RecentOutput::default();
        recent.push_final_text("begun\n");
        let before = recent.advance_cursor("");
        let cursor = recent.advance_cursor("Name");
        assert_eq!(recent.text_since(before, "Name").0, "Name");
        assert_eq!(
            recent.text_since(cursor, "Name").0,
            "",
            "nothing was printed since"
        );
        assert_eq!(recent.advance_cursor("Name"), cursor);
        let on = recent.advance_cursor("Name: ");
        assert_eq!(recent.text_since(cursor, "Name: ").0, "Name: ");
        recent.push_final_text("Name: x\n");
        assert_eq!(since(&recent, on).0, "Name: x\n");
        assert_eq!(since(&recent, before).0, "Name: x\n");
        let end = recent.advance_cursor("");
        assert_eq!(since(&recent, end).0, "");
    }

    #[test]
    fn a_line_that_is_rewritten_skips_nothing_for_any_cursor() {
        let mut recent = RecentOutput::default();
        recent.push_final_text("begun\n");
        let before = recent.advance_cursor("");
        let cursors = [
            recent.advance_cursor("progress 10 of 100"),
            recent.advance_cursor("progress 20"),
        ];
        assert!(
            before < cursors[0] && cursors[0] < cursors[1],
            "{before} {cursors:?}"
        );
        recent.push_final_text("ok\nnext\n");
        let last = recent.advance_cursor("");
        assert!(cursors[1] < last);
        for cursor in cursors.into_iter().chain([before]) {
            assert_eq!(since(&recent, cursor).0, "ok\nnext\n");
        }
        assert_eq!(since(&recent, 0).0, "begun\nok\nnext\n");
    }
}
