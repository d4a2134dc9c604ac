//! Captures a whole output, with secrets masked: in memory while it is short, then in the output store for ReadOutput.

use super::git_command::GitCommand;
use punie_core::ids::RequestId;
use punie_text::output::terminal_text::Utf8Decoder;
use punie_text::output::{OutputSpool, OutputStore};
use punie_text::redact::Masker;
use punie_tool::ResultMeta;

/// An output being captured.
pub(super) struct OutputCapture {
    outputs: OutputStore,
    request: RequestId,
    number: u32,
    masker: Masker,
    masked: Vec<u8>,
    decoder: Utf8Decoder,
    /// The whole output while it is short.
    short: Vec<u8>,
    chars: usize,
    limit: usize,
    long: bool,
    spool: Option<OutputSpool>,
    result: CapturedOutput,
}

#[derive(Debug, Default)]
pub(super) struct CapturedOutput {
    /// The whole output, if it is short.
    pub(super) text: Option<Vec<u8>>,
    /// The handle for ReadOutput, if it is long.
    pub(super) handle: Option<String>,
    /// The reason why the stored output is incomplete.
    pub(super) cut_short: Option<String>,
    pub(super) bytes: u64,
    redactions: u64,
    lossy: u64,
}

impl CapturedOutput {
    /// Returns the facts about the text, given the number of its control characters.
    pub(super) fn text_meta(&self, control_chars: u64) -> ResultMeta {
        let unless_zero = |count: u64| (count > 0).then_some(count);
        ResultMeta {
            redactions: unless_zero(self.redactions),
            lossy_chars: unless_zero(self.lossy),
            control_chars: unless_zero(control_chars),
            ..ResultMeta::default()
        }
    }
}

impl OutputCapture {
    /// Starts a capture in which up to `limit` characters count as short. `number` tells several outputs of a call
    /// apart.
    pub(super) fn new(git: &GitCommand, limit: usize, number: u32) -> Self {
        Self {
            outputs: git.deps.outputs.clone(),
            request: git.cx.request.clone(),
            number,
            masker: git.deps.redactor.stream_masker(),
            masked: Vec::new(),
            decoder: Utf8Decoder::default(),
            short: Vec::new(),
            chars: 0,
            limit,
            long: false,
            spool: None,
            result: CapturedOutput::default(),
        }
    }

    /// Pushes a chunk. Returns its masked text, and false once nothing more would be stored.
    pub(super) fn push_chunk(&mut self, piece: &[u8]) -> (String, bool) {
        self.result.bytes += piece.len() as u64;
        self.masked.clear();
        self.masker.push(piece, &mut self.masked);
        self.store_masked()
    }

    fn store_masked(&mut self) -> (String, bool) {
        let mut text = String::new();
        self.decoder.push(&self.masked, &mut text);
        if self.long {
            return (text, Self::write_spool(&mut self.spool, &self.masked));
        }
        // Count characters: every byte except UTF-8 continuation bytes.
        let is_start = |byte: &&u8| (**byte & 0xc0) != 0x80;
        self.chars += self.masked.iter().filter(is_start).count();
        self.short.extend_from_slice(&self.masked);
        self.long = self.chars > self.limit || self.short.len() > 4 * self.limit;
        if !self.long {
            return (text, true);
        }
        match self.outputs.create_spool(&self.request, self.number) {
            Ok(spool) => self.spool = Some(spool),
            Err(cause) => {
                self.result.cut_short =
                    Some(format!("the whole could not be kept on disk ({cause})"));
            }
        }
        let stored = Self::write_spool(&mut self.spool, &std::mem::take(&mut self.short));
        (text, stored)
    }

    fn write_spool(spool: &mut Option<OutputSpool>, masked: &[u8]) -> bool {
        spool.as_mut().is_none_or(|spool| {
            spool.write(masked);
            spool.keep_stop_reason().is_none()
        })
    }

    /// Ends the capture. Returns the masked rest as text, and the captured output.
    pub(super) fn finish(&mut self) -> (String, CapturedOutput) {
        self.masked.clear();
        self.masker.finish(&mut self.masked);
        let (mut rest, _) = self.store_masked();
        self.decoder.finish(&mut rest);
        let mut result = std::mem::take(&mut self.result);
        result.redactions = self.masker.masked_count();
        result.lossy = self.decoder.replacement_count();
        if !self.long {
            result.text = Some(std::mem::take(&mut self.short));
        }
        if let Some(mut spool) = self.spool.take() {
            spool.flush();
            let handle = spool.stored_handle();
            result.handle = handle.map(|handle| handle.as_str().to_owned());
            result.cut_short = spool.keep_stop_reason().map(str::to_owned);
        }
        (rest, result)
    }
}
