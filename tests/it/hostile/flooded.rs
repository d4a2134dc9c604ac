//! Protected paths under commands that create so many folders or files that a full scan would take too long. Also
//! folders that the runner cannot read. The usual cases are in `kept_from_commands`.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use punie_sandbox::NetworkAccess;
use serde_json::json;

use super::HostileFixture;
use super::absence::OtherKernel;
use super::kept_from_commands::{
    APPEARED, expect_failure, fixture_with_repository, make_repository,
};
use super::processes::OrdinaryUser;
use crate::harness::left_out::can_be_tried;

const BEYOND: &str = "not protected";

fn make_repository_in(folder: &Path) {
    fs::create_dir_all(folder).expect("made");
    make_repository(folder);
}

#[tokio::test]
async fn a_flood_of_folders_uncovers_no_repository_and_hides_no_new_one() {
    let setup = HostileFixture::new();
    make_repository_in(&setup.path("work/project"));
    let made = setup.bash("mkdir $(seq 1 3000) && ls | wc -l").await;
    assert_eq!(made, "3001");
    let new = setup
        .bash("mkdir new && cd new && git init -q && echo x > .git/hooks/pre-push")
        .await;
    assert_contains!(new, &format!("work/new/.git/hooks/pre-push {APPEARED}"));
    for folder in ["project", "new"] {
        for command in [
            "echo x >> $D/.git/config",
            "echo x > $D/.git/hooks/pre-commit",
            "echo x > $D/.git/hooks/pre-push",
            "mv $D/.git other",
        ] {
            expect_failure(&setup, &format!("D={folder}; {command}")).await;
        }
    }
}

#[tokio::test]
async fn empty_repositories_push_out_none_that_lies_deeper() {
    let setup = HostileFixture::new();
    make_repository_in(&setup.path("work/host/a/b"));
    for number in 0..70 {
        fs::create_dir_all(setup.path(&format!("work/00/r{number}/.git"))).expect("made");
    }
    for command in [
        "echo x >> $D/.git/config",
        "echo x > $D/.git/hooks/pre-commit",
        "mv $D/.git other",
    ] {
        expect_failure(&setup, &format!("D=host/a/b; {command}")).await;
    }
}

#[tokio::test]
async fn where_not_all_repositories_are_protected_that_is_said_once() {
    let setup = HostileFixture::new();
    for number in 0..600 {
        fs::create_dir_all(setup.path(&format!("work/many/r{number}/.git"))).expect("made");
    }
    let reply = setup
        .call(json!({"command": "true"}))
        .await
        .expect("it runs");
    assert!(
        reply.meta.warnings.iter().any(|line| line.contains(BEYOND)),
        "{:?}",
        reply.meta.warnings
    );
    let again = setup
        .call(json!({"command": "true"}))
        .await
        .expect("it runs");
    assert_eq!(again.meta.warnings, [""; 0]);
    // A workspace with too many folders gets the same warning.
    let setup = HostileFixture::new();
    for number in 0..17_000 {
        fs::create_dir(setup.path(&format!("work/{number}"))).expect("made");
    }
    let reply = setup
        .call(json!({"command": "true"}))
        .await
        .expect("it runs");
    assert!(
        reply.meta.warnings.iter().any(|line| line.contains(BEYOND)),
        "{:?}",
        reply.meta.warnings
    );
}

#[tokio::test]
async fn a_new_hook_is_told_of_among_any_number_of_examples() {
    let setup = HostileFixture::new();
    let text = setup
        .bash("git init -q p && cd p/.git/hooks && touch $(seq -f %g.sample 1 3000) && echo x > pre-push")
        .await;
    assert_contains!(text, &format!("work/p/.git/hooks/pre-push {APPEARED}"));
    let text = setup
        .bash("git init -q q && cd q/.git/hooks && touch $(seq 1 3000)")
        .await;
    assert_eq!(text.matches("work/q/.git/hooks/").count(), 5, "{text}");
    assert_contains!(text, "more protected paths"; "the others must be counted, not named");
}

#[test]
fn a_change_of_one_of_very_many_files_is_told_of() {
    let bare = OtherKernel::under(
        "without",
        &["namespaces"],
        "[sandbox]\nrequire = \"partial\"\n",
    );
    make_repository(&bare.path("work"));
    for number in 0..1_000 {
        fs::write(bare.path(&format!("work/.git/hooks/h{number}")), "hook").expect("written");
    }
    let quiet = bare.run_json(&["call", "Bash", r#"{"command":"true"}"#]);
    assert_lacks!(quiet.to_string(), "was changed");
    for number in [0, 500, 999] {
        let command = format!(r#"{{"command":"echo x >> .git/hooks/h{number}"}}"#);
        let answer = bare.run_json(&["call", "Bash", &command]);
        let warnings = answer["meta"]["warnings"].to_string();
        assert!(
            warnings.contains(&format!(
                "/work/.git/hooks/h{number} was changed while a command ran"
            )),
            "{answer}"
        );
    }
}

#[test]
fn what_cannot_be_looked_into_is_read_only_as_a_whole() {
    let user = OrdinaryUser::new();
    let bash =
        |command: &str| user.run_json(&["call", "Bash", &json!({"command": command}).to_string()]);
    let status = user.run_json(&["status"]);
    let is_kept = status["protectedPaths"] == "read_only";
    let why = format!("protected paths are not read-only to an ordinary user: {status}");
    if !can_be_tried("a repository of mode 0", (!is_kept).then_some(why.as_str())) {
        return;
    }
    for (shut, mode) in [
        (".git", "0"),
        ("sub", "0"),
        ("sub/.git", "0"),
        ("sub/.git/modules", "300"),
        ("sub/.git/worktrees", "300"),
    ] {
        let made = "git init -q . && git init -q sub && mkdir -p sub/.git/modules/a sub/.git/worktrees/a && \
                    touch sub/.git/modules/a/config sub/.git/worktrees/a/commondir";
        bash(made);
        let answer = bash(&format!("chmod {mode} {shut}"));
        let warnings = answer["meta"]["warnings"].to_string();
        assert!(
            warnings.contains(&format!("work/{shut} cannot be looked into")),
            "{shut}: {answer}"
        );
        // If `mv` cannot rename the folder, it copies as much of it as it can.
        let answer = bash(&format!(
            "chmod 755 {shut}; touch {shut}/made; mv {shut} other; rm -rf other"
        ));
        assert_contains!(answer.to_string(), "Read-only file system"; "{shut}");
        let path = user.path("work").join(shut);
        let found = path.symlink_metadata().expect("it is where it was");
        assert_eq!(
            found.mode() & 0o777,
            u32::from_str_radix(mode, 8).expect("a mode"),
            "{shut}: {answer}"
        );
        assert!(!path.join("made").exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the owner opens it");
    }
    // A folder of another user gives no warning, because a command could not open it either.
    if rustix::process::geteuid().is_root() {
        fs::create_dir(user.path("work/theirs")).expect("made");
        fs::set_permissions(user.path("work/theirs"), fs::Permissions::from_mode(0o000))
            .expect("the folder is closed");
        let answer = bash("true");
        assert_lacks!(answer.to_string(), "looked into");
    }
}

#[tokio::test]
async fn a_flood_of_modules_has_them_kept_as_a_whole_and_commands_run_on() {
    let setup = fixture_with_repository(NetworkAccess::Loopback);
    fs::create_dir_all(setup.path("work/.git/modules/a/b/hooks")).expect("made");
    fs::write(setup.path("work/.git/modules/a/b/config"), "[core]\n").expect("written");
    let text = setup
        .bash("mkdir -p .git/modules/e{1..100}/x && echo made; grep -c /modules/e /proc/self/mountinfo; true")
        .await;
    assert_eq!(text, "made\n0");
    let text = setup
        .bash("grep -c /modules/e /proc/self/mountinfo; grep -c /modules/a /proc/self/mountinfo")
        .await;
    assert_eq!(text, "0\n4", "folders without a module must not be mounted");
    let text = setup
        .bash("mkdir -p .git/modules/{1..60}/{1..60} && echo made")
        .await;
    let modules = setup.path("work/.git/modules").display().to_string();
    assert_starts_with!(text, "made");
    assert_contains!(text, &format!("write = [{modules:?}]"));
    for command in [
        "echo x >> .git/modules/a/b/config",
        "echo x > .git/modules/a/b/hooks/pre-commit",
        "echo x > .git/modules/60/60/config",
        "mkdir .git/modules/61",
        "mv .git/modules other",
    ] {
        expect_failure(&setup, command).await;
    }
    assert_eq!(
        setup
            .bash("git commit -q --allow-empty -m two && git log --format=%s -1")
            .await,
        "two"
    );
    // The same holds for a repository with too many working trees.
    for number in 0..1_000 {
        fs::create_dir_all(setup.path(&format!("work/.git/worktrees/w{number}"))).expect("made");
    }
    for command in [
        "echo /x > .git/worktrees/w999/commondir",
        "mv .git/worktrees/w999 .git/worktrees/x",
    ] {
        expect_failure(&setup, command).await;
    }
}
