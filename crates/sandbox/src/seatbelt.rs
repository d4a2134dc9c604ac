//! Confinement on macOS: the profile and the arguments for `/usr/bin/sandbox-exec`. Written after Apple's own profiles
//! and untested, for lack of such a system.
//!
//! The profile text contains no paths. Each path is a parameter, so that no name can be read as a rule. If two rules
//! match, the later one counts.

use std::fmt::Write as _;
use std::path::PathBuf;

use super::hidden_paths::{HiddenPaths, hidden_paths};
use super::level::NetworkAccess;
use super::sandbox_rules::{SandboxRules, WorkspaceAccess};

/// The absolute path: a program found by PATH could be anything.
pub const PROGRAM: &str = "/usr/bin/sandbox-exec";

/// The rules for every command, before those on paths.
const BASE_RULES: &str = "(version 1)
(allow default)
(deny file-write*)
(deny signal)
(allow signal (target same-sandbox))
(deny mach-priv-task-port)
(deny appleevent-send)
(deny lsopen)
(allow file-write*
  (literal \"/dev/null\") (literal \"/dev/zero\") (literal \"/dev/tty\") (literal \"/dev/ptmx\")
  (literal \"/dev/dtracehelper\") (regex #\"^/dev/ttys[0-9]+$\"))
";

/// The machine's own loopback only: macOS has no loopback per process.
const LOOPBACK_RULES: &str = "(deny network*)
(allow network-bind (local ip \"localhost:*\"))
(allow network-inbound (local ip \"localhost:*\"))
(allow network-outbound (remote ip \"localhost:*\"))
";

/// Returns the arguments that go before a confined program. `read_only` paths are protected from writing, and
/// `in_place` paths from moving and removal.
pub fn sandbox_exec_args(
    rules: &SandboxRules,
    read_only: &[PathBuf],
    in_place: &[PathBuf],
) -> Vec<String> {
    let mut profile = SeatbeltProfile {
        text: BASE_RULES.to_owned(),
        words: Vec::new(),
    };
    let access = rules.workspace_access;
    let with_access = move |wanted| rules.writable_paths().filter(move |_| access == wanted);
    let named = || with_access(WorkspaceAccess::Write);
    let HiddenPaths { paths, unresolved } = hidden_paths(rules);
    // A hidden path that cannot be resolved may be anywhere in these folders.
    let perhaps_hidden = named().filter(|_| unresolved.is_some());
    let hidden: Vec<&PathBuf> = paths.iter().chain(perhaps_hidden).collect();
    let is_below = |inner: &PathBuf, outer: &PathBuf| inner != outer && inner.starts_with(outer);
    // In a hidden folder: the home of the runner, or another workspace.
    let inside = || named().filter(|path| paths.iter().any(|outer| is_below(path, outer)));
    let hidden_again = hidden.iter().copied();
    let hidden_again = hidden_again.filter(|path| inside().any(|outer| is_below(path, outer)));
    // Later rules win: some paths are shown or writable although the folders around them are hidden.
    profile.add_path_rule(
        "allow file-write*",
        "subpath",
        "WRITE",
        named().chain([&rules.temp]),
    );
    profile.add_path_rule("allow file-write-data", "subpath", "PIPES", [&rules.pipes]);
    profile.add_path_rule(
        "deny file-read* file-write*",
        "subpath",
        "HIDE",
        hidden.iter().copied(),
    );
    let shown = rules
        .shown
        .iter()
        .chain(&rules.read)
        .chain(with_access(WorkspaceAccess::Read));
    profile.add_path_rule("allow file-read*", "subpath", "SHOW", shown);
    let own = [&rules.temp, &rules.pipes];
    profile.add_path_rule("allow file-read* file-write-data", "subpath", "OURS", own);
    profile.add_path_rule("allow file-write*", "subpath", "TEMP", [&rules.temp]);
    let given = inside().chain(&rules.own_folder);
    profile.add_path_rule("allow file-read* file-write*", "subpath", "GIVEN", given);
    let deny = "deny file-read* file-write*";
    profile.add_path_rule(deny, "subpath", "HIDE_AGAIN", hidden_again);
    profile.add_path_rule("deny file-write*", "subpath", "KEEP", read_only);
    profile.add_path_rule("deny file-write-unlink", "literal", "STAY", in_place);
    profile.text.push_str(match rules.network {
        NetworkAccess::None => "(deny network*)\n",
        NetworkAccess::Loopback | NetworkAccess::Ask => LOOPBACK_RULES,
        NetworkAccess::Full => "",
    });
    profile.words.extend(["-p".to_owned(), profile.text]);
    profile.words
}

struct SeatbeltProfile {
    text: String,
    words: Vec<String>,
}

impl SeatbeltProfile {
    /// Adds one rule for these paths, if there are any.
    fn add_path_rule<'a>(
        &mut self,
        rule: &str,
        kind: &str,
        name: &str,
        paths: impl IntoIterator<Item = &'a PathBuf>,
    ) {
        let mut matches = String::new();
        for (number, path) in paths.into_iter().enumerate() {
            // A path that is not UTF-8 cannot be a parameter; it gets no rule.
            let Some(path) = path.to_str() else { continue };
            let _ = write!(matches, " ({kind} (param \"{name}_{number}\"))");
            self.words
                .extend(["-D".to_owned(), format!("{name}_{number}={path}")]);
        }
        if !matches.is_empty() {
            let _ = writeln!(self.text, "({rule}{matches})");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(network: NetworkAccess) -> SandboxRules {
        SandboxRules {
            workspaces: vec![
                "/Users/a/wo\"rk) (allow default".into(),
                "/Users/a/more".into(),
            ],
            user_home: Some("/Users/a".into()),
            shown: vec!["/Users/a/.punie/skills".into()],
            own_folder: None,
            pipes: "/Users/a/.punie/state/shells".into(),
            write: vec!["/Users/a/notes".into()],
            read: vec!["/Users/a/.docker".into()],
            hide: vec!["/Users/a/private".into()],
            network,
            ..SandboxRules::minimal("/Users/a/.punie".into(), "/Users/a/.punie/tmp".into())
        }
    }

    fn profile_of(words: &[String]) -> &str {
        assert_eq!(words[words.len() - 2], "-p");
        &words[words.len() - 1]
    }

    fn value<'a>(words: &'a [String], path: &str) -> &'a str {
        let given = words
            .iter()
            .find(|word| word.split_once('=').is_some_and(|(_, value)| value == path));
        given.expect(path).split_once('=').expect("a parameter").0
    }

    #[test]
    fn a_path_is_a_parameter_and_never_a_part_of_the_profile() {
        let words = sandbox_exec_args(
            &rules(NetworkAccess::Loopback),
            &["/Users/a/more/.git/config".into()],
            &[],
        );
        let profile = profile_of(&words);
        assert!(!profile.contains("/Users"), "{profile}");
        assert_eq!(profile.matches("(allow default)").count(), 1, "{profile}");
        assert_eq!(
            profile.matches('(').count(),
            profile.matches(')').count(),
            "{profile}"
        );
        assert_eq!(profile.matches('"').count() % 2, 0, "{profile}");
        for pair in words[..words.len() - 2].chunks(2) {
            let name = pair[1].split_once('=').expect("a parameter").0;
            assert_eq!(pair[0], "-D");
            assert_eq!(
                profile.matches(&format!("(param \"{name}\")")).count(),
                1,
                "{name} in {profile}"
            );
        }
    }

    #[test]
    fn writing_is_denied_but_where_it_is_granted_and_again_where_it_is_protected() {
        let words = sandbox_exec_args(
            &rules(NetworkAccess::None),
            &["/Users/a/more/.git/config".into()],
            &["/Users/a/more/.git".into()],
        );
        let profile = profile_of(&words);
        let at = |text: &str| {
            profile
                .find(text)
                .unwrap_or_else(|| panic!("{text} is not in {profile}"))
        };
        let all = at("(deny file-write*)");
        let granted = at(value(&words, "/Users/a/more"));
        let kept = at(value(&words, "/Users/a/more/.git/config"));
        let stays = at(value(&words, "/Users/a/more/.git"));
        assert!(all < granted && granted < kept && granted < stays);
        assert!(
            profile.contains("(deny file-write* (subpath (param \"KEEP_0\")))"),
            "{profile}"
        );
        assert!(
            profile.contains("(deny file-write-unlink (literal (param \"STAY_0\")))"),
            "{profile}"
        );
    }

    #[test]
    fn what_is_hidden_is_not_read_and_what_is_named_is() {
        let words = sandbox_exec_args(&rules(NetworkAccess::Full), &[], &[]);
        let profile = profile_of(&words);
        let at = |path: &str| profile.find(value(&words, path)).expect("a rule");
        for hidden in ["/Users/a/.ssh", "/Users/a/private", "/Users/a/.punie"] {
            assert!(value(&words, hidden).starts_with("HIDE_"), "{hidden}");
        }
        assert!(
            at("/Users/a/.punie") < at("/Users/a/.punie/skills"),
            "{profile}"
        );
        assert!(at("/Users/a/.punie") < profile.find("(param \"TEMP_0\")").expect("a rule"));
        assert!(words.iter().all(
            |word| word != "HIDE_0=/Users/a/.docker" && !word.ends_with("=/Users/a/.docker/x")
        ));
        assert!(
            value(&words, "/Users/a/.docker").starts_with("SHOW_"),
            "named, so not hidden"
        );
    }

    #[test]
    fn a_session_has_its_folder_in_a_workspace_that_is_hidden_from_it() {
        let folder = PathBuf::from("/Users/a/more/one");
        let mut rules = rules(NetworkAccess::None);
        rules.hide.push(folder.join("private"));
        let words = sandbox_exec_args(&rules.narrowed_to(&[folder], &[]), &[], &[]);
        let profile = profile_of(&words);
        let at = |name: &str, path: &str| {
            let word = format!("={path}");
            let named = |given: &&String| given.starts_with(name) && given.ends_with(&word);
            let word = words.iter().find(named).expect(path);
            profile.find(word.split_once('=').expect("a parameter").0)
        };
        let hidden = at("HIDE_", "/Users/a/more");
        let given = at("GIVEN_", "/Users/a/more/one");
        let again = at("HIDE_AGAIN_", "/Users/a/more/one/private");
        assert!(hidden < given && given < again, "{profile}");
    }

    #[test]
    fn a_process_with_less_access_writes_no_workspace() {
        let words = |access| {
            let rules = rules(NetworkAccess::None).with_workspace_access(access);
            sandbox_exec_args(&rules, &[], &[])
        };
        let read = words(WorkspaceAccess::Read);
        assert!(value(&read, "/Users/a/more").starts_with("SHOW_"));
        assert!(value(&words(WorkspaceAccess::Hidden), "/Users/a/more").starts_with("HIDE_"));
        for access in [WorkspaceAccess::Read, WorkspaceAccess::Hidden] {
            let words = words(access);
            let written = words.iter().filter(|word| word.starts_with("WRITE_"));
            assert!(written.eq(["WRITE_0=/Users/a/.punie/tmp"]), "{words:?}");
        }
    }

    #[test]
    fn the_network_is_what_the_owner_says() {
        let profile =
            |network| profile_of(&sandbox_exec_args(&rules(network), &[], &[])).to_owned();
        assert!(profile(NetworkAccess::None).ends_with("(deny network*)\n"));
        assert!(!profile(NetworkAccess::Full).contains("network"));
        let loopback = profile(NetworkAccess::Loopback);
        assert!(
            loopback.contains("(deny network*)")
                && loopback.contains("(remote ip \"localhost:*\")")
        );
    }
}
