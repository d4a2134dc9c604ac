//! The desktop's notification service shows a call that waits for approval. Here the service is on the test's own bus.
#![expect(
    clippy::unused_self,
    clippy::used_underscore_binding,
    reason = "the interface of the service has more than the tests look at"
)]

use std::collections::HashMap;

use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use zbus::OwnedVariant;

use crate::harness::bus::SessionBus;
use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

const ASKING: &str = "[policy]\nask = [\"executes\"]\n";

/// The calls that the notification service received.
#[derive(Debug, PartialEq)]
enum ServiceEvent {
    Shown(String, String),
    Closed(u32),
}

struct NotificationService(UnboundedSender<ServiceEvent>);

#[zbus::interface(name = "org.freedesktop.Notifications")]
impl NotificationService {
    fn get_server_information(&self) -> (String, String, String, String) {
        let text = |text: &str| text.to_owned();
        (text("test"), text("test"), text("1"), text("1.2"))
    }

    #[expect(clippy::too_many_arguments, reason = "the interface of the desktop")]
    fn notify(
        &self,
        _app: String,
        _replaces: u32,
        _icon: String,
        summary: String,
        body: String,
        _actions: Vec<String>,
        _hints: HashMap<String, OwnedVariant>,
        _timeout: i32,
    ) -> u32 {
        let _ = self.0.send(ServiceEvent::Shown(summary, body));
        7
    }

    fn close_notification(&self, id: u32) {
        let _ = self.0.send(ServiceEvent::Closed(id));
    }
}

/// A bus with a notification service.
struct NotifiedDesktop {
    bus: SessionBus,
    told: UnboundedReceiver<ServiceEvent>,
    _service: zbus::Connection,
}

impl NotifiedDesktop {
    /// Starts both. Returns `None` if no bus is installed: then the tests of this file check nothing.
    async fn start() -> Option<Self> {
        let bus = SessionBus::start()?;
        let (tell, told) = unbounded_channel();
        let service = zbus::connection::Builder::address(bus.address.as_str())
            .name("org.freedesktop.Notifications")
            .serve_at("/org/freedesktop/Notifications", NotificationService(tell))
            .build()
            .await
            .expect("a service");
        Some(Self {
            bus,
            told,
            _service: service,
        })
    }
}

fn start_runner(setup: &RunnerFixture, desktop: &NotifiedDesktop) -> RunningProgram {
    let variable = ("DBUS_SESSION_BUS_ADDRESS", desktop.bus.address.as_ref());
    RunningProgram::start_with(&setup.setting, &["run"], &[variable])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_waits_is_notified_and_the_notice_goes_with_it() {
    let Some(mut desktop) = NotifiedDesktop::start().await else {
        return;
    };
    let setup = RunnerFixture::without_listener(ASKING).await;
    let _runner = start_runner(&setup, &desktop);
    setup.until_asker_announced().await;
    let id = setup.ask_bash("echo ran > effect").await;
    let Some(ServiceEvent::Shown(summary, body)) = desktop.told.recv().await else {
        panic!("nothing was shown");
    };
    assert_eq!(summary, "Bash waits for your approval");
    assert_contains!(body, "echo ran &gt; effect", "punie-runner approvals");
    let listed = setup.listed_question().await;
    setup
        .command(&["approvals", "allow", listed["id"].as_str().expect("an id")])
        .await;
    setup.answer(&id).await.expect_ok();
    assert_eq!(desktop.told.recv().await, Some(ServiceEvent::Closed(7)));

    let question = json!({ "questions": [{ "question": "Which <color>?" }] });
    let id = setup.ask(ToolCall::new("AskUserQuestion", &question)).await;
    let Some(ServiceEvent::Shown(summary, body)) = desktop.told.recv().await else {
        panic!("nothing was shown");
    };
    assert_eq!(summary, "The agent asks you something");
    assert_contains!(body, "Which &lt;color&gt;?", "punie-runner questions");
    setup.command(&["questions", "refuse", &id]).await;
    assert_eq!(desktop.told.recv().await, Some(ServiceEvent::Closed(7)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_notify_nothing_is_shown_and_nobody_counts_as_asked() {
    let Some(mut desktop) = NotifiedDesktop::start().await else {
        return;
    };
    let setup = RunnerFixture::without_listener(&format!("{ASKING}notify = false\n")).await;
    let _runner = start_runner(&setup, &desktop);
    let answer = setup.bash("echo ran > effect").await;
    assert_contains!(answer.text(), "nobody can be asked");
    assert!(desktop.told.try_recv().is_err());
}
