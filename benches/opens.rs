//! What it costs to open a file beneath a workspace, over opening it by its path: five names deep, 20,000 times each.
//! `cargo bench --bench opens`.

use std::fs::File;
use std::path::PathBuf;

use divan::{Bencher, black_box};
use punie_host::{RawPath, Workspace};
use tempfile::TempDir;

fn main() {
    divan::main();
}

struct Place {
    _dir: TempDir,
    workspace: Workspace,
    file: PathBuf,
}

impl Place {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let root = dir.path().canonicalize().expect("a real one");
        let file = root.join("a/b/c/d/file");
        std::fs::create_dir_all(file.parent().expect("a parent")).expect("folders");
        std::fs::write(&file, "text\n").expect("written");
        let workspace = Workspace::open_roots(&[root]).expect("a workspace");
        Self {
            _dir: dir,
            workspace,
            file,
        }
    }
}

/// By the whole path, as any program does.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn plain(bencher: Bencher<'_, '_>) {
    let place = Place::new();
    bencher.bench_local(|| File::open(black_box(&place.file)).expect("it opens"));
}

/// A path that was found in the workspace before, beneath the folder that is held: one system call, as searches do.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn beneath(bencher: Bencher<'_, '_>) {
    let place = Place::new();
    bencher.bench_local(|| {
        place
            .workspace
            .open_found_file(black_box(&place.file))
            .expect("it opens")
    });
}

/// A path as a model wrote it: proven, looked at without opening, opened, and looked at again, as Read does.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn asked_for(bencher: Bencher<'_, '_>) {
    let place = Place::new();
    let asked = RawPath::from(place.file.to_str().expect("text"));
    bencher.bench_local(|| {
        let path = place
            .workspace
            .resolve_inside(black_box(&asked))
            .expect("it is inside");
        path.open_for_reading().expect("it opens")
    });
}

/// The check that is no boundary, for comparison: where does the path lead, is that inside, then open the path.
#[divan::bench(sample_count = 200, sample_size = 100)]
fn by_path(bencher: Bencher<'_, '_>) {
    let place = Place::new();
    let root = place.workspace.first_root().to_owned();
    bencher.bench_local(|| {
        let real = std::fs::canonicalize(black_box(&place.file)).expect("it is there");
        assert!(real.starts_with(&root));
        File::open(&place.file).expect("it opens")
    });
}
