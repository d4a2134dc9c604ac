//! A network that lets connections out only through its proxy.

use std::ffi::OsStr;
use std::path::PathBuf;

use tokio::task::JoinSet;

use super::tls::{make_authority, make_certificate, start_tls_gate};
use crate::harness::connect_proxy::{CREDENTIALS, ConnectProxy};
use crate::harness::process::{EndedProgram, ProcessSetting, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// An address at which only the proxy reaches a server.
const BACKEND: &str = "https://backend.localhost";

/// The backend of a fixture as the proxy reaches it: behind TLS, under a name at which nothing else listens.
struct ProxiedBackend {
    roots: PathBuf,
    _serving: JoinSet<()>,
}

impl ProxiedBackend {
    async fn the(proxy: &ConnectProxy, setup: &RunnerFixture) -> Self {
        let ours = make_authority("ours");
        let roots = setup.setting.logs.join("roots.pem");
        std::fs::write(&roots, ours.pem()).expect("written");
        let certificate = make_certificate("backend.localhost", false, Some(&ours));
        let (url, serving) = start_tls_gate(&setup.setting.url, certificate).await;
        proxy.lead_to(&url);
        Self {
            roots,
            _serving: serving,
        }
    }

    fn setting(&self, setup: &RunnerFixture) -> ProcessSetting {
        ProcessSetting {
            url: BACKEND.to_owned(),
            roots: Some(self.roots.clone()),
            ..setup.setting.clone()
        }
    }

    async fn once(&self, setup: &RunnerFixture, variables: &[(&str, &str)]) -> EndedProgram {
        let variables: Vec<(&str, &OsStr)> = variables
            .iter()
            .map(|(name, value)| (*name, value.as_ref()))
            .collect();
        RunningProgram::start_with(&self.setting(setup), &["--once"], &variables)
            .end()
            .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_environment_names_the_proxy_and_what_needs_none() {
    let setup = RunnerFixture::new().await;
    let proxy = ConnectProxy::start().await;
    let behind = ProxiedBackend::the(&proxy, &setup).await;
    let right = proxy.url(CREDENTIALS);
    let wrong = proxy.url("me:swordfish");
    for (variables, code) in cases! {
        (vec![], 69),
        (vec![("HTTPS_PROXY", right.as_str()), ("NO_PROXY", "elsewhere.test, .localhost")], 69),
        (vec![("HTTP_PROXY", &right)], 69),
        (vec![("HTTPS_PROXY", &wrong)], 69),
        (vec![("ALL_PROXY", "socks5://127.0.0.1:1")], 78),
    } {
        let ended = behind.once(&setup, &variables).await;
        assert_eq!(ended.code, Some(code), "{variables:?}: {ended:?}");
        assert_lacks!(ended.log, "hunter2", "swordfish");
        assert_eq!(proxy.tunnels(), [""; 0], "{variables:?}");
    }
    for name in ["HTTPS_PROXY", "https_proxy", "ALL_PROXY"] {
        let id = setup.ask_bash("echo through").await;
        let ended = behind
            .once(&setup, &[(name, &right), ("NO_PROXY", "elsewhere.test")])
            .await;
        assert_eq!(ended.code, Some(0), "{name}: {ended:?}");
        setup.answer(&id).await.expect_ok();
    }
    let tunnels = proxy.tunnels();
    assert!(
        !tunnels.is_empty() && tunnels.iter().all(|to| to == "backend.localhost:443"),
        "{tunnels:?}"
    );
    // The runner reaches servers on this machine without the proxy.
    let dead = [("ALL_PROXY", "http://127.0.0.1:1".as_ref())];
    let ended = RunningProgram::start_with(&setup.setting, &["--once"], &dead)
        .end()
        .await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_the_wake_up_socket_go_through_the_proxy_of_the_configuration() {
    let proxy = ConnectProxy::start().await;
    let config = format!(
        "[backend]\nwakeup = \"on\"\nproxy = \"{}\"\n",
        proxy.url(CREDENTIALS)
    );
    let setup = RunnerFixture::with_unheld_polls(&config).await;
    assert_eq!(
        proxy.tunnels(),
        [""; 0],
        "the device was paired directly, on this machine"
    );
    let behind = ProxiedBackend::the(&proxy, &setup).await;
    // The configuration takes precedence over the environment.
    let elsewhere = [("HTTPS_PROXY", "http://127.0.0.1:1".as_ref())];
    let runner = RunningProgram::start_with(&behind.setting(&setup), &["run"], &elsewhere);
    // By then the journal exists and can be read.
    runner.wait_for_log("the runner is up").await;
    wait_until("the socket", || {
        setup.journal_note("backend_link").as_deref() == Some("up")
    })
    .await;
    setup.bash("echo through").await.expect_ok();
    let tunnels = proxy.tunnels();
    assert!(
        tunnels.len() >= 2 && tunnels.iter().all(|to| to == "backend.localhost:443"),
        "{tunnels:?}"
    );
    let encoded = "bWU6aHVudGVyMg";
    for text in [runner.log(), setup.command(&["--json", "status"]).await.out] {
        assert_lacks!(text, "hunter2", encoded);
    }
    setup.configure(&proxy.url(CREDENTIALS), "none");
    let direct = wait_for_some("an end", async || Some(behind.once(&setup, &[]).await)).await;
    assert_ne!(direct.code, Some(0), "{direct:?}");
}
