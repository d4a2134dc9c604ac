//! Edit of a file that is too big to hold: the exact text is found piece by piece, and what stays is copied from file
//! to file. Not here: leniency, which needs the whole text (change), and the copying (`acp::local`).

use std::io::{self, Read as _, SeekFrom};
use std::sync::Arc;

use memchr::memmem;

use super::change::{Change, into_new, there_twice};
use super::edit::{Edit, MAX_BYTES, Plan, Prepared, check_hash};
use super::excerpt::Excerpt;
use super::match_tier::Tier;
use super::matcher::Found;
use super::reindent::{Ending, Indent, Place, ended, is_literal};
use super::scan::{CHUNK, Scan, Scanned, Spot};
use super::seen_files::{SeenFiles, SeenLines};
use super::{FileDeps, mask};
use crate::acp::WorkspacePath;
use crate::acp::encoding::Encoding;
use crate::acp::files::{DiskSplice, NewContent, OpenedFile, ReadSeek, Splice, Stamp, read_full};
use crate::output::figures;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// The largest file that is edited at all.
const MAX_LONG: u64 = 1 << 30;

/// What an edit of a big file comes to; none where the file has to be held for it, and can be.
///
/// # Errors
/// As an edit in memory; above what can be held also `no_match` without the nearest block, and `too_large` for what
/// is not UTF-8.
pub(super) async fn plan(
    cx: &ToolCx,
    deps: &FileDeps,
    path: &WorkspacePath,
    edit: &Edit,
    expected: Option<&str>,
) -> Result<Option<Plan>, ToolError> {
    let opened = deps.client.open_file(cx, path.clone()).await?;
    let shown = path.shown();
    let can_be_held = opened.size <= MAX_BYTES;
    if opened.size > MAX_LONG {
        let text = format!(
            "{shown} is {}; files are edited up to {}. Change it with Bash, for example `sed -i`.",
            figures::size(opened.size),
            figures::size(MAX_LONG)
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    let marked = match opened.content {
        Ok(encoding) if !encoding.is_utf16() => encoding == Encoding::Utf8Bom,
        _ if can_be_held => return Ok(None),
        Ok(encoding) => return Err(not_utf8(&shown, opened.size, encoding.as_str())),
        Err(binary) => {
            let text = format!("{shown} is not text: it is {}. {}", binary.kind, binary.hint);
            return Err(ToolError::new(ErrorCode::NotText, text));
        }
    };
    let seen = deps.seen.clone();
    let search = Search {
        seen,
        edit: edit.clone(),
        change: edit.change(&cx.uncut),
        path: path.clone(),
        stamp: opened.stamp,
        marked,
        expected: expected.map(str::to_owned),
        cx: cx.clone(),
    };
    let planned = tokio::task::spawn_blocking(move || search.run(opened))
        .await
        .map_err(|fault| ToolError::internal(format!("The search broke off: {fault}")))??;
    if planned.is_some() {
        for argument in edit.texts() {
            mask::refuse_over(cx, path, argument).await?;
        }
    }
    Ok(planned)
}

/// An edit on its way through a file.
struct Search {
    edit: Edit,
    change: Change,
    path: WorkspacePath,
    stamp: Stamp,
    /// The file begins with the mark of UTF-8.
    marked: bool,
    expected: Option<String>,
    cx: ToolCx,
    seen: SeenFiles,
}

impl Search {
    fn run(&self, opened: OpenedFile) -> Result<Option<Plan>, ToolError> {
        let (mut file, size) = (opened.bytes, opened.size);
        let shown = self.path.shown();
        let can_be_held = size <= MAX_BYTES;
        let hash = self.expected.is_some() || self.seen.sha256(&self.cx, &self.path).is_some();
        let found = self.scan(&mut *file, &self.change.old, hash)?;
        if !self.marked && !found.is_utf8 {
            return if can_be_held { Ok(None) } else { Err(not_utf8(&shown, size, "not UTF-8")) };
        }
        check_hash(&shown, self.expected.as_deref(), || found.sha256.clone().unwrap_or_default())?;
        if found.count == 0 {
            return if can_be_held { Ok(None) } else { Err(self.not_found()) };
        }
        let old = &self.change.old;
        let excerpt =
            Excerpt::of(&mut *file, size, &found.spots, old).map_err(|cause| self.failed(&cause))?;
        let overlapping = self.overlapping(&mut *file, &found, &excerpt)?;
        let place = |range: &std::ops::Range<usize>| Place {
            range: range.clone(),
            indent: Indent::Same,
            ending: found.ending,
        };
        let places = excerpt.places.iter().map(place).collect();
        let count = found.count;
        let in_excerpt = Found { tier: Tier::Exact, places, count, overlapping };
        self.change.check_count(&shown, excerpt.sheet(), &in_excerpt)?;
        let mut notes: Vec<String> = self.twice(&mut *file, &found)?.into_iter().collect();
        let sha256 = || found.sha256.clone().unwrap_or_default();
        notes.extend(self.seen.change_since(&self.cx, &self.path, sha256, None));
        self.prepare(&mut *file, found, &excerpt, notes).map(Some)
    }

    fn scan(&self, file: &mut dyn ReadSeek, text: &str, hash: bool) -> Result<Scanned, ToolError> {
        let is_cancelled = || self.cx.is_cancelled();
        let scan = Scan { old: text, hash, chunk: CHUNK, is_cancelled: &is_cancelled };
        // Of a file that grows one byte more is enough to see it.
        let scanned = file
            .seek(SeekFrom::Start(0))
            .and_then(|_| scan.run(&mut (&mut *file).take(self.stamp.size + 1)))
            .map_err(|cause| self.failed(&cause))?;
        if scanned.size == self.stamp.size { Ok(scanned) } else { Err(self.changed_meanwhile()) }
    }

    fn failed(&self, cause: &io::Error) -> ToolError {
        match cause.kind() {
            _ if self.cx.is_cancelled() => {
                ToolError::cancelled("The call was cancelled before anything was changed.")
            }
            io::ErrorKind::UnexpectedEof => self.changed_meanwhile(),
            _ => ToolError::io(self.path.shown(), cause),
        }
    }

    fn changed_meanwhile(&self) -> ToolError {
        let text = format!(
            "{} was changed meanwhile. Nothing was written. Read it again, then decide.",
            self.path.shown()
        );
        ToolError::new(ErrorCode::Stale, text)
    }

    /// Where the text stands again inside its only place, in the excerpt.
    fn overlapping(
        &self,
        file: &mut dyn ReadSeek,
        found: &Scanned,
        excerpt: &Excerpt,
    ) -> Result<Option<std::ops::Range<usize>>, ToolError> {
        let old = &self.change.old;
        let ([only], [shown], false) =
            (found.spots.as_slice(), excerpt.places.as_slice(), self.change.replace_all)
        else {
            return Ok(None);
        };
        let again = only.range(old).end - old.len() as u64 + 1;
        let text = self.bytes(file, again, 2 * (old.len() - 1))?;
        let at = memmem::find(&text, old.as_bytes());
        Ok(at.map(|at| shown.end - old.len() + 1 + at).map(|at| at..at + old.len()))
    }

    /// What to say where the new text stood around the place before.
    fn twice(&self, file: &mut dyn ReadSeek, found: &Scanned) -> Result<Option<String>, ToolError> {
        let Change { old, new, .. } = &self.change;
        if let ([only], Some(into)) = (found.spots.as_slice(), into_new(old, new))
            && let Some(from) = only.at.checked_sub(into as u64)
            && self.bytes(file, from, new.len())? == new.as_bytes()
        {
            let before = memchr::memchr_iter(b'\n', &new.as_bytes()[..into]).count();
            return Ok(Some(there_twice((only.newlines as usize + 1).saturating_sub(before), new)));
        }
        Ok(None)
    }

    /// So many bytes from this place on, fewer at the end.
    fn bytes(&self, file: &mut dyn ReadSeek, at: u64, count: usize) -> Result<Vec<u8>, ToolError> {
        let mut bytes = vec![0; count];
        let read = file.seek(SeekFrom::Start(at)).and_then(|_| read_full(file, &mut bytes));
        bytes.truncate(read.map_err(|cause| self.failed(&cause))?);
        Ok(bytes)
    }

    fn prepare(
        &self,
        file: &mut dyn ReadSeek,
        found: Scanned,
        excerpt: &Excerpt,
        notes: Vec<String>,
    ) -> Result<Plan, ToolError> {
        let Change { old, new, .. } = &self.change;
        let texts = Texts::new(old, new, found.ending);
        let changes = |spot: &Spot| {
            let with = texts.at(*spot);
            let there = if spot.returned { with.strip_prefix(b"\r") } else { Some(&**with) };
            there != Some(old.as_bytes())
        };
        let shown_of = |(spot, range): (&Spot, &std::ops::Range<usize>)| {
            changes(spot).then(|| Splice { range: range.clone(), with: texts.at(*spot).to_vec() })
        };
        let splices: Vec<Splice> = found.spots.iter().zip(&excerpt.places).filter_map(shown_of).collect();
        let first_line = found.spots.first().map_or(1, |spot| spot.newlines + 1);
        let on_disk: Vec<DiskSplice> = (found.spots.into_iter().filter(changes))
            .map(|spot| DiskSplice { range: spot.range(old), with: Arc::clone(texts.at(spot)) })
            .collect();
        if on_disk.is_empty() {
            let words =
                format!("No change: {} has new_string at line {first_line} already.", self.path.shown());
            return self.nothing(file, words);
        }
        let more = on_disk.len().saturating_sub(splices.len());
        let (places, view) = self.edit.said(&self.path, excerpt.sheet(), &splices, more, &self.cx.uncut);
        let content = NewContent::SplicedOnDisk { old: old.as_bytes().into(), splices: on_disk };
        Ok(Plan::Change(Prepared {
            places,
            view,
            notes,
            content,
            stamp: self.stamp,
            lines: SeenLines::default(),
        }))
    }

    /// The file is as it should be; its hash is all that is still to be known.
    fn nothing(&self, file: &mut dyn ReadSeek, words: String) -> Result<Plan, ToolError> {
        let hashed = self.scan(file, &self.change.new, true)?;
        Ok(Plan::Nothing(words, hashed.sha256.unwrap_or_default()))
    }

    /// A file that cannot be held is only searched for the exact text.
    fn not_found(&self) -> ToolError {
        let shown = self.path.shown();
        let text = format!(
            "old_string is not in {shown}. Nothing was changed.\nThe file is {}; above {} only the exact text is found: \
             quote it with its own line endings, indentation and blanks, as Grep and Read show them, or change it with \
             Bash, for example `sed -i`.",
            figures::size(self.stamp.size),
            figures::size(MAX_BYTES)
        );
        ToolError::new(ErrorCode::NoMatch, text)
    }
}

/// What comes in a place, by how lines end there.
pub(super) struct Texts {
    lf: Arc<[u8]>,
    crlf: Arc<[u8]>,
    cr: Arc<[u8]>,
    otherwise: Ending,
}

impl Texts {
    pub(super) fn new(old: &str, new: &str, otherwise: Ending) -> Self {
        let lf: Arc<[u8]> = new.as_bytes().into();
        if is_literal(old, new) {
            return Self { crlf: Arc::clone(&lf), cr: Arc::clone(&lf), lf, otherwise };
        }
        let with = |ending| ended(new.as_bytes().to_vec(), ending).into();
        Self { lf, crlf: with(Ending::Crlf), cr: with(Ending::Cr), otherwise }
    }

    pub(super) fn at(&self, spot: Spot) -> &Arc<[u8]> {
        match spot.ending.unwrap_or(self.otherwise) {
            Ending::Lf => &self.lf,
            Ending::Crlf => &self.crlf,
            Ending::Cr => &self.cr,
        }
    }
}

fn not_utf8(shown: &str, size: u64, encoding: &str) -> ToolError {
    let text = format!(
        "{shown} is {encoding} and {}; files in another encoding than UTF-8 are edited up to 32 MB. Convert it with \
         Bash, for example `iconv -t utf-8`.",
        figures::size(size)
    );
    ToolError::new(ErrorCode::TooLarge, text)
}
