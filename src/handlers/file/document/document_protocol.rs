//! The request to the worker that reads documents, and its answer.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::rendered_page::RenderedPage;

/// The name of the worker's job on the command line.
pub const DOCUMENT_JOB: &str = "document";
/// The worker's time limit.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The worker's address space limit: for the document, its unpacked parts, and the program itself.
pub(super) const ADDRESS_SPACE: u64 = 512 << 20;

/// First and last page, from 1.
pub(in super::super) type PageRange = (usize, usize);

/// The request. The open file is passed with it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct DocumentQuestion {
    /// The path to show.
    pub(super) shown: String,
    pub(super) size: u64,
    pub(super) work: DocumentWork,
}

/// The work on a file, by its format.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DocumentWork {
    Pdf(PdfQuestion),
    Notebook,
    /// An office document or another archive.
    Zip,
    Tar,
    Packed(Packing),
    ScaleImage {
        mime_type: String,
        /// The most characters of base64.
        max_chars: usize,
    },
}

/// A format of packed data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Packing {
    Gzip,
    Bzip2,
    Xz,
    Zstd,
}

/// The requested pages of a PDF document.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct PdfQuestion {
    /// The page ranges; `None` for the first pages.
    pub(super) pages: Option<Vec<PageRange>>,
    /// The number of pages without ranges.
    pub(super) default_pages: usize,
    /// The characters after which reading stops.
    pub(super) enough_chars: usize,
    pub(super) enough_lines: usize,
}

/// The worker's answer, or the reason for a failure.
pub(super) type DocumentAnswer = Result<DocumentContent, String>;

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum DocumentContent {
    Pdf(PdfPages),
    Page(RenderedPage),
    Image(ScaledImage),
}

/// The text of a document's pages.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PdfPages {
    pub(super) total: usize,
    /// The text of the first of the requested pages.
    pub(super) texts: Vec<PageText>,
    pub(super) is_late: bool,
    /// True if the document's end marker is missing.
    pub(super) is_cut_off: bool,
}

#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct PageText {
    pub(super) text: String,
    /// The number of glyphs without a known character.
    pub(super) unreadable: u64,
}

/// A copy of an image, smaller or in another format.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ScaledImage {
    /// Width and height of the image itself.
    pub(super) source_size: (u32, u32),
    pub(super) width: u32,
    pub(super) height: u32,
    pub(super) mime_type: String,
    pub(super) bytes: usize,
    pub(super) base64: String,
}
