//! A machine without room: for files, for processes, for memory, for what is printed.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_without_open_files_new_work_is_refused_as_busy_and_what_runs_is_answered() {
    let setup = RunnerFixture::new().await;
    // At rest some 35 are open, the confinement's and its tools' threads' among them. Sixteen claims at once have a
    // connection each, and all sixteen commands together would have 95 open. Views of eight conversations are held
    // by two each.
    let runner = setup.run_after("ulimit -n 84");
    let mut asked = Vec::new();
    for n in 0..16 {
        let command =
            format!("echo > began.{n}; until [ -e go ]; do sleep 0.02; done; echo the end");
        asked.push(
            setup
                .ask(ToolCall::bash(&command).of(&format!("talk-{n}")))
                .await,
        );
    }
    // Refusals come at once, everything else when it may.
    wait_until("each to have begun or to be refused", || {
        let began = (0..16)
            .filter(|n| setup.file(&format!("began.{n}")).exists())
            .count();
        began + runner.log().matches("a call was answered").count() >= 16
    })
    .await;
    setup.write("go", "");
    let mut refused = 0;
    for id in &asked {
        let answer = setup.answer(id).await;
        match answer.verdict() {
            ("ok", _) => assert!(answer.text().contains("the end"), "{answer:?}"),
            ("error", "busy") => {
                refused += 1;
                assert!(answer.text().contains("Nothing was run"), "{answer:?}");
                assert_eq!(answer.payload["meta"]["retryable"], true);
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert!((1..16).contains(&refused), "{refused} were refused");
    assert_eq!(
        setup
            .caller
            .call_and_wait(ToolCall::bash("echo room again"))
            .await
            .outcome,
        "ok"
    );
    runner.terminate();
    assert_eq!(runner.end().await.code, Some(0));
}

/// A control group for one test. What is in it must have ended when it is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Below the tree of this controller; none where this user can make none.
    fn make(controller: &str, fault: &str) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("{fault}-{}", std::process::id()));
        std::fs::create_dir(&path).ok().map(|()| Self(path))
    }

    fn set(&self, limit: &str, value: &str) {
        std::fs::write(self.0.join(limit), value).expect("a limit of the group");
    }

    /// Shell words that enter it.
    fn entry(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // For the system a process leaves its group a moment after its end; one that stays is seen by whoever looks.
        for _ in 0..1_000 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f21_without_room_for_a_process_a_command_is_an_error_and_the_runner_lives() {
    let Some(group) = ControlGroup::make("pids", "f21") else {
        println!(
            "not shown here: no control group of version 1 for the number of processes can be made"
        );
        return;
    };
    let setup = RunnerFixture::new().await;
    let runner = setup.run_after(&group.entry());
    assert_eq!(
        setup
            .caller
            .call_and_wait(ToolCall::bash("echo before"))
            .await
            .outcome,
        "ok"
    );
    group.set("pids.max", "1");
    for _ in 0..3 {
        let answer = setup
            .caller
            .call_and_wait(ToolCall::bash("echo ran >> ran"))
            .await;
        assert_eq!(answer.verdict(), ("error", "io"), "{answer:?}");
        assert!(
            answer.text().contains("no room for another process"),
            "{answer:?}"
        );
    }
    group.set("pids.max", "max");
    assert_eq!(
        setup
            .caller
            .call_and_wait(ToolCall::bash("echo after"))
            .await
            .outcome,
        "ok"
    );
    assert_eq!(setup.read("ran"), "");
    runner.terminate();
    assert_eq!(runner.end().await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f22_a_command_that_the_system_killed_for_want_of_memory_says_so() {
    let Some(group) = ControlGroup::make("memory", "f22") else {
        println!("not shown here: no control group of version 1 for memory can be made");
        return;
    };
    group.set("memory.limit_in_bytes", "300M");
    let setup = RunnerFixture::new().await;
    let runner = setup.run_after(&group.entry());
    // Without a line's end all of it is the last line.
    let greedy = "echo begun; head -c 900M /dev/zero | tail > /dev/null";
    let answer = setup.caller.call_and_wait(ToolCall::bash(greedy)).await;
    let meta = &answer.payload["meta"];
    assert_eq!(
        (&meta["killed"], &meta["exitCode"]),
        (&json!("oom"), &json!(137)),
        "{answer:?}"
    );
    assert!(
        answer.text().contains("begun") && answer.text().contains("killed: oom"),
        "{answer:?}"
    );
    // One that somebody else killed is not taken for that.
    let killed = setup
        .caller
        .call_and_wait(ToolCall::bash("kill -KILL $$"))
        .await;
    assert_eq!(killed.payload["meta"].get("killed"), None, "{killed:?}");
    assert_eq!(
        setup
            .caller
            .call_and_wait(ToolCall::bash("echo on"))
            .await
            .outcome,
        "ok"
    );
    runner.terminate();
    assert_eq!(runner.end().await.code, Some(0));
}

/// The most memory that a process has had, in bytes.
fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it lives");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a peak");
    line.trim()
        .trim_end_matches(" kB")
        .parse::<u64>()
        .expect("a number")
        << 10
}

/// What one output may take on the disk.
const SPOOL: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f47_an_output_without_end_takes_no_memory_and_keeps_its_head_and_tail() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup
        .caller
        .call_and_wait(ToolCall::bash("seq 1 100000"))
        .await;
    let before = peak_memory(runner.pid());
    // Beyond what is kept, so that the bound is met too.
    let answer = setup
        .caller
        .call_and_wait(ToolCall::bash("seq 1 32000000"))
        .await;
    let grown = peak_memory(runner.pid()).saturating_sub(before);
    assert!(grown <= 32 << 20, "its memory grew by {grown} bytes");
    let text = answer.text();
    assert!(
        answer.outcome == "ok"
            && text.starts_with("1\n2\n")
            && text.trim_end().ends_with("\n32000000"),
        "{text}"
    );
    assert_eq!(answer.payload["meta"]["truncated"], true);
    let kept = std::fs::read_dir(setup.setting.home.join("state/outputs")).expect("the outputs");
    let most = kept
        .filter_map(|entry| Some(entry.ok()?.metadata().ok()?.len()))
        .max()
        .expect("one is kept");
    assert!(most > SPOOL / 2 && most <= SPOOL, "{most} bytes are kept");
}
