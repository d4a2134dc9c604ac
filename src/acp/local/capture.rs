//! Processes a command's output: masks secrets, stores it on disk, decodes and cleans it, and holds its head, tail
//! and latest part in memory. Not here: reading the bytes (pump), and the latest output for followers.

use std::fmt::Write as _;
use std::io::Read as _;

use super::follow::Recent;
use super::kept_copy::KeptCopy;
use crate::acp::content::classify;
use crate::acp::terminals::WindowSize;
use crate::ids::RequestId;
use crate::output::figures::{counted, size};
use crate::output::hygiene::{CommandText, Decoder, clean};
use crate::output::screen::{Drawing, Screen, find_drawing};
use crate::output::{
    BinaryRun, Budget, FilterFactory, HeadTail, OutputHandle, OutputStore, StreamFilter, find_binary,
};

/// Held-back text below this length is shown although a secret may begin with it. A prompt would lose its last letter
/// otherwise, and so few bytes reveal no secret.
const TOO_LITTLE: usize = 4;

/// The place in the store for a request's output.
pub(super) struct Place {
    pub store: OutputStore,
    pub request: RequestId,
    pub number: u32,
}

/// The options of a capture.
pub(super) struct Source {
    pub place: Place,
    /// Creates the filters that mask secrets.
    pub filters: FilterFactory,
    pub budget: Budget,
    /// Keeps escape sequences and progress lines.
    pub raw: bool,
    /// The size of the command's terminal, if it has one.
    pub window: Option<WindowSize>,
}

/// One command's output, in memory that does not grow with it.
pub(super) struct Capture {
    place: Place,
    filters: FilterFactory,
    filter: Box<dyn StreamFilter>,
    kept: KeptCopy,
    decoder: Decoder,
    cleaner: Option<CommandText>,
    head_tail: HeadTail,
    recent: Recent,
    /// The latest binary data, shown as one line.
    binary: BinaryRun,
    /// The number of binary bytes that are not shown.
    binary_bytes: u64,
    masked: Vec<u8>,
    decoded: String,
    clean: String,
    /// The size of a terminal whose program may begin to draw.
    window: Option<WindowSize>,
    /// The beginning of an escape sequence that may start drawing.
    open_sequence: String,
    /// The screen of a program that draws.
    screen: Option<Screen>,
    /// The part of the held-back text that is drawn already: too short to reveal a secret.
    drawn_ahead: String,
    /// The last shown text of the screen.
    drawn: String,
    /// The number of secrets masked in the screen's text.
    drawn_secrets: u64,
}

/// The captured output at one moment.
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
    pub fn new(source: Source) -> Self {
        let Source { place, filters, budget, raw, window } = source;
        Self {
            place,
            filter: filters(),
            filters,
            kept: KeptCopy::NotBegun,
            decoder: Decoder::default(),
            cleaner: (!raw).then(CommandText::default),
            head_tail: HeadTail::new(budget),
            recent: Recent::new(raw),
            binary: BinaryRun::default(),
            binary_bytes: 0,
            masked: Vec::new(),
            decoded: String::new(),
            clean: String::new(),
            window: window.filter(|_| !raw),
            open_sequence: String::new(),
            screen: None,
            drawn_ahead: String::new(),
            drawn: String::new(),
            drawn_secrets: 0,
        }
    }

    /// Writes nothing to disk, because the whole output will be captured again.
    pub fn keep_nothing(&mut self) {
        self.kept = KeptCopy::Over { handle: None, cut_short: None };
    }

    /// Resumes where an earlier process of the runner ended: shows the output that it stored again, and appends new
    /// output to that file. A process that ended before the first byte stored nothing.
    pub fn go_on(&mut self) {
        let Ok(Some((spool, mut kept))) = self.place.store.go_on(&self.place.request, self.place.number)
        else {
            return;
        };
        let mut chunk = vec![0; 256 << 10];
        while let Ok(count @ 1..) = kept.read(&mut chunk) {
            self.show_on(&chunk[..count]);
        }
        self.kept = KeptCopy::Open(spool);
    }

    /// Accepts bytes that were read.
    pub fn take(&mut self, chunk: &[u8]) {
        let mut masked = std::mem::take(&mut self.masked);
        masked.clear();
        self.filter.push(chunk, &mut masked);
        self.pass_on(&masked);
        self.masked = masked;
    }

    /// Makes all bytes accepted so far durable on disk, if they are stored at all.
    pub fn save(&mut self) {
        self.kept.flush();
    }

    /// Ends the output: releases the text that was held back.
    pub fn finish(&mut self) {
        let mut masked = Vec::new();
        self.filter.finish(&mut masked);
        self.pass_on(&masked);
        self.end_binary();
        self.end_text();
        (self.window, self.drawn) = (None, String::new());
        self.kept.end();
        // A finished command may stay listed for long; its buffers need not.
        self.masked = Vec::new();
        self.decoded = String::new();
        self.clean = String::new();
    }

    /// Returns the current output, or the part that is new since the cursor. An unfinished line is shown as it
    /// stands.
    pub fn show(&mut self, since: Option<u64>) -> Shown {
        self.kept.flush();
        self.look_at_screen();
        let (under_way, held_back) = self.under_way();
        // A screen is not one line that continues: if any part of it changed, all of it is new.
        let line = if self.screen.is_some() { "" } else { &under_way };
        let cursor = self.recent.look(line);
        let handle = self.kept.handle().cloned();
        let (text, omitted_bytes) = if let Some(since) = since {
            let (text, missed) = self.recent.since(since, line);
            let is_new = self.screen.is_some() && since < cursor;
            (if is_new { text + &under_way } else { text }, missed)
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
            redactions: self.filter.rewritten() + self.drawn_secrets,
            cut_short: self.kept.cut_short().map(str::to_owned),
            held_back,
        }
    }

    /// Returns the unfinished line, and the number of characters after it that are not shown. Escape sequences do not
    /// count. The masker holds back a whole sequence whose last letter may begin a secret, as after most prompts. Raw
    /// text has no such line, because output that was passed on cannot be taken back.
    fn under_way(&self) -> (String, usize) {
        if !self.binary.is_empty() {
            return (binary_words(&self.binary), 0);
        }
        let held = String::from_utf8_lossy(self.filter.held());
        let visible = clean(&held);
        if self.screen.is_some() {
            let hidden = if self.drawn_ahead == held { 0 } else { visible.chars().count() };
            return (self.drawn.clone(), hidden);
        }
        let Some(cleaner) = &self.cleaner else { return (String::new(), visible.chars().count()) };
        if !is_too_little(&visible) {
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

    /// Shows the latest binary data, if any, as one line.
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

    /// Flushes text that waited for the rest of a character, a sequence or a line, and the screen as it is.
    fn end_text(&mut self) {
        let mut rest = std::mem::take(&mut self.open_sequence);
        self.decoder.finish(&mut rest);
        if let Some(mut screen) = self.screen.take() {
            let scrolled = screen.draw(&rest);
            let last = self.mask(&(scrolled + &screen.text()));
            return self.push_text(&(last + "\n"));
        }
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
        let mut decoded = std::mem::take(&mut self.decoded);
        decoded.clear();
        decoded.push_str(&self.open_sequence);
        self.open_sequence.clear();
        self.decoder.push(masked, &mut decoded);
        match (&self.screen, self.window) {
            (Some(_), _) => self.draw(&decoded),
            (None, None) => self.push_lines(&decoded),
            (None, Some(window)) => match find_drawing(&decoded) {
                Drawing::From(start) => {
                    self.push_lines(&decoded[..start]);
                    // The cursor is on the unfinished line.
                    let mut line = String::new();
                    self.cleaner.iter_mut().for_each(|cleaner| cleaner.finish(&mut line));
                    self.screen = Some(Screen::new(window.cols, window.rows));
                    self.draw(&(line + &decoded[start..]));
                }
                Drawing::NotYet(open) => {
                    self.push_lines(&decoded[..open]);
                    self.open_sequence.push_str(&decoded[open..]);
                }
            },
        }
        self.decoded = decoded;
    }

    fn push_lines(&mut self, text: &str) {
        let clean = match &mut self.cleaner {
            Some(cleaner) => {
                self.clean.clear();
                cleaner.push(text, &mut self.clean);
                &self.clean
            }
            None => text,
        };
        self.head_tail.push(clean);
        self.recent.push(clean);
    }

    fn draw(&mut self, text: &str) {
        let ahead = std::mem::take(&mut self.drawn_ahead);
        if let Some(rest) = ahead.strip_prefix(text) {
            rest.clone_into(&mut self.drawn_ahead);
            return;
        }
        let text = text.strip_prefix(ahead.as_str()).unwrap_or(text);
        let Some(screen) = &mut self.screen else { return };
        let scrolled = screen.draw(text);
        if !scrolled.is_empty() {
            let scrolled = self.mask(&scrolled);
            self.push_text(&scrolled);
        }
    }

    /// Records the current screen. Text too short to reveal a secret is drawn although it is held back, because the
    /// screen would lack it for as long as it stays.
    fn look_at_screen(&mut self) {
        let held = String::from_utf8_lossy(self.filter.held()).into_owned();
        if self.screen.is_some() && self.drawn_ahead.is_empty() && is_too_little(&clean(&held)) {
            self.draw(&held);
            self.drawn_ahead = held;
        }
        if let Some(screen) = &self.screen {
            let text = screen.text();
            let now = self.mask(&text);
            if now != self.drawn {
                self.recent.count_change();
                self.drawn = now;
            }
        }
    }

    /// Masks text from the screen: cursor movements may assemble a secret that no byte stream contained.
    fn mask(&mut self, text: &str) -> String {
        let (mut filter, mut masked) = ((self.filters)(), Vec::new());
        filter.push(text.as_bytes(), &mut masked);
        filter.finish(&mut masked);
        self.drawn_secrets = self.drawn_secrets.max(filter.rewritten());
        String::from_utf8_lossy(&masked).into_owned()
    }

    /// Writes to disk. If the disk fails, the view carries a warning and the command goes on.
    fn keep(&mut self, masked: &[u8]) {
        if let KeptCopy::NotBegun = self.kept {
            self.kept = match self.place.store.create(&self.place.request, self.place.number) {
                Ok(spool) => KeptCopy::Open(spool),
                Err(cause) => {
                    let why = format!("it could not be kept on disk ({cause})");
                    KeptCopy::Over { handle: None, cut_short: Some(why) }
                }
            };
        }
        if let KeptCopy::Open(spool) = &mut self.kept {
            // The bytes are made durable only when the pump pauses.
            spool.write(masked);
        }
    }
}

/// Returns whether text is so short that it may be shown although a secret may begin with it.
fn is_too_little(visible: &str) -> bool {
    visible.len() < TOO_LITTLE && !visible.contains(|c: char| c.is_control() || c == '\u{fffd}')
}

/// Builds the line that replaces binary data.
fn binary_words(run: &BinaryRun) -> String {
    let kind = classify(&run.first, false).err().map_or("binary data", |binary| binary.kind);
    let first: Vec<String> = run.first.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    format!("[{kind}, {}, not shown; its first bytes: {}]", size(run.bytes), first.join(" "))
}

/// Appends a line with the number of NUL bytes left out. Without it, a command that printed only NUL bytes would seem
/// to have printed nothing.
fn add_nul_note(text: &mut String, nuls: u64) {
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let what = if nuls < 1024 { counted(nuls, "NUL byte") } else { format!("{} of NUL bytes", size(nuls)) };
    // Writing to a String cannot fail.
    let _ = writeln!(text, "[{what} left out]");
}
