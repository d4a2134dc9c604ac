//! git_add_commit.

use punie_tool::ToolEffect;
use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn files_are_staged_and_committed_alone() {
    let bench = Bench::new();
    bench.write("staged.txt", "s");
    bench.git(&["add", "staged.txt"]);
    bench.write("b.txt", "b\n");
    let args = json!({"paths": ["repo/b.txt"], "message": "Adds b"});
    let answer = bench.answer("git_add_commit", args).await;
    assert_contains!(
        answer,
        "on main: Adds b\n1 file changed, +1 -0\nA  +1 -0  b.txt\nLeft: 1 staged."
    );
    assert_eq!(bench.told(&["show", "--format=", "--name-only"]), "b.txt");
}

#[tokio::test]
async fn it_runs_no_hooks_and_says_what_does() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    bench.hook("pre-commit", &program);
    bench.write("b.txt", "b\n");
    let args = json!({"paths": ["repo/b.txt"], "message": "Adds b"});
    let text = bench
        .refused_as("git_add_commit", args, ErrorCode::PolicyDenied)
        .await;
    assert_contains!(text, "(pre-commit)", "GitCommit");
    assert!(!mark.exists());
    assert_eq!(bench.told(&["status", "--porcelain"]), "?? b.txt");
    assert_eq!(
        bench.tools.effect_of("git_add_commit", "{}"),
        Some(ToolEffect::Writes)
    );
    assert_eq!(
        bench.tools.effect_of("GitCommit", "{}"),
        Some(ToolEffect::Executes)
    );
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    bench.write(".env", "x");
    for (args, code) in cases! {
        (json!({"paths": ["repo/a.txt"]}), ErrorCode::InvalidArgs),
        (json!({"message": "x"}), ErrorCode::InvalidArgs),
        (json!({"paths": [], "message": "x"}), ErrorCode::InvalidArgs),
        (json!({"paths": ["repo/a.txt"], "message": ""}), ErrorCode::InvalidArgs),
        (json!({"paths": ["repo/a.txt"], "message": "x"}), ErrorCode::NoMatch),
        (json!({"paths": ["repo/.env"], "message": "x"}), ErrorCode::PolicyDenied),
        (json!({"paths": ["repo/never"], "message": "x"}), ErrorCode::NotFound),
    } {
        bench.refused_as("git_add_commit", args, code).await;
    }
    bench
        .cancelled(
            "git_add_commit",
            json!({"paths": ["repo/a.txt"], "message": "x"}),
        )
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn commits_that_are_asked_for_at_once_take_turns() {
    let bench = Bench::new();
    let names = ["p", "q", "r", "s", "t", "u"];
    for name in names {
        bench.write(&format!("{name}.txt"), "new\n");
    }
    let commit = |name: &str| {
        let args =
            json!({"paths": [format!("repo/{name}.txt")], "message": format!("Adds {name}")});
        bench.answer("git_add_commit", args)
    };
    let answers = tokio::join!(
        commit("p"),
        commit("q"),
        commit("r"),
        commit("s"),
        commit("t"),
        commit("u")
    );
    let answers = [
        answers.0, answers.1, answers.2, answers.3, answers.4, answers.5,
    ];
    for (name, answer) in names.iter().zip(&answers) {
        assert_contains!(answer, &format!(": Adds {name}\n1 file changed"));
        let made = bench.told(&["log", "--format=%H", &format!("--grep=^Adds {name}$")]);
        assert_eq!(made.lines().count(), 1, "Adds {name}: {made}");
        assert_eq!(
            bench.told(&["show", "--format=", "--name-only", &made]),
            format!("{name}.txt")
        );
    }
}
