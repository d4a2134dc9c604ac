//! Masking known values and finding what looks like a credential: how fast, and how often on innocent text.
//! `cargo bench --bench redact`; for a folder of sources `cargo bench --bench redact -- hits DIR...`.
//!
//! `hits` counts in the first 150 MB of text below the folders (`--all`: in all of it). In logs it is what patterns would
//! take for a credential, named by rule and file; in results, what is masked there of values that no such text can hold.
#![expect(
    clippy::print_stdout,
    reason = "a bench reads its corpus and says what it found"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use divan::counter::BytesCount;
use divan::{Bencher, black_box};
use punie_text::redact::{Redactor, Secret, find_lookalikes, mask_log_line};

/// As much as a pump reads at once.
const CHUNK: usize = 256 << 10;
const TEXT: usize = 8 << 20;
const MOST: u64 = 150_000_000;

fn main() {
    let args: Vec<String> = std::env::args()
        .skip(1)
        .filter(|arg| arg != "--bench")
        .collect();
    match args.split_first() {
        Some((word, folders)) if word == "hits" => hits(folders),
        _ => divan::main(),
    }
}

/// Numbers that are the same at every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap_or(0) % end
    }

    fn token(&mut self) -> String {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let length = 20 + self.below(40);
        (0..length)
            .map(|_| char::from(LETTERS[self.below(LETTERS.len())]))
            .collect()
    }
}

fn redactor(values: usize) -> Redactor {
    let mut dice = Dice(1);
    Redactor::new((0..values).map(|_| Secret::new(dice.token())))
}

/// Text like source code.
fn source() -> String {
    let mut text = String::with_capacity(TEXT + 100);
    let mut dice = Dice(2);
    while text.len() < TEXT {
        let number = dice.below(10_000);
        let _ = writeln!(
            text,
            "{:1$}let value_{number} = compute(\"{number}\")?;",
            "",
            number % 5 * 4
        );
    }
    text
}

/// What a build prints in colours.
fn coloured() -> String {
    source()
        .lines()
        .flat_map(|line| ["\x1b[1m\x1b[32m", line, "\x1b[0m\n"])
        .collect()
}

#[divan::bench(args = [1, 5, 50, 500])]
fn mask_a_text(bencher: Bencher<'_, '_>, values: usize) {
    let (redactor, text) = (redactor(values), source());
    bencher
        .counter(BytesCount::of_str(&text))
        .bench_local(|| redactor.mask(black_box(&text)).1);
}

fn mask_in_chunks(bencher: Bencher<'_, '_>, text: &str, values: usize) {
    let redactor = redactor(values);
    bencher.counter(BytesCount::of_str(text)).bench_local(|| {
        let (mut stream, mut out) = (redactor.stream_masker(), Vec::with_capacity(2 * CHUNK));
        for chunk in black_box(text).as_bytes().chunks(CHUNK) {
            out.clear();
            stream.push(chunk, &mut out);
        }
        stream.finish(&mut out);
        stream.masked_count()
    });
}

#[divan::bench(args = [1, 5, 50, 500])]
fn mask_a_stream(bencher: Bencher<'_, '_>, values: usize) {
    mask_in_chunks(bencher, &source(), values);
}

#[divan::bench(args = [5, 50])]
fn mask_a_coloured_stream(bencher: Bencher<'_, '_>, values: usize) {
    mask_in_chunks(bencher, &coloured(), values);
}

#[divan::bench]
fn patterns_in_log_lines(bencher: Bencher<'_, '_>) {
    let text = source();
    bencher.counter(BytesCount::of_str(&text)).bench_local(|| {
        black_box(&text)
            .lines()
            .filter(|line| mask_log_line(line).len() != line.len())
            .count()
    });
}

#[divan::bench(args = [5, 50])]
fn learn_one_more_value(bencher: Bencher<'_, '_>, values: usize) {
    let mut dice = Dice(3);
    bencher
        .with_inputs(|| (redactor(values), Secret::new(dice.token())))
        .bench_local_values(|(redactor, value)| redactor.add_secret(&value));
}

fn hits(args: &[String]) {
    let folders: Vec<&String> = args.iter().filter(|arg| *arg != "--all").collect();
    let most = if folders.len() == args.len() {
        MOST
    } else {
        u64::MAX
    };
    let redactor = redactor(50);
    let (mut files, mut bytes, mut masked) = (0_u64, 0_u64, 0);
    let mut found: BTreeMap<&str, Vec<PathBuf>> = BTreeMap::new();
    let mut waiting: Vec<PathBuf> = folders.iter().map(PathBuf::from).rev().collect();
    while let Some(path) = waiting.pop().filter(|_| bytes < most) {
        if path.is_dir() {
            waiting.extend(below(&path));
        } else if let Some(text) = text_of(&path) {
            files += 1;
            bytes += text.len() as u64;
            masked += redactor.mask(&text).1;
            // Line by line, as a log is written.
            for hit in text.lines().flat_map(find_lookalikes) {
                found.entry(hit.rule).or_default().push(path.clone());
            }
        }
    }
    let hits: usize = found.values().map(Vec::len).sum();
    for (rule, places) in &found {
        println!("{rule}: {}", places.len());
        for place in places {
            println!("  {}", place.display());
        }
    }
    println!(
        "{files} files, {bytes} bytes: {hits} hits of patterns in logs, {masked} values masked in results"
    );
}

/// What is in a folder, the last name first; no links and no builds.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .filter_map(Result::ok);
    let real = entries.filter(|entry| entry.file_type().is_ok_and(|kind| !kind.is_symlink()));
    let mut paths: Vec<PathBuf> = real
        .map(|entry| entry.path())
        .filter(|path| !path.ends_with(".git") && !path.ends_with("target"))
        .collect();
    paths.sort_unstable_by(|a, b| b.cmp(a));
    paths
}

/// A file that is text.
fn text_of(path: &Path) -> Option<String> {
    let small = path.metadata().is_ok_and(|meta| meta.len() < 20 << 20);
    let bytes = if small {
        std::fs::read(path).ok()?
    } else {
        return None;
    };
    if bytes.contains(&0) {
        None
    } else {
        String::from_utf8(bytes).ok()
    }
}
