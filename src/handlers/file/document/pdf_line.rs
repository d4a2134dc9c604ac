//! One line of a PDF page: derives word spaces from glyph positions, and puts right-to-left text into reading order.

use hayro_interpret::kurbo::{Point, Vec2};
use unicode_bidi::{BidiClass, BidiInfo, Level, bidi_class};
use unicode_normalization::UnicodeNormalization as _;

/// A glyph on a page.
#[derive(Debug)]
pub(super) struct PlacedGlyph {
    pub(super) text: String,
    pub(super) start: Point,
    /// The unit vector along its line.
    pub(super) direction: Vec2,
    pub(super) advance: f64,
    /// The height of the font's letters.
    pub(super) height: f64,
}

impl PlacedGlyph {
    /// The position along the line and across it, relative to this direction.
    fn place_along(&self, direction: Vec2) -> (f64, f64) {
        let start = self.start.to_vec2();
        (start.dot(direction), direction.cross(start))
    }
}

/// The glyphs of a line, each with the usual letter gap of its run.
#[derive(Debug, Default)]
pub(super) struct PageLine {
    glyphs: Vec<(PlacedGlyph, f64)>,
}

impl PageLine {
    /// The gap that a run puts between all its letters, which is not a word space.
    pub(super) fn usual_gap(run: &[PlacedGlyph]) -> f64 {
        const ENOUGH_GAPS: usize = 3;
        let gaps = run.windows(2).map(|pair| {
            let [before, after] = pair else { return 0.0 };
            (after.start - before.start).dot(before.direction) - before.advance
        });
        if run.len() <= ENOUGH_GAPS {
            return 0.0;
        }
        gaps.fold(f64::INFINITY, f64::min).max(0.0)
    }

    /// Returns `Some` if the glyph is on another line; true if a paragraph ends before it.
    pub(super) fn is_ended_by(&self, next: &PlacedGlyph) -> Option<bool> {
        let (last, _) = self.glyphs.last()?;
        if last.direction.dot(next.direction) < 0.99 {
            return Some(false);
        }
        let height = next.height.max(last.height);
        let (_, last_across) = last.place_along(last.direction);
        let (_, next_across) = next.place_along(last.direction);
        let distance = (next_across - last_across).abs();
        (distance > 0.5 * height).then_some(distance > 2.2 * height)
    }

    pub(super) fn add_glyph(&mut self, glyph: PlacedGlyph, letter_space: f64) {
        self.glyphs.push((glyph, letter_space));
    }

    /// Returns the text in reading order.
    pub(super) fn into_text(mut self) -> String {
        let has_right_to_left = self
            .glyphs
            .iter()
            .any(|(glyph, _)| glyph.text.chars().any(is_right_to_left));
        if !has_right_to_left {
            return self.join_glyphs(false);
        }
        if let Some(direction) = self.glyphs.first().map(|(glyph, _)| glyph.direction) {
            let place = |(glyph, _): &(PlacedGlyph, f64)| glyph.place_along(direction).0;
            self.glyphs.sort_by(|a, b| place(a).total_cmp(&place(b)));
        }
        visual_to_logical(&self.join_glyphs(true))
    }

    /// Joins the glyphs with the spaces between words. In visual order the letters of one glyph are
    /// reversed, too.
    fn join_glyphs(&self, in_visual_order: bool) -> String {
        let mut text = String::new();
        let mut last_end: Option<f64> = None;
        for (glyph, letter_space) in &self.glyphs {
            let (along, _) = glyph.place_along(glyph.direction);
            if let Some(end) = last_end {
                let gap = along - end - letter_space;
                let parts = gap > 0.17 * glyph.height || gap < -3.0 * glyph.height;
                if parts && !text.is_empty() && !text.ends_with(' ') {
                    text.push(' ');
                }
            }
            last_end = Some(along + glyph.advance);
            let letters = plain_spelling(&glyph.text);
            if in_visual_order && letters.chars().any(is_right_to_left) {
                text.extend(letters.chars().rev());
            } else {
                text.push_str(&letters);
            }
        }
        text
    }
}

fn is_right_to_left(c: char) -> bool {
    matches!(bidi_class(c), BidiClass::R | BidiClass::AL)
}

/// Replaces ligatures by their letters, and Arabic letters by their plain forms, so that words can
/// be found.
fn plain_spelling(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars().filter(|c| !c.is_control()) {
        if matches!(c, '\u{FB00}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}') {
            plain.extend(std::iter::once(c).nfkc());
        } else {
            plain.push(c);
        }
    }
    plain
}

/// Converts a line from visual order, left to right, to reading order. The bidirectional algorithm
/// is its own inverse for almost all lines.
fn visual_to_logical(seen: &str) -> String {
    let count = |of: fn(BidiClass) -> bool| seen.chars().filter(|c| of(bidi_class(*c))).count();
    let right = count(|class| matches!(class, BidiClass::R | BidiClass::AL));
    let left = count(|class| class == BidiClass::L);
    let base = if right > left {
        Level::rtl()
    } else {
        Level::ltr()
    };
    let info = BidiInfo::new(seen, Some(base));
    let mut text = String::new();
    for paragraph in &info.paragraphs {
        let (levels, runs) = info.visual_runs(paragraph, paragraph.range.clone());
        for run in runs {
            if levels[run.start].is_rtl() {
                text.extend(seen[run].chars().rev().map(mirrored_bracket));
            } else {
                text.push_str(&seen[run]);
            }
        }
    }
    text
}

/// The bracket as typed: right-to-left text draws it mirrored.
fn mirrored_bracket(c: char) -> char {
    match c {
        '(' => ')',
        ')' => '(',
        '[' => ']',
        ']' => '[',
        '{' => '}',
        '}' => '{',
        '<' => '>',
        '>' => '<',
        '«' => '»',
        '»' => '«',
        other => other,
    }
}
