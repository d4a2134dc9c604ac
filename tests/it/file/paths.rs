//! Hostile paths, each with what must come of it for every file tool.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punie_runner::acp::{RawPath, Workspace};
use punie_runner::tool::ErrorCode;
use serde_json::json;

use super::Bench;
use crate::harness::tools::text;

// Paths that lead out, for reading and for writing.

#[tokio::test]
async fn paths_that_lead_out_are_refused_for_every_tool() {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.join("a/b")).unwrap();
    symlink(&bench.outside, bench.root.join("abs")).unwrap();
    symlink("../root-evil", bench.root.join("rel")).unwrap();
    symlink("a/../../root-evil", bench.root.join("hop")).unwrap();
    symlink("../root-evil/new", bench.root.join("dangling")).unwrap();
    symlink("/proc/self/root/etc", bench.root.join("proc")).unwrap();
    let beside = bench.outside.join("f");
    for path in [
        "../root-evil/f",
        "a/../../root-evil/f",
        "none/../../root-evil/f",
        "/etc/passwd",
        beside.to_str().unwrap(),
        "a/b/../../../root-evil/f",
        "abs/f",
        "rel/f",
        "hop/f",
        "dangling",
        "proc/passwd",
        "/proc/self/fd/0",
        "/dev/fd/0",
        "~/../../root-evil/f",
    ] {
        for (tool, args) in [
            ("Read", json!({"file_path": path})),
            ("Write", json!({"file_path": path, "content": "x"})),
            ("Edit", json!({"file_path": path, "old_string": "secret", "new_string": "x"})),
            ("read_file", json!({"path": path})),
            ("write_file", json!({"path": path, "content": "x"})),
            ("list_files", json!({"path": path})),
        ] {
            let error = bench.refused(tool, args).await;
            let code = error.code();
            let climbs_from_nothing = path.starts_with("~/") && code == ErrorCode::NotFound;
            assert!(code == ErrorCode::OutsideWorkspace || climbs_from_nothing, "{tool} {path}: {error}");
        }
    }
    assert_eq!(fs::read_to_string(beside).unwrap(), "secret\n");
    assert_eq!(fs::read_dir(&bench.outside).unwrap().count(), 1);

    let error = bench.refused("Read", json!({"file_path": "abs/f"})).await;
    assert!(error.text().contains("root/abs") && error.text().contains("root-evil"), "{error}");
    let error = bench.refused("read_file", json!({"path": "../x"})).await;
    assert!(error.text().starts_with("Error: Security violation\n"), "{error}");
}

// Paths that stay inside.

#[tokio::test]
async fn paths_that_stay_inside_are_served() {
    let bench = Bench::new();
    let top = bench.put("top", "here\n");
    bench.put("a/b/deep", "deep\n");
    symlink("a/b", bench.root.join("dir")).unwrap();
    symlink(bench.root.join("a/b"), bench.root.join("absdir")).unwrap();
    symlink("absdir/deep", bench.root.join("twice")).unwrap();
    for (path, expect) in [
        ("./a/../top", "here"),
        (top.to_str().unwrap(), "here"),
        ("dir/deep", "deep"),
        ("absdir/deep", "deep"),
        ("twice", "deep"),
        ("a//b/./deep", "deep"),
    ] {
        let shown = bench.read(json!({"file_path": path})).await;
        assert!(shown.contains(&format!("     1\t{expect}\n")), "{path}: {shown}");
    }
    bench.ok("Write", json!({"file_path": "absdir/new", "content": "n"})).await;
    assert_eq!(bench.get("a/b/new"), "n");
}

// Texts that name no file.

#[tokio::test]
async fn paths_that_name_no_file_are_refused() {
    let bench = Bench::new();
    bench.put("file", "x\n");
    symlink("loop", bench.root.join("loop")).unwrap();
    symlink("pong", bench.root.join("ping")).unwrap();
    symlink("ping", bench.root.join("pong")).unwrap();
    let long_name = "n".repeat(256);
    let long_path = "d/".repeat(2_048) + "f";
    for path in ["loop", "ping", "a\0b", "", "..", "file/", &long_name, &long_path] {
        let error = bench.refused("Read", json!({"file_path": path})).await;
        assert_eq!(error.code(), ErrorCode::InvalidArgs, "{path:?}: {error}");
    }
    for path in [".", "new/"] {
        let error = bench.refused("Write", json!({"file_path": path, "content": "x"})).await;
        assert_eq!(error.code(), ErrorCode::IsDirectory, "{path:?}: {error}");
    }
}

#[tokio::test]
async fn a_file_where_a_folder_should_be_is_named() {
    let bench = Bench::new();
    let file = bench.put("file", "x\n").display().to_string();
    symlink("file/", bench.root.join("slashed")).unwrap();
    symlink(bench.root.join("file"), bench.root.join("absolute")).unwrap();
    for (path, code, words) in [
        ("file/", ErrorCode::InvalidArgs, "slash"),
        ("absolute/", ErrorCode::InvalidArgs, "slash"),
        ("slashed", ErrorCode::InvalidArgs, "slashed leads to file/"),
        ("file/below", ErrorCode::NotFound, "no below in it"),
        ("file/below/more", ErrorCode::NotFound, "no below/more in it"),
        ("absolute/below", ErrorCode::NotFound, "not a folder"),
        ("file/..", ErrorCode::NotFound, "not a folder"),
    ] {
        for (tool, args) in [
            ("Read", json!({"file_path": path})),
            ("Write", json!({"file_path": path, "content": "y"})),
            ("Edit", json!({"file_path": path, "old_string": "x", "new_string": "y"})),
            ("list_files", json!({"path": path})),
        ] {
            let error = bench.refused(tool, args).await;
            assert_eq!(error.code(), code, "{tool} {path}: {error}");
            let text = error.text();
            assert!(
                text.contains(words) && text.contains(&format!("{file} is a file")),
                "{tool} {path}: {text}"
            );
            assert!(!text.contains("os error") && !text.contains("loop"), "{tool} {path}: {text}");
        }
    }
    assert_eq!(bench.get("file"), "x\n");
}

// Things that are not files.

#[tokio::test]
async fn what_is_not_a_regular_file_is_refused_at_once() {
    let bench = Bench::new();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        bench.root.join("fifo"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.root.join("socket")).unwrap();
    symlink("/dev/zero", bench.root.join("zero")).unwrap();
    for name in ["fifo", "socket"] {
        let error = bench.refused("Read", json!({"file_path": name})).await;
        assert_eq!(error.code(), ErrorCode::NotText, "{error}");
        let error =
            bench.refused("Edit", json!({"file_path": name, "old_string": "a", "new_string": "b"})).await;
        assert_eq!(error.code(), ErrorCode::NotText, "{error}");
    }
    bench.refused("Write", json!({"file_path": "fifo", "content": "x"})).await;
    let error = bench.refused("Read", json!({"file_path": "zero"})).await;
    assert_eq!(error.code(), ErrorCode::OutsideWorkspace, "{error}");
    let listed = bench.ok("list_files", json!({})).await;
    assert!(
        text(&listed).contains("fifo (not a regular file)\n")
            && text(&listed).contains("zero -> /dev/zero\n")
    );
}

// Hard links.

#[tokio::test]
async fn a_hard_link_elsewhere_keeps_its_content_when_written() {
    let bench = Bench::new();
    fs::hard_link(bench.outside.join("f"), bench.root.join("link")).unwrap();
    bench.ok("Write", json!({"file_path": "link", "content": "mine\n"})).await;
    assert_eq!(fs::read_to_string(bench.outside.join("f")).unwrap(), "secret\n");
    assert_eq!(bench.get("link"), "mine\n");
}

#[tokio::test]
async fn a_hard_link_to_another_users_file_is_not_read() {
    let bench = Bench::new();
    let foreign = bench.outside.join("f");
    // Only the superuser can give a file away; for others there is nothing to test.
    if std::os::unix::fs::chown(&foreign, Some(12_345), Some(12_345)).is_err() {
        return;
    }
    fs::hard_link(&foreign, bench.root.join("link")).unwrap();
    let error = bench.refused("Read", json!({"file_path": "link"})).await;
    assert_eq!(error.code(), ErrorCode::PermissionDenied, "{error}");
    assert!(error.text().contains("hard link"), "{error}");
}

// Races.

#[tokio::test(flavor = "multi_thread")]
async fn a_flipping_link_never_leads_out() {
    let bench = Bench::new();
    bench.put("inside/f", "inside\n");
    let (link, spare) = (bench.root.join("flip"), bench.root.join("spare"));
    symlink("inside", &link).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let flipper = std::thread::spawn({
        let (stop, outside) = (Arc::clone(&stop), bench.outside.clone());
        move || {
            let mut flips = 0_u32;
            while !stop.load(Ordering::Relaxed) {
                for target in [outside.as_path(), Path::new("inside")] {
                    symlink(target, &spare).unwrap();
                    fs::rename(&spare, &link).unwrap();
                    flips += 1;
                }
            }
            flips
        }
    });
    let workspace = Workspace::open(std::slice::from_ref(&bench.root)).unwrap();
    let mut served = 0;
    for _ in 0..5_000 {
        let Ok(path) = workspace.resolve(&RawPath::from("flip/f")) else { continue };
        if let Ok(file) = path.open_read() {
            assert_eq!(std::io::read_to_string(file).unwrap(), "inside\n");
            served += 1;
        }
        if let Ok((folder, _)) = path.open_parent(false) {
            drop(folder.create_new("probe".as_ref(), 0o600));
            let _ = folder.remove("probe".as_ref());
        }
    }
    for n in 0..500 {
        let _ = bench.call("Write", json!({"file_path": "flip/g", "content": format!("{n}")})).await;
    }
    stop.store(true, Ordering::Relaxed);
    assert!(flipper.join().unwrap() > 0 && served > 0);
    let names: Vec<_> =
        fs::read_dir(&bench.outside).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["f"], "something was written outside");
}

#[tokio::test]
async fn a_folder_swapped_after_it_was_opened_keeps_the_write_inside() {
    let bench = Bench::new();
    bench.put("d/f", "old\n");
    let workspace = Workspace::open(std::slice::from_ref(&bench.root)).unwrap();
    let path = workspace.resolve(&RawPath::from("d/f")).unwrap();
    let (folder, name) = path.open_parent(false).unwrap();
    folder.create_new("t".as_ref(), 0o600).unwrap().write_all(b"new\n").unwrap();
    fs::rename(bench.root.join("d"), bench.root.join("moved")).unwrap();
    symlink(&bench.outside, bench.root.join("d")).unwrap();
    folder.rename("t".as_ref(), &name).unwrap();
    assert_eq!(bench.get("moved/f"), "new\n");
    assert_eq!(fs::read_to_string(bench.outside.join("f")).unwrap(), "secret\n");
    assert!(path.open_read().is_err(), "the way is a link now");
}

// Home.

#[tokio::test]
async fn home_is_expanded_and_then_contained() {
    let bench = Bench::new();
    bench.put("home/f", "home\n");
    for path in ["~/f", "$HOME/f", "${HOME}/f", r"%USERPROFILE%\f"] {
        assert!(bench.read(json!({"file_path": path})).await.contains("\thome\n"), "{path}");
    }
    bench.refused("Read", json!({"file_path": "~/../../root-evil/f"})).await;
    let error = bench.refused("Read", json!({"file_path": "x/~/f"})).await;
    assert_eq!(error.code(), ErrorCode::NotFound, "{error}");
}

#[tokio::test]
async fn the_second_workspace_is_reached_by_its_own_path() {
    let bench = Bench::new();
    let workspace = Workspace::open(&[bench.root.clone(), bench.outside.clone()]).unwrap();
    assert_eq!(workspace.roots().count(), 2);
    assert_eq!(workspace.first(), bench.root);
    let path = workspace.resolve(&RawPath::from(bench.outside.join("f").to_str().unwrap())).unwrap();
    assert_eq!(std::io::read_to_string(path.open_read().unwrap()).unwrap(), "secret\n");
    assert_eq!(path.root(), bench.outside);
    symlink(bench.outside.join("f"), bench.root.join("over")).unwrap();
    assert_eq!(workspace.resolve(&RawPath::from("over")).unwrap().absolute(), bench.outside.join("f"));
}

// Protected paths.

#[tokio::test]
async fn protected_paths_are_never_written() {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.join(".git/hooks")).unwrap();
    symlink(".git/hooks", bench.root.join("innocent")).unwrap();
    fs::create_dir(bench.root.join("dotfiles")).unwrap();
    symlink("dotfiles", bench.root.join(".cursor")).unwrap();
    for path in [
        ".git/hooks/pre-commit",
        ".GIT/hooks/x",
        ".gi\u{200c}t/config",
        ".gi\u{301}t/config",
        ".claude/settings.json",
        ".vscode/tasks.json",
        "sub/.envrc",
        "innocent/pre-commit",
        ".cursor/rules",
    ] {
        for (tool, args) in [
            ("Write", json!({"file_path": path, "content": "x"})),
            ("Edit", json!({"file_path": path, "old_string": "", "new_string": "x"})),
            ("write_file", json!({"path": path, "content": "x"})),
        ] {
            let error = bench.refused(tool, args).await;
            assert_eq!(error.code(), ErrorCode::PolicyDenied, "{tool} {path}: {error}");
            assert!(error.text().contains("protected-path"), "{error}");
        }
    }
    assert!(!bench.root.join(".claude").exists() && !bench.root.join(".GIT").exists());
    bench.ok("Write", json!({"file_path": ".github/workflows/ci.yml", "content": "x"})).await;
}
