//! Edit of a file that is too large to load: finds the exact text chunk by chunk and copies unchanged parts between
//! files.

use std::io::{self, Read as _, SeekFrom};
use std::sync::Arc;

use memchr::memmem;

use super::edit::Edit;
use super::edit_plan::{EditPlan, MAX_BYTES, PreparedEdit, check_expected_hash};
use super::excerpt::FileExcerpt;
use super::match_tier::MatchTier;
use super::quote_search::QuoteMatches;
use super::reindent::{IndentShift, LineEnding, QuotePlace, convert_line_endings, is_literal};
use super::requested_edit::{RequestedEdit, duplicated_text_note, old_offset_in_new};
use super::seen_files::{SeenFiles, SeenLines};
use super::stream_search::{SEARCH_CHUNK_BYTES, StreamMatch, StreamMatches, StreamSearch};
use super::{FileDeps, mask_guard};
use punie_host::WorkspacePath;
use punie_host::encoding::FileEncoding;
use punie_host::files::{
    ByteSplice, DiskSplice, FileStamp, NewContent, OpenedFile, ReadSeek, read_full,
};
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest file that can be edited.
const MAX_LARGE_BYTES: u64 = 1 << 30;

/// Plans an edit of a large file; `None` if the file must and can be loaded.
///
/// # Errors
/// As an edit in memory. Above the size that can be loaded also `no_match` without the nearest
/// block, and `too_large` for text that is not UTF-8.
pub(super) async fn plan_large_edit(
    cx: &ToolContext,
    deps: &FileDeps,
    path: &WorkspacePath,
    edit: &Edit,
    expected: Option<&str>,
) -> Result<Option<EditPlan>, ToolError> {
    let opened = deps.client.open_file(cx, path.clone()).await?;
    let shown = path.display_text();
    let can_be_held = opened.size <= MAX_BYTES;
    if opened.size > MAX_LARGE_BYTES {
        let text = format!(
            "{shown} is {}; files are edited up to {}. Change it with Bash, for example `sed -i`.",
            number_format::format_size(opened.size),
            number_format::format_size(MAX_LARGE_BYTES)
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let marked = match opened.content {
        Ok(encoding) if !encoding.is_utf16() => encoding == FileEncoding::Utf8Bom,
        _ if can_be_held => return Ok(None),
        Ok(encoding) => return Err(too_large_to_convert(&shown, opened.size, encoding.as_str())),
        Err(binary) => {
            let text = format!(
                "{shown} is not text: it is {}. {}",
                binary.kind, binary.hint
            );
            return Err(ToolError::new(ErrorCode::NotText, text));
        }
    };
    let seen = deps.seen.clone();
    let search = LargeEditSearch {
        seen,
        edit: edit.clone(),
        change: edit.requested(&cx.secret_boundaries),
        path: path.clone(),
        stamp: opened.stamp,
        has_utf8_mark: marked,
        expected: expected.map(str::to_owned),
        cx: cx.clone(),
    };
    let planned = tokio::task::spawn_blocking(move || search.search_and_plan(opened))
        .await
        .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))??;
    if planned.is_some() {
        for argument in edit.quoted_arguments() {
            mask_guard::refuse_masked_overwrite(cx, deps, path, argument).await?;
        }
    }
    Ok(planned)
}

/// An edit in progress over a file.
struct LargeEditSearch {
    edit: Edit,
    change: RequestedEdit,
    path: WorkspacePath,
    stamp: FileStamp,
    /// True if the file begins with a UTF-8 byte order mark.
    has_utf8_mark: bool,
    expected: Option<String>,
    cx: ToolContext,
    seen: SeenFiles,
}

impl LargeEditSearch {
    fn search_and_plan(&self, opened: OpenedFile) -> Result<Option<EditPlan>, ToolError> {
        let (mut file, size) = (opened.bytes, opened.size);
        let shown = self.path.display_text();
        let can_be_held = size <= MAX_BYTES;
        let hash = self.expected.is_some() || self.seen.sha256(&self.cx, &self.path).is_some();
        let found = self.scan_for_quote(&mut *file, &self.change.old, hash)?;
        if !self.has_utf8_mark && !found.is_utf8 {
            return if can_be_held {
                Ok(None)
            } else {
                Err(too_large_to_convert(&shown, size, "not UTF-8"))
            };
        }
        check_expected_hash(&shown, self.expected.as_deref(), || {
            found.sha256.clone().unwrap_or_default()
        })?;
        if found.count == 0 {
            return if can_be_held {
                Ok(None)
            } else {
                Err(self.exact_not_found())
            };
        }
        let old = &self.change.old;
        let excerpt = FileExcerpt::read(&mut *file, size, &found.matches, old)
            .map_err(|cause| self.read_failure(&cause))?;
        let overlapping = self.find_overlapping(&mut *file, &found, &excerpt)?;
        let place = |range: &std::ops::Range<usize>| QuotePlace {
            range: range.clone(),
            indent: IndentShift::Same,
            ending: found.ending,
        };
        let places = excerpt.places.iter().map(place).collect();
        let count = found.count;
        let in_excerpt = QuoteMatches {
            tier: MatchTier::Exact,
            places,
            count,
            overlapping,
        };
        self.change
            .check_count(&shown, excerpt.as_text(), &in_excerpt)?;
        let mut notes: Vec<String> = self
            .note_duplicate(&mut *file, &found)?
            .into_iter()
            .collect();
        let sha256 = || found.sha256.clone().unwrap_or_default();
        notes.extend(
            self.seen
                .describe_change_since(&self.cx, &self.path, sha256, None),
        );
        self.prepare(&mut *file, found, &excerpt, notes).map(Some)
    }

    fn scan_for_quote(
        &self,
        file: &mut dyn ReadSeek,
        text: &str,
        hash: bool,
    ) -> Result<StreamMatches, ToolError> {
        let is_cancelled = || self.cx.is_cancelled();
        let scan = StreamSearch {
            old: text,
            hash,
            chunk: SEARCH_CHUNK_BYTES,
            is_cancelled: &is_cancelled,
        };
        // One more byte is enough to detect that the file grew.
        let scanned = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| scan.run(&mut (&mut *file).take(self.stamp.size + 1)))
            .map_err(|cause| self.read_failure(&cause))?;
        if scanned.size == self.stamp.size {
            Ok(scanned)
        } else {
            Err(self.changed_meanwhile_error())
        }
    }

    fn read_failure(&self, cause: &io::Error) -> ToolError {
        match cause.kind() {
            _ if self.cx.is_cancelled() => {
                ToolError::call_cancelled("The call was cancelled before anything was changed.")
            }
            io::ErrorKind::UnexpectedEof => self.changed_meanwhile_error(),
            _ => ToolError::from_io(self.path.display_text(), cause),
        }
    }

    fn changed_meanwhile_error(&self) -> ToolError {
        let text = format!(
            "{} was changed meanwhile. Nothing was written. Read it again, then decide.",
            self.path.display_text()
        );
        ToolError::new(ErrorCode::Stale, text)
    }

    /// The offset in the excerpt at which the text begins again inside its only place.
    fn find_overlapping(
        &self,
        file: &mut dyn ReadSeek,
        found: &StreamMatches,
        excerpt: &FileExcerpt,
    ) -> Result<Option<std::ops::Range<usize>>, ToolError> {
        let old = &self.change.old;
        let ([only], [shown], false) = (
            found.matches.as_slice(),
            excerpt.places.as_slice(),
            self.change.replace_all,
        ) else {
            return Ok(None);
        };
        let again = only.range(old).end - old.len() as u64 + 1;
        let text = self.read_bytes_at(file, again, 2 * (old.len() - 1))?;
        let at = memmem::find(&text, old.as_bytes());
        Ok(at
            .map(|at| shown.end - old.len() + 1 + at)
            .map(|at| at..at + old.len()))
    }

    /// The note for a new text that was around the place already.
    fn note_duplicate(
        &self,
        file: &mut dyn ReadSeek,
        found: &StreamMatches,
    ) -> Result<Option<String>, ToolError> {
        let RequestedEdit { old, new, .. } = &self.change;
        if let ([only], Some(into)) = (found.matches.as_slice(), old_offset_in_new(old, new))
            && let Some(from) = only.at.checked_sub(into as u64)
            && self.read_bytes_at(file, from, new.len())? == new.as_bytes()
        {
            let before = memchr::memchr_iter(b'\n', &new.as_bytes()[..into]).count();
            return Ok(Some(duplicated_text_note(
                (only.newlines as usize + 1).saturating_sub(before),
                new,
            )));
        }
        Ok(None)
    }

    /// Reads this many bytes from an offset on, fewer at the end of the file.
    fn read_bytes_at(
        &self,
        file: &mut dyn ReadSeek,
        at: u64,
        count: usize,
    ) -> Result<Vec<u8>, ToolError> {
        let mut bytes = vec![0; count];
        let read = file
            .seek(SeekFrom::Start(at))
            .and_then(|_| read_full(file, &mut bytes));
        bytes.truncate(read.map_err(|cause| self.read_failure(&cause))?);
        Ok(bytes)
    }

    fn prepare(
        &self,
        file: &mut dyn ReadSeek,
        found: StreamMatches,
        excerpt: &FileExcerpt,
        notes: Vec<String>,
    ) -> Result<EditPlan, ToolError> {
        let RequestedEdit { old, new, .. } = &self.change;
        let texts = ReplacementTexts::new(old, new, found.ending);
        let changes = |spot: &StreamMatch| {
            let with = texts.for_match(*spot);
            let there = if spot.includes_carriage_return {
                with.strip_prefix(b"\r")
            } else {
                Some(&**with)
            };
            there != Some(old.as_bytes())
        };
        let shown_of = |(spot, range): (&StreamMatch, &std::ops::Range<usize>)| {
            changes(spot).then(|| ByteSplice {
                range: range.clone(),
                with: texts.for_match(*spot).to_vec(),
            })
        };
        let splices: Vec<ByteSplice> = found
            .matches
            .iter()
            .zip(&excerpt.places)
            .filter_map(shown_of)
            .collect();
        let first_line = found.matches.first().map_or(1, |spot| spot.newlines + 1);
        let on_disk: Vec<DiskSplice> = (found.matches.into_iter().filter(changes))
            .map(|spot| DiskSplice {
                range: spot.range(old),
                with: Arc::clone(texts.for_match(spot)),
            })
            .collect();
        if on_disk.is_empty() {
            let words = format!(
                "No change: {} has new_string at line {first_line} already.",
                self.path.display_text()
            );
            return self.plan_no_change(file, words);
        }
        let more = on_disk.len().saturating_sub(splices.len());
        let (places, view) = self.edit.describe_splices(
            &self.path,
            excerpt.as_text(),
            &splices,
            more,
            &self.cx.secret_boundaries,
        );
        let content = NewContent::SplicedOnDisk {
            old: old.as_bytes().into(),
            splices: on_disk,
        };
        Ok(EditPlan::Change(PreparedEdit {
            places,
            view,
            notes,
            content,
            stamp: self.stamp,
            lines: SeenLines::default(),
        }))
    }

    /// Plans no change: the file is correct already and only its hash is missing.
    fn plan_no_change(
        &self,
        file: &mut dyn ReadSeek,
        words: String,
    ) -> Result<EditPlan, ToolError> {
        let hashed = self.scan_for_quote(file, &self.change.new, true)?;
        Ok(EditPlan::NoChange(words, hashed.sha256.unwrap_or_default()))
    }

    /// The error for a file too large for more than an exact search.
    fn exact_not_found(&self) -> ToolError {
        let shown = self.path.display_text();
        let text = format!(
            "old_string is not in {shown}. Nothing was changed.\nThe file is {}; above {} only the exact text is found: \
             quote it with its own line endings, indentation and blanks, as Grep and Read show them, or change it with \
             Bash, for example `sed -i`.",
            number_format::format_size(self.stamp.size),
            number_format::format_size(MAX_BYTES)
        );
        ToolError::new(ErrorCode::NoMatch, text)
    }
}

/// The replacement text of a place, by its line ending.
pub(super) struct ReplacementTexts {
    lf: Arc<[u8]>,
    crlf: Arc<[u8]>,
    cr: Arc<[u8]>,
    otherwise: LineEnding,
}

impl ReplacementTexts {
    pub(super) fn new(old: &str, new: &str, otherwise: LineEnding) -> Self {
        if is_literal(old, new) {
            let lf: Arc<[u8]> = new.as_bytes().into();
            return Self {
                crlf: Arc::clone(&lf),
                cr: Arc::clone(&lf),
                lf,
                otherwise,
            };
        }
        let new = new.replace("\r\n", "\n");
        let with = |ending| convert_line_endings(new.as_bytes().to_vec(), ending).into();
        let lf: Arc<[u8]> = new.as_bytes().into();
        Self {
            lf,
            crlf: with(LineEnding::Crlf),
            cr: with(LineEnding::Cr),
            otherwise,
        }
    }

    pub(super) fn for_match(&self, spot: StreamMatch) -> &Arc<[u8]> {
        match spot.ending.unwrap_or(self.otherwise) {
            LineEnding::Lf => &self.lf,
            LineEnding::Crlf => &self.crlf,
            LineEnding::Cr => &self.cr,
        }
    }
}

fn too_large_to_convert(shown: &str, size: u64, encoding: &str) -> ToolError {
    let text = format!(
        "{shown} is {encoding} and {}; files in another encoding than UTF-8 are edited up to 32 MB. Convert it with \
         Bash, for example `iconv -t utf-8`.",
        number_format::format_size(size)
    );
    ToolError::new(ErrorCode::TooLarge, text)
}
