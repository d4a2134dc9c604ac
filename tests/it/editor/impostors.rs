//! The programs that are admitted as an editor, which approves calls: this user's, but no command of the runner's own.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::harness::process::PROGRAM;
use crate::harness::stage::RunnerFixture;

/// Returns a command line that connects as an editor and prints the runner's answers.
fn as_editor(home: &Path) -> String {
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize",
                       "params": {"protocolVersion": 1, "clientCapabilities": {}}});
    format!(
        "(printf '%s\\n' '{hello}'; sleep 2) | timeout 120 '{PROGRAM}' acp --home '{}' 2>&1; true",
        home.display()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_of_the_runners_own_is_let_in_as_an_editor_to_say_yes_to_itself() {
    for (config, confined) in [
        ("", true),
        ("[sandbox]\nconfine = false\nrequire = \"none\"\n", false),
    ] {
        let setup = RunnerFixture::with_config(config).await;
        let runner = setup.run();
        let line = as_editor(&setup.setting.home);
        for before in ["", "ulimit -x 1000; "] {
            let text = setup.bash(&format!("{before}{line}")).await.text();
            assert_lacks!(text, "agentCapabilities"; "confined {confined}, {before}");
        }
        let output = Command::new("/bin/bash")
            .args(["-c", &line])
            .output()
            .expect("it runs");
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert_contains!(text, "agentCapabilities"; "the owner's editor is admitted");
        runner.terminate();
        runner.end().await;
    }
}
