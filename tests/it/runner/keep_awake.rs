//! While a call runs, the machine does not go to sleep for being idle. A service on the test's own bus replaces logind.

use std::io::{PipeReader, Read as _};

use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::harness::bus::SessionBus;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

/// The arguments of the request to logind, and the pipe that closes when the inhibition ends.
struct SleepInhibition {
    asked: [String; 4],
    held: PipeReader,
}

struct FakeLogind(UnboundedSender<SleepInhibition>);

#[zbus::interface(name = "org.freedesktop.login1.Manager")]
impl FakeLogind {
    fn inhibit(&self, what: String, who: String, why: String, mode: String) -> zbus::OwnedFd {
        let (held, holder) = std::io::pipe().expect("a pipe");
        let asked = [what, who, why, mode];
        let _ = self.0.send(SleepInhibition { asked, held });
        std::os::fd::OwnedFd::from(holder).into()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_call_keeps_the_machine_awake_until_its_end() {
    let Some(bus) = SessionBus::start() else {
        return;
    };
    let (tell, mut told) = unbounded_channel();
    let _logind = zbus::connection::Builder::address(bus.address.as_str())
        .name("org.freedesktop.login1")
        .serve_at("/org/freedesktop/login1", FakeLogind(tell))
        .build()
        .await
        .expect("a service");
    let setup = RunnerFixture::with_config("").await;
    let variable = ("DBUS_SYSTEM_BUS_ADDRESS", bus.address.as_ref());
    let _runner = RunningProgram::start_with(&setup.setting, &["run"], &[variable]);
    let waiting = "while [ ! -e go ]; do sleep 0.05; done";
    let id = setup.ask_bash(waiting).await;
    let SleepInhibition { asked, mut held } = told.recv().await.expect("logind was asked");
    assert_eq!(asked, ["idle", "punie-runner", "A tool call runs", "block"]);
    rustix::io::ioctl_fionbio(&held, true).expect("set");
    let early = held.read(&mut [0]).expect_err("it is held");
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    rustix::io::ioctl_fionbio(&held, false).expect("set");
    setup.write("go", "");
    setup.answer(&id).await.expect_ok();
    let ended = tokio::task::spawn_blocking(move || held.read(&mut [0]));
    assert_eq!(ended.await.expect("it reads").expect("it ended"), 0);
    assert!(told.try_recv().is_err(), "once for a call");
}
