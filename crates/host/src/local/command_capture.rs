//! Processes a command's output: masks secrets, stores it on disk, decodes and cleans it, and holds its head, tail and
//! latest part in memory.

use std::io::Read as _;

use super::disk_copy::{DiskCopy, OutputLocation};
use super::hidden_output::{add_nul_note, binary_placeholder, is_too_short_for_secret};
use super::recent_output::RecentOutput;
use crate::terminals::{TerminalOutput, WindowSize};
use punie_text::output::terminal_screen::{DrawingStart, TerminalScreen, find_drawing};
use punie_text::output::terminal_text::{TerminalTextCleaner, Utf8Decoder, clean_terminal_text};
use punie_text::output::{BinaryRun, HeadTail, OutputHandle, TextBudget, find_binary_data};
use punie_text::redact::{Masker, Redactor};

pub(super) struct CaptureOptions {
    pub location: OutputLocation,
    /// Masks secrets.
    pub redactor: Redactor,
    pub budget: TextBudget,
    /// Keeps escape sequences and progress lines.
    pub raw: bool,
    /// The size of the command's terminal, if it has one.
    pub window: Option<WindowSize>,
}

/// One command's output, in memory that does not grow with it.
pub(super) struct CommandCapture {
    location: OutputLocation,
    redactor: Redactor,
    masker: Masker,
    disk_copy: DiskCopy,
    decoder: Utf8Decoder,
    cleaner: Option<TerminalTextCleaner>,
    head_tail: HeadTail,
    recent: RecentOutput,
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
    screen: Option<TerminalScreen>,
    /// The part of the held-back text that is drawn already: too short to reveal a secret.
    drawn_ahead: String,
    /// The last shown text of the screen.
    drawn: String,
    /// The number of secrets masked in the screen's text.
    drawn_secrets: u64,
}

impl CommandCapture {
    pub fn new(source: CaptureOptions) -> Self {
        let CaptureOptions {
            location,
            redactor,
            budget,
            raw,
            window,
        } = source;
        Self {
            location,
            masker: redactor.stream_masker(),
            redactor,
            disk_copy: DiskCopy::NotBegun,
            decoder: Utf8Decoder::default(),
            cleaner: (!raw).then(TerminalTextCleaner::default),
            head_tail: HeadTail::new(budget),
            recent: RecentOutput::new(raw),
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
    pub fn disable_disk_copy(&mut self) {
        self.disk_copy = DiskCopy::Over {
            handle: None,
            cut_short: None,
        };
    }

    /// Resumes where an earlier process of the runner ended: shows the output that it stored again, and appends new
    /// output to that file. A process that ended before the first byte stored nothing.
    pub fn resume(&mut self) {
        let OutputLocation {
            store,
            request,
            number,
        } = &self.location;
        let Ok(Some((spool, mut stored))) = store.resume_spool(request, *number) else {
            return;
        };
        let mut chunk = vec![0; 256 << 10];
        while let Ok(count @ 1..) = stored.read(&mut chunk) {
            self.display_masked(&chunk[..count]);
        }
        self.disk_copy = DiskCopy::Open(spool);
    }

    /// Accepts bytes that were read.
    pub fn push_bytes(&mut self, chunk: &[u8]) {
        let mut masked = std::mem::take(&mut self.masked);
        masked.clear();
        self.masker.push(chunk, &mut masked);
        self.process_masked(&masked);
        self.masked = masked;
    }

    /// Makes all bytes accepted so far durable on disk, if they are stored at all.
    pub fn flush_disk_copy(&mut self) {
        self.disk_copy.flush();
    }

    /// Ends the output: releases the text that was held back.
    pub fn finish(&mut self) {
        let mut masked = Vec::new();
        self.masker.finish(&mut masked);
        self.process_masked(&masked);
        self.close_binary_run();
        self.flush_text();
        (self.window, self.drawn) = (None, String::new());
        self.disk_copy.end();
        // A finished command may stay listed for long; its buffers need not.
        self.masked = Vec::new();
        self.decoded = String::new();
        self.clean = String::new();
    }

    /// Returns the current output, or the part that is new since the cursor. An unfinished line is shown as it
    /// stands.
    pub fn view_since(&mut self, since: Option<u64>) -> TerminalOutput {
        self.disk_copy.flush();
        self.refresh_screen();
        let (under_way, held_back) = self.unfinished_line();
        // A screen is not one line that continues: if any part of it changed, all of it is new.
        let line = if self.screen.is_some() {
            ""
        } else {
            &under_way
        };
        let cursor = self.recent.advance_cursor(line);
        let handle = self.disk_copy.output_handle().cloned();
        let (text, omitted_bytes) = if let Some(since) = since {
            let (text, missed) = self.recent.text_since(since, line);
            let is_new = self.screen.is_some() && since < cursor;
            (if is_new { text + &under_way } else { text }, missed)
        } else {
            let mut whole = self.head_tail.clone();
            whole.push(&under_way);
            let mut clipped = whole.render_clipped(handle.as_ref().map(OutputHandle::as_str));
            if let Some(cleaner) = self
                .cleaner
                .as_ref()
                .filter(|cleaner| cleaner.nul_count() > 0)
            {
                add_nul_note(&mut clipped.text, cleaner.nul_count());
            }
            (clipped.text, clipped.omitted_bytes + self.binary_bytes)
        };
        TerminalOutput {
            text,
            omitted_bytes,
            cursor,
            handle,
            lossy_chars: self.decoder.replacement_count(),
            redactions: self.masker.masked_count() + self.drawn_secrets,
            cut_short: self.disk_copy.cut_short_reason().map(str::to_owned),
            held_back,
            ..TerminalOutput::default()
        }
    }

    /// Returns the unfinished line, and the number of characters after it that are not shown. Escape sequences do not
    /// count. The masker holds back a whole sequence whose last letter may begin a secret, as after most prompts. Raw
    /// text has no such line, because output that was passed on cannot be taken back.
    fn unfinished_line(&self) -> (String, usize) {
        if !self.binary.is_empty() {
            let tail = clean_terminal_text(&String::from_utf8_lossy(&self.binary.tail));
            let text = binary_placeholder(&self.binary) + "\n" + &tail;
            return (text.trim_end().to_owned(), 0);
        }
        let held = String::from_utf8_lossy(self.masker.held_back());
        let visible = clean_terminal_text(&held);
        if self.screen.is_some() {
            let hidden = if self.drawn_ahead == held {
                0
            } else {
                visible.chars().count()
            };
            return (self.drawn.clone(), hidden);
        }
        let Some(cleaner) = &self.cleaner else {
            return (String::new(), visible.chars().count());
        };
        if !is_too_short_for_secret(&visible) {
            return (cleaner.pending_line().to_owned(), visible.chars().count());
        }
        let mut ahead = cleaner.clone();
        let mut text = String::new();
        ahead.push(&held, &mut text);
        text.push_str(ahead.pending_line());
        (text, 0)
    }

    fn process_masked(&mut self, masked: &[u8]) {
        if masked.is_empty() {
            return;
        }
        self.disk_copy.write_bytes(&self.location, masked);
        self.display_masked(masked);
    }

    fn display_masked(&mut self, masked: &[u8]) {
        let binary = find_binary_data(masked, !self.binary.is_empty());
        if binary.is_empty() {
            self.close_binary_run();
            return self.decode_masked(masked);
        }
        if self.binary.is_empty() {
            self.decode_masked(&masked[..binary.start]);
            let is_open = self
                .cleaner
                .as_ref()
                .is_some_and(|cleaner| !cleaner.pending_line().is_empty());
            self.flush_text();
            self.push_clean_text(if is_open { "\n" } else { "" });
        }
        self.binary.push(&masked[binary.clone()]);
        let text = &masked[binary.end..];
        if BinaryRun::is_short(text) {
            self.binary.tail = text.to_vec();
        } else {
            self.close_binary_run();
            self.decode_masked(text);
        }
    }

    /// Shows the latest binary data, if any, as one line, and the text after it.
    fn close_binary_run(&mut self) {
        if !self.binary.is_empty() {
            let run = std::mem::take(&mut self.binary);
            self.binary_bytes += run.bytes;
            self.push_clean_text(&(binary_placeholder(&run) + "\n"));
            self.decode_masked(&run.tail);
        }
    }

    fn push_clean_text(&mut self, text: &str) {
        self.head_tail.push(text);
        self.recent.push_final_text(text);
    }

    /// Flushes text that waited for the rest of a character, a sequence or a line, and the screen as it is.
    fn flush_text(&mut self) {
        let mut rest = std::mem::take(&mut self.open_sequence);
        self.decoder.finish(&mut rest);
        if let Some(mut screen) = self.screen.take() {
            let scrolled = screen.draw_text(&rest);
            let last = self.mask_drawn_text(&(scrolled + &screen.text()));
            return self.push_clean_text(&(last + "\n"));
        }
        let mut clean = String::new();
        match &mut self.cleaner {
            Some(cleaner) => {
                cleaner.push(&rest, &mut clean);
                cleaner.finish(&mut clean);
            }
            None => clean = rest,
        }
        self.push_clean_text(&clean);
    }

    fn decode_masked(&mut self, masked: &[u8]) {
        let mut decoded = std::mem::take(&mut self.decoded);
        decoded.clear();
        decoded.push_str(&self.open_sequence);
        self.open_sequence.clear();
        self.decoder.push(masked, &mut decoded);
        match (&self.screen, self.window) {
            (Some(_), _) => self.draw_on_screen(&decoded),
            (None, None) => self.clean_and_push(&decoded),
            (None, Some(window)) => match find_drawing(&decoded) {
                DrawingStart::From(start) => {
                    self.clean_and_push(&decoded[..start]);
                    // The cursor is on the unfinished line.
                    let mut line = String::new();
                    self.cleaner
                        .iter_mut()
                        .for_each(|cleaner| cleaner.finish(&mut line));
                    self.screen = Some(TerminalScreen::new(window.cols, window.rows));
                    self.draw_on_screen(&(line + &decoded[start..]));
                }
                DrawingStart::NotYet(open) => {
                    self.clean_and_push(&decoded[..open]);
                    self.open_sequence.push_str(&decoded[open..]);
                }
            },
        }
        self.decoded = decoded;
    }

    fn clean_and_push(&mut self, text: &str) {
        let clean = match &mut self.cleaner {
            Some(cleaner) => {
                self.clean.clear();
                cleaner.push(text, &mut self.clean);
                &self.clean
            }
            None => text,
        };
        self.head_tail.push(clean);
        self.recent.push_final_text(clean);
    }

    fn draw_on_screen(&mut self, text: &str) {
        let ahead = std::mem::take(&mut self.drawn_ahead);
        if let Some(rest) = ahead.strip_prefix(text) {
            rest.clone_into(&mut self.drawn_ahead);
            return;
        }
        let text = text.strip_prefix(ahead.as_str()).unwrap_or(text);
        let Some(screen) = &mut self.screen else {
            return;
        };
        let scrolled = screen.draw_text(text);
        if !scrolled.is_empty() {
            let scrolled = self.mask_drawn_text(&scrolled);
            self.push_clean_text(&scrolled);
        }
    }

    /// Records the current screen. Text too short to reveal a secret is drawn although it is held back, because the
    /// screen would lack it for as long as it stays.
    fn refresh_screen(&mut self) {
        let held = String::from_utf8_lossy(self.masker.held_back()).into_owned();
        if self.screen.is_some()
            && self.drawn_ahead.is_empty()
            && is_too_short_for_secret(&clean_terminal_text(&held))
        {
            self.draw_on_screen(&held);
            self.drawn_ahead = held;
        }
        if let Some(screen) = &self.screen {
            let text = screen.text();
            let now = self.mask_drawn_text(&text);
            if now != self.drawn {
                self.recent.count_change();
                self.drawn = now;
            }
        }
    }

    /// Masks text from the screen: cursor movements may assemble a secret that no byte stream contained.
    fn mask_drawn_text(&mut self, text: &str) -> String {
        let mut masker = self.redactor.stream_masker();
        let mut shown = Vec::new();
        masker.push(text.as_bytes(), &mut shown);
        masker.finish(&mut shown);
        self.drawn_secrets = self.drawn_secrets.max(masker.masked_count());
        String::from_utf8_lossy(&shown).into_owned()
    }
}
