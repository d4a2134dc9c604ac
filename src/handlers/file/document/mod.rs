//! Read of binary documents: a worker process reads them, and the runner formats the answer.

mod archive_entries;
mod archive_page;
mod cell_format;
mod document_protocol;
mod document_query;
mod document_reader;
mod document_worker;
mod image_answer;
mod image_scaling;
mod image_structure;
mod notebook;
mod office_page;
mod office_parts;
mod office_text;
mod pdf_answer;
mod pdf_line;
mod pdf_pages;
mod pdf_text;
mod show_document;
mod workbook;
mod zstd_frames;

pub use document_protocol::DOCUMENT_JOB;
pub(super) use document_query::DocumentQuery;
pub use document_worker::serve_document_questions;
pub(super) use show_document::{read_notebook, show_document};
