//! Edit as a call beside the least that the same change of the same file can cost: a file of source code, which is
//! held in memory, and a big one, which is not. `cargo bench --bench edit`.

#![expect(
    clippy::unwrap_used,
    reason = "a measurement that cannot be set up is none"
)]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use divan::{Bencher, black_box};
use memchr::memmem;
use punie_core::ids::RequestId;
use punie_handlers::file::{FileDeps, tools};
use punie_host::Workspace;
use punie_host::local::local_files::LocalFiles;
use punie_tool::{ToolContext, ToolRegistry};
use tempfile::TempDir;

/// The two texts that take each other's place, so that every call changes something.
const WORDS: [&str; 2] = ["the needle in the middle", "the needle is elsewhere!"];

fn main() {
    divan::main();
}

struct Stage {
    dir: TempDir,
    tools: ToolRegistry,
    runtime: tokio::runtime::Runtime,
    calls: usize,
}

impl Stage {
    /// A file of so many bytes, in lines of 64, with one place in its middle.
    fn new(bytes: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut lines: String = (0..bytes / 64)
            .flat_map(|n| [format!("{n:>10} {}\n", "x".repeat(52))])
            .collect();
        let middle = bytes / 2 / 64 * 64 + 20;
        lines.replace_range(middle..middle + WORDS[0].len(), WORDS[0]);
        fs::write(dir.path().join("f"), lines).unwrap();
        let workspace = Workspace::open_roots(&[dir.path().to_owned()]).unwrap();
        let deps = FileDeps::new(Arc::new(LocalFiles::new()), workspace, no_worker());
        let tools = ToolRegistry::new([tools(deps)]).unwrap();
        Self {
            dir,
            tools,
            runtime: tokio::runtime::Runtime::new().unwrap(),
            calls: 0,
        }
    }

    fn words(&mut self) -> (&'static str, &'static str) {
        self.calls += 1;
        if self.calls % 2 == 1 {
            (WORDS[0], WORDS[1])
        } else {
            (WORDS[1], WORDS[0])
        }
    }

    fn edit(&mut self) {
        let (old, new) = self.words();
        let args = format!(r#"{{"file_path":"f","old_string":"{old}","new_string":"{new}"}}"#);
        let call = self.tools.find("Edit").unwrap().decode_call(&args).unwrap();
        let reply = self
            .runtime
            .block_on(call.run_call(ToolContext::for_detached_call(RequestId::new())));
        black_box(reply.unwrap());
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("f")
    }

    /// Read, splice in memory, write beside, sync, rename, sync the folder.
    fn floor_in_memory(&mut self) {
        let (old, new) = self.words();
        let bytes = fs::read(self.path()).unwrap();
        let at = only_place(&bytes, old);
        let temp = self.dir.path().join("f.tmp");
        let mut file = File::create(&temp).unwrap();
        let text = [&bytes[..at], new.as_bytes(), &bytes[at + old.len()..]].concat();
        file.write_all(&text).unwrap();
        put_in_place(&file, &temp, &self.path());
    }

    /// Scan in pieces, copy file to file around the new text, sync, rename, sync the folder.
    fn floor_streamed(&mut self) {
        let (old, new) = self.words();
        let mut file = File::open(self.path()).unwrap();
        let at = scan(&mut file, old);
        let temp = self.dir.path().join("f.tmp");
        let mut to = File::create(&temp).unwrap();
        copy(&file, 0, at, &to);
        to.write_all(new.as_bytes()).unwrap();
        let behind = at + old.len() as u64;
        copy(&file, behind, file.metadata().unwrap().len() - behind, &to);
        put_in_place(&to, &temp, &self.path());
    }
}

fn only_place(bytes: &[u8], old: &str) -> usize {
    let mut places = memmem::find_iter(bytes, old);
    let at = places.next().unwrap();
    assert_eq!(places.next(), None);
    at
}

fn scan(file: &mut File, old: &str) -> u64 {
    let finder = memmem::Finder::new(old);
    let mut buffer = vec![0; 256 << 10];
    let (mut held, mut base, mut found) = (0, 0, Vec::new());
    loop {
        let read = file.read(&mut buffer[held..]).unwrap();
        let full = held + read;
        found.extend(finder.find_iter(&buffer[..full]).map(|at| base + at as u64));
        if read == 0 {
            break;
        }
        let kept = full.min(old.len() - 1);
        buffer.copy_within(full - kept..full, 0);
        (held, base) = (kept, base + (full - kept) as u64);
    }
    let [at] = found.as_slice() else {
        panic!("{} places", found.len())
    };
    *at
}

#[cfg(target_os = "linux")]
fn copy(from: &File, at: u64, len: u64, to: &File) {
    let (mut at, mut left) = (at, usize::try_from(len).unwrap());
    while left > 0 {
        left -= rustix::fs::copy_file_range(from, Some(&mut at), to, None, left).unwrap();
    }
}

#[cfg(not(target_os = "linux"))]
fn copy(mut from: &File, at: u64, len: u64, mut to: &File) {
    use std::io::{Seek, SeekFrom};
    from.seek(SeekFrom::Start(at)).unwrap();
    std::io::copy(&mut from.take(len), &mut to).unwrap();
}

fn put_in_place(file: &File, temp: &Path, target: &Path) {
    file.sync_all().unwrap();
    fs::rename(temp, target).unwrap();
    File::open(target.parent().unwrap())
        .unwrap()
        .sync_all()
        .unwrap();
}

#[divan::bench(sample_count = 200)]
fn small_40_kb(bencher: Bencher<'_, '_>) {
    let mut stage = Stage::new(40 << 10);
    bencher.bench_local(|| stage.edit());
}

#[divan::bench(sample_count = 200)]
fn small_40_kb_floor(bencher: Bencher<'_, '_>) {
    let mut stage = Stage::new(40 << 10);
    bencher.bench_local(|| stage.floor_in_memory());
}

#[divan::bench(sample_count = 20)]
fn big_50_mb(bencher: Bencher<'_, '_>) {
    let mut stage = Stage::new(50 << 20);
    bencher.bench_local(|| stage.edit());
}

#[divan::bench(sample_count = 20)]
fn big_50_mb_floor(bencher: Bencher<'_, '_>) {
    let mut stage = Stage::new(50 << 20);
    bencher.bench_local(|| stage.floor_streamed());
}

/// No document is read here.
fn no_worker() -> punie_host::worker::WorkerProgram {
    punie_host::worker::WorkerProgram {
        program: "no-worker".into(),
        temp_root: std::env::temp_dir(),
        time_zone: None,
    }
}
