//! The access of plugins to this machine: no more than their manifests declare.

use serde_json::json;

use super::{call_tool, install_plugin, listed_plugins, server_script, text_of, until_offered};
use crate::faults::tls::make_authority;
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;

/// The code of an answer that holds the output of these commands on one line.
fn printing_server(commands: &str) -> String {
    format!("text \"$({{ {commands}; }} 2>&1 | tr '\\n\"' ';.')\"")
}

async fn call_text(setup: &RunnerFixture, tool: &str) -> String {
    let answer = call_tool(setup, tool).await;
    let text = answer["result"].as_str();
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_runs_in_its_own_process_with_what_it_declared_only() {
    let setup = RunnerFixture::new().await;
    setup.write("data", "of the workspace");
    let file = setup.file("data").display().to_string();
    let home = setup.setting.home.display().to_string();
    let looks = printing_server(&format!(
        "cat {file}; echo changed > {file}; echo x > {file}.new; cat {home}/config.toml; \
         cat {home}/plugins/other/server.sh; echo in-own-folder > ./note; cat ./server.sh | head -1; echo end"
    ));
    install_plugin(&setup, "other", "", "");
    install_plugin(&setup, "blind", "", &server_script(&["blind"], &looks));
    install_plugin(
        &setup,
        "reader",
        "paths = \"read\"",
        &server_script(&["reader"], &looks),
    );
    install_plugin(
        &setup,
        "writer",
        "paths = \"write\"",
        &server_script(&["writer"], &looks),
    );

    let blind = call_text(&setup, "blind").await;
    assert_lacks!(blind, "of the workspace");
    assert_contains!(blind, "end");
    assert_eq!(setup.read("data"), "of the workspace");
    let reader = call_text(&setup, "reader").await;
    assert_contains!(reader, "of the workspace");
    assert_eq!(setup.read("data"), "of the workspace", "{reader}");
    assert_eq!(setup.read("data.new"), "");
    let writer = call_text(&setup, "writer").await;
    assert_eq!(setup.read("data"), "changed\n", "{writer}");
    for all in [&blind, &reader, &writer] {
        assert_lacks!(all, "error_base_ms"; "the runner's home was read");
        assert_lacks!(all, "id_pattern"; "another plugin's folder was read");
        assert_contains!(all, "#!/usr/bin/env bash"; "the plugin reads its own folder");
    }
    for id in ["blind", "reader", "writer"] {
        assert!(
            !setup
                .setting
                .home
                .join("plugins")
                .join(id)
                .join("note")
                .exists(),
            "{id}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_plugin_writes_into_a_cache_reaches_commands_only_if_it_writes_workspaces_too() {
    let setup = RunnerFixture::new().await;
    let poisons = |id: &str| {
        printing_server(&format!(
            "echo from {id} > ~/.cargo/{id}; mkdir -p ~/.gradle/init.d && echo x > ~/.gradle/init.d/{id}; cat ~/.cargo/{id}"
        ))
    };
    for (id, manifest) in [
        ("blind", ""),
        ("reader", "paths = \"read\""),
        ("writer", "paths = \"write\""),
    ] {
        install_plugin(&setup, id, manifest, &server_script(&[id], &poisons(id)));
        // Every plugin can write to its own cache, also without access to the workspaces.
        assert_contains!(call_text(&setup, id).await, &format!("from {id}"));
    }
    let finds = json!({"command": "cd; ls .cargo .gradle/init.d; echo end"});
    let found = setup
        .command(&["--json", "call", "Bash", &finds.to_string()])
        .await;
    let found = found.json().to_string();
    assert_contains!(found, "writer", "end");
    assert_lacks!(found, "blind", "reader");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_without_network_reaches_no_host_and_another_asks() {
    let setup = RunnerFixture::new().await;
    let port = setup
        .setting
        .url
        .rsplit(':')
        .next()
        .expect("a port")
        .to_owned();
    let reach = printing_server(&format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port} && echo reached; echo proxy=$HTTPS_PROXY"
    ));
    install_plugin(&setup, "offline", "", &server_script(&["offline"], &reach));
    install_plugin(
        &setup,
        "online",
        "network = \"ask\"",
        &server_script(&["online"], &reach),
    );
    let offline = call_text(&setup, "offline").await;
    assert_lacks!(offline, "reached");
    assert_contains!(offline, "proxy=;");
    let online = call_text(&setup, "online").await;
    assert_lacks!(online, "reached");
    assert_contains!(online, "proxy=http://");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_gets_no_secret_of_the_environment() {
    let setup = RunnerFixture::new().await;
    let shows = printing_server("env | cut -d= -f1 | sort | tr '\\n' ' '");
    install_plugin(&setup, "curious", "", &server_script(&["curious"], &shows));
    let all = call_text(&setup, "curious").await;
    assert_lacks!(all, "TOKEN", "PUNIE_HOME", "PUNIE_WORKSPACES");
    assert_eq!(listed_plugins(&setup).await["curious"]["state"], "ok");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_can_read_the_authority_that_the_users_variables_name() {
    let mut setup = RunnerFixture::new().await;
    let roots = setup.setting.logs.join("company.pem");
    std::fs::write(&roots, make_authority("A company").pem()).expect("written");
    std::fs::write(setup.setting.logs.join("notes"), "a note").expect("written");
    setup.setting.roots = Some(roots);
    let reads =
        printing_server("grep -c BEGIN $SSL_CERT_FILE; echo x >> $SSL_CERT_FILE; cat ~/notes");
    install_plugin(
        &setup,
        "trusting",
        "",
        &server_script(&["trusting"], &reads),
    );
    let read = call_text(&setup, "trusting").await;
    assert_starts_with!(read, "1;");
    assert_contains!(read, "Read-only");
    assert_lacks!(read, "a note");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_of_a_plugin_is_asked_about_and_told_in_the_answer() {
    let setup = RunnerFixture::new().await;
    let url = format!("{}/version", setup.setting.url);
    let fetch = format!("curl -s --noproxy '' -m 60 -o /dev/null -w '%{{http_code}}' {url}");
    install_plugin(
        &setup,
        "online",
        "network = \"ask\"",
        &server_script(&["fetch"], &printing_server(&fetch)),
    );
    let refused = call_tool(&setup, "fetch").await;
    let text = refused["result"].as_str().expect("text");
    assert_contains!(text, "127.0.0.1:"; "the reason: {refused}");
    assert_eq!(refused["meta"]["network"][0]["refused"], 1, "{refused}");

    let rule = "[[rule]]\nname = \"local\"\ndecision = \"allow\"\ntools = [\"guest:fetch\"]\nhosts = [\"127.0.0.1\"]\n";
    std::fs::write(setup.setting.home.join("policy.toml"), rule).expect("written");
    let allowed = call_tool(&setup, "fetch").await;
    assert_eq!(allowed["meta"]["network"][0]["connections"], 1, "{allowed}");
    assert!(
        allowed["meta"]["network"][0]["receivedBytes"].as_u64() > Some(0),
        "{allowed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_waits_for_approval_and_what_it_wrote_can_be_undone() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"executes\"]\n").await;
    setup.write("data", "before\n");
    let writes = "echo after > \"${PUNIE_WORKSPACES%%:*}/data\"; text written";
    install_plugin(
        &setup,
        "writer",
        "paths = \"write\"",
        &server_script(&["writer"], writes),
    );
    let runner = setup.run();
    until_offered(&setup, "writer").await;
    let id = setup.ask(ToolCall::new("writer", &json!({}))).await;
    let question = setup.caller.next_question().await;
    assert_eq!(setup.read("data"), "before\n");
    setup.caller.choose(&question, "allow_once").await;
    assert_eq!(text_of(&setup.answer(&id).await), "written");
    assert_eq!(setup.read("data"), "after\n");
    let undone = setup.command(&["undo", &id]).await;
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(setup.read("data"), "before\n");
    runner.terminate();
    runner.end().await;
}
