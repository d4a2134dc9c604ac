//! Hostile paths by their numbers, for every tool that takes a path. Other hostile paths are tested in
//! src/handlers/tests/it/file/paths.rs, `protected` and `races`.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot set up its files has failed"
)]

use std::fs;
use std::os::unix::fs::symlink;

use serde_json::json;

use crate::file::Bench;

/// Checks that every file tool refuses the path because it is outside, and that the folder outside is unchanged.
async fn leads_out(bench: &Bench, path: &str) {
    let updated =
        format!("*** Begin Patch\n*** Update File: {path}\n@@\n-secret\n+x\n*** End Patch");
    let added = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    for (tool, args) in cases! {
        ("Read", json!({"file_path": path})),
        ("Write", json!({"file_path": path, "content": "x"})),
        ("Edit", json!({"file_path": path, "old_string": "secret", "new_string": "x"})),
        ("Edit", json!({"file_path": path, "old_string": "", "new_string": "x"})),
        (
            "MultiEdit",
            json!({"file_path": path, "edits": [{"old_string": "secret", "new_string": "x"}]}),
        ),
        ("ApplyPatch", json!({"patch": updated})),
        ("ApplyPatch", json!({"patch": added})),
        ("read_file", json!({"path": path})),
        ("write_file", json!({"path": path, "content": "x"})),
        ("list_files", json!({"path": path})),
    } {
        let error = bench.refused(tool, args).await;
        assert_error!(error, OutsideWorkspace; "{tool} {path}");
        assert_lacks!(error.model_text(), "secret"; "{tool} {path}");
    }
    assert_eq!(
        fs::read_to_string(bench.outside.join("f")).unwrap(),
        "secret\n",
        "{path}"
    );
    let beside: Vec<_> = fs::read_dir(&bench.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(beside, ["f"], "{path}");
}

/// Creates a workspace with folders, and links with these names and targets.
fn with_links(links: &[(&str, &str)]) -> Bench {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.join("a/b")).unwrap();
    for (link, target) in links {
        symlink(
            target.replace("OUTSIDE", bench.outside.to_str().unwrap()),
            bench.root.join(link),
        )
        .unwrap();
    }
    bench
}

#[tokio::test]
async fn h01_a_path_that_begins_above_is_refused() {
    let bench = with_links(&[]);
    leads_out(&bench, "../root-evil/f").await;
    leads_out(&bench, "../x").await;
    let error = bench.refused("read_file", json!({"path": "../x"})).await;
    assert_starts_with!(error.model_text(), "Error: Security violation\n");
}

#[tokio::test]
async fn h02_a_path_that_climbs_out_later_is_refused_whether_its_folders_are_there_or_not() {
    let bench = with_links(&[]);
    leads_out(&bench, "a/../../root-evil/f").await;
    leads_out(&bench, "none/../../root-evil/f").await;
}

#[tokio::test]
async fn h03_an_absolute_path_outside_is_refused() {
    let bench = with_links(&[]);
    leads_out(&bench, "/etc/passwd").await;
    leads_out(&bench, bench.outside.join("f").to_str().unwrap()).await;
    leads_out(&bench, "//etc//passwd").await;
}

#[tokio::test]
async fn h04_a_sibling_whose_name_begins_alike_is_refused() {
    let bench = with_links(&[]);
    let root = bench.root.to_str().unwrap();
    let sibling = bench.outside.to_str().unwrap();
    assert_starts_with!(sibling, root; "the sibling's name must begin with the workspace's name");
    leads_out(&bench, &format!("{sibling}/f")).await;
    leads_out(&bench, &format!("{root}-evil/../root-evil/f")).await;
}

#[tokio::test]
async fn h05_a_path_that_climbs_more_often_than_it_descends_is_refused() {
    let bench = with_links(&[]);
    leads_out(&bench, "a/b/../../../root-evil/f").await;
    let climbing = format!("{}/a/b/../../../root-evil/f", bench.root.display());
    leads_out(&bench, &climbing).await;
}

/// Checks that reads and writes through the path reach the file at this place.
async fn stays_inside(bench: &Bench, path: &str, place: &str) {
    bench.put(place, "here\n");
    let shown = bench.read(json!({"file_path": path})).await;
    assert_contains!(shown, "     1\there\n"; "{path}");
    let args = json!({"file_path": path, "old_string": "here", "new_string": "there"});
    bench.ok("Edit", args).await;
    assert_eq!(bench.get(place), "there\n", "{path}");
    bench
        .ok("Write", json!({"file_path": path, "content": "anew\n"}))
        .await;
    assert_eq!(bench.get(place), "anew\n", "{path}");
}

#[tokio::test]
async fn h06_a_path_that_climbs_and_stays_inside_is_served() {
    let bench = with_links(&[]);
    for path in ["./a/../top", "a/b/../../top", "a//b/./../..//top"] {
        stays_inside(&bench, path, "top").await;
    }
}

#[tokio::test]
async fn h07_an_absolute_path_inside_is_served() {
    let bench = with_links(&[]);
    let root = bench.root.display();
    for path in [format!("{root}/a/top"), format!("{root}//a/./b/../top")] {
        stays_inside(&bench, &path, "a/top").await;
    }
}

#[tokio::test]
async fn h08_a_link_to_an_absolute_path_outside_is_refused_and_named() {
    let bench = with_links(&[
        ("abs", "OUTSIDE"),
        ("file", "OUTSIDE/f"),
        ("new", "OUTSIDE/new"),
    ]);
    for path in ["abs/f", "a/../abs/f", "file", "new", "abs/../x"] {
        leads_out(&bench, path).await;
    }
    let error = bench.refused("Read", json!({"file_path": "abs/f"})).await;
    assert_contains!(error.model_text(), "root/abs", "root-evil");
}

#[tokio::test]
async fn h09_a_relative_link_outside_is_refused_however_many_there_are() {
    let bench = with_links(&[
        ("rel", "../root-evil"),
        ("hop", "a/../../root-evil"),
        ("dangling", "../root-evil/new"),
        ("first", "second"),
        ("second", "rel"),
        ("a/up", "../.."),
    ]);
    for path in ["rel/f", "hop/f", "dangling", "first/f", "a/up/root-evil/f"] {
        leads_out(&bench, path).await;
    }
}

#[tokio::test]
async fn h10_a_link_to_a_folder_inside_is_served() {
    let bench = with_links(&[("dir", "a/b"), ("twice", "dir"), ("a/over", "../a/b")]);
    symlink(bench.root.join("a/b"), bench.root.join("absdir")).unwrap();
    for path in ["dir/deep", "twice/deep", "a/over/deep", "absdir/deep"] {
        stays_inside(&bench, path, "a/b/deep").await;
    }
}

#[tokio::test]
async fn h12_a_link_to_the_root_of_a_process_is_refused() {
    let own = format!("/proc/{}/root/etc", std::process::id());
    let bench = with_links(&[
        ("proc", "/proc/self/root/etc"),
        ("own", &own),
        ("cwd", "/proc/self/cwd"),
    ]);
    for path in [
        "proc/passwd",
        "own/passwd",
        "cwd/Cargo.toml",
        "/proc/self/root/etc/passwd",
    ] {
        leads_out(&bench, path).await;
    }
}

#[tokio::test]
async fn h13_open_files_are_not_reached_by_path() {
    let bench = with_links(&[("in", "/dev/stdin"), ("fds", "/proc/self/fd")]);
    // A file that is really open, so that a read through its descriptor would succeed.
    let open = fs::File::open(bench.outside.join("f")).unwrap();
    let number = std::os::fd::AsRawFd::as_raw_fd(&open);
    assert_eq!(
        fs::read_to_string(format!("/dev/fd/{number}")).unwrap(),
        "secret\n"
    );
    for path in ["/proc/self/fd/3", "/dev/fd/0", "in", "fds/0"] {
        leads_out(&bench, path).await;
    }
    for path in [
        format!("/proc/self/fd/{number}"),
        format!("/dev/fd/{number}"),
        format!("fds/{number}"),
    ] {
        leads_out(&bench, &path).await;
    }
}
