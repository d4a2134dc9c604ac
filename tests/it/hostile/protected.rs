//! Protected names in a workspace, in every spelling, existing or not, and mounts in the workspace.

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Command;

use serde_json::json;

use crate::file::Bench;
use crate::harness::left_out::can_be_tried;
use crate::harness::process::PROGRAM;

/// Checks that every file tool that writes refuses the path by the protected-path rule, and creates nothing.
async fn never_written(bench: &Bench, path: &str) {
    let added = format!("*** Begin Patch\n*** Add File: {path}\n+x\n*** End Patch");
    let moved = format!(
        "*** Begin Patch\n*** Update File: plain\n*** Move to: {path}\n@@\n-plain\n+x\n*** End Patch"
    );
    bench.put("plain", "plain\n");
    let before = bench.tree();
    for (tool, args) in cases! {
        ("Write", json!({"file_path": path, "content": "x"})),
        ("Edit", json!({"file_path": path, "old_string": "", "new_string": "x"})),
        ("MultiEdit", json!({"file_path": path, "edits": [{"old_string": "", "new_string": "x"}]})),
        ("ApplyPatch", json!({"patch": added})),
        ("ApplyPatch", json!({"patch": moved})),
        ("write_file", json!({"path": path, "content": "x"})),
    } {
        let error = bench.refused(tool, args).await;
        assert_error!(error, PolicyDenied: "protected-path"; "{tool} {path:?}");
    }
    assert_eq!(bench.tree(), before, "{path:?}");
}

#[tokio::test]
async fn h19_a_protected_name_with_combining_marks_or_folding_letters_is_refused() {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.join(".git/hooks")).unwrap();
    for path in [
        // A combining mark that a file system may ignore when it compares names: inside, behind and before the name.
        ".gi\u{301}t/config",
        ".git\u{308}/hooks/pre-commit",
        "\u{300}.git/config",
        // Letters that fold to these in another case: long s, dotless and dotted i, the Kelvin sign.
        ".v\u{17f}code/tasks.json",
        ".g\u{131}t/config",
        ".G\u{130}T/config",
        ".git/hoo\u{212a}s/x",
        ".ba\u{17f}hrc",
    ] {
        never_written(&bench, path).await;
    }
    // A letter that only looks alike makes another name on every file system.
    let args = json!({"file_path": ".\u{434}it/config", "content": "x"});
    bench.ok("Write", args).await;
}

#[tokio::test]
async fn h20_a_protected_name_in_another_case_or_with_what_nobody_sees_is_refused() {
    let bench = Bench::new();
    fs::create_dir_all(bench.root.join(".git/hooks")).unwrap();
    let invisible = [
        '\u{ad}',
        '\u{34f}',
        '\u{180e}',
        '\u{200b}',
        '\u{200c}',
        '\u{200d}',
        '\u{200e}',
        '\u{202e}',
        '\u{2060}',
        '\u{2063}',
        '\u{206f}',
        '\u{fe0f}',
        '\u{feff}',
        '\u{e0067}',
        '\u{3164}',
    ];
    let unseen = invisible.map(|c| format!(".gi{c}t/config"));
    let spelled = [
        ".GIT/hooks/x",
        ".Git/CONFIG",
        ".git./config",
        ".git /hooks/x",
        ".git::$INDEX_ALLOCATION/config",
        "GIT~1/config",
        ".git/config.worktree",
        "vendor/lib/.git/modules/x/hooks/y",
        ".Claude/settings.json",
        "sub/.ENVRC",
        ".\u{200b}bashrc\u{200b}",
        ".mcp.json.",
    ];
    for path in unseen.iter().map(String::as_str).chain(spelled) {
        never_written(&bench, path).await;
    }
    // Through a link that leads to a protected folder, and through a protected name that leads elsewhere.
    symlink(".git/hooks", bench.root.join("innocent")).unwrap();
    fs::create_dir(bench.root.join("dotfiles")).unwrap();
    symlink("dotfiles", bench.root.join(".cursor")).unwrap();
    for path in ["innocent/pre-commit", ".cursor/rules"] {
        never_written(&bench, path).await;
    }
    let args = json!({"file_path": ".github/workflows/ci.yml", "content": "x"});
    bench.ok("Write", args).await;
}

#[tokio::test]
async fn h34_a_protected_path_that_is_not_there_yet_is_not_made() {
    let bench = Bench::new();
    for path in [
        ".claude/settings.json",
        ".codex/config.toml",
        ".cursor/rules/a.md",
        ".gemini/settings.json",
        ".punie/config.toml",
        ".vscode/tasks.json",
        ".idea/workspace.xml",
        ".mcp.json",
        ".envrc",
        "deep/below/.envrc",
        ".gitmodules",
        ".bashrc",
        ".zshenv",
        ".config/fish/config.fish",
        ".git",
        ".git/hooks/post-checkout",
        ".git/config",
    ] {
        never_written(&bench, path).await;
    }
    let made: Vec<_> = fs::read_dir(&bench.root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(made, ["plain"], "no parent folder may be created");
    // Through a link whose target does not exist yet.
    symlink(".claude/settings.json", bench.root.join("notes.json")).unwrap();
    for tool in ["Write", "write_file"] {
        let error = bench
            .refused(tool, json!({"path": "notes.json", "content": "x"}))
            .await;
        assert_error!(error, PolicyDenied; "{tool}");
    }
    assert!(!bench.root.join(".claude").exists());
}

/// A script for a mount namespace. Its arguments are the program, the workspace and the folder beside it.
const MOUNTS: &str = r#"
set -e
program=$1 work=$2 outside=$3
mkdir "$work/mounted"; : > "$work/bound"; echo kept > "$outside/kept"
mount -t tmpfs none "$work/mounted"; echo old > "$work/mounted/f"
mount --bind "$outside/kept" "$work/bound"
mkdir "$work/.git" "$work/hooks"; mkdir "$work/.git/hooks"; mount --bind "$work/.git/hooks" "$work/hooks"
ask() { "$program" call "$@" --workspace "$work" 2>&1 || echo "code $?"; }
ask Write '{"file_path":"mounted/new","content":"made\n"}'
ask Edit '{"file_path":"mounted/f","old_string":"old","new_string":"changed"}'
ask Read '{"file_path":"mounted/f"}'
ask Glob '{"pattern":"mounted/**"}'
echo "there: $(cat "$work/mounted/new") $(cat "$work/mounted/f")"
ask Write '{"file_path":"bound","content":"taken\n"}'
echo "bound: $(cat "$outside/kept") $(ls "$outside")"
ask Read '{"file_path":"mounted/../../outside/kept"}'
"#;

#[test]
fn h40_a_mounted_folder_belongs_to_the_workspace_and_a_mounted_file_is_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    for made in ["work", "outside", "home"] {
        fs::create_dir(folder.path().join(made)).expect("made");
    }
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command
            .args(["--user", "--map-root-user", "--mount"])
            .args(words);
        command
    };
    let can = unshare(&["true"])
        .output()
        .is_ok_and(|tried| tried.status.success());
    if !can_be_tried(
        "H40, a mount",
        (!can).then_some("this user can make no mounts of its own"),
    ) {
        return;
    }
    let mut told = unshare(&["sh", "-c", MOUNTS, "sh", PROGRAM]);
    told.arg(folder.path().join("work"))
        .arg(folder.path().join("outside"));
    told.env("PUNIE_HOME", folder.path().join("home"));
    let told = told.output().expect("it runs");
    let text = String::from_utf8_lossy(&told.stdout);
    assert!(told.status.success(), "{told:?}");
    assert_contains!(
        text,
        "there: made changed\n",
        "\tchanged\n",
        "mounted/new\n"
    );
    assert_contains!(text, "in use by another program", "bound: kept kept\n");
    assert!(
        text.contains("outside_workspace") || text.contains("outside the workspace"),
        "{text}"
    );
}
