//! MCP servers in `config.toml`: the device offers their tools under the name of the server.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{
    SERVER, call_tool, listed_plugins, problem_text, server_script, text_of, until_offered,
};
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// The table in `config.toml` of a server whose script is in the workspace.
fn plugin_table(name: &str, more: &str) -> String {
    format!("[mcp.servers.{name}]\ncommand = \"bash\"\nargs = [\"{name}.sh\"]\n{more}\n")
}

/// A device with one configured server.
async fn stage_with(name: &str, more: &str, script: &str) -> RunnerFixture {
    let setup = RunnerFixture::with_config(&plugin_table(name, more)).await;
    setup.write(&format!("{name}.sh"), script);
    setup
}

/// The script of a server with this list of tools and this answer to a call.
fn server_listing(tools: &str, call: &str) -> String {
    SERVER
        .replace("START", "start")
        .replace("TOOLS", tools)
        .replace("CALL", call)
}

async fn call_with_args(
    setup: &RunnerFixture,
    tool: &str,
    arguments: Value,
) -> crate::harness::caller::CallAnswer {
    setup.call_tool(tool, &arguments).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_of_a_configured_server_are_offered_under_its_name() {
    let calls = r#"case $message in
        *'"name":"picture"'*) answer '{"content":[{"type":"text","text":"a dot"},{"type":"image","data":"QUJD","mimeType":"image/png"}]}' ;;
        *'"name":"fail"'*) answer '{"content":[{"type":"text","text":"no such city"}],"isError":true}' ;;
        *) text "$GREETING $(basename "$PWD")" ;;
        esac"#;
    let tool = |name: &str, more: &str| {
        format!(
            r#"{{"name":"{name}","inputSchema":{{"type":"object","properties":{{"n":{{"type":"integer"}}}}}}{more}}}"#
        )
    };
    let tools = [
        tool("greet", r#","annotations":{"readOnlyHint":true}"#),
        tool("look", r#","annotations":{"readOnlyHint":true}"#),
        tool("picture", ""),
        tool("fail", ""),
        tool("hidden", ""),
    ];
    let more = "env = { GREETING = \"Hello from\" }\ntools = [\"greet\", \"look\", \"picture\", \"fail\"]\n\
                effects = { look = \"reads\" }";
    let setup = stage_with("city", more, &server_listing(&tools.join(","), calls)).await;
    let runner = setup.run();
    let body = until_offered(&setup, "city__greet").await;
    assert_eq!(body["origin"], "mcp: city");
    assert_eq!(
        body["effect"], "executes",
        "the server may write, so its own annotation does not count"
    );
    assert_eq!(until_offered(&setup, "city__look").await["effect"], "reads");
    let names: Vec<String> = setup
        .caller
        .tools()
        .await
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert!(!names.contains(&"city__hidden".to_owned()), "{names:?}");

    let answer = call_with_args(&setup, "city__greet", json!({"n": 1})).await;
    assert_eq!(text_of(&answer), "Hello from work");
    call_with_args(&setup, "city__greet", json!({"n": "one"}))
        .await
        .expect_error("invalid_args");
    let answer = call_with_args(&setup, "city__fail", json!({})).await;
    answer.expect_error("io");
    assert_eq!(answer.text(), "city__fail failed: no such city");
    let answer = call_with_args(&setup, "city__picture", json!({})).await;
    let picture = &answer.payload["result"];
    assert_eq!(picture["mime_type"], "image/png", "{answer:?}");
    assert_eq!(picture["encoding"], "base64");
    assert_eq!(picture["data"], "QUJD");
    assert_eq!(picture["note"], "a dot\n[image: image/png]");

    // The catalog of plugins contains only plugins of the home.
    assert_eq!(setup.caller.catalog("plugin").await.len(), 0);
    call_with_args(&setup, "hidden", json!({}))
        .await
        .expect_error("unknown_tool");
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_is_not_started_where_no_workspace_is_known() {
    let script = server_script(&["fine"], "text alive");
    let setup = stage_with("near", "", &script).await;
    let elsewhere = async || {
        // The command runs in another folder, without the workspace flag that the other commands here have.
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_punie-runner"));
        command
            .arg("--home")
            .arg(&setup.setting.home)
            .args(["--json", "plugins"])
            .env("HOME", setup.setting.home.parent().expect("a folder"))
            .env_remove("PUNIE_WORKSPACE")
            .current_dir("/");
        let output = command.output().await.expect("it runs");
        let text = String::from_utf8(output.stdout).expect("text");
        serde_json::from_str::<Value>(text.lines().next().expect("a line")).expect("JSON")
    };
    let report = elsewhere().await;
    let problems = problem_text(&report);
    assert_contains!(
        problems,
        "was not started: it starts in the first workspace",
        "--workspace DIR plugins"
    );
    // A running runner knows its workspaces.
    let runner = setup.run();
    until_offered(&setup, "near__fine").await;
    let report = elsewhere().await;
    assert_fields!(report, {"state": "ok", "/tools/0/name": "near__fine"});
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_configured_server_that_hangs_floods_or_dies_fails_one_call() {
    let calls = r#"case $message in
        *'"name":"hang"'*) sleep 4714 ;;
        *'"name":"flood"'*) head -c 1G /dev/zero ;;
        *'"name":"die"'*) exit 3 ;;
        *) text alive ;;
        esac"#;
    let tools = ["hang", "flood", "die", "fine"];
    let setup = stage_with("bad", "timeout = 5", &server_script(&tools, calls)).await;
    let runner = setup.run();
    until_offered(&setup, "bad__hang").await;
    for (tool, code, words) in [
        ("bad__hang", "timeout", "The MCP server bad did not answer"),
        ("bad__flood", "interrupted", "a message of more than 8 MiB"),
        ("bad__die", "interrupted", "its program ended (exit code 3)"),
    ] {
        assert_contains!(
            call_with_args(&setup, tool, json!({}))
                .await
                .expect_error(code),
            words
        );
        let answer = call_with_args(&setup, "bad__fine", json!({})).await;
        assert_eq!(text_of(&answer), "alive", "after {tool}");
    }
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_comes_while_the_runner_is_stopped_is_received() {
    const LIMIT: Duration = Duration::from_secs(8);
    // The first call is answered at once.
    let calls = r#"[ -e warm ] && { touch called; until [ -e go ]; do sleep 0.02; done; }
        touch warm; text "its answer"; touch answered"#;
    let setup = stage_with("slow", "timeout = 8", &server_script(&["wait"], calls)).await;
    let runner = setup.run();
    until_offered(&setup, "slow__wait").await;
    let answer = call_with_args(&setup, "slow__wait", json!({})).await;
    assert_eq!(text_of(&answer), "its answer");
    wait_until("the first answer", || setup.file("answered").exists()).await;
    std::fs::remove_file(setup.file("answered")).expect("the first answer's file");
    let since = Instant::now();
    let id = setup.ask(ToolCall::new("slow__wait", &json!({}))).await;
    wait_until("a call at the server", || setup.file("called").exists()).await;
    runner.signal(Signal::STOP);
    setup.write("go", "");
    wait_until("the server's answer", || setup.file("answered").exists()).await;
    wait_until("the end of the call's time limit", || {
        since.elapsed() > LIMIT + Duration::from_secs(1)
    })
    .await;
    runner.signal(Signal::CONT);
    let answer = setup.answer(&id).await;
    assert_eq!(text_of(&answer), "its answer", "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_cannot_be_offered_is_named_and_the_others_are() {
    let long = "x".repeat(60);
    let tools = format!(
        r#"{{"name":"wrong","inputSchema":{{"type":"object","properties":5}}}},{{"name":"text","inputSchema":{{"type":"string"}}}},{{"name":"any","inputSchema":{{}}}},{{"name":"{long}","inputSchema":{{"type":"object"}}}},
        {{"name":"a.b","inputSchema":{{"type":"object"}}}},{{"name":"odd","inputSchema":{{"type":"object"}},
        "outputSchema":{{"type":"object","required":["n"]}}}},{{"name":"odd","inputSchema":{{"type":"object"}}}}"#
    )
    .replace('\n', "");
    let odd = r#"answer '{"content":[{"type":"text","text":"no n"}],"structuredContent":{"m":1}}'"#;
    let more = "tools = [\"wrong\", \"text\", \"any\", \"odd\", \"a.b\", \"none\", \"LONG\"]"
        .replace("LONG", &long);
    let setup = stage_with("liar", &more, &server_listing(&tools, odd)).await;
    let report = &listed_plugins(&setup).await["mcp.liar"];
    let said = problem_text(report);
    assert_contains!(
        said,
        "liar__wrong is not offered: its inputSchema",
        "liar__text is not offered, because its inputSchema has no",
        "liar__any is not offered, because its inputSchema has no",
        "liar__a.b is not offered, because models accept names",
        "none, which is none of its tools",
        "liar__odd is not offered, because the MCP server liar has a tool of this name"
    );
    assert_contains!(said, &format!("liar__{long} is not offered"));
    assert_eq!(report["tools"][0]["name"], "liar__odd", "{report}");
    // The model gets the content although it breaks the declared schema, and also the structured fields that the
    // content lacks.
    assert_eq!(
        call_tool(&setup, "liar__odd").await["result"],
        "no n\n{\"m\":1}"
    );
    let tools = setup.command(&["tools"]).await;
    assert_contains!(tools.log, "liar__wrong is not offered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_that_a_server_adds_while_it_runs_are_offered() {
    let list = r#"if [[ -e grown ]]; then answer '{"tools":[{"name":"grow","inputSchema":{"type":"object"}},{"name":"new","inputSchema":{"type":"object"}}]}'; else answer '{"tools":[{"name":"grow","inputSchema":{"type":"object"}}]}'; fi"#;
    let grow = r#"touch grown; text grown; echo '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'"#;
    let script = server_listing("", grow).replace("answer '{\"tools\":[]}'", list);
    let setup = stage_with("plant", "", &script).await;
    let runner = setup.run();
    until_offered(&setup, "plant__grow").await;
    assert_eq!(
        text_of(&call_with_args(&setup, "plant__grow", json!({})).await),
        "grown"
    );
    until_offered(&setup, "plant__new").await;
    assert_eq!(
        text_of(&call_with_args(&setup, "plant__new", json!({})).await),
        "grown"
    );
    runner.terminate();
    runner.end().await;
    // The list is stored, so that the next start needs no server.
    assert_eq!(call_tool(&setup, "plant__new").await["result"], "grown");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_goes_to_the_server_and_nowhere_else() {
    let more = "env = { API_KEY = \"${secret:city-key}\" }";
    let script = server_script(&["show"], "text \"key $API_KEY\"");
    let setup = stage_with("city", more, &script).await;
    let doctor = setup.command(&["--json", "doctor"]).await;
    assert_contains!(doctor.out, "needs the secret city-key");
    let said = problem_text(&listed_plugins(&setup).await["mcp.city"]);
    assert_contains!(said, "punie-runner secrets set city-key");
    let home = punie_home::Home::open_home(&setup.setting.home).expect("a home");
    let value = punie_text::redact::Secret::new("s3cret-value-of-city".to_owned());
    punie_home::SecretStore::in_home(&home)
        .set_secret("city-key", &value)
        .expect("stored");
    let runner = setup.run();
    until_offered(&setup, "city__show").await;
    let answer = call_with_args(&setup, "city__show", json!({})).await;
    let text = text_of(&answer);
    assert_starts_with!(text, "key ");
    assert_lacks!(text, "s3cret");
    let log = runner.log();
    assert_lacks!(log, "s3cret");
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_config_toml_is_in_force_without_a_restart() {
    let setup = RunnerFixture::new().await;
    setup.write("late.sh", &server_script(&["probe"], "text late"));
    let runner = setup.run();
    until_offered(&setup, "Read").await;
    let file = setup.setting.home.join("config.toml");
    let before = std::fs::read_to_string(&file).expect("a configuration");
    std::fs::write(&file, format!("{before}{}", plugin_table("late", ""))).expect("written");
    until_offered(&setup, "late__probe").await;
    assert_eq!(
        text_of(&call_with_args(&setup, "late__probe", json!({})).await),
        "late"
    );
    std::fs::write(
        &file,
        format!("{before}{}", plugin_table("late", "enabled = false")),
    )
    .expect("written");
    wait_for_some("the tool to go", async || {
        let tools = setup.caller.tools().await;
        tools
            .iter()
            .all(|(name, _)| name != "late__probe")
            .then_some(())
    })
    .await;
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_could_not_be_asked_is_asked_again() {
    let script = format!(
        "[[ -e ready ]] || exit 1\n{}",
        server_script(&["probe"], "text here")
    );
    let setup = stage_with("slow", "", &script).await;
    let runner = setup.run();
    wait_until("the first failure", || {
        runner.log().contains("its server listed no tools")
    })
    .await;
    setup.write("ready", "");
    until_offered(&setup, "slow__probe").await;
    runner.terminate();
    runner.end().await;
}
