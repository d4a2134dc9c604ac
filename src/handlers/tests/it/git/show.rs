//! GitShow.

use std::fs;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn a_commit_is_shown_with_its_message_and_changes() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nzwei\n");
    let id = bench.commit_all("Says it in German\n\nBecause it was asked for.");
    let answer = bench.answer("GitShow", json!({"path": "repo"})).await;
    assert_contains!(
        answer,
        &format!("commit {id} (HEAD -> main)\nAuthor: Ada <ada@example.org>, ").as_str(),
        "    Says it in German\n    \n    Because it was asked for.\n",
        "Changes: 1 file changed, +1 -1\n",
        "-two\n+zwei\n"
    );
    let answer = bench
        .answer("GitShow", json!({"path": "repo", "ref": "HEAD~1"}))
        .await;
    assert_contains!(
        answer,
        "The first commit: it has no parent.",
        "+one\n+two\n"
    );
    let answer = bench
        .answer("GitShow", json!({"path": "repo", "stat_only": true}))
        .await;
    assert_contains!(answer, "M  +1 -1  a.txt");
    assert_lacks!(answer, "+zwei");
}

#[tokio::test]
async fn a_merge_is_shown_against_its_first_parent() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-b", "feature"]);
    bench.write("feature.txt", "f\n");
    bench.commit_all("feature");
    bench.git(&["checkout", "-q", "main"]);
    bench.commit_all("goes on");
    bench.git(&["merge", "-q", "--no-edit", "feature"]);
    let answer = bench.answer("GitShow", json!({"path": "repo"})).await;
    assert_contains!(answer, "\nMerge of ", "+++ b/feature.txt");
}

#[tokio::test]
async fn a_file_and_a_folder_are_shown_as_they_were() {
    let bench = Bench::new();
    bench.write("sub/deep/b.txt", "then\n");
    let id = bench.commit_all("second");
    bench.git(&["tag", "-a", "v1", "-m", "a tag"]);
    fs::remove_dir_all(bench.repo().join("sub")).expect("removed");
    bench.commit_all("third");
    let args = json!({"path": "repo/sub/deep/b.txt", "ref": "v1"});
    let answer = bench.answer("GitShow", args).await;
    assert_eq!(
        answer,
        format!("sub/deep/b.txt at {} (5 bytes, 1 line)\nthen\n", &id[..10])
    );
    let answer = bench
        .answer("GitShow", json!({"path": "repo/sub", "ref": "v1"}))
        .await;
    assert_eq!(
        answer,
        format!("sub at {}: a folder with 1 name\n  deep/\n", &id[..10])
    );
    let args = json!({"path": "repo/sub/deep/b.txt"});
    let text = bench.refused_as("GitShow", args, ErrorCode::NotFound).await;
    assert_contains!(text, "is not in commit");
}

#[tokio::test]
async fn a_long_file_has_a_handle_and_another_kind_of_file_is_named() {
    let bench = Bench::new();
    bench.write("long.txt", &"a line\n".repeat(100_000));
    bench.write("empty", "");
    fs::write(bench.repo().join("picture"), b"\x89PNG\0\0").expect("a file");
    bench.commit_all("second");
    let reply = bench
        .ask("GitShow", json!({"path": "repo/long.txt"}))
        .await
        .expect("a file");
    let mut kept = bench
        .outputs
        .find(&reply.meta.handle.expect("a handle"))
        .expect("it is kept");
    assert_eq!(kept.read_totals().expect("totals").lines, 100_000);
    assert!(reply.meta.truncated);
    let args = json!({"path": "repo/picture"});
    bench.refused_as("GitShow", args, ErrorCode::NotText).await;
    let text = bench.answer("GitShow", json!({"path": "repo/empty"})).await;
    assert_ends_with!(text, "an empty file.");
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    bench.git(&["branch", "feature"]);
    for (args, code) in cases! {
        (json!({"path": "repo", "ref": "--upload-pack=x"}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "ref": ""}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "ref": "HEAD:no.txt"}), ErrorCode::NotFound),
        (json!({"path": "repo", "ref": "HEAD~99"}), ErrorCode::NotFound),
    } {
        bench.refused_as("GitShow", args, code).await;
    }
    let text = bench
        .refused_as(
            "GitShow",
            json!({"path": "repo", "ref": "feture"}),
            ErrorCode::NotFound,
        )
        .await;
    assert_contains!(text, "Did you mean feature?");
    bench.cancelled("GitShow", json!({"path": "repo"})).await;
}

#[tokio::test]
async fn a_path_behind_the_revision_is_one_in_the_named_folder() {
    let bench = Bench::new();
    bench.write("sub/b.txt", "then\n");
    bench.commit_all("second");
    for args in [
        json!({"ref": "HEAD:sub/b.txt", "path": "repo"}),
        json!({"ref": "HEAD:b.txt", "repo_path": "repo/sub/"}),
        json!({"ref": "HEAD:sub/b.txt", "path": "repo/sub/b.txt"}),
        json!({"ref": "HEAD:repo/sub/b.txt"}),
    ] {
        let answer = bench.answer("GitShow", args.clone()).await;
        assert_contains!(answer, "then"; "{args}");
    }
}

#[tokio::test]
async fn an_object_that_a_partial_clone_lacks_has_a_next_step() {
    let bench = Bench::new();
    let blob = bench.told(&["rev-parse", "HEAD:a.txt"]);
    let object = bench
        .repo()
        .join(".git/objects")
        .join(&blob[..2])
        .join(&blob[2..]);
    fs::remove_file(object).expect("a loose object");
    bench.git(&["config", "remote.origin.url", "https://example.org/r"]);
    bench.git(&["config", "remote.origin.promisor", "true"]);
    bench.git(&["config", "extensions.partialClone", "origin"]);
    let refused = bench
        .refused("GitShow", json!({"path": "repo/a.txt", "ref": "HEAD"}))
        .await;
    assert_contains!(refused.model_text(), "the same command in Bash does");
}
