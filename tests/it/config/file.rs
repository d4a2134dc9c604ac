//! `config.toml`: the faults that are refused, with their lines and messages, and the first file that `init` writes.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use proptest::prelude::*;
use punie_runner::config::default_file::{self, KnownSettings};
use punie_runner::config::{Backend, BackendUrl, ConfigSetting, ValueOrigin};

use super::ConfigUser;

/// The error for a file with this text.
fn config_error(text: &str) -> String {
    ConfigUser::with_file(text).refused()
}

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    for (text, line) in [
        ("[log]\nlevel = \n", 2),
        ("[log\n", 1),
        ("a = 1\na = 2\n", 2),
        ("[log]\nlevel = \"x", 2),
    ] {
        let refused = config_error(text);
        assert_contains!(refused, &format!("config.toml:{line}: this is not TOML"); "{text:?}");
    }
    let user = ConfigUser::new();
    fs::write(user.file(), b"[log]\nlevel = \"\xff\"").expect("written");
    assert_contains!(user.refused(), "not UTF-8");
    fs::write(user.file(), "#".repeat(1024 * 1024 + 1)).expect("written");
    assert_contains!(user.refused(), "longer than 1 MiB");
    fs::write(user.file(), "").expect("written");
    fs::set_permissions(user.file(), fs::Permissions::from_mode(0o666)).expect("opened");
    assert_contains!(user.refused(), "chmod o-w");
    fs::remove_file(user.file()).expect("removed");
    fs::create_dir(user.file()).expect("made");
    assert_contains!(user.refused(), "cannot be read");
}

#[cfg(feature = "default")]
#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    for (text, line, words) in cases! {
        ("[limits]\nread = 1", 2, "no key limits.read. Did you mean limits.reads?"),
        ("[limits]\n\nlease_m = 1", 3, "Did you mean limits.lease_ms?"),
        ("[backend]\nhold_ms = 1", 2, "Did you mean backend.poll.hold_ms?"),
        ("[backend.pol]\nhold_ms = 1", 1, "no table backend.pol. Did you mean backend.poll?"),
        ("[limit]\nreads = 1", 1, "no table limit. Did you mean limits?"),
        ("[limit]\n", 1, "no table limit. Did you mean limits?"),
        (
            "[themes.x.y]\n",
            1,
            "no table themes. There are: backend, limits, safe_mode, workspaces, tools, policy, questions, sandbox, trash, store, journal, audit, editor, mcp, self_mod, signals, update, log",
        ),
        ("[log]\ncolour = true", 2, "no key log.colour. There are: log.level"),
        ("reads = 1", 1, "Did you mean limits.reads?"),
        ("log = \"info\"", 1, "log is a table: write [log]"),
        ("[limits.reads]\nx = 1", 1, "limits.reads is one value, not a table"),
    } {
        let refused = config_error(text);
        assert_contains!(refused, &format!("config.toml:{line}: "); "{text:?}");
        assert_contains!(refused, words; "{text:?}");
        assert_eq!(refused.lines().count(), 1, "one fault: {refused}");
    }
}

#[cfg(feature = "default")]
#[test]
fn a_wrong_value_is_refused_with_what_it_must_be() {
    for (text, words) in cases! {
        ("[limits]\nreads = 0", "limits.reads must be a whole number between 1 and 64, not 0"),
        ("[limits]\nreads = -3", "between 1 and 64, not -3"),
        ("[limits]\nreads = 65", "between 1 and 64, not 65"),
        ("[limits]\nreads = \"8\"", "not the text \"8\""),
        ("[limits]\nreads = 8.0", "not 8.0"),
        ("[limits]\nreads = 99999999999999999999", "not a number beyond all bounds"),
        (
            "[limits]\nttl_ms = 9223372036854775807",
            "a whole number of milliseconds between 1000 and 86400000",
        ),
        ("[backend.poll]\njitter = 0.6", "a number between 0.0 and 0.5, not 0.6"),
        ("[backend.poll]\njitter = nan", "not NaN"),
        ("[backend.poll]\njitter = inf", "not inf"),
        ("[backend.poll]\nactive_ms = 0", "between 10 and 3600000, not 0"),
        ("[backend.poll]\nhold_ms = true", "not true"),
        ("[backend]\nallow_insecure_http = 1", "must be true or false, not 1"),
        ("[backend]\nkind = \"firebase\"", "It must be \"convex\" or \"websocket\""),
        (
            "[backend]\nurl = \"https://a.example\"\nkind = \"websocket\"",
            "needs an address that begins with wss:",
        ),
        ("[backend]\nurl = \"wss://a.example\"", "or kind = \"websocket\""),
        ("[backend]\nwakeup = true", "must be \"auto\", \"on\" or \"off\""),
        ("[backend]\nurl = 5", "must be an address in quotes, not 5"),
        ("[backend]\nurl = \"example.com\"", "backend.url is wrong: the address is not a URL"),
        ("[backend]\nurl = [\"x\"]", "not a list"),
        ("[backend]\nurl = 2020-01-01", "not a time"),
        ("[log]\nlevel = \"loud\"", "there is no \"loud\". It must be \"off\""),
        ("[workspaces]\npaths = \"~/x\"", "must be a list of paths in quotes, not the text"),
        ("[workspaces]\npaths = [1]", "must be a list of paths in quotes"),
        ("[workspaces]\npaths = [\"\"]", "a path in it is empty"),
    } {
        let refused = config_error(text);
        assert_contains!(refused, "config.toml:2: "; "{text:?}");
        assert_contains!(refused, words; "{text:?}");
    }
}

#[test]
fn values_must_fit_each_other() {
    for (text, line, words) in cases! {
        ("[limits]\nlease_ms = 90000\nlease_renew_ms = 50000", 3, "at most half"),
        ("[limits]\nlease_ms = 30000", 2, "at most half"),
        ("[backend.poll]\nerror_cap_ms = 500", 2, "error_base_ms must not be more"),
        (
            "[backend.poll]\nfunction_error_min_ms = 400000",
            2,
            "function_error_min_ms must not be more",
        ),
        ("[backend.poll]\nrecent_for_ms = 0", 2, "active_for_ms must not be more"),
    } {
        let refused = config_error(text);
        assert_contains!(refused, &format!("config.toml:{line}: "), words);
    }
}

#[test]
fn the_tables_of_callers_are_read_by_name_and_their_mistakes_are_told() {
    let text = "[workspaces]\npaths = [\"~/work/a\"]\n[callers.ci]\ntools = []\nworkspaces = [\"../work/a\"]\n\
                [callers.\"my v1.2 agent\"]\nrate = 60\nprofile = \"coding\"\n";
    let user = ConfigUser::with_file(text);
    let config = user.config();
    let ci = &config.callers["ci"];
    assert_eq!(ci.tools.as_deref(), Some(&[][..]));
    assert_eq!(ci.workspaces.as_deref(), Some(&[user.path("work/a")][..]));
    let agent = &config.callers["my v1.2 agent"];
    assert_eq!((agent.rate, &agent.tools), (60, &None));
    assert_eq!(agent.profile.as_str(), "coding");
    for (text, line, words) in cases! {
        ("[callers.ci]\ntool = [\"Read\"]", 2, "Did you mean callers.NAME.tools?"),
        ("[callers.ci]\nrate = -1", 2, "callers.ci.rate must be"),
        ("[callers.ci]", 1, "has no key"),
        ("[callers.my.agent]\nrate = 1", 1, "[callers.my] has no key"),
        ("[callers]\nrate = 1", 2, "there is no key callers.rate"),
        (
            "[workspaces]\npaths = [\"~/work/a\"]\n[callers.ci]\nworkspaces = [\"~/work/b\"]",
            3,
            "is none of workspaces.paths",
        ),
        (
            "[workspaces]\npaths = [\"~/work\", \"~/work/b\"]\n[callers.ci]\nworkspaces = [\"~/work/b\"]",
            3,
            "lies in another of them",
        ),
    } {
        let refused = config_error(text);
        assert_contains!(refused, &format!("config.toml:{line}: "), words);
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_order() {
    let refused = config_error("[log]\nlevel = 1\n[limit]\n[limits]\nreads = 0\nqeue = 3\n");
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(lines.len(), 4, "{refused}");
    for (line, at) in lines.iter().zip([2, 3, 5, 6]) {
        assert_contains!(line, &format!("config.toml:{at}: "); "{refused}");
    }
}

// The first file that `init` writes

/// Returns the written file with every default made active.
fn without_comments(text: &str) -> String {
    let active = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(|line| active(line) + "\n").collect()
}

#[cfg(feature = "default")]
#[test]
fn the_first_file_changes_nothing_and_shows_the_defaults_truly() {
    let text = default_file::render_default_config(&KnownSettings::default());
    let plain = ConfigUser::with_file(&text).config();
    assert!(
        plain
            .all_settings()
            .iter()
            .all(|s| s.key == "workspaces.paths" || s.origin == ValueOrigin::Default)
    );

    let active = ConfigUser::with_file(&without_comments(&text));
    let config = active.config();
    assert_eq!(config.poll, plain.poll);
    assert_eq!(config.limits, plain.limits);
    assert_eq!(config.log, plain.log);
    let example = BackendUrl::parse("https://your-deployment.convex.cloud").expect("an address");
    assert!(
        config.backend.request_key.is_some(),
        "the example of request_key is a valid key"
    );
    assert!(
        config.backend.proxy.is_some(),
        "the example of proxy is a valid proxy"
    );
    let request_key = config.backend.request_key;
    let proxy = config.backend.proxy.clone();
    let shown = Backend {
        url: Some(example),
        request_key,
        proxy,
        ..plain.backend
    };
    assert_eq!(config.backend, shown);
    let of_the_file =
        |setting: &&ConfigSetting| setting.key.contains('.') && setting.key != "workspaces.paths";
    for setting in active.config().all_settings().iter().filter(of_the_file) {
        assert!(
            matches!(setting.origin, ValueOrigin::File { .. }),
            "{} is not in the file",
            setting.key
        );
    }
}

#[test]
fn every_key_of_the_first_file_has_a_comment() {
    let text = default_file::render_default_config(&KnownSettings::default());
    let lines: Vec<&str> = text.lines().collect();
    let keys = lines
        .iter()
        .enumerate()
        .filter(|(_, line)| line.starts_with('#') && !line.starts_with("# "));
    let mut count = 0;
    for (n, key) in keys {
        count += 1;
        assert_starts_with!(lines[n - 1], "# "; "{key} has no comment");
    }
    assert!(count >= 26, "{count} keys");
}

#[test]
fn the_first_file_takes_over_what_is_known() {
    let user = ConfigUser::new();
    let odd = user.path("work/a \"b\"\\\u{7f}é");
    fs::create_dir(&odd).expect("made");
    let known = KnownSettings {
        backend_url: Some(BackendUrl::parse("https://a.convex.cloud/").expect("an address")),
        workspaces: vec![user.path("work/b"), odd.clone()],
    };
    fs::write(user.file(), default_file::render_default_config(&known)).expect("written");
    let config = user.config();
    assert_eq!(config.workspaces, [user.path("work/b"), odd]);
    assert_eq!(
        config.backend.url.expect("set").as_str(),
        "https://a.convex.cloud"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_is_taken_or_refused_with_the_file_named(
        text in "(\\[(log|limits|backend|backend\\.poll|x)\\]\n|[a-z_]{1,8} = [-0-9a-z\"\\[\\]{}.,]{0,8}\n|reads = [0-9-]{1,22}\n){0,6}"
    ) {
        let user = ConfigUser::with_file(&text);
        if let Err(refused) = user.load() {
            prop_assert!(refused.to_string().contains(&*user.file().to_string_lossy()), "{refused}");
        }
    }
}
