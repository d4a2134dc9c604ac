//! The caches of commands: they show the user's files, store the commands' writes, and leave the user's files
//! unchanged. `manual-tests/caches_on_both_sides.sh` runs package managers on both sides at once.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use punie_core::ids::{ConversationId, RequestId};
use punie_host::local::confinement::{CachesInUse, EmptyCache};
use punie_tool::ToolContext;
use serde_json::{Value, json};

use super::HostileFixture;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::tools;
use crate::harness::wait::{wait_for_some, wait_until};

fn write_file(path: &Path, text: impl AsRef<[u8]>) {
    fs::create_dir_all(path.parent().expect("a parent folder")).expect("made");
    fs::write(path, text).expect("written");
}

/// Runs a command in this conversation, and returns its output.
async fn run_bash(setup: &HostileFixture, conversation: &str, command: &str) -> String {
    let mut cx = ToolContext::for_detached_call(RequestId::new());
    cx.conversation = ConversationId::parse(conversation).expect("an id");
    let args = json!({ "command": command });
    let reply = tools::call_with(&setup.registry, "Bash", args, cx).await;
    said_by(tools::reply_text(&reply.expect("it runs")))
}

/// Returns the output, or an empty string if the command printed nothing.
fn said_by(text: &str) -> String {
    if text.starts_with("Command completed successfully (no output)") {
        String::new()
    } else {
        text.to_owned()
    }
}

/// Returns the disk space that a folder uses, in bytes.
fn disk_usage(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten();
    let entries = entries.map(|entry| entry.expect("readable").path());
    let sizes = entries.map(|path| {
        let metadata = path.symlink_metadata().expect("readable");
        let inside = if metadata.is_dir() {
            disk_usage(&path)
        } else {
            0
        };
        metadata.blocks() * 512 + inside
    });
    sizes.sum()
}

#[tokio::test]
async fn a_cache_shows_what_the_users_has_without_credentials_and_takes_what_commands_write() {
    let setup = HostileFixture::new();
    let user = setup.path("user");
    for (path, text) in cases! {
        (".cargo/registry/index", "index"),
        (".cargo/credentials.toml", "token"),
        (".cargo/config.toml", "[net]"),
        (".cargo/bin/tool", "#!/bin/sh\necho tool\n"),
        (".m2/repository/a.jar", "jar"),
        (".m2/settings.xml", "a company's password"),
        (".npm/_cacache/x", "cached"),
        (".npm/_logs/x", "log"),
        (".gitconfig", "[user]\n\tname = A Person\n[credential]\n\thelper = store --file x\n"),
    } {
        write_file(&user.join(path), text);
    }
    let text = setup
        .bash(
            "cd; cat .cargo/registry/index .npm/_cacache/x .m2/repository/a.jar .cargo/config.toml; echo; git config user.name; \
             cat .cargo/bin/tool .gitconfig .m2/settings.xml; ls .cargo .npm .m2; echo poison > .cargo/registry/index; \
             echo x > .cargo/bin/tool; echo new > .cache/new; echo jar > .m2/repository/b.jar; cat .cache/new",
        )
        .await;
    assert_starts_with!(
        text,
        "indexcachedjar[net]\n\nA Person\n#!/bin/sh\necho tool\n"
    );
    assert_lacks!(text, "helper", "credentials", "_logs", "password");
    assert_contains!(text, "Read-only file system", "\nnew");
    assert_eq!(setup.read("user/.cargo/registry/index"), "index");
    assert!(!user.join(".cache/new").exists() && !user.join(".m2/repository/b.jar").exists());
    let text = setup
        .bash("cd; cat .cargo/registry/index .m2/repository/b.jar")
        .await;
    assert_eq!(text, "poison\njar", "the files of the earlier command");
    let shared = [".cargo/registry", ".npm/_cacache", ".m2/repository"].map(str::to_owned);
    let in_use = CachesInUse::OfCommands {
        shared: shared.to_vec(),
        empty: Vec::new(),
    };
    assert_eq!(setup.confinement.caches_in_use(), in_use);
}

#[tokio::test]
async fn nothing_is_copied_beside_large_caches() {
    let setup = HostileFixture::new();
    let registry = setup.path("user/.cargo/registry");
    write_file(&registry.join("large"), vec![b'x'; 64 << 20]);
    for number in 0..3000 {
        let folder = registry.join(format!("src/{}", number / 100));
        write_file(&folder.join(number.to_string()), "small");
    }
    let text = setup
        .bash("cd ~/.cargo/registry; stat -c %s large; find src -type f | wc -l")
        .await;
    assert_eq!(text, "67108864\n3000");
    let size = disk_usage(&setup.path("punie"));
    assert!(size < 20 << 20, "the home takes {size} bytes");
}

#[tokio::test]
async fn what_a_command_removes_is_gone_for_all_conversations_and_the_users_stays_whole() {
    let setup = HostileFixture::new();
    for name in ["a/one", "a/two", "b/three"] {
        write_file(&setup.path("user/.npm/_cacache").join(name), name);
    }
    let files = "cd ~/.npm/_cacache; find . -type f | sort";
    for conversation in ["one", "two"] {
        let text = run_bash(&setup, conversation, files).await;
        assert_eq!(text, "./a/one\n./a/two\n./b/three");
    }
    let both = tokio::join!(
        run_bash(
            &setup,
            "one",
            "cd ~/.npm/_cacache; for n in $(seq 200); do echo $n > a/1-$n; done; rm a/one; ls a | wc -l"
        ),
        run_bash(
            &setup,
            "two",
            "cd ~/.npm/_cacache; for n in $(seq 200); do echo $n > a/2-$n; done; ls a >/dev/null"
        ),
    );
    assert_eq!(
        both.1, "",
        "the second command must print nothing: {both:?}"
    );
    let text = run_bash(
        &setup,
        "two",
        "ls ~/.npm/_cacache/a | wc -l; ls ~/.npm/_cacache/a/one 2>&1",
    )
    .await;
    assert_starts_with!(text, "401\n");
    assert_contains!(text, "No such file");
    run_bash(&setup, "one", "rm -rf ~/.npm/_cacache ~/.npm/* 2>/dev/null").await;
    assert_eq!(run_bash(&setup, "two", files).await, "");
    assert_eq!(
        run_bash(
            &setup,
            "two",
            "mkdir ~/.npm/_cacache/a && ls ~/.npm/_cacache/a"
        )
        .await,
        ""
    );
    assert_eq!(count_files(&setup.path("user/.npm/_cacache")), 3);
}

fn count_files(folder: &Path) -> usize {
    let entries = fs::read_dir(folder).expect("readable");
    let entries = entries.map(|entry| entry.expect("readable").path());
    entries
        .map(|path| if path.is_dir() { count_files(&path) } else { 1 })
        .sum()
}

#[tokio::test]
async fn the_next_command_sees_what_the_users_tools_changed_and_the_one_that_runs_works_on() {
    let setup = HostileFixture::new();
    let package = setup.path("user/.cargo/registry/src/package");
    let unpack = |text: &str| {
        for name in ["done", "first", "second"] {
            write_file(&package.join(name), text);
        }
    };
    unpack("old");
    let read = "cd ~/.cargo/registry/src/package; cat done first";
    assert_eq!(setup.bash(read).await, "oldold");
    // A tool of the user removes the files that it unpacked, and unpacks them again.
    fs::remove_dir_all(&package).expect("removed");
    assert_eq!(
        run_bash(&setup, "one", "ls ~/.cargo/registry/src").await,
        ""
    );
    unpack("new");
    let read = "cd ~/.cargo/registry/src/package; cat done first second; ls | wc -l";
    assert_eq!(setup.bash(read).await, "newnewnew3");
    let waits = "cd ~/.cargo/registry/src/package; exec 3< first; echo mine > fourth; touch $OUT/work/waits; \
                 until [ -e $OUT/work/changed ]; do sleep 0.05; done; cat <&3; cat fourth";
    let change = async {
        wait_until("the command waits", || setup.path("work/waits").exists()).await;
        fs::remove_dir_all(&package).expect("removed");
        unpack("newer");
        // The start of another command makes the kernel drop its cache of the layers while this command runs.
        let text = run_bash(&setup, "other", "cat ~/.cargo/registry/src/package/fourth").await;
        assert_eq!(text, "mine");
        write_file(&setup.path("work/changed"), "");
    };
    let (text, ()) = tokio::join!(setup.bash(waits), change);
    assert_eq!(text, "newmine");
}

#[tokio::test]
async fn two_runners_of_a_home_never_write_to_one_layer() {
    let first = HostileFixture::new();
    write_file(&first.path("user/.npm/_cacache/x"), "the user's");
    let read = "cat ~/.npm/_cacache/x ~/.npm/_cacache/mine 2>/dev/null; true";
    first.bash("echo first > ~/.npm/_cacache/mine").await;
    let second = first.beside();
    assert_eq!(second.bash(read).await, "the user's");
    second.bash("echo second > ~/.npm/_cacache/mine").await;
    assert_eq!(first.bash(read).await, "the user'sfirst");
    assert_eq!(second.bash(read).await, "the user'ssecond");
    drop(first);
    // The kernel unmounts the layers a little later.
    let kept = async || {
        let next = second.beside();
        let text = next.bash(read).await;
        (text == "the user'sfirst").then_some(())
    };
    wait_for_some("the layers of the first runner", kept).await;
}

/// Returns the caches that the runner publishes, read in its own mount namespace.
async fn published_caches(setup: &RunnerFixture, runner: &RunningProgram) -> CachesInUse {
    let file = format!(
        "/proc/{}/root{}/state/in-force.json",
        runner.pid(),
        setup.setting.home.display()
    );
    let read = async || {
        let settings: Value = serde_json::from_slice(&fs::read(&file).ok()?).ok()?;
        let caches = serde_json::from_value(settings["confinement"]["caches"].clone()).ok()?;
        (caches != CachesInUse::Unknown).then_some(caches)
    };
    wait_for_some("the caches in force", read).await
}

async fn run_command(setup: &RunnerFixture, command: &str) -> String {
    setup.bash(command).await.text()
}

#[tokio::test]
async fn layers_that_a_killed_runners_command_still_uses_are_left_to_it() {
    let setup = RunnerFixture::new().await;
    write_file(&setup.setting.logs.join(".npm/_cacache/x"), "the user's");
    let runner = setup.run();
    let shell = json!({
        "command": "cd ~/.npm/_cacache; echo left > mine; while sleep 0.1; do date > alive; done",
        "run_in_background": true
    });
    let shell = setup.call_tool("Bash", &shell).await.text();
    let layer = setup
        .setting
        .home
        .join("commands/caches/1/.npm-_cacache/upper");
    wait_until("the command writes", || layer.join("alive").exists()).await;
    runner.kill();
    let next = setup.run();
    let read = "cat ~/.npm/_cacache/x ~/.npm/_cacache/mine 2>/dev/null; true";
    assert_starts_with!(run_command(&setup, read).await, "the user's"; "{shell}");
    run_command(&setup, "echo next > ~/.npm/_cacache/mine").await;
    assert_eq!(
        fs::read_to_string(layer.join("mine")).expect("there"),
        "left\n"
    );
    let kill = json!({ "shell_id": "sh_1" });
    let killed = setup.call_tool("KillShell", &kill).await;
    assert_eq!(killed.verdict().0, "ok", "{killed:?}");
    next.terminate();
    next.end().await;
    let last = setup.run();
    assert_starts_with!(run_command(&setup, read).await, "the user'sleft");
    drop(last);
}

#[tokio::test]
#[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
async fn in_a_container_the_caches_are_empty_and_status_says_why() {
    let setup = RunnerFixture::new().await;
    write_file(&setup.setting.logs.join(".npm/_cacache/x"), "the user's");
    let layers = setup.file("../layers");
    for name in ["upper", "work"] {
        fs::create_dir_all(layers.join(name)).expect("made");
    }
    let home = setup.setting.home.display();
    let layers = layers.display();
    let mount = format!(
        "mount -t overlay overlay -o lowerdir={home},upperdir={layers}/upper,workdir={layers}/work,userxattr {home}"
    );
    let tried = Command::new("unshare")
        .args(["-Urm", "sh", "-c", &mount])
        .status();
    if !tried.is_ok_and(|tried| tried.success()) {
        eprintln!("skipped: this system lets no user mount an overlay");
        return;
    }
    let start = format!("{mount} && exec \"$0\" run");
    let mut command = Command::new("unshare");
    command.args([
        "-Urm",
        "sh",
        "-c",
        &start,
        env!("CARGO_BIN_EXE_punie-runner"),
    ]);
    let runner = RunningProgram::launch(&setup.setting, command, &[]);
    let text = run_command(
        &setup,
        "ls ~/.npm/_cacache; echo mine > ~/.npm/_cacache/mine && echo wrote",
    )
    .await;
    assert_eq!(text.lines().next(), Some("wrote"), "{text}");
    let text = run_command(&setup, "cat ~/.npm/_cacache/mine").await;
    assert_starts_with!(text, "mine"; "the file of the earlier command");
    let why = "the runner's home lies on an overlay, as in a container".to_owned();
    let path = ".npm/_cacache".to_owned();
    let in_use = CachesInUse::OfCommands {
        shared: Vec::new(),
        empty: vec![EmptyCache { path, why }],
    };
    assert_eq!(published_caches(&setup, &runner).await, in_use);
}

#[tokio::test]
async fn status_says_which_caches_are_shared_and_what_the_home_takes() {
    let setup = RunnerFixture::new().await;
    write_file(&setup.setting.logs.join(".npm/_cacache/x"), "the user's");
    write_file(
        &setup.setting.home.join("command-home/.npm/_cacache/x"),
        vec![b'x'; 1 << 20],
    );
    let runner = setup.run();
    published_caches(&setup, &runner).await;
    runner
        .wait_for_log("removed the copies of your caches")
        .await;
    assert!(!setup.setting.home.join("command-home").exists());
    let text = setup.command(&["status", "-v"]).await.out;
    assert_contains!(text, "shared with commands", ".npm/_cacache");
    assert_contains!(text, "of it caches and other files of commands");
    let size =
        setup.command(&["--json", "status", "-v"]).await.json()["homeSize"]["total"].as_u64();
    assert!(size.is_some_and(|size| size < 20 << 20), "{size:?}");
}

#[tokio::test]
async fn copied_settings_of_an_earlier_version_are_removed_and_status_says_so_once() {
    let setup = RunnerFixture::new().await;
    let copy = setup.setting.home.join("commands/home/.gitconfig");
    write_file(&copy, "[sendemail]\n\tsmtpPass = of-earlier\n");
    let runner = setup.run();
    runner.wait_for_log("had copied of your settings").await;
    assert_eq!(fs::read_to_string(&copy).expect("there"), "");
    let said = "had copied of your settings";
    let text = setup.command(&["status"]).await.out;
    assert_contains!(text, said);
    setup.command(&["ack"]).await;
    drop(runner);
    let runner = setup.run();
    published_caches(&setup, &runner).await;
    let text = setup.command(&["status"]).await.out;
    assert_lacks!(text, said);
}
