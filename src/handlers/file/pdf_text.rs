//! The text of one page of a PDF document, in the order in which it is drawn: where a line begins and where words part
//! is told from where letters stand. Not here: what letters a string has (pdf_font).

use std::collections::HashMap;
use std::rc::Rc;

use hayro_syntax::content::TypedIter;
use hayro_syntax::content::ops::TypedInstruction;
use hayro_syntax::object::{Dict, Name, Number, Object, Stream};
use hayro_syntax::page::{Page, Resources};

use super::documents::ReadDeadline;
use super::pdf_font::PdfFont;

/// Forms in forms are followed no deeper.
const MAX_FORM_DEPTH: usize = 8;
/// More text than this no page of a book has.
const MAX_PAGE_BYTES: usize = 2 << 20;

/// What a page says.
#[derive(Debug, Default, serde::Serialize, serde::Deserialize)]
pub(super) struct PageText {
    pub text: String,
    /// How many letters could not be told.
    pub unreadable: u64,
}

/// The text of a page.
pub(super) fn extract_page_text(page: &Page<'_>, clock: &ReadDeadline) -> PageText {
    let mut writer = PageTextWriter {
        clock,
        fonts: HashMap::new(),
        out: PageText::default(),
        last: None,
        depth: 0,
    };
    if let Some(content) = page.page_stream() {
        writer.run_content(content, page.resources(), IDENTITY);
    }
    writer.out
}

/// `[a b c d e f]`: how places of one system are places of another.
type Matrix = [f64; 6];

const IDENTITY: Matrix = [1.0, 0.0, 0.0, 1.0, 0.0, 0.0];

/// First `a`, then `b`.
fn multiply_matrices(a: Matrix, b: Matrix) -> Matrix {
    [
        a[0] * b[0] + a[1] * b[2],
        a[0] * b[1] + a[1] * b[3],
        a[2] * b[0] + a[3] * b[2],
        a[2] * b[1] + a[3] * b[3],
        a[4] * b[0] + a[5] * b[2] + b[4],
        a[4] * b[1] + a[5] * b[3] + b[5],
    ]
}

/// What `q` keeps and `Q` brings back.
#[derive(Clone)]
struct GraphicsState {
    to_page: Matrix,
    font: Option<Rc<PdfFont>>,
    size: f64,
    leading: f64,
    letter_space: f64,
    word_space: f64,
}

/// Where a line of text begins and where the next letter goes.
#[derive(Clone, Copy)]
struct TextPosition {
    line: Matrix,
    at: Matrix,
}

impl TextPosition {
    fn move_to_line(&mut self, x: f64, y: f64) {
        self.line = multiply_matrices([1.0, 0.0, 0.0, 1.0, x, y], self.line);
        self.at = self.line;
    }

    fn advance_by(&mut self, by: f64) {
        self.at = multiply_matrices([1.0, 0.0, 0.0, 1.0, by, 0.0], self.at);
    }
}

struct PageTextWriter<'c> {
    clock: &'c ReadDeadline,
    fonts: HashMap<Vec<u8>, Rc<PdfFont>>,
    out: PageText,
    /// Where the last string ended on the page, and how high its letters are.
    last: Option<(f64, f64, f64)>,
    depth: usize,
}

impl PageTextWriter<'_> {
    fn run_content(&mut self, content: &[u8], resources: &Resources<'_>, to_page: Matrix) {
        let first = GraphicsState {
            to_page,
            font: None,
            size: 1.0,
            leading: 0.0,
            letter_space: 0.0,
            word_space: 0.0,
        };
        let mut state = first;
        let mut kept: Vec<GraphicsState> = Vec::new();
        let mut pen = TextPosition {
            line: IDENTITY,
            at: IDENTITY,
        };
        let mut operations = TypedIter::new(content);
        let mut count = 0_u32;
        while let Some(operation) = operations.next() {
            count = count.wrapping_add(1);
            if self.out.text.len() > MAX_PAGE_BYTES
                || (count.is_multiple_of(1_024) && !self.clock.has_time_left())
            {
                return;
            }
            match operation {
                TypedInstruction::SaveState(_) if kept.len() < 256 => kept.push(state.clone()),
                TypedInstruction::RestoreState(_) => state = kept.pop().unwrap_or(state),
                TypedInstruction::Transform(m) => {
                    state.to_page = multiply_matrices(
                        matrix_from([m.0, m.1, m.2, m.3, m.4, m.5]),
                        state.to_page,
                    );
                }
                TypedInstruction::BeginText(_) => {
                    pen = TextPosition {
                        line: IDENTITY,
                        at: IDENTITY,
                    }
                }
                TypedInstruction::TextFont(font) => {
                    state.font = self.load_font(resources, font.0);
                    state.size = font.1.as_f64();
                }
                TypedInstruction::TextLeading(leading) => state.leading = leading.0.as_f64(),
                TypedInstruction::CharacterSpacing(space) => state.letter_space = space.0.as_f64(),
                TypedInstruction::WordSpacing(space) => state.word_space = space.0.as_f64(),
                TypedInstruction::NextLine(by) => pen.move_to_line(by.0.as_f64(), by.1.as_f64()),
                TypedInstruction::NextLineAndSetLeading(by) => {
                    state.leading = -by.1.as_f64();
                    pen.move_to_line(by.0.as_f64(), by.1.as_f64());
                }
                TypedInstruction::SetTextMatrix(m) => {
                    let m = matrix_from([m.0, m.1, m.2, m.3, m.4, m.5]);
                    pen = TextPosition { line: m, at: m };
                }
                TypedInstruction::NextLineUsingLeading(_) => pen.move_to_line(0.0, -state.leading),
                TypedInstruction::ShowText(text) => self.show_string(&state, &mut pen, text.0),
                TypedInstruction::NextLineAndShowText(text) => {
                    pen.move_to_line(0.0, -state.leading);
                    self.show_string(&state, &mut pen, text.0);
                }
                TypedInstruction::ShowTextWithParameters(text) => {
                    (state.word_space, state.letter_space) = (text.0.as_f64(), text.1.as_f64());
                    pen.move_to_line(0.0, -state.leading);
                    self.show_string(&state, &mut pen, text.2);
                }
                TypedInstruction::ShowTexts(texts) => {
                    for item in texts.0.iter::<Object<'_>>() {
                        match item {
                            Object::String(text) => self.show_string(&state, &mut pen, &text),
                            Object::Number(back) => {
                                pen.advance_by(-back.as_f64() / 1_000.0 * state.size)
                            }
                            _ => {}
                        }
                    }
                }
                TypedInstruction::XObject(name) => {
                    if let Some(form) = resources.get_x_object(name.0) {
                        self.run_form(&form, resources, state.to_page);
                    }
                }
                _ => {}
            }
        }
    }

    fn run_form(&mut self, form: &Stream<'_>, around: &Resources<'_>, to_page: Matrix) {
        let is_form = form
            .dict()
            .get::<Name<'_>>("Subtype")
            .is_some_and(|name| name.as_str() == "Form");
        if !is_form || self.depth == MAX_FORM_DEPTH {
            return;
        }
        let Ok(content) = form.decoded_data() else {
            return;
        };
        let mut own = IDENTITY;
        if let Some(numbers) = form.dict().get::<hayro_syntax::object::Array<'_>>("Matrix") {
            for (place, number) in own.iter_mut().zip(numbers.iter::<Number>()) {
                *place = number.as_f64();
            }
        }
        self.depth += 1;
        // Fonts are known by names that are the form's own.
        let outer = std::mem::take(&mut self.fonts);
        match form.dict().get::<Dict<'_>>("Resources") {
            Some(resources) => self.run_content(
                &content,
                &Resources::new(resources),
                multiply_matrices(own, to_page),
            ),
            None => self.run_content(&content, around, multiply_matrices(own, to_page)),
        }
        self.fonts = outer;
        self.depth -= 1;
    }

    fn load_font(&mut self, resources: &Resources<'_>, name: &Name<'_>) -> Option<Rc<PdfFont>> {
        let key: &[u8] = name.as_ref();
        if let Some(known) = self.fonts.get(key) {
            return Some(Rc::clone(known));
        }
        let font = Rc::new(PdfFont::from_font_dict(&resources.get_font(name)?));
        self.fonts.insert(key.to_vec(), Rc::clone(&font));
        Some(font)
    }

    fn show_string(&mut self, state: &GraphicsState, pen: &mut TextPosition, bytes: &[u8]) {
        let Some(font) = &state.font else { return };
        let decoded = font.decode_string(bytes);
        let at = multiply_matrices(pen.at, state.to_page);
        let (x, y) = (at[4], at[5]);
        let height = (state.size * at[3].hypot(at[2])).abs().max(0.1);
        if let Some((last_x, last_y, last_height)) = self.last {
            let high = height.max(last_height);
            let apart = (y - last_y).abs();
            if apart > 0.5 * high {
                self.push_line_break(apart > 2.2 * high);
            } else if x - last_x > 0.17 * height || x < last_x - 3.0 * height {
                self.push_word_space();
            }
        }
        for c in decoded.text.chars().filter(|c| !c.is_control()) {
            match ligature_letters(c) {
                Some(letters) => self.out.text.push_str(letters),
                None => self.out.text.push(c),
            }
        }
        self.out.unreadable += decoded.unreadable;
        let letters = decoded.text.chars().count();
        let words = decoded.text.matches(' ').count();
        #[expect(clippy::cast_precision_loss, reason = "a count of letters on a page")]
        let spaces = letters as f64 * state.letter_space + words as f64 * state.word_space;
        pen.advance_by(decoded.width / 1_000.0 * state.size + spaces);
        let end = multiply_matrices(pen.at, state.to_page);
        self.last = Some((end[4], end[5], height));
    }

    fn push_word_space(&mut self) {
        if !self.out.text.is_empty() && !self.out.text.ends_with([' ', '\n']) {
            self.out.text.push(' ');
        }
    }

    fn push_line_break(&mut self, of_paragraph: bool) {
        let kept = self.out.text.trim_end_matches(' ').len();
        self.out.text.truncate(kept);
        if self.out.text.is_empty() || self.out.text.ends_with("\n\n") {
            return;
        }
        self.out.text.push('\n');
        if of_paragraph {
            self.out.text.push('\n');
        }
    }
}

/// Letters that are drawn as one, so that a word is found by how it is written.
fn ligature_letters(c: char) -> Option<&'static str> {
    let at = u32::from(c).checked_sub(0xFB00)?;
    ["ff", "fi", "fl", "ffi", "ffl"]
        .get(usize::try_from(at).ok()?)
        .copied()
}

fn matrix_from(numbers: [Number; 6]) -> Matrix {
    numbers.map(|number| number.as_f64())
}
