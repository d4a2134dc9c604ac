//! Commands and an editor's terminals: the confinement that the owner requires decides which commands run there.

use serde_json::{Value, json};

use crate::harness::editor::{EditorProcess, EditorReaction};
use crate::harness::stage::RunnerFixture;

/// Answers as an editor with one terminal, in which every command prints the same.
fn terminal_reaction(method: &str, _: &Value) -> EditorReaction {
    EditorReaction::Answer(match method {
        "terminal/create" => json!({ "terminalId": "t1" }),
        "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
        "terminal/output" => {
            json!({ "output": "ran there\n", "truncated": false, "exitStatus": { "exitCode": 0 } })
        }
        "terminal/release" => json!({}),
        "session/request_permission" => {
            json!({ "outcome": { "outcome": "selected", "optionId": "allow_once" } })
        }
        _ => return EditorReaction::Refuse(-32601),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_confinement_is_required_a_command_runs_here_and_says_why() {
    for required in ["", "[sandbox]\nrequire = \"partial\"\n"] {
        let setup =
            RunnerFixture::with_config(&format!("[editor]\nterminals = true\n{required}")).await;
        let mut editor = EditorProcess::launch(&setup.setting, terminal_reaction);
        editor
            .attached(&json!({ "terminal": true }), &setup.setting)
            .await;
        let answer = setup.bash("echo ran here; echo x >> ~/rc").await;
        assert_starts_with!(answer.text(), "ran here");
        assert!(
            editor.requests("terminal/create").is_empty(),
            "nothing was asked of the editor"
        );
        let meta = &answer.payload["meta"];
        assert_fields!(meta, {"confinement": "full", "source": null});
        let word = if required.is_empty() {
            "full"
        } else {
            "partial"
        };
        let why = format!(
            "It ran on this machine and not in the editor's terminal: nothing confines commands there, and the owner \
             requires confinement \"{word}\". The owner can allow it: require = \"none\" under [sandbox] in config.toml. It takes effect at once."
        );
        assert_eq!(meta["warnings"], json!([why]));
        assert!(
            !setup.setting.logs.join("rc").exists(),
            "the command was confined"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_none_is_required_it_runs_there_and_its_result_says_none() {
    let setup =
        RunnerFixture::with_config("[editor]\nterminals = true\n[sandbox]\nrequire = \"none\"\n")
            .await;
    let mut editor = EditorProcess::launch(&setup.setting, terminal_reaction);
    editor
        .attached(&json!({ "terminal": true }), &setup.setting)
        .await;
    let answer = setup.bash("echo ran here").await;
    assert_eq!(answer.text(), "ran there");
    let meta = &answer.payload["meta"];
    assert_fields!(meta, {"confinement": "none", "source": "editor"});
    // An editor's terminal takes no input, so a command with input runs here, confined.
    let answer = setup
        .call_tool("Bash", &json!({ "command": "cat", "stdin": "here" }))
        .await;
    assert_eq!(answer.text(), "here");
    assert_eq!(answer.payload["meta"]["confinement"], "full");
}
