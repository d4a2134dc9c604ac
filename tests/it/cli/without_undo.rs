//! A workspace that is too large for snapshots: one answer says that commands cannot be undone, and `status` shows it.

use super::CliUser;

#[tokio::test]
async fn a_workspace_with_too_many_files_is_told_once_and_shown_by_status() {
    let user = CliUser::new();
    user.write("home/config.toml", "[sandbox]\nrequire = \"partial\"\n");
    let dev = user.serves(&["dev", "--json"]).await;
    let bash = async |line: &str| {
        user.run_cli(&["send", "Bash", "--", line])
            .await
            .ended(0)
            .out
    };
    let remark = format!(
        "What commands change in {} cannot be undone: it holds more than 20000 files",
        user.text("work")
    );
    // The snapshot after this command fails, because the workspace then holds too many files.
    let said = bash("mkdir many; cd many; seq 20001 | xargs touch").await;
    assert_contains!(said, &remark, "punie-runner status");
    for _ in 0..2 {
        let said = bash("touch next").await;
        assert_lacks!(said, "undone");
    }
    let shown = user.run_cli(&["status"]).await.out;
    let row = "No undo      of what commands change in ~/work: it holds more than 20000 files";
    assert_contains!(shown, row);
    let status = user.run_cli(&["status", "--json"]).await.json();
    assert!(
        status["withoutSnapshots"][user.text("work")].is_string(),
        "{status}"
    );
    bash("rm -rf many; echo old > file").await;
    bash("echo new > file").await;
    user.run_cli(&["undo", "@last"]).await.ended(0);
    assert_eq!(user.read("work/file"), "old\n");
    let shown = user.run_cli(&["status"]).await.out;
    assert_lacks!(shown, "No undo");
    dev.stopped().await;
}
