//! Undo of commands, through the program: whatever way a command removes files by, they come back.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use super::OwnerFixture;
use super::snapshots::covered_files;

/// Makes a folder with odd names, modes and links.
fn build_tree(folder: &Path) {
    fs::create_dir_all(folder.join("deep/empty")).expect("made");
    fs::write(folder.join("plain.txt"), "text\n").expect("written");
    fs::write(folder.join("new\nline"), "odd\n").expect("written");
    fs::write(folder.join(OsStr::from_bytes(b"bytes\xff\xfe")), "odder\n").expect("written");
    fs::write(folder.join("deep/run.sh"), "#!/bin/sh\n").expect("written");
    let set_mode = |below: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(folder.join(below), mode).expect("set");
    };
    set_mode("deep/run.sh", 0o751);
    set_mode("deep/empty", 0o700);
    symlink("../plain.txt", folder.join("deep/link")).expect("linked");
    symlink("nowhere", folder.join("dangling")).expect("linked");
}

#[test]
fn what_a_command_removed_comes_back_byte_for_byte() {
    for command in [
        "rm -rf folder",
        "find folder -depth -delete",
        "python3 -c 'import shutil; shutil.rmtree(\"folder\")'",
        "mv folder away",
        "rm folder/plain.txt; rm -r folder; mkdir folder; touch folder/mine; rm -r folder",
        "rm -r folder/deep; mkdir folder/deep; echo new > folder/deep/run.sh; rm -r folder",
    ] {
        let owner = OwnerFixture::with_snapshots();
        build_tree(&owner.path("work/folder"));
        let before = covered_files(&owner.path("work"));
        let (request, code, text) = owner.run_bash(command);
        assert_eq!(code, 0, "{command}: {text}");
        assert!(!owner.path("work/folder").exists(), "{command}");
        // A copy elsewhere, before it is undone.
        let to = owner.path("copy");
        let restored = owner.run_cli(&[
            "trash",
            "restore",
            &request,
            "--to",
            to.to_str().expect("text"),
        ]);
        assert_eq!(restored.code, 0, "{command}: {restored:?}");
        let work = owner.path("work");
        let copy = to.join(work.strip_prefix("/").expect("absolute"));
        assert_eq!(
            fs::read(copy.join("folder/deep/run.sh")).expect("copied"),
            b"#!/bin/sh\n",
            "{command}"
        );
        owner.undo_request(&request);
        assert_eq!(covered_files(&work), before, "{command}");
        owner.assert_undo_refused(&request, "was undone already");
    }
}

#[test]
fn a_program_that_removes_a_file_runs_whole_and_is_undone() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/old.txt", "old\n");
    let program = r#"unlink("old.txt") or die; open(F, ">", "new.txt"); print F "new"; close F; print "done""#;
    let (request, code, text) = owner.run_bash(&format!("perl -e '{program}'"));
    assert_eq!((code, text.trim()), (0, "done"));
    assert!(!owner.path("work/old.txt").exists());
    assert_eq!(
        owner.read("work/new.txt"),
        "new",
        "the rest of the program ran"
    );
    owner.undo_request(&request);
    assert_eq!(owner.read("work/old.txt"), "old\n");
    assert!(!owner.path("work/new.txt").exists());
}

#[test]
fn no_text_of_a_command_is_rewritten() {
    let owner = OwnerFixture::with_snapshots();
    let (_, code, text) = owner.run_bash("type -P rm; echo 'rm -rf /bin/rm' | grep '/bin/rm'");
    assert_eq!((code, text.trim()), (0, "/usr/bin/rm\nrm -rf /bin/rm"));
}

#[test]
fn removed_short_text_that_git_ignores_comes_back_and_a_changed_one_is_left_alone() {
    for command in [
        "rm .env sub/.env",
        "git clean -fdXq",
        "python3 -c 'import os; os.remove(\".env\"); os.remove(\"sub/.env\")'",
    ] {
        let owner = OwnerFixture::with_snapshots();
        owner.write("work/.gitignore", ".env\n*.log\n*.bin\nbuild/\n");
        let set_up = std::process::Command::new("git")
            .args(["init", "-q"])
            .current_dir(owner.path("work"))
            .status();
        assert!(set_up.expect("git").success());
        owner.write("work/.env", "KEY=1\n");
        owner.set_mode("work/.env", 0o600);
        owner.write("work/sub/.env", "KEY=2\n");
        owner.write("work/dev.log", "started\n");
        owner.write("work/large.log", "x".repeat(65 << 10));
        owner.write("work/data.bin", [0, 1, 2]);
        owner.write("work/build/.env", "KEY=3\n");
        // Logs are written by other programs all the time.
        let (request, code, text) = owner.run_bash(&format!(
            "echo changed >> dev.log; rm -f large.log data.bin; rm -rf build; {command}"
        ));
        assert_eq!(code, 0, "{command}: {text}");
        assert!(!owner.path("work/.env").exists(), "{command}");
        owner.write("work/dev.log", "by another program\n");
        owner.undo_request(&request);
        assert_eq!(
            [owner.read("work/.env"), owner.read("work/sub/.env")],
            ["KEY=1\n", "KEY=2\n"],
            "{command}"
        );
        assert_eq!(owner.mode("work/.env"), 0o600, "{command}");
        assert_eq!(
            owner.read("work/dev.log"),
            "by another program\n",
            "{command}"
        );
        for gone in ["large.log", "data.bin", "build"] {
            assert!(
                !owner.path(&format!("work/{gone}")).exists(),
                "{command}: {gone}"
            );
        }
    }
}

#[test]
fn undo_does_not_replace_a_file_that_was_created_later() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/a/b.txt", "old\n");
    let (request, _, _) = owner.run_bash("rm -rf a");
    let later = owner.call_write("a/b.txt", "new\n");
    owner.assert_undo_refused(
        &request,
        &format!("by request {later} (Write): undo that one first"),
    );
    assert_eq!(owner.read("work/a/b.txt"), "new\n");
    fs::remove_dir_all(owner.path("work/a")).expect("there");
    owner.undo_request(&request);
    assert_eq!(owner.read("work/a/b.txt"), "old\n");
}

#[test]
fn without_snapshots_nothing_of_a_command_is_kept_and_that_is_said() {
    let owner = OwnerFixture::new();
    owner.write("work/a", "a\n");
    let (request, ..) = owner.run_bash("rm a");
    owner.assert_undo_refused(&request, "nothing is kept of request");
    owner.assert_undo_refused(
        &request,
        "Without a snapshot, what a command changes is not tracked",
    );
}

#[test]
fn trash_empty_also_deletes_the_folders_of_earlier_versions() {
    let owner = OwnerFixture::new();
    owner.call_write("a.txt", "new\n");
    let outdated = ["incoming/1/file", "removed/2/file", "programs/rm", "key"];
    for path in outdated {
        owner.write(&format!("home/state/trash/{path}"), "x");
    }
    let is_there = || outdated.map(|path| owner.path("home/state/trash").join(path).exists());
    assert_eq!(owner.run_cli(&["trash", "list"]).code, 0);
    assert_eq!(is_there(), [true; 4]);
    assert_eq!(owner.run_cli(&["trash", "empty", "--yes"]).code, 0);
    assert_eq!(is_there(), [false; 4]);
}

#[test]
fn the_trash_is_emptied_only_by_a_clear_word() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/a.txt", "old\n");
    let request = owner.call_write("a.txt", "new\n");
    let (removed, _, _) = owner.run_bash("rm a.txt");
    let asked = owner.run_cli(&["trash", "empty"]);
    assert!(asked.code == 2 && asked.err.contains("--yes"), "{asked:?}");
    let emptied = owner.run_cli(&["trash", "empty", "--yes"]);
    assert!(
        emptied.code == 0 && emptied.out.contains("2 requests"),
        "{emptied:?}"
    );
    owner.assert_undo_refused(&request, "nothing is kept of request");
    owner.assert_undo_refused(&removed, "nothing is kept of request");
    assert_eq!(
        owner.run_cli(&["trash", "list"]).out,
        "The trash is empty.\n"
    );
    for folder in ["objects", "made", "doomed", "requests"] {
        let left = fs::read_dir(owner.path("home/state/trash").join(folder))
            .expect("there")
            .count();
        assert_eq!(left, 0, "{folder}");
    }
}

#[test]
fn an_undo_follows_no_link_that_is_planted_meanwhile() {
    let owner = OwnerFixture::with_snapshots();
    fs::create_dir(owner.path("outside")).expect("made");
    for n in 0..200 {
        for file in 0..4 {
            owner.write(&format!("work/folder/{n}/{file}"), "text\n");
        }
    }
    let (request, code, text) = owner.run_bash("rm -r folder");
    assert_eq!(code, 0, "{text}");
    // A process at work there replaces each folder with a link as soon as the folder exists.
    let over = std::sync::atomic::AtomicBool::new(false);
    let links = std::thread::scope(|scope| {
        let planting = scope.spawn(|| {
            let mut planted = 0;
            while !over.load(std::sync::atomic::Ordering::Relaxed) {
                for top in fs::read_dir(owner.path("work"))
                    .into_iter()
                    .flatten()
                    .flatten()
                {
                    for folder in fs::read_dir(top.path()).into_iter().flatten().flatten() {
                        let path = folder.path();
                        if fs::rename(&path, owner.path(&format!("aside.{planted}"))).is_ok() {
                            let _ = symlink(owner.path("outside"), path);
                            planted += 1;
                        }
                    }
                }
            }
            planted
        });
        // It may stop at the first link, or restore what no link has replaced yet.
        let ended = owner.run_cli(&["undo", &request]);
        assert!([0, 1].contains(&ended.code), "{ended:?}");
        over.store(true, std::sync::atomic::Ordering::Relaxed);
        planting.join().expect("it plants links")
    });
    assert_ne!(links, 0, "no link was planted while the undo ran");
    assert_eq!(
        fs::read_dir(owner.path("outside")).expect("there").count(),
        0
    );
}
