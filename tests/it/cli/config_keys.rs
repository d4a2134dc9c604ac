//! `config`: values with their origins, changes that are checked before they are written, and the owner's editor.

use std::os::unix::fs::PermissionsExt as _;

use super::{CliUser, CommandOutput, run_with_input};

async fn run_editor(user: &CliUser, editor: &str) -> CommandOutput {
    let mut command = user.command(&["config", "edit"]);
    command.env("EDITOR", editor);
    run_with_input(command, "").await
}

#[tokio::test]
async fn a_value_is_set_in_the_file_and_all_other_lines_stay() {
    let user = CliUser::new();
    user.write("home/config.toml", "# mine\n[limits]\nreads = 4 # few\n");
    let set = user
        .run_cli(&["config", "set", "limits.reads", "6"])
        .await
        .done();
    assert_contains!(set.out, "Set limits.reads = 6", "takes effect at once");
    assert_eq!(
        user.read("home/config.toml"),
        "# mine\n[limits]\nreads = 6 # few\n"
    );
    let url = "http://127.0.0.1:7";
    let set = user
        .run_cli(&["config", "set", "backend.url", url])
        .await
        .done();
    assert_contains!(set.out, "when the runner is restarted");
    let got = user.run_cli(&["config", "get", "backend.url"]).await.done();
    assert_eq!(got.out, format!("\"{url}\"\n"));
    user.run_cli(&["config", "set", "policy.ask", "[\"writes\"]"])
        .await
        .done();
    let json = user
        .run_cli(&["--json", "config", "get", "policy.ask"])
        .await
        .done()
        .json();
    assert_eq!(json["value"], "[\"writes\"]");
    assert!(
        json["origin"]
            .as_str()
            .is_some_and(|origin| origin.contains("config.toml:")),
        "{json}"
    );
}

#[tokio::test]
async fn commands_at_the_same_time_lose_no_setting() {
    let user = CliUser::new();
    user.write("home/config.toml", "# mine\n");
    let keys = ["reads", "total", "queue", "least_free_mb"];
    let keys = keys.map(|key| format!("limits.{key}"));
    let sets = keys
        .iter()
        .map(|key| run_with_input(user.command(&["config", "set", key, "7"]), ""));
    for set in futures_util::future::join_all(sets).await {
        set.done();
    }
    let text = user.read("home/config.toml");
    assert_eq!(text.matches(" = 7\n").count(), keys.len(), "{text}");
}

#[tokio::test]
async fn a_linked_file_is_changed_where_it_is_and_keeps_its_mode() {
    let user = CliUser::new();
    user.write("dotfiles/punie.toml", "[limits]\nreads = 4\n");
    let target = user.path("dotfiles/punie.toml");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&target, mode).expect("set");
    std::fs::create_dir(user.path("home")).expect("made");
    let link = user.path("home/config.toml");
    std::os::unix::fs::symlink(&target, &link).expect("linked");
    user.run_cli(&["config", "set", "limits.reads", "6"])
        .await
        .done();
    assert_eq!(user.read("dotfiles/punie.toml"), "[limits]\nreads = 6\n");
    assert!(link.is_symlink());
    let mode = target.metadata().expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_wrong_value_or_key_changes_nothing() {
    let user = CliUser::new();
    let before = "[limits]\nreads = 4\n";
    user.write("home/config.toml", before);
    let wrong = user
        .run_cli(&["config", "set", "limits.reads", "900"])
        .await;
    wrong.refused(
        78,
        "limits.reads must be a whole number between 1 and 64, not 900",
    );
    let unknown = user.run_cli(&["config", "set", "limits.read", "5"]).await;
    unknown.refused(2, "Did you mean limits.reads?");
    let smuggled = user
        .run_cli(&["config", "set", "limits.reads", "5\ntotal = 7"])
        .await;
    smuggled.refused(78, "limits.reads must be");
    assert_eq!(user.read("home/config.toml"), before);
}

#[tokio::test]
async fn a_key_is_explained_also_while_the_file_is_wrong() {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nreads = 900\n");
    let said = user
        .run_cli(&["config", "explain", "limits.reads"])
        .await
        .done();
    assert_contains!(
        said.out,
        "The most reading calls",
        "Default       8",
        "between 1 and 64",
        "Takes effect  at once"
    );
    assert_contains!(said.err, "was not read", "config.toml:2");
    let path = user.run_cli(&["config", "path"]).await.done();
    assert_eq!(path.out.trim(), user.text("home/config.toml"));
    // `config set` accepts a value that repairs the file.
    user.run_cli(&["config", "set", "limits.reads", "9"])
        .await
        .done();
    assert_eq!(user.read("home/config.toml"), "[limits]\nreads = 9\n");
}

#[tokio::test]
async fn a_password_in_a_set_value_is_not_printed() {
    let user = CliUser::new();
    for flags in [&[][..], &["--json"]] {
        let proxy = "http://me:hunter2@127.0.0.1:1";
        let set = [flags, &["config", "set", "backend.proxy", proxy]].concat();
        let set = user.run_cli(&set).await.done();
        assert_contains!(set.out, "http://127.0.0.1:1");
        assert!(!set.out.contains("hunter2") && !set.err.contains("hunter2"));
    }
    assert_contains!(user.read("home/config.toml"), "hunter2");
}

#[tokio::test]
async fn a_file_that_is_not_toml_is_named_with_its_fault() {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nreads =\n");
    let set = user.run_cli(&["config", "set", "limits.reads", "5"]).await;
    set.refused(78, "config.toml:2: this is not TOML");
    assert_eq!(user.read("home/config.toml"), "[limits]\nreads =\n");
}

#[tokio::test]
async fn an_edit_with_faults_is_kept_and_not_taken_over() {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nreads = 4\n");
    let faulty = run_editor(&user, "sed -i s/4/900/").await;
    faulty.refused(78, "The edited text has faults");
    assert_eq!(user.read("home/config.toml"), "[limits]\nreads = 4\n");
    assert_eq!(
        user.read("home/config.edit.toml"),
        "[limits]\nreads = 900\n"
    );
    let mended = run_editor(&user, "sed -i s/900/9/").await.done();
    assert_contains!(mended.err, "goes on with your last edit");
    assert_eq!(user.read("home/config.toml"), "[limits]\nreads = 9\n");
    assert!(!user.path("home/config.edit.toml").exists());
    run_editor(&user, "false")
        .await
        .refused(1, "Nothing was changed");
}

#[tokio::test]
async fn an_edit_is_not_taken_over_once_the_file_has_changed() {
    let user = CliUser::new();
    user.write("home/config.toml", "[limits]\nreads = 4\n");
    run_editor(&user, "sed -i s/4/900/")
        .await
        .refused(78, "The edited text has faults");
    user.run_cli(&["config", "set", "limits.total", "9"])
        .await
        .done();
    let changed = "[limits]\ntotal = 9\nreads = 4\n";
    let outdated = run_editor(&user, "sed -i s/900/5/").await;
    outdated.refused(78, "home/config.edit.toml began");
    assert_eq!(user.read("home/config.toml"), changed);
    let kept = user.read("home/config.edit.toml");
    assert_eq!(kept, "[limits]\nreads = 900\n", "the editor was not opened");
    std::fs::remove_file(user.path("home/config.edit.toml")).expect("removed");
    // The file changes while the editor is open.
    let file = user.text("home/config.toml");
    let editor = format!(r##"sh -c 'echo "# new" >> {file}; sed -i s/4/5/ "$0"'"##);
    let meanwhile = run_editor(&user, &editor).await;
    meanwhile.refused(78, "home/config.edit.toml began");
    assert_eq!(user.read("home/config.toml"), format!("{changed}# new\n"));
}
