//! The first line at which a quoted block differs from the file by more than the matcher ignores.

use super::line_diff_hint::{self, QuotedLinePart};
use super::match_tier::{MatchTier, PlainLine, split_indent};
use super::reindent::IndentShift;

/// The number of the first line that really differs, with a sentence that describes the difference.
/// `None` if the matcher ignores every difference. The file's lines are paired with the quoted
/// ones; there may be fewer of them.
pub(super) fn find_first_difference(
    file: &[&[u8]],
    quoted: &[&str],
    ends_whole: bool,
) -> Option<(usize, String)> {
    let part = |at: usize| QuotedLinePart {
        begins_inside: at == 0,
        ends_inside: at + 1 == quoted.len() && !ends_whole,
    };
    let pairs: Vec<(Vec<u8>, Vec<u8>)> = file
        .iter()
        .zip(quoted)
        .map(|(file, quoted)| (plain_line_bytes(file), plain_line_bytes(quoted.as_bytes())))
        .collect();
    let fits_here = |at: usize| {
        let (there, wanted) = &pairs[at];
        part(at).matches_in(there, wanted)
            || QuotedLinePart {
                ends_inside: false,
                ..part(at)
            }
            .matches_in(there.trim_ascii_end(), wanted.trim_ascii_end())
    };
    let shift = first_indent_shift(&pairs);
    let fits_indented = |at: usize| {
        let (there, wanted) = &pairs[at];
        shift.as_ref().is_some_and(|shift| {
            is_shifted_line(there.trim_ascii_end(), wanted.trim_ascii_end(), shift)
        })
    };
    let length = |fits: &dyn Fn(usize) -> bool| (0..pairs.len()).take_while(|at| fits(*at)).count();
    let here = length(&fits_here);
    let indented = length(&fits_indented);
    let at = here.max(indented);
    let (there, wanted) = pairs.get(at)?;
    let there = there.trim_ascii_end();
    let wanted = wanted.trim_ascii_end();
    let there_core = split_indent(there).1;
    let wanted_core = split_indent(wanted).1;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    // Lines that are not all shifted equally differ in that, too; otherwise indentation is not the
    // cause.
    let mut said = if indented > here && there_core != wanted_core {
        let whole = QuotedLinePart {
            begins_inside: false,
            ends_inside: false,
        };
        line_diff_hint::explain_line_difference(there_core, &text(wanted_core), whole)
    } else {
        line_diff_hint::explain_line_difference(there, &text(wanted), part(at))
    };
    if indented > here && there_core == wanted_core {
        said.push_str(" The lines before it are all indented otherwise by the same amount.");
    }
    Some((at, said))
}

/// The line in the normalized form that the matcher compares.
fn plain_line_bytes(line: &[u8]) -> Vec<u8> {
    PlainLine::from_line(line, MatchTier::Indentation)
        .bytes
        .into_owned()
}

/// The indentation of the first nonblank line relative to its quote.
fn first_indent_shift(pairs: &[(Vec<u8>, Vec<u8>)]) -> Option<IndentShift> {
    let (there, wanted) = pairs
        .iter()
        .find(|(_, wanted)| !wanted.trim_ascii().is_empty())?;
    IndentShift::between(split_indent(there).0, split_indent(wanted).0)
}

fn is_shifted_line(there: &[u8], wanted: &[u8], shift: &IndentShift) -> bool {
    if wanted.is_empty() {
        return there.is_empty();
    }
    match shift {
        IndentShift::Same => there == wanted,
        IndentShift::Deeper(more) => there.strip_prefix(more.as_slice()) == Some(wanted),
        IndentShift::Shallower(less) => wanted.strip_prefix(less.as_slice()) == Some(there),
        IndentShift::Columns { .. } => false,
    }
}
