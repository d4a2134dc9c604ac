//! Repositories that would run a program, reach outside or fool the reader, and what the tools say of it. That none runs
//! anything is in `vectors`.

use std::fs;
use std::path::Path;

use punie_host::Workspace;
use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::{Bench, bench_tools, system_path, tools_in};
use crate::harness::left_out::can_be_tried;
use crate::harness::program::make_program;
use crate::harness::tools::call_tool;

#[tokio::test]
async fn h64_that_filters_do_not_run_is_said_and_adding_is_refused() {
    for (variable, required) in [("clean", "false"), ("clean", "true"), ("process", "true")] {
        for name in ["evil", "e.v=il"] {
            let bench = Bench::new();
            let (program, mark) = bench.payload();
            bench.write(".git/info/attributes", &format!("*.txt filter={name}\n"));
            bench.git(&["config", &format!("filter.{name}.{variable}"), &program]);
            bench.git(&["config", &format!("filter.{name}.required"), required]);
            bench.touch();
            let reply = bench
                .ask("GitStatus", json!({"path": "repo"}))
                .await
                .expect("an answer");
            assert!(
                reply.meta.warnings.iter().any(|note| note.contains(name)),
                "{:?}",
                reply.meta
            );
            bench.write("a.txt", "one\nzwei\n");
            for (tool, args) in cases! {
                ("GitAdd", json!({"paths": ["repo/a.txt"]})),
                ("GitCommit", json!({"paths": ["repo/a.txt"], "message": "x"})),
                ("GitCommit", json!({"path": "repo", "all": true, "message": "x"})),
            } {
                let text = bench.refused_as(tool, args, ErrorCode::PolicyDenied).await;
                assert_contains!(
                    text,
                    &format!("a.txt: its attributes ask for the filter {name}")
                );
            }
            bench.write("b.md", "no filter here\n");
            bench
                .answer("GitCommit", json!({"paths": ["repo/b.md"], "message": "x"}))
                .await;
            assert!(!mark.exists());
        }
    }
}

#[tokio::test]
async fn h66_a_diff_without_its_driver_is_shown() {
    for setting in ["diff.evil.command", "diff.external"] {
        let bench = Bench::new();
        let (program, mark) = bench.payload();
        bench.write(".git/info/attributes", "*.txt diff=evil\n");
        bench.git(&["config", setting, &program]);
        bench.write("a.txt", "one\ndrei\n");
        for tool in ["git_diff", "GitDiff", "get_diff"] {
            let answer = bench.answer(tool, json!({"path": "repo"})).await;
            assert!(
                answer.contains("+drei") && !mark.exists(),
                "{tool} {setting}: {answer}"
            );
        }
    }
}

#[tokio::test]
async fn h67_a_commit_that_should_be_signed_is_made_without() {
    for (setting, value) in [("log.showSignature", "true"), ("format.pretty", "%G?")] {
        let bench = Bench::new();
        let signer = bench.outside.path().join("signer.sh");
        let script = "#!/bin/sh\ncat > /dev/null\necho '[GNUPG:] SIG_CREATED ' >&2\n\
                      printf -- '-----BEGIN PGP SIGNATURE-----\\n\\nx\\n-----END PGP SIGNATURE-----\\n'\n";
        make_program(&signer, script);
        let program = format!("gpg.program={}", signer.display());
        bench.git(&[
            "-c",
            &program,
            "commit",
            "-q",
            "-S",
            "--allow-empty",
            "-m",
            "signed",
        ]);
        let (program, mark) = bench.payload();
        bench.git(&["config", "gpg.program", &program]);
        bench.git(&["config", setting, value]);
        bench.git(&["config", "commit.gpgSign", "true"]);
        bench.write("b.txt", "b");
        let args = json!({"paths": ["repo/b.txt"], "message": "x"});
        bench.answer("GitCommit", args).await;
        assert!(!mark.exists());
    }
}

/// Copies a program by another process: one that is started meanwhile would otherwise keep the copy open for writing, and
/// it could not be executed.
fn copy_program(from: &str, to: &Path) {
    let copied = std::process::Command::new("cp").arg(from).arg(to).status();
    assert!(copied.expect("cp starts").success(), "{}", to.display());
}

#[tokio::test]
async fn h68_hooks_never_run_but_for_a_commit() {
    for hook in [
        "post-index-change",
        "pre-commit",
        "post-commit",
        "reference-transaction",
    ] {
        let bench = Bench::new();
        let (program, mark) = bench.payload();
        fs::create_dir_all(bench.repo().join(".git/hooks")).expect("a folder");
        copy_program(&program, &bench.repo().join(".git/hooks").join(hook));
        bench.touch();
        if hook == "post-index-change" {
            bench.never_runs(&mark, &["status"]).await;
        } else {
            bench
                .never_runs(&mark, &["commit", "-q", "--allow-empty", "-m", "x"])
                .await;
        }
        bench.git(&[
            "config",
            "core.hooksPath",
            &bench.repo().join(".git/hooks").display().to_string(),
        ]);
        bench.no_tool_runs(&mark).await;
    }
}

#[tokio::test]
async fn h69_an_embedded_bare_repository_is_not_entered() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    let bare = bench.repo().join("vendor");
    fs::create_dir(&bare).expect("a folder");
    assert!(bench.git_in(&bare, &["init", "-q", "--bare", "."]));
    assert!(bench.git_in(&bare, &["config", "core.bare", "false"]));
    assert!(bench.git_in(&bare, &["config", "core.worktree", "."]));
    assert!(bench.git_in(&bare, &["config", "core.fsmonitor", &program]));
    bench.git_in(&bare, &["status"]);
    assert!(mark.exists(), "the trap must work with plain git");
    fs::remove_file(&mark).expect("a mark");
    for tool in [
        "GitStatus",
        "GitDiff",
        "GitLog",
        "GitShow",
        "git_status",
        "git_diff",
    ] {
        let text = bench
            .refused_as(tool, json!({"path": "repo/vendor"}), ErrorCode::NotFound)
            .await;
        assert_starts_with!(text, "Error: Not a git repository");
    }
    assert!(!mark.exists());
}

#[tokio::test]
async fn h70_the_programs_of_a_submodule_do_not_run() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    let module = bench.outside.path().join("module");
    fs::create_dir(&module).expect("a folder");
    assert!(bench.git_in(&module, &["init", "-q"]));
    assert!(bench.git_in(&module, &["commit", "-q", "--allow-empty", "-m", "x"]));
    let url = module.display().to_string();
    bench.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &url,
        "module",
    ]);
    assert!(bench.git_in(
        &bench.repo().join("module"),
        &["config", "core.fsmonitor", &program]
    ));
    bench.git(&["config", "submodule.module.ignore", "none"]);
    bench.git(&["config", "diff.submodule", "diff"]);
    let reply = bench
        .ask("GitStatus", json!({"path": "repo"}))
        .await
        .expect("an answer");
    assert!(!mark.exists(), "{:?}", reply.meta);
}

#[tokio::test]
async fn h71_a_lost_object_is_an_error_and_not_fetched() {
    for rewritten in [false, true] {
        let bench = Bench::new();
        let (program, mark) = bench.payload();
        // One that would talk to git would keep it waiting.
        fs::write(
            &program,
            format!("#!/bin/sh\ntouch '{}'\nexit 1\n", mark.display()),
        )
        .expect("a file");
        let blob = bench.told(&["rev-parse", "HEAD:a.txt"]);
        let ext = format!("ext::{program} ");
        bench.git(&["config", "core.repositoryFormatVersion", "1"]);
        bench.git(&["config", "extensions.partialClone", "origin"]);
        bench.git(&["config", "remote.origin.promisor", "true"]);
        bench.git(&["config", "protocol.ext.allow", "always"]);
        if rewritten {
            bench.git(&["config", "remote.origin.url", "https://nowhere.invalid/x"]);
            bench.git(&[
                "config",
                &format!("url.{ext}.insteadOf"),
                "https://nowhere.invalid/",
            ]);
        } else {
            bench.git(&["config", "remote.origin.url", &ext]);
        }
        // A lost object is what makes git fetch.
        fs::remove_file(
            bench
                .repo()
                .join(".git/objects")
                .join(&blob[..2])
                .join(&blob[2..]),
        )
        .expect("an object");
        let refused = bench
            .refused("GitShow", json!({"path": "repo/a.txt"}))
            .await;
        assert_eq!(refused.stable_code(), ErrorCode::Io, "{refused}");
        assert!(!mark.exists(), "{refused}");
    }
}

#[tokio::test]
async fn h74_a_ref_is_never_an_option() {
    let bench = Bench::new();
    let file = bench.outside.path().join("f");
    for value in [
        "--upload-pack=x".to_owned(),
        "-Ox".to_owned(),
        format!("--output={}", file.display()),
        "--".to_owned(),
        " --all".to_owned(),
    ] {
        for (tool, args) in cases! {
            ("GitDiff", json!({"path": "repo", "from": value})),
            ("GitDiff", json!({"path": "repo", "from": "HEAD", "to": value})),
            ("GitLog", json!({"path": "repo", "ref": value})),
            ("GitLog", json!({"path": "repo", "ref": format!("HEAD..{value}")})),
            ("GitLog", json!({"path": "repo", "author": value})),
            ("GitLog", json!({"path": "repo", "grep": value})),
            ("GitLog", json!({"path": "repo", "since": value})),
            ("GitShow", json!({"path": "repo", "ref": value})),
            ("GitShow", json!({"path": "repo/a.txt", "ref": value})),
            ("GitBlame", json!({"path": "repo/a.txt", "ref": value})),
        } {
            bench.refused_as(tool, args, ErrorCode::InvalidArgs).await;
        }
    }
    assert!(!file.exists());
}

#[tokio::test]
async fn h75_a_path_is_never_a_pattern_and_stays_inside() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nzwei\n");
    for path in [
        "repo/:(top,exclude)b.txt",
        "repo/:/",
        "repo/*.txt",
        "repo/:!b",
        "repo/-p",
    ] {
        for tool in [
            "GitStatus",
            "GitDiff",
            "GitLog",
            "GitShow",
            "GitBlame",
            "git_status",
            "git_diff",
            "git_log",
        ] {
            bench
                .refused_as(tool, json!({"path": path}), ErrorCode::NotFound)
                .await;
        }
        bench
            .refused_as("GitAdd", json!({"paths": [path]}), ErrorCode::NotFound)
            .await;
    }
    for path in ["../../.kube/config", "repo/../../x", "/etc/passwd"] {
        for tool in [
            "GitStatus",
            "GitDiff",
            "GitLog",
            "GitShow",
            "GitBlame",
            "git_status",
            "git_diff",
            "git_log",
        ] {
            bench
                .refused_as(tool, json!({"path": path}), ErrorCode::OutsideWorkspace)
                .await;
        }
        let args = json!({"paths": [path]});
        bench
            .refused_as("GitAdd", args, ErrorCode::OutsideWorkspace)
            .await;
        let args = json!({"paths": [path], "message": "x"});
        bench
            .refused_as("git_add_commit", args, ErrorCode::OutsideWorkspace)
            .await;
    }
}

#[tokio::test]
async fn h76_a_repository_that_reaches_outside_is_refused() {
    let bench = Bench::new();
    bench.git(&["config", "core.worktree", "/etc"]);
    for (tool, args) in [
        ("GitStatus", json!({"path": "repo"})),
        ("GitBlame", json!({"path": "repo/a.txt"})),
        ("GitAdd", json!({"paths": ["repo"]})),
        ("GitCommit", json!({"path": "repo", "message": "x"})),
    ] {
        bench
            .refused_as(tool, args, ErrorCode::OutsideWorkspace)
            .await;
    }
    let elsewhere = bench.outside.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    assert!(bench.git_in(&elsewhere, &["init", "-q"]));
    let pointer = bench.inside.path().join("pointer");
    fs::create_dir(&pointer).expect("a folder");
    let link = bench.outside.path().join("link");
    std::os::unix::fs::symlink(&elsewhere, &link).expect("a link");
    // The refusal says where the file leads, and not where a link on the way does.
    for written in [&elsewhere, &link] {
        let git_dir = written.join(".git").display().to_string();
        fs::write(pointer.join(".git"), format!("gitdir: {git_dir}\n")).expect("a file");
        let text = bench
            .refused_as(
                "GitDiff",
                json!({"path": "pointer"}),
                ErrorCode::OutsideWorkspace,
            )
            .await;
        assert_contains!(text, &format!("leads to {git_dir},"));
    }
    let linked = bench.inside.path().join("linked");
    fs::create_dir(&linked).expect("a folder");
    std::os::unix::fs::symlink(elsewhere.join(".git"), linked.join(".git")).expect("a link");
    bench
        .refused_as(
            "GitLog",
            json!({"path": "linked"}),
            ErrorCode::OutsideWorkspace,
        )
        .await;
}

#[tokio::test]
async fn h76_a_repository_that_begins_above_the_workspace_is_refused() {
    let bench = Bench::new();
    bench.write("sub/x.txt", "x");
    let (tools, _) = bench_tools(
        &bench.repo().join("sub"),
        bench.outside.path(),
        &system_path(),
    );
    for tool in ["GitStatus", "git_status"] {
        let refused = call_tool(&tools, tool, json!({}))
            .await
            .expect_err("a repository above");
        assert_error!(refused, OutsideWorkspace);
    }
}

#[tokio::test]
async fn h77_names_of_branches_are_refused_or_shown_safely() {
    let bench = Bench::new();
    let turned = "evil\u{202e}hcnarb";
    bench.git(&["checkout", "-q", "-b", turned]);
    let long = format!("{}{}", "x".repeat(240), "/y".repeat(100));
    bench.git(&["branch", &long]);
    for (tool, args) in [
        ("GitStatus", json!({"path": "repo"})),
        ("GitLog", json!({"path": "repo"})),
        ("GitShow", json!({"path": "repo"})),
    ] {
        let answer = bench.answer(tool, args).await;
        assert_contains!(answer, "evil\\u{202e}hcnarb"; "{tool}");
        assert_lacks!(answer, "\u{202e}"; "{tool}");
        assert_lacks!(answer, &long; "{tool}");
    }
    for name in ["main\n--all", "\u{1b}[31mmain", turned, &"x".repeat(10_000)] {
        for tool in ["GitLog", "GitShow"] {
            let text = bench
                .refused_as(
                    tool,
                    json!({"path": "repo", "ref": name}),
                    ErrorCode::InvalidArgs,
                )
                .await;
            assert!(
                text.len() < 1_000 && !text.contains(['\u{1b}', '\u{202e}']),
                "{text}"
            );
        }
    }
}

#[tokio::test]
async fn h78_a_repository_of_another_user_is_refused_with_the_way_out() {
    let is_root = rustix::process::geteuid().is_root();
    if !can_be_tried(
        "H78, another user's repository",
        (!is_root).then_some("only root can give files away"),
    ) {
        return;
    }
    let bench = Bench::new();
    for path in [bench.repo(), bench.repo().join(".git")] {
        std::os::unix::fs::chown(path, Some(65_534), None).expect("given away");
    }
    for (tool, args) in [
        ("GitStatus", json!({"path": "repo"})),
        ("git_diff", json!({"path": "repo"})),
        ("GitCommit", json!({"path": "repo", "message": "x"})),
    ] {
        let text = bench.refused_as(tool, args, ErrorCode::PolicyDenied).await;
        assert_contains!(text, "safe.directory");
    }
}

#[tokio::test]
async fn h58_a_git_in_the_workspace_is_never_started() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    let bin = bench.inside.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    copy_program(&program, &bin.join("git"));
    let linked = bench.outside.path().join("linked-bin");
    fs::create_dir(&linked).expect("a folder");
    std::os::unix::fs::symlink(bin.join("git"), linked.join("git")).expect("a link");
    let traps = format!(".:bin:{}:{}", bin.display(), linked.display());
    let (tools, _) = bench_tools(bench.inside.path(), bench.outside.path(), &traps);
    let refused = call_tool(&tools, "git_status", json!({"path": "repo"}))
        .await
        .expect_err("no git");
    assert_error!(refused, NotFound);
    let path = format!("{traps}:{}", system_path());
    let (tools, _) = bench_tools(bench.inside.path(), bench.outside.path(), &path);
    call_tool(&tools, "git_status", json!({"path": "repo"}))
        .await
        .expect("an answer");
    // A session has only the repository; another one may have put the program into the workspace.
    let workspace = Workspace::open_roots(&[bench.inside.path().to_owned()]).expect("opened");
    let repo = bench
        .inside
        .path()
        .join("repo")
        .canonicalize()
        .expect("there");
    let narrowed = workspace.narrowed_to(&[repo]).expect("narrowed");
    let (tools, _) = tools_in(narrowed, bench.outside.path(), &path);
    call_tool(&tools, "git_status", json!({"path": "."}))
        .await
        .expect("an answer");
    assert!(!mark.exists());
}

#[tokio::test]
async fn h76_objects_are_taken_from_no_repository_outside() {
    let bench = Bench::new();
    let other = bench.outside.path().join("other");
    fs::create_dir(&other).expect("a folder");
    bench.plain(&other, &["init", "-q"]);
    fs::write(other.join("secret.txt"), "top-secret-words\n").expect("written");
    bench.plain(&other, &["add", "."]);
    bench.plain(
        &other,
        &[
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "commit",
            "-qm",
            "one",
        ],
    );
    let id = String::from_utf8(bench.plain(&other, &["rev-parse", "HEAD"]).stdout).expect("text");
    let show = json!({"path": "repo", "ref": id.trim()});
    let objects = bench.repo().join(".git/objects");
    let theirs = other.join(".git/objects");
    fs::write(
        objects.join("info/alternates"),
        format!("{}\n", theirs.display()),
    )
    .expect("written");
    let text = bench
        .refused_as("GitShow", show.clone(), ErrorCode::OutsideWorkspace)
        .await;
    assert_contains!(text, "it takes objects from");
    assert_lacks!(text, "top-secret");
    // By way of one that lies here.
    let between = bench.inside.path().join("between/info");
    fs::create_dir_all(&between).expect("a folder");
    fs::write(
        between.join("alternates"),
        format!("{}\n", theirs.display()),
    )
    .expect("written");
    fs::write(objects.join("info/alternates"), "../../../between\n").expect("written");
    bench
        .refused_as("GitShow", show.clone(), ErrorCode::OutsideWorkspace)
        .await;
    // Lists that name each other and one place again and again, which must not be gone through as often.
    for (name, others) in [
        ("one", "../two\n"),
        ("two", "../three\n"),
        ("three", "../one\n"),
    ] {
        let list = bench.inside.path().join(name).join("info");
        fs::create_dir_all(&list).expect("a folder");
        fs::write(list.join("alternates"), others.repeat(5_000)).expect("written");
    }
    fs::write(
        objects.join("info/alternates"),
        "../../../one\n".repeat(5_000),
    )
    .expect("written");
    bench.answer("GitLog", json!({"path": "repo"})).await;
    // One that whoever reads it would wait for.
    fs::remove_file(objects.join("info/alternates")).expect("there");
    let made = std::process::Command::new("mkfifo")
        .arg(objects.join("info/alternates"))
        .status();
    assert!(made.expect("it runs").success());
    let text = bench
        .refused_as("GitShow", show.clone(), ErrorCode::OutsideWorkspace)
        .await;
    assert_contains!(text, "it is no plain file");
    fs::remove_file(objects.join("info/alternates")).expect("there");
    fs::rename(&objects, bench.inside.path().join("objects")).expect("moved");
    std::os::unix::fs::symlink(&theirs, &objects).expect("a link");
    bench
        .refused_as("GitShow", show, ErrorCode::OutsideWorkspace)
        .await;
    // Its own, wherever they are in the workspace.
    fs::remove_file(&objects).expect("there");
    std::os::unix::fs::symlink(bench.inside.path().join("objects"), &objects).expect("a link");
    bench.answer("GitLog", json!({"path": "repo"})).await;
}

#[tokio::test]
async fn a_rule_of_ignoring_from_elsewhere_is_not_told_however_it_is_reached() {
    let bench = Bench::new();
    fs::write(
        bench.outside.path().join("secret"),
        "top-secret-words\n*.txt\n",
    )
    .expect("a file");
    bench.write("b.txt", "x");
    let up = "../".repeat(12);
    let place = format!(
        "{up}{}",
        bench
            .outside
            .path()
            .join("secret")
            .display()
            .to_string()
            .trim_start_matches('/')
    );
    bench.git(&["config", "core.excludesFile", &place]);
    let add = json!({"paths": ["repo/b.txt"]});
    let text = bench
        .refused_as("GitAdd", add.clone(), ErrorCode::PolicyDenied)
        .await;
    assert_contains!(text, "by a rule of the user's own");
    assert_lacks!(text, "*.txt");
    bench.git(&["config", "--unset", "core.excludesFile"]);
    let exclude = bench.repo().join(".git/info/exclude");
    let _ = fs::remove_file(&exclude);
    fs::create_dir_all(exclude.parent().expect("below")).expect("made");
    std::os::unix::fs::symlink(bench.outside.path().join("secret"), &exclude).expect("a link");
    let text = bench
        .refused_as("GitAdd", add, ErrorCode::PolicyDenied)
        .await;
    assert_contains!(text, "by a rule of the user's own");
    assert_lacks!(text, "*.txt");
}

#[tokio::test]
async fn settings_cannot_show_files_from_elsewhere() {
    let bench = Bench::new();
    let secret = bench.outside.path().join("secret");
    fs::write(&secret, "top-secret-words\n*.txt\n").expect("a file");
    let place = secret.display().to_string();
    bench.git(&["config", "blame.ignoreRevsFile", &place]);
    bench.git(&["config", "core.excludesFile", &place]);
    bench.write("b.txt", "x");
    let args = json!({"path": "repo/a.txt"});
    let text = bench
        .refused_as("GitBlame", args, ErrorCode::PolicyDenied)
        .await;
    assert_contains!(text, "blame.ignoreRevsFile");
    assert_lacks!(text, "top-secret");
    let args = json!({"paths": ["repo/b.txt"]});
    let text = bench
        .refused_as("GitAdd", args, ErrorCode::PolicyDenied)
        .await;
    assert_contains!(text, "b.txt: it is ignored by a rule of the user's own");
    assert_lacks!(text, "top-secret");
}
