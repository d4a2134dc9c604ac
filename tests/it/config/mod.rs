//! The configuration: precedence, workspaces, and errors. The tests of the file itself are in file.rs.
#![expect(
    clippy::disallowed_methods,
    reason = "tests prepare and look at the disk themselves"
)]

mod file;

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::time::Duration;

use punie_runner::config::{
    Backend, ColorChoice, Config, ConfigError, GlobalFlags, Limits, Log, LogLevel, Poll,
    ProcessEnvironment, ValueOrigin, WorkspaceRule,
};
use punie_text::redact::Secret;
use tempfile::TempDir;

/// A user's folder with a home and two workspaces, and the variables and flags of a run.
struct ConfigUser {
    dir: TempDir,
    variables: Vec<(OsString, OsString)>,
    flags: GlobalFlags,
    rule: WorkspaceRule,
}

impl ConfigUser {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a folder for the test");
        for folder in [".punie", "work/a", "work/b"] {
            fs::create_dir_all(dir.path().join(folder)).expect("made");
        }
        Self {
            dir,
            variables: Vec::new(),
            flags: GlobalFlags::default(),
            rule: WorkspaceRule::OrCurrentDir,
        }
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
    fn flags(mut self, change: impl FnOnce(&mut GlobalFlags)) -> Self {
        change(&mut self.flags);
        self
    }
    fn rule(mut self, rule: WorkspaceRule) -> Self {
        self.rule = rule;
        self
    }
    fn path(&self, below: &str) -> PathBuf {
        fs::canonicalize(self.dir.path())
            .expect("there")
            .join(below)
    }
    fn file(&self) -> PathBuf {
        self.path(".punie/config.toml")
    }
    /// Loads the configuration as if started in `work/a`.
    fn load(&self) -> Result<Config, ConfigError> {
        let environment = ProcessEnvironment::new(
            self.variables.clone(),
            Some(self.path("work/a")),
            Some(self.path("")),
        );
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

// Precedence

#[test]
fn without_anything_the_defaults_are_in_force() {
    let user = ConfigUser::new();
    let config = user.config();
    assert_eq!(config.home, user.path(".punie"));
    assert_eq!(config.file, user.file());
    assert_eq!(config.workspaces, [user.path("work/a")]);
    assert_eq!(config.backend, Backend::default());
    assert_eq!(config.poll, Poll::default());
    assert_eq!(config.limits, Limits::default());
    assert_eq!(config.log, Log::default());
    assert_eq!((config.color, config.json), (ColorChoice::Auto, false));
    assert!(config.caller.token.is_none() && config.caller.device.is_none());
    assert_eq!(config.limits.lease, Duration::from_mins(1));
}

#[test]
fn a_flag_wins_over_a_variable_over_the_file_over_the_default() {
    let key = |user: &ConfigUser| {
        let config = user.config();
        let url = config
            .backend
            .url
            .as_ref()
            .map(|url| url.as_str().to_owned());
        (
            url,
            config
                .value_origin("backend.url")
                .expect("a known key")
                .clone(),
        )
    };
    let user = ConfigUser::new();
    assert_eq!(key(&user), (None, ValueOrigin::Default));
    let user = ConfigUser::with_file("\n[backend]\nurl = \"https://file.example\"\n");
    let origin = ValueOrigin::File {
        path: user.file(),
        line: 3,
    };
    assert_eq!(
        key(&user),
        (Some("https://file.example".to_owned()), origin.clone())
    );
    assert_eq!(origin.to_string(), format!("{}:3", user.file().display()));
    let user = user.set("PUNIE_BACKEND_URL", "https://variable.example");
    let origin = ValueOrigin::Variable("PUNIE_BACKEND_URL");
    assert_eq!(
        key(&user),
        (Some("https://variable.example".to_owned()), origin)
    );
    let user = user.flags(|flags| flags.backend_url = Some("https://flag.example".to_owned()));
    assert_eq!(
        key(&user),
        (
            Some("https://flag.example".to_owned()),
            ValueOrigin::Flag("--backend-url")
        )
    );

    let user = ConfigUser::with_file("[log]\nlevel = \"warn\"");
    assert_eq!(user.config().log.level, LogLevel::Warn);
    let user = user.set("PUNIE_LOG", "DEBUG");
    assert_eq!(user.config().log.level, LogLevel::Debug);
    let user = user.flags(|flags| flags.log = Some("off".to_owned()));
    assert_eq!(user.config().log.level, LogLevel::Off);
}

#[test]
fn the_home_and_the_file_can_be_elsewhere() {
    let user = ConfigUser::new().set("PUNIE_HOME", "~/other");
    fs::create_dir(user.path("other")).expect("made");
    fs::write(user.path("other/config.toml"), "limits.reads = 3").expect("written");
    assert_eq!(user.config().home, user.path("other"));
    assert_eq!(user.config().limits.reads, 3);
    let user = user.flags(|flags| flags.home = Some("../third".into()));
    assert_eq!(
        user.config().home,
        user.path("work/a").join("../third"),
        "relative to the current directory"
    );

    fs::write(user.path("mine.toml"), "limits.reads = 4").expect("written");
    let mine = user.path("mine.toml");
    let gone = user.path("gone.toml");
    let user = user.set("PUNIE_CONFIG", mine);
    assert_eq!(user.config().limits.reads, 4);
    let user = user.flags(|flags| flags.config = Some(gone.clone()));
    assert!(
        user.refused().contains(&*gone.to_string_lossy()),
        "a file that was named must be there"
    );
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let user = ConfigUser::with_file("[log]\nlevel = \"warn\"")
        .set("PUNIE_LOG", "")
        .set("PUNIE_HOME", "");
    assert_eq!(user.config().log.level, LogLevel::Warn);
    assert_eq!(user.config().home, user.path(".punie"));
}

#[test]
fn every_key_says_where_its_value_came_from() {
    let user = ConfigUser::with_file("[limits]\nreads = 2").set("PUNIE_CALLER_TOKEN", "hush-hush");
    let config = user.config();
    assert_eq!(
        config.value_origin("limits.reads"),
        Some(&ValueOrigin::File {
            path: user.file(),
            line: 2
        })
    );
    assert_eq!(
        config.value_origin("limits.total"),
        Some(&ValueOrigin::Default)
    );
    assert_eq!(
        config.value_origin("workspaces.paths"),
        Some(&ValueOrigin::CurrentDir)
    );
    for key in [
        "home",
        "config",
        "backend.kind",
        "backend.poll.hold_ms",
        "log.level",
        "color",
    ] {
        assert_eq!(
            config.value_origin(key),
            Some(&ValueOrigin::Default),
            "{key}"
        );
    }
    let mut keys: Vec<_> = config
        .all_settings()
        .iter()
        .map(|setting| setting.key)
        .collect();
    let all = keys.len();
    keys.sort_unstable();
    keys.dedup();
    assert_eq!(keys.len(), all, "each key appears once");
    assert!(
        !format!("{:?} {:?}", config, config.all_settings()).contains("hush"),
        "no secret in the debug output"
    );
}

#[test]
fn colour_follows_the_flag_and_else_the_custom_variable() {
    let user = ConfigUser::new().set("NO_COLOR", "1");
    assert_eq!(user.config().color, ColorChoice::Never);
    let user = user.flags(|flags| flags.color = Some(ColorChoice::Always));
    assert_eq!(user.config().color, ColorChoice::Always);
}

// Workspaces

#[test]
fn workspaces_come_from_one_source_in_order_and_each_once() {
    let user = ConfigUser::with_file(
        "[workspaces]\npaths = [\"~/work/b\", \"../work/a\", \"~/work/./b\"]",
    );
    let a = user.path("work/a");
    let b = user.path("work/b");
    assert_eq!(
        user.config().workspaces,
        [b.clone(), a.clone()],
        "relative to the file's folder"
    );
    let list = std::env::join_paths([&a, &b]).expect("no colons in them");
    let user = user.set("PUNIE_WORKSPACE", list);
    assert_eq!(user.config().workspaces, [a.clone(), b.clone()]);
    let user = user.flags(|flags| flags.workspaces = vec!["../b".into()]);
    assert_eq!(
        user.config().workspaces,
        std::slice::from_ref(&b),
        "relative to the current directory"
    );
    assert_eq!(
        user.config().value_origin("workspaces.paths"),
        Some(&ValueOrigin::Flag("--workspace"))
    );
    symlink(&a, user.path("link")).expect("a link");
    let user = user.flags(|flags| flags.workspaces = vec!["~/link".into(), "../b".into()]);
    assert_eq!(user.config().workspaces, [a, b], "links are resolved");
}

#[test]
fn the_current_directory_counts_only_where_it_is_meant() {
    let user = ConfigUser::new().rule(WorkspaceRule::Named);
    let refused = user.refused();
    assert_contains!(refused, "--workspace", "PUNIE_WORKSPACE", "[workspaces]");
    let user = user.rule(WorkspaceRule::NotNeeded);
    assert_eq!(user.config().workspaces, Vec::<PathBuf>::new());
    let nowhere = ProcessEnvironment::new([], None, Some(user.path("")));
    Config::load(
        &GlobalFlags::default(),
        &nowhere,
        WorkspaceRule::OrCurrentDir,
    )
    .expect_err("no current directory");
    let flags = GlobalFlags {
        workspaces: vec!["a".into()],
        ..GlobalFlags::default()
    };
    let refused = Config::load(&flags, &nowhere, WorkspaceRule::Named)
        .expect_err("a relative path without a current directory");
    assert!(
        matches!(refused, ConfigError::NoCurrentDir { .. }),
        "{refused}"
    );
    let refused = Config::load(
        &GlobalFlags::default(),
        &ProcessEnvironment::new([], None, None),
        WorkspaceRule::NotNeeded,
    )
    .expect_err("no home");
    assert!(matches!(refused, ConfigError::NoHome), "{refused}");
}

#[test]
fn a_workspace_must_be_a_folder_and_keep_away_from_the_home() {
    let workspace = |path: &str| {
        let path = PathBuf::from(path);
        ConfigUser::new().flags(move |flags| flags.workspaces = vec![path])
    };
    assert_starts_with!(workspace("gone").refused(), "--workspace: the workspace");
    let user = workspace("~/file");
    fs::write(user.path("file"), "").expect("written");
    assert_contains!(user.refused(), "cannot be used");
    assert_contains!(workspace("").refused(), "empty");
    assert_contains!(workspace("~").refused(), "contains the runner's home");
    assert_contains!(workspace("/").refused(), "contains the runner's home");
    assert_contains!(workspace("~/.punie").refused(), "lies in the runner's home");
    let user = workspace("~/link");
    symlink(user.path(".punie"), user.path("link")).expect("a link");
    assert_contains!(user.refused(), "lies in the runner's home"; "links do not hide it");

    // A link in one workspace must not lead to another workspace, because commands can change the link.
    let both = |inner: &str| {
        let paths = ["~/work".into(), PathBuf::from(inner)];
        let user = ConfigUser::new().flags(move |flags| flags.workspaces = paths.to_vec());
        fs::create_dir_all(user.path("outside/deep")).expect("made");
        fs::create_dir_all(user.path("work/real")).expect("made");
        symlink(user.path("outside"), user.path("work/led")).expect("a link");
        symlink(user.path("work/real"), user.path("own")).expect("a link");
        user
    };
    for led in ["~/work/led", "~/work/led/deep"] {
        assert_contains!(both(led).refused(), "by a link in what commands write");
    }
    for fine in ["~/work/real", "~/own", "~/outside"] {
        assert_eq!(both(fine).config().workspaces.len(), 2, "{fine}");
    }

    // The same holds for a link in a folder that commands may write.
    let user = ConfigUser::with_file("[sandbox]\nwrite = [\"~/data\"]\n")
        .flags(|flags| flags.workspaces = vec!["~/data/project".into()]);
    fs::create_dir_all(user.path("data")).expect("made");
    fs::create_dir_all(user.path("outside")).expect("made");
    symlink(user.path("outside"), user.path("data/project")).expect("a link");
    assert_contains!(user.refused(), "by a link in what commands write");

    // The path of a home that does not exist yet is resolved too, with its links and `..`.
    symlink(user.path("work"), user.path("to-work")).expect("a link");
    for (home, apart) in [
        ("~/to-work/a/new/home", false),
        ("new", false),
        ("../new", true),
        ("~/to-work/b/../new/x", true),
    ] {
        let home = PathBuf::from(home);
        let flags = GlobalFlags {
            home: Some(home.clone()),
            ..GlobalFlags::default()
        };
        let environment =
            ProcessEnvironment::new([], Some(user.path("work/a")), Some(user.path("")));
        let loaded = Config::load(&flags, &environment, WorkspaceRule::OrCurrentDir);
        assert_eq!(loaded.is_ok(), apart, "{}", home.display());
    }
}

#[test]
fn a_missing_workspace_stays_in_the_list_and_all_of_them_missing_are_named() {
    let file = |paths: &str| ConfigUser::with_file(&format!("[workspaces]\npaths = [{paths}]\n"));
    let user = file("\"~/work/a\", \"~/disk/project\", \"~/linked\"");
    symlink(user.path("other-disk/project"), user.path("linked")).expect("a link");
    let expected = ["work/a", "disk/project", "other-disk/project"].map(|below| user.path(below));
    assert_eq!(user.config().workspaces, expected);
    fs::create_dir_all(user.path("other-disk/project")).expect("made");
    assert_eq!(
        user.config().workspaces,
        expected,
        "the list is the same once the folder exists"
    );

    let user = file("\"~/disk/one\", \"~/disk/two\"");
    let refused = user.refused();
    for name in ["disk/one", "disk/two"] {
        assert_contains!(refused, name, "cannot be used");
    }
    let user = user.rule(WorkspaceRule::NotNeeded);
    assert_eq!(
        user.config().workspaces.len(),
        2,
        "a command that needs no workspace"
    );

    // A missing workspace must not be in the home or behind a link in another workspace, either.
    let user = file("\"~/work/a\", \"~/.punie/state/gone\"");
    assert_contains!(user.refused(), "lies in the runner's home");
    let user = file("\"~/work\", \"~/work/led/gone\"");
    symlink(user.path("outside"), user.path("work/led")).expect("a link");
    assert_contains!(user.refused(), "by a link in what commands write");
}

#[test]
fn what_opens_a_service_needs_unsafe_and_a_plain_folder_needs_nothing() {
    let sandbox = |line: &str| ConfigUser::with_file(&format!("[sandbox]\n{line}\n"));
    for (line, named) in [
        ("write = [\"~/data\", \"/tmp/tmux-1000\"]", "/tmp/tmux-1000"),
        ("write = [\"/run/user/1000/bus\"]", "/run/user/1000/bus"),
        ("write = [\"~/agent/sock\"]", "/agent/sock"),
        ("write = [\"~/agent\"]", "/agent"),
        ("write = [\"~/.docker\"]", "/.docker"),
        ("local_ports = [5432, 2375]", "2375"),
    ] {
        let bind = |user: &ConfigUser| {
            fs::create_dir(user.path("agent")).expect("made");
            let socket = user.path("agent/sock");
            std::os::unix::net::UnixListener::bind(socket).expect("a socket")
        };
        let user = sandbox(line);
        let _socket = bind(&user);
        let refused = user.refused();
        assert_contains!(
            refused,
            "config.toml:2: ",
            &format!("{named} leads to programs that act for you"),
            "add unsafe = true under [sandbox]"
        );
        let user = sandbox(&format!("{line}\nunsafe = true"));
        let _socket = bind(&user);
        assert!(user.config().sandbox.unsafe_openings);
    }
    let user = sandbox("write = [\"~/data\", \"/srv/x\"]\nlocal_ports = [5432]");
    assert!(!user.config().sandbox.unsafe_openings);
}

#[test]
fn plain_http_goes_to_this_machine_only() {
    let from_flag = |url: &str| {
        let url = url.to_owned();
        ConfigUser::new().flags(|flags| flags.backend_url = Some(url))
    };
    assert!(from_flag("http://127.0.0.1:3210").load().is_ok());
    let refused = from_flag("http://10.0.0.1:3210").refused();
    assert_starts_with!(refused, "--backend-url: ");
    assert_contains!(refused, "allow_insecure_http = true");
    let user = ConfigUser::with_file("[backend]\nurl = \"http://10.0.0.1\"\n");
    assert_contains!(user.refused(), "config.toml:2: ");
    let user =
        ConfigUser::with_file("[backend]\nurl = \"http://10.0.0.1\"\nallow_insecure_http = true");
    assert!(user.load().is_ok());
}

#[test]
fn values_from_outside_the_file_are_checked_as_well() {
    let user = |name: &str, value: &str| ConfigUser::new().set(name, value).refused();
    assert_starts_with!(user("PUNIE_LOG", "loud"), "PUNIE_LOG: there is no \"loud\"");
    assert_starts_with!(
        user("PUNIE_DEVICE", "../x"),
        "PUNIE_DEVICE: a device id must be"
    );
    assert_starts_with!(
        user("PUNIE_BACKEND_URL", "https://a:hunter2@b"),
        "PUNIE_BACKEND_URL: the address has a user"
    );
    assert_lacks!(user("PUNIE_BACKEND_URL", "https://a:hunter2@b"), "hunter2");
    assert_lacks!(user("PUNIE_CALLER_TOKEN", "two words"), "words\"");
    let broken = ConfigUser::new()
        .set("PUNIE_LOG", OsString::from_vec(vec![0xff]))
        .refused();
    assert_contains!(broken, "not UTF-8");
    let user = ConfigUser::new().flags(|flags| flags.home = Some(PathBuf::new()));
    assert_starts_with!(user.refused(), "--home: the path is empty");
    let user =
        ConfigUser::new().flags(|flags| flags.caller_token = Some(Secret::new("tok\n".to_owned())));
    assert_eq!(
        user.config().caller.token,
        Some(Secret::new("tok".to_owned()))
    );
}

#[test]
fn a_mistyped_variable_is_told_and_stops_nothing() {
    let user = ConfigUser::new()
        .set("PUNIE_WORKSPACES", "/x")
        .set("PUNIE_ZZZ", "1")
        .set("HOME", "/x");
    let warnings = user.config().warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert_contains!(
        warnings[0],
        "PUNIE_WORKSPACES",
        "Did you mean PUNIE_WORKSPACE?"
    );
    assert_lacks!(warnings[1], "Did you mean");
}

#[test]
fn the_environment_does_not_show_its_values() {
    let environment = ProcessEnvironment::new([("API_KEY".into(), "hunter2".into())], None, None);
    assert!(!format!("{environment:?}").contains("hunter2"));
    assert_eq!(environment.get("API_KEY").expect("set"), "hunter2");
    assert_eq!(environment.variables().len(), 1);
}

#[test]
fn the_environment_of_this_process_can_be_captured() {
    let environment = ProcessEnvironment::from_process();
    assert_eq!(
        environment.current_dir(),
        std::env::current_dir().ok().as_deref()
    );
    assert_eq!(
        environment.path_variable(),
        std::env::var_os("PATH").as_deref()
    );
}
