//! Captures a whole output, with secrets masked: in memory while it is short, then in the output store for
//! ReadOutput. Not here: the part that an answer shows.

use super::GitDeps;
use crate::ids::RequestId;
use crate::output::{OutputSpool, OutputStore, StreamFilter};
use crate::tool::ToolContext;

/// An output being captured.
pub(super) struct OutputCapture {
    outputs: OutputStore,
    request: RequestId,
    number: u32,
    filter: Box<dyn StreamFilter>,
    /// The whole output while it is short.
    held: Vec<u8>,
    chars: usize,
    limit: usize,
    long: bool,
    spool: Option<OutputSpool>,
    /// The reason why the output store cannot store it.
    refused: Option<String>,
    bytes: u64,
}

/// The captured output.
#[derive(Debug, Default)]
pub(super) struct CapturedOutput {
    /// The whole output, if it is short.
    pub(super) text: Option<Vec<u8>>,
    /// The handle for ReadOutput, if it is long.
    pub(super) handle: Option<String>,
    /// The reason why the stored output is incomplete.
    pub(super) cut_short: Option<String>,
    pub(super) bytes: u64,
    pub(super) redactions: u64,
}

impl OutputCapture {
    /// Starts a capture in which up to `limit` characters count as short. `number` tells several outputs of a call
    /// apart.
    pub(super) fn new(cx: &ToolContext, deps: &GitDeps, limit: usize, number: u32) -> Self {
        Self {
            outputs: deps.outputs.clone(),
            request: cx.request.clone(),
            number,
            filter: (deps.filters)(),
            held: Vec::new(),
            chars: 0,
            limit,
            long: false,
            spool: None,
            refused: None,
            bytes: 0,
        }
    }

    /// Pushes a chunk and replaces the content of `masked` by its masked text. Returns false once nothing more would
    /// be stored.
    pub(super) fn push_chunk(&mut self, piece: &[u8], masked: &mut Vec<u8>) -> bool {
        masked.clear();
        self.bytes += piece.len() as u64;
        self.filter.push(piece, masked);
        self.store_masked(masked)
    }

    fn store_masked(&mut self, masked: &[u8]) -> bool {
        if !self.long {
            // Count characters: every byte except UTF-8 continuation bytes.
            self.chars += masked.iter().filter(|byte| (**byte & 0xc0) != 0x80).count();
            self.held.extend_from_slice(masked);
            self.long = self.chars > self.limit || self.held.len() > 4 * self.limit;
            if !self.long {
                return true;
            }
            match self.outputs.create_spool(&self.request, self.number) {
                Ok(spool) => self.spool = Some(spool),
                Err(cause) => {
                    self.refused = Some(format!("the whole could not be kept on disk ({cause})"))
                }
            }
            let held = std::mem::take(&mut self.held);
            return self.write_spool(&held);
        }
        self.write_spool(masked)
    }

    fn write_spool(&mut self, masked: &[u8]) -> bool {
        let Some(spool) = &mut self.spool else {
            return true;
        };
        spool.write(masked);
        spool.keep_stop_reason().is_none()
    }

    /// Ends the capture. Returns the masked rest and the captured output.
    pub(super) fn finish(mut self) -> (Vec<u8>, CapturedOutput) {
        let mut rest = Vec::new();
        self.filter.finish(&mut rest);
        self.store_masked(&rest);
        let mut kept = CapturedOutput {
            bytes: self.bytes,
            redactions: self.filter.rewritten_count(),
            cut_short: self.refused,
            ..CapturedOutput::default()
        };
        if !self.long {
            kept.text = Some(self.held);
        }
        if let Some(mut spool) = self.spool {
            spool.flush();
            kept.handle = spool
                .stored_handle()
                .map(|handle| handle.as_str().to_owned());
            kept.cut_short = spool.keep_stop_reason().map(str::to_owned);
        }
        (rest, kept)
    }
}
