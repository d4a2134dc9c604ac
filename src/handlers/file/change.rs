//! One replacement as it was asked for, and where it goes in a text: what Edit does once and MultiEdit in a row.
//! Not here: how the place is found (matcher), loading and writing.

use super::edit_report::{line_of, lines_of, neighbours, span};
use super::leniency::{Tier, without_line_numbers};
use super::matcher::{Found, MOST, find, replacement};
use super::miss;
use crate::acp::files::Splice;
use crate::output::figures::{counted, grouped};
use crate::tool::{ErrorCode, ToolError};

/// A text shorter than this may stand in a file by chance.
const TELLING: usize = 8;

/// What is to be replaced by what.
#[derive(Debug, Clone)]
pub(super) struct Change {
    pub old: String,
    pub new: String,
    /// Every place, not just the only one.
    pub replace_all: bool,
    /// Every place, if there are exactly so many.
    pub expected_count: Option<u64>,
}

/// What a change comes to in a text.
#[derive(Debug)]
pub(super) enum Step {
    /// The text has it already, as the words say.
    Nothing(String),
    /// These places are replaced; the notes say what was forgiven.
    Splices { splices: Vec<Splice>, notes: Vec<String> },
}

impl Change {
    /// The places in `text`, a file that answers call `shown`.
    ///
    /// # Errors
    /// `no_match` with the nearest block, `ambiguous` with the places, `invalid_args` where nothing would change.
    pub(super) fn step(&self, shown: &str, text: &[u8]) -> Result<Step, ToolError> {
        if self.old == self.new {
            return Err(ToolError::invalid_args(
                "old_string and new_string are the same; there is nothing to change.",
            ));
        }
        let mut notes = Vec::new();
        let (mut old, mut new) = (self.old.clone(), self.new.clone());
        let mut found = find(text, &old);
        if found.is_none()
            && let Some(bare) = without_line_numbers(&old).filter(|bare| !bare.trim().is_empty())
        {
            found = find(text, &bare);
            if found.is_some() {
                notes.push(
                    "Line numbers were taken out of old_string; quote the text without them.".to_owned(),
                );
                old = bare;
                new = without_line_numbers(&new).unwrap_or(new);
            }
        }
        let Some(found) = found else { return self.not_found(shown, text, &new) };
        self.check_count(shown, text, &found)?;
        notes.extend(found.tier.note().map(|note| format!("It was {note}.")));
        if let Some(note) = Self::there_before(text, &old, &new, &found) {
            notes.push(note);
        }
        let splices: Vec<Splice> = found
            .places
            .iter()
            .map(|place| Splice {
                range: place.range.clone(),
                with: replacement(text, &old, &new, found.tier, place),
            })
            .filter(|splice| text[splice.range.clone()] != *splice.with)
            .collect();
        if splices.is_empty() {
            let at = line_of(text, found.places[0].range.start);
            return Ok(Step::Nothing(format!("No change: {shown} has new_string at line {at} already.")));
        }
        Ok(Step::Splices { splices, notes })
    }

    fn check_count(&self, shown: &str, text: &[u8], found: &Found) -> Result<(), ToolError> {
        let ambiguous = |text: String| Err(ToolError::new(ErrorCode::Ambiguous, text));
        if let (Some(beside), false) = (&found.overlapping, self.replace_all) {
            let places = [&found.places[0].range, beside];
            return ambiguous(format!(
                "old_string stands at places that overlap in {shown}: lines {}. Nothing was changed. Quote more \
                 lines around the one you mean, or set replace_all=true to replace from the first on.\n{}",
                lines_of(text, places, 2),
                neighbours(text, places)
            ));
        }
        let wanted = match self.expected_count {
            Some(wanted) => wanted,
            None if self.replace_all => found.count,
            None => 1,
        };
        if found.count == wanted {
            return check_many(shown, found.count);
        }
        let ranges = || found.places.iter().map(|place| &place.range);
        let loosely = if found.tier == Tier::Exact { "" } else { " (not exactly, but nearly)" };
        ambiguous(format!(
            "old_string stands at {} in {shown}{loosely}, not {wanted}: line{} {}. Nothing was changed. Quote more \
             lines around the one you mean, or set replace_all=true.\n{}",
            counted(found.count, "place"),
            if found.count == 1 { "" } else { "s" },
            lines_of(text, ranges(), found.count),
            neighbours(text, ranges())
        ))
    }

    /// What to say where the new text stood around the place before: the same call may have come twice.
    fn there_before(text: &[u8], old: &str, new: &str, found: &Found) -> Option<String> {
        let [only] = found.places.as_slice() else { return None };
        let at = new.find(old).filter(|_| new.trim().len() >= old.trim().len() + TELLING)?;
        let from = only.range.start.checked_sub(at)?;
        let there = text.get(from..from + new.len())? == new.as_bytes();
        (there && found.tier == Tier::Exact).then(|| {
            format!(
                "new_string stood there before already, at {}; now what it adds is there twice. If the edit had been \
                 made before, take that out again.",
                span(line_of(text, from), new.as_bytes())
            )
        })
    }

    fn not_found(&self, shown: &str, text: &[u8], new: &str) -> Result<Step, ToolError> {
        if new.trim().len() >= TELLING
            && let Some(there) =
                find(text, new).filter(|there| there.places.len() == 1 && there.tier <= Tier::LineEndings)
        {
            let range = &there.places[0].range;
            let line = line_of(text, range.start);
            return Ok(Step::Nothing(format!(
                "No change: old_string is not in {shown}, and new_string is there already, at {}. The edit seems to \
                 be done. If you mean another place, read the file and quote it.",
                span(line, &text[range.clone()])
            )));
        }
        let why = miss::explain(text, &self.old)
            .unwrap_or_else(|| "Nothing in the file is like it. Read the file and quote it.".to_owned());
        let text = format!("old_string is not in {shown}. Nothing was changed.\n{why}");
        Err(ToolError::new(ErrorCode::NoMatch, text))
    }
}

/// Refuses to replace so many places that they would fill the memory.
pub(super) fn check_many(shown: &str, count: u64) -> Result<(), ToolError> {
    if count <= MOST as u64 {
        return Ok(());
    }
    let text = format!(
        "old_string stands at {} in {shown}; {} are replaced at most. Nothing was changed. Replace them with Bash, for \
         example `sed -i`.",
        counted(count, "place"),
        grouped(MOST as u64)
    );
    Err(ToolError::new(ErrorCode::TooLarge, text))
}
