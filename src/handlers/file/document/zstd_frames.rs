//! Reads Zstandard data frame by frame. `pzstd` writes many frames, and the decoder reads one only.

use std::io::{self, BufRead, Read};

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The unpacked data of all frames.
pub(super) struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> ZstdFrames<R> {
    pub(super) fn new(source: R, max_window_bytes: u64) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(max_window_bytes);
        Self { source, decoder }
    }

    /// Begins the next frame with data. Returns false at the end.
    fn start(&mut self) -> io::Result<bool> {
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let mut skipped = (&mut self.source).take(length.into());
                    io::copy(&mut skipped, &mut io::sink())?;
                }
                Err(cause) => return Err(io::Error::other(cause)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 {
            if self.decoder.is_finished() {
                if !self.start()? {
                    return Ok(0);
                }
                continue;
            }
            let step = BlockDecodingStrategy::UptoBlocks(1);
            let decoded = self.decoder.decode_blocks(&mut self.source, step);
            decoded.map_err(io::Error::other)?;
        }
        self.decoder.read(buffer)
    }
}
