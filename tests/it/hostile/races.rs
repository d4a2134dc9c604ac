//! Paths that change between check and use: a folder that alternates with a link to outside, and a parent that is
//! replaced before the rename. A common check by path runs in the same race as a control. If it never led outside, the
//! race would prove nothing.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use punie_core::ids::RequestId;
use punie_host::files::{NewContent, WritePrecondition, WriteTextFile};
use punie_host::local::local_files::{LocalFiles, place_staged_write, stage_prepared_write};
use punie_host::{FileClient, RawPath};
use punie_tool::ToolContext;
use serde_json::json;
use tempfile::TempDir;

use crate::file::Bench;
use crate::harness::flip::FlippingNames;
use crate::harness::tools::reply_text;

/// The number of tries of one tool, of served tries, and of tries that led outside.
#[derive(Debug, Default)]
struct TryCount {
    tries: u32,
    served: u32,
    escapes: u32,
}

impl TryCount {
    /// Counts a try and returns true, until `least` tries are made and the race has shown something. A busy machine may
    /// exchange the names slowly, so there may be a hundred times as many tries.
    fn goes_on(&mut self, least: u32, has_shown: impl Fn(&Self) -> bool) -> bool {
        let goes_on =
            self.tries < least || !has_shown(self) && self.tries < least.saturating_mul(100);
        self.tries += u32::from(goes_on);
        goes_on
    }
}

/// A folder `sub` of the workspace that is exchanged with a link to outside. It lies in memory where possible: a
/// million writes must not wait for a disk.
struct LinkRace {
    bench: Bench,
    sub: PathBuf,
    link: PathBuf,
}

const INSIDE: &str = "inside one\n";
/// Contains the text that the edit replaces, so that an edit that led outside would succeed.
const OUTSIDE: &str = "secret one\n";

impl LinkRace {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() {
            TempDir::new_in(memory)
        } else {
            TempDir::new()
        };
        let bench = Bench::at(dir.expect("a folder"), Arc::new(LocalFiles::new()));
        bench.put("sub/f", INSIDE);
        fs::write(bench.outside.join("f"), OUTSIDE).expect("written");
        let sub = bench.root.join("sub");
        let link = bench.root.join("link");
        symlink(&bench.outside, &link).expect("a link");
        Self { bench, sub, link }
    }

    fn flip(&self) -> FlippingNames {
        FlippingNames::start(&self.sub, &self.link)
    }

    /// Returns true if something outside has changed, and restores it.
    fn is_changed_outside(&self) -> bool {
        let outside = &self.bench.outside;
        let f = outside.join("f");
        let names = fs::read_dir(outside).expect("there").count();
        if names == 1 && fs::read_to_string(&f).is_ok_and(|text| text == OUTSIDE) {
            return false;
        }
        for entry in fs::read_dir(outside).expect("there") {
            fs::remove_file(entry.expect("an entry").path()).expect("removed");
        }
        fs::write(f, OUTSIDE).expect("written");
        true
    }

    async fn read(&self, tries: u32) -> TryCount {
        let mut count = TryCount::default();
        while count.goes_on(tries, |count| count.served > 0) {
            if let Ok(reply) = self.bench.call("Read", json!({"file_path": "sub/f"})).await {
                count.served += 1;
                count.escapes += u32::from(reply_text(&reply).contains("secret"));
            }
        }
        count
    }

    async fn list(&self, tries: u32) -> TryCount {
        fs::write(self.bench.outside.join("secret"), "").expect("written");
        let mut count = TryCount::default();
        while count.goes_on(tries, |count| count.served > 0) {
            if let Ok(reply) = self.bench.call("list_files", json!({"path": "sub"})).await {
                count.served += 1;
                count.escapes += u32::from(reply_text(&reply).contains("secret"));
            }
        }
        fs::remove_file(self.bench.outside.join("secret")).expect("removed");
        count
    }

    async fn write(&self, tries: u32) -> TryCount {
        let mut count = TryCount::default();
        while count.goes_on(tries, |count| count.served > 0) {
            let args = json!({"file_path": "sub/new", "content": format!("{}\n", count.tries)});
            count.served += u32::from(self.bench.call("Write", args).await.is_ok());
            count.escapes += u32::from(self.is_changed_outside());
        }
        count
    }

    async fn edit(&self, tries: u32) -> TryCount {
        let mut count = TryCount::default();
        let mut old = "one";
        let mut new = "two";
        while count.goes_on(tries, |count| count.served > 0) {
            let args = json!({"file_path": "sub/f", "old_string": old, "new_string": new});
            if self.bench.call("Edit", args).await.is_ok() {
                count.served += 1;
                std::mem::swap(&mut old, &mut new);
            }
            count.escapes += u32::from(self.is_changed_outside());
        }
        count
    }

    /// Resolves the path, checks that it is inside, then opens the path again. This check is no boundary.
    fn by_path(&self, tries: u32) -> TryCount {
        let mut count = TryCount::default();
        let asked = self.sub.join("f");
        while count.goes_on(tries, |count| count.escapes > 0) {
            let is_inside =
                fs::canonicalize(&asked).is_ok_and(|real| real.starts_with(&self.bench.root));
            if is_inside && let Ok(read) = fs::read_to_string(&asked) {
                count.served += 1;
                count.escapes += u32::from(read.contains("secret"));
            }
        }
        count
    }

    /// Makes this number of tries with every tool, and returns their counts. The last is the check by path.
    async fn run(&self, tries: u32) -> [(&'static str, TryCount); 5] {
        let flip = self.flip();
        let counts = [
            ("Read", self.read(tries).await),
            ("list_files", self.list(tries).await),
            ("Write", self.write(tries).await),
            ("Edit", self.edit(tries).await),
            ("by path", self.by_path(tries)),
        ];
        drop(flip);
        counts
    }
}

/// Checks that only the check by path led outside, and that each tool was served at least once.
fn check_counts(counts: &[(&str, TryCount)]) {
    for (tool, count) in counts {
        assert!(
            count.served > 0,
            "{tool} never served a call, so the race proves nothing: {count:?}"
        );
        if *tool == "by path" {
            assert!(
                count.escapes > 0,
                "the check by path never led outside, so the race proves nothing: {count:?}"
            );
        } else {
            assert_eq!(count.escapes, 0, "{tool} led outside: {count:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "slow: `.ci/run` runs it"]
async fn h24_a_folder_exchanged_with_a_link_leads_no_tool_outside() {
    check_counts(&LinkRace::new().run(5_000).await);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "minutes: a million tries, by name, with --nocapture for its figures"]
#[expect(clippy::print_stdout, reason = "its figures are what it is run for")]
async fn only_by_name_a_million_tries_under_exchange() {
    let race = LinkRace::new();
    let counts = race.run(250_000).await;
    for (
        tool,
        TryCount {
            tries,
            served,
            escapes,
        },
    ) in &counts
    {
        println!("{tool:<12} {tries:>9} tries {served:>9} served {escapes:>9} escapes");
    }
    check_counts(&counts);
}

#[tokio::test]
async fn h25_a_parent_replaced_by_a_link_before_the_renaming_keeps_the_write_inside() {
    for exists in [true, false] {
        let bench = Bench::new();
        bench.put("d/f", "old\n");
        let name = if exists { "f" } else { "new" };
        let path = bench
            .workspace
            .resolve_inside(&RawPath::from(format!("d/{name}").as_str()))
            .expect("inside");
        let client = LocalFiles::new();
        let cx = ToolContext::for_detached_call(RequestId::new());
        let request = WriteTextFile {
            path: path.clone(),
            content: NewContent::Text("written\n".to_owned()),
            only_if: WritePrecondition::None,
            create_folders: true,
            executable: None,
        };
        let prepared = client.prepare_file(&cx, request).await.expect("checked");
        let staged = stage_prepared_write(&cx, prepared)
            .await
            .expect("the temporary file is there");
        let beside: Vec<_> = fs::read_dir(bench.root.join("d")).expect("there").collect();
        assert_eq!(
            beside.len(),
            2,
            "the temporary file must lie beside its file: {beside:?}"
        );
        fs::rename(bench.root.join("d"), bench.root.join("moved")).expect("moved");
        symlink(&bench.outside, bench.root.join("d")).expect("a link");
        place_staged_write(&cx, staged)
            .await
            .expect("placed where it was staged");
        assert_eq!(bench.get(&format!("moved/{name}")), "written\n");
        assert_eq!(
            fs::read_to_string(bench.outside.join("f")).expect("there"),
            "secret\n"
        );
        assert_eq!(fs::read_dir(&bench.outside).expect("there").count(), 1);
        path.open_for_reading()
            .expect_err("a folder of the path is a link now");
    }
}
