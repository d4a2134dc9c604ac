//! The operator's commands for the embedded backend: tokens that may ask or approve, and pairing of devices.

use serde_json::json;

use super::CliUser;

#[tokio::test]
async fn the_operator_mints_lists_and_withdraws_with_the_key_of_the_home() {
    let host = CliUser::new();
    let user = CliUser::new();
    let backend = host.serves(&["backend", "--json"]).await;
    let url = backend.ready["url"]
        .as_str()
        .expect("an address")
        .to_owned();
    let operates = async |args: &[&str]| {
        host.run_cli(&[&["--backend-url", &url, "operator"], args].concat())
            .await
    };

    let asker = operates(&["callers", "mint", "an agent"])
        .await
        .done()
        .out
        .trim()
        .to_owned();
    let approver = operates(&["--json", "callers", "mint", "a person", "--may", "approve"])
        .await
        .done()
        .json();
    assert_fields!(approver, {"name": "a person", "may": "approve"});
    let listed = operates(&["--json", "callers", "list"]).await.done().json();
    let callers: Vec<_> = listed
        .as_array()
        .expect("a list")
        .iter()
        .map(|caller| (&caller["name"], &caller["may"]))
        .collect();
    let null = serde_json::Value::Null;
    assert_eq!(
        callers,
        [
            (&json!("a person"), &json!("approve")),
            (&json!("agent"), &json!("ask")),
            (&json!("an agent"), &json!("ask")),
            (&json!("command line"), &null)
        ]
    );
    let shown = operates(&["callers", "list"]).await.done().out;
    assert_contains!(shown, "an agent");
    assert_lacks!(shown, &asker);

    // Each token permits either asking or approving.
    let code = backend.ready["pairingCode"].as_str().expect("a code");
    user.run_cli(&["--backend-url", &url, "--workspace", ".", "pair", code])
        .await
        .done();
    let send = ["send", "Glob", r#"{"pattern":"*"}"#, "--wait", "0"];
    let as_caller = |token: &str| json!({ "url": url, "callerToken": token });
    user.run_as_caller(&as_caller(&asker), &send).await.done();
    let token = approver["callerToken"].as_str().expect("a token");
    user.run_as_caller(&as_caller(token), &send)
        .await
        .refused(77, "may approve, and not ask");
    operates(&["callers", "revoke", "an agent"]).await.done();
    user.run_as_caller(&as_caller(&asker), &send)
        .await
        .refused(77, "CALLER_UNAUTHORIZED");
    operates(&["callers", "revoke", "an agent"])
        .await
        .refused(1, "nothing of this name");

    // Pairing codes and devices.
    operates(&["pairing", "close"]).await.done();
    let another = CliUser::new();
    let pair = async |code: &str| {
        another
            .run_cli(&["--backend-url", &url, "--workspace", ".", "pair", code])
            .await
    };
    pair(code)
        .await
        .refused(77, "does not accept this pairing code");
    let code = operates(&["--json", "pairing", "renew"])
        .await
        .done()
        .json()["pairingCode"]
        .clone();
    pair(code.as_str().expect("a code")).await.done();
    let status = another.run_cli(&["status", "--json"]).await.ended(3).json();
    let device = status["deviceId"].as_str().expect("an id");
    let shown = operates(&["devices", "list"]).await.done().out;
    assert!(
        shown.starts_with("DEVICE ") && shown.contains(device) && shown.lines().count() == 3,
        "{shown}"
    );
    operates(&["devices", "revoke", device]).await.done();
    let left = operates(&["--json", "devices", "list"]).await.done().json();
    let left = left.as_array().expect("a list");
    assert!(left.len() == 1 && left[0]["deviceId"] != device, "{left:?}");
    another
        .run_cli(&["run", "--once", "--workspace", "."])
        .await
        .refused(77, "revoked");

    // The commands fail without the admin key and with a wrong one.
    user.run_cli(&["--backend-url", &url, "operator", "callers", "list"])
        .await
        .refused(77, "no admin key");
    let admin = format!(
        "home/tokens/{}/admin",
        url.trim_start_matches("http://").replace(':', "_")
    );
    user.write(&admin, "punie-dev|0000");
    std::fs::set_permissions(
        user.path(&admin),
        std::os::unix::fs::PermissionsExt::from_mode(0o600),
    )
    .expect("set");
    user.run_cli(&["--backend-url", &url, "operator", "callers", "list"])
        .await
        .refused(77, "BadAdminKey");
}

#[tokio::test]
async fn the_home_of_a_flag_finds_its_backend_although_a_variable_names_another() {
    let host = CliUser::new();
    let home = host.text("be");
    let _backend = host.serves(&["--home", &home, "backend", "--json"]).await;
    let with_stale_variable = async |args: &[&str]| {
        let mut command = host.command(args);
        command.env("PUNIE_BACKEND_URL", "http://127.0.0.1:1");
        command.env("PUNIE_CALLER_TOKEN", "x");
        super::run_with_input(command, "").await
    };
    let list = ["--home", &home, "operator", "callers", "list"];
    with_stale_variable(&list).await.done();
    with_stale_variable(&["send", "Glob", "--wait", "0"])
        .await
        .refused(
            69,
            "http://127.0.0.1:1 (from PUNIE_BACKEND_URL) cannot be reached",
        );
}
