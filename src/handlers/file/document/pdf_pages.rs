//! The worker's part of reading a PDF document: finds its pages and their text.

use hayro_interpret::{InterpreterCache, InterpreterSettings};
use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};

use super::document_protocol::{PdfPages, PdfQuestion};
use super::pdf_text;

/// Returns the numbers of the requested pages. Ranges that end beyond the last page end there.
pub(super) fn page_numbers(question: &PdfQuestion, total: usize) -> Vec<usize> {
    match &question.pages {
        Some(ranges) => ranges
            .iter()
            .flat_map(|(first, last)| *first..=(*last).min(total.max(*first)))
            .collect(),
        None => (1..=total.min(question.default_pages)).collect(),
    }
}

/// Reads the requested pages.
pub(super) fn read_pdf_document(
    mut bytes: Vec<u8>,
    question: &PdfQuestion,
    has_time_left: &dyn Fn() -> bool,
) -> Result<PdfPages, String> {
    let end = &bytes[bytes.len().saturating_sub(1024)..];
    let is_cut_off = memchr::memmem::find(end, b"%%EOF").is_none();
    // Its offsets count from here.
    let start = memchr::memmem::find(&bytes[..bytes.len().min(1_024)], b"%PDF-");
    bytes.drain(..start.unwrap_or(0));
    let pdf = Pdf::new(bytes).map_err(describe_load_failure)?;
    let pages = pdf.pages();
    let cache = InterpreterCache::new();
    let settings = InterpreterSettings::default();
    let mut read = PdfPages {
        total: pages.len(),
        is_cut_off,
        ..PdfPages::default()
    };
    let mut chars = 0;
    let mut lines = 0;
    for number in page_numbers(question, read.total) {
        // The runner refuses a page beyond the last one.
        let Some(page) = pages.get(number - 1) else {
            break;
        };
        if chars > question.enough_chars || lines > question.enough_lines {
            break;
        }
        let content =
            pdf_text::extract_page_text(page, pdf.xref(), &cache, &settings, has_time_left);
        chars += content.text.chars().count();
        lines += content.text.lines().count() + 1;
        read.texts.push(content);
        if !has_time_left() {
            read.is_late = true;
            break;
        }
    }
    Ok(read)
}

fn describe_load_failure(cause: LoadPdfError) -> String {
    let why = match cause {
        LoadPdfError::Decryption(DecryptionError::PasswordProtected) => {
            "it is encrypted and needs a password"
        }
        LoadPdfError::Decryption(_) => "it is encrypted in a way that cannot be read",
        LoadPdfError::Invalid => "it is damaged: its pages cannot be found",
    };
    why.to_owned()
}
