//! ApplyPatch: both formats on real files, its refusals, and what it leaves behind when a write fails.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use punie_core::ids::RequestId;
use punie_host::files::{
    FolderListing, ListFolder, LoadedFile, MoveFile, OpenedFile, ReadTextFile, RemoveFile,
    TextWindow, WriteReport, WriteTextFile,
};
use punie_host::local::local_files::LocalFiles;
use punie_host::prepared_write::PreparedWrite;
use punie_host::{FileClient, ToolFuture, WorkspacePath};
use punie_tool::{CallIntent, ErrorCode, ToolContext, ToolError};
use serde_json::json;

use super::Bench;
use crate::harness::tools::{call_with, reply_text};

impl Bench {
    async fn patch(&self, patch: &str) -> String {
        reply_text(&self.ok("ApplyPatch", json!({"patch": patch})).await).to_owned()
    }

    async fn patch_refused(&self, patch: &str) -> ToolError {
        let error = self.refused("ApplyPatch", json!({"patch": patch})).await;
        self.assert_tidy();
        error
    }
}

const FOUR: &str = "*** Begin Patch
*** Update File: a.rs
@@ fn one() {
-    old();
+    new();
+    more();
*** Add File: new/deep/b.txt
+first
+second
*** Delete File: gone.txt
*** Update File: from.rs
*** Move to: to/there.rs
@@
-x
+y
*** End Patch
";

fn put_four(bench: &Bench) {
    bench.put(
        "a.rs",
        "fn one() {\n    old();\n}\nfn two() {\n    old();\n}\n",
    );
    bench.put("gone.txt", "so long\n");
    bench.put("from.rs", "x\n");
}

#[tokio::test]
async fn a_patch_of_every_kind_changes_all_files_and_says_so() {
    let bench = Bench::new();
    put_four(&bench);
    let reply = bench.ok("ApplyPatch", json!({"patch": FOUR})).await;
    assert_eq!(
        reply_text(&reply),
        "Applied to 4 files:\nM a.rs (+2 -1), line 2\nA new/deep/b.txt (+2)\nD gone.txt (-1)\n\
         R from.rs -> to/there.rs (+1 -1), line 1\n"
    );
    assert_eq!(
        bench.get("a.rs"),
        "fn one() {\n    new();\n    more();\n}\nfn two() {\n    old();\n}\n"
    );
    assert_eq!(bench.get("new/deep/b.txt"), "first\nsecond\n");
    assert_eq!(bench.get("to/there.rs"), "y\n");
    assert_eq!(bench.tree().len(), 3);
    let sides: Vec<(bool, bool)> = reply
        .meta
        .files
        .iter()
        .map(|file| (file.before.is_some(), file.after.is_some()))
        .collect();
    assert_eq!(
        sides,
        [
            (true, true),
            (false, true),
            (true, false),
            (true, false),
            (false, true)
        ]
    );
    assert_ne!(reply.meta.files[0].before, reply.meta.files[0].after);
}

#[tokio::test]
async fn a_dry_run_shows_a_diff_that_does_the_same() {
    let bench = Bench::new();
    let other = Bench::new();
    put_four(&bench);
    put_four(&other);
    let before = bench.tree();
    let shown = reply_text(
        &bench
            .ok("ApplyPatch", json!({"patch": FOUR, "dry_run": true}))
            .await,
    )
    .to_owned();
    assert_starts_with!(shown, "Dry run, nothing was written.");
    assert_eq!(bench.tree(), before);
    bench.patch(FOUR).await;
    // What it shows is a patch itself, but for the rename, which only git's head can say.
    let diff = &shown[shown.find("--- a/a.rs").expect("a diff")..];
    let diff = diff.replace("rename from from.rs\nrename to to/there.rs\n", "");
    let diff = diff.replace(
        "--- a/from.rs\n",
        "diff --git a/from.rs b/to/there.rs\nrename from from.rs\nrename to to/there.rs\n--- a/from.rs\n",
    );
    other.patch(&diff).await;
    assert_eq!(other.tree(), bench.tree());
}

#[tokio::test]
async fn a_diff_of_git_sets_modes_and_keeps_the_others() {
    let bench = Bench::new();
    let script = bench.put("run.sh", "#!/bin/sh\n");
    let private = bench.put("private", "a\nb\n");
    fs::set_permissions(&private, fs::Permissions::from_mode(0o640)).unwrap();
    bench
        .patch(
            "diff --git a/run.sh b/run.sh\nold mode 100644\nnew mode 100755\ndiff --git a/tool b/tool\nnew file mode 100755\n\
             --- /dev/null\n+++ b/tool\n@@ -0,0 +1 @@\n+#!/bin/sh\n\\ No newline at end of file\ndiff --git a/private b/kept\n\
             similarity index 50%\nrename from private\nrename to kept\n--- a/private\n+++ b/kept\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n",
        )
        .await;
    let mode = |name: &str| {
        fs::metadata(bench.root.join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        fs::metadata(script).unwrap().permissions().mode() & 0o111,
        0o111
    );
    assert_eq!((mode("tool") & 0o100, mode("kept")), (0o100, 0o640));
    assert_eq!(bench.get("tool"), "#!/bin/sh");
    assert_eq!(bench.get("kept"), "a\nc\n");
}

#[tokio::test]
async fn every_encoding_and_line_ending_is_kept() {
    let bench = Bench::new();
    let wide = |text: &str| -> Vec<u8> {
        [0xFF, 0xFE]
            .into_iter()
            .chain(text.encode_utf16().flat_map(u16::to_le_bytes))
            .collect()
    };
    let french = "Le caf\u{e9} du th\u{e9}\u{e2}tre est ferm\u{e9} \u{e0} midi.\n".repeat(3);
    let latin = |text: &str| -> Vec<u8> {
        text.chars()
            .map(|c| u8::try_from(u32::from(c)).unwrap())
            .collect()
    };
    for (name, before, old, new, after) in cases! {
        ("crlf", b"a\r\nb\r\nc\r\n".to_vec(), "b", "B", b"a\r\nB\r\nc\r\n".to_vec()),
        ("bom", "\u{FEFF}a\r\nb\n".into(), "a", "A", "\u{FEFF}A\r\nb\n".into()),
        ("utf16", wide("a\r\n\u{e9}\r\n"), "\u{e9}", "\u{e8}", wide("a\r\n\u{e8}\r\n")),
        (
            "latin",
            latin(&(french.clone() + "x\n")),
            "x",
            "\u{e0} x",
            latin(&(french.clone() + "\u{e0} x\n")),
        ),
        ("damaged", b"caf\xff\nb\n".to_vec(), "b", "B", b"caf\xff\nB\n".to_vec()),
        ("open", b"a\nb".to_vec(), "b", "B", b"a\nB".to_vec()),
    } {
        bench.put(name, before);
        bench
            .patch(&format!("*** Update File: {name}\n@@\n-{old}\n+{new}\n"))
            .await;
        assert_eq!(fs::read(bench.root.join(name)).unwrap(), after, "{name}");
    }
    let error = bench
        .patch_refused("*** Update File: latin\n@@\n-\u{e0} x\n+\u{1f980}\n")
        .await;
    assert_contains!(error.model_text(), "windows-1252 has no");
}

#[tokio::test]
async fn what_is_there_already_is_no_change() {
    let bench = Bench::new();
    bench.put("a", "one\nNEW LINE\n");
    bench.put("b", "whole\n");
    let before = bench.tree();
    let patch = "*** Update File: a\n@@\n one\n-OLD LINE\n+NEW LINE\n*** Add File: b\n+whole\n";
    let reply = bench.ok("ApplyPatch", json!({"patch": patch})).await;
    assert_starts_with!(
        reply_text(&reply),
        "No change: all of the patch is there already.\n= "
    );
    assert!(reply.meta.files.is_empty());
    let said = bench.patch(&format!("{patch}*** Add File: c\n+x\n")).await;
    assert_starts_with!(said, "Applied to 1 file:\n= ");
    assert_contains!(said, "\nA ");
    assert_eq!(bench.tree()[..2], before);
}

#[tokio::test]
async fn each_refusal_has_its_code_and_changes_nothing() {
    let bench = Bench::new();
    bench.put("src/main.rs", "fn main() {\n    run();\n}\n");
    bench.put("twice", "x\nx\n");
    bench.put("other", "y\n");
    bench.put("image.png", b"\x89PNG\r\n\x1a\n\0\0");
    symlink(bench.outside.join("f"), bench.root.join("leak")).unwrap();
    let before = bench.tree();
    let update = |name: &str| format!("*** Update File: {name}\n@@\n-secret\n+x\n");
    let absolute = bench.outside.join("f").display().to_string();
    for (patch, code, words) in cases! {
        (update("../root-evil/f"), ErrorCode::OutsideWorkspace, "outside"),
        (update(&absolute), ErrorCode::OutsideWorkspace, "outside"),
        (update("leak"), ErrorCode::OutsideWorkspace, "leak"),
        (
            "*** Add File: .git/hooks/pre-commit\n+x\n".to_owned(),
            ErrorCode::PolicyDenied,
            ".git/hooks",
        ),
        (
            "*** Update File: other\n*** Move to: .GIT/hooks/x\n".to_owned(),
            ErrorCode::PolicyDenied,
            ".git/hooks",
        ),
        ("*** Delete File: .claude/settings.json\n".to_owned(), ErrorCode::PolicyDenied, ".claude"),
        (update("src/mian.rs"), ErrorCode::NotFound, "src/main.rs"),
        ("*** Delete File: src/mian.rs\n".to_owned(), ErrorCode::NotFound, "src/main.rs"),
        (
            "*** Update File: src/mian.rs\n*** Move to: b\n".to_owned(),
            ErrorCode::NotFound,
            "src/main.rs",
        ),
        ("*** Add File: other\n+z\n".to_owned(), ErrorCode::Stale, "exists already"),
        (
            "*** Update File: other\n*** Move to: twice\n".to_owned(),
            ErrorCode::Stale,
            "exists already",
        ),
        (update("src"), ErrorCode::IsDirectory, "folder"),
        ("*** Delete File: src\n".to_owned(), ErrorCode::IsDirectory, "folder"),
        (update("image.png"), ErrorCode::NotText, "PNG"),
        ("*** Update File: twice\n@@\n-x\n+y\n".to_owned(), ErrorCode::Ambiguous, "lines 1, 2"),
        ("*** Update File: other\n@@\n-z\n+y\n".to_owned(), ErrorCode::NoMatch, "Hunk 1 (line 2"),
        (
            "*** Update File: other\n@@\n-y\n+z\n*** Delete File: other\n".to_owned(),
            ErrorCode::InvalidArgs,
            "line 1",
        ),
        (
            "*** Update File: other\n*** Move to: new\n*** Add File: new\n+a\n".to_owned(),
            ErrorCode::InvalidArgs,
            "two",
        ),
        (
            "diff --git a/x b/x\nBinary files a/x and b/x differ\n".to_owned(),
            ErrorCode::NotText,
            "binary",
        ),
        ("replace y by z".to_owned(), ErrorCode::InvalidArgs, "*** Begin Patch"),
        (
            "--- a/other\n+++ /dev/null\n@@ -1 +0,0 @@\n-z\n".to_owned(),
            ErrorCode::NoMatch,
            "Hunk 1",
        ),
        (
            "--- a/twice\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n".to_owned(),
            ErrorCode::NoMatch,
            "holds more",
        ),
        (
            format!("*** Add File: n\n+{}\n", punie_text::redact::MASK),
            ErrorCode::InvalidArgs,
            "secret",
        ),
    } {
        let error = bench
            .patch_refused(&format!("*** Add File: first\n+would be first\n{patch}"))
            .await;
        if patch.starts_with("***") {
            assert_eq!(error.stable_code(), code, "{patch}: {error}");
            assert_contains!(error.model_text(), "Nothing was changed"; "{patch}");
        }
        let error = bench.patch_refused(&patch).await;
        assert_eq!(error.stable_code(), code, "{patch}: {error}");
        assert_contains!(error.model_text(), words; "{patch}");
        assert_eq!(bench.tree(), before, "{patch}");
    }
}

#[tokio::test]
async fn all_faults_of_a_patch_are_told_at_once() {
    let bench = Bench::new();
    bench.put("a", "x\n");
    let error = bench
        .patch_refused(
            "*** Update File: a\n@@\n-y\n+z\n*** Delete File: b\n*** Add File: ../c\n+c\n",
        )
        .await;
    assert_eq!(
        error.model_text().matches("\n- Line ").count(),
        3,
        "{error}"
    );
}

#[tokio::test]
async fn two_sections_of_one_file_are_joined() {
    let bench = Bench::new();
    bench.put("a", "one\ntwo\nthree\n");
    let said = bench
        .patch("*** Update File: a\n@@\n-three\n+3\n*** Update File: ./a\n@@\n-one\n+1\n")
        .await;
    assert_eq!(bench.get("a"), "1\ntwo\n3\n");
    assert_contains!(said, "another order");
}

#[tokio::test]
async fn a_patch_over_a_limit_is_refused() {
    let bench = Bench::new();
    let long = format!("*** Add File: a\n+{}\n", "x".repeat(1 << 20));
    assert_error!(bench.patch_refused(&long).await, TooLarge);
    let many: String = (0..201)
        .map(|n| format!("*** Add File: f{n}\n+x\n"))
        .collect::<Vec<_>>()
        .concat();
    assert_error!(bench.patch_refused(&many).await, TooLarge);
    let big = fs::File::create(bench.root.join("big")).unwrap();
    big.set_len((64 << 20) + 1).unwrap();
    assert_error!(
        bench
            .patch_refused("*** Update File: big\n@@\n-x\n+y\n")
            .await,
        TooLarge
    );
    assert_eq!(bench.tree().len(), 1);
}

#[tokio::test]
async fn a_cancelled_call_changes_nothing() {
    let bench = Bench::new();
    put_four(&bench);
    let before = bench.tree();
    let cx = ToolContext::for_detached_call(RequestId::new());
    cx.cancel.cancel();
    let error = call_with(&bench.tools, "ApplyPatch", json!({"patch": FOUR}), cx)
        .await
        .expect_err("cancelled");
    assert_error!(error, Cancelled);
    assert_eq!(bench.tree(), before);
}

/// Decides about each change, by its number, whether the disk lets it be made.
struct ChangeWatch<F> {
    changes: AtomicUsize,
    each: F,
}

impl<F: Fn(usize) -> bool> ChangeWatch<F> {
    fn allowed(&self) -> Result<(), ToolError> {
        let change = self.changes.fetch_add(1, Ordering::SeqCst) + 1;
        if (self.each)(change) {
            return Ok(());
        }
        Err(ToolError::new(
            ErrorCode::Io,
            format!("no space left at change {change}"),
        ))
    }
}

struct WatchedWrite<F> {
    write: Box<dyn PreparedWrite>,
    watch: Arc<ChangeWatch<F>>,
}

impl<F: Fn(usize) -> bool + Send + Sync + 'static> PreparedWrite for WatchedWrite<F> {
    fn next_intent(&self) -> Option<CallIntent> {
        self.write.next_intent()
    }

    fn stage_content(&mut self) -> Result<(), ToolError> {
        self.write.stage_content()
    }

    fn place_content(self: Box<Self>) -> Result<WriteReport, ToolError> {
        self.watch.allowed()?;
        self.write.place_content()
    }
}

/// A client of this machine that asks before each change.
struct Watched<F> {
    files: LocalFiles,
    watch: Arc<ChangeWatch<F>>,
}

impl<F: Fn(usize) -> bool> Watched<F> {
    fn by(each: F) -> Arc<Self> {
        Arc::new(Self {
            files: LocalFiles::new(),
            watch: Arc::new(ChangeWatch {
                changes: AtomicUsize::new(0),
                each,
            }),
        })
    }
}

impl<F: Fn(usize) -> bool + Send + Sync + 'static> FileClient for Watched<F> {
    fn read_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ReadTextFile,
    ) -> ToolFuture<'a, TextWindow> {
        self.files.read_text_file(cx, request)
    }
    fn write_text_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, WriteReport> {
        match self.watch.allowed() {
            Ok(()) => self.files.write_text_file(cx, request),
            Err(fault) => Box::pin(async { Err(fault) }),
        }
    }
    fn prepare_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: WriteTextFile,
    ) -> ToolFuture<'a, Box<dyn PreparedWrite>> {
        Box::pin(async move {
            let write = self.files.prepare_file(cx, request).await?;
            let watch = Arc::clone(&self.watch);
            Ok(Box::new(WatchedWrite { write, watch }) as Box<dyn PreparedWrite>)
        })
    }
    fn load_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
        max: u64,
    ) -> ToolFuture<'a, LoadedFile> {
        self.files.load_file(cx, path, max)
    }
    fn remove_file<'a>(&'a self, cx: &'a ToolContext, request: RemoveFile) -> ToolFuture<'a, ()> {
        match self.watch.allowed() {
            Ok(()) => self.files.remove_file(cx, request),
            Err(fault) => Box::pin(async { Err(fault) }),
        }
    }
    fn move_file<'a>(&'a self, cx: &'a ToolContext, request: MoveFile) -> ToolFuture<'a, ()> {
        match self.watch.allowed() {
            Ok(()) => self.files.move_file(cx, request),
            Err(fault) => Box::pin(async { Err(fault) }),
        }
    }
    fn remove_empty_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, bool> {
        self.files.remove_empty_folder(cx, path)
    }
    fn open_file<'a>(
        &'a self,
        cx: &'a ToolContext,
        path: WorkspacePath,
    ) -> ToolFuture<'a, OpenedFile> {
        self.files.open_file(cx, path)
    }
    fn list_folder<'a>(
        &'a self,
        cx: &'a ToolContext,
        request: ListFolder,
    ) -> ToolFuture<'a, FolderListing> {
        self.files.list_folder(cx, request)
    }
}

#[tokio::test]
async fn whichever_write_fails_everything_is_put_back() {
    // Four files in five changes: a.rs, b.txt, gone.txt aside, from.rs, its move.
    for fails_from in 1..=5 {
        let bench = Bench::with(Watched::by(move |change| change != fails_from));
        put_four(&bench);
        fs::set_permissions(
            bench.root.join("gone.txt"),
            fs::Permissions::from_mode(0o640),
        )
        .unwrap();
        let before = bench.tree();
        let error = bench.patch_refused(FOUR).await;
        assert_error!(error, Io: &format!("no space left at change {fails_from}"));
        let words = if fails_from == 1 {
            "No file was changed before it."
        } else {
            "no file is changed"
        };
        assert_contains!(error.model_text(), words);
        assert_eq!(bench.tree(), before, "change {fails_from}");
        assert!(
            !bench.root.join("new").exists() && !bench.root.join("to").exists(),
            "folders are left"
        );
        let mode = fs::metadata(bench.root.join("gone.txt"))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o640);
    }
}

#[tokio::test]
async fn what_cannot_be_put_back_is_named_file_by_file() {
    // The fourth change fails, and so do the two that would put back gone.txt and b.txt; a.rs is put back.
    let bench = Bench::with(Watched::by(|change| !(4..7).contains(&change)));
    put_four(&bench);
    let original = bench.get("a.rs");
    let error = bench.refused("ApplyPatch", json!({"patch": FOUR})).await;
    let told = error.model_text();
    assert_contains!(told, "applied in part");
    assert_contains!(
        told,
        "/gone.txt was renamed to ",
        "/new/deep/b.txt was made and stays so"
    );
    assert_lacks!(told, "a.rs was changed");
    assert_eq!(bench.get("a.rs"), original);
    assert_eq!(bench.get("new/deep/b.txt"), "first\nsecond\n");
    assert!(!bench.root.join("gone.txt").exists());
}

#[tokio::test]
async fn a_cancel_after_the_first_write_does_not_stop_the_others() {
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let bench = Bench::with(Watched::by(move |change| {
        if change == 2 {
            cancel.cancel();
        }
        true
    }));
    put_four(&bench);
    let reply = call_with(&bench.tools, "ApplyPatch", json!({"patch": FOUR}), cx)
        .await
        .expect("finished");
    assert_contains!(
        reply_text(&reply),
        "was cancelled while it wrote; the patch was finished"
    );
    assert_eq!(bench.tree().len(), 3);
    assert_eq!(bench.get("to/there.rs"), "y\n");
}

#[tokio::test]
async fn a_file_that_changed_since_it_was_checked_is_not_written_over() {
    let victim = Arc::new(std::sync::OnceLock::new());
    let known: Arc<std::sync::OnceLock<std::path::PathBuf>> = Arc::clone(&victim);
    let bench = Bench::with(Watched::by(move |change| {
        if change == 1 {
            fs::write(known.get().unwrap(), "somebody else's\n").unwrap();
        }
        true
    }));
    bench.put("a", "one\n");
    victim.set(bench.put("b", "two\n")).unwrap();
    let error = bench
        .patch_refused("*** Update File: a\n@@\n-one\n+1\n*** Update File: b\n@@\n-two\n+2\n")
        .await;
    assert_error!(error, Stale);
    assert_eq!(bench.get("a"), "one\n");
    assert_eq!(bench.get("b"), "somebody else's\n");
}
