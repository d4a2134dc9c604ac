//! A backend that goes away for a while: the lines in the log, and the last contact in `status`.

use punie_engine::runner::Clock;

use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outage_is_one_line_when_it_begins_and_one_when_it_ends() {
    let mut setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup.bash("true").await.expect_ok();
    runner.wait_for_log("the catalog is published").await;
    let before = runner.log().lines().count();
    setup.stop_backend().await;
    wait_until("some failed polls", || {
        runner.log().matches("could not be polled").count() >= 3
    })
    .await;
    setup.start_backend().await;
    runner
        .wait_for_log("the backend answers again after ")
        .await;
    setup.bash("true").await.expect_ok();
    let log = runner.log();
    let told: Vec<&str> = log
        .lines()
        .skip(before)
        .filter(|line| !line.contains("DEBUG") && !line.contains("a call was answered"))
        .collect();
    let [lost, back] = told.as_slice() else {
        panic!("{told:#?}");
    };
    assert_contains!(lost, "the runner tries again, and running calls go on");
    assert_contains!(back, "answers again after");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivered_answer_is_a_contact() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the catalog is published").await;
    let asked_ms = Clock::system().now_ms();
    setup.bash("true").await.expect_ok();
    wait_for_some("a contact since then", async || {
        let status = setup.status().await;
        let last = status["backend"]["lastContactMs"].as_i64()?;
        (last >= asked_ms).then_some(())
    })
    .await;
}
