//! Loading the skills of a home: how long 1,000 take. `cargo bench --bench skills`.

use std::fmt::Write as _;

use divan::Bencher;
use punie_home::{CopyTexts, Home, load_skills};
use tempfile::TempDir;

const COUNT: usize = 1_000;

fn main() {
    divan::main();
}

/// A home with skills as long as usual ones, 8 KiB each.
fn home() -> (TempDir, Home) {
    let dir = tempfile::tempdir().expect("a folder");
    let home = Home::open_home(&dir.path().join("home")).expect("a new home");
    for n in 0..COUNT {
        let folder = home.skills_dir().join(format!("skill-{n:04}"));
        std::fs::create_dir(&folder).expect("made");
        let mut text = format!(
            "---\nname: skill-{n:04}\ndescription: Use it for the task {n}, when a bench asks for it.\nlicense: MIT\n\
             metadata:\n  author: nobody\n  tags: [a, b]\nallowed-tools: Read Bash(git add:*)\n---\n"
        );
        for line in 0..120 {
            let _ = writeln!(
                text,
                "{line}. Do this, and then the next thing that is in the list."
            );
        }
        std::fs::write(folder.join("SKILL.md"), text).expect("written");
    }
    (dir, home)
}

/// As commands load them.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn load_1_000(bencher: Bencher<'_, '_>) {
    let (_dir, home) = home();
    bencher.bench_local(|| {
        let (skills, problems) = load_skills(&home, CopyTexts::No);
        assert_eq!((skills.len(), problems.len()), (COUNT, 0));
    });
}

/// As the runner loads them, with the copies that stay in force while a file is broken, and as it publishes them.
#[divan::bench(sample_count = 20, sample_size = 1)]
fn load_and_publish_1_000(bencher: Bencher<'_, '_>) {
    let (_dir, home) = home();
    bencher.bench_local(|| {
        let (skills, _) = load_skills(&home, CopyTexts::Yes);
        let items = skills.iter().map(punie_home::Skill::catalog_item);
        assert_eq!(items.count(), COUNT);
    });
}
