//! The paths that this machine serves as an ACP client: those inside its workspace, under any name.

use super::*;
use punie_editor::local_client_tools::REFUSED_CODE;
use punie_editor::protocol::{
    CreateTerminalRequest, Error, ReadTextFileRequest, WriteTextFileRequest,
};

async fn read_path(bench: &EditorBench, path: impl Into<PathBuf>) -> Result<String, Error> {
    let request = ReadTextFileRequest::new("s", path);
    ClientTools::read_text_file(&bench.local, request)
        .await
        .map(|answer| answer.content)
}

async fn write_path(bench: &EditorBench, path: impl Into<PathBuf>) -> Result<(), Error> {
    let request = WriteTextFileRequest::new("s", path, "written");
    ClientTools::write_text_file(&bench.local, request)
        .await
        .map(drop)
}

async fn start_in(bench: &EditorBench, cwd: impl Into<PathBuf>) -> Result<(), Error> {
    let request = CreateTerminalRequest::new("s", "true").cwd(cwd.into());
    ClientTools::create_terminal(&bench.local, request)
        .await
        .map(drop)
}

#[tokio::test]
async fn every_name_of_a_file_inside_is_good() {
    let bench = EditorBench::new();
    std::fs::create_dir(bench.root.join("sub")).expect("a folder");
    bench.put("a.txt", "top");
    bench.put("sub/b.txt", "below");
    std::os::unix::fs::symlink("sub", bench.root.join("link")).expect("a link");
    for (path, text) in [
        ("a.txt", "top"),
        ("sub/b.txt", "below"),
        ("sub/../a.txt", "top"),
        ("./sub/./b.txt", "below"),
        ("link/b.txt", "below"),
    ] {
        assert_eq!(read_path(&bench, path).await.expect(path), text);
        assert_eq!(
            read_path(&bench, bench.root.join(path)).await.expect(path),
            text
        );
    }
    write_path(&bench, bench.root.join("new/deep/c.txt"))
        .await
        .expect("with its folders");
    assert_eq!(
        read_path(&bench, "new/deep/c.txt").await.expect("there"),
        "written"
    );
    write_path(&bench, "link/new.txt")
        .await
        .expect("below a linked folder");
    assert_eq!(bench.get("sub/new.txt"), "written");
    start_in(&bench, bench.root.join("sub"))
        .await
        .expect("a folder inside");
}

#[tokio::test]
async fn what_is_outside_is_refused_and_not_told_of() {
    let bench = EditorBench::new();
    let outside = std::fs::canonicalize(bench.dir.path())
        .expect("there")
        .join("outside");
    std::fs::create_dir(&outside).expect("a folder");
    std::fs::write(outside.join("f"), "private").expect("written");
    std::os::unix::fs::symlink(&outside, bench.root.join("out")).expect("a link");
    std::os::unix::fs::symlink(outside.join("f"), bench.root.join("file")).expect("a link");
    for path in [
        PathBuf::from("../../outside/f"),
        PathBuf::from("../outside/f"),
        PathBuf::from("out/f"),
        PathBuf::from("file"),
        PathBuf::from("/etc/passwd"),
        bench.root.join("../outside/f"),
    ] {
        for refused in [
            read_path(&bench, &path).await.expect_err("outside"),
            write_path(&bench, &path).await.expect_err("outside"),
            start_in(&bench, &path).await.expect_err("outside"),
        ] {
            assert_eq!(refused.code.value(), REFUSED_CODE, "{path:?}: {refused}");
            assert!(
                refused.message.contains("outside the workspace"),
                "{refused}"
            );
            let told = refused.to_string().replace(&path.display().to_string(), "");
            assert!(
                !told.contains(&*outside.to_string_lossy()),
                "the target of a link is not named: {told}"
            );
        }
    }
    write_path(&bench, "out/new.txt")
        .await
        .expect_err("through a linked folder");
    assert!(!outside.join("new.txt").exists());
    assert_eq!(
        std::fs::read_to_string(outside.join("f")).expect("there"),
        "private"
    );
}

#[tokio::test]
async fn what_is_no_path_of_a_file_is_an_error() {
    let bench = EditorBench::new();
    for path in ["", "with\0nul"] {
        assert!(read_path(&bench, path).await.is_err(), "{path:?}");
        assert!(write_path(&bench, path).await.is_err(), "{path:?}");
    }
    for root in [bench.root.clone(), PathBuf::from(".")] {
        assert_eq!(
            read_path(&bench, &root)
                .await
                .expect_err("a folder")
                .code
                .value(),
            -32_602
        );
        assert!(write_path(&bench, &root).await.is_err());
        start_in(&bench, &root)
            .await
            .expect("commands may start at the top");
    }
    assert!(start_in(&bench, "no-such-folder").await.is_err());
}

#[tokio::test]
async fn without_a_workspace_that_is_there_no_terminal_starts() {
    let bench = EditorBench::new();
    let base = std::fs::canonicalize(bench.dir.path()).expect("there");
    for roots in [vec![], vec![base.join("unplugged")]] {
        let local = LocalClient::new(
            local_terminals(&base, Arc::new(|| Box::new(UnfilteredStream))),
            Workspace::open_existing(&roots, None),
            LocalPolicy::Deny,
        );
        let request = CreateTerminalRequest::new("s", "true");
        let started = ClientTools::create_terminal(&local, request).await;
        let refused = started.expect_err("no folder to start in");
        assert_eq!(roots.is_empty(), refused.code.value() == REFUSED_CODE);
    }
}

#[tokio::test]
async fn a_workspace_may_be_given_by_a_link() {
    let bench = EditorBench::new();
    let base = std::fs::canonicalize(bench.dir.path()).expect("there");
    std::os::unix::fs::symlink(&bench.root, base.join("door")).expect("a link");
    bench.put("a.txt", "inside");
    let workspace = Workspace::open_roots(&[base.join("door")]).expect("a workspace");
    let filters: FilterFactory = Arc::new(|| Box::new(UnfilteredStream));
    let local = LocalClient::new(
        local_terminals(&base, filters),
        workspace,
        LocalPolicy::Deny,
    );
    for path in [
        base.join("door/a.txt"),
        bench.root.join("a.txt"),
        PathBuf::from("a.txt"),
    ] {
        let request = ReadTextFileRequest::new("s", path);
        assert_eq!(
            ClientTools::read_text_file(&local, request)
                .await
                .expect("inside")
                .content,
            "inside"
        );
    }
}

#[tokio::test]
async fn what_is_protected_is_not_written() {
    let bench = EditorBench::new();
    std::fs::create_dir_all(bench.root.join(".git/hooks")).expect("a folder");
    let refused = write_path(&bench, ".git/hooks/pre-commit")
        .await
        .expect_err("it would be run later");
    assert_eq!(refused.code.value(), REFUSED_CODE);
}
