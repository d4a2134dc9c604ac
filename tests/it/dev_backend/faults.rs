//! Injected faults as a client sees them on the socket, and the effects of the functions that were called.

use punie_dev_backend::{
    CallerPermission, DevBackend, DevBackendOptions, FaultInjector, InjectedFault,
};
use serde_json::{Value, json};

use super::server::TestBackend;

/// Calls a function and returns the status and text of the answer, or the failure.
async fn call_function(
    server: &TestBackend,
    backend: &DevBackend,
    path: &str,
    kind: &str,
    args: &Value,
) -> (u16, String) {
    let body = json!({ "path": path, "args": args }).to_string();
    let post = server
        .wire
        .http
        .post(format!("{}/api/{kind}", backend.listen_url()))
        .body(body);
    let Ok(reply) = post.header("content-type", "application/json").send().await else {
        return (0, "no answer".to_owned());
    };
    let status = reply.status().as_u16();
    (
        status,
        reply
            .text()
            .await
            .unwrap_or_else(|_| "broken off".to_owned()),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_fault_is_seen_as_often_as_planned_and_commits_what_it_should() {
    let server = TestBackend::start().await;
    let faults = FaultInjector::new();
    let home = tempfile::tempdir().expect("a folder");
    let options = DevBackendOptions {
        db: home.path().join("b.sqlite3"),
        faults: Some(faults.clone()),
        ..server.options()
    };
    let backend = DevBackend::start_server(options).await.expect("started");
    let token = backend
        .mint_caller_token("test", CallerPermission::Both)
        .expect("a token");
    let whole = r#"{"status":"success","value":{"state":"unknown"}}"#;
    let status = InjectedFault::Status {
        status: 429,
        code: "TooManyWrites".into(),
        retry_after: None,
    };
    let refusal = r#"{"code":"TooManyWrites","message":"a fault on purpose"}"#;
    let cases = [
        (InjectedFault::Unheard, 0, "no answer"),
        (InjectedFault::Drop, 0, "no answer"),
        (status, 429, refusal),
        (
            InjectedFault::Html,
            200,
            "<!doctype html><title>Welcome</title><p>Please log in to use this network.",
        ),
        (InjectedFault::Cut(9), 200, "broken off"),
        (InjectedFault::Half, 200, &whole[..24]),
        (InjectedFault::Slow(30), 200, whole),
        (InjectedFault::Date(600), 200, whole),
        (InjectedFault::Reorder, 200, whole),
    ];
    let args = json!({ "callerToken": token, "requestId": "none" });
    for (fault, code, text) in cases {
        faults.plan("events:cancel", 1, fault.clone());
        let seen = call_function(&server, &backend, "events:cancel", "mutation", &args).await;
        assert_eq!(seen, (code, text.to_owned()), "{fault:?}");
        let after = call_function(&server, &backend, "events:cancel", "mutation", &args).await;
        assert_eq!(after, (200, whole.to_owned()), "after {fault:?}");
    }
    faults.plan("events:cancel", 1, InjectedFault::Oversize(1 << 20));
    let (code, text) = call_function(&server, &backend, "events:cancel", "mutation", &args).await;
    assert!(
        code == 200 && text.len() > 1 << 20 && text.ends_with(whole),
        "{} bytes",
        text.len()
    );
    backend.stop_server().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_call_is_committed_and_an_unheard_one_is_not() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    let faults = FaultInjector::parse_script(
        "events:appendRequest x1 unheard ; events:appendRequest x1 drop",
    )
    .expect("a script");
    let options = DevBackendOptions {
        faults: Some(faults.clone()),
        ..server.options()
    };
    let server = server.restart_with(options).await;
    let append = |id: &str| {
        json!({
            "callerToken": server.caller_token, "requestId": id, "deviceId": device.id, "toolName": "Read", "args": "{}",
        })
    };
    for id in ["unheard", "dropped"] {
        let seen = call_function(
            &server,
            &server.backend,
            "events:appendRequest",
            "mutation",
            &append(id),
        )
        .await;
        assert_eq!(seen.0, 0, "{id}: {seen:?}");
    }
    assert_eq!(faults.calls("events:appendRequest"), 2);
    for (id, created) in [("unheard", true), ("dropped", false)] {
        let stored = server
            .wire
            .value("mutation", "events:appendRequest", &append(id))
            .await;
        assert_eq!(stored["created"], created, "{id}");
    }
}
