//! Read of a PDF document: the choice of pages, and their text within the budget.

use std::fmt::Write as _;

use super::super::line_numbers;
use super::super::rendered_page::LineSelection;
use super::document_protocol::{DocumentContent, DocumentWork, PageRange, PdfPages, PdfQuestion};
use super::document_query::DocumentQuery;
use super::document_reader::{DocumentReader, DocumentSource};
use super::pdf_pages::page_numbers;
use punie_host::files::OpenedBytes;
use punie_text::output::SecretBoundaries;
use punie_text::output::number_format::{format_count, format_size, group_digits};
use punie_tool::{ResultMeta, ToolError, ToolReply};

/// The largest document; its reader holds it in memory.
const MAX_DOCUMENT_BYTES: u64 = 64 << 20;
/// The number of pages if the call names none.
const DEFAULT_PAGES: usize = 10;
/// Characters reserved for the footer.
const FOOTER_CHARS: usize = 600;

/// Parses `1-5`, `3` or `2,4-6`.
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

/// Answers with the text of the requested pages. Blocks.
pub(super) fn show_pdf(
    source: &DocumentSource,
    file: Box<dyn OpenedBytes>,
    query: &DocumentQuery,
    uncut: &SecretBoundaries,
    reader: &DocumentReader,
) -> Result<ToolReply, ToolError> {
    let shown = source.shown.as_str();
    let by_lines = query.offset.is_some() || query.limit.is_some();
    let question = pdf_question(query, by_lines);
    let pages = read_pages(source, file, question.clone(), reader)?;
    let total = pages.total;
    let wanted = page_numbers(&question, total);
    if let Some(beyond) = wanted.iter().find(|page| **page > total) {
        return Err(ToolError::invalid_args(format!(
            "{shown} has {}; there is no page {beyond}.",
            format_count(total as u64, "page")
        )));
    }
    let header = format!(
        "{shown} (PDF document, {}, {})\n",
        format_size(source.size),
        format_count(total as u64, "page")
    );
    if by_lines {
        let lines = wanted.iter().zip(&pages.texts).flat_map(|(page, content)| {
            let head = format!("--- Page {page} of {total} ---");
            std::iter::once(head).chain(content.text.trim_end().lines().map(str::to_owned))
        });
        return show_selected_lines(header, lines, query.lines, pages.is_late);
    }
    let is_default = query.pages.is_none();
    let mut answer = PdfAnswer {
        used: header.chars().count(),
        text: header,
        ..PdfAnswer::default()
    };
    answer.add_pages(&pages, &wanted, page_room(query), uncut);
    answer.append_notes(&pages, &wanted, is_default);
    let truncated =
        answer.is_cut || answer.shown < wanted.len() || (is_default && wanted.len() < total);
    Ok(ToolReply::from_fitted_text(answer.text)
        .with_budget(query.lines.budget)
        .with_meta(ResultMeta {
            truncated,
            ..ResultMeta::default()
        }))
}

/// The most characters of page text.
fn page_room(query: &DocumentQuery) -> usize {
    query.lines.budget.max_chars().saturating_sub(FOOTER_CHARS)
}

fn pdf_question(query: &DocumentQuery, by_lines: bool) -> PdfQuestion {
    let last_line = usize::try_from(query.lines.offset)
        .unwrap_or(0)
        .saturating_add(usize::try_from(query.lines.limit).unwrap_or(usize::MAX));
    let (default_pages, enough_chars, enough_lines) = if by_lines {
        (usize::MAX, usize::MAX, last_line)
    } else {
        (DEFAULT_PAGES, page_room(query), usize::MAX)
    };
    PdfQuestion {
        pages: query.pages.clone(),
        default_pages,
        enough_chars,
        enough_lines,
    }
}

fn read_pages(
    source: &DocumentSource,
    file: Box<dyn OpenedBytes>,
    question: PdfQuestion,
    reader: &DocumentReader,
) -> Result<PdfPages, ToolError> {
    if source.size > MAX_DOCUMENT_BYTES {
        return Err(source.too_large_error(&format!(
            "; they are read up to {}",
            format_size(MAX_DOCUMENT_BYTES)
        )));
    }
    match reader.read_document(source, file, DocumentWork::Pdf(question))? {
        Ok(DocumentContent::Pdf(pages)) => Ok(pages),
        Ok(_) => Err(source.unreadable_error("it was not read")),
        Err(why) => Err(source.unreadable_error(&why)),
    }
}

/// Shows only the requested lines of the requested pages' text.
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

/// An answer under construction, page by page.
#[derive(Default)]
struct PdfAnswer {
    text: String,
    /// The characters of the text.
    used: usize,
    /// The number of requested pages that are shown.
    shown: usize,
    empty: Vec<usize>,
    has_unreadable: bool,
    is_cut: bool,
    notes: Vec<String>,
}

impl PdfAnswer {
    /// Adds whole pages while they fit. If the first page does not fit, only its beginning is
    /// shown.
    fn add_pages(
        &mut self,
        pages: &PdfPages,
        wanted: &[usize],
        room: usize,
        uncut: &SecretBoundaries,
    ) {
        for (page, content) in wanted.iter().zip(&pages.texts) {
            self.has_unreadable |= content.unreadable > 0;
            let body = if content.text.trim().is_empty() {
                self.empty.push(*page);
                "(no text on this page)"
            } else {
                content.text.trim_end()
            };
            let block = format!("\n--- Page {page} of {} ---\n{body}\n", pages.total);
            let chars = block.chars().count();
            if self.used + chars > room {
                if self.shown == 0 {
                    let (beginning, _) = uncut.masked_prefix(&block, room - self.used);
                    self.text.push_str(&beginning);
                    self.notes.push(format!(
                        "Page {page} has {} characters of text, of which the first are shown. max_chars (up to 200,000) shows more.",
                        group_digits(chars as u64)
                    ));
                    self.is_cut = true;
                    self.shown = 1;
                }
                break;
            }
            self.text.push_str(&block);
            self.used += chars;
            self.shown += 1;
        }
        if pages.is_late && self.shown == pages.texts.len() {
            self.notes.push("The time for reading was over.".to_owned());
        }
    }

    fn append_notes(&mut self, pages: &PdfPages, wanted: &[usize], is_default: bool) {
        let total = pages.total;
        if total == 0 {
            self.notes.push("It has no pages.".to_owned());
        }
        if pages.is_cut_off {
            let note = "The document is damaged: its end is missing, so text or pages may be missing. Get the file again.";
            self.notes.push(note.to_owned());
        } else if !self.empty.is_empty() {
            self.notes.push(self.describe_empty_pages());
        }
        if self.has_unreadable {
            self.notes
                .push("Letters whose font does not say what they are stand as U+FFFD.".to_owned());
        }
        let left = &wanted[self.shown..];
        let next = match (left.first(), wanted.last()) {
            (Some(_), _) => Some(format_page_ranges(left)),
            (None, Some(last)) if is_default && *last < total => Some(format_page_ranges(
                &(last + 1..=(last + DEFAULT_PAGES).min(total)).collect::<Vec<_>>(),
            )),
            _ => None,
        };
        if let Some(next) = next {
            self.notes.push(format!(
                "Showing {} of {}. Continue with pages=\"{next}\".",
                format_count(self.shown as u64, "page"),
                group_digits(total as u64)
            ));
        }
        if !self.notes.is_empty() {
            let _ = write!(self.text, "\n{}\n", self.notes.join("\n"));
        }
    }

    fn describe_empty_pages(&self) -> String {
        let which = if self.empty.len() == self.shown && self.shown > 0 {
            "The pages shown hold".to_owned()
        } else {
            format!(
                "Page {} hold{}",
                format_page_ranges(&self.empty),
                if self.empty.len() == 1 { "s" } else { "" }
            )
        };
        format!(
            "{which} no text: scanned or drawn pages are pictures. OCR in Bash may read them, for example `ocrmypdf`, or \
             `pdftoppm -png -r 60` makes images that Read shows."
        )
    }
}

/// Formats `3`, `4-6`, `2,4-6`.
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
