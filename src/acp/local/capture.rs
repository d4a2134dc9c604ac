//! What is made of a command's bytes: masked, kept on disk from the first one, decoded, cleaned, and held in memory
//! as head, tail and the latest. Not here: reading them (pump), and the latest for those who follow (follow).

use std::fmt::Write as _;
use std::io::Read as _;

use super::follow::Recent;
use crate::acp::content::classify;
use crate::ids::RequestId;
use crate::output::figures::{counted, size};
use crate::output::hygiene::{CommandText, Decoder, clean};
use crate::output::{
    BinaryRun, Budget, HeadTail, OutputHandle, OutputStore, Spool, StreamFilter, find_binary,
};

/// So much of what may be the beginning of a secret is shown all the same: a prompt would lose its last letter, and
/// nobody learns a secret from so little.
const TOO_LITTLE: usize = 4;

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
    keeping: Keeping,
    decoder: Decoder,
    cleaner: Option<CommandText>,
    head_tail: HeadTail,
    recent: Recent,
    /// Binary data that came last and is told in one line.
    binary: BinaryRun,
    /// How many bytes of binary data are not shown.
    binary_bytes: u64,
    masked: Vec<u8>,
    decoded: String,
    clean: String,
}

/// What is known of the copy on disk.
enum Keeping {
    /// Nothing was printed yet.
    NotBegun,
    Open(Spool),
    /// Nothing more comes. The spool is let go, for as long as it lives the store counts it among those that run.
    Over {
        handle: Option<OutputHandle>,
        cut_short: Option<String>,
    },
}

impl Keeping {
    /// Where the whole is found; none where nothing is kept.
    fn handle(&self) -> Option<&OutputHandle> {
        match self {
            Self::NotBegun => None,
            Self::Open(spool) => spool.kept(),
            Self::Over { handle, .. } => handle.as_ref(),
        }
    }

    fn cut_short(&self) -> Option<&str> {
        match self {
            Self::NotBegun => None,
            Self::Open(spool) => spool.cut_short(),
            Self::Over { cut_short, .. } => cut_short.as_deref(),
        }
    }

    fn flush(&mut self) {
        if let Self::Open(spool) = self {
            spool.flush();
        }
    }

    fn end(&mut self) {
        self.flush();
        let (handle, cut_short) = (self.handle().cloned(), self.cut_short().map(str::to_owned));
        *self = Self::Over { handle, cut_short };
    }
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
    pub held_back: usize,
}

impl Capture {
    pub fn new(place: Place, filter: Box<dyn StreamFilter>, budget: Budget, raw: bool) -> Self {
        Self {
            place,
            filter,
            keeping: Keeping::NotBegun,
            decoder: Decoder::default(),
            cleaner: (!raw).then(CommandText::default),
            head_tail: HeadTail::new(budget),
            recent: Recent::new(raw),
            binary: BinaryRun::default(),
            binary_bytes: 0,
            masked: Vec::new(),
            decoded: String::new(),
            clean: String::new(),
        }
    }

    /// Nothing of it goes to the disk: it will be taken again as a whole.
    pub fn keep_nothing(&mut self) {
        self.keeping = Keeping::Over { handle: None, cut_short: None };
    }

    /// Goes on where an earlier life of the runner ended: what that life kept is passed on again, but for the disk,
    /// where more will be added to it. Nothing was kept by a life that was cut off before the first byte.
    pub fn go_on(&mut self) {
        let Ok(Some((spool, mut kept))) = self.place.store.go_on(&self.place.request, self.place.number)
        else {
            return;
        };
        let mut chunk = vec![0; 256 << 10];
        while let Ok(count @ 1..) = kept.read(&mut chunk) {
            self.show_on(&chunk[..count]);
        }
        self.keeping = Keeping::Open(spool);
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
        self.keeping.flush();
    }

    /// Nothing more comes: what was held back is passed on.
    pub fn finish(&mut self) {
        let mut masked = Vec::new();
        self.filter.finish(&mut masked);
        self.pass_on(&masked);
        self.end_binary();
        self.end_text();
        self.keeping.end();
        // A finished command may stay listed for long; its buffers need not.
        self.masked = Vec::new();
        self.decoded = String::new();
        self.clean = String::new();
    }

    /// What there is now, or what is new since the cursor. A line that has not ended yet is shown as it stands.
    pub fn show(&mut self, since: Option<u64>) -> Shown {
        self.keeping.flush();
        let (under_way, held_back) = self.under_way();
        let cursor = self.recent.look(&under_way);
        let handle = self.keeping.handle().cloned();
        let (text, omitted_bytes) = if let Some(since) = since {
            self.recent.since(since, &under_way)
        } else {
            let mut whole = self.head_tail.clone();
            whole.push(&under_way);
            let mut clipped = whole.render(handle.as_ref().map(OutputHandle::as_str));
            if let Some(cleaner) = self.cleaner.as_ref().filter(|cleaner| cleaner.nuls() > 0) {
                add_nul_note(&mut clipped.text, cleaner.nuls());
            }
            (clipped.text, clipped.omitted_bytes + self.binary_bytes)
        };
        Shown {
            text,
            omitted_bytes,
            cursor,
            handle,
            lossy_chars: self.decoder.lossy(),
            redactions: self.filter.rewritten(),
            cut_short: self.keeping.cut_short().map(str::to_owned),
            held_back,
        }
    }

    /// The line that has not ended, and how many characters after it are not shown. Escape sequences do not count: the
    /// masker holds back a whole one whose last letter may begin a secret, as after most prompts. Raw text has no such
    /// line: what was passed on of it cannot be taken back.
    fn under_way(&self) -> (String, usize) {
        if !self.binary.is_empty() {
            return (binary_words(&self.binary), 0);
        }
        let held = String::from_utf8_lossy(self.filter.held());
        let visible = clean(&held);
        let Some(cleaner) = &self.cleaner else { return (String::new(), visible.chars().count()) };
        if visible.len() >= TOO_LITTLE || visible.contains(|c: char| c.is_control() || c == '\u{fffd}') {
            return (cleaner.unfinished().to_owned(), visible.chars().count());
        }
        let (mut ahead, mut text) = (cleaner.clone(), String::new());
        ahead.push(&held, &mut text);
        text.push_str(ahead.unfinished());
        (text, 0)
    }

    fn pass_on(&mut self, masked: &[u8]) {
        if masked.is_empty() {
            return;
        }
        self.keep(masked);
        self.show_on(masked);
    }

    fn show_on(&mut self, masked: &[u8]) {
        let binary = find_binary(masked, !self.binary.is_empty());
        if binary.is_empty() {
            self.end_binary();
            return self.decode(masked);
        }
        if self.binary.is_empty() {
            self.decode(&masked[..binary.start]);
            let is_open = self.cleaner.as_ref().is_some_and(|cleaner| !cleaner.unfinished().is_empty());
            self.end_text();
            self.push_text(if is_open { "\n" } else { "" });
        }
        self.binary.push(&masked[binary.clone()]);
        if binary.end < masked.len() {
            self.end_binary();
            self.decode(&masked[binary.end..]);
        }
    }

    /// Tells the binary data that came last, if any.
    fn end_binary(&mut self) {
        if !self.binary.is_empty() {
            let run = std::mem::take(&mut self.binary);
            self.binary_bytes += run.bytes;
            self.push_text(&(binary_words(&run) + "\n"));
        }
    }

    fn push_text(&mut self, text: &str) {
        self.head_tail.push(text);
        self.recent.push(text);
    }

    /// Passes on what waits for the rest of a character or of a line.
    fn end_text(&mut self) {
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
        self.push_text(&clean);
    }

    fn decode(&mut self, masked: &[u8]) {
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
        if let Keeping::NotBegun = self.keeping {
            self.keeping = match self.place.store.create(&self.place.request, self.place.number) {
                Ok(spool) => Keeping::Open(spool),
                Err(cause) => {
                    let why = format!("it could not be kept on disk ({cause})");
                    Keeping::Over { handle: None, cut_short: Some(why) }
                }
            };
        }
        if let Keeping::Open(spool) = &mut self.keeping {
            // On the disk only when the pump pauses: see `save`.
            spool.write(masked);
        }
    }
}

/// The line that is shown in place of binary data.
fn binary_words(run: &BinaryRun) -> String {
    let kind = classify(&run.first, false).err().map_or("binary data", |binary| binary.kind);
    let first: Vec<String> = run.first.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("[{kind}, {}, not shown; its first bytes: {}]", size(run.bytes), first.join(" "))
}

/// Says on a line of its own how many NUL bytes the text does not show. A success that printed nothing else is then not
/// taken for one that printed nothing.
fn add_nul_note(text: &mut String, nuls: u64) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let what = if nuls < 1024 { counted(nuls, "NUL byte") } else { format!("{} of NUL bytes", size(nuls)) };
    // Writing to a text cannot fail.
    let _ = writeln!(text, "[{what} left out]");
}
