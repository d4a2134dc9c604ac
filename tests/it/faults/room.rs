//! A machine that runs out of open files, of processes, of memory, or of space for output.

use std::path::{Path, PathBuf};

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f20_without_open_files_new_work_is_refused_as_busy_and_what_runs_is_answered() {
    let setup = RunnerFixture::new().await;
    // At rest about 35 files are open, with those of the sandbox and of its tool threads. Sixteen claims at once need a
    // connection each. All sixteen commands together would have 95 files open. The views of eight conversations take
    // two files each.
    let runner = setup.run_after("ulimit -n 84");
    let mut asked = Vec::new();
    for n in 0..16 {
        let command =
            format!("echo > began.{n}; until [ -e go ]; do sleep 0.02; done; echo the end");
        asked.push(
            setup
                .ask(ToolCall::bash(&command).in_conversation(&format!("talk-{n}")))
                .await,
        );
    }
    // Refusals come at once, all other answers when `go` exists.
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
            ("ok", _) => assert_contains!(answer.text(), "the end"),
            ("error", "busy") => {
                refused += 1;
                assert_contains!(answer.text(), "Nothing was run");
                assert_eq!(answer.payload["meta"]["retryable"], true);
            }
            _ => panic!("{answer:?}"),
        }
    }
    assert!((1..16).contains(&refused), "{refused} were refused");
    setup.bash("echo room again").await.expect_ok();
    runner.stop().await;
}

/// A control group for one test. Its processes must have ended when it is dropped.
struct ControlGroup(PathBuf);

impl ControlGroup {
    /// Creates a group below the tree of this controller. Returns `None` if this user cannot create one.
    fn make(controller: &str, fault: &str) -> Option<Self> {
        let path = Path::new("/sys/fs/cgroup")
            .join(controller)
            .join(format!("{fault}-{}", std::process::id()));
        std::fs::create_dir(&path).ok().map(|()| Self(path))
    }

    fn set(&self, limit: &str, value: &str) {
        std::fs::write(self.0.join(limit), value).expect("a limit of the group");
    }

    /// Returns a shell command that enters the group.
    fn entry(&self) -> String {
        format!("echo $$ > {}/cgroup.procs", self.0.display())
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // The kernel removes a process from its group a moment after its end. A group that never empties stays visible.
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
    setup.bash("echo before").await.expect_ok();
    group.set("pids.max", "1");
    for _ in 0..3 {
        let text = setup.bash("echo ran >> ran").await.expect_error("io");
        assert_contains!(text, "no room for another process");
    }
    group.set("pids.max", "max");
    setup.bash("echo after").await.expect_ok();
    assert_eq!(setup.read("ran"), "");
    runner.stop().await;
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
    // The input has no line end, so `tail` must hold all of it as its last line.
    let greedy = "echo begun; head -c 900M /dev/zero | tail > /dev/null";
    let answer = setup.bash(greedy).await;
    let meta = &answer.payload["meta"];
    assert_fields!(meta, {"killed": "oom", "exitCode": 137}; "{answer:?}");
    assert_contains!(answer.text(), "begun", "killed: oom");
    // A command that another signal killed does not report a lack of memory.
    let killed = setup.bash("kill -KILL $$").await;
    assert_eq!(killed.payload["meta"].get("killed"), None, "{killed:?}");
    setup.bash("echo on").await.expect_ok();
    runner.stop().await;
}

/// Returns the peak memory of a process, in bytes.
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

/// The limit of one stored output on the disk.
const SPOOL: u64 = 256 << 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f47_an_output_without_end_takes_no_memory_and_keeps_its_head_and_tail() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup.bash("seq 1 100000").await;
    let before = peak_memory(runner.pid());
    // More than a stored output may take, so that the test reaches the limit.
    let answer = setup.bash("seq 1 32000000").await;
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
