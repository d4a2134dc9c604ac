//! What the snapshots before and after a command cost in a git workspace, and the first one, which reads everything.
//! `cargo bench --bench snapshots -- [FILES...]`.
#![expect(
    clippy::print_stdout,
    reason = "a benchmark makes the files that it measures with, and prints its figures"
)]

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use punie_core::ids::RequestId;
use punie_home::Home;
use punie_host::Workspace;
use punie_tool::{BeforeImages as _, DeclaredAccess, RequestedCommand};
use punie_undo::{BeforeImageStore, Trash, TrashLimits};

/// The commands that are measured.
const ROUNDS: usize = 21;
/// The files in a folder, and the bytes in a file.
const FOLDER_FILES: usize = 50;
const FILE_BYTES: usize = 1_000;

fn main() {
    let numbers = std::env::args().skip(1).filter_map(|arg| arg.parse().ok());
    let mut sizes: Vec<usize> = numbers.collect();
    if sizes.is_empty() {
        sizes = vec![100, 1_000, 10_000, 49_000];
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .expect("a runtime");
    for files in sizes {
        runtime.block_on(measure(files));
    }
}

/// Fills a folder, and commits it.
fn make_repository(work: &Path, files: usize) {
    for number in 0..files {
        let folder = work.join(format!("folder{}", number / FOLDER_FILES));
        fs::create_dir_all(&folder).expect("a folder");
        let text = format!("{number}\n").repeat(FILE_BYTES / 5);
        fs::write(folder.join(format!("file{number}")), text).expect("written");
    }
    let line = "git init -q && git add -A && git -c user.name=n -c user.email=e@x commit -qm all";
    let mut shell = Command::new("sh");
    let made = shell.args(["-c", line]).current_dir(work).status();
    assert!(made.expect("a shell").success());
}

async fn measure(files: usize) {
    let dir = tempfile::tempdir().expect("a folder");
    let place = dir.path().canonicalize().expect("a real one");
    let work = place.join("work");
    fs::create_dir(&work).expect("a folder");
    make_repository(&work, files);
    let home = Home::open_home(&place.join("home")).expect("a home");
    let limits = TrashLimits {
        max_bytes: 4 << 30,
        keep: Duration::from_hours(24),
    };
    let workspace = Workspace::open_roots(std::slice::from_ref(&work)).expect("a workspace");
    let images = BeforeImageStore::new(Trash::new(&home, limits), workspace).with_snapshots(true);
    let begun = Instant::now();
    images.prepare_snapshots();
    let first = begun.elapsed();
    let line = RequestedCommand::Line("make".to_owned());
    let access = DeclaredAccess::running_command(line, None);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let request = RequestId::new();
        let begun = Instant::now();
        let is_taken = images.begin_snapshot(&request, "Bash", &access).await;
        assert_eq!(is_taken, Ok(true));
        before.push(begun.elapsed());
        fs::write(work.join("folder0/file0"), format!("{round}")).expect("written");
        let begun = Instant::now();
        images.end_snapshot(&request).await.expect("recorded");
        after.push(begun.elapsed());
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort();
        times[ROUNDS / 2]
    };
    println!(
        "{files} files: before {:.1?}, after {:.1?} (medians of {ROUNDS}); the first {first:.1?}",
        median(&mut before),
        median(&mut after)
    );
}
