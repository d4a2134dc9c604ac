//! The text of one page of a PDF document: collects the glyphs that the page draws, with their positions.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use hayro_interpret::font::{Glyph, GlyphRun, PositionedGlyph};
use hayro_interpret::hayro_cmap::{BfString, WritingMode};
use hayro_interpret::kurbo::{Affine, BezPath, Point, Rect, Vec2};
use hayro_interpret::{
    BlendMode, ClipPath, Context, Device, DrawMode, DrawProps, Image, ImageDrawProps,
    InterpreterCache, InterpreterSettings, SoftMask, interpret_page,
};
use hayro_syntax::page::Page;
use hayro_syntax::xref::XRef;

use super::document_protocol::PageText;
use super::pdf_line::{PageLine, PlacedGlyph};

/// The most bytes of text per page, more than any book has.
const MAX_PAGE_BYTES: usize = 2 << 20;
/// The number of glyph space units per em.
const UNITS_PER_EM: f64 = 1_000.0;

/// Extracts the text of a page in drawing order. Stops early when the time is up.
pub(super) fn extract_page_text<'a>(
    page: &Page<'a>,
    xref: &'a XRef,
    cache: &InterpreterCache<'a>,
    settings: &InterpreterSettings,
    has_time_left: &dyn Fn() -> bool,
) -> PageText {
    let mut collector = GlyphCollector {
        has_time_left,
        operations: 0,
        glyph_bytes: 0,
        page: PageText::default(),
        line: PageLine::default(),
        last_run: None,
    };
    let mut context = Context::new(
        Affine::IDENTITY,
        Rect::new(0.0, 0.0, 1.0, 1.0),
        cache,
        xref,
        settings.clone(),
    );
    let interpreted = catch_unwind(AssertUnwindSafe(|| {
        interpret_page(page, &mut context, &mut collector);
    }));
    if let Err(fault) = interpreted
        && !fault.is::<PageLimitReached>()
    {
        resume_unwind(fault);
    }
    collector.end_line(false);
    collector.page
}

/// Unwinds the interpreter, which has no other way to stop before the page ends.
struct PageLimitReached;

struct GlyphCollector<'c> {
    has_time_left: &'c dyn Fn() -> bool,
    operations: u32,
    /// The bytes of all glyphs; those of the open line are not in the text yet.
    glyph_bytes: usize,
    page: PageText,
    line: PageLine,
    /// The start and the text of the last run. Bold letters may be the same run drawn twice.
    last_run: Option<(Point, String)>,
}

impl GlyphCollector<'_> {
    /// Counts an operation, and stops the page at too much text or when the time is up.
    fn check_limits(&mut self) {
        self.operations = self.operations.wrapping_add(1);
        let is_late = self.operations.is_multiple_of(1_024) && !(self.has_time_left)();
        if is_late || self.page.text.len().max(self.glyph_bytes) > MAX_PAGE_BYTES {
            resume_unwind(Box::new(PageLimitReached));
        }
    }

    fn place(
        &mut self,
        to_page: Affine,
        glyph: &PositionedGlyph<'_>,
        mode: WritingMode,
    ) -> PlacedGlyph {
        let to_page = to_page * glyph.transform();
        let advance = match &**glyph {
            Glyph::Outline(outline) => outline.advance_width(),
            Glyph::Type3(drawn) => drawn.advance_width(),
        };
        let (advance, forward) = match mode {
            WritingMode::Horizontal => (f64::from(advance.unwrap_or(500.0)), Vec2::new(1.0, 0.0)),
            WritingMode::Vertical => (UNITS_PER_EM, Vec2::new(0.0, -1.0)),
        };
        let across = Vec2::new(-forward.y, forward.x);
        let start = to_page * Point::ZERO;
        let length = |along: Vec2| (to_page * along.to_point() - start).hypot();
        let text = glyph.as_unicode().map(|found| match found {
            BfString::Char(letter) => letter.to_string(),
            BfString::String(letters) => letters,
        });
        self.page.unreadable += u64::from(text.is_none());
        let text = text.unwrap_or_else(|| char::REPLACEMENT_CHARACTER.to_string());
        self.glyph_bytes += text.len();
        let direction = to_page * (forward * UNITS_PER_EM).to_point() - start;
        PlacedGlyph {
            text,
            start,
            direction: direction / direction.hypot().max(f64::MIN_POSITIVE),
            advance: length(forward * advance),
            height: length(across * UNITS_PER_EM).max(0.1),
        }
    }

    fn end_line(&mut self, ends_paragraph: bool) {
        let line = std::mem::take(&mut self.line).into_text();
        let text = &mut self.page.text;
        text.push_str(line.trim_end_matches(' '));
        if text.is_empty() || text.ends_with("\n\n") {
            return;
        }
        text.push('\n');
        if ends_paragraph {
            text.push('\n');
        }
    }
}

impl<'a> Device<'a> for GlyphCollector<'_> {
    fn draw_glyph_run(&mut self, run: &GlyphRun<'_, 'a>, props: DrawProps<'a>, _mode: &DrawMode) {
        let unreadable = self.page.unreadable;
        let mode = run.writing_mode();
        let mut placed = Vec::with_capacity(run.glyphs().len());
        for glyph in run.glyphs() {
            self.check_limits();
            placed.push(self.place(props.transform, glyph, mode));
        }
        let Some(first) = placed.first() else { return };
        let start = first.start;
        let height = first.height;
        let text: String = placed.iter().map(|glyph| glyph.text.as_str()).collect();
        if let Some((last_start, last_text)) = &self.last_run
            && *last_text == text
            && last_start.distance(start) < 0.1 * height
        {
            self.page.unreadable = unreadable;
            return;
        }
        self.last_run = Some((start, text));
        let usual_gap = PageLine::usual_gap(&placed);
        for (at, glyph) in placed.into_iter().enumerate() {
            if let Some(ends_paragraph) = self.line.is_ended_by(&glyph) {
                self.end_line(ends_paragraph);
            }
            let letter_space = if at == 0 { 0.0 } else { usual_gap };
            self.line.add_glyph(glyph, letter_space);
        }
    }

    fn draw_path(&mut self, _: &BezPath, _: DrawProps<'a>, _: &DrawMode) {
        self.check_limits();
    }

    fn draw_image(&mut self, _: Image<'a, '_>, _: ImageDrawProps<'a>) {
        self.check_limits();
    }

    fn push_clip_path(&mut self, _: &ClipPath) {
        self.check_limits();
    }

    fn push_transparency_group(&mut self, _: f32, _: Option<SoftMask<'a>>, _: BlendMode) {
        self.check_limits();
    }

    fn pop_clip(&mut self) {}

    fn pop_transparency_group(&mut self) {}
}
