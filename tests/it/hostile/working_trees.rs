//! Working trees of a repository under commands: those that an agent keeps in its own folder.

use std::path::Path;

use serde_json::json;

use super::Yard;
use super::kept_from_commands::{fails, furnish, git};

/// A repository with a linked worktree where an agent of this name puts its own.
fn furnish_agent(work: &Path, agent: &str) -> String {
    furnish(work);
    let tree = format!("{agent}/worktrees/topic");
    std::fs::create_dir_all(work.join(agent)).expect("made");
    std::fs::write(work.join(agent).join("settings.json"), "{}").expect("written");
    git(work, &["worktree", "add", "-q", &tree, "-b", "topic"]);
    let own = work.join(&tree).join(agent);
    std::fs::create_dir_all(&own).expect("made");
    std::fs::write(own.join("settings.json"), "{}").expect("written");
    tree
}

#[tokio::test]
async fn an_agents_working_tree_is_written_and_its_configuration_is_not() {
    for agent in [".claude", ".codex"] {
        let yard = Yard::new();
        let tree = furnish_agent(&yard.path("work"), agent);
        let work = "echo two >> a.txt && mkdir -p src && echo x > src/new && git add -A . && git commit -q -m two";
        let text = yard
            .bash(&format!("cd {tree} && {work} && git log --format=%s -1"))
            .await;
        assert_eq!(text, "two", "{agent}");
        let args = json!({"command": work.replace("two", "three"), "working_directory": tree});
        yard.call(args).await.expect("it runs");
        assert_eq!(
            yard.read(&format!("work/{tree}/a.txt")),
            "one\ntwo\nthree\n"
        );
        for command in [
            format!("echo x > {agent}/settings.json"),
            format!("echo x > {agent}/new.json"),
            format!("echo x > {tree}/{agent}/settings.json"),
            format!("echo x > {tree}/{agent}/new.json"),
            format!("mv {agent}/worktrees other"),
            format!("rm -rf {tree}/.git"),
            format!("echo x > {tree}/.git"),
        ] {
            fails(&yard, &command).await;
        }
        for file in [
            format!("work/{agent}/settings.json"),
            format!("work/{tree}/{agent}/settings.json"),
        ] {
            assert_eq!(yard.read(&file), "{}");
        }
        // What appears in one is put back, as in every other folder.
        let text = yard.bash(&format!("echo x > {tree}/.envrc")).await;
        assert!(text.contains("appeared while a command ran"), "{text}");
    }
}
