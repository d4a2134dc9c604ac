//! Git working trees under commands: those in an agent's own folder, one whose repository lies outside the workspaces,
//! and several repositories side by side.

use std::path::Path;

use punie_sandbox::NetworkAccess;
use serde_json::json;

use super::HostileFixture;
use super::kept_from_commands::{expect_failure, make_repository, run_git};

/// Creates a repository with a linked worktree in this agent's folder, and returns the worktree's path.
fn furnish_agent(work: &Path, agent: &str) -> String {
    make_repository(work);
    let tree = format!("{agent}/worktrees/topic");
    std::fs::create_dir_all(work.join(agent)).expect("made");
    std::fs::write(work.join(agent).join("settings.json"), "{}").expect("written");
    run_git(work, &["worktree", "add", "-q", &tree, "-b", "topic"]);
    let own = work.join(&tree).join(agent);
    std::fs::create_dir_all(&own).expect("made");
    std::fs::write(own.join("settings.json"), "{}").expect("written");
    tree
}

#[tokio::test]
async fn an_agents_working_tree_is_written_and_its_configuration_is_not() {
    for agent in [".claude", ".codex"] {
        let setup = HostileFixture::new();
        let tree = furnish_agent(&setup.path("work"), agent);
        let work = "echo two >> a.txt && mkdir -p src && echo x > src/new && git add -A . && git commit -q -m two";
        let text = setup
            .bash(&format!("cd {tree} && {work} && git log --format=%s -1"))
            .await;
        assert_eq!(text, "two", "{agent}");
        let args = json!({"command": work.replace("two", "three"), "working_directory": tree});
        setup.call(args).await.expect("it runs");
        assert_eq!(
            setup.read(&format!("work/{tree}/a.txt")),
            "one\ntwo\nthree\n"
        );
        for command in [
            format!("echo x > {agent}/settings.json"),
            format!("echo x > {agent}/new.json"),
            format!("echo x > {tree}/{agent}/settings.json"),
            format!("echo x > {tree}/{agent}/new.json"),
            format!("mv {agent}/worktrees other"),
            format!("rm -rf {tree}/.git"),
            format!("echo x > {tree}/.git"),
        ] {
            expect_failure(&setup, &command).await;
        }
        for file in [
            format!("work/{agent}/settings.json"),
            format!("work/{tree}/{agent}/settings.json"),
        ] {
            assert_eq!(setup.read(&file), "{}");
        }
        // A protected file that appears in a worktree is reported, as in every other folder.
        for name in [".envrc", "a.code-workspace"] {
            let text = setup.bash(&format!("echo x > {tree}/{name}")).await;
            assert_contains!(text, "appeared while a command ran");
        }
    }
}

#[tokio::test]
async fn the_first_working_tree_of_an_agent_is_made_by_a_command() {
    for has_settings in [true, false] {
        let setup = HostileFixture::new();
        let work = setup.path("work");
        make_repository(&work);
        if has_settings {
            std::fs::create_dir(work.join(".claude")).expect("made");
            std::fs::write(work.join(".claude/settings.json"), "{}").expect("written");
        }
        let text = setup
            .bash("git worktree add -q -b topic .claude/worktrees/topic && ls .claude/worktrees")
            .await;
        assert_eq!(text, "topic", "{has_settings}");
        expect_failure(&setup, "echo x > .claude/new.json").await;
    }
}

#[tokio::test]
async fn a_worktree_works_with_a_repository_outside_that_the_owner_lets_git_use() {
    let setup = HostileFixture::new();
    let main = setup.path("main");
    std::fs::create_dir(&main).expect("made");
    make_repository(&main);
    std::fs::remove_dir(setup.path("work")).expect("empty");
    run_git(&main, &["worktree", "add", "-q", "../work", "-b", "topic"]);
    run_git(&main, &["worktree", "add", "-q", "../other", "-b", "other"]);
    let setup = setup.beside();
    let text = setup.bash("git status").await;
    let allow = format!("policy allow --folder {}", main.join(".git").display());
    assert_contains!(text, "not a git repository", &allow);
    let opened = vec![main.join(".git").canonicalize().expect("real")];
    setup.confinement.open_repositories(None, opened);
    let text = setup
        .bash(
            "set -e; git status --porcelain -uno; echo two >> a.txt; git commit -q -am two; git checkout -q -b more; \
             git worktree add -q tree -b third; git -C tree commit -q --allow-empty -m three; git stash list; \
             git gc -q; git log --format=%s -1; git -C tree log --format=%s -1",
        )
        .await;
    assert_eq!(text, "two\nthree");
    let git = main.join(".git");
    for command in [
        format!("echo x >> {}/config", git.display()),
        format!("echo x > {}/hooks/pre-push", git.display()),
        format!("echo x > {}/hooks/post-checkout", git.display()),
        format!("mv {0} {0}.old", git.display()),
        format!("echo /tmp > {}/worktrees/work/commondir", git.display()),
        format!("cat {}/a.txt", main.display()),
        "git config user.name b".to_owned(),
    ] {
        expect_failure(&setup, &command).await;
    }
    assert_eq!(setup.read("main/.git/hooks/pre-push"), "hook");
    setup.confinement.open_repositories(None, Vec::new());
    expect_failure(&setup, "git status").await;
}

#[tokio::test]
async fn a_link_to_a_repository_that_does_not_name_the_worktree_opens_nothing() {
    let setup = HostileFixture::new();
    let main = setup.path("main");
    std::fs::create_dir(&main).expect("made");
    make_repository(&main);
    run_git(&main, &["worktree", "add", "-q", "../other", "-b", "other"]);
    let link = setup.path("link");
    let gone = setup.path("gone");
    std::os::unix::fs::symlink(&main, &link).expect("linked");
    for written in [&main, &link] {
        let git_dir = written.join(".git/worktrees/other");
        let marker = format!("gitdir: {}\n", git_dir.display());
        std::fs::write(setup.path("work/.git"), marker).expect("written");
        let text = setup.bash("git status").await;
        let told = format!("leads to {}, outside of the workspaces", git_dir.display());
        assert_contains!(text, &told);
        assert_lacks!(text, "policy allow");
        // A command must not learn if the repository exists: the text is the same when it is gone.
        std::fs::rename(&main, &gone).expect("moved");
        let without_time = |text: &str| text.replace(char::is_numeric, "");
        let then = setup.bash("git status").await;
        assert_eq!(without_time(&then), without_time(&text));
        std::fs::rename(&gone, &main).expect("moved");
    }
}

#[tokio::test]
async fn a_refusal_names_the_repository_that_is_meant_or_all_that_may_be() {
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |_| {});
    for name in ["alpha", "beta", "zeta"] {
        let folder = setup.path("work").join(name);
        std::fs::create_dir(&folder).expect("made");
        make_repository(&folder);
    }
    let config = |name: &str| {
        setup
            .path("work")
            .join(name)
            .join(".git/config")
            .display()
            .to_string()
    };
    for command in [
        "git -C alpha remote add up x",
        "git -C beta/../alpha config user.name b",
        "git -C alpha remote add up x; git -C alpha config user.name b",
        "git --git-dir=alpha/.git config user.name b",
        "echo x >> alpha/.git/config",
    ] {
        let text = setup.bash(command).await;
        let line = format!(
            "may not change {0}: git runs what is configured there. The owner can allow it: write = [\"{0}\"]",
            config("alpha")
        );
        assert_contains!(text, &line; "{command}");
        assert_lacks!(text, &config("beta"), &config("zeta"));
    }
    for (command, folder) in cases! {
        ("cd alpha && git remote add up x", "."),
        ("git -C alpha remote add up x | cat", "."),
        ("for r in beta; do git -C $r remote add up x; done", "."),
        ("sh -c 'cd ../beta; exec git remote add up x'", "alpha"),
        ("GIT_DIR=../beta/.git; cd ../beta; git remote add up x", "alpha"),
    } {
        let args = json!({"command": command, "working_directory": folder});
        let reply = setup.call(args).await.expect("it runs");
        let text = crate::harness::tools::reply_text(&reply).to_owned();
        let last = text.lines().last().unwrap_or_default().to_owned();
        assert_contains!(last, "does not say which"; "{command}: {text}");
        for name in ["alpha", "beta", "zeta"] {
            assert_contains!(last, &config(name); "{command}: {text}");
        }
    }
    let args = json!({"command": "git remote add up x", "working_directory": "zeta"});
    let reply = setup.call(args).await.expect("it runs");
    let text = crate::harness::tools::reply_text(&reply).to_owned();
    assert_contains!(text, &config("zeta"));
    assert_lacks!(text, &config("alpha"));
}
