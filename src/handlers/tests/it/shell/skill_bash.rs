//! SkillBash: commands in the folders of skills.

use super::*;

/// A bench whose home has this skill.
fn with_skill(id: &str, head: &str) -> (Bench, std::path::PathBuf) {
    let bench = Bench::new();
    let folder = add(&bench, id, head);
    (bench, folder)
}

fn add(bench: &Bench, id: &str, head: &str) -> std::path::PathBuf {
    let folder = bench.home.path().join("punie/skills").join(id);
    std::fs::create_dir_all(folder.join("data")).expect("a folder");
    std::fs::write(
        folder.join("SKILL.md"),
        format!("---\n{head}\n---\nDo it.\n"),
    )
    .expect("a skill");
    folder.canonicalize().expect("its true name")
}

#[tokio::test]
async fn a_command_runs_in_the_skills_folder_with_all_that_bash_can() {
    let (bench, folder) = with_skill("counting", "name: Counting");
    let args = json!({"skill_id": "counting", "command": "pwd; cat; echo $WORD; exit 3", "stdin": "in\n",
                      "env": {"WORD": "said"}});
    let reply = bench.call("SkillBash", args).await.expect("it ran");
    let text = tools::reply_text(&reply);
    assert_starts_with!(
        text,
        &format!("{}\nin\nsaid\nExit code 3 (", folder.display())
    );
    assert_eq!(reply.meta.exit_code, Some(3));

    let args = json!({"skill": "counting", "cmd": "sleep 60", "run_in_background": true});
    assert_starts_with!(bench.text("SkillBash", args).await, "Shell sh_1 (pid ");
    let listed = bench.text("ShellStatus", json!({})).await;
    assert_contains!(listed, &folder.display().to_string());
}

#[tokio::test]
async fn another_folder_is_taken_from_the_skill_or_from_the_workspace() {
    let (bench, folder) = with_skill("counting", "name: Counting");
    let pwd = async |asked: &str| {
        bench
            .text(
                "SkillBash",
                json!({"skill_id": "counting", "command": "pwd", "cwd": asked}),
            )
            .await
    };
    assert_eq!(pwd("data").await, folder.join("data").display().to_string());
    assert_eq!(
        pwd(&folder.join("data").display().to_string()).await,
        folder.join("data").display().to_string()
    );
    let workspace = bench
        .workspace
        .path()
        .canonicalize()
        .expect("its true name");
    assert_eq!(
        pwd(&workspace.display().to_string()).await,
        workspace.display().to_string()
    );
    std::os::unix::fs::symlink("/", folder.join("way-out")).expect("a link");
    for outside in ["../counting2", "/", "way-out", "data/../../other"] {
        let args = json!({"skill_id": "counting", "command": "touch ran", "cwd": outside});
        let refused = bench.call("SkillBash", args).await.expect_err(outside);
        assert_error!(refused, OutsideWorkspace);
    }
    // The folder is trusted as a place to run in, and for nothing else.
    let args = json!({"command": "pwd", "working_directory": folder.display().to_string()});
    assert_error!(
        bench
            .call("Bash", args)
            .await
            .expect_err("not in the workspace"),
        OutsideWorkspace
    );
}

#[tokio::test]
async fn a_skill_that_is_not_there_or_not_usable_is_refused() {
    let (bench, _) = with_skill("counting", "name: Counting");
    add(&bench, "resting", "enabled: false");
    add(&bench, "broken", "name: [");
    let run = async |id: &str| {
        let refused = bench
            .call("SkillBash", json!({"skill_id": id, "command": "touch ran"}))
            .await;
        refused.expect_err(id)
    };
    let unknown = run("cuonting").await;
    assert_error!(unknown, NotFound: "There are: counting.");
    assert_lacks!(unknown.model_text(), "resting");
    let disabled = run("resting").await;
    assert_error!(disabled, PolicyDenied: "disabled");
    assert_error!(run("broken").await, NotFound: "its head cannot be read");
    for id in ["", "../counting", "/"] {
        assert!(matches!(
            run(id).await.stable_code(),
            ErrorCode::InvalidArgs | ErrorCode::NotFound
        ));
    }
}

#[tokio::test]
async fn a_declaration_of_secrets_that_cannot_be_read_does_not_count_as_none() {
    let (bench, folder) = with_skill("mailing", "secretMounts: [mailer]");
    let args = json!({"skill_id": "mailing", "command": "touch ran"});
    let error = bench.call("SkillBash", args).await.expect_err("unreadable");
    assert_error!(error, NotFound);
    assert!(!folder.join("ran").exists());
}

#[tokio::test]
async fn its_arguments_are_those_of_bash_and_a_skill() {
    let bench = Bench::new();
    let spec = |name: &str| {
        bench
            .registry
            .find(name)
            .expect("a tool")
            .tool_spec()
            .schema
            .to_value()
    };
    let bash = spec("Bash");
    let skill = spec("SkillBash");
    let keys = |schema: &Value| -> Vec<String> {
        let mut keys: Vec<_> = schema["properties"]
            .as_object()
            .expect("properties")
            .keys()
            .cloned()
            .collect();
        keys.sort();
        keys
    };
    let mut expected = keys(&bash);
    expected.push("skill_id".to_owned());
    expected.sort();
    assert_eq!(keys(&skill), expected);
    for (args, words) in cases! {
        (json!({"command": "x"}), "skill_id"),
        (json!({"skill_id": "a"}), "command"),
        (json!({"skill_id": "a", "command": "x", "colour": 1}), "colour"),
        (json!({"skill_id": 3, "command": "x"}), "skill_id"),
        (json!({"skill_id": "a", "command": "x", "timeout": -1}), "timeout"),
        (json!({"skill_id": "a", "command": "x", "env": {"A": [1]}}), "env"),
    } {
        assert_error!(bench.call("SkillBash", args).await.expect_err(words), InvalidArgs: words);
    }
}

#[tokio::test]
async fn a_cancelled_command_of_a_skill_is_stopped() {
    let (bench, _) = with_skill("counting", "name: Counting");
    let checkpoint = Checkpoint::open().await;
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let command = format!("{}; echo $$ >&9; exec 9>&-; sleep 60", checkpoint.connect());
    let args = json!({"skill_id": "counting", "command": command});
    let call = tools::call_with(&bench.registry, "SkillBash", args, cx);
    let (answer, pid) = tokio::join!(within(call), async {
        let (pid, _) = checkpoint.line().await;
        cancel.cancel();
        pid
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert!(!is_there(&pid));
}
