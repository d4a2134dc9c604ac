//! The configuration from real files: what wins, what is refused, and with which words.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;
use punie_runner::config::default_file::{self, Known};
use punie_runner::config::{
    Backend, BackendUrl, Color, Config, ConfigError, Environment, Flags, Limits, Log, LogLevel, Origin, Poll,
    WorkspaceRule,
};
use punie_runner::redact::Secret;
use tempfile::TempDir;

/// A user's folder with a home and two workspaces in it, and an environment around it.
struct User {
    dir: TempDir,
    variables: Vec<(OsString, OsString)>,
    flags: Flags,
    rule: WorkspaceRule,
}

impl User {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        for folder in [".punie", "work/a", "work/b"] {
            fs::create_dir_all(dir.path().join(folder)).expect("made");
        }
        Self { dir, variables: Vec::new(), flags: Flags::default(), rule: WorkspaceRule::OrCurrentDir }
    }
    fn with_file(text: &str) -> Self {
        let user = Self::new();
        fs::write(user.file(), text).expect("written");
        user
    }
    fn set(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }
    fn flags(mut self, change: impl FnOnce(&mut Flags)) -> Self {
        change(&mut self.flags);
        self
    }
    fn rule(mut self, rule: WorkspaceRule) -> Self {
        self.rule = rule;
        self
    }
    fn path(&self, below: &str) -> PathBuf {
        fs::canonicalize(self.dir.path()).expect("there").join(below)
    }
    fn file(&self) -> PathBuf {
        self.path(".punie/config.toml")
    }
    /// Loads as if started in `work/a`.
    fn load(&self) -> Result<Config, ConfigError> {
        let environment =
            Environment::new(self.variables.clone(), Some(self.path("work/a")), Some(self.path("")));
        Config::load(&self.flags, &environment, self.rule)
    }
    fn config(&self) -> Config {
        self.load().unwrap_or_else(|error| panic!("{error}"))
    }
    fn refused(&self) -> String {
        let refused = self.load().expect_err("a mistake");
        assert_eq!(refused.exit_code(), 78);
        refused.to_string()
    }
}

/// What a file with this text is refused with.
fn refused(text: &str) -> String {
    User::with_file(text).refused()
}

// What wins

#[test]
fn without_anything_the_defaults_are_in_force() {
    let user = User::new();
    let config = user.config();
    assert_eq!(config.home, user.path(".punie"));
    assert_eq!(config.file, user.file());
    assert_eq!(config.workspaces, [user.path("work/a")]);
    assert_eq!((config.backend, config.poll), (Backend::default(), Poll::default()));
    assert_eq!((config.limits.clone(), config.log), (Limits::default(), Log::default()));
    assert_eq!((config.color, config.json), (Color::Auto, false));
    assert!(config.caller.token.is_none() && config.caller.device.is_none());
    assert_eq!(config.limits.lease, Duration::from_secs(60));
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let key = |user: &User| {
        let config = user.config();
        let url = config.backend.url.as_ref().map(|url| url.as_str().to_owned());
        (url, config.origin("backend.url").expect("a known key").clone())
    };
    let user = User::new();
    assert_eq!(key(&user), (None, Origin::Default));
    let user = User::with_file("\n[backend]\nurl = \"https://file.example\"\n");
    let origin = Origin::File { path: user.file(), line: 3 };
    assert_eq!(key(&user), (Some("https://file.example".to_owned()), origin.clone()));
    assert_eq!(origin.to_string(), format!("{}:3", user.file().display()));
    let user = user.set("PUNIE_BACKEND_URL", "https://variable.example");
    let origin = Origin::Variable("PUNIE_BACKEND_URL");
    assert_eq!(key(&user), (Some("https://variable.example".to_owned()), origin));
    let user = user.flags(|flags| flags.backend_url = Some("https://flag.example".to_owned()));
    assert_eq!(key(&user), (Some("https://flag.example".to_owned()), Origin::Flag("--backend-url")));

    let user = User::with_file("[log]\nlevel = \"warn\"");
    assert_eq!(user.config().log.level, LogLevel::Warn);
    let user = user.set("PUNIE_LOG", "DEBUG");
    assert_eq!(user.config().log.level, LogLevel::Debug);
    let user = user.flags(|flags| flags.log = Some("off".to_owned()));
    assert_eq!(user.config().log.level, LogLevel::Off);
}

#[test]
fn the_home_and_the_file_can_be_elsewhere() {
    let user = User::new().set("PUNIE_HOME", "~/other");
    fs::create_dir(user.path("other")).expect("made");
    fs::write(user.path("other/config.toml"), "limits.reads = 3").expect("written");
    assert_eq!((user.config().home, user.config().limits.reads), (user.path("other"), 3));
    let user = user.flags(|flags| flags.home = Some("../third".into()));
    assert_eq!(user.config().home, user.path("work/a").join("../third"), "relative to the current directory");

    fs::write(user.path("mine.toml"), "limits.reads = 4").expect("written");
    let (mine, gone) = (user.path("mine.toml"), user.path("gone.toml"));
    let user = user.set("PUNIE_CONFIG", mine);
    assert_eq!(user.config().limits.reads, 4);
    let user = user.flags(|flags| flags.config = Some(gone.clone()));
    assert!(user.refused().contains(&*gone.to_string_lossy()), "a file that was named must be there");
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let user = User::with_file("[log]\nlevel = \"warn\"").set("PUNIE_LOG", "").set("PUNIE_HOME", "");
    assert_eq!((user.config().log.level, user.config().home), (LogLevel::Warn, user.path(".punie")));
}

#[test]
fn every_key_says_where_its_value_came_from() {
    let user = User::with_file("[limits]\nreads = 2").set("PUNIE_CALLER_TOKEN", "hush-hush");
    let config = user.config();
    assert_eq!(config.origin("limits.reads"), Some(&Origin::File { path: user.file(), line: 2 }));
    assert_eq!(config.origin("limits.total"), Some(&Origin::Default));
    assert_eq!(config.origin("workspaces.paths"), Some(&Origin::CurrentDir));
    for key in ["home", "config", "backend.kind", "backend.poll.hold_ms", "log.level", "color"] {
        assert_eq!(config.origin(key), Some(&Origin::Default), "{key}");
    }
    let mut keys: Vec<_> = config.settings().iter().map(|setting| setting.key).collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "each once");
    assert!(!format!("{:?} {:?}", config, config.settings()).contains("hush"), "no secret in it");
}

#[test]
fn colour_follows_the_flag_and_else_the_custom_variable() {
    let user = User::new().set("NO_COLOR", "1");
    assert_eq!(user.config().color, Color::Never);
    let user = user.flags(|flags| flags.color = Some(Color::Always));
    assert_eq!(user.config().color, Color::Always);
}

// Workspaces

#[test]
fn workspaces_come_from_one_source_in_order_and_each_once() {
    let user = User::with_file("[workspaces]\npaths = [\"~/work/b\", \"../work/a\", \"~/work/./b\"]");
    let (a, b) = (user.path("work/a"), user.path("work/b"));
    assert_eq!(user.config().workspaces, [b.clone(), a.clone()], "relative to the file's folder");
    let list = std::env::join_paths([&a, &b]).expect("no colons in them");
    let user = user.set("PUNIE_WORKSPACE", list);
    assert_eq!(user.config().workspaces, [a.clone(), b.clone()]);
    let user = user.flags(|flags| flags.workspaces = vec!["../b".into()]);
    assert_eq!(user.config().workspaces, [b.clone()], "relative to the current directory");
    assert_eq!(user.config().origin("workspaces.paths"), Some(&Origin::Flag("--workspace")));
    symlink(&a, user.path("link")).expect("a link");
    let user = user.flags(|flags| flags.workspaces = vec!["~/link".into(), "../b".into()]);
    assert_eq!(user.config().workspaces, [a, b], "real places");
}

#[test]
fn the_current_directory_counts_only_where_it_is_meant() {
    let user = User::new().rule(WorkspaceRule::Named);
    let refused = user.refused();
    for way in ["--workspace", "PUNIE_WORKSPACE", "[workspaces]"] {
        assert!(refused.contains(way), "{refused}");
    }
    let user = user.rule(WorkspaceRule::NotNeeded);
    assert_eq!(user.config().workspaces, Vec::<PathBuf>::new());
    let nowhere = Environment::new([], None, Some(user.path("")));
    Config::load(&Flags::default(), &nowhere, WorkspaceRule::OrCurrentDir).expect_err("there is none");
    let flags = Flags { workspaces: vec!["a".into()], ..Flags::default() };
    let refused = Config::load(&flags, &nowhere, WorkspaceRule::Named).expect_err("relative to nothing");
    assert!(matches!(refused, ConfigError::NoCurrentDir { .. }), "{refused}");
    let refused =
        Config::load(&Flags::default(), &Environment::new([], None, None), WorkspaceRule::NotNeeded)
            .expect_err("no home");
    assert!(matches!(refused, ConfigError::NoHome), "{refused}");
}

#[test]
fn a_workspace_must_be_a_folder_and_keep_away_from_the_home() {
    let workspace = |path: &str| {
        let path = PathBuf::from(path);
        User::new().flags(move |flags| flags.workspaces = vec![path])
    };
    fs::write(workspace("x").path("file"), "").expect("written");
    assert!(workspace("gone").refused().starts_with("--workspace: the workspace"));
    let user = workspace("~/file");
    fs::write(user.path("file"), "").expect("written");
    assert!(user.refused().contains("cannot be used"));
    assert!(workspace("").refused().contains("empty"));
    assert!(workspace("~").refused().contains("contains the runner's home"));
    assert!(workspace("/").refused().contains("contains the runner's home"));
    assert!(workspace("~/.punie").refused().contains("lies in the runner's home"));
    let user = workspace("~/link");
    symlink(user.path(".punie"), user.path("link")).expect("a link");
    assert!(user.refused().contains("lies in the runner's home"), "links do not hide it");

    // A home that is not there yet is looked for behind links and `..` as well.
    symlink(user.path("work"), user.path("to-work")).expect("a link");
    for (home, apart) in
        [("~/to-work/a/new/home", false), ("new", false), ("../new", true), ("~/to-work/b/../new/x", true)]
    {
        let home = PathBuf::from(home);
        let flags = Flags { home: Some(home.clone()), ..Flags::default() };
        let environment = Environment::new([], Some(user.path("work/a")), Some(user.path("")));
        let loaded = Config::load(&flags, &environment, WorkspaceRule::OrCurrentDir);
        assert_eq!(loaded.is_ok(), apart, "{}", home.display());
    }
}

// The file

#[test]
fn a_file_that_is_not_toml_is_refused_with_its_line() {
    for (text, line) in
        [("[log]\nlevel = \n", 2), ("[log\n", 1), ("a = 1\na = 2\n", 2), ("[log]\nlevel = \"x", 2)]
    {
        let refused = refused(text);
        assert!(refused.contains(&format!("config.toml:{line}: this is not TOML")), "{text:?}: {refused}");
    }
    let user = User::new();
    fs::write(user.file(), b"[log]\nlevel = \"\xff\"").expect("written");
    assert!(user.refused().contains("not UTF-8"));
    fs::write(user.file(), "#".repeat(1024 * 1024 + 1)).expect("written");
    assert!(user.refused().contains("longer than 1 MiB"));
    fs::write(user.file(), "").expect("written");
    fs::set_permissions(user.file(), fs::Permissions::from_mode(0o666)).expect("opened");
    assert!(user.refused().contains("chmod o-w"));
    fs::remove_file(user.file()).expect("removed");
    fs::create_dir(user.file()).expect("made");
    assert!(user.refused().contains("cannot be read"));
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_known_one() {
    for (text, line, words) in [
        ("[limits]\nread = 1", 2, "no key limits.read. Did you mean limits.reads?"),
        ("[limits]\n\nmax_char = 1", 3, "Did you mean limits.max_chars?"),
        ("[backend]\nhold_ms = 1", 2, "Did you mean backend.poll.hold_ms?"),
        ("[backend.pol]\nhold_ms = 1", 1, "no table backend.pol. Did you mean backend.poll?"),
        ("[limit]\nreads = 1", 1, "no table limit. Did you mean limits?"),
        ("[limit]\n", 1, "no table limit. Did you mean limits?"),
        ("[skills.x.y]\n", 1, "no table skills. There are: backend, limits, workspaces, log"),
        ("[log]\ncolour = true", 2, "no key log.colour. There are: log.level"),
        ("reads = 1", 1, "Did you mean limits.reads?"),
        ("log = \"info\"", 1, "log is a table: write [log]"),
        ("[limits.reads]\nx = 1", 1, "limits.reads is one value, not a table"),
    ] {
        let refused = refused(text);
        assert!(refused.contains(&format!("config.toml:{line}: ")), "{text:?}: {refused}");
        assert!(refused.contains(words), "{text:?}: {refused}");
        assert_eq!(refused.lines().count(), 1, "one fault: {refused}");
    }
}

#[test]
fn a_wrong_value_is_refused_with_what_it_must_be() {
    for (text, words) in [
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
        ("[backend]\nkind = \"websocket\"", "must be \"convex\""),
        ("[backend]\nurl = 5", "must be an address in quotes, not 5"),
        ("[backend]\nurl = \"example.com\"", "backend.url is wrong: the address is not a URL"),
        ("[backend]\nurl = [\"x\"]", "not a list"),
        ("[backend]\nurl = 2020-01-01", "not a time"),
        ("[log]\nlevel = \"loud\"", "there is no \"loud\". It must be \"off\""),
        ("[workspaces]\npaths = \"~/x\"", "must be a list of paths in quotes, not the text"),
        ("[workspaces]\npaths = [1]", "must be a list of paths in quotes"),
        ("[workspaces]\npaths = [\"\"]", "a path in it is empty"),
    ] {
        let refused = refused(text);
        assert!(refused.contains("config.toml:2: "), "{text:?}: {refused}");
        assert!(refused.contains(words), "{text:?}: {refused}");
    }
}

#[test]
fn values_must_fit_each_other() {
    for (text, line, words) in [
        ("[limits]\ntotal = 4", 2, "limits.reads must not be more than limits.total"),
        ("[limits]\nlease_ms = 90000\nlease_renew_ms = 50000", 3, "at most half"),
        ("[limits]\nlease_ms = 30000", 2, "at most half"),
        ("[backend.poll]\nerror_cap_ms = 500", 2, "error_base_ms must not be more"),
        ("[backend.poll]\nfunction_error_min_ms = 400000", 2, "function_error_min_ms must not be more"),
        ("[backend.poll]\nrecent_for_ms = 0", 2, "active_for_ms must not be more"),
    ] {
        let refused = refused(text);
        assert!(refused.contains(&format!("config.toml:{line}: ")) && refused.contains(words), "{refused}");
    }
}

#[test]
fn all_mistakes_are_told_at_once_in_order() {
    let refused = refused("[log]\nlevel = 1\n[limit]\n[limits]\nreads = 0\nqeue = 3\n");
    let lines: Vec<&str> = refused.lines().collect();
    assert_eq!(lines.len(), 4, "{refused}");
    for (line, at) in lines.iter().zip([2, 3, 5, 6]) {
        assert!(line.contains(&format!("config.toml:{at}: ")), "{refused}");
    }
}

#[test]
fn plain_http_goes_to_this_machine_only() {
    let from_flag = |url: &str| {
        let url = url.to_owned();
        User::new().flags(|flags| flags.backend_url = Some(url))
    };
    assert!(from_flag("http://127.0.0.1:3210").load().is_ok());
    let refused = from_flag("http://10.0.0.1:3210").refused();
    assert!(
        refused.starts_with("--backend-url: ") && refused.contains("allow_insecure_http = true"),
        "{refused}"
    );
    let user = User::with_file("[backend]\nurl = \"http://10.0.0.1\"\n");
    assert!(user.refused().contains("config.toml:2: "), "{}", user.refused());
    let user = User::with_file("[backend]\nurl = \"http://10.0.0.1\"\nallow_insecure_http = true");
    assert!(user.load().is_ok());
}

#[test]
fn values_from_outside_the_file_are_checked_as_well() {
    let user = |name: &str, value: &str| User::new().set(name, value).refused();
    assert!(user("PUNIE_LOG", "loud").starts_with("PUNIE_LOG: there is no \"loud\""));
    assert!(user("PUNIE_DEVICE", "../x").starts_with("PUNIE_DEVICE: a device id must be"));
    assert!(
        user("PUNIE_BACKEND_URL", "https://a:hunter2@b")
            .starts_with("PUNIE_BACKEND_URL: the address has a user")
    );
    assert!(!user("PUNIE_BACKEND_URL", "https://a:hunter2@b").contains("hunter2"));
    assert!(!user("PUNIE_CALLER_TOKEN", "two words").contains("words\""));
    let broken = User::new().set("PUNIE_LOG", OsString::from_vec(vec![0xff])).refused();
    assert!(broken.contains("not UTF-8"), "{broken}");
    let user = User::new().flags(|flags| flags.home = Some(PathBuf::new()));
    assert!(user.refused().starts_with("--home: the path is empty"));
    let user = User::new().flags(|flags| flags.caller_token = Some(Secret::new("tok\n".to_owned())));
    assert_eq!(user.config().caller.token, Some(Secret::new("tok".to_owned())));
}

#[test]
fn a_mistyped_variable_is_told_and_stops_nothing() {
    let user = User::new().set("PUNIE_WORKSPACES", "/x").set("PUNIE_ZZZ", "1").set("HOME", "/x");
    let warnings = user.config().warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].contains("PUNIE_WORKSPACES") && warnings[0].contains("Did you mean PUNIE_WORKSPACE?")
    );
    assert!(!warnings[1].contains("Did you mean"));
}

#[test]
fn the_environment_does_not_show_its_values() {
    let environment = Environment::new([("API_KEY".into(), "hunter2".into())], None, None);
    assert!(!format!("{environment:?}").contains("hunter2"));
    assert_eq!(environment.get("API_KEY").expect("set"), "hunter2");
    assert_eq!(environment.variables().len(), 1);
}

#[test]
fn the_environment_of_this_process_can_be_captured() {
    let environment = Environment::capture();
    assert_eq!(environment.current_dir(), std::env::current_dir().ok().as_deref());
    assert_eq!(environment.path(), std::env::var_os("PATH").as_deref());
}

// The file that is written first

/// The written file with every default made active.
fn uncommented(text: &str) -> String {
    let active = |line: &str| match line.strip_prefix('#') {
        Some(rest) if !rest.starts_with(' ') => rest.to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(|line| active(line) + "\n").collect()
}

#[test]
fn the_first_file_changes_nothing_and_shows_the_defaults_truly() {
    let text = default_file::text(&Known::default());
    let plain = User::with_file(&text).config();
    assert!(plain.settings().iter().all(|s| s.key == "workspaces.paths" || s.origin == Origin::Default));

    let active = User::with_file(&uncommented(&text));
    let config = active.config();
    assert_eq!((config.poll, config.limits, config.log), (plain.poll, plain.limits, plain.log));
    let example = BackendUrl::parse("https://your-deployment.convex.cloud").expect("an address");
    assert_eq!(config.backend, Backend { url: Some(example), ..plain.backend });
    let of_the_file = |setting: &&punie_runner::config::Setting| {
        setting.key.contains('.') && setting.key != "workspaces.paths"
    };
    for setting in active.config().settings().iter().filter(of_the_file) {
        assert!(matches!(setting.origin, Origin::File { .. }), "{} is not in the file", setting.key);
    }
}

#[test]
fn every_key_of_the_first_file_has_a_comment() {
    let text = default_file::text(&Known::default());
    let lines: Vec<&str> = text.lines().collect();
    let keys = lines.iter().enumerate().filter(|(_, line)| line.starts_with('#') && !line.starts_with("# "));
    let mut count = 0;
    for (n, key) in keys {
        count += 1;
        assert!(lines[n - 1].starts_with("# "), "{key} has none");
    }
    assert!(count >= 26, "{count} keys");
}

#[test]
fn the_first_file_takes_over_what_is_known() {
    let user = User::new();
    let odd = user.path("work/a \"b\"\\\u{7f}é");
    fs::create_dir(&odd).expect("made");
    let known = Known {
        backend_url: Some(BackendUrl::parse("https://a.convex.cloud/").expect("an address")),
        workspaces: vec![user.path("work/b"), odd.clone()],
    };
    fs::write(user.file(), default_file::text(&known)).expect("written");
    let config = user.config();
    assert_eq!(config.workspaces, [user.path("work/b"), odd]);
    assert_eq!(config.backend.url.expect("set").as_str(), "https://a.convex.cloud");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_text_is_taken_or_refused_with_the_file_named(
        text in "(\\[(log|limits|backend|backend\\.poll|x)\\]\n|[a-z_]{1,8} = [-0-9a-z\"\\[\\]{}.,]{0,8}\n|reads = [0-9-]{1,22}\n){0,6}"
    ) {
        let user = User::with_file(&text);
        if let Err(refused) = user.load() {
            prop_assert!(refused.to_string().contains(&*Path::new(&user.file()).to_string_lossy()), "{refused}");
        }
    }
}
