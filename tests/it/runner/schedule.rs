//! The times of polls: by the schedule, after a wake-up, after an error, and at no other time.

use std::time::Duration;

use punie_engine::runner::WakeupMode;
use punie_tool::ToolRegistry;
use serde_json::json;

use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::stepped_time::SteppedTime;

const POLL: &str = "events:listForDevice";

/// Returns the waits between the polls of an idle device under this schedule. Skips the first polls, which open the
/// session and the socket.
async fn idle_polls(
    wakeup: WakeupMode,
    asked: bool,
    skipped: usize,
    waits: usize,
) -> Vec<Duration> {
    let setup = RunnerFixture::with_unheld_polls("").await;
    let relay = Relay::before(&setup.setting.url).await;
    if asked {
        relay.rule(|path, _| match path {
            POLL => CallFate::Alter(|answer| answer["value"]["nextPollMs"] = json!(7_000)),
            _ => CallFate::Pass,
        });
    }
    let mut time = SteppedTime::stop();
    let settings = settings_with(|settings| {
        settings.poll.wakeup = wakeup;
        settings.poll.jitter = 0.0;
    });
    let runner = RunnerInProcess::with_stepped_time(
        &setup,
        &relay.url,
        ToolRegistry::new([]).expect("no names, none twice"),
        settings,
        &mut time,
        |_| {},
    );
    let polls = skipped + waits + 1;
    time.move_until("polls", Duration::from_secs(5), || {
        relay.calls(POLL).len() >= polls
    })
    .await;
    let at: Vec<_> = relay
        .calls(POLL)
        .iter()
        .skip(skipped)
        .map(|call| call.at)
        .collect();
    drop((runner, time));
    at.windows(2)
        .take(waits)
        .map(|pair| pair[1].duration_since(pair[0]))
        .collect()
}

#[tokio::test]
async fn only_the_schedule_polls_an_idle_backend() {
    let seconds = Duration::from_secs;
    for (wakeup, asked, least) in [
        (WakeupMode::Off, false, seconds(30)),
        (WakeupMode::Off, true, seconds(7)),
        (WakeupMode::On, false, seconds(300)),
        (WakeupMode::On, true, seconds(7)),
    ] {
        // The first message of the socket causes a poll of its own.
        let skipped = usize::from(wakeup == WakeupMode::On);
        let waits = idle_polls(wakeup, asked, skipped, 6).await;
        let soon = waits.iter().any(|wait| *wait < least);
        assert!(
            !soon,
            "{wakeup:?}, asked by the backend: {asked}: {waits:?}"
        );
    }
}

/// Checks that attempts to list the open requests run one at a time, however often an outage makes one due.
#[tokio::test]
async fn a_long_outage_does_not_multiply_the_looks_at_what_is_open() {
    let setup = RunnerFixture::with_unheld_polls("").await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| match path {
        "events:listOpenIds" => CallFate::say("503 Service Unavailable", "", "{}"),
        _ => CallFate::Pass,
    });
    let mut time = SteppedTime::stop();
    let settings = settings_with(|settings| {
        settings.poll.wakeup = WakeupMode::Off;
        settings.waits.retry = (Duration::from_secs(1), Duration::from_secs(10));
        settings.poll.list_open = Duration::from_secs(20);
    });
    let runner = RunnerInProcess::with_stepped_time(
        &setup,
        &relay.url,
        ToolRegistry::new([]).expect("no names, none twice"),
        settings,
        &mut time,
        |_| {},
    );
    time.pass(Duration::from_mins(5), Duration::from_secs(1))
        .await;
    let looks = relay.calls("events:listOpenIds").len();
    drop((runner, time));
    // Attempts are five seconds apart on average, and 15 scheduled listings come on top.
    assert!((30..120).contains(&looks), "{looks} looks in 300 s");
}
