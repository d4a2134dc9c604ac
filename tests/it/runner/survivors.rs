//! Processes that a killed runner leaves running: the next runner ends foreground commands and their daemons.

use crate::harness::running::processes_with_argument;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_of_a_command_that_a_crash_cut_off_are_ended_by_the_next_life() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let marker = format!("8{:07}", std::process::id());
    let command = format!(
        "(setsid env -i bash -c 'exec 0<&- 1>&- 2>&-; (setsid sleep {marker} &)'); echo $$ > begun; sleep 600"
    );
    let id = setup.ask_bash(&command).await;
    setup.wait_for_line_in("begun").await;
    wait_until("the daemon", || processes_with_argument(&marker).len() == 1).await;
    runner.kill();
    assert_eq!(
        processes_with_argument(&marker).len(),
        1,
        "the test needs an orphan"
    );
    let _runner = setup.run();
    setup.answer(&id).await.expect_error("interrupted");
    assert_eq!(
        processes_with_argument(&marker),
        Vec::<u32>::new(),
        "ended before anything is answered"
    );
}
