//! What is made of a command's bytes: masked, kept on disk from the first one, decoded, cleaned, and held in memory
//! as head, tail and the latest. Not here: reading them (pump).

use crate::ids::RequestId;
use crate::output::hygiene::{CommandText, Decoder};
use crate::output::{Budget, HeadTail, OutputHandle, OutputStore, Spool, StreamFilter};

/// How much of the latest text is held for those who follow a command.
const RECENT: usize = 64 << 10;

/// Where a request's output is kept.
pub(super) struct Place {
    pub store: OutputStore,
    pub request: RequestId,
    pub number: u32,
}

/// One command's output, in memory that does not grow with it.
pub(super) struct Capture {
    place: Place,
    filter: Box<dyn StreamFilter>,
    spool: Option<Spool>,
    unkept: Option<String>,
    decoder: Decoder,
    cleaner: Option<CommandText>,
    head_tail: HeadTail,
    recent: Recent,
    masked: Vec<u8>,
    decoded: String,
    clean: String,
}

/// What a capture shows at one moment.
pub(super) struct Shown {
    pub text: String,
    pub omitted_bytes: u64,
    pub cursor: u64,
    pub handle: Option<OutputHandle>,
    pub lossy_chars: u64,
    pub redactions: u64,
    pub cut_short: Option<String>,
}

impl Capture {
    pub fn new(place: Place, filter: Box<dyn StreamFilter>, budget: Budget, raw: bool) -> Self {
        Self {
            place,
            filter,
            spool: None,
            unkept: None,
            decoder: Decoder::default(),
            cleaner: (!raw).then(CommandText::default),
            head_tail: HeadTail::new(budget),
            recent: Recent::default(),
            masked: Vec::new(),
            decoded: String::new(),
            clean: String::new(),
        }
    }

    /// Takes what was read.
    pub fn take(&mut self, chunk: &[u8]) {
        let mut masked = std::mem::take(&mut self.masked);
        masked.clear();
        self.filter.push(chunk, &mut masked);
        self.pass_on(&masked);
        self.masked = masked;
    }

    /// What was taken so far is on the disk when this returns, as far as it is kept at all.
    pub fn save(&mut self) {
        if let Some(spool) = &mut self.spool {
            spool.flush();
        }
    }

    /// Nothing more comes: what was held back is passed on.
    pub fn finish(&mut self) {
        let mut masked = Vec::new();
        self.filter.finish(&mut masked);
        self.pass_on(&masked);
        let mut rest = String::new();
        self.decoder.finish(&mut rest);
        let mut clean = String::new();
        match &mut self.cleaner {
            Some(cleaner) => {
                cleaner.push(&rest, &mut clean);
                cleaner.finish(&mut clean);
            }
            None => clean = rest,
        }
        self.head_tail.push(&clean);
        self.recent.push(&clean);
        if let Some(spool) = &mut self.spool {
            spool.flush();
        }
        // A finished command may stay listed for long; its buffers need not.
        self.masked = Vec::new();
        self.decoded = String::new();
        self.clean = String::new();
    }

    /// What there is now, or what is new since the cursor. A line that has not ended yet is shown as it stands.
    pub fn show(&mut self, since: Option<u64>) -> Shown {
        if let Some(spool) = &mut self.spool {
            spool.flush();
        }
        let handle = self.spool.as_ref().map(|spool| spool.handle().clone());
        let under_way = self.cleaner.as_ref().map_or("", CommandText::unfinished);
        let (text, omitted_bytes) = if let Some(cursor) = since {
            let (new, missed) = self.recent.since(cursor);
            (format!("{new}{under_way}"), missed)
        } else {
            let mut whole = self.head_tail.clone();
            whole.push(under_way);
            let clipped = whole.render(handle.as_ref().map(OutputHandle::as_str));
            (clipped.text, clipped.omitted_bytes)
        };
        Shown {
            text,
            omitted_bytes,
            cursor: self.recent.total,
            handle,
            lossy_chars: self.decoder.lossy(),
            redactions: self.filter.rewritten(),
            cut_short: self.unkept.clone().or_else(|| self.spool.as_ref()?.cut_short().map(str::to_owned)),
        }
    }

    fn pass_on(&mut self, masked: &[u8]) {
        if masked.is_empty() {
            return;
        }
        self.keep(masked);
        self.decoded.clear();
        self.decoder.push(masked, &mut self.decoded);
        let clean = match &mut self.cleaner {
            Some(cleaner) => {
                self.clean.clear();
                cleaner.push(&self.decoded, &mut self.clean);
                &self.clean
            }
            None => &self.decoded,
        };
        self.head_tail.push(clean);
        self.recent.push(clean);
    }

    /// Writes to disk. A disk that refuses is a warning, never the end of the command.
    fn keep(&mut self, masked: &[u8]) {
        if self.spool.is_none() && self.unkept.is_none() {
            match self.place.store.create(&self.place.request, self.place.number) {
                Ok(spool) => self.spool = Some(spool),
                Err(cause) => self.unkept = Some(format!("it could not be kept on disk ({cause})")),
            }
        }
        if let Some(spool) = &mut self.spool {
            spool.write(masked);
            // A runner that is killed leaves behind what was written, not what was collected.
            spool.flush();
        }
    }
}

/// The latest text, with its place in the whole.
#[derive(Debug, Default)]
struct Recent {
    text: String,
    total: u64,
}

impl Recent {
    fn push(&mut self, piece: &str) {
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

    /// What came after the cursor, and how many bytes of that are not held any more.
    fn since(&self, cursor: u64) -> (&str, u64) {
        let begins = self.total - self.text.len() as u64;
        let from = usize::try_from(cursor.saturating_sub(begins)).unwrap_or(usize::MAX).min(self.text.len());
        (&self.text[self.text.ceil_char_boundary(from)..], begins.saturating_sub(cursor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn following_gives_each_piece_once_and_says_what_was_missed() {
        let mut recent = Recent::default();
        recent.push("one\n");
        assert_eq!(recent.since(0), ("one\n", 0));
        recent.push("two\n");
        assert_eq!(recent.since(4), ("two\n", 0));
        assert_eq!(recent.since(8), ("", 0));
        assert_eq!(recent.since(u64::MAX), ("", 0));
        recent.push(&"x".repeat(3 * RECENT));
        let (text, missed) = recent.since(8);
        assert_eq!(text.len(), RECENT);
        assert_eq!(missed, 2 * RECENT as u64);
    }

    #[test]
    fn the_latest_text_stays_small_and_whole() {
        let mut recent = Recent::default();
        for _ in 0..20_000 {
            recent.push("äöü\n");
        }
        assert!(recent.text.len() <= 2 * RECENT);
        assert_eq!(recent.total, 140_000);
        assert_eq!(recent.since(140_000 - 7), ("äöü\n", 0));
        assert_eq!(recent.since(140_000 - 6).0, "öü\n", "a cursor inside a character moves past it");
    }
}
