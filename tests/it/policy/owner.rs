//! The owner's policy commands: they show rules, try calls against them, and add rules.

use serde_json::json;

use super::{NO_TOUCH, write_rules};
use crate::harness::stage::RunnerFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_tried_without_running() {
    let setup = RunnerFixture::new().await;
    write_rules(&setup.setting.home, NO_TOUCH);
    let tried = setup
        .command(&["--json", "policy", "test", "--", "touch", "a b"])
        .await;
    assert_eq!(tried.code, Some(1), "{tried:?}");
    let tried = tried.json();
    assert_fields!(tried, {
        "tool": "Bash",
        "decision": "deny",
        "/by/rule": "no-touch",
        "matched": "touch",
        "change": "punie-runner policy allow --once no-touch",
    });
    let told = setup
        .command(&["policy", "test", "Bash", r#"{"command":"echo $(touch x)"}"#])
        .await;
    assert_eq!(
        told.out,
        "deny: the owner's rule \"no-touch\" denies `touch` in `touch x` (files are made by hand)\nTo let it run: punie-runner \
         policy allow --once no-touch\n"
    );
    let fine = setup.command(&["policy", "test", "--", "ls -l | wc"]).await;
    assert_eq!(fine.code, Some(0));
    assert_eq!(fine.out, "allow: nothing is against it\n");
    let unknown = setup.command(&["policy", "test", "Bush", "{}"]).await;
    assert_eq!(unknown.code, Some(2), "{unknown:?}");
    assert!(!setup.file("x").exists() && !setup.file("a b").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_are_added_beside_the_owner_s_own_words() {
    let setup = RunnerFixture::new().await;
    let own = format!("# mine\ndefault = \"ask\" # really\n\n{NO_TOUCH}");
    write_rules(&setup.setting.home, &own);
    let denied = setup
        .command(&[
            "--json",
            "policy",
            "deny",
            "--reason",
            "no \"pushes\"",
            "git",
            "push",
            "--force",
        ])
        .await;
    assert_eq!(denied.code, Some(0), "{denied:?}");
    assert_eq!(denied.json()["rule"], "deny-git-push-force");
    let allowed = setup
        .command(&["--json", "policy", "allow", "--", "touch", "x"])
        .await;
    let allowed = allowed.json();
    assert!(
        allowed["still"]
            .as_str()
            .is_some_and(|still| still.contains("\"no-touch\"")),
        "{allowed}"
    );
    let path = setup
        .command(&[
            "policy", "allow", "--tool", "Write", "--path", "docs/**", "--name", "docs",
        ])
        .await;
    assert_contains!(path.out, "The rule docs was added");
    let text = std::fs::read_to_string(setup.setting.home.join("policy.toml")).expect("read");
    assert_starts_with!(text, &own);
    let shown = setup.command(&["--json", "policy"]).await.json();
    let names: Vec<&str> = shown["rules"]
        .as_array()
        .expect("rules")
        .iter()
        .filter_map(|rule| rule["name"].as_str())
        .collect();
    assert_eq!(
        names,
        ["no-touch", "deny-git-push-force", "allow-touch-x", "docs"]
    );
    assert_fields!(shown, {"default": "ask", "/rules/1/reason": "no \"pushes\""});
    for (args, code) in [
        (vec!["policy", "allow", "no-touch"], 2),
        (vec!["policy", "allow", "--once"], 2),
        (vec!["policy", "allow", "--for", "1w", "ls"], 2),
        (vec!["policy", "deny", "--tool", "Nothing"], 2),
        (vec!["policy", "deny"], 2),
        (vec!["policy", "revoke", "x"], 1),
    ] {
        let ended = setup.command(&args).await;
        assert_eq!(ended.code, Some(code), "{args:?} {ended:?}");
    }
    assert_eq!(
        std::fs::read_to_string(setup.setting.home.join("policy.toml")).expect("read"),
        text
    );
    let told = setup.command(&["policy"]).await;
    assert_contains!(
        told.out,
        "Default   anything else is asked about",
        "deny-git-push-force",
        "command: git push --force",
        "docs/**"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slip_becomes_no_rule_and_a_rule_shows_its_effect() {
    let setup = RunnerFixture::new().await;
    let added = setup.command(&["policy", "deny", "git", "push"]).await;
    assert_eq!(added.log, "", "no line of the log on the person's screen");
    assert_contains!(added.out, "\n  git push -> deny\n");
    let words = ["policy", "deny", "npm", "publish", "--tag", "x"];
    let added = setup.command(&words).await;
    assert_contains!(added.out, "  npm publish --tag x -> deny\n");
    let added = setup
        .command(&["--json", "policy", "deny", "--tool", "Write"])
        .await
        .json();
    assert_eq!(added["effect"], "deny", "{added}");
    assert!(
        added["example"]
            .as_str()
            .is_some_and(|call| call.starts_with("Write {")),
        "{added}"
    );
    let file = setup.setting.home.join("policy.toml");
    let before = std::fs::read_to_string(&file).expect("read");
    for (args, advice) in cases! {
        (&["deny", "--raeson", "later", "npm", "publish"][..], "'--reason'"),
        (&["allow", "--once", "--tol", "x"], "'--tool'"),
        (&["deny", "npm", "ci", "--reason", "later"], "Put it before the command"),
        (&["deny", "npm ci"], "word by word, without quotes: npm ci"),
        (
            &["allow", "--once", "git-push"],
            "no rule is called git-push; did you mean deny-git-push?",
        ),
        (&["deny", "deny-git-psuh"], "did you mean deny-git-push?"),
        (&["allow", "--once", "git-psuh"], "did you mean deny-git-push?"),
        (&["deny", "Bash"], "--tool Bash"),
        (
            &["deny", "--tool", "Bsah"],
            "nothing was added: there is no tool called \"Bsah\". Did you mean Bash?",
        ),
        (&["allow"], "`policy allow npm publish`"),
    } {
        let ended = setup.command(&[&["policy"], args].concat()).await;
        assert_eq!(ended.code, Some(2), "{args:?} {ended:?}");
        assert_contains!(ended.log, advice; "{args:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).expect("read"), before);
    let unknown = setup.command(&["policy", "revoke", "deny-git-psuh"]).await;
    assert_eq!(unknown.code, Some(1), "{unknown:?}");
    let revoked = setup.command(&["policy", "revoke", "deny-git-push"]).await;
    assert_eq!(revoked.code, Some(0), "{revoked:?}");
    assert_contains!(revoked.out, "deny-git-push was removed");
    let left = std::fs::read_to_string(&file).expect("read");
    assert_lacks!(left, "deny-git-push");
    let shown = setup.command(&["--json", "policy"]).await.json();
    assert_eq!(shown["grants"], json!([]));
    let help = setup.command(&["policy", "deny", "--help"]).await.out;
    assert_contains!(help, "--reason");
    assert_lacks!(help, "--once");
}
