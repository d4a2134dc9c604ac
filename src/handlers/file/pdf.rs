//! Read of a PDF document: which pages, and their text within the budget. Not here: the worker that reads them
//! (pdf_pages).

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use tokio_util::sync::CancellationToken;

use super::documents::DocumentQuery;
use super::line_numbers;
use super::pdf_pages::{
    ADDRESS_SPACE, PDF_JOB_NAME, PageRange, PdfAnswer, PdfPages, PdfQuestion, TIME_LIMIT,
    page_numbers,
};
use super::rendered_page::LineSelection;
use crate::acp::files::OpenedFile;
use crate::ids::RequestId;
use crate::output::SecretBoundaries;
use crate::output::number_format::{self, format_count, group_digits};
use crate::tool::{ErrorCode, ResultMeta, ToolError, ToolReply};
use crate::worker::{WorkerCall, WorkerFailure, WorkerProgram};

/// The largest document, which its reader holds in memory.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// So many pages where the call does not say.
const DEFAULT_PAGES: usize = 10;
/// Left for the footer.
const FOOTER_CHARS: usize = 600;

/// Reads `1-5`, `3` or `2,4-6`.
pub(super) fn parse_page_ranges(text: &str) -> Result<Vec<PageRange>, ToolError> {
    let wrong = || {
        ToolError::invalid_args(format!(
            "pages: {text:?} is not a list of pages. Give for example \"3\", \"1-5\" or \"2,4-6\"; pages count from 1."
        ))
    };
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: usize = first.trim().parse().ok()?;
        let last: usize = last.trim().parse().ok()?;
        (first >= 1 && first <= last).then_some((first, last))
    };
    text.split(',')
        .map(|part| range(part).ok_or_else(wrong))
        .collect()
}

/// Answers with the text of the pages that are asked for. Blocks.
pub(super) fn show_pdf(
    shown: &str,
    opened: OpenedFile,
    ask: &DocumentQuery,
    uncut: &SecretBoundaries,
    worker: &PdfWorker,
) -> Result<ToolReply, ToolError> {
    let size = number_format::format_size(opened.size);
    let by_lines = ask.offset.is_some() || ask.limit.is_some();
    let room = ask.lines.budget.max_chars().saturating_sub(FOOTER_CHARS);
    let last_line = usize::try_from(ask.lines.offset)
        .unwrap_or(0)
        .saturating_add(usize::try_from(ask.lines.limit).unwrap_or(usize::MAX));
    let default_pages = if by_lines { usize::MAX } else { DEFAULT_PAGES };
    let mut question = PdfQuestion {
        bytes: 0,
        pages: ask.pages.clone(),
        default_pages,
        enough_chars: if by_lines { usize::MAX } else { room },
        enough_lines: if by_lines { last_line } else { usize::MAX },
    };
    let PdfPages {
        total,
        texts,
        is_late,
        is_cut_off,
    } = worker.read_in_worker(shown, opened, &mut question)?;
    let wanted = page_numbers(ask.pages.as_deref(), default_pages, total);
    if let Some(beyond) = wanted.iter().find(|page| **page > total) {
        return Err(ToolError::invalid_args(format!(
            "{shown} has {}; there is no page {beyond}.",
            format_count(total as u64, "page")
        )));
    }
    let mut text = format!(
        "{shown} (PDF document, {size}, {})\n",
        format_count(total as u64, "page")
    );
    if by_lines {
        let lines = wanted.iter().zip(&texts).flat_map(|(page, content)| {
            let head = format!("--- Page {page} of {total} ---");
            std::iter::once(head).chain(content.text.trim_end().lines().map(str::to_owned))
        });
        return show_selected_lines(text, lines, ask.lines, is_late);
    }
    let mut found = ShownPdfPages {
        used: text.chars().count(),
        is_cut_off,
        ..ShownPdfPages::default()
    };
    for (at, (page, content)) in wanted.iter().zip(&texts).enumerate() {
        found.unreadable |= content.unreadable > 0;
        let body = if content.text.trim().is_empty() {
            found.empty.push(*page);
            "(no text on this page)"
        } else {
            content.text.trim_end()
        };
        let block = format!("\n--- Page {page} of {total} ---\n{body}\n");
        let chars = block.chars().count();
        if found.used + chars > room {
            if at > 0 {
                break;
            }
            // One page alone is more than the budget: its beginning.
            text.push_str(&uncut.masked_prefix(&block, room - found.used).0);
            found.notes.push(format!(
                "Page {page} has {} characters of text, of which the first are shown. max_chars (up to 200,000) shows more.",
                group_digits(chars as u64)
            ));
            found.cut = true;
            found.shown = 1;
            break;
        }
        text.push_str(&block);
        found.used += chars;
        found.shown = at + 1;
    }
    if is_late && found.shown == texts.len() {
        found
            .notes
            .push("The time for reading was over.".to_owned());
    }
    append_pdf_notes(&mut text, &mut found, &wanted, total, ask.pages.is_some());
    let truncated =
        found.cut || found.shown < wanted.len() || (ask.pages.is_none() && wanted.len() < total);
    Ok(ToolReply::from_fitted_text(text)
        .with_budget(ask.lines.budget)
        .with_meta(ResultMeta {
            truncated,
            ..ResultMeta::default()
        }))
}

/// Reads documents in a worker process.
pub(super) struct PdfWorker {
    pub(super) program: WorkerProgram,
    pub(super) request: RequestId,
    pub(super) cancel: CancellationToken,
}

impl PdfWorker {
    fn read_in_worker(
        &self,
        shown: &str,
        opened: OpenedFile,
        question: &mut PdfQuestion,
    ) -> Result<PdfPages, ToolError> {
        const INSTEAD: &str = "Try Bash, for example `pdftotext` or `qpdf`.";
        let size = number_format::format_size(opened.size);
        let too_large = |why: String| {
            ToolError::new(
                ErrorCode::TooLarge,
                format!("{shown} is a PDF document of {size}{why}. {INSTEAD}"),
            )
        };
        if opened.size > MAX_DOCUMENT_BYTES {
            return Err(too_large(format!(
                "; they are read up to {}",
                number_format::format_size(MAX_DOCUMENT_BYTES)
            )));
        }
        let mut input = Vec::with_capacity(usize::try_from(opened.size).unwrap_or_default());
        opened
            .bytes
            .take(MAX_DOCUMENT_BYTES)
            .read_to_end(&mut input)
            .map_err(|cause| ToolError::from_io(shown, &cause))?;
        question.bytes = input.len();
        let call = WorkerCall {
            request: &self.request,
            job: PDF_JOB_NAME,
            folder: Path::new("/"),
            question,
            input: &input,
            time_limit: TIME_LIMIT,
            cancel: &self.cancel,
        };
        let damaged = |why: &str| {
            ToolError::new(
                ErrorCode::NotText,
                format!("{shown} is a PDF document ({size}), but {why}. {INSTEAD}"),
            )
        };
        match self.program.call_worker::<_, PdfAnswer>(&call) {
            Ok(answer) => answer.map_err(|why| damaged(&why)),
            Err(WorkerFailure::Cancelled) => Err(ToolError::call_cancelled(format!(
                "Reading {shown} was cancelled. Nothing was changed."
            ))),
            Err(WorkerFailure::TimedOut) => Err(ToolError::new(
                ErrorCode::Timeout,
                format!(
                    "{shown} could not be read within {} s; it may be damaged. Look into it with Bash.",
                    TIME_LIMIT.as_secs()
                ),
            )),
            Err(failure) if failure.is_abort() => Err(too_large(format!(
                ", but reading it takes more than {} of memory",
                number_format::format_size(ADDRESS_SPACE)
            ))),
            Err(WorkerFailure::NotStarted(cause)) => Err(ToolError::from_io(
                "The process that reads PDF documents",
                &cause,
            )),
            Err(_) => Err(damaged("it is damaged in a way that its reader gave up on")),
        }
    }
}

/// The lines of the text of all pages that were asked for, and no more than those.
fn show_selected_lines(
    mut text: String,
    lines: impl Iterator<Item = String>,
    asked: LineSelection,
    is_late: bool,
) -> Result<ToolReply, ToolError> {
    let Ok(first) = usize::try_from(asked.offset.max(1)) else {
        return Err(negative_offset_error());
    };
    if asked.offset < 0 {
        return Err(negative_offset_error());
    }
    let limit = usize::try_from(asked.limit).unwrap_or(usize::MAX);
    let mut lines = lines.skip(first - 1).peekable();
    let wanted: String = lines
        .by_ref()
        .take(limit)
        .flat_map(|line| [line, "\n".to_owned()])
        .collect();
    let body = line_numbers::number_lines(
        &wanted,
        asked.offset.max(1),
        asked.budget.max_chars().saturating_sub(FOOTER_CHARS),
    );
    let goes_on = body.lines < wanted.lines().count() as u64 || lines.peek().is_some();
    text.push_str(&body.text);
    let last = first as u64 + body.lines - u64::from(body.lines > 0);
    let _ = if body.lines == 0 {
        writeln!(text, "There is no line {first}. Use a smaller offset.")
    } else if goes_on {
        writeln!(
            text,
            "\nShowing lines {first}-{last}. Continue with offset={}.",
            last + 1
        )
    } else if !is_late {
        writeln!(text, "\nShowing lines {first}-{last}, to the end.")
    } else {
        writeln!(
            text,
            "\nShowing lines {first}-{last}. The time for reading was over; give `pages`."
        )
    };
    let meta = ResultMeta {
        truncated: goes_on,
        ..ResultMeta::default()
    };
    Ok(ToolReply::from_fitted_text(text)
        .with_budget(asked.budget)
        .with_meta(meta))
}

fn negative_offset_error() -> ToolError {
    ToolError::invalid_args(
        "The lines of a PDF document are counted from the start: give offset from 1 on, or `pages`.",
    )
}

/// What came of the pages.
#[derive(Default)]
struct ShownPdfPages {
    used: usize,
    /// How many of the wanted pages are shown.
    shown: usize,
    empty: Vec<usize>,
    unreadable: bool,
    cut: bool,
    /// The document's end is missing.
    is_cut_off: bool,
    notes: Vec<String>,
}

fn append_pdf_notes(
    text: &mut String,
    found: &mut ShownPdfPages,
    wanted: &[usize],
    total: usize,
    asked: bool,
) {
    if total == 0 {
        found.notes.push("It has no pages.".to_owned());
    }
    if found.is_cut_off {
        let note = "The document is damaged: its end is missing, so text or pages may be missing. Get the file again.";
        found.notes.push(note.to_owned());
    } else if !found.empty.is_empty() {
        let which = if found.empty.len() == found.shown && found.shown > 0 {
            "The pages shown hold".to_owned()
        } else {
            format!(
                "Page {} hold{}",
                format_page_ranges(&found.empty),
                if found.empty.len() == 1 { "s" } else { "" }
            )
        };
        found.notes.push(format!(
            "{which} no text: scanned or drawn pages are pictures. OCR in Bash may read them, for example `ocrmypdf`, or \
             `pdftoppm -png -r 60` makes images that Read shows."
        ));
    }
    if found.unreadable {
        found
            .notes
            .push("Letters whose font does not say what they are stand as U+FFFD.".to_owned());
    }
    let left = &wanted[found.shown..];
    let next = match (left.first(), wanted.last()) {
        (Some(_), _) => Some(format_page_ranges(left)),
        (None, Some(last)) if !asked && *last < total => Some(format_page_ranges(
            &(last + 1..=(last + DEFAULT_PAGES).min(total)).collect::<Vec<_>>(),
        )),
        _ => None,
    };
    if let Some(next) = next {
        found.notes.push(format!(
            "Showing {} of {}. Continue with pages=\"{next}\".",
            format_count(found.shown as u64, "page"),
            group_digits(total as u64)
        ));
    }
    if !found.notes.is_empty() {
        let _ = write!(text, "\n{}\n", found.notes.join("\n"));
    }
}

/// `3`, `4-6`, `2,4-6`.
fn format_page_ranges(pages: &[usize]) -> String {
    let mut out: Vec<PageRange> = Vec::new();
    for page in pages {
        match out.last_mut() {
            Some((_, last)) if *last + 1 == *page => *last = *page,
            _ => out.push((*page, *page)),
        }
    }
    let shown = out.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_lists_of_ranges() {
        assert_eq!(parse_page_ranges("1-5").unwrap(), [(1, 5)]);
        assert_eq!(parse_page_ranges("2, 4-6").unwrap(), [(2, 2), (4, 6)]);
        for wrong in ["", "0", "5-1", "a", "1-", "-3"] {
            assert!(parse_page_ranges(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format_page_ranges(&[2, 4, 5, 6, 9]), "2,4-6,9");
    }
}
