//! Messages to the service manager: the runner is up, all of it makes progress, it stops.

use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use punie_engine::runner::Watchdog;
use punie_tool::ToolRegistry;

use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_service_manager_hears_that_all_is_well() {
    let setup = RunnerFixture::new().await;
    let path = setup.setting.logs.join("notify");
    let manager = UnixDatagram::bind(&path).expect("a socket");
    manager.set_nonblocking(true).expect("set");
    let mut heard = String::new();
    let mut hear = || {
        let mut word = [0; 64];
        while let Ok(length) = manager.recv(&mut word) {
            heard.push_str(&String::from_utf8_lossy(&word[..length]));
            heard.push('\n');
        }
        heard.clone()
    };
    let watchdog = Watchdog::from_variables(|name| match name {
        "NOTIFY_SOCKET" => path.to_str().map(str::to_owned),
        "WATCHDOG_USEC" => Some("40000".to_owned()),
        _ => None,
    });
    let tools = ToolRegistry::new([Vec::new()]).expect("no tools");
    let settings = settings_with(|settings| {
        settings.housekeeping_interval = Duration::from_hours(1);
    });
    let runner =
        RunnerInProcess::with_tools(&setup, tools, settings, |parts| parts.watchdog = watchdog);
    wait_until("two watchdog messages", || {
        hear().matches("WATCHDOG=1\n").count() >= 2
    })
    .await;
    runner.stop().await;
    let heard = hear();
    let stopping = "STOPPING=1\nEXTEND_TIMEOUT_USEC=40000000\n";
    assert_starts_with!(heard, "READY=1\n");
    assert_contains!(heard, stopping);
}
