//! Where the trash is on another file system than the workspace, or the workspace's files have names elsewhere.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::Owner;
use super::commands::{build, tree};

/// The same without the times of folders, which a copy of their files changes.
fn held(folder: &Path) -> BTreeMap<PathBuf, (u32, i64, Vec<u8>)> {
    let mut all = tree(folder);
    for (path, (_, modified, _)) in &mut all {
        if folder.join(path).symlink_metadata().expect("there").is_dir() {
            *modified = 0;
        }
    }
    all
}

#[test]
fn a_copy_to_another_file_system_comes_back_as_well() {
    let owner = Owner::with_a_home_far_away();
    build(&owner.path("work/folder"));
    let before = held(&owner.path("work/folder"));
    let (request, code, text) = owner.runs("rm -r folder");
    assert!(code == 0 && !owner.path("work/folder").exists(), "{text}");
    owner.undoes(&request);
    assert_eq!(held(&owner.path("work/folder")), before);
}

#[test]
fn of_a_tree_in_which_something_cannot_be_removed_the_rest_is_kept() {
    let owner = Owner::with_a_home_far_away();
    let git = |args: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@b", "-c", "init.defaultBranch=main"]).args(args);
        let done = git.current_dir(owner.path("work")).output().expect("git");
        assert!(done.status.success(), "{done:?}");
    };
    owner.write("work/a.txt", "a\n");
    git(&["init", "-q"]);
    git(&["add", "a.txt"]);
    git(&["commit", "-qm", "one"]);
    git(&["worktree", "add", "-q", "tree"]);
    build(&owner.path("work/tree/folder"));
    let before = held(&owner.path("work/tree"));
    // A worktree's `.git` is protected: it cannot be removed, and what is beside it can.
    let (request, code, text) = owner.runs("rm -rf tree");
    assert!(code == 1 && text.contains("cannot remove 'tree/.git'"), "{text}");
    assert_eq!(fs::read_dir(owner.path("work/tree")).expect("there").count(), 1, "{text}");
    owner.undoes(&request);
    assert_eq!(held(&owner.path("work/tree")), before);
}

#[test]
fn a_file_that_cannot_be_removed_keeps_nothing_else_from_coming_back() {
    let owner = Owner::with_a_home_far_away();
    owner.write("work/closed/stays", "stays\n");
    owner.set_mode("work/closed", 0o555);
    owner.write("work/goes", "goes\n");
    let (request, code, text) = owner.runs("rm -f closed/stays goes");
    assert!(code == 1 && text.contains("cannot remove 'closed/stays': Permission denied"), "{text}");
    owner.undoes(&request);
    assert_eq!(
        (owner.read("work/closed/stays"), owner.read("work/goes")),
        ("stays\n".into(), "goes\n".into())
    );
    owner.set_mode("work/closed", 0o755);
}

#[test]
fn files_that_come_and_go_meanwhile_keep_nothing_from_being_removed() {
    let owner = Owner::with_a_home_far_away();
    for n in 0..2_000 {
        owner.write(&format!("work/busy/{n}"), "x");
    }
    let (request, code, text) = owner.runs(
        "(while [ -e busy ]; do : > busy/now; mv -f busy/now busy/then; done) 2>/dev/null & \
         rm -rf busy; code=$?; kill $!; exit $code",
    );
    let left = fs::read_dir(owner.path("work/busy")).map_or(0, Iterator::count);
    // As with the system's own: the folder may stay, with what came too late, and then that is said.
    assert!(left <= 2, "{left} files stay");
    assert_eq!(code == 0, !owner.path("work/busy").exists(), "{text}");
    let _ = fs::remove_dir_all(owner.path("work/busy"));
    owner.undoes(&request);
    assert!(fs::read_dir(owner.path("work/busy")).expect("there").count() >= 2_000);
}

#[test]
fn a_file_with_holes_is_kept_with_them_and_pushes_nothing_out() {
    let owner = Owner::with_a_home_far_away();
    owner.write("home/config.toml", "[trash]\nmax_mb = 4\n");
    owner.set_mode("home", 0o700);
    owner.write("work/first", "first\n");
    let (first, _, _) = owner.runs("rm first");
    let image = fs::File::create(owner.path("work/disk.img")).expect("made");
    image.set_len(100 << 20).expect("set");
    std::os::unix::fs::FileExt::write_all_at(&image, b"in the middle", 50 << 20).expect("written");
    let (request, code, text) = owner.runs("rm disk.img");
    assert!(code == 0 && !text.contains("for good"), "{text}");
    owner.runs("true");
    owner.undoes(&first);
    owner.undoes(&request);
    let back = fs::read(owner.path("work/disk.img")).expect("there");
    assert_eq!((back.len(), &back[50 << 20..][..13]), (100 << 20, &b"in the middle"[..]));
    let taken = fs::metadata(owner.path("work/disk.img")).expect("there").blocks() * 512;
    assert!(taken < 1 << 20, "{taken} bytes");
}

#[test]
fn files_with_names_elsewhere_count_as_what_the_trash_may_be_the_last_to_have() {
    let owner = Owner::new();
    owner.write("home/config.toml", "[trash]\nmax_mb = 4\n");
    owner.set_mode("home", 0o700);
    owner.write("work/important", "important\n");
    let (request, _, _) = owner.runs("rm important");
    owner.write("store/large", "x".repeat(6 << 20));
    fs::create_dir(owner.path("work/node_modules")).expect("made");
    fs::hard_link(owner.path("store/large"), owner.path("work/node_modules/large")).expect("linked");
    let (_, code, text) = owner.runs("rm -rf node_modules");
    assert!(code == 0 && text.contains("removed for good"), "{text}");
    owner.runs("true");
    owner.undoes(&request);
    assert_eq!(owner.read("work/important"), "important\n");
}
