//! A trash on another file system than the workspace, and files of the workspace with hard links elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::commands::{build_tree, read_tree};
use super::forged::{FOLDER, REQUEST};
use super::{OwnerFixture, run_command};

/// Reads a tree without the times of folders, which a copy of their files changes.
pub(super) fn folder_state(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut all = read_tree(folder);
    for (path, (_, modified, _)) in &mut all {
        if folder
            .join(path)
            .symlink_metadata()
            .expect("there")
            .is_dir()
        {
            *modified = 0;
        }
    }
    all
}

#[test]
fn a_copy_to_another_file_system_comes_back_as_well() {
    let owner = OwnerFixture::with_a_home_far_away();
    build_tree(&owner.path("work/folder"));
    let before = folder_state(&owner.path("work/folder"));
    let (request, code, text) = owner.runs("rm -r folder");
    assert!(code == 0 && !owner.path("work/folder").exists(), "{text}");
    owner.undo_request(&request);
    assert_eq!(folder_state(&owner.path("work/folder")), before);
}

#[test]
fn of_a_tree_in_which_something_cannot_be_removed_the_rest_is_kept() {
    let owner = OwnerFixture::with_a_home_far_away();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args);
        let done = git.current_dir(owner.path("work")).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    owner.write("work/a.txt", "a\n");
    git(&["init", "-q"]);
    git(&["add", "a.txt"]);
    git(&["commit", "-qm", "one"]);
    git(&["worktree", "add", "-q", "tree"]);
    build_tree(&owner.path("work/tree/folder"));
    let before = folder_state(&owner.path("work/tree"));
    // A worktree's `.git` is protected and cannot be removed. The files beside it can.
    let (request, code, text) = owner.runs("rm -rf tree");
    assert!(
        code == 1 && text.contains("cannot remove 'tree/.git'"),
        "{text}"
    );
    assert_eq!(
        fs::read_dir(owner.path("work/tree"))
            .expect("there")
            .count(),
        1,
        "{text}"
    );
    owner.undo_request(&request);
    assert_eq!(folder_state(&owner.path("work/tree")), before);
}

#[test]
fn a_file_that_cannot_be_removed_keeps_nothing_else_from_coming_back() {
    let owner = OwnerFixture::with_a_home_far_away();
    owner.write("work/closed/stays", "stays\n");
    owner.set_mode("work/closed", 0o555);
    owner.write("work/goes", "goes\n");
    let (request, code, text) = owner.runs("rm -f closed/stays goes");
    assert!(
        code == 1 && text.contains("cannot remove 'closed/stays': Permission denied"),
        "{text}"
    );
    owner.undo_request(&request);
    assert_eq!(
        (owner.read("work/closed/stays"), owner.read("work/goes")),
        ("stays\n".into(), "goes\n".into())
    );
    owner.set_mode("work/closed", 0o755);
}

#[test]
fn files_that_come_and_go_meanwhile_keep_nothing_from_being_removed() {
    let owner = OwnerFixture::with_a_home_far_away();
    for n in 0..2_000 {
        owner.write(&format!("work/busy/{n}"), "x");
    }
    let (request, code, text) = owner.runs(
        "(while [ -e busy ]; do : > busy/now; mv -f busy/now busy/then; done) 2>/dev/null & \
         rm -rf busy; code=$?; kill $!; exit $code",
    );
    let left = fs::read_dir(owner.path("work/busy")).map_or(0, Iterator::count);
    // As with the system's `rm`, the folder may stay with files that came too late, and then `rm` reports it.
    assert!(left <= 2, "at most two files stay: {left}");
    assert_eq!(code == 0, !owner.path("work/busy").exists(), "{text}");
    let _ = fs::remove_dir_all(owner.path("work/busy"));
    owner.undo_request(&request);
    assert!(
        fs::read_dir(owner.path("work/busy"))
            .expect("there")
            .count()
            >= 2_000
    );
}

#[test]
fn a_file_with_holes_is_kept_with_them_and_pushes_nothing_out() {
    let owner = OwnerFixture::with_a_home_far_away();
    owner.has_a_trash_of(4);
    owner.write("work/first", "first\n");
    let (first, _, _) = owner.runs("rm first");
    let image = fs::File::create(owner.path("work/disk.img")).expect("made");
    image.set_len(100 << 20).expect("set");
    std::os::unix::fs::FileExt::write_all_at(&image, b"in the middle", 50 << 20).expect("written");
    let (request, code, text) = owner.runs("rm disk.img");
    assert!(code == 0 && !text.contains("for good"), "{text}");
    owner.runs("true");
    owner.undo_request(&first);
    owner.undo_request(&request);
    let back = fs::read(owner.path("work/disk.img")).expect("there");
    assert_eq!(
        (back.len(), &back[50 << 20..][..13]),
        (100 << 20, &b"in the middle"[..])
    );
    let taken = fs::metadata(owner.path("work/disk.img"))
        .expect("there")
        .blocks()
        * 512;
    assert!(taken < 1 << 20, "{taken} bytes");
}

#[test]
fn files_with_names_elsewhere_count_as_what_the_trash_may_be_the_last_to_have() {
    let owner = OwnerFixture::new();
    owner.has_a_trash_of(4);
    owner.write("work/important", "important\n");
    let (request, _, _) = owner.runs("rm important");
    owner.write("store/large", "x".repeat(6 << 20));
    fs::create_dir(owner.path("work/node_modules")).expect("made");
    fs::hard_link(
        owner.path("store/large"),
        owner.path("work/node_modules/large"),
    )
    .expect("linked");
    let (_, code, text) = owner.runs("rm -rf node_modules");
    assert!(code == 0 && text.contains("removed for good"), "{text}");
    owner.runs("true");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/important"), "important\n");
}

#[test]
fn more_folders_come_back_than_a_process_may_have_open() {
    let owner = OwnerFixture::with_a_home_far_away();
    for n in 0..300 {
        owner.write(&format!("work/many/{n}/file"), "x");
    }
    let (request, code, text) = owner.runs("rm -rf many");
    assert_eq!(code, 0, "{text}");
    let mut undo = Command::new("sh");
    undo.args(["-c", "ulimit -n 128; exec \"$0\" \"$@\""]);
    let undone = run_command(owner.instead(&mut undo, &["undo", &request]));
    assert!(undone.was_undone(), "{undone:?}");
    assert_eq!(read_tree(&owner.path("work/many")).len(), 601);
}

#[test]
fn protected_names_in_a_tree_that_went_come_back_with_it_and_alone_they_do_not() {
    let owner = OwnerFixture::with_a_home_far_away();
    owner.write("work/app/src/work.txt", "x");
    owner.write("work/app/src/.vscode/tasks.json", "{}");
    owner.write("work/app/src/.envrc", "x");
    let before = folder_state(&owner.path("work/app"));
    let (request, code, text) = owner.runs("rm -rf app");
    assert_eq!(code, 0, "{text}");
    owner.undo_request(&request);
    assert_eq!(folder_state(&owner.path("work/app")), before);
    let (request, code, text) = owner.runs("rm app/src/.envrc");
    assert_eq!(code, 0, "{text}");
    owner.is_refused(&request, "protected-path");
}

#[test]
fn what_several_remove_beside_each_other_comes_back_whole() {
    let owner = OwnerFixture::with_a_home_far_away();
    for n in 0..150 {
        for folder in ["a", "b", "a/deep"] {
            owner.write(&format!("work/both/{folder}/{n}"), "x");
        }
    }
    let before = folder_state(&owner.path("work/both"));
    for line in [
        "rm -rf both/a both/b both & rm -rf both/b both/a both; wait",
        "rm -rf both/b & rm -rf both; wait",
        "rm -f both/a/1 both/a/2 both/a/3 both/a/4 & rm -rf both/b both/a/deep; wait; rm -rf both",
    ] {
        let (request, _, text) = owner.runs(line);
        assert!(
            !owner.path("work/both").exists() && !text.contains("cannot"),
            "{line}: {text}"
        );
        owner.undo_request(&request);
        assert!(folder_state(&owner.path("work/both")) == before, "{line}");
    }
}

#[test]
fn a_file_that_cannot_be_read_goes_all_the_same_and_that_is_said() {
    let owner = OwnerFixture::with_a_home_far_away();
    owner.write("work/unread", "x");
    owner.set_mode("work/unread", 0o000);
    let (request, code, text) = owner.runs("rm -f unread");
    assert!(
        code == 0 && text.contains("removed for good") && !owner.path("work/unread").exists(),
        "{text}"
    );
    owner.is_refused(&request, "nothing of it is kept");
}

#[test]
fn what_can_be_made_again_and_does_not_fit_is_not_divided_here_either() {
    let owner = OwnerFixture::with_a_home_far_away();
    owner.has_a_trash_of(4);
    for n in 0..30 {
        owner.write(
            &format!("work/node_modules/package/{n}.js"),
            "x".repeat(50 << 10),
        );
    }
    let (request, code, text) = owner.runs("rm -rf node_modules");
    assert!(code == 0 && text.contains("removed for good"), "{text}");
    owner.is_refused(&request, "node_modules: nothing of it is kept");
}

#[test]
fn what_came_to_a_removed_name_and_went_too_is_named_and_can_be_copied() {
    let owner = OwnerFixture::new();
    owner.write("work/conf", "old\n");
    owner.write("work/conf.new", "new\n");
    let (request, _, _) = owner.runs("rm conf; mv conf.new conf; rm conf");
    let undone = owner.types(&["undo", &request]);
    assert!(
        undone.was_undone()
            && undone
                .out
                .contains("1 thing that the request had put where"),
        "{undone:?}"
    );
    assert_eq!(owner.read("work/conf"), "old\n");
    let to = owner.path("out");
    let restored = owner.types(&[
        "trash",
        "restore",
        &request,
        "--to",
        to.to_str().expect("text"),
    ]);
    assert_eq!(restored.code, 0, "{restored:?}");
    let copy = to.join(
        owner
            .path("work/conf.later-1")
            .strip_prefix("/")
            .expect("absolute"),
    );
    assert_eq!(fs::read_to_string(copy).expect("copied"), "new\n");
}

#[test]
fn the_list_counts_what_came_and_not_what_was_announced() {
    let owner = OwnerFixture::new();
    fs::create_dir_all(owner.path("work/.git")).expect("made");
    for n in 0..20 {
        owner.write(&format!("work/.git/own/a/b/{n}"), "x");
    }
    // `.git` cannot be moved, because it is a mount. Its contents are therefore on another mount than the trash.
    let (request, code, text) = owner.runs("rm -rf .git/own");
    assert_eq!(code, 0, "{text}");
    let listed = owner.types(&["trash", "list", "--json"]);
    let kept: serde_json::Value = serde_json::from_str(&listed.out).expect(&listed.out);
    assert_eq!(
        (&kept["requestId"], &kept["files"]),
        (&serde_json::json!(request), &serde_json::json!(20)),
        "{kept}"
    );
    owner.undo_request(&request);
    assert_eq!(
        fs::read_dir(owner.path("work/.git/own/a/b"))
            .expect("there")
            .count(),
        20
    );
}

#[test]
fn what_was_copied_back_before_an_undo_was_cut_off_is_no_reason_to_refuse_the_rest() {
    let owner = OwnerFixture::with_a_home_far_away();
    build_tree(&owner.path("work/folder"));
    owner.write("work/file", "file\n");
    owner.write("work/rest", "rest\n");
    let before = read_tree(&owner.path("work"));
    let (request, _, _) = owner.runs("rm file rest; rm -r folder");
    // The state of an undo that was cut off: files are copied back, and their originals are still in the trash.
    let to = owner.path("back");
    assert_eq!(
        owner
            .types(&[
                "trash",
                "restore",
                &request,
                "--to",
                to.to_str().expect("text")
            ])
            .code,
        0
    );
    let copies = to.join(owner.path("work").strip_prefix("/").expect("absolute"));
    for name in ["file", "folder"] {
        fs::rename(copies.join(name), owner.path("work").join(name)).expect("moved");
    }
    owner.undo_request(&request);
    let contents = |all: BTreeMap<PathBuf, (u32, i64, Vec<u8>)>| -> Vec<_> {
        all.into_iter()
            .map(|(path, (_, _, held))| (path, held))
            .collect()
    };
    assert_eq!(contents(read_tree(&owner.path("work"))), contents(before));
}

#[test]
fn a_forged_name_leads_through_no_link_to_what_lies_outside() {
    let owner = OwnerFixture::with_a_home_far_away();
    owner.write("victim/own.txt", "own\n");
    for item in ["1/", "1/.", "1/../1/"] {
        let line = json!({"kind": "removed", "path": owner.path("work/innocent"), "item": item, "files": 1, "bytes": 4});
        let begun = r#"{\"kind\":\"begun\",\"request\":\"$r\",\"tool\":\"rm\",\"at_ms\":1,\"proof\":\"$p\"}"#;
        let (request, code, text) = owner.runs(&format!(
            "{FOLDER}; {REQUEST}; mkdir $d/forged; ln -s {} $d/forged/1; echo \"{begun}\" > $d/forged/manifest.jsonl; \
             echo '{line}' >> $d/forged/manifest.jsonl",
            owner.path("victim").display()
        ));
        assert_eq!(code, 0, "{text}");
        let undone = owner.types(&["undo", &request]);
        assert_ne!(undone.code, 0, "{item}: {undone:?}");
        assert_eq!(owner.read("victim/own.txt"), "own\n", "{item}");
        assert!(!owner.path("work/innocent").exists(), "{item}");
        fs::remove_dir_all(owner.path("home/state/trash")).expect("there");
    }
}
