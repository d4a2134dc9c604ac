//! The owner's file of rules: its faults, and rules that are added to it.

use std::path::Path;

use super::*;
use crate::AddedPolicyRule;

#[test]
#[expect(clippy::too_many_lines, reason = "a list of cases")]
fn a_broken_file_is_refused_with_its_line_and_the_reason() {
    for (text, line, words) in [
        ("default = \"maybe\"", Some(1), "unknown variant"),
        (
            "\n[[rule]]\nname = \"x\"\ndecision = \"deny\"\n",
            Some(2),
            "neither tools, paths, command, hosts nor folders",
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
        let broken = PolicyRules::parse(text, &is_tool).expect_err(text);
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

#[test]
fn a_rule_is_removed_with_nothing_of_what_stands_around_it() {
    let rule = |name: &str| {
        format!(
            "[[rule]]\nname = \"{name}\"\ndecision = \"deny\"\ncommand = [\n  \"b\", # not [[rule]]\n]\n"
        )
    };
    let text = format!(
        "# mine\ndefault = \"ask\"\n\n# first\n{}\n# second\n# of two\n{}\n{}# end\n",
        rule("one"),
        rule("two"),
        rule("three")
    );
    let without = |name: &str| PolicyRules::remove_from_text(&text, name, &is_tool);
    for name in ["one", "two", "three"] {
        let left = rules(&without(name).expect("removed"));
        let names: Vec<&str> = left.rules.iter().map(|rule| rule.name.as_str()).collect();
        let others = ["one", "two", "three"].into_iter();
        assert_eq!(
            names,
            others.filter(|other| *other != name).collect::<Vec<_>>()
        );
        assert_eq!(left.default, PolicyDecision::Ask);
    }
    let left = without("one").expect("removed");
    assert!(
        left.starts_with("# mine\ndefault = \"ask\"\n\n# first\n# second\n# of two\n[[rule]]\n"),
        "{left}"
    );
    assert!(without("four").is_err());
    assert!(PolicyRules::remove_from_text("x", "one", &is_tool).is_err());
}

#[test]
fn a_rule_about_folders_is_about_sessions_and_the_strictest_holds() {
    let text = "[[rule]]\nname = \"projects\"\ndecision = \"allow\"\nfolders = [\"/p\"]\nmatch = [\"/p/a\"]\n\
                no_match = [\"/pa\"]\n[[rule]]\nname = \"private\"\ndecision = \"deny\"\nfolders = [\"/p/private\"]\n";
    let rules = rules(text);
    let judged = |folder: &str| {
        let rule = rules.judge_folder(Path::new(folder));
        rule.map(|rule| rule.name.as_str())
    };
    assert_eq!(judged("/p"), Some("projects"));
    assert_eq!(judged("/p/a/b"), Some("projects"));
    assert_eq!(judged("/p/private/a"), Some("private"));
    assert_eq!(judged("/pa"), None);
    assert_eq!(judged("/"), None);
    assert_eq!(rules.about("Bash", ToolEffect::Executes).count(), 0);
    for bad in [
        "folders = [\"p\"]",
        "folders = [\"/p\"]\ntools = [\"Bash\"]",
        "folders = [\"/p\"]\npaths = [\"a\"]",
    ] {
        let text = format!("[[rule]]\nname = \"x\"\ndecision = \"allow\"\n{bad}\n");
        assert!(PolicyRules::parse(&text, &is_tool).is_err(), "{bad}");
    }
    let asks = "[[rule]]\nname = \"x\"\ndecision = \"ask\"\nfolders = [\"/p\"]\n";
    assert!(PolicyRules::parse(asks, &is_tool).is_err());
}
