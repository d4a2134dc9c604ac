//! The protected paths of a workspace under commands: existing ones are read-only, new ones are reported, and everyday
//! work beside them succeeds.

use std::path::Path;
use std::process::Command;

use punie_sandbox::NetworkAccess;
use serde_json::json;

use super::HostileFixture;
use super::absence::OtherKernel;
use crate::harness::program::make_program;
use crate::harness::tools;
use crate::harness::wait::wait_for_some;

pub(super) const APPEARED: &str = "appeared while a command ran";

pub(super) fn run_git(folder: &Path, args: &[&str]) {
    let done = Command::new("git")
        .args([
            "-c",
            "user.name=a",
            "-c",
            "user.email=a@b",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(args)
        .current_dir(folder)
        .output();
    let done = done.expect("git runs");
    assert!(done.status.success(), "{args:?}: {done:?}");
}

/// Creates a repository with a commit, a hook, and files that editors and shells run.
pub(super) fn make_repository(work: &Path) {
    run_git(work, &["init", "-q"]);
    for (file, text) in [
        (".git/hooks/pre-push", "hook"),
        (".vscode/tasks.json", "{}"),
        (".envrc", "rc"),
        ("a.txt", "one\n"),
        ("sub/.git/config", "[core]\n"),
        ("deep/er/.envrc", "rc"),
    ] {
        std::fs::create_dir_all(work.join(file).parent().expect("a folder")).expect("made");
        std::fs::write(work.join(file), text).expect("written");
    }
    run_git(work, &["config", "user.name", "a"]);
    run_git(work, &["config", "user.email", "a@b"]);
    run_git(work, &["add", "a.txt"]);
    run_git(work, &["commit", "-q", "-m", "one"]);
}

pub(super) fn fixture_with_repository(network: NetworkAccess) -> HostileFixture {
    let setup = HostileFixture::with_rules(network, |_| {});
    make_repository(&setup.path("work"));
    setup
}

/// Runs a command and checks that it fails.
pub(super) async fn expect_failure(setup: &HostileFixture, command: &str) {
    let text = setup.bash(&format!("{command} || exit 7")).await;
    assert_contains!(text, "Exit code 7"; "{command}");
}

#[tokio::test]
async fn what_is_there_can_be_neither_written_nor_moved_nor_reached_from_inside() {
    for network in [
        NetworkAccess::Loopback,
        NetworkAccess::None,
        NetworkAccess::Full,
    ] {
        let setup = fixture_with_repository(network);
        let config = setup.read("work/.git/config");
        for command in [
            "echo x >> .git/config",
            "echo x > .git/hooks/pre-commit",
            "echo x > .git/hooks/pre-push",
            "rm -f .git/hooks/pre-push",
            "mv .git/hooks .git/hooks.old",
            "mv .git other",
            "echo x > new && mv new .git/config",
            "ln -f a.txt .git/config",
            "chmod 777 .git/config",
            "echo x > .vscode/tasks.json",
            "rm -rf .vscode",
            "echo x > .envrc",
            "echo x >> sub/.git/config",
            "mv sub/.git sub/other",
            "mount -o remount,rw .git/config",
            "umount .git/config",
        ] {
            expect_failure(&setup, command).await;
        }
        for folder in [".git", ".git/hooks", "deep/er"] {
            let command = "echo x > pre-commit; echo x > config; echo x > .envrc; true";
            let args = json!({"command": command, "working_directory": folder});
            setup.call(args).await.expect("it runs");
        }
        assert_eq!(setup.read("work/.git/config"), config);
        assert_eq!(setup.read("work/.git/hooks/pre-push"), "hook");
        assert!(!setup.path("work/.git/hooks/pre-commit").exists());
        assert_eq!(setup.read("work/.vscode/tasks.json"), "{}");
        assert_eq!(setup.read("work/.envrc"), "rc");
        assert_eq!(setup.read("work/deep/er/.envrc"), "rc");
        assert_eq!(setup.read("work/sub/.git/config"), "[core]\n");
    }
}

#[tokio::test]
async fn everyday_work_in_a_repository_goes_on() {
    let setup = fixture_with_repository(NetworkAccess::Loopback);
    let text = setup
        .bash(
            "set -e; echo two >> a.txt; git add a.txt; git commit -q -m two; git checkout -q -b topic; echo three >> a.txt; \
             git stash -q; git stash pop -q; git commit -q -am three; git checkout -q main; git merge -q topic; git tag v1; \
             git rebase -q HEAD~1; git worktree add -q ../work/tree -b other; git gc -q; \
             git fetch -q . main:copy; git log --format=%s -1; git status --porcelain -uno",
        )
        .await;
    assert_eq!(text.lines().next(), Some("three"), "{text}");
    // One command clones a repository and configures the clone.
    let text = setup
        .bash("git clone -q . clone && cd clone && git remote add up .. && git remote")
        .await;
    assert_eq!(
        text, "origin\nup",
        "a repository that runs nothing must not be reported"
    );
    let text = setup
        .bash("git init -q odd && git -C odd config core.pager x; echo x > odd/.git/hooks/pre-push")
        .await;
    for path in ["config", "hooks/pre-push"] {
        assert_contains!(text, &format!("work/odd/.git/{path} "), APPEARED);
    }
    // A plain `mv` can still move the clone.
    assert_eq!(setup.bash("mv clone gone && echo moved").await, "moved");
}

#[tokio::test]
async fn what_git_would_write_there_fails_with_the_setting_that_would_allow_it() {
    let setup = fixture_with_repository(NetworkAccess::Loopback);
    run_git(&setup.path("work"), &["remote", "add", "origin", "."]);
    run_git(&setup.path("work"), &["fetch", "-q", "origin"]);
    let config = setup.path("work/.git/config");
    for command in [
        "git config user.name b",
        "git remote add up ..",
        "git checkout -q -b x origin/main; git config --get branch.x.merge",
        "git branch -q spare; git branch -q -D spare; git branch --list spare",
    ] {
        let text = setup.bash(command).await;
        let line = format!(
            "This is because commands may not change {0}: git runs what is configured there. The owner can allow it: \
             write = [\"{0}\"] under [sandbox] in config.toml. It takes effect at once.",
            config.display()
        );
        assert_eq!(
            text.lines().last(),
            Some(line.as_str()),
            "{command}: {text}"
        );
    }
    let text = setup.bash("mv .git elsewhere").await;
    assert_contains!(text, "commands may not move or remove", "/work/.git\"]");
}

#[tokio::test]
async fn a_name_under_write_wins() {
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |rules| {
        let work = rules.workspaces[0].clone();
        rules
            .write
            .extend([work.join(".git/config"), work.join(".vscode")]);
        // A grant for a folder above the workspace frees none of its protected paths.
        rules
            .write
            .push(work.parent().expect("a parent").to_owned());
    });
    make_repository(&setup.path("work"));
    let text = setup
        .bash("git config user.name b && echo x > .vscode/tasks.json && git config user.name")
        .await;
    assert_eq!(text, "b");
    expect_failure(&setup, "echo x > .git/hooks/pre-push").await;
}

#[tokio::test]
async fn what_is_free_leads_nowhere_else_once_a_command_has_made_a_link_of_it() {
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |rules| {
        let freed = rules.workspaces[0].join(".git/config");
        rules.write.push(freed);
    });
    make_repository(&setup.path("work"));
    std::fs::write(setup.path("outside/kept"), "kept").expect("written");
    let outside = setup.path("outside").display().to_string();
    let text = setup
        .bash(&format!(
            "mv .git/config mine && ln -s {outside} .git/config && echo linked"
        ))
        .await;
    assert_eq!(
        text, "linked",
        "the command must be able to replace the file"
    );
    for command in [
        format!("cat {outside}/kept"),
        format!("echo x > {outside}/made"),
        "ls .git/config/".to_owned(),
    ] {
        expect_failure(&setup, &command).await;
    }
    assert!(!setup.path("outside/made").exists());
    let text = setup
        .bash("rm .git/config && mv mine .git/config && git config user.name b && git config user.name")
        .await;
    assert_eq!(text, "b", "the restored file must be writable");
}

#[tokio::test]
async fn a_repository_in_a_folder_of_projects_is_kept_too_and_worked_in() {
    let setup = HostileFixture::new();
    let repository = setup.path("work/host/team/project");
    std::fs::create_dir_all(&repository).expect("made");
    make_repository(&repository);
    for command in [
        "echo x >> $D/.git/config",
        "echo x > $D/.git/hooks/pre-commit",
        "mv $D/.git other",
    ] {
        expect_failure(&setup, &format!("D=host/team/project; {command}")).await;
    }
    let text = setup
        .bash("git -C host/team/project commit -q --allow-empty -m two && echo done")
        .await;
    assert_eq!(text, "done");
}

#[tokio::test]
async fn the_folders_on_the_way_to_what_is_kept_cannot_be_exchanged() {
    let setup = fixture_with_repository(NetworkAccess::Loopback);
    run_git(
        &setup.path("work"),
        &["worktree", "add", "-q", "tree", "-b", "other"],
    );
    std::fs::create_dir_all(setup.path("work/.git/modules/a/b/hooks")).expect("made");
    std::fs::write(setup.path("work/.git/modules/a/b/config"), "[core]\n").expect("written");
    for command in [
        "mv .git/modules .git/before",
        "mv .git/modules/a .git/modules/before",
        "mv .git/modules/a/b .git/modules/a/before",
        "mv .git/worktrees .git/before",
        "mv .git/worktrees/tree .git/worktrees/before",
        "echo /elsewhere > .git/worktrees/tree/commondir",
        "rm -f .git/worktrees/tree/commondir",
    ] {
        expect_failure(&setup, command).await;
    }
    let text = setup
        .bash("cd tree && echo x > new && git add new && git commit -q -m new && git log --format=%s -1")
        .await;
    assert_eq!(text, "new");
}

#[tokio::test]
async fn what_appears_is_told_of_in_the_text_and_beside_it_once() {
    let setup = HostileFixture::new();
    let reply = setup
        // The file appears complete, by a rename: the guard may look between creating a file and writing its text.
        .call(json!({"command": "mkdir .vscode && echo {} > made && mv made .vscode/tasks.json"}))
        .await;
    let reply = reply.expect("it runs");
    let line = format!(
        "{} {APPEARED}: an editor runs what is configured there. It could not be moved to the trash (there is no trash here). \
         The owner should look at it before it is used.",
        setup.path("work/.vscode/tasks.json").display()
    );
    assert_eq!(
        tools::reply_text(&reply).lines().last(),
        Some(line.as_str())
    );
    assert_eq!(reply.meta.warnings, [line]);
    assert_eq!(
        setup.bash("echo quiet").await,
        "quiet",
        "the change must be reported only once"
    );
    // A background command's change is reported when the command has ended.
    let begun = json!({"command": "echo x > .envrc", "run_in_background": true});
    setup.call(begun).await.expect("it starts");
    wait_for_some("the report of .envrc", async || {
        let told = setup.shell_status("sh_1").await;
        told.contains(".envrc appeared").then_some(())
    })
    .await;
    // The change of a stopped command is reported by KillShell.
    let begun =
        json!({"command": "echo x > .mcp.json; echo made; sleep 600", "run_in_background": true});
    setup.call(begun).await.expect("it starts");
    wait_for_some("the command's change", async || {
        let told = setup.shell_status("sh_2").await;
        told.contains("\nmade\n").then_some(())
    })
    .await;
    let stopped = tools::call_tool(&setup.registry, "KillShell", json!({"shell_id": "sh_2"}))
        .await
        .expect("it ends");
    let text = tools::reply_text(&stopped);
    assert_contains!(text, ".mcp.json appeared");
}

#[tokio::test]
async fn the_view_of_others_is_left_as_it_is() {
    let setup = fixture_with_repository(NetworkAccess::Loopback);
    let begun = json!({"command": "echo up; sleep 600", "run_in_background": true});
    setup.call(begun).await.expect("it starts");
    std::fs::write(setup.path("work/.envrc"), "the owner's").expect("the owner writes");
    std::fs::rename(setup.path("work/.vscode"), setup.path("work/old")).expect("the owner moves");
    assert_eq!(setup.read("work/.envrc"), "the owner's");
    tools::call_tool(&setup.registry, "KillShell", json!({"shell_id": "sh_1"}))
        .await
        .expect("it ends");
}

#[test]
fn where_there_are_no_namespaces_what_was_changed_is_told_of() {
    let bare = OtherKernel::under("without", &["namespaces"], "");
    let level = "partial:[write_protected,reach_daemons,read_home,change_metadata]";
    let refused = bare.run_json(&["call", "Bash", r#"{"command":"echo ran"}"#]);
    let text = refused["error"].as_str().unwrap_or_default();
    assert_contains!(text, level, "require = \"partial\" under [sandbox]"; "{refused}");
    let bare = OtherKernel::under(
        "without",
        &["namespaces"],
        "[sandbox]\nrequire = \"partial\"\n",
    );
    make_repository(&bare.path("work"));
    let status = bare.run_json(&["status"]);
    assert_fields!(status, {"confinement": level, "protectedPaths": "watched"});
    let opening = json!({
        "setting": "level",
        "value": "read_home",
        "meaning": "commands can read the files of your home that are on no list of hidden files",
    });
    assert_fields!(status, {"/openings/2": opening, "/limits/fileSize": true});
    assert_eq!(
        status["limits"]["memory"], false,
        "the limit is unknown without a runner: {status}"
    );
    let answer = bare.run_json(&[
        "call",
        "Bash",
        r#"{"command":"git config core.pager x; echo x > .git/hooks/pre-commit"}"#,
    ]);
    let warnings = answer["meta"]["warnings"].to_string();
    assert_contains!(warnings, "/work/.git/config was changed while a command ran"; "{answer}");
    assert!(
        warnings.contains("/work/.git/hooks/pre-commit appeared while a command ran"),
        "{answer}"
    );
    let bare = OtherKernel::under("older_landlock", &["7"], "");
    assert_eq!(bare.run_json(&["status"])["protectedPaths"], "read_only");
}

#[test]
fn a_hook_of_a_commit_finds_them_read_only_too() {
    let bare = OtherKernel::under("older_landlock", &["7"], "");
    let work = bare.path("work");
    make_repository(&work);
    let hook = work.join(".git/hooks/pre-commit");
    let config = work.join(".git/config");
    make_program(
        &hook,
        "#!/bin/sh\necho ran > ran\necho x >> .git/config\nexit 0\n",
    );
    let before = std::fs::read_to_string(&config).expect("there");
    std::fs::write(work.join("a.txt"), "two\n").expect("written");
    bare.run_json(&["call", "GitAdd", r#"{"paths":["a.txt"]}"#]);
    let answer = bare.run_json(&["call", "GitCommit", r#"{"message":"two"}"#]);
    assert_eq!(answer["outcome"], "ok", "{answer}");
    assert!(work.join("ran").exists(), "the hook must run: {answer}");
    assert_eq!(std::fs::read_to_string(&config).expect("there"), before);
}

#[test]
fn a_link_in_what_commands_may_write_beside_leads_no_other_grant_anywhere() {
    let config = "[sandbox]\nwrite = [\"~/data\"]\nread = [\"~/data/models\"]\n";
    let bare = OtherKernel::under("older_landlock", &["7"], config);
    let user = bare.path("user");
    for made in ["data", ".ssh"] {
        std::fs::create_dir(user.join(made)).expect("made");
    }
    std::fs::write(user.join(".ssh/id"), "the-key").expect("written");
    std::os::unix::fs::symlink(user.join(".ssh"), user.join("data/models")).expect("a link");
    let command = format!(
        "echo x > {0}/data/made; cat {0}/.ssh/id; echo tried",
        user.display()
    );
    let answer = bare
        .run_json(&["call", "Bash", &json!({"command": command}).to_string()])
        .to_string();
    assert_contains!(answer, "tried");
    assert_lacks!(answer, "the-key");
    assert!(
        user.join("data/made").exists(),
        "the granted folder must be writable"
    );
}
