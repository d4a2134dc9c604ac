//! Hostile paths, each with what must come of it for every file tool.

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punie_host::{RawPath, Workspace};
use punie_tool::ErrorCode;
use serde_json::json;

use super::Bench;
use crate::harness::left_out::can_be_tried;
use crate::harness::tools::reply_text;

// Texts that name no file.

/// Each path is refused as it is for every tool that takes one.
async fn no_file(bench: &Bench, paths: &[&str], code: ErrorCode) {
    for path in paths {
        for (tool, args) in cases! {
            ("Read", json!({"file_path": path})),
            ("Edit", json!({"file_path": path, "old_string": "x", "new_string": "y"})),
            ("read_file", json!({"path": path})),
        } {
            let error = bench.refused(tool, args).await;
            assert_eq!(error.stable_code(), code, "{tool} {path:?}: {error}");
        }
    }
}

#[tokio::test]
async fn h14_a_nul_byte_is_no_part_of_a_path() {
    let bench = Bench::new();
    bench.put("a", "x\n");
    no_file(&bench, &["a\0b", "a\0", "\0"], ErrorCode::InvalidArgs).await;
    let error = bench
        .refused("Write", json!({"file_path": "a\0b", "content": "y"}))
        .await;
    assert_contains!(error.model_text(), "NUL");
    assert_eq!(fs::read_dir(&bench.root).unwrap().count(), 1);
}

#[tokio::test]
async fn h15_an_empty_path_and_the_folders_themselves_are_no_files() {
    let bench = Bench::new();
    no_file(&bench, &["", ".."], ErrorCode::InvalidArgs).await;
    for path in [".", "new/"] {
        let error = bench
            .refused("Write", json!({"file_path": path, "content": "x"}))
            .await;
        assert_error!(error, IsDirectory; "{path:?}");
    }
    for (tool, args) in [
        (
            "Edit",
            json!({"file_path": ".", "old_string": "x", "new_string": "y"}),
        ),
        ("read_file", json!({"path": "."})),
    ] {
        assert_error!(bench.refused(tool, args).await, IsDirectory; "{tool}");
    }
    let text = bench.read(json!({"file_path": "."})).await;
    assert_contains!(text, "(folder, 0 entries)");
}

#[tokio::test]
async fn h16_a_slash_behind_a_file_is_refused() {
    let bench = Bench::new();
    bench.put("file", "x\n");
    no_file(&bench, &["file/", "file//"], ErrorCode::InvalidArgs).await;
    let error = bench
        .refused("Write", json!({"file_path": "file/", "content": "y"}))
        .await;
    assert_contains!(error.model_text(), "Leave out the slash");
    assert_eq!(bench.get("file"), "x\n");
}

#[tokio::test]
async fn h17_what_is_too_long_for_the_system_is_refused_with_the_limit() {
    let bench = Bench::new();
    let name = "n".repeat(256);
    let path = "d/".repeat(2_048) + "f";
    assert_eq!(path.len(), 4_097);
    no_file(&bench, &[&name, &path], ErrorCode::InvalidArgs).await;
    for (path, limit) in [(&name, "255"), (&path, "4095")] {
        let error = bench
            .refused("Write", json!({"file_path": path, "content": "y"}))
            .await;
        assert_contains!(error.model_text(), limit);
    }
    let longest = "n".repeat(255);
    bench.put(&longest, "fits\n");
    assert_contains!(bench.read(json!({"file_path": longest})).await, "\tfits\n");
}

#[tokio::test]
async fn h11_links_in_a_circle_are_refused() {
    let bench = Bench::new();
    symlink("loop", bench.root.join("loop")).unwrap();
    symlink("pong", bench.root.join("ping")).unwrap();
    symlink("ping", bench.root.join("pong")).unwrap();
    no_file(&bench, &["loop", "ping"], ErrorCode::InvalidArgs).await;
}

#[tokio::test]
async fn h18_a_name_that_is_no_text_is_listed_safely() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    let name = std::ffi::OsStr::from_bytes(b"bad\xff\x1b[2J\nname");
    fs::write(bench.root.join(name), "1").unwrap();
    for (tool, args) in [
        ("list_files", json!({})),
        ("list_files", json!({"recursive": true})),
        ("Read", json!({"file_path": "."})),
    ] {
        let reply = bench.ok(tool, args).await;
        let shown = reply_text(&reply);
        assert_contains!(shown, "\"bad\\377\\033[2J\\nname\" (1 byte)\n"; "{tool}");
    }
    // The spelling leads back to the file.
    let shown = bench
        .read(json!({"file_path": r#""bad\377\033[2J\nname""#}))
        .await;
    assert_contains!(shown, "     1\t1\n");
    assert_starts_with!(shown, "\"bad\\377\\033[2J\\nname\" (1 byte");
}

#[tokio::test]
async fn h29_spellings_of_other_systems_are_names_like_others_here() {
    let bench = Bench::new();
    for name in ["C:x", r"\\?\C:\x", "CON", "f:ads", "x."] {
        assert_error!(bench.refused("Read", json!({"file_path": name})).await, NotFound; "{name}");
        bench
            .ok("Write", json!({"file_path": name, "content": "here\n"}))
            .await;
        assert_contains!(bench.read(json!({"file_path": name})).await, "\there\n");
    }
    // All of them are in the workspace, and there is nothing else.
    assert_eq!(fs::read_dir(&bench.root).unwrap().count(), 5);
}

#[tokio::test]
async fn a_file_where_a_folder_should_be_is_named() {
    let bench = Bench::new();
    let file = bench.put("file", "x\n").display().to_string();
    symlink("file/", bench.root.join("slashed")).unwrap();
    symlink(bench.root.join("file"), bench.root.join("absolute")).unwrap();
    for (path, code, words) in cases! {
        ("file/", ErrorCode::InvalidArgs, "slash"),
        ("absolute/", ErrorCode::InvalidArgs, "slash"),
        ("slashed", ErrorCode::InvalidArgs, "slashed leads to file/"),
        ("file/below", ErrorCode::NotFound, "no below in it"),
        ("file/below/more", ErrorCode::NotFound, "no below/more in it"),
        ("absolute/below", ErrorCode::NotFound, "not a folder"),
        ("file/..", ErrorCode::NotFound, "not a folder"),
    } {
        for (tool, args) in cases! {
            ("Read", json!({"file_path": path})),
            ("Write", json!({"file_path": path, "content": "y"})),
            ("Edit", json!({"file_path": path, "old_string": "x", "new_string": "y"})),
            ("list_files", json!({"path": path})),
        } {
            let error = bench.refused(tool, args).await;
            assert_eq!(error.stable_code(), code, "{tool} {path}: {error}");
            let text = error.model_text();
            assert_contains!(text, words, &format!("{file} is a file"); "{tool} {path}");
            assert_lacks!(text, "os error", "loop"; "{tool} {path}");
        }
    }
    assert_eq!(bench.get("file"), "x\n");
}

// Things that are not files.

#[tokio::test]
async fn h21_a_fifo_is_refused_at_once_and_its_writer_waits_on() {
    let bench = Bench::new();
    let fifo = bench.root.join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o644);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(bench.root.join("socket")).unwrap();
    for name in ["fifo", "socket"] {
        for (tool, args) in cases! {
            ("Read", json!({"file_path": name})),
            ("read_file", json!({"path": name})),
            ("Edit", json!({"file_path": name, "old_string": "a", "new_string": "b"})),
        } {
            assert_error!(bench.refused(tool, args).await, NotText: name);
        }
        bench
            .refused("Write", json!({"file_path": name, "content": "x"}))
            .await;
    }
    // A read that opened it would have let a writer in.
    let flags = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
    assert_eq!(
        rustix::fs::open(&fifo, flags, mode).unwrap_err(),
        rustix::io::Errno::NXIO
    );
    let listed = bench.ok("list_files", json!({})).await;
    assert_contains!(reply_text(&listed), "fifo (not a regular file)\n");
}

#[tokio::test]
async fn h22_a_device_is_not_reached_by_a_link() {
    let bench = Bench::new();
    symlink("/dev/zero", bench.root.join("zero")).unwrap();
    for (tool, args) in cases! {
        ("Read", json!({"file_path": "zero"})),
        ("read_file", json!({"path": "zero"})),
        ("Write", json!({"file_path": "zero", "content": "x"})),
        ("Edit", json!({"file_path": "zero", "old_string": "a", "new_string": "b"})),
    } {
        assert_error!(bench.refused(tool, args).await, OutsideWorkspace; "{tool}");
    }
    let listed = bench.ok("list_files", json!({})).await;
    assert_contains!(reply_text(&listed), "zero -> /dev/zero\n");
    // In a workspace that has devices itself, they are not read either.
    let workspace = Workspace::open_roots(&["/dev".into()]).unwrap();
    let cause = workspace
        .resolve_inside(&RawPath::from("zero"))
        .unwrap()
        .open_for_reading()
        .unwrap_err();
    assert_contains!(cause.to_string(), "a device");
}

// Hard links.

#[tokio::test]
async fn h23_a_hard_link_from_elsewhere_is_not_written_through() {
    let bench = Bench::new();
    fs::hard_link(bench.outside.join("f"), bench.root.join("link")).unwrap();
    bench
        .ok("Write", json!({"file_path": "link", "content": "mine\n"}))
        .await;
    assert_eq!(
        fs::read_to_string(bench.outside.join("f")).unwrap(),
        "secret\n"
    );
    assert_eq!(bench.get("link"), "mine\n");
}

#[tokio::test]
async fn h23_a_hard_link_to_another_users_file_is_not_read() {
    let bench = Bench::new();
    let foreign = bench.outside.join("f");
    let given = std::os::unix::fs::chown(&foreign, Some(12_345), Some(12_345));
    if !can_be_tried(
        "H23, another user's file",
        given.err().map(|_| "only root can give files away"),
    ) {
        return;
    }
    fs::hard_link(&foreign, bench.root.join("link")).unwrap();
    let error = bench.refused("Read", json!({"file_path": "link"})).await;
    assert_error!(error, PermissionDenied: "hard link");
}

// Sizes.

/// A hole of `size` bytes with text before and after it.
fn sparse(bench: &Bench, name: &str, size: u64) {
    let path = bench.put(name, "first line of text\n".repeat(1_000));
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(size)).unwrap();
    file.write_all(b"\nlast but one\nlast\n").unwrap();
}

#[tokio::test]
async fn h26_a_file_of_a_terabyte_is_refused_by_its_size_but_its_ends_are_near() {
    let bench = Bench::new();
    sparse(&bench, "1t", 1 << 40);
    let error = bench
        .refused("Read", json!({"file_path": "1t", "offset": 5_000}))
        .await;
    assert_error!(error, TooLarge: "negative offset");
    let args = json!({"file_path": "1t", "old_string": "last", "new_string": "x"});
    assert_error!(bench.refused("Edit", args).await, TooLarge);
    let error = bench
        .refused("Read", json!({"file_path": "1t", "offset": -5}))
        .await;
    assert_error!(error, TooLarge);
    for (offset, expect) in [
        (999, "   999\tfirst line of text\n"),
        (-2, "    -2\tlast but one\n    -1\tlast\n"),
    ] {
        let shown = bench
            .read(json!({"file_path": "1t", "offset": offset, "limit": 2}))
            .await;
        assert_contains!(shown, expect);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn h27_a_file_that_grows_is_read_as_it_was() {
    let bench = Bench::new();
    let path = bench.put("log", "start\n");
    let stop = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let stop = Arc::clone(&stop);
        move || {
            let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
            let mut written = 0;
            while !stop.load(Ordering::Relaxed) && written < 3 << 20 {
                file.write_all(b"one more line\n").unwrap();
                written += 14;
            }
        }
    });
    for _ in 0..100 {
        let reply = bench
            .ok("Read", json!({"file_path": "log", "limit": 1}))
            .await;
        assert_contains!(reply_text(&reply), "     1\tstart\n");
        // The hash is that of the file, or there is none.
        let said = reply
            .meta
            .warnings
            .iter()
            .any(|warning| warning.contains("changed while it was read"));
        assert_eq!(reply.meta.sha256.is_none(), said, "{:?}", reply.meta);
        let tail = bench.read(json!({"file_path": "log", "offset": -1})).await;
        let last = tail
            .lines()
            .nth(1)
            .and_then(|line| line.split_once('\t'))
            .map(|(_, body)| body)
            .unwrap();
        // A line that is being appended may be seen in part.
        assert!(
            last == "start" || "one more line".starts_with(last),
            "{tail}"
        );
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

// Home.

#[tokio::test]
async fn h28_home_is_expanded_only_at_the_start_and_then_contained() {
    let bench = Bench::new();
    bench.put("home/f", "home\n");
    for path in ["~/f", "$HOME/f", "${HOME}/f", r"%USERPROFILE%\f"] {
        assert_contains!(bench.read(json!({"file_path": path})).await, "\thome\n");
    }
    bench
        .refused("Read", json!({"file_path": "~/../../root-evil/f"}))
        .await;
    let error = bench.refused("Read", json!({"file_path": "x/~/f"})).await;
    assert_error!(error, NotFound);
}

#[tokio::test]
async fn the_second_workspace_is_reached_by_its_own_path() {
    let bench = Bench::new();
    let workspace = Workspace::open_roots(&[bench.root.clone(), bench.outside.clone()]).unwrap();
    assert_eq!(workspace.root_paths().count(), 2);
    assert_eq!(workspace.first_root(), bench.root);
    let path = workspace
        .resolve_inside(&RawPath::from(bench.outside.join("f").to_str().unwrap()))
        .unwrap();
    assert_eq!(
        std::io::read_to_string(path.open_for_reading().unwrap()).unwrap(),
        "secret\n"
    );
    assert_eq!(path.root_path(), bench.outside);
    symlink(bench.outside.join("f"), bench.root.join("over")).unwrap();
    assert_eq!(
        workspace
            .resolve_inside(&RawPath::from("over"))
            .unwrap()
            .absolute_path(),
        bench.outside.join("f")
    );
}
