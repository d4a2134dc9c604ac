//! The worker's work on a PDF document: finds its pages and their text. Its parser unpacks without a limit and may not come
//! to an end, so it runs in a worker process. Not here: the words of the answer (pdf), and one page (pdf_text).

use std::io;
use std::time::Duration;

use hayro_syntax::{DecryptionError, LoadPdfError, Pdf};
use serde::{Deserialize, Serialize};

use super::documents::ReadDeadline;
use super::pdf_text::{self, PageText};
use crate::worker::{CallerLink, WorkerLimits, serve_question};

/// The worker's job, by its name on the command line.
pub const PDF_JOB_NAME: &str = "pdf";
/// The time that the worker is given.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(20);
/// The worker's address space: the document, what it unpacks to, and the program itself.
pub(super) const ADDRESS_SPACE: u64 = 512 << 20;

/// First and last page, from 1.
pub(super) type PageRange = (usize, usize);

/// The pages of a document that are asked for. The document's bytes follow the question.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PdfQuestion {
    pub(super) bytes: usize,
    /// Ranges; without any the first pages.
    pub(super) pages: Option<Vec<PageRange>>,
    /// The number of pages where no ranges are given.
    pub(super) default_pages: usize,
    /// Enough text: no further page is read.
    pub(super) enough_chars: usize,
    pub(super) enough_lines: usize,
}

/// The text of a document's pages.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct PdfPages {
    pub(super) total: usize,
    /// The text of the first of the wanted pages.
    pub(super) texts: Vec<PageText>,
    pub(super) is_late: bool,
    /// The mark at a document's end is not there.
    pub(super) is_cut_off: bool,
}

/// The worker's answer: the pages, or the reason why there are none.
pub(super) type PdfAnswer = Result<PdfPages, String>;

/// The numbers of the wanted pages; those of a range that ends beyond the last page end there.
pub(super) fn page_numbers(
    ranges: Option<&[PageRange]>,
    default_pages: usize,
    total: usize,
) -> Vec<usize> {
    match ranges {
        Some(ranges) => ranges
            .iter()
            .flat_map(|(first, last)| *first..=(*last).min(total.max(*first)))
            .collect(),
        None => (1..=total.min(default_pages)).collect(),
    }
}

/// Answers the runner's question as a worker process.
///
/// # Errors
/// The runner is gone.
pub fn serve_pdf_questions() -> io::Result<()> {
    serve_question(|question: PdfQuestion, link| {
        read_pdf_document(&question, link)
            .unwrap_or_else(|cause| Err(format!("it cannot be read: {cause}")))
    })
}

fn read_pdf_document(question: &PdfQuestion, link: &CallerLink) -> io::Result<PdfAnswer> {
    let limits = WorkerLimits {
        reads: Vec::new(),
        writes: Vec::new(),
        memory_bytes: ADDRESS_SPACE,
        file_bytes: 0,
        processor_time: TIME_LIMIT,
    };
    limits.apply_limits()?;
    let bytes = link.read_input(question.bytes)?;
    link.on_hang_up(|| std::process::exit(1))?;
    let is_cut_off =
        memchr::memmem::find(&bytes[bytes.len().saturating_sub(1024)..], b"%%EOF").is_none();
    let pdf = Pdf::new(bytes).map_err(describe_load_failure);
    Ok(pdf.map(|pdf| PdfPages {
        is_cut_off,
        ..read_pdf_pages(question, &pdf)
    }))
}

fn read_pdf_pages(question: &PdfQuestion, pdf: &Pdf) -> PdfPages {
    let clock = ReadDeadline::start_deadline();
    let pages = pdf.pages();
    let mut read = PdfPages {
        total: pages.len(),
        texts: Vec::new(),
        is_late: false,
        is_cut_off: false,
    };
    let (mut chars, mut lines) = (0, 0);
    for number in page_numbers(
        question.pages.as_deref(),
        question.default_pages,
        read.total,
    ) {
        // A page beyond the last one is the runner's to refuse.
        let Some(page) = pages.get(number - 1) else {
            break;
        };
        read.is_late = !clock.has_time_left();
        if read.is_late || chars > question.enough_chars || lines > question.enough_lines {
            break;
        }
        let content = pdf_text::extract_page_text(page, &clock);
        chars += content.text.chars().count();
        lines += content.text.lines().count() + 1;
        read.texts.push(content);
    }
    read
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
