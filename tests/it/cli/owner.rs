//! The owner's commands: the history of requests and their outcomes, the log, and `pause`.

use super::{CliUser, object_keys, run_with_input};

/// The keys of one line of the history.
const LINE: [&str; 29] = [
    "attempts",
    "backend",
    "cancelRequested",
    "cancelRequestedAtMs",
    "closedAtMs",
    "code",
    "conversationId",
    "cutOff",
    "deadlineMs",
    "denial",
    "durationMs",
    "effect",
    "epoch",
    "exitCode",
    "failedPosts",
    "finishedAtMs",
    "lastError",
    "offers",
    "origin",
    "outcome",
    "receivedAtMs",
    "requestId",
    "rule",
    "signal",
    "startedAtMs",
    "state",
    "title",
    "toolName",
    "undoneAtMs",
];

#[tokio::test]
async fn the_owner_s_commands_work_without_a_runner_and_without_a_past() {
    let user = CliUser::new();
    let text = user.run_cli(&["history"]).await.done().out;
    assert_starts_with!(text, "No matching requests");
    assert_eq!(user.run_cli(&["history", "--json"]).await.done().out, "");
    user.run_cli(&["history", "0199"])
        .await
        .refused(1, "knows no request \"0199\"");
    user.run_cli(&["history", "0199", "--failed"])
        .await
        .refused(2, "--failed");
    user.run_cli(&["undo"])
        .await
        .refused(2, "`punie-runner undo @last`");
    user.run_cli(&["logs"]).await.refused(1, "there is no log");
    let paused = user.run_cli(&["pause"]).await.done();
    assert_contains!(paused.out, "the next one starts paused");
    let text = user.run_cli(&["pause"]).await.done().out;
    assert_starts_with!(text, "It was paused already");
    let status = user.run_cli(&["status", "--json"]).await.ended(3).json();
    assert!(
        status["paused"]["sinceMs"].is_i64() && status["degraded"][0] == "paused",
        "{status}"
    );
    let resumed = user.run_cli(&["resume", "--json"]).await.done().json();
    assert_eq!(
        object_keys(&resumed),
        [
            "changed", "inFlight", "paused", "running", "stopped", "waiting"
        ]
    );
    let text = user.run_cli(&["resume"]).await.done().out;
    assert_starts_with!(text, "It was not paused");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_asked_is_shown_beside_a_running_runner_and_after_it() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let send = async |tool: &str, args: &str| {
        let said = user
            .run_as_caller(
                &dev.ready,
                &["send", tool, args, "--conversation", "talk", "--json"],
            )
            .await;
        said.json()["requestId"].as_str().expect("an id").to_owned()
    };
    let good = send("Bash", r#"{"command":"echo one"}"#).await;
    let bad = send("Read", r#"{"file_path":"no-such-file"}"#).await;
    let lines = async |args: &[&str]| -> Vec<serde_json::Value> {
        let out = user
            .run_cli(&[&["history", "--json"], args].concat())
            .await
            .done()
            .out;
        out.lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    };
    let all = lines(&[]).await;
    assert_eq!(
        all.iter()
            .map(|line| &line["requestId"])
            .collect::<Vec<_>>(),
        [&bad, &good],
        "the latest first"
    );
    assert_eq!(object_keys(&all[0]), LINE);
    assert_fields!(all, {
        "/0/outcome": "error",
        "/0/code": "not_found",
        "/1/outcome": "ok",
        "/1/attempts": 1,
    });
    for (filter, found) in [
        (&["--failed"][..], &bad),
        (&["--tool", "Bash"], &good),
        (&["--limit", "1"], &bad),
        (&["--conversation", "talk", "--limit", "1"], &bad),
        (&["--within", "60", "--tool", "Read"], &bad),
        (&["--since", "1h", "--tool", "read"], &bad),
        (
            &["--since", "today", "--until", "today", "--grep", "ECHO"],
            &good,
        ),
    ] {
        let lines = lines(filter).await;
        assert!(
            lines.len() == 1 && lines[0]["requestId"] == **found,
            "{filter:?}: {lines:?}"
        );
    }
    for filter in [
        &["--conversation", "other"][..],
        &["--until", "2026-01-01"],
        &["--grep", "two"],
        &["--denied"],
    ] {
        assert!(lines(filter).await.is_empty(), "{filter:?}");
    }
    let table = user.run_cli(&["history"]).await.done().out;
    assert_starts_with!(table, "WHEN ");
    assert_contains!(table, "not found");
    assert_lacks!(table, "newest");
    let cut = user.run_cli(&["history", "--limit", "1"]).await.done().out;
    let last = cut.lines().last().expect("a line");
    assert_eq!(
        last,
        "The newest 1 of 2 requests. Add `--limit 0` to see all."
    );

    dev.stopped().await;
    // The first characters of an id are its time, so both requests share them.
    let all_but_the_end = &good[..good.len() - 1];
    let whole = user.run_cli(&["history", all_but_the_end]).await.done().out;
    for words in [
        "Tool          Bash (executes)",
        // A request that arrives while the runner starts may be found in two ways, which this line then adds.
        "  accepted",
        "  started ",
        "first attempt",
        "  finished ",
        "ok after",
        "  delivered",
    ] {
        assert_contains!(whole, words);
    }
    let both = user.run_cli(&["history", &good[..4]]).await;
    both.refused(2, "several ids begin or end with");
    user.run_cli(&["cancel", &good[..4]])
        .await
        .refused(2, "several ids begin or end with");
    let whole = user
        .run_cli(&["history", &bad, "--json"])
        .await
        .done()
        .json();
    assert_eq!(
        object_keys(&whole),
        [
            "arguments",
            "canUndo",
            "changedFiles",
            "declaredEffects",
            "network",
            "output",
            "processes",
            "request",
            "steps"
        ]
    );
    assert_eq!(
        object_keys(&whole["steps"][0]),
        ["atMs", "detail", "lastAtMs", "times", "what"]
    );
    let steps: Vec<_> = whole["steps"]
        .as_array()
        .expect("steps")
        .iter()
        .map(|step| &step["what"])
        .collect();
    assert_eq!(steps, ["accepted", "started", "finished", "delivered"]);
    let log = user
        .run_cli(&["logs", "-n", "3", "--json"])
        .await
        .done()
        .out;
    assert_eq!(log.lines().count(), 3, "{log}");
    assert_starts_with!(log, "{\"line\":\"2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_undone_stands_in_the_history() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let args = r#"{"file_path":"made.txt","content":"x"}"#;
    let sent = user
        .run_as_caller(&dev.ready, &["send", "Write", args, "--json"])
        .await
        .json();
    let id = sent["requestId"].as_str().expect("an id");
    let before = user
        .run_cli(&["history", "--tool", "Write", "--json"])
        .await
        .done()
        .json();
    assert!(before["undoneAtMs"].is_null(), "{before}");
    // `undo` runs beside the running runner, from a folder that is not a workspace.
    let mut elsewhere = user.command(&["undo", id, "--json"]);
    elsewhere.current_dir(user.path(""));
    let undone = run_with_input(elsewhere, "").await.done().json();
    assert_eq!(
        (&undone["undone"], user.path("work/made.txt").exists()),
        (&true.into(), false)
    );
    let after = user
        .run_cli(&["history", "--tool", "Write", "--json"])
        .await
        .done()
        .json();
    assert!(after["undoneAtMs"].is_i64(), "{after}");
    let life = user.run_cli(&["history", id]).await.done().out;
    assert_contains!(life, "undone", "was put back");
    assert_eq!(dev.stopped().await.0, 0);
}
