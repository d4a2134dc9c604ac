//! `mcp import`: the servers of other clients.

use serde_json::{Value, json};

use super::McpUser;

fn json_lines(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

#[tokio::test]
async fn servers_are_written_and_their_secrets_are_stored() {
    let user = McpUser::new();
    let entries = json!({"mcpServers": {
        "github": {"command": "npx", "args": ["-y", "server-github"], "env": {"GITHUB_TOKEN": "ghp_very_secret", "MODE": "x"}},
        "old": {"type": "sse", "url": "https://example.com/sse"},
        "web": {"type": "http", "url": "https://example.com/mcp", "headers": {"Authorization": "Bearer very-secret-too"}},
    }});
    user.write("work/.mcp.json", entries.to_string());
    user.write("home/config.toml", "# mine\n[limits]\nreads = 4 # few\n");
    let file = user.path("work/.mcp.json");
    let file = file.to_str().expect("text");
    let config = || std::fs::read_to_string(user.path("home/config.toml")).expect("the file");

    let places = json_lines(&user.run_cli(&["--json", "mcp", "import"]).await);
    assert_eq!(places, [json!({"file": file, "servers": 3})]);
    let before = config();
    let run = async |args: &[&str]| user.command(args).output().await.expect("started");
    let output = run(&["--json", "mcp", "import", file, "--dry-run"]).await;
    assert_eq!(output.status.code(), Some(1), "one entry is refused");
    let said = json_lines(&String::from_utf8_lossy(&output.stdout));
    assert_fields!(said, {
        "/0/secrets": ["mcp.github.GITHUB_TOKEN"],
        "/2/name": "old",
        "/2/state": "problem",
    });
    assert_lacks!(String::from_utf8_lossy(&output.stdout), "very");
    assert_eq!(config(), before, "a dry run changes nothing");
    let output = run(&["mcp", "import", file]).await;
    assert_eq!(
        output.status.code(),
        Some(2),
        "no person can be asked: {output:?}"
    );
    assert_eq!(config(), before);

    run(&["mcp", "import", file, "--yes"]).await;
    let after = config();
    assert_starts_with!(after, "# mine\n[limits]\nreads = 4 # few\n");
    assert_contains!(
        after,
        "[mcp.servers.github]",
        "${secret:mcp.github.GITHUB_TOKEN}",
        "[mcp.servers.web]",
        "\"MODE\" = \"x\""
    );
    assert_lacks!(after, "very");
    let secrets = user.run_cli(&["--json", "secrets"]).await;
    assert_contains!(secrets, "mcp.web.Authorization");
    let again = run(&["mcp", "import", file, "--yes"]).await;
    assert_contains!(String::from_utf8_lossy(&again.stderr), "already");
    assert_eq!(config(), after);
}

#[tokio::test]
async fn a_file_that_names_no_servers_is_refused() {
    let user = McpUser::new();
    for (text, words) in [
        ("{", "is not JSON"),
        ("{\"servers\": {}}", "names no MCP servers"),
    ] {
        user.write("work/x.json", text);
        let output = user
            .command(&["mcp", "import", "x.json", "--yes"])
            .output()
            .await;
        let output = output.expect("started");
        assert!(!output.status.success());
        assert_contains!(String::from_utf8_lossy(&output.stderr), words);
    }
}
