//! Checkers that run after an edit, as the owner configures them.

use serde_json::{Value, json};

use crate::harness::stage::RunnerFixture;

/// Makes an edit, and returns the warnings beside its answer.
async fn told_warnings(setup: &RunnerFixture, tool: &str, args: Value) -> Vec<String> {
    let answer = setup.call_tool(tool, &args).await;
    answer.expect_ok();
    let warnings = answer.payload["meta"]["warnings"].as_array().cloned();
    let warnings = warnings.unwrap_or_default().into_iter();
    warnings
        .map(|warning| warning.as_str().expect("a text").to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_checker_says_stands_beside_the_answer_of_the_edit() {
    let setup = RunnerFixture::with_config(
        r#"
[after_edit]
"*.txt" = "! grep -n bad {file}"
"*.slow" = "echo $$ > /tmp/mine; sleep 600"
"*.w" = "echo x > beside; echo x > /tmp/own && echo done"
"*.denied" = "touch {file}"
"#,
    )
    .await;
    let rule = "[[rule]]\nname = \"no-touch\"\ndecision = \"deny\"\ncommand = [\"touch\"]\n";
    std::fs::write(setup.setting.home.join("policy.toml"), rule).expect("written");
    let _runner = setup.run();
    let write = |name: &str, content: &str| json!({"file_path": name, "content": content});
    assert_eq!(
        told_warnings(&setup, "Write", write("a.txt", "good\n")).await,
        [""; 0]
    );
    let edit = json!({"file_path": "a.txt", "old_string": "good", "new_string": "good\nbad's"});
    let said = told_warnings(&setup, "Edit", edit).await;
    assert_eq!(said, ["`! grep -n bad a.txt`: exit code 1\n2:bad's"]);
    let patch =
        "*** Begin Patch\n*** Add File: it's.txt\n+bad\n*** Add File: b.md\n+bad\n*** End Patch\n";
    let said = told_warnings(&setup, "ApplyPatch", json!({"patch": patch})).await;
    assert!(
        said.len() == 1 && said[0].ends_with("exit code 1\n1:bad"),
        "{said:?}"
    );
    let said = told_warnings(&setup, "Write", write("a.slow", "x")).await;
    assert!(
        said.len() == 1 && said[0].ends_with("took longer than 2 s and was ended"),
        "{said:?}"
    );
    // The checker reads the workspace and can write only to its own /tmp.
    let said = told_warnings(&setup, "Write", write("a.w", "x")).await;
    assert!(
        said.len() == 1
            && said[0].contains(
                "
done
"
            )
            && said[0].contains("beside: Read-only"),
        "{said:?}"
    );
    assert!(!setup.file("beside").exists());
    let said = told_warnings(&setup, "Write", write("a.denied", "x")).await;
    assert!(
        said.len() == 1 && said[0].contains("not run: ") && said[0].contains("no-touch"),
        "{said:?}"
    );
    let listed = setup.command(&["tools", "Edit", "--json"]).await;
    assert_contains!(listed.out, "After it, checkers of the owner run");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checker_that_is_no_command_line_is_a_fault_of_the_settings() {
    for (table, fault) in [
        ("\"*.py\" = 1", "must be a command line"),
        ("\"*.py\" = \"\"", "must be a command line"),
        ("\"[\" = \"true\"", "after_edit"),
    ] {
        let setup = RunnerFixture::with_config(&format!("[after_edit]\n{table}\n")).await;
        let ended = setup.run().end().await;
        assert_eq!(ended.code, Some(78), "{table}: {ended:?}");
        assert_contains!(ended.log, fault; "{table}");
    }
}
