//! Secrets that were mounted for commands of a runner when it was killed.

use punie_home::{Home, SecretStore};
use punie_text::redact::Secret;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Counts the folders of mounted secrets.
fn count_mounts(setup: &RunnerFixture) -> usize {
    let all = std::fs::read_dir(setup.setting.home.join("state/mounts")).expect("there");
    all.filter(|entry| entry.as_ref().expect("an entry").path().is_dir())
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_runner_left_of_secrets_is_gone_before_the_first_poll() {
    let mut setup = RunnerFixture::new().await;
    let home = Home::open_home(&setup.setting.home).expect("the home");
    SecretStore::in_home(&home)
        .set_secret("mailer", &Secret::new("hunter2hunter2".to_owned()))
        .expect("kept");
    let skill = home.skills_dir().join("mailing");
    std::fs::create_dir_all(&skill).expect("made");
    std::fs::write(
        skill.join("SKILL.md"),
        "---\nsecretMounts:\n  files: {TOKEN: mailer}\n---\nDo it.\n",
    )
    .expect("written");
    let runner = setup.run();
    let pids = setup.file("pids");
    let command = format!(
        "echo $$ >> {0}; cat \"$TOKEN\" > /dev/null && echo read >> {0}; sleep 600",
        pids.display()
    );
    let args = json!({"skill_id": "mailing", "command": command});
    setup.ask(ToolCall::new("SkillBash", &args)).await;
    let mut behind = args.clone();
    behind["run_in_background"] = true.into();
    setup.call_tool("SkillBash", &behind).await.expect_ok();
    wait_until("both to have read it", || {
        setup.read("pids").matches("read").count() == 2
    })
    .await;
    assert_eq!(count_mounts(&setup), 2);
    runner.kill();
    assert_eq!(count_mounts(&setup), 2, "nobody was there to remove them");
    // Without a backend no poll succeeds, so the clean-up comes before the first poll.
    setup.stop_backend().await;
    let _runner = setup.run();
    wait_until("the folders to be removed", || count_mounts(&setup) == 0).await;
    let started = setup.read("pids");
    let pids: Vec<&str> = started.lines().filter(|line| *line != "read").collect();
    assert_eq!(pids.len(), 2);
    wait_until("both commands to be ended", || {
        pids.iter().all(|pid| !is_alive(pid))
    })
    .await;
}
