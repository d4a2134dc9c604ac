//! One requested replacement and its place in a text. Edit applies one, MultiEdit several in a row.

use std::borrow::Cow;
use std::fmt::Write as _;

use memchr::{memchr, memmem};

use super::edit_report::{
    describe_line_span, line_number_at, list_line_numbers, show_neighbouring_lines,
};
use super::match_tier::{MatchTier, strip_blank_lines_around, strip_line_numbers};
use super::no_match_hint;
use super::quote_search::{MAX_PLACES, QuoteMatches, find_quote, fit_replacement};
use super::reindent::{QuotePlace, is_indented_like_file};
use punie_host::files::ByteSplice;
use punie_text::normal_forms::{in_form_of, other_forms};
use punie_text::output::SecretBoundaries;
use punie_text::output::number_format::{format_count, format_size, group_digits};
use punie_tool::{ErrorCode, ToolError};

/// A shorter text may occur in a file by chance.
const MIN_DISTINCTIVE_LEN: usize = 8;
/// The most lines common to both texts that are searched.
const MAX_SHARED_LINES: usize = 8;
const NUMBERS_NOTE: &str =
    "Line numbers were taken out of old_string; quote the text without them.";
const BLANK_LINES_NOTE: &str =
    "Blank lines around old_string, which are not there in the file, were passed over.";
const FORM_NOTE: &str =
    "The file writes accents in another Unicode form than old_string; they stay as in the file.";
/// The most bytes that are inserted, over all places.
const MAX_NEW_BYTES: u64 = 64 << 20;

/// A requested replacement.
#[derive(Debug, Clone)]
pub(super) struct RequestedEdit {
    pub old: String,
    pub new: String,
    /// Replaces every place, not just the only one.
    pub replace_all: bool,
    /// Replaces every place, if there are exactly this many.
    pub expected_count: Option<u64>,
    /// The text is a notebook's, whose cells are looked through first.
    pub is_notebook: bool,
    /// The secrets to mask in error messages.
    pub secret_boundaries: SecretBoundaries,
}

/// A quote that was found, as it was looked for.
pub(super) struct FoundEdit {
    pub(super) found: QuoteMatches,
    old: String,
    new: String,
    notes: Vec<String>,
}

/// The outcome of resolving an edit in a text.
#[derive(Debug)]
pub(super) enum ResolvedEdit {
    /// The text has the change already; the message says so.
    AlreadyDone(String),
    /// The places to replace, with notes on tolerated differences.
    Splices {
        splices: Vec<ByteSplice>,
        notes: Vec<String>,
    },
}

impl RequestedEdit {
    /// Resolves the places in `text`, a file named `shown` in answers.
    ///
    /// # Errors
    /// `no_match` with the nearest block, `ambiguous` with the places, `invalid_args` if nothing
    /// would change.
    pub(super) fn resolve(&self, shown: &str, text: &[u8]) -> Result<ResolvedEdit, ToolError> {
        if self.old == self.new {
            return Err(ToolError::invalid_args(
                "old_string and new_string are the same; there is nothing to change.",
            ));
        }
        if self.is_notebook
            && let Some(resolved) = self.resolve_in_cells(shown, text)?
        {
            return Ok(resolved);
        }
        let Some(FoundEdit {
            found,
            old,
            new,
            mut notes,
        }) = self.find(text)
        else {
            return self.resolve_unmatched(shown, text);
        };
        self.check_count(shown, text, &found)?;
        let stands = |place: &QuotePlace| {
            is_indented_like_file(&text[place.range.clone()], &old, &new, &place.indent)
        };
        notes.extend(if found.places.iter().all(stands) {
            Some(
                "It was matched at another indentation; new_string has the file's already."
                    .to_owned(),
            )
        } else {
            let has_returns = memchr(b'\r', text).is_some() || old.contains('\r');
            let note = found.tier.describe(has_returns);
            note.map(|note| format!("It was {note}."))
        });
        if let [only] = found.places.as_slice()
            && found.tier == MatchTier::Exact
            && let Some(into) = old_offset_in_new(&old, &new)
            && let Some(from) = only.range.start.checked_sub(into)
            && text.get(from..from + new.len()) == Some(new.as_bytes())
        {
            notes.push(duplicated_text_note(line_number_at(text, from), &new));
        }
        let splices: Vec<ByteSplice> = found
            .places
            .iter()
            .map(|place| ByteSplice {
                range: place.range.clone(),
                with: fit_replacement(text, &old, &new, found.tier, place),
            })
            .filter(|splice| text[splice.range.clone()] != *splice.with)
            .collect();
        if splices.is_empty() {
            let at = line_number_at(text, found.places[0].range.start);
            return Ok(ResolvedEdit::AlreadyDone(format!(
                "No change: {shown} has new_string at line {at} already."
            )));
        }
        Ok(ResolvedEdit::Splices { splices, notes })
    }

    /// Finds the quote: as it is, without pasted line numbers, without blank lines around it, and in another of Unicode's
    /// normal forms.
    pub(super) fn find(&self, text: &[u8]) -> Option<FoundEdit> {
        let mut attempts = vec![(self.old.clone(), self.new.clone(), Vec::new())];
        if let Some(bare) = strip_line_numbers(&self.old).filter(|bare| !bare.trim().is_empty()) {
            let new = strip_line_numbers(&self.new).unwrap_or_else(|| self.new.clone());
            attempts.push((bare, new, vec![NUMBERS_NOTE]));
        }
        for (old, new, notes) in attempts.clone() {
            if let Some((old, new)) = strip_blank_lines_around(&old, &new) {
                attempts.push((old, new, [notes, vec![BLANK_LINES_NOTE]].concat()));
            }
        }
        for (old, new, notes) in attempts.clone() {
            for form in other_forms(&old) {
                let new = in_form_of(&form, &new);
                attempts.push((form, new, [notes.clone(), vec![FORM_NOTE]].concat()));
            }
        }
        attempts.into_iter().find_map(|(old, new, notes)| {
            Some(FoundEdit {
                found: find_quote(text, &old, self.loosest_tier())?,
                old,
                new,
                notes: notes.into_iter().map(str::to_owned).collect(),
            })
        })
    }

    /// Refuses to change other places than the call intended.
    ///
    /// # Errors
    /// `ambiguous` with the places, `too_large` for too many.
    fn check_count(&self, shown: &str, text: &[u8], found: &QuoteMatches) -> Result<(), ToolError> {
        let ambiguous = |text: String| Err(ToolError::new(ErrorCode::Ambiguous, text));
        if let (Some(beside), false) = (&found.overlapping, self.replace_all) {
            let places = [&found.places[0].range, beside];
            return ambiguous(format!(
                "old_string stands at places that overlap in {shown}: lines {}. Nothing was changed. Quote more \
                 lines around the one you mean, or set replace_all=true to replace from the first on.\n{}",
                list_line_numbers(text, places, 2),
                show_neighbouring_lines(text, places, &self.secret_boundaries)
            ));
        }
        let wanted = match self.expected_count {
            Some(wanted) => wanted,
            None if self.replace_all => found.count,
            None => 1,
        };
        if found.count == wanted {
            return check_replacement_size(shown, found.count, self.new.len());
        }
        let ranges = || found.places.iter().map(|place| &place.range);
        // An edit of every place tolerates fewer differences, so it would not find these.
        let (loosely, or_all) = if found.tier <= MatchTier::LineEndings {
            ("", ", or set replace_all=true")
        } else {
            (" (not exactly, but nearly)", "")
        };
        ambiguous(format!(
            "old_string stands at {} in {shown}{loosely}, not {wanted}: line{} {}. Nothing was changed. Quote more \
             lines around the one you mean{or_all}.\n{}",
            format_count(found.count, "place"),
            if found.count == 1 { "" } else { "s" },
            list_line_numbers(text, ranges(), found.count),
            show_neighbouring_lines(text, ranges(), &self.secret_boundaries)
        ))
    }

    /// Returns whether the text contains any place for it.
    pub(super) fn is_quote_found(&self, text: &[u8]) -> bool {
        find_quote(text, &self.old, self.loosest_tier()).is_some()
    }

    /// The loosest tier for this edit. With several places a wrong match would be unnoticed, so it
    /// is stricter.
    fn loosest_tier(&self) -> MatchTier {
        if self.replace_all || self.expected_count.is_some() {
            MatchTier::LineEndings
        } else {
            MatchTier::Tabs
        }
    }

    fn resolve_unmatched(&self, shown: &str, text: &[u8]) -> Result<ResolvedEdit, ToolError> {
        let old = &self.old;
        let new = &self.new;
        let there = find_quote(text, new, MatchTier::LineEndings)
            .filter(|there| there.count == 1 && is_distinctive_text(new));
        let there = there.map(|there| there.places[0].range.clone());
        let lines =
            there.map(|range| describe_line_span(line_number_at(text, range.start), &text[range]));
        if let Some(lines) = &lines
            && is_already_replaced(text, old, new)
        {
            return Ok(ResolvedEdit::AlreadyDone(already_replaced_note(
                shown, lines,
            )));
        }
        let nearly = if self.loosest_tier() < MatchTier::Indentation {
            find_quote(text, old, MatchTier::Indentation)
        } else {
            None
        };
        let mut why = match nearly {
            Some(nearly) => {
                let ranges = || nearly.places.iter().map(|place| &place.range);
                format!(
                    "With replace_all or expected_count only line endings are forgiven. What stands at line{} {} is \
                     nearly the same: quote it as it is there, or change one place at a time.\n{}",
                    if nearly.count == 1 { "" } else { "s" },
                    list_line_numbers(text, ranges(), nearly.count),
                    show_neighbouring_lines(text, ranges(), &self.secret_boundaries)
                )
            }
            None => no_match_hint::explain_unmatched_quote(
                text,
                &strip_pasted_numbers(text, old),
                &self.secret_boundaries,
            )
            .unwrap_or_else(|| {
                "Nothing in the file is like it. Read the file and quote it.".to_owned()
            }),
        };
        if let Some(lines) = lines {
            let _ = write!(
                why,
                "\nnew_string stands at {lines}; whether this edit put it there is not known."
            );
        }
        let text = format!("old_string is not in {shown}. Nothing was changed.\n{why}");
        Err(ToolError::new(ErrorCode::NoMatch, text))
    }
}

/// The quote without the line numbers that Read shows, unless the file has such numbers itself.
fn strip_pasted_numbers<'a>(text: &[u8], old: &'a str) -> Cow<'a, str> {
    let numbers = old.split_inclusive('\t').next().unwrap_or(old);
    if memmem::find(text, numbers.as_bytes()).is_some() {
        return Cow::Borrowed(old);
    }
    strip_line_numbers(old).map_or(Cow::Borrowed(old), Cow::Owned)
}

/// Returns whether a text that contains only `new` has it in the place of `old`. A line common to
/// both texts that occurs once identifies the place. No removed line may be in the file, since then
/// the edit was not made. If the edit adds no distinctive line, distinctive lines must surround the
/// removed part.
fn is_already_replaced(text: &[u8], old: &str, new: &str) -> bool {
    let (was, is): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let ahead = was.iter().zip(&is).take_while(|(a, b)| a == b).count();
    let behind = was[ahead..]
        .iter()
        .rev()
        .zip(is[ahead..].iter().rev())
        .take_while(|(a, b)| a == b)
        .count();
    let taken = &was[ahead..was.len() - behind];
    let added = &is[ahead..is.len() - behind];
    let stands = |line: &str| memmem::find_iter(text, line.trim()).take(2).count();
    let tells = |lines: &[&str]| lines.iter().any(|line| is_distinctive_text(line));
    let added_nothing = !tells(added);
    if added_nothing && !(tells(&was[..ahead]) && tells(&was[was.len() - behind..])) {
        return false;
    }
    if taken
        .iter()
        .filter(|line| is_distinctive_text(line))
        .take(MAX_SHARED_LINES)
        .any(|line| stands(line) > 0 && !is.contains(line))
    {
        return false;
    }
    let shared = was[..ahead]
        .iter()
        .chain(&was[was.len() - behind..])
        .filter(|line| is_distinctive_text(line));
    shared.take(MAX_SHARED_LINES).any(|line| stands(line) == 1)
}

/// Returns whether a text is too long to occur in a file by chance.
fn is_distinctive_text(new: &str) -> bool {
    new.trim().len() >= MIN_DISTINCTIVE_LEN
}

/// The note for a file that contains only the new text, at these lines.
fn already_replaced_note(shown: &str, lines: &str) -> String {
    format!(
        "No change: old_string is not in {shown}, and new_string stands in its place, at {lines}: the edit is done \
         already. If you mean another place, read the file and quote it."
    )
}

/// The offset of the old text in a new text that only adds to it and may already surround the
/// place.
fn old_offset_in_new(old: &str, new: &str) -> Option<usize> {
    new.find(old)
        .filter(|_| new.trim().len() >= old.trim().len() + MIN_DISTINCTIVE_LEN)
}

/// The note for a new text that was around the place already: the same call may have come twice.
fn duplicated_text_note(line: usize, new: &str) -> String {
    format!(
        "new_string stood there before already, at {}; now what it adds is there twice. If the edit had been made \
         before, take that out again.",
        describe_line_span(line, new.as_bytes())
    )
}

/// Refuses to replace so many places that they would fill the memory, or the disk.
fn check_replacement_size(shown: &str, count: u64, new: usize) -> Result<(), ToolError> {
    let too_large = |text| Err(ToolError::new(ErrorCode::TooLarge, text));
    if count > MAX_PLACES as u64 {
        return too_large(format!(
            "old_string stands at {} in {shown}; {} are replaced at most. Nothing was changed. Replace them with Bash, \
             for example `sed -i`.",
            format_count(count, "place"),
            group_digits(MAX_PLACES as u64)
        ));
    }
    let comes = count.saturating_mul(new as u64);
    if count > 1 && comes > MAX_NEW_BYTES {
        return too_large(format!(
            "new_string would come to {} at {} in {shown}; {} of new text are written at most. Nothing was changed.",
            format_size(comes),
            format_count(count, "place"),
            format_size(MAX_NEW_BYTES)
        ));
    }
    Ok(())
}
