//! A backend, a device and a caller, each in its own process.

use super::{CliUser, object_keys};

const READY: [&str; 9] = [
    "adminKey",
    "approverToken",
    "callerToken",
    "consoleUrl",
    "deviceId",
    "home",
    "pairingCode",
    "url",
    "workspaces",
];

#[tokio::test]
async fn a_device_is_paired_and_then_runs_by_itself() {
    let host = CliUser::new();
    let user = CliUser::new();
    let backend = host.serves(&["backend", "--json"]).await;
    let ready = &backend.ready;
    assert_eq!(object_keys(ready), READY);
    assert_fields!(ready, {"deviceId": null, "consoleUrl": null});
    let url = ready["url"].as_str().expect("a text");
    let code = ready["pairingCode"].as_str().expect("a text");

    let place = ["--backend-url", url, "--workspace", "."];
    user.run_cli(&[&place[..], &["run", "--once"]].concat())
        .await
        .refused(77, "is not paired with");
    user.run_cli(&[&place[..], &["pair", "WRONG-CODE"]].concat())
        .await
        .refused(77, "does not accept this pairing code");
    assert!(
        !user.path("home/config.toml").exists(),
        "a refusal creates no file"
    );
    let paired = user
        .run_cli(&[&place[..], &["pair", code, "--json"]].concat())
        .await
        .done()
        .json();
    assert_eq!(
        object_keys(&paired),
        ["config", "configWritten", "deviceId", "url"]
    );
    assert_fields!(paired, {"url": url, "configWritten": true});
    let status = user.run_cli(&["status", "--json"]).await.ended(3).json();
    assert_fields!(status, {"deviceId": paired["deviceId"], "/backend/reachable": true});

    // From here on no flags are needed, because config.toml has the values.
    let pass = user
        .run_cli(&["run", "--once", "--json"])
        .await
        .done()
        .json();
    assert_eq!(
        object_keys(&pass),
        [
            "delivered",
            "elapsedMs",
            "executed",
            "failed",
            "pending",
            "polled"
        ]
    );
    assert_eq!(pass["polled"], 0);
    let sent = user
        .run_as_caller(
            ready,
            &[
                "send",
                "Write",
                r#"{"file_path":"a","content":"b"}"#,
                "--wait",
                "0",
                "--json",
            ],
        )
        .await
        .done()
        .json();
    assert_eq!(object_keys(&sent), ["requestId", "toolName"]);
    let pass = user.run_cli(&["--once", "--json"]).await.done().json();
    assert_fields!(pass, {"polled": 1, "executed": 1, "delivered": 1, "pending": 0, "failed": 0});
    assert_eq!(user.read("work/a"), "b");
    let text = user.run_cli(&["--once"]).await.done().out;
    assert_contains!(text, "0 polled, 0 executed");

    let finished = user
        .run_as_caller(
            ready,
            &[
                "cancel",
                sent["requestId"].as_str().expect("an id"),
                "--json",
            ],
        )
        .await;
    assert_eq!(finished.done().json()["state"], "finished");
    assert_eq!(backend.stopped().await, (0, String::new()));
}

#[tokio::test]
async fn nobody_answers_and_the_request_is_taken_back() {
    let host = CliUser::new();
    let user = CliUser::new();
    let backend = host.serves(&["backend", "--json"]).await;
    let ready = &backend.ready.clone();
    let url = ready["url"].as_str().expect("a text");
    let code = ready["pairingCode"].as_str().expect("a text");
    user.run_cli(&["--backend-url", url, "--workspace", ".", "pair", code])
        .await
        .done();

    let waited = user
        .run_as_caller(
            ready,
            &["send", "Glob", r#"{"pattern":"*"}"#, "--wait", "0.2"],
        )
        .await;
    waited.refused(124, "no answer within 0.2 s");
    let sent = user
        .run_as_caller(
            ready,
            &["send", "Bash", r#"{"command":"touch x"}"#, "--wait", "0"],
        )
        .await
        .done();
    let id = sent.out.trim();
    let said = user
        .run_as_caller(ready, &["cancel", id, "--json"])
        .await
        .done()
        .json();
    assert_fields!(said, {"requestId": id, "state": "cancelling"});
    user.run_cli(&["--once"]).await.done();
    assert!(
        !user.path("work/x").exists(),
        "a cancelled request does not run"
    );
    let unknown = user
        .run_as_caller(ready, &["cancel", "nobody-knows-it"])
        .await;
    assert_eq!(unknown.code, 1, "{unknown:?}");
    user.run_as_caller(ready, &["cancel", "not an id"])
        .await
        .refused(2, "a request id must be");
    user.run_as_caller(ready, &["send", "Read", "--wait", "-1"])
        .await
        .refused(2, "");
    user.run_as_caller(ready, &["send", "Read", "--wait=-1"])
        .await
        .refused(2, "-1");
    user.run_as_caller(
        ready,
        &["send", "Read", "--device", "a-stranger", "--wait", "1"],
    )
    .await
    .refused(77, "DEVICE_UNKNOWN");
    let mut ready_for_another = ready.clone();
    ready_for_another["callerToken"] = "wrong".into();
    user.run_as_caller(&ready_for_another, &["send", "Read", "{}"])
        .await
        .refused(77, "refused");
    backend.stopped().await;
    user.run_as_caller(ready, &["send", "Read", "{}", "--wait", "1"])
        .await
        .refused(69, "cannot be reached");
    user.run_cli(&["--once"])
        .await
        .refused(69, "cannot be reached");
}

#[tokio::test]
async fn without_a_backend_or_a_workspace_there_is_advice() {
    let user = CliUser::new();
    user.run_cli(&["run"])
        .await
        .refused(78, "no workspace is set");
    user.run_cli(&[]).await.refused(78, "no workspace is set");
    user.run_cli(&["--workspace", ".", "run"])
        .await
        .refused(78, "no backend is set: give --backend-url");
    user.run_cli(&["send", "Read"])
        .await
        .refused(78, "punie-runner dev");
    user.run_cli(&["pair", "CODE"])
        .await
        .refused(78, "no backend is set");
    user.run_cli(&["--backend-url", "http://127.0.0.1:9", "send", "Read"])
        .await
        .refused(77, "no caller token");
    user.run_cli(&["--backend-url", "http://127.0.0.1:9", "pair", "CODE"])
        .await
        .refused(69, "cannot be reached");
}

#[tokio::test]
async fn a_file_that_names_another_backend_is_left_alone() {
    let host = CliUser::new();
    let user = CliUser::new();
    user.write(
        "home/config.toml",
        "# mine\n[backend]\nurl = \"https://other.example\"\n",
    );
    let backend = host.serves(&["backend", "--json"]).await;
    let url = &backend.ready["url"];
    let code = &backend.ready["pairingCode"];
    let args = [
        "--backend-url",
        url.as_str().expect("a text"),
        "pair",
        code.as_str().expect("a text"),
    ];
    let said = user.run_cli(&args).await.done();
    assert_contains!(said.out, "names another backend");
    assert_eq!(
        user.read("home/config.toml"),
        "# mine\n[backend]\nurl = \"https://other.example\"\n"
    );
}

#[tokio::test]
async fn a_backend_misbehaves_as_it_is_told_to_by_text_or_by_file() {
    let user = CliUser::new();
    user.write(
        "bad-day",
        "# The first is sent away, then all is well.\n* x1 status 503 code=Overloaded\n",
    );
    for faults in ["* x1 status 503 code=Overloaded", &user.text("bad-day")] {
        let backend = user
            .serves(&["backend", "--json", "--faults", faults])
            .await;
        user.run_as_caller(&backend.ready, &["cancel", "none"])
            .await
            .refused(69, "Overloaded");
        user.run_as_caller(&backend.ready, &["cancel", "none"])
            .await
            .refused(1, "");
        backend.stopped().await;
    }
    user.run_cli(&["backend", "--faults", "* explode"])
        .await
        .refused(2, "oversize BYTES");
    user.run_cli(&["backend", "--faults", "no-such-file"])
        .await
        .refused(2, "no-such-file");
}
