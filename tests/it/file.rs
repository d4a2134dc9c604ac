//! The file tools, called as the engine calls them, on real files. Hostile paths come first, each with what must
//! come of it.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that cannot set up its files has failed"
)]

use std::fs;
use std::io::{Seek, SeekFrom, Write as _};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use punie_runner::acp::local::files::LocalFiles;
use punie_runner::acp::{RawPath, Workspace};
use punie_runner::handlers::file::{FileDeps, tools};
use punie_runner::ids::RequestId;
use punie_runner::request::{ErrorCode, Reply};
use punie_runner::tool::{Registry, ToolCx, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::tools::{call, call_with, registry, text};

/// A workspace with a folder beside it that no tool may reach.
struct Bench {
    _dir: TempDir,
    root: PathBuf,
    outside: PathBuf,
    tools: Registry,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(dir.path()).unwrap();
        let (root, outside) = (base.join("root"), base.join("root-evil"));
        fs::create_dir(&root).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("f"), "secret\n").unwrap();
        let workspace =
            Workspace::open_with_home(std::slice::from_ref(&root), Some(root.join("home"))).unwrap();
        let deps = FileDeps { client: Arc::new(LocalFiles::new()), workspace };
        Self { _dir: dir, root, outside, tools: registry(tools(deps)) }
    }

    fn put(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    fn get(&self, name: &str) -> String {
        fs::read_to_string(self.root.join(name)).unwrap()
    }

    async fn call(&self, tool: &str, args: Value) -> Result<Reply, ToolError> {
        call(&self.tools, tool, args).await
    }

    async fn ok(&self, tool: &str, args: Value) -> Reply {
        self.call(tool, args.clone()).await.unwrap_or_else(|error| panic!("{tool} {args}: {error}"))
    }

    async fn refused(&self, tool: &str, args: Value) -> ToolError {
        match self.call(tool, args.clone()).await {
            Ok(reply) => panic!("{tool} {args} was served: {}", text(&reply)),
            Err(error) => error,
        }
    }

    async fn read(&self, args: Value) -> String {
        text(&self.ok("Read", args).await).to_owned()
    }

    /// No temporary file is left behind.
    fn assert_tidy(&self) {
        let left: Vec<_> = fs::read_dir(&self.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap_or_default())
            .filter(|name| Path::new(name).extension().is_some_and(|ext| ext == "tmp"))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// So many lines of this pattern, each with its number.
fn counted(lines: usize, pattern: &str) -> String {
    (1..=lines).flat_map(|n| [pattern.replace("{}", &n.to_string())]).collect()
}

// Paths that lead out, for reading and for writing (H01 to H05, H08, H09, H12, H13).

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

// Paths that stay inside (H06, H07, H10, and absolute links that lead back in).

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

// Texts that name no file (H11, H14 to H17).

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
    let error = bench.refused("Read", json!({"file_path": "file/below"})).await;
    assert!(error.text().contains("file/below"), "{error}");
}

// Things that are not files (H21, H22).

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

// Hard links (H23).

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

// Races (H24, H25).

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

// Home (H28).

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

// Protected paths (H19, H20, H34).

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

// Read.

#[tokio::test]
async fn read_numbers_lines_and_says_how_to_go_on() {
    let bench = Bench::new();
    let lines = counted(50, "line {}\r\n");
    let path = bench.put("f.txt", &lines);
    let reply = bench.ok("Read", json!({"path": "f.txt", "offset": "11", "limit": 10})).await;
    let shown = text(&reply);
    assert!(
        shown.starts_with(&format!(
            "{} (441 bytes, 50 lines, utf-8, crlf)\n    11\tline 11\n",
            path.display()
        )),
        "{shown}"
    );
    assert!(shown.ends_with("    20\tline 20\n\nShowing 11-20 of 50. Continue with offset=21.\n"), "{shown}");
    assert_eq!(reply.meta.sha256.as_deref().map(str::len), Some(64));

    let shown = bench.read(json!({"file_path": "f.txt", "offset": -2})).await;
    assert!(
        shown.contains("    49\tline 49\n    50\tline 50\n\nShowing 49-50 of 50, to the end.\n"),
        "{shown}"
    );
    let shown = bench.read(json!({"file_path": "f.txt", "offset": 51})).await;
    assert!(shown.contains("There is no line 51: the file has 50 lines."), "{shown}");
    bench.put("empty", "");
    assert!(bench.read(json!({"file_path": "empty"})).await.contains("The file is empty."));
    bench.put("open", "a\nb");
    assert!(
        bench
            .read(json!({"file_path": "open"}))
            .await
            .ends_with("     2\tb\n\nThere is no newline at the end of the file.\n")
    );
    for args in
        [json!({"file_path": "f.txt", "limit": 0}), json!({"file_path": "f.txt", "limt": 1}), json!({})]
    {
        assert_eq!(bench.refused("Read", args).await.code(), ErrorCode::InvalidArgs);
    }
}

#[tokio::test]
async fn read_stops_at_its_budget_and_pages_join_to_the_file() {
    let bench = Bench::new();
    let lines: Vec<String> = (1..=900).map(|n| format!("{n} {}", "é".repeat(n % 90))).collect();
    bench.put("f", lines.join("\n") + "\n");
    let (mut offset, mut seen) = (1, Vec::new());
    while seen.len() < lines.len() {
        let reply = bench.ok("Read", json!({"file_path": "f", "offset": offset, "max_chars": 3_000})).await;
        let shown = text(&reply);
        assert!(shown.chars().count() <= 3_000, "{}", shown.chars().count());
        let page: Vec<_> = shown
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once('\t'))
            .map(|(_, body)| body.to_owned())
            .collect();
        assert!(!page.is_empty());
        offset += page.len();
        seen.extend(page);
        let goes_on = shown.contains(&format!("Continue with offset={offset}."));
        assert_eq!(goes_on, seen.len() < lines.len(), "{shown}");
        assert_eq!(reply.meta.truncated, goes_on);
    }
    assert_eq!(seen, lines);
}

#[tokio::test]
async fn a_long_line_is_cut_and_read_on_by_column() {
    let bench = Bench::new();
    let long: String = (0..10_000).map(|n| char::from(b'a' + u8::try_from(n % 26).unwrap())).collect();
    bench.put("f", format!("short\n{long}\nlast\n"));
    let shown = bench.read(json!({"file_path": "f"})).await;
    assert!(shown.contains("of this line omitted; it has 10,000 characters"), "{shown}");
    assert!(shown.contains("     3\tlast\n"), "{shown}");
    let shown = bench.read(json!({"file_path": "f", "offset": 2, "column": 1_001, "max_chars": 2_000})).await;
    let rest: String = shown.lines().nth(1).unwrap().to_owned();
    assert!(long[1_000..].starts_with(&rest) && rest.len() > 1_000, "{shown}");
    assert!(shown.contains(&format!("Continue with offset=2 column={}.", 1_001 + rest.len())), "{shown}");
    let error = bench.refused("Read", json!({"file_path": "f", "offset": 1, "column": 50})).await;
    assert_eq!(error.code(), ErrorCode::InvalidArgs, "{error}");
}

#[tokio::test]
async fn read_knows_encodings_and_binary_files() {
    let bench = Bench::new();
    bench.put("bom", "\u{FEFF}héllo\n");
    let utf16: Vec<u8> =
        b"\xFF\xFE".iter().copied().chain("wörld\n".encode_utf16().flat_map(u16::to_le_bytes)).collect();
    bench.put("utf16", utf16);
    bench.put("latin", b"caf\xe9\n");
    bench.put("control", b"a\x07b\n");
    for (name, expect) in [
        ("bom", "utf-8 with BOM, lf)\n     1\théllo\n"),
        ("utf16", "utf-16le with BOM, lf)\n     1\twörld\n"),
    ] {
        let shown = bench.read(json!({"file_path": name})).await;
        assert!(shown.contains(expect), "{shown}");
    }
    let reply = bench.ok("Read", json!({"file_path": "latin"})).await;
    assert!(text(&reply).contains("caf\u{FFFD}\n"));
    assert_eq!(reply.meta.lossy_chars, Some(1));
    assert_eq!(bench.ok("Read", json!({"file_path": "control"})).await.meta.control_chars, Some(1));

    bench.put("image.png", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR");
    bench.put("base.db", b"SQLite format 3\0\x10\0");
    for (name, words) in [
        ("image.png", ["a PNG image", "16 bytes", "89 50 4e 47"]),
        ("base.db", ["SQLite", "SqliteQuery", "53 51 4c"]),
    ] {
        let error = bench.refused("Read", json!({"file_path": name})).await;
        assert_eq!(error.code(), ErrorCode::NotText);
        assert!(words.iter().all(|word| error.text().contains(word)), "{error}");
    }
}

#[tokio::test]
async fn a_missing_file_comes_with_what_may_be_meant() {
    let bench = Bench::new();
    let main = bench.put("src/main.rs", "fn main() {}\n");
    let deep = bench.put("crates/core/src/engine.rs", "\n");
    symlink("nowhere", bench.root.join("broken")).unwrap();
    for (path, expect) in [
        ("src/mian.rs", format!("Did you mean {}?", main.display())),
        ("scr/main.rs", main.display().to_string()),
        ("src/engine.rs", deep.display().to_string()),
        ("src/none/at/all", format!("that exists is {}.", bench.root.join("src").display())),
        ("broken", "is a link to nowhere, which does not exist".to_owned()),
    ] {
        let error = bench.refused("Read", json!({"file_path": path})).await;
        assert_eq!(error.code(), ErrorCode::NotFound);
        assert!(error.text().contains(&expect), "{path}: {error}");
    }
    let error = bench.refused("read_file", json!({"path": "none"})).await;
    assert!(error.text().starts_with("Error: File not found\n"), "{error}");
}

#[tokio::test]
async fn folders_are_listed() {
    use std::os::unix::ffi::OsStrExt;
    let bench = Bench::new();
    bench.put("b.txt", "12");
    bench.put("a/c.txt", "1");
    bench.put("a/skip.log", "1");
    bench.put(".ignore", "*.log\n");
    bench.put("bad/ok", "1");
    fs::write(bench.root.join("bad").join(std::ffi::OsStr::from_bytes(b"x\xff")), "1").unwrap();
    for args in [json!({"file_path": "."}), json!({"file_path": bench.root})] {
        let shown = bench.read(args).await;
        assert!(
            shown.contains("/ (folder, 4 entries)\n.ignore (6 bytes)\na/\nb.txt (2 bytes)\nbad/\n"),
            "{shown}"
        );
    }
    let shown = bench.ok("list_files", json!({"recursive": true})).await;
    assert!(
        text(&shown).contains("a/c.txt (1 byte)\n") && !text(&shown).contains("skip.log"),
        "{}",
        text(&shown)
    );
    let shown = bench.ok("list_files", json!({"path": "bad"})).await;
    assert!(text(&shown).contains("x\u{FFFD} (1 byte)\n"));
    let error = bench.refused("list_files", json!({"path": "b.txt"})).await;
    assert_eq!(error.code(), ErrorCode::InvalidArgs);
    for n in 0..600 {
        fs::write(bench.root.join("bad").join(format!("f{n:03}")), "").unwrap();
    }
    let shown = bench.ok("list_files", json!({"path": "bad"})).await;
    assert!(
        text(&shown).contains("Showing the first 500 of 602; 102 more entries left out."),
        "{}",
        text(&shown)
    );
    assert!(shown.meta.truncated);
}

// Big files (H26, H27 and pages of a big file).

/// A hole of `size` bytes with text before and after it.
fn sparse(bench: &Bench, name: &str, size: u64) -> PathBuf {
    let path = bench.put(name, "first line of text\n".repeat(1_000));
    let mut file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(size)).unwrap();
    file.write_all(b"\nlast but one\nlast\n").unwrap();
    path
}

#[tokio::test]
async fn the_ends_of_a_huge_file_are_near() {
    let bench = Bench::new();
    for (name, size) in [("5g", 5_u64 << 30), ("1t", 1 << 40)] {
        sparse(&bench, name, size);
        let reply = bench.ok("Read", json!({"file_path": name, "offset": -2})).await;
        assert!(text(&reply).contains("    -2\tlast but one\n    -1\tlast\n"), "{}", text(&reply));
        assert_eq!(reply.meta.sha256, None);
        let shown = bench.read(json!({"file_path": name, "offset": 999, "limit": 2})).await;
        assert!(shown.contains("   999\tfirst line of text\n  1000\tfirst line of text\n"), "{shown}");
        assert!(shown.contains("more than") && shown.contains("Continue with offset=1001."), "{shown}");
        let shown = bench.read(json!({"file_path": name, "offset": 1_000})).await;
        assert!(shown.contains("it has more than 64."), "{shown}");
        assert!(shown.contains("too long to look past"), "{shown}");
    }
    // A terabyte is not searched for a line.
    let error = bench.refused("Read", json!({"file_path": "1t", "offset": 5_000})).await;
    assert_eq!(error.code(), ErrorCode::TooLarge, "{error}");
    let error =
        bench.refused("Edit", json!({"file_path": "1t", "old_string": "last", "new_string": "x"})).await;
    assert_eq!(error.code(), ErrorCode::TooLarge, "{error}");
    bench.refused("Read", json!({"file_path": "1t", "offset": -5})).await;
}

#[tokio::test]
async fn deep_pages_of_a_big_file_are_exact() {
    let bench = Bench::new();
    let content = counted(300_000, "this is line number {}\n");
    let path = bench.put("big", &content);
    let total = "300,000 lines";
    for offset in [150_000_u64, 150_003, 299_999, 1, 40_000] {
        let shown = bench.read(json!({"file_path": "big", "offset": offset, "limit": 2})).await;
        assert!(shown.contains(total), "{shown}");
        let expect = format!(
            "{offset:>6}\tthis is line number {offset}\n{:>6}\tthis is line number {}\n",
            offset + 1,
            offset + 1
        );
        assert!(shown.contains(&expect), "{shown}");
    }
    let shown = bench.read(json!({"file_path": "big", "offset": -1})).await;
    assert!(shown.contains("300000\tthis is line number 300000\n"), "{shown}");
    // A change makes the index of the old state worthless.
    fs::write(&path, content.replacen("this is", "it became\nthis is", 1)).unwrap();
    let shown = bench.read(json!({"file_path": "big", "offset": 150_001, "limit": 1})).await;
    assert!(shown.contains("150001\tthis is line number 150000\n"), "{shown}");
}

#[tokio::test]
async fn a_file_of_unknown_size_is_read_within_bounds() {
    let workspace = Workspace::open(&[PathBuf::from("/proc/self")]).unwrap();
    let deps = FileDeps { client: Arc::new(LocalFiles::new()), workspace };
    let reply = call(&registry(tools(deps)), "Read", json!({"file_path": "status"})).await.unwrap();
    assert!(text(&reply).contains("\tName:"), "{}", text(&reply));
}

// Write.

#[tokio::test]
async fn write_makes_replaces_and_says_what_it_did() {
    let bench = Bench::new();
    let reply = bench.ok("Write", json!({"file_path": "new/deep/f", "content": "one\ntwo\n"})).await;
    assert!(
        text(&reply).starts_with("Created ") && text(&reply).ends_with("8 characters, 2 lines."),
        "{}",
        text(&reply)
    );
    let change = &reply.meta.files[0];
    assert_eq!(change.before, None);
    let first = change.after.clone().unwrap();

    let reply = bench.ok("Write", json!({"path": "new/deep/f", "content": "three\n"})).await;
    assert!(text(&reply).starts_with("Replaced "));
    assert_eq!(reply.meta.files[0].before.as_deref(), Some(first.as_str()));
    let now = reply.meta.sha256.clone().unwrap();

    let inode = fs::metadata(bench.root.join("new/deep/f")).unwrap().ino();
    let reply = bench.ok("Write", json!({"file_path": "new/deep/f", "content": "three\n"})).await;
    assert!(text(&reply).starts_with("No change: ") && reply.meta.files.is_empty());
    assert_eq!(fs::metadata(bench.root.join("new/deep/f")).unwrap().ino(), inode);

    let error = bench
        .refused("Write", json!({"file_path": "new/deep/f", "content": "x", "overwrite": "never"}))
        .await;
    assert_eq!(error.code(), ErrorCode::Stale);
    bench.ok("Write", json!({"file_path": "fresh", "content": "x", "overwrite": "never"})).await;
    let conditional = |hash: &str| json!({"file_path": "new/deep/f", "content": "four\n", "overwrite": "if_unchanged", "expected_sha256": hash});
    assert_eq!(bench.refused("Write", conditional(&first)).await.code(), ErrorCode::Stale);
    bench.ok("Write", conditional(&now)).await;
    assert_eq!(bench.get("new/deep/f"), "four\n");

    for args in [
        json!({"file_path": "f", "content": "x", "overwrite": "if_unchanged"}),
        json!({"file_path": "f", "content": "x", "expected_sha256": "abc"}),
        json!({"file_path": "f", "content": "x", "overwrite": "sometimes"}),
    ] {
        assert_eq!(bench.refused("Write", args).await.code(), ErrorCode::InvalidArgs);
    }
    let error =
        bench.refused("Write", json!({"file_path": "no/such", "content": "x", "create_dirs": false})).await;
    assert_eq!(error.code(), ErrorCode::NotFound);
    let error = bench.refused("Write", json!({"file_path": "new", "content": "x"})).await;
    assert_eq!(error.code(), ErrorCode::IsDirectory);
    assert!(!bench.root.join("f").exists());
    bench.assert_tidy();
}

#[tokio::test]
async fn a_content_over_the_limit_is_refused() {
    let bench = Bench::new();
    let content = "x".repeat((10 << 20) + 1);
    for (tool, key) in [("Write", "file_path"), ("write_file", "path")] {
        let error = bench.refused(tool, json!({key: "f", "content": content})).await;
        assert_eq!(error.code(), ErrorCode::TooLarge, "{tool}");
    }
    assert!(!bench.root.join("f").exists());
}

#[tokio::test]
async fn mode_links_and_shape_of_a_file_are_kept() {
    let bench = Bench::new();
    let path = bench.put("run.sh", "#!/bin/sh\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o751)).unwrap();
    symlink("run.sh", bench.root.join("link")).unwrap();
    bench.ok("Write", json!({"file_path": "link", "content": "#!/bin/sh\nexit\n"})).await;
    bench.ok("Edit", json!({"file_path": "link", "old_string": "exit", "new_string": "exit 1"})).await;
    assert_eq!(bench.get("run.sh"), "#!/bin/sh\nexit 1\n");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o751);
    assert!(fs::symlink_metadata(bench.root.join("link")).unwrap().is_symlink());
    bench.ok("Write", json!({"file_path": "run.sh", "content": "x", "executable": false})).await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    bench.ok("Write", json!({"file_path": "run.sh", "content": "x", "executable": true})).await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o750);

    bench.put("dos.txt", "\u{FEFF}a\r\nb\r\n");
    let reply = bench.ok("Write", json!({"file_path": "dos.txt", "content": "c\nd\n"})).await;
    assert_eq!(bench.get("dos.txt"), "\u{FEFF}c\r\nd\r\n");
    assert_eq!(reply.meta.warnings.len(), 2, "{:?}", reply.meta.warnings);
    let utf16 = |text: &str| -> Vec<u8> {
        std::iter::once(0xFEFF).chain(text.encode_utf16()).flat_map(u16::to_be_bytes).collect()
    };
    bench.put("wide.txt", utf16("a\r\n"));
    bench.ok("Write", json!({"file_path": "wide.txt", "content": "b\n"})).await;
    assert_eq!(fs::read(bench.root.join("wide.txt")).unwrap(), utf16("b\r\n"));
}

#[tokio::test]
async fn an_owner_is_kept_where_the_system_allows_it() {
    let bench = Bench::new();
    let path = bench.put("f", "a\n");
    if std::os::unix::fs::chown(&path, Some(12_345), Some(12_345)).is_err() {
        return;
    }
    bench.ok("Write", json!({"file_path": "f", "content": "b\n"})).await;
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!((metadata.uid(), metadata.gid()), (12_345, 12_345));
}

// Edit (H35 to H37).

#[tokio::test]
async fn edit_changes_one_place_and_shows_it() {
    let bench = Bench::new();
    bench.put("f.rs", "a\nb\nc\nlet x = $&1;\nd\ne\nf\ng");
    let reply = bench
        .ok(
            "Edit",
            json!({"path": "f.rs", "old_str": "let x = $&1;", "newText": "let x = $$2;\nlet y = \\1;"}),
        )
        .await;
    assert_eq!(bench.get("f.rs"), "a\nb\nc\nlet x = $$2;\nlet y = \\1;\nd\ne\nf\ng");
    assert!(text(&reply).contains("1 replacement at lines 4-5.\n     1\ta\n"), "{}", text(&reply));
    assert!(text(&reply).ends_with("     8\tf\n"), "{}", text(&reply));
    let change = &reply.meta.files[0];
    assert!(change.before.is_some() && change.after.is_some() && change.before != change.after);

    let reply = bench
        .ok(
            "Edit",
            json!({"path": "f.rs", "old_str": "let x = $&1;", "newText": "let x = $$2;\nlet y = \\1;"}),
        )
        .await;
    assert!(
        text(&reply).starts_with("No change: old_string is not in ") && text(&reply).contains("at lines 4-5"),
        "{}",
        text(&reply)
    );
    bench.assert_tidy();
}

#[tokio::test]
async fn edit_refuses_what_is_not_the_only_place() {
    let bench = Bench::new();
    bench.put("f", "x = 1\ny = 2\nx = 1\n");
    let edit = |more: Value| {
        let mut args = json!({"file_path": "f", "old_string": "x = 1", "new_string": "x = 3"});
        args.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        args
    };
    let error = bench.refused("Edit", edit(json!({}))).await;
    assert_eq!(error.code(), ErrorCode::Ambiguous);
    assert!(error.text().contains("2 places") && error.text().contains("lines 1, 3"), "{error}");
    assert_eq!(bench.refused("Edit", edit(json!({"expected_count": 3}))).await.code(), ErrorCode::Ambiguous);
    let error = bench.refused("Edit", edit(json!({"old_string": "x  = 1"}))).await;
    assert_eq!(error.code(), ErrorCode::NoMatch);
    assert!(error.text().contains("     1\tx = 1\n"), "{error}");
    assert_eq!(
        bench.refused("Edit", edit(json!({"old_string": "x = 3"}))).await.code(),
        ErrorCode::InvalidArgs
    );
    assert_eq!(bench.refused("Edit", edit(json!({"old_string": ""}))).await.code(), ErrorCode::InvalidArgs);
    let error = bench.refused("Edit", edit(json!({"expected_sha256": "0".repeat(64)}))).await;
    assert_eq!(error.code(), ErrorCode::Stale);
    assert_eq!(bench.get("f"), "x = 1\ny = 2\nx = 1\n");

    let reply = bench.ok("Edit", edit(json!({"replace_all": true, "dry_run": true}))).await;
    assert!(text(&reply).contains("@@ line 1 @@\n-x = 1\n+x = 3\n@@ line 3 @@\n"), "{}", text(&reply));
    assert_eq!(bench.get("f"), "x = 1\ny = 2\nx = 1\n");
    bench.ok("Edit", edit(json!({"expected_count": 2}))).await;
    assert_eq!(bench.get("f"), "x = 3\ny = 2\nx = 3\n");
}

#[tokio::test]
async fn edit_keeps_every_other_byte() {
    let bench = Bench::new();
    bench.put("dos", "\u{FEFF}a\r\nb\r\nmix\nc");
    bench.ok("Edit", json!({"file_path": "dos", "old_string": "a\nb", "new_string": "a\nb2\nb3"})).await;
    assert_eq!(bench.get("dos"), "\u{FEFF}a\r\nb2\r\nb3\r\nmix\nc");
    bench.put("latin", b"caf\xe9 one\n\xff\xfe two\n");
    bench.ok("Edit", json!({"file_path": "latin", "old_string": "one", "new_string": "1"})).await;
    assert_eq!(fs::read(bench.root.join("latin")).unwrap(), b"caf\xe9 1\n\xff\xfe two\n");
    bench.put("quotes", "say \u{201C}hi\u{201D}\n");
    let reply =
        bench.ok("Edit", json!({"file_path": "quotes", "old_string": "\"hi\"", "new_string": "'ho'"})).await;
    assert_eq!(bench.get("quotes"), "say 'ho'\n");
    assert!(text(&reply).contains("typographic"), "{}", text(&reply));
    bench.put("numbered", "fn a() {\n}\n");
    let reply = bench
        .ok("Edit", json!({"file_path": "numbered", "old_string": "     1\tfn a() {\n     2\t}\n", "new_string": "fn b() {\n}\n"}))
        .await;
    assert_eq!(bench.get("numbered"), "fn b() {\n}\n");
    assert!(text(&reply).contains("Line numbers were taken out"), "{}", text(&reply));
}

#[tokio::test]
async fn an_empty_old_string_makes_a_file() {
    let bench = Bench::new();
    bench.put("empty", "");
    for (path, verb) in [("new/f", "Created"), ("empty", "Filled")] {
        let reply =
            bench.ok("Edit", json!({"file_path": path, "old_string": "", "new_string": "text\n"})).await;
        assert!(text(&reply).starts_with(verb), "{}", text(&reply));
        assert_eq!(bench.get(path), "text\n");
    }
    let error =
        bench.refused("Edit", json!({"file_path": "absent", "old_string": "a", "new_string": "b"})).await;
    assert_eq!(error.code(), ErrorCode::NotFound);
}

// The plain tools.

#[tokio::test]
async fn the_plain_tools_speak_their_own_words() {
    let bench = Bench::new();
    let reply = bench.ok("write_file", json!({"path": "d/f.txt", "content": "one\r\ntwo"})).await;
    assert_eq!(text(&reply), "Successfully wrote to d/f.txt");
    let reply = bench.ok("read_file", json!({"path": "d/f.txt"})).await;
    assert_eq!(text(&reply), "one\r\ntwo");
    let lines = counted(9_000, "{}\n");
    bench.put("long", &lines);
    let reply = bench.ok("read_file", json!({"path": "long"})).await;
    let shown = text(&reply);
    let (body, note) = shown.rsplit_once("[... ").unwrap();
    assert!(lines.starts_with(body) && shown.len() <= 30_000 && reply.meta.truncated);
    assert!(note.contains(&format!("offset={} for the rest]", body.lines().count() + 1)), "{note}");
    let error = bench.refused("read_file", json!({"path": "d"})).await;
    assert_eq!(error.code(), ErrorCode::IsDirectory);
    let error = bench.refused("write_file", json!({"path": ".bashrc", "content": "x"})).await;
    assert!(error.text().starts_with("Permission denied to write .bashrc"), "{error}");
}

// Cancel.

#[tokio::test]
async fn a_cancelled_call_does_nothing() {
    let bench = Bench::new();
    bench.put("f", "a\n");
    for (tool, args) in [
        ("Read", json!({"file_path": "f"})),
        ("Write", json!({"file_path": "f", "content": "b"})),
        ("Edit", json!({"file_path": "f", "old_string": "a", "new_string": "b"})),
        ("read_file", json!({"path": "f"})),
        ("write_file", json!({"path": "f", "content": "b"})),
        ("list_files", json!({"recursive": true})),
    ] {
        let cx = ToolCx::detached(RequestId::new());
        cx.cancel.cancel();
        let error = call_with(&bench.tools, tool, args, cx).await.expect_err(tool);
        assert_eq!(error.code(), ErrorCode::Cancelled, "{tool}");
    }
    assert_eq!(bench.get("f"), "a\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_grows_is_read_as_it_was() {
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
        let reply = bench.ok("Read", json!({"file_path": "log", "limit": 1})).await;
        assert!(text(&reply).contains("     1\tstart\n"), "{}", text(&reply));
        let tail = bench.read(json!({"file_path": "log", "offset": -1})).await;
        let last = tail.lines().nth(1).and_then(|line| line.split_once('\t')).map(|(_, body)| body).unwrap();
        // A line that is being appended may be seen in part.
        assert!(last == "start" || "one more line".starts_with(last), "{tail}");
    }
    stop.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

#[tokio::test]
async fn the_catalog_shows_each_tool_with_its_keys() {
    let bench = Bench::new();
    let names: Vec<_> = bench.tools.specs().map(|spec| spec.name).collect();
    assert_eq!(names, ["Edit", "Read", "Write", "list_files", "read_file", "write_file"]);
    for spec in bench.tools.specs() {
        assert!(spec.description.len() > 40, "{}", spec.name);
        for (alias, key) in spec.aliases {
            assert!(spec.schema["properties"].get(key).is_some(), "{}: {alias} -> {key}", spec.name);
        }
        for example in spec.examples {
            assert!(bench.tools.find(spec.name).unwrap().decode(example).is_ok(), "{}: {example}", spec.name);
        }
    }
}
