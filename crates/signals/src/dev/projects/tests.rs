//! Projects of a made-up owner.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::SourceState;
use crate::test_places::{TestPlaces, budget, text};

fn add_repository(test: &TestPlaces, path: &str, days: u64) {
    for name in ["HEAD", "index"] {
        let file = test.write(&format!("{path}/{name}"), "x");
        test.set_age(&file, days + u64::from(name == "HEAD"));
    }
}

#[test]
fn projects_are_listed_by_their_last_change() {
    let test = TestPlaces::new(System::Linux);
    add_repository(&test, "Code/deep/er/app/.git", 1);
    add_repository(&test, "code/lib/.git", 0);
    add_repository(&test, "work/.git", 29);
    add_repository(&test, "work/inside/.git", 0);
    add_repository(&test, "src/old/.git", 31);
    add_repository(&test, "src/a/b/c/d/e/.git", 0);
    add_repository(&test, "src/node_modules/x/.git", 0);
    add_repository(&test, "src/.cache/x/.git", 0);
    add_repository(&test, "elsewhere/x/.git", 0);
    let report = read_projects(&test.places, &budget());
    assert_eq!(report.state, SourceState::Read);
    assert_eq!(
        text(&report),
        "## Active Projects\n\
         - lib (~/code/lib), today\n\
         - app (~/Code/deep/er/app), yesterday\n\
         - work (~/work), 29d ago\n"
    );
}

#[test]
fn worktrees_and_submodules_are_projects() {
    let test = TestPlaces::new(System::Linux);
    add_repository(&test, "code/main/.git", 2);
    add_repository(&test, "code/main/.git/worktrees/fix", 0);
    let target = test.places.user_home.join("code/main/.git/worktrees/fix");
    test.write("code/fix/.git", format!("gitdir: {}\n", target.display()));
    add_repository(&test, "code/main/.git/modules/third", 1);
    test.write(
        "code/main/third/part/.git",
        "gitdir: ../../.git/modules/third\n",
    );
    let modules = "[submodule \"third\"]\n\tpath = third/part\n\turl = x\n[submodule \"out\"]\n\tpath = ../other\n";
    test.write("code/main/.gitmodules", modules);
    test.write(
        "code/gone/.git",
        "gitdir: /nonexistent/.git/worktrees/gone\n",
    );
    test.write("code/text/.git", "no git file");
    let report = read_projects(&test.places, &budget());
    assert_eq!(
        text(&report),
        "## Active Projects\n\
         - fix, a worktree (~/code/fix), today\n\
         - part, a submodule (~/code/main/third/part), yesterday\n\
         - main (~/code/main), 2d ago\n"
    );
}

#[test]
fn worktrees_and_submodules_that_git_made_are_found() {
    let mut test = TestPlaces::new(System::Linux);
    test.places.now = SystemTime::now();
    let code = test.make_folder("code");
    let run = |arguments: &str| {
        let mut git = Command::new("git");
        git.current_dir(&code).env_clear();
        git.env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", &code);
        git.args(["-c", "user.name=x", "-c", "user.email=x@x.example"]);
        git.args(["-c", "protocol.file.allow=always"]);
        let output = git.args(arguments.split(' ')).output().expect("git");
        assert!(output.status.success(), "{arguments}: {output:?}");
    };
    for name in ["library", "app"] {
        run(&format!("init -q {name}"));
        run(&format!("-C {name} commit -q --allow-empty -m x"));
    }
    run("-C app submodule --quiet add ../library third/library");
    run("-C app worktree add -q ../fix");
    run("-C app worktree add -q inner/one");
    // A bare repository, its worktrees beside it, and a file that names it for the whole folder.
    run("clone -q --bare app bare/.bare");
    test.write("code/bare/.git", "gitdir: ./.bare\n");
    run("-C bare worktree add -q two");
    let report = read_projects(&test.places, &budget());
    let written = text(&report);
    let mut lines: Vec<&str> = written.lines().skip(1).collect();
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "- app (~/code/app), today",
            "- bare (~/code/bare), today",
            "- fix, a worktree (~/code/fix), today",
            "- library (~/code/library), today",
            "- library, a submodule (~/code/app/third/library), today",
            "- one, a worktree (~/code/app/inner/one), today",
            "- two, a worktree (~/code/bare/two), today",
        ]
    );
}

#[test]
fn documents_are_searched_only_where_the_owner_says_so() {
    let mut test = TestPlaces::new(System::MacOs);
    add_repository(&test, "Documents/paper/.git", 0);
    assert_eq!(
        read_projects(&test.places, &budget()).state,
        SourceState::Absent
    );
    add_repository(&test, "Developer/app/.git", 0);
    let report = read_projects(&test.places, &budget());
    assert_eq!(
        text(&report),
        "## Active Projects\n- app (~/Developer/app), today\n"
    );
    test.places.project_folders = vec![test.places.user_home.join("Documents")];
    let report = read_projects(&test.places, &budget());
    assert!(text(&report).contains("- paper (~/Documents/paper), today"));
}

#[test]
fn folders_of_the_system_are_skipped_in_the_users_folder_only() {
    let mut test = TestPlaces::new(System::MacOs);
    add_repository(&test, "Library/Mail/.git", 0);
    add_repository(&test, "code/library/.git", 0);
    test.places.project_folders = vec![test.places.user_home.clone()];
    let report = read_projects(&test.places, &budget());
    let only = "## Active Projects\n- library (~/code/library), today\n";
    assert_eq!(text(&report), only);
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_and_the_budget_is_common_to_all_roots() {
    let test = TestPlaces::new(System::Linux);
    test.make_folder("../outside/x/.git");
    let outside = test.beside_home("outside");
    test.make_folder("code");
    let link = |target: &Path, name: &str| {
        let link = test.places.user_home.join(name);
        std::os::unix::fs::symlink(target, link).expect("a link");
    };
    link(&outside, "code/out");
    link(&test.places.user_home, "code/cycle");
    link(&outside, "work");
    add_repository(&test, "code/app/.git", 0);
    let only = "## Active Projects\n- app (~/code/app), today\n";
    assert_eq!(text(&read_projects(&test.places, &budget())), only);
    for number in 0..100 {
        test.make_folder(&format!("dev/{number}/a/b"));
    }
    let small = Budget::begin(Duration::from_mins(10), 50, Arc::default());
    let report = read_projects(&test.places, &small);
    assert_eq!(
        small.exceeded_limit(),
        Some("the limit of entries was reached")
    );
    assert_eq!(report.state, SourceState::Read);
}
