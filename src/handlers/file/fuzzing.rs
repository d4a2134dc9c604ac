//! Invariants of quoted texts and of patches, for the fuzz targets and their seeds. Absent from release builds.

use super::edit_sequence::apply_splices;
use super::match_tier::MatchTier;
use super::patch::apply_hunks::apply_hunks;
use super::patch::parse::parse_patch;
use super::patch::{Hunk, Patch, SectionAction};
use super::unified_diff::diff_splices;
use super::{no_match_hint, quote_search};
use punie_host::files::ByteSplice;
use punie_text::output::SecretBoundaries;

/// Between the parts of an input.
const BETWEEN: u8 = 0x1E;

/// Parses a patch, which comes after a text, and places the hunks of each of its files in the text.
///
/// # Panics
/// Where they overlap, or the diff of the result makes another one.
pub fn patch(data: &[u8]) {
    let (text, patch) = halves(data);
    let Ok(patch) = parse_patch(&String::from_utf8_lossy(patch)) else {
        return;
    };
    for section in &patch.sections {
        let (SectionAction::Update { hunks, .. } | SectionAction::Delete { hunks: Some(hunks) }) =
            &section.action
        else {
            continue;
        };
        let Ok((splices, _)) = apply_hunks(text, hunks, &SecretBoundaries::default(), &|| false)
        else {
            continue;
        };
        check_order(text, &splices);
        let new = apply_splices(text, &splices);
        if std::str::from_utf8(text).is_err()
            || std::str::from_utf8(&new).is_err()
            || splices.is_empty()
        {
            continue;
        }
        let diff = diff_splices("f", text, &splices);
        let again = hunks_of(&parse_patch(&diff).unwrap_or_else(|error| panic!("{error}\n{diff}")));
        let (splices, _) = apply_hunks(text, &again, &SecretBoundaries::default(), &|| false)
            .unwrap_or_else(|trouble| panic!("{trouble:?}\n{diff}"));
        assert_eq!(
            apply_splices(text, &splices),
            new,
            "the diff gives other bytes:\n{diff}"
        );
    }
}

fn hunks_of(patch: &Patch) -> Vec<Hunk> {
    match &patch.sections[0].action {
        SectionAction::Update { hunks, .. } => hunks.clone(),
        other => panic!("{other:?}"),
    }
}

fn check_order(text: &[u8], splices: &[ByteSplice]) {
    let mut at = 0;
    for splice in splices {
        assert!(
            at <= splice.range.start && splice.range.start <= splice.range.end,
            "{splices:?}"
        );
        assert_ne!(text[splice.range.clone()], *splice.with);
        at = splice.range.end;
    }
    assert!(at <= text.len());
}

/// Finds a quoted text in a text and replaces it by a third one, or explains the failed search.
///
/// # Panics
/// Where the places overlap, or are not what was quoted.
pub fn edit(data: &[u8]) {
    let (text, rest) = halves(data);
    let (old, new) = halves(rest);
    let old = &*String::from_utf8_lossy(old);
    let new = &*String::from_utf8_lossy(new);
    if old.is_empty() {
        return;
    }
    let Some(found) = quote_search::find_quote(text, old, MatchTier::Indentation) else {
        let _ = no_match_hint::explain_unmatched_quote(text, old, &SecretBoundaries::default());
        return;
    };
    assert!(!found.places.is_empty());
    let mut at = 0;
    for place in &found.places {
        assert!(
            at <= place.range.start
                && place.range.start <= place.range.end
                && place.range.end <= text.len()
        );
        at = place.range.end;
        let _ = quote_search::fit_replacement(text, old, new, found.tier, place);
        if found.tier == super::match_tier::MatchTier::Exact {
            // A line feed at the front includes its carriage return.
            let there = &text[place.range.clone()];
            assert!(there == old.as_bytes() || there.strip_prefix(b"\r") == Some(old.as_bytes()));
            // Replacing a text by itself changes nothing, in a file with any line endings.
            if !text.contains(&b'\r') {
                let same = quote_search::fit_replacement(text, old, old, found.tier, place);
                assert_eq!(same, old.as_bytes());
            }
        }
    }
}

fn halves(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == BETWEEN) {
        Some(at) => (&data[..at], &data[at + 1..]),
        None => (data, &[]),
    }
}
