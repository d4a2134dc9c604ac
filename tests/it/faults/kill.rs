//! Kills of the runner at a named point. The next runner takes over: each effect happens once, each request has one
//! result, and no temporary file is left. Not here: kills while a command runs (runner::crashes).

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::relay::Relay;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// A patch that updates, adds, moves and deletes files.
const PATCH: &str = "*** Begin Patch
*** Update File: one.txt
@@
-old
+new
*** Add File: deep/er/two.txt
+second
*** Update File: three.txt
*** Move to: moved/three.txt
@@
-old
+new
*** Delete File: gone.txt
*** Update File: four.txt
*** Move to: moved/four.txt
*** End Patch
";

/// A call, with the files before and after it.
struct KillCase {
    ask: fn() -> ToolCall,
    before: &'static [(&'static str, &'static str)],
    after: &'static [(&'static str, &'static str)],
}

const NEW: KillCase = KillCase {
    ask: || {
        ToolCall::new(
            "Write",
            &json!({ "file_path": "new/note.txt", "content": "a note\n" }),
        )
    },
    before: &[],
    after: &[("new/note.txt", "a note\n")],
};
const OVER: KillCase = KillCase {
    ask: || {
        ToolCall::new(
            "Write",
            &json!({ "file_path": "note.txt", "content": "new\n" }),
        )
    },
    before: &[("note.txt", "old\n")],
    after: &[("note.txt", "new\n")],
};
// A second run of this edit would show: it is not idempotent.
const EDIT: KillCase = KillCase {
    ask: || {
        ToolCall::new(
            "Edit",
            &json!({ "file_path": "list.txt", "old_string": "one\n", "new_string": "one\none\n" }),
        )
    },
    before: &[("list.txt", "one\n")],
    after: &[("list.txt", "one\none\n")],
};
const MANY: KillCase = KillCase {
    ask: || ToolCall::new("ApplyPatch", &json!({ "patch": PATCH })),
    before: &[
        ("four.txt", "4\n"),
        ("gone.txt", "gone\n"),
        ("one.txt", "old\n"),
        ("three.txt", "old\n"),
    ],
    after: &[
        ("deep/er/two.txt", "second\n"),
        ("moved/four.txt", "4\n"),
        ("moved/three.txt", "new\n"),
        ("one.txt", "new\n"),
    ],
};

/// The number of runs of a call, and whether recovery found its effect.
type Course = (u64, bool);
const ONCE: Course = (1, false);
const AGAIN: Course = (2, false);
const FOUND: Course = (1, true);

fn course_of_answer(answer: &CallAnswer) -> Course {
    let meta = &answer.payload["meta"];
    (
        meta["attempt"].as_u64().unwrap_or_default(),
        meta["recovered"] == true,
    )
}

/// Returns the files of a folder with their content, sorted by name.
fn read_tree(root: &Path) -> Vec<(String, String)> {
    fn walk(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with(".git") {
                walk(root, &path, found);
            } else if path.is_file() {
                let name = path
                    .strip_prefix(root)
                    .expect("below it")
                    .display()
                    .to_string();
                found.push((name, std::fs::read_to_string(&path).expect("text")));
            }
        }
    }
    let mut found = Vec::new();
    walk(root, root, &mut found);
    found.sort();
    found
}

fn write_files(setup: &RunnerFixture, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = setup.file(name);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }
}

fn owned_pairs(files: &[(&str, &str)]) -> Vec<(String, String)> {
    files
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect()
}

/// Sends a call, lets the runner be killed at this point, and returns the answer of the next runner.
async fn killed_at(
    setup: &RunnerFixture,
    relay: &Relay,
    point: &str,
    ask: ToolCall,
) -> (String, CallAnswer) {
    let (name, nth) = point.split_once('@').unwrap_or((point, "1"));
    let runner = setup.run_armed(&relay.url, &format!("{name}=kill@{nth}"));
    let id = setup.ask(ask).await;
    let ended = runner.end().await;
    assert_eq!(ended.code, None, "{point} was not reached: {ended:?}");
    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(relay.posts(&id).1, 1, "{point}: one result was stored");
    (id, answer)
}

/// Checks that each case, killed at this point, ends with the expected files and took the expected course.
async fn check_kill_point(point: &str, expected: Course, cases: &[KillCase]) {
    for case in cases {
        let setup = RunnerFixture::new().await;
        let relay = Relay::before(&setup.setting.url).await;
        write_files(&setup, case.before);
        let (_, answer) = killed_at(&setup, &relay, point, (case.ask)()).await;
        assert_eq!(answer.outcome, "ok", "{point}: {answer:?}");
        assert_eq!(course_of_answer(&answer), expected, "{point}: {answer:?}");
        assert_eq!(
            read_tree(&setup.setting.workspace),
            owned_pairs(case.after),
            "{point}: {answer:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f01_killed_before_a_page_is_taken_it_is_offered_again_and_done_once() {
    check_kill_point("accept.before", ONCE, &[OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f02_killed_after_a_page_is_taken_it_is_done_once() {
    check_kill_point("accept.after", ONCE, &[OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f03_killed_before_the_effect_it_is_done_by_the_next_life() {
    check_kill_point("start.after", AGAIN, &[NEW, OVER, EDIT, MANY]).await;
    check_kill_point("declare.after", AGAIN, &[NEW, OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f04_killed_before_the_new_content_takes_its_place_it_is_done_again_and_nothing_is_left() {
    check_kill_point("temp.written", AGAIN, &[NEW, OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f05_killed_after_the_effect_it_is_found_and_not_done_again() {
    check_kill_point("rename.after", FOUND, &[NEW, OVER, EDIT, MANY]).await;
    check_kill_point("finish.before", FOUND, &[NEW, OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f07_killed_after_the_result_is_recorded_it_is_posted() {
    check_kill_point("finish.after", ONCE, &[OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f08_killed_after_the_post_it_is_posted_again_and_stored_once() {
    check_kill_point("post.after", ONCE, &[OVER, EDIT, MANY]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn wherever_a_patch_is_cut_all_of_it_is_there_afterwards() {
    for (point, times) in [("temp.written", 3), ("rename.after", 6)] {
        for nth in 1..=times {
            let expected = if point == "temp.written" {
                AGAIN
            } else {
                FOUND
            };
            check_kill_point(&format!("{point}@{nth}"), expected, &[MANY]).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_that_cannot_be_finished_is_told_file_by_file() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    write_files(&setup, MANY.before);
    let runner = setup.run_armed(&relay.url, "rename.after=kill");
    let id = setup.ask((MANY.ask)()).await;
    assert_eq!(runner.end().await.code, None);
    setup.write("three.txt", "somebody else's\n");
    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    answer.expect_error("interrupted");
    let told = answer.text();
    assert_contains!(
        told,
        "one.txt: written, SHA-256 ",
        "two.txt: not done",
        "gone.txt: not done"
    );
    assert_contains!(told, "three.txt: holds something else now, SHA-256 ");
    let files = answer.payload["meta"]["files"]
        .as_array()
        .expect("the files that changed")
        .len();
    assert_eq!(files, 1, "{answer:?}");
    assert_eq!(answer.payload["meta"]["mayHaveRun"], true, "{answer:?}");
    let mut expected = owned_pairs(MANY.before);
    expected[2].1 = "new\n".to_owned();
    expected[3].1 = "somebody else's\n".to_owned();
    assert_eq!(
        read_tree(&setup.setting.workspace),
        expected,
        "nothing more was touched, and nothing is left"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_leads_out_of_the_workspace_by_now_is_not_touched() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    write_files(&setup, &[("sub/note.txt", "old\n")]);
    let runner = setup.run_armed(&relay.url, "temp.written=kill");
    let args = json!({ "file_path": "sub/note.txt", "content": "new\n" });
    let id = setup.ask(ToolCall::new("Write", &args)).await;
    assert_eq!(runner.end().await.code, None);
    let outside = setup.setting.logs.join("outside");
    std::fs::rename(setup.file("sub"), &outside).expect("moved out");
    symlink(&outside, setup.file("sub")).expect("linked");
    let there = read_tree(&outside);
    assert_eq!(
        there.len(),
        2,
        "the file and what was to replace it: {there:?}"
    );
    let _runner = setup.run_at(&relay.url);
    let text = setup.answer(&id).await.expect_error("interrupted");
    assert_contains!(text, "outside the workspace");
    assert_eq!(read_tree(&outside), there);
}

/// Creates a repository with one commit and an uncommitted change.
fn make_repository(setup: &RunnerFixture) {
    setup.write("a.txt", "one\n");
    for args in [
        &["init", "--quiet", "--initial-branch=main"][..],
        &["config", "user.name", "A"],
        &["config", "user.email", "a@example.org"],
        &["add", "a.txt"],
        &["commit", "--quiet", "--message=First"],
    ] {
        run_git(setup, args);
    }
    setup.write("a.txt", "two\n");
}

fn run_git(setup: &RunnerFixture, args: &[&str]) -> String {
    let ran = Command::new("git")
        .args(args)
        .current_dir(&setup.setting.workspace)
        .env("HOME", &setup.setting.logs)
        .output()
        .expect("git runs");
    assert!(ran.status.success(), "git {args:?}: {ran:?}");
    String::from_utf8(ran.stdout).expect("text")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_made_once_wherever_the_runner_is_killed() {
    for (point, expected) in [
        ("accept.after", ONCE),
        ("start.after", AGAIN),
        ("declare.after", AGAIN),
        ("finish.before", FOUND),
        ("finish.after", ONCE),
        ("post.after", ONCE),
    ] {
        let setup = RunnerFixture::new().await;
        let relay = Relay::before(&setup.setting.url).await;
        make_repository(&setup);
        let args = json!({ "paths": ["a.txt"], "message": "Second \n\n\n\nBecause." });
        let ask = ToolCall::new("git_add_commit", &args);
        let (_, answer) = killed_at(&setup, &relay, point, ask).await;
        assert_eq!(answer.outcome, "ok", "{point}: {answer:?}");
        assert_eq!(course_of_answer(&answer), expected, "{point}: {answer:?}");
        assert_starts_with!(answer.text(), "Committed "; "{point}");
        assert_eq!(
            run_git(&setup, &["log", "--format=%s"]),
            "Second\nFirst\n",
            "{point}"
        );
        assert_eq!(run_git(&setup, &["status", "--porcelain"]), "", "{point}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_somebody_else_moved_is_told_and_nothing_is_committed() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    make_repository(&setup);
    let runner = setup.run_armed(&relay.url, "declare.after=kill");
    let args = json!({ "paths": ["a.txt"], "message": "Second" });
    let id = setup.ask(ToolCall::new("git_add_commit", &args)).await;
    assert_eq!(runner.end().await.code, None);
    run_git(
        &setup,
        &["commit", "--quiet", "--allow-empty", "--message=Another"],
    );
    let _runner = setup.run_at(&relay.url);
    setup.answer(&id).await.expect_error("interrupted");
    assert_eq!(run_git(&setup, &["log", "--format=%s"]), "Another\nFirst\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_our_killed_git_left_goes_and_an_older_one_stays() {
    for (is_ours, outcome) in [(true, "ok"), (false, "error")] {
        let setup = RunnerFixture::new().await;
        let relay = Relay::before(&setup.setting.url).await;
        make_repository(&setup);
        let runner = setup.run_armed(&relay.url, "declare.after=kill");
        let args = json!({ "paths": ["a.txt"], "message": "Second" });
        let ask = ToolCall::new("git_add_commit", &args);
        let id = setup.ask(ask).await;
        assert_eq!(runner.end().await.code, None);
        let lock = std::fs::File::create(setup.file(".git/index.lock")).expect("a lock");
        if !is_ours {
            lock.set_modified(std::time::SystemTime::UNIX_EPOCH)
                .expect("an old one");
        }
        let _runner = setup.run_at(&relay.url);
        let answer = setup.answer(&id).await;
        assert_eq!(answer.outcome, outcome, "{answer:?}");
        assert_eq!(
            setup.file(".git/index.lock").exists(),
            !is_ours,
            "{answer:?}"
        );
        assert!(
            is_ours
                || answer
                    .text()
                    .contains("index.lock is there and was not removed"),
            "{answer:?}"
        );
        let commits = run_git(&setup, &["log", "--format=%s"]);
        assert_eq!(
            commits,
            if is_ours {
                "Second\nFirst\n"
            } else {
                "First\n"
            }
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f67_a_read_that_ends_the_runner_each_time_is_parked_and_others_proceed() {
    let setup = RunnerFixture::new().await;
    setup.write("a.txt", "text\n");
    let read =
        |talk: &str| ToolCall::new("Read", &json!({ "file_path": "a.txt" })).in_conversation(talk);
    let id = setup.ask(read("one")).await;
    let points = format!("start.after/{id}=kill");
    for life in 1..=3 {
        let ended = setup.run_armed(&setup.setting.url, &points).end().await;
        assert_eq!(ended.code, None, "life {life}: {ended:?}");
    }
    // A call that runs beside the read is cut off too each time, and counted. So this one comes only now.
    let other = setup.ask(read("two")).await;
    let _runner = setup.run_armed(&setup.setting.url, &points);
    let answer = setup.answer(&id).await;
    assert_contains!(answer.expect_error("interrupted"), "3 times");
    setup.answer(&other).await.expect_ok();
    assert_eq!(
        setup.call(read("one")).await.outcome,
        "ok",
        "its own conversation goes on"
    );
}

/// Random numbers from a seed (xorshift64), so that a failed run can be repeated.
struct SeededNumbers(u64);

impl SeededNumbers {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f09_random_kills_lose_nothing_and_do_nothing_twice() {
    const POINTS: [&str; 9] = [
        "accept.before",
        "accept.after",
        "start.after",
        "declare.after",
        "temp.written",
        "rename.after",
        "finish.before",
        "finish.after",
        "post.after",
    ];
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let mut dice = SeededNumbers(0x9E37_79B9_7F4A_7C15);
    let mut asked = Vec::new();
    let mut edits = Vec::new();
    for round in 0..20 {
        let log = format!("ran-{round}");
        let list = format!("list-{round}.txt");
        setup.write(&list, "one\n");
        let old = "one\n";
        let new = format!("one\n{round}\n");
        for ask in [
            ToolCall::new(
                "Edit",
                &json!({ "file_path": list, "old_string": old, "new_string": new }),
            ),
            ToolCall::bash(&format!("echo ran >> {log}")),
            ToolCall::new("Read", &json!({ "file_path": list })),
        ] {
            asked.push(
                setup
                    .ask(ask.in_conversation(&format!("talk-{}", dice.roll(3))))
                    .await,
            );
        }
        edits.push(asked[asked.len() - 3].clone());
        let point = POINTS[usize::try_from(dice.roll(9)).expect("small")];
        let mut runner = setup.run_armed(&relay.url, &format!("{point}=kill@{}", 1 + dice.roll(3)));
        // A round may not reach its point this often. Then it ends with the last answer.
        wait_until("the runner's end", || {
            let answered = asked
                .iter()
                .all(|id| setup.state(id) == Some(RequestState::Delivered));
            runner.has_ended() || answered
        })
        .await;
        drop(runner);
    }
    let _runner = setup.run_at(&relay.url);
    for id in &asked {
        let answer = setup.answer(id).await;
        assert!(
            answer.outcome == "ok" || answer.verdict().1 == "interrupted",
            "{answer:?}"
        );
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id).1, 1, "{id} has one result");
    }
    for (round, edit) in edits.iter().enumerate() {
        let there = setup.read(&format!("list-{round}.txt"));
        // An edit that ran at three kills is given up, and has changed nothing.
        let given_up = setup.answer(edit).await.outcome != "ok";
        assert_eq!(
            there,
            if given_up {
                "one\n".to_owned()
            } else {
                format!("one\n{round}\n")
            },
            "{edit}"
        );
        assert!(
            setup.read(&format!("ran-{round}")).lines().count() <= 1,
            "round {round}"
        );
    }
    let left: Vec<_> = read_tree(&setup.setting.workspace)
        .into_iter()
        .filter(|(name, _)| name.contains(".tmp"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
