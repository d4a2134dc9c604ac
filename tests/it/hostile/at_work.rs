//! Actions that the sandbox must allow: building, committing, serving on loopback, and all that the owner's settings
//! open.

use punie_home::{Home, SecretStore};
use punie_sandbox::NetworkAccess;
use punie_text::redact::Secret;
use serde_json::json;

use super::HostileFixture;
use crate::harness::left_out::can_be_tried;
use crate::harness::tools;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test]
async fn a_program_is_built_and_run_in_the_workspace() {
    let setup = HostileFixture::new();
    let text = setup
        .bash("printf '#include <stdio.h>\\nint main(){puts(\"built\");}' > a.c && cc a.c -o a && ./a")
        .await;
    assert_eq!(text, "built");
    let text = setup
        .bash("f=$(mktemp) && echo x > \"$f\" && cat \"$f\" && echo y > /dev/null && echo z > /dev/stderr")
        .await;
    assert_eq!(text, "x\nz");
}

#[tokio::test]
async fn a_thread_is_given_the_usual_policy_by_its_id() {
    let setup = HostileFixture::new();
    let program = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
static void *set(void *unused) {
    struct sched_param none = {0};
    printf("%d %d\n", pthread_setschedparam(pthread_self(), SCHED_OTHER, &none),
           pthread_setschedparam(pthread_self(), SCHED_BATCH, &none) != 0);
    return unused;
}
int main(void) {
    pthread_t thread;
    return pthread_create(&thread, 0, set, 0) || pthread_join(thread, 0);
}
"#;
    std::fs::write(setup.path("work/a.c"), program).expect("written");
    let text = setup.bash("cc -pthread a.c -o a && ./a").await;
    assert_eq!(text, "0 1");
}

#[tokio::test]
async fn a_process_reads_the_limits_of_one_that_it_names_and_sets_none() {
    let setup = HostileFixture::new();
    let text = setup
        .bash(
            "prlimit --pid $$ --nofile --noheadings -o RESOURCE; \
             python3 -c 'import os, resource; print(len(resource.prlimit(os.getpid(), resource.RLIMIT_CORE)))'; \
             prlimit --pid $$ --nofile=64",
        )
        .await;
    assert_starts_with!(text, "NOFILE\n2\n");
    assert_contains!(text, "failed to set the NOFILE");
}

#[tokio::test]
async fn what_stays_refused_to_a_program_is_told_with_what_to_do_instead() {
    let setup = HostileFixture::new();
    let priority = "`nice`, `ionice`, `chrt` or `prlimit` before the command";
    for (command, words) in cases! {
        ("renice -n 19 -p $$", priority),
        ("ionice -c 3 -p $$", priority),
        ("chrt -i -p 0 $$", priority),
        ("prlimit --pid $$ --nofile=64", priority),
        ("python3 -c 'import os; os.setpriority(os.PRIO_PROCESS, os.getpid(), 19)'", priority),
        ("echo x > f; chmod u+s f", "set-ID bits"),
    } {
        let text = setup.bash(command).await;
        let last = text.lines().last().unwrap_or_default();
        assert_contains!(last, words; "{command}: {text}");
    }
    // The proposed commands work.
    let text = setup
        .bash("nice -n 19 echo a; ionice -c 3 echo b; chrt -i 0 echo c; prlimit --nofile=64 echo d")
        .await;
    assert_eq!(text, "a\nb\nc\nd");
}

#[tokio::test]
async fn a_program_with_a_leak_check_is_told_how_to_run_without_it() {
    let setup = HostileFixture::new();
    let program = "#include <stdlib.h>\nint main(void) { return malloc(7) == 0; }\n";
    std::fs::write(setup.path("work/a.c"), program).expect("written");
    for check in ["leak", "address"] {
        let built = setup
            .bash(&format!(
                "cc -fsanitize={check} a.c -o a-{check} && echo built"
            ))
            .await;
        let missing = (built != "built").then_some("the compiler has no such library");
        if !can_be_tried(&format!("-fsanitize={check}"), missing) {
            continue;
        }
        let text = setup.bash(&format!("./a-{check}")).await;
        let hint = "LSAN_OPTIONS=detect_leaks=0";
        assert!(
            text.lines().last().is_some_and(|line| line.contains(hint)),
            "{text}"
        );
        let text = setup.bash(&format!("{hint} ./a-{check} && echo ran")).await;
        assert_eq!(text, "ran", "{check}");
    }
}

#[tokio::test]
async fn git_commits_in_the_workspace() {
    let setup = HostileFixture::new();
    let text = setup
        .bash(
            "git init -q . && git config user.email a@b && git config user.name a && echo x > f && git add f && \
             git commit -q -m one && git log --format=%s",
        )
        .await;
    assert_eq!(text, "one");
}

#[tokio::test]
async fn a_crate_without_dependencies_is_built() {
    let cargo = std::path::Path::new(env!("CARGO"));
    let toolchain = cargo
        .parent()
        .and_then(|bin| bin.parent())
        .expect("a toolchain")
        .to_owned();
    let setup =
        HostileFixture::with_rules(NetworkAccess::Loopback, |rules| rules.read.push(toolchain));
    std::fs::create_dir(setup.path("work/src")).expect("made");
    std::fs::write(
        setup.path("work/src/main.rs"),
        "fn main() { println!(\"built\"); }",
    )
    .expect("written");
    let manifest = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2021\"\n";
    std::fs::write(setup.path("work/Cargo.toml"), manifest).expect("written");
    let bin = cargo.parent().expect("a folder").display();
    let text = setup
        .bash(&format!(
            "export PATH={bin}:$PATH; cargo build --offline -q && ./target/debug/a"
        ))
        .await;
    assert_eq!(text, "built");
}

#[tokio::test]
async fn commands_reach_each_other_by_loopback_over_calls() {
    let setup = HostileFixture::new();
    let server = "import socket\ns=socket.create_server(('127.0.0.1',0))\nopen('port.new','w').write(str(s.getsockname()[1]))\n\
                  import os\nos.rename('port.new','port')\nc,_=s.accept()\nc.sendall(b'served\\n')\nc.close()\n";
    std::fs::write(setup.path("work/server.py"), server).expect("written");
    let begun = setup
        .call(json!({"command": "python3 server.py", "run_in_background": true}))
        .await;
    let begun = begun.expect("it starts");
    assert_contains!(tools::reply_text(&begun), "running");
    let text = setup
        .bash("until [ -s port ]; do :; done; exec 3<>/dev/tcp/127.0.0.1/$(cat port); cat <&3")
        .await;
    assert_eq!(text, "served");
}

#[tokio::test]
async fn what_the_owner_opens_is_open_and_nothing_beside() {
    let setup = HostileFixture::with_rules(NetworkAccess::None, |rules| {
        let home = rules.user_home.clone().expect("a home");
        rules.read.push(home.join(".ssh"));
        rules.hide.push(home.join("notes"));
        rules
            .write
            .push(home.parent().expect("a parent").join("outside"));
    });
    let text = setup
        .bash("cat ~/.ssh/id_rsa; cat ~/notes/list; echo x > ~/.ssh/new; echo new > \"$OUT\"/outside/kept")
        .await;
    assert_starts_with!(text, "the-private-key");
    assert_lacks!(text, "a note");
    assert!(!setup.path("user/.ssh/new").exists());
    assert_eq!(setup.read("outside/kept"), "new\n");
}

#[tokio::test]
async fn a_toolchain_that_is_installed_later_is_seen_by_the_next_command() {
    let setup = HostileFixture::new();
    assert_eq!(setup.bash("true; echo first").await, "first");
    let version = setup.path("user/.nvm/versions/node/v1");
    std::fs::create_dir_all(&version).expect("made");
    assert_eq!(setup.bash("ls ~/.nvm; echo unpacked").await, "unpacked");
    std::fs::create_dir(version.join("lib")).expect("made");
    std::fs::write(version.join("lib/x"), "seen").expect("written");
    assert_eq!(
        setup.bash("cat ~/.nvm/versions/node/v1/lib/x").await,
        "seen"
    );
}

#[tokio::test]
async fn opening_an_application_is_refused_where_it_would_undo_the_confinement() {
    let setup = HostileFixture::new();
    let refused = setup
        .confinement
        .check_app_allowed()
        .expect_err("it is not allowed");
    assert_error!(refused, PolicyDenied: "apps = true");
}

#[tokio::test]
async fn one_file_ends_at_its_limit() {
    let setup = HostileFixture::new();
    let text = setup
        .bash("truncate -s 64G full && echo made; truncate -s 65G over; echo $?; rm -f full")
        .await;
    assert_starts_with!(text, "made"; "ended by SIGXFSZ");
    assert_contains!(text, "153"; "ended by SIGXFSZ");
    assert_eq!(
        setup
            .path("work/over")
            .metadata()
            .map_or(0, |file| file.len()),
        0
    );
}

#[tokio::test]
async fn a_command_in_the_background_that_failed_by_it_says_so_wherever_it_is_asked_about() {
    let setup = HostileFixture::new();
    let begun = json!({"command": "echo x >> ~/.bashrc", "run_in_background": true});
    setup.call(begun).await.expect("it starts");
    let line = "The owner can allow it: write = [";
    wait_for_some("the setting in the last line", async || {
        let told = setup.shell_status("sh_1").await;
        told.lines().last()?.contains(line).then_some(())
    })
    .await;
    let told = tools::call_tool(&setup.registry, "KillShell", json!({"shell_id": "sh_1"}))
        .await
        .expect("it is there");
    assert_contains!(tools::reply_text(&told), "had ended already: exit code 1");
    assert_contains!(
        tools::reply_text(&told).lines().last().expect("a line"),
        line
    );
}

#[tokio::test]
async fn a_failure_that_confinement_does_not_explain_is_told_as_before() {
    let setup = HostileFixture::new();
    let reply = setup
        .call(json!({"command": "ls nothing-here"}))
        .await
        .expect("it runs");
    assert_lacks!(tools::reply_text(&reply), "may be because");
}

#[tokio::test]
async fn the_secrets_of_a_command_are_read_by_that_command_alone() {
    let setup = HostileFixture::new();
    let home = Home::open_home(&setup.path("punie")).expect("the home");
    SecretStore::in_home(&home)
        .set_secret("mailer", &Secret::new("hunter2hunter2".to_owned()))
        .expect("the secret is stored");
    let skill = home.skills_dir().join("mailing");
    std::fs::create_dir_all(&skill).expect("made");
    let head = "---\nsecretMounts:\n  env: {KEY: mailer}\n  files: {TOKEN: mailer}\n---\nDo it.\n";
    std::fs::write(skill.join("SKILL.md"), head).expect("written");
    let command = "echo \"$TOKEN\" > place; cat \"$TOKEN\" > seen; echo $$ > pid; exec sleep 600";
    let args = json!({"skill_id": "mailing", "command": command, "working_directory": setup.path("work"),
                      "run_in_background": true});
    tools::call_tool(&setup.registry, "SkillBash", args)
        .await
        .expect("it runs");
    wait_until("the read of the secret", || setup.path("work/pid").exists()).await;
    assert_eq!(setup.read("work/seen"), "hunter2hunter2");
    let text = setup
        .bash("cat \"$(cat place)\"; cat \"/proc/$(cat pid)/environ\"; ls \"$(dirname \"$(cat place)\")\"")
        .await;
    assert_lacks!(text, "hunter2");
    assert_contains!(text, "Permission denied"; "its environment must not be readable");
    assert_eq!(text.matches("No such file").count(), 2, "{text}");
    assert!(
        std::path::Path::new(setup.read("work/place").trim()).exists(),
        "the secret's file still exists"
    );
}

#[tokio::test]
async fn what_the_owner_hides_is_hidden_from_the_next_command_on_once_it_is_there() {
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |rules| {
        let work = rules.workspaces[0].clone();
        rules
            .hide
            .extend([work.join("private"), work.join("settings.local")]);
    });
    std::fs::write(setup.path("work/plain"), "plain").expect("written");
    assert_eq!(setup.bash("cat plain").await, "plain");
    std::fs::create_dir(setup.path("work/private")).expect("made");
    for file in ["private/file", "settings.local"] {
        std::fs::write(setup.path("work").join(file), "the-token").expect("written");
    }
    let text = setup
        .bash("cat private/file settings.local plain; ls private")
        .await;
    assert_lacks!(text, "the-token");
    assert_contains!(text, "plain");
    assert_lacks!(text, "\nfile");
}

#[tokio::test]
async fn the_users_other_terminals_are_neither_typed_into_nor_read() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let terminal =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&terminal)
        .and_then(|()| unlockpt(&terminal))
        .expect("the terminal's other side");
    let name = ptsname(&terminal, Vec::new())
        .expect("a name")
        .into_string()
        .expect("text");
    let text = HostileFixture::new()
        .bash(&format!(
            "echo sudo password: > {name}; cat < {name}; ls /dev/pts"
        ))
        .await;
    assert_contains!(text, "No such file"; "reading the terminal must fail");
    let is_refusal = |line: &str| line.contains("No such file") || line.contains("Read-only");
    assert!(text.lines().take(2).all(is_refusal), "{text}");
    assert!(
        !text
            .lines()
            .any(|line| line.chars().all(|c| c.is_ascii_digit())),
        "no terminal may be listed: {text}"
    );
}

#[tokio::test]
async fn what_a_command_in_the_background_prints_is_its_own_and_it_opens_its_output_again() {
    let setup = HostileFixture::new();
    let command = "while [ ! -e go ]; do sleep 0.1; done; echo own > /dev/stdout; echo by-name > /proc/self/fd/1";
    setup
        .call(json!({"command": command, "run_in_background": true}))
        .await
        .expect("it starts");
    let home = Home::open_home(&setup.path("punie")).expect("the home");
    let mut pipes = std::fs::read_dir(home.shells_dir()).expect("the pipes");
    let pipe = pipes.next().expect("a pipe").expect("a name").path();
    let text = setup
        .bash(&format!(
            "echo forged > {0} || head -c 1 < {0} || exit 7; touch go",
            pipe.display()
        ))
        .await;
    assert_contains!(text, "Exit code 7");
    setup.bash("touch go").await;
    let text = wait_for_some("the shell's output", async || {
        let text = setup.shell_status("sh_1").await;
        text.contains("\nown\nby-name").then_some(text)
    })
    .await;
    assert_lacks!(text, "forged");
}

#[tokio::test]
async fn a_pipeline_without_a_network_is_told_why_though_it_ends_with_0() {
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |_| {});
    let refused = "curl: (6) Could not resolve host: example.com";
    let text = setup.bash(&format!("echo '{refused}' >&2 | head -1")).await;
    assert_contains!(text, "no internet access");
    assert_lacks!(text, "Exit code");
    let text = setup.bash(&format!("echo 'a page says {refused}'")).await;
    assert_lacks!(text, "no internet access");
    let setup = HostileFixture::with_rules(NetworkAccess::Full, |_| {});
    let text = setup.bash(&format!("echo '{refused}' >&2 | head -1")).await;
    assert_lacks!(text, "no internet access");
}

#[tokio::test]
async fn package_managers_do_not_try_again_where_there_is_no_network() {
    const ASK: &str = "echo npm=$npm_config_fetch_retries pip=$PIP_RETRIES cargo=$CARGO_NET_RETRY";
    let text = HostileFixture::with_rules(NetworkAccess::Loopback, |_| {})
        .bash(ASK)
        .await;
    assert_contains!(text, "npm=0 pip=1 cargo=0");
    let text = HostileFixture::with_rules(NetworkAccess::Full, |_| {})
        .bash(ASK)
        .await;
    assert_contains!(text, "npm= pip= cargo=");
}
