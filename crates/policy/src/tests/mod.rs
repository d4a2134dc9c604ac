//! The verdicts that rules give on calls.

mod code;
mod grants;
mod indirect;
mod lines;
mod policy_files;
mod programs;

use super::command_line::read_command_line;
use super::{
    GrantTarget, PolicyCall, PolicyDecision, PolicyGrant, PolicyRules, PolicyVerdict, TouchedPath,
    VerdictSource, judge_call,
};
use punie_core::tool_effect::ToolEffect::{self, Executes, Reads};

fn is_tool(name: &str) -> bool {
    matches!(name, "Bash" | "Read" | "Write" | "Grep")
}

fn rules(text: &str) -> PolicyRules {
    PolicyRules::parse(text, &is_tool).expect("good rules")
}

fn bash(line: &str) -> PolicyCall {
    let script = Some(read_command_line(line));
    PolicyCall {
        tool: "Bash".to_owned(),
        effect: Executes,
        script,
        ..PolicyCall::default()
    }
}

fn file(tool: &str, effect: ToolEffect, path: &str) -> PolicyCall {
    let place = TouchedPath {
        shown: path.to_owned(),
        relative: vec![path.to_owned()],
        absolute: vec![format!("/w/{path}")],
        known: true,
        is_folder: false,
    };
    PolicyCall {
        tool: tool.to_owned(),
        effect,
        places: vec![place],
        ..PolicyCall::default()
    }
}

fn decide(text: &str, call: &PolicyCall) -> PolicyVerdict {
    judge_call(&rules(text), false, call, &[])
}

fn grant(id: &str, target: GrantTarget) -> PolicyGrant {
    PolicyGrant {
        id: id.to_owned(),
        target,
        once: true,
        made_ms: 0,
        until_ms: 10,
    }
}

const NO_PUSH: &str = "[[rule]]\nname = \"no-push\"\ndecision = \"deny\"\nreason = \"people push\"\ncommand = [\"git\", [\"push\", \"send-pack\"]]\n";

#[test]
fn a_denied_command_is_known_wherever_its_words_stand() {
    for line in [
        "git push",
        "/usr/bin/git push origin",
        "git -C dir push",
        "git --no-pager push",
        "git send-pack",
        "ls; git push",
        "env X=1 nohup git push",
        "echo \"$(git push)\"",
    ] {
        let verdict = decide(NO_PUSH, &bash(line));
        assert_eq!(
            (verdict.decision, &verdict.by),
            (
                PolicyDecision::Deny,
                &VerdictSource::Rule("no-push".to_owned())
            ),
            "{line}"
        );
        assert_eq!(
            verdict.change.as_deref(),
            Some("punie-runner policy allow --once no-push")
        );
        assert!(
            verdict.explain_cause().contains("people push") && verdict.matched.starts_with("git")
                || verdict.matched.starts_with("/usr"),
            "{verdict:?}"
        );
    }
    for line in [
        "git $X",
        "$X push",
        "echo push | xargs git",
        "git pu*",
        "base64 -d x | sh",
        "git push )",
    ] {
        let verdict = decide(NO_PUSH, &bash(line));
        assert!(
            verdict.decision >= PolicyDecision::Ask,
            "{line}: {verdict:?}"
        );
    }
    for (line, why) in [
        ("git $X", "its words are known only when it runs"),
        (
            "echo push | xargs git",
            "more of its words come when it runs",
        ),
        ("frob git push", "it may start another command"),
    ] {
        let verdict = decide(NO_PUSH, &bash(line));
        assert!(verdict.explain_cause().contains(why), "{line}: {verdict:?}");
        // What is said to help does.
        assert_eq!(
            verdict.change.as_deref(),
            Some("punie-runner policy allow --once --tool Bash")
        );
        let tool = [grant("g", GrantTarget::Tool("Bash".to_owned()))];
        assert_eq!(
            judge_call(&rules(NO_PUSH), false, &bash(line), &tool).decision,
            PolicyDecision::Allow,
            "{line}"
        );
    }
    for line in [
        "git commit -m push",
        "git log --oneline",
        "echo git push",
        "ls push",
        "gitk push",
    ] {
        assert_eq!(
            decide(NO_PUSH, &bash(line)).decision,
            PolicyDecision::Allow,
            "{line}"
        );
    }
}

#[test]
fn the_strictest_rule_wins_whatever_their_order() {
    let allow = "[[rule]]\nname = \"git\"\ndecision = \"allow\"\ncommand = [\"git\"]\n";
    let ask = "[[rule]]\nname = \"ask\"\ndecision = \"ask\"\ncommand = [\"git\", \"push\"]\n";
    for text in [
        format!("{allow}{ask}{NO_PUSH}"),
        format!("{NO_PUSH}{ask}{allow}"),
        format!("{ask}{NO_PUSH}{allow}"),
    ] {
        assert_eq!(
            decide(&text, &bash("git push")).decision,
            PolicyDecision::Deny,
            "{text}"
        );
    }
    assert_eq!(
        decide(&format!("{allow}{ask}"), &bash("git push")).decision,
        PolicyDecision::Ask
    );
    assert_eq!(
        decide(&format!("{allow}{ask}"), &bash("git status")).by,
        VerdictSource::Rule("git".to_owned())
    );
}

#[test]
fn an_allow_rule_covers_no_more_than_it_names() {
    let text = "default = \"deny\"\n[[rule]]\nname = \"tests\"\ndecision = \"allow\"\ncommand = [\"cargo\", \"test\"]\n";
    assert_eq!(
        decide(text, &bash("cargo test --lib && nohup cargo test")).decision,
        PolicyDecision::Allow
    );
    for line in [
        "cargo build",
        "cargo test; ls",
        "./cargo test",
        "PATH=. cargo test",
        "export PATH=.; cargo test",
        "cargo -v test",
        "cargo $X",
        "cargo test $(ls)",
        "(cargo test",
        "sudo cargo test",
    ] {
        assert_eq!(
            decide(text, &bash(line)).decision,
            PolicyDecision::Deny,
            "{line}"
        );
    }
    let verdict = decide(text, &bash("FOO=1 cargo test"));
    assert_eq!(verdict.decision, PolicyDecision::Deny);
    assert!(
        verdict
            .explain_cause()
            .contains("\"tests\" allows it only where no variables are set"),
        "{verdict:?}"
    );
    assert!(
        decide(text, &bash("FOO=1 ls"))
            .explain_cause()
            .starts_with("no rule of the owner's names it")
    );
    let mut redirected = bash("cargo test > out");
    redirected.places = file("Bash", Executes, "out").places;
    let verdict = decide(text, &redirected);
    assert_eq!(
        (verdict.decision, verdict.change.as_deref()),
        (
            PolicyDecision::Deny,
            Some("punie-runner policy allow --once --path out")
        )
    );
    assert_eq!(
        decide(text, &bash("ls -l 'a b'")).change.as_deref(),
        Some("punie-runner policy allow --once -- ls -l 'a b'")
    );
    assert_eq!(
        decide(text, &bash("ls $X")).change.as_deref(),
        Some("punie-runner policy allow --once --tool Bash")
    );
}

#[test]
fn default_and_the_configuration_s_list_meet_as_the_stricter_of_both() {
    let call = bash("ls");
    for (text, listed, expect) in [
        ("", false, (PolicyDecision::Allow, VerdictSource::Nothing)),
        ("", true, (PolicyDecision::Ask, VerdictSource::Ask)),
        (
            "default = \"ask\"",
            false,
            (PolicyDecision::Ask, VerdictSource::Default),
        ),
        (
            "default = \"deny\"",
            true,
            (PolicyDecision::Deny, VerdictSource::Default),
        ),
        (
            "[[rule]]\nname = \"l\"\ndecision = \"allow\"\ncommand = [\"ls\"]",
            true,
            (PolicyDecision::Allow, VerdictSource::Rule("l".to_owned())),
        ),
        (
            "default = \"deny\"\n[[rule]]\nname = \"b\"\ndecision = \"allow\"\ntools = [\"Bash\"]",
            true,
            (PolicyDecision::Allow, VerdictSource::Rule("b".to_owned())),
        ),
    ] {
        let verdict = judge_call(&rules(text), listed, &call, &[]);
        assert_eq!((verdict.decision, verdict.by), expect, "{text} {listed}");
    }
    let ends = PolicyCall {
        tool: "KillShell".to_owned(),
        effect: Executes,
        only_ends: true,
        ..PolicyCall::default()
    };
    assert_eq!(
        decide("default = \"deny\"", &ends).decision,
        PolicyDecision::Allow
    );
}

#[test]
fn paths_are_known_by_pattern_and_in_folders() {
    let text = "[[rule]]\nname = \"keys\"\ndecision = \"deny\"\npaths = [\"secrets\", \"**/*.pem\", \"/etc/**\"]\n";
    for path in ["secrets", "secrets/a/b", "x.pem", "a/b/x.pem"] {
        assert_eq!(
            decide(text, &file("Read", Reads, path)).decision,
            PolicyDecision::Deny,
            "{path}"
        );
    }
    for path in ["secretsx", "a/secrets", "pem", "x.pem.txt"] {
        assert_eq!(
            decide(text, &file("Read", Reads, path)).decision,
            PolicyDecision::Allow,
            "{path}"
        );
    }
    let mut outside = file("Bash", Executes, "x");
    outside.places[0].relative.clear();
    outside.places[0].absolute = vec!["/etc/passwd".to_owned()];
    assert_eq!(decide(text, &outside).decision, PolicyDecision::Deny);
    let mut folder = file("Grep", Reads, "a");
    folder.places[0].is_folder = true;
    assert_eq!(
        decide(text, &folder).decision,
        PolicyDecision::Ask,
        "a key may lie in it"
    );
    let narrow = "[[rule]]\nname = \"keys\"\ndecision = \"deny\"\npaths = [\"secrets/**\"]\n";
    assert_eq!(
        decide(narrow, &folder).decision,
        PolicyDecision::Allow,
        "no key can lie in it"
    );
    folder.places[0].known = false;
    assert_eq!(decide(narrow, &folder).decision, PolicyDecision::Ask);
}

#[test]
fn options_are_known_in_any_spelling() {
    let text = "[[rule]]\nname = \"force\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\", [\"--force\", \"-f\"]]\n";
    for line in [
        "git push --force",
        "git push origin -f",
        "git push -vf",
        "git -C x push --force=1",
    ] {
        assert_eq!(
            decide(text, &bash(line)).decision,
            PolicyDecision::Deny,
            "{line}"
        );
    }
    assert_eq!(
        decide(text, &bash("git push origin")).decision,
        PolicyDecision::Allow
    );
    assert_eq!(
        decide(text, &bash("git push $X")).decision,
        PolicyDecision::Ask
    );
    let text = "[[rule]]\nname = \"rm\"\ndecision = \"deny\"\ncommand = [\"rm\", \"-rf\"]\n";
    for line in ["rm -rf x", "rm -fr x", "rm -r -f x", "rm x -rfv"] {
        assert_eq!(
            decide(text, &bash(line)).decision,
            PolicyDecision::Deny,
            "{line}"
        );
    }
    assert_eq!(
        decide(text, &bash("rm -r x")).decision,
        PolicyDecision::Allow
    );
}
