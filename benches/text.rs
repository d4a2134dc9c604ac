//! What every answer's text goes through: masking, clipping, cleaning. `cargo bench --bench text`.

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use punie_text::output::terminal_text::{TerminalTextCleaner, Utf8Decoder};
use punie_text::output::text_budget::clip_to_budget;
use punie_text::output::{HeadTail, TextBudget};
use punie_text::redact::{Redactor, Secret};

const SIZES: &[usize] = &[40 << 10, 4 << 20];
/// As much as a pump reads at once.
const CHUNK: usize = 256 << 10;

fn main() {
    divan::main();
}

/// Text like source code.
fn source(bytes: usize) -> String {
    lines(bytes, |n| {
        format!(
            "{:indent$}let value_{n} = compute(\"{n}\");\n",
            "",
            indent = n % 5 * 4
        )
    })
}

/// Text without any repetition to speak of.
fn dense(bytes: usize) -> String {
    let mut state = 1_u64;
    lines(bytes, |_| {
        let mut line: String = (0..76)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                char::from(
                    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
                        [(state >> 58) as usize],
                )
            })
            .collect();
        line.push('\n');
        line
    })
}

/// What a build prints: colours and a progress line that is drawn again and again.
fn coloured(bytes: usize) -> String {
    lines(bytes, |n| {
        format!("\x1b[32m   Compiling\x1b[0m crate-{n} v1.0\n\r{n}/900: crate-{n}\x1b[K")
    })
}

fn lines(bytes: usize, mut line: impl FnMut(usize) -> String) -> String {
    let mut text = String::with_capacity(bytes + 200);
    let mut number = 0;
    while text.len() < bytes {
        text += &line(number);
        number += 1;
    }
    text
}

/// Two tokens, as a runner and a caller on one machine have them.
fn redactor() -> Redactor {
    let tokens = [
        "6bbe59e72600f6506c2090754f7a424e",
        "b183ce02ca6a33e375af8e83329ff9d5",
    ];
    Redactor::new(tokens.iter().map(|token| Secret::new(token.repeat(2))))
}

#[divan::bench(args = SIZES)]
fn mask_source(bencher: Bencher<'_, '_>, bytes: usize) {
    let (redactor, text) = (redactor(), source(bytes));
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| redactor.mask(black_box(&text)).1);
}

#[divan::bench(args = SIZES)]
fn mask_dense(bencher: Bencher<'_, '_>, bytes: usize) {
    let (redactor, text) = (redactor(), dense(bytes));
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| redactor.mask(black_box(&text)).1);
}

#[divan::bench(args = SIZES)]
fn mask_stream(bencher: Bencher<'_, '_>, bytes: usize) {
    let (redactor, text) = (redactor(), dense(bytes));
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let (mut stream, mut out) = (redactor.stream_masker(), Vec::with_capacity(CHUNK));
        for chunk in black_box(&text).as_bytes().chunks(CHUNK) {
            out.clear();
            stream.push(chunk, &mut out);
        }
        stream.masked_count()
    });
}

#[divan::bench(args = SIZES)]
fn clip_source(bencher: Bencher<'_, '_>, bytes: usize) {
    let text = source(bytes);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        clip_to_budget(black_box(&text), TextBudget::from_requested(None), None).omitted_bytes
    });
}

#[divan::bench(args = SIZES)]
fn head_and_tail(bencher: Bencher<'_, '_>, bytes: usize) {
    let text = source(bytes);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let mut kept = HeadTail::new(TextBudget::from_requested(None));
        kept.push(black_box(&text));
        kept.line_count()
    });
}

#[divan::bench(args = SIZES)]
fn decode(bencher: Bencher<'_, '_>, bytes: usize) {
    let text = source(bytes);
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        let (mut decoder, mut out) = (Utf8Decoder::default(), String::with_capacity(bytes));
        decoder.push(black_box(text.as_bytes()), &mut out);
        out.len()
    });
}

#[divan::bench(args = SIZES)]
fn clean_plain(bencher: Bencher<'_, '_>, bytes: usize) {
    clean(bencher, &source(bytes));
}

#[divan::bench(args = SIZES)]
fn clean_coloured(bencher: Bencher<'_, '_>, bytes: usize) {
    clean(bencher, &coloured(bytes));
}

fn clean(bencher: Bencher<'_, '_>, text: &str) {
    bencher.counter(BytesCount::of_str(text)).bench_local(|| {
        let (mut cleaner, mut out) = (
            TerminalTextCleaner::default(),
            String::with_capacity(text.len()),
        );
        cleaner.push(black_box(text), &mut out);
        out.len()
    });
}
