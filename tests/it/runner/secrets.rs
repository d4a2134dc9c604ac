//! Neither the device's own token nor another secret leaves the machine, by whichever tool reads it.

use std::ffi::OsStr;

use punie_home::{Home, SecretStore};
use punie_text::redact::Secret;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_session_s_token_is_masked_in_results_and_in_kept_output() {
    let setup = RunnerFixture::new().await;
    let token_file = setup.setting.tokens().join("device");
    // Once with the token that an earlier process left, once with one of a session that this process opened.
    for reopened in [false, true] {
        if reopened {
            std::fs::remove_file(&token_file).expect("removed");
        }
        let runner = setup.run();
        setup.bash("true").await;
        let token = std::fs::read_to_string(&token_file)
            .expect("there")
            .trim()
            .to_owned();
        assert!(token.len() > 20, "a token: {}", token.len());
        setup.write("leak.txt", &format!("before {token} after\n"));
        // The line is cut before it is masked, in the middle of the token.
        setup.write(
            "long.txt",
            &format!("before {}{token}{}\n", ".".repeat(973), "-".repeat(3_000)),
        );
        let long = setup
            .call_tool("Read", &json!({ "file_path": "long.txt" }))
            .await;
        assert_contains!(long.text(), "before ...");
        assert_lacks!(long.raw, &token[..8]);
        let big = "cat leak.txt; seq 1 20000; cat leak.txt >&2";
        let args = json!({ "pattern": "before", "output_mode": "content" });
        let asks = [
            ToolCall::bash("cat leak.txt"),
            ToolCall::bash("cat leak.txt >&2; exit 3"),
            ToolCall::new("Read", &json!({ "file_path": "leak.txt" })),
            ToolCall::new("Grep", &args),
            ToolCall::bash(big),
        ];
        let mut handle = None;
        for ask in asks {
            let answer = setup.call(ask).await;
            assert_lacks!(answer.raw, &token);
            assert!(
                answer.text().contains("before") && answer.payload["meta"]["redactions"].is_u64(),
                "{answer:?}"
            );
            handle = answer.payload["meta"]["handle"]
                .as_str()
                .map(str::to_owned)
                .or(handle);
        }
        let args = json!({ "handle": handle.expect("the large output was kept"), "limit": 1 });
        let kept = ToolCall::new("ReadOutput", &args);
        let kept = setup.call(kept).await;
        assert_contains!(kept.text(), "before");
        assert_lacks!(kept.raw, &token);
        for file in std::fs::read_dir(setup.setting.home.join("state/outputs")).expect("the folder")
        {
            let bytes = std::fs::read(file.expect("an entry").path()).expect("readable");
            assert!(
                !String::from_utf8_lossy(&bytes).contains(&token),
                "a stored output holds the token"
            );
        }
        assert_lacks!(runner.log(), &token; "the log holds the token");
        runner.kill();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn h103_the_own_token_is_masked_when_a_command_prints_it_in_two_goes() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    setup.bash("true").await;
    let token = std::fs::read_to_string(setup.setting.tokens().join("device"))
        .expect("there")
        .trim()
        .to_owned();
    setup.write("token", &token);
    // The second half comes after the runner has read the first one: by then the text before it is stored.
    let command = "t=$(<token); printf 'before\\n%s' \"${t:0:20}\"; until [ -e go ]; do sleep 0.02; done; \
                   printf '%s\\nafter\\n' \"${t:20}\"; printf 'x%s' \"$t\" | base64";
    let id = setup.ask_bash(command).await;
    setup.wait_for_stored_output(&id, "before").await;
    setup.write("go", "");
    let answer = setup.answer(&id).await;
    let text = answer.text();
    assert_starts_with!(text, "before\n[REDACTED:secret]\nafter\n"; "{answer:?}");
    assert_lacks!(answer.raw, &token, &token[..20]);
    assert_eq!(
        text.matches("[REDACTED:secret]").count(),
        2,
        "the base64 of it too: {answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn withheld_variables_are_masked_and_so_is_what_the_owner_stores_while_the_runner_runs() {
    let setup = RunnerFixture::new().await;
    let variables: [(&str, &OsStr); 2] = [
        ("MY_API_KEY", "withheld-0123456789".as_ref()),
        ("MY_TOKEN_MODE", "disabled".as_ref()),
    ];
    let _runner = RunningProgram::start_with(&setup.setting, &["run"], &variables);
    let said = async |command: &str| setup.bash(command).await.text();
    assert_eq!(
        said("echo \"[$MY_API_KEY]\"; echo withheld-0123456789 disabled").await,
        "[]\n[REDACTED:secret] disabled"
    );
    assert_eq!(said("echo stored-9876543210").await, "stored-9876543210");
    let home = Home::open_home(&setup.setting.home).expect("the home");
    SecretStore::in_home(&home)
        .set_secret("late", &Secret::new("stored-9876543210".to_owned()))
        .expect("kept");
    wait_for_some("the new secret to be masked", async || {
        (said("echo stored-9876543210").await == "[REDACTED:secret]").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_shells_start_files_assign_behind_a_guard_is_masked() {
    let setup = RunnerFixture::new().await;
    let user_home = &setup.setting.logs;
    let guarded = "case $- in *i*) ;; *) return;; esac\nexport OPENAI_API_KEY=\"bashrc-0123456789\"\n\
                   KEY_MODE=disabled\nexport GH_TOKEN=$(echo made-0123456789)\nEDITOR=plain-0123456789\n";
    std::fs::write(user_home.join(".bashrc"), guarded).expect("written");
    let fish = user_home.join(".config/fish");
    std::fs::create_dir_all(&fish).expect("made");
    let fish_lines = "if status is-interactive\n  set -gx DB_PASSWORD 'fish-0123456789'\nend\n";
    std::fs::write(fish.join("config.fish"), fish_lines).expect("written");
    // Neither a pipe nor a huge file delays the start.
    rustix::fs::mkfifoat(rustix::fs::CWD, user_home.join(".zshrc"), 0o600.into()).expect("a pipe");
    let huge = std::fs::File::create(user_home.join(".zshenv")).expect("made");
    huge.set_len(1 << 40).expect("sparse");
    let _runner = setup.run();
    let said = async |command: &str| setup.bash(command).await.text();
    assert_eq!(
        said("echo bashrc-0123456789 fish-0123456789 $(echo bashrc-0123456789 | rev)").await,
        "[REDACTED:secret] [REDACTED:secret] [REDACTED:secret]"
    );
    let innocent = "disabled made-0123456789 plain-0123456789";
    assert_eq!(said(&format!("echo {innocent}")).await, innocent);
}
