//! The worker's side of reading a document: sandboxes itself, reads, answers. A document's parser may use unbounded
//! memory or never finish, so it runs in its own process.

use std::fs::File;
use std::io::{self, Read};
use std::time::Instant;

use super::archive_entries;
use super::document_protocol::{
    ADDRESS_SPACE, DocumentAnswer, DocumentContent, DocumentQuestion, DocumentWork, TIME_LIMIT,
};
use super::{archive_page, image_scaling, notebook, office_page, pdf_pages};
use punie_host::worker::{CallerLink, WorkerLimits, serve_question};

/// Answers the runner's requests as a worker process.
///
/// # Errors
/// The runner has exited.
pub fn serve_document_questions() -> io::Result<()> {
    serve_question(|question: DocumentQuestion, link| {
        confine_worker(link)
            .map_err(|cause| format!("it cannot be read: {cause}"))
            .and_then(|file| read_document(&question, file))
    })
}

/// Drops all rights except access to the open file.
fn confine_worker(link: &CallerLink) -> io::Result<File> {
    let file = link.open_input_file()?;
    let limits = WorkerLimits {
        reads: Vec::new(),
        writes: Vec::new(),
        memory_bytes: ADDRESS_SPACE,
        file_bytes: 0,
        processor_time: TIME_LIMIT,
    };
    limits.apply_limits()?;
    link.on_hang_up(|| std::process::exit(1))?;
    Ok(file)
}

fn read_document(question: &DocumentQuestion, file: File) -> DocumentAnswer {
    let deadline = Instant::now() + TIME_LIMIT;
    let has_time_left = || Instant::now() < deadline;
    let shown = question.shown.as_str();
    let size = question.size;
    match &question.work {
        DocumentWork::Pdf(pages) => {
            let pdf = pdf_pages::read_pdf_document(read_whole(file, size)?, pages, &has_time_left);
            pdf.map(DocumentContent::Pdf)
        }
        DocumentWork::Notebook => {
            notebook::render_notebook(shown, &read_whole(file, size)?).map(DocumentContent::Page)
        }
        DocumentWork::Zip => {
            office_page::render_zip(shown, size, file, &has_time_left).map(DocumentContent::Page)
        }
        DocumentWork::Tar => archive_entries::list_plain_tar(file, &has_time_left)
            .map(|listing| archive_page::render_tar(shown, size, &listing, None))
            .map(DocumentContent::Page),
        DocumentWork::Packed(packing) => {
            let data = archive_entries::list_packed(file, *packing, &has_time_left)?;
            Ok(DocumentContent::Page(archive_page::render_packed(
                shown, size, *packing, &data,
            )))
        }
        DocumentWork::ScaleImage {
            mime_type,
            max_chars,
        } => image_scaling::scale_image(file, mime_type, *max_chars).map(DocumentContent::Image),
    }
}

/// Reads up to this size. The file may grow meanwhile.
fn read_whole(file: impl Read, size: u64) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    file.take(size)
        .read_to_end(&mut bytes)
        .map(|_| bytes)
        .map_err(|cause| format!("it cannot be read: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grows_is_read_up_to_its_size() {
        assert_eq!(read_whole(io::repeat(7).take(9), 4).unwrap(), [7; 4]);
    }
}
