//! The shell's hostile inputs, by their numbers. H56 (the text of commands) is tested in tests/it/policy, a real fork
//! bomb in `processes`.

use std::net::{TcpListener, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::{Child, Command, Stdio};

use punie_sandbox::{ConfinementLevel, NetworkAccess};
use punie_tool::request::ErrorCode;
use serde_json::json;

use super::HostileFixture;
use crate::harness::program::make_program;
use crate::harness::running::processes_with_argument;
use crate::harness::wait::wait_until;

/// A process that belongs to no command. It ends with the test.
struct ForeignProcess(Child);

impl ForeignProcess {
    fn new() -> Self {
        let child = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .spawn();
        Self(child.expect("it starts"))
    }

    fn is_running(&mut self) -> bool {
        self.0.try_wait().expect("a child of this test").is_none()
    }
}

impl Drop for ForeignProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test]
async fn every_way_out_of_the_self_test_is_shut_here() {
    for network in [
        NetworkAccess::None,
        NetworkAccess::Loopback,
        NetworkAccess::Ask,
        NetworkAccess::Full,
    ] {
        let setup = HostileFixture::with_rules(network, |_| {});
        assert_eq!(
            setup.confinement.level().await,
            ConfinementLevel::Full,
            "{network:?}"
        );
    }
}

#[tokio::test]
async fn h41_a_private_key_is_not_read_and_the_answer_says_what_would_show_it() {
    let setup = HostileFixture::new();
    let text = setup
        .bash("cat ~/.ssh/id_rsa; ls ~/.ssh; cat ~/notes/list; ls -A ~")
        .await;
    assert_lacks!(text, "the-private-key", "\nid_rsa", "a note", ".netrc");
    let text = setup.bash("cat ~/.ssh/id_rsa").await;
    assert_contains!(text, "read = [", "under [sandbox]");
    let text = setup
        .bash("cat \"$OUT\"/punie/keys/*; ls \"$OUT\"/punie; cat \"$OUT\"/punie/config.toml")
        .await;
    assert_contains!(text, "No such file"; "the runner's home must be hidden");
    assert_lacks!(text, "keys\n"; "the runner's home must be hidden");
}

#[tokio::test]
async fn h42_a_shells_start_up_file_is_not_added_to() {
    let setup = HostileFixture::new();
    let text = setup.bash("echo x >> ~/.bashrc").await;
    assert_contains!(text, "Read-only file system", "write = [");
    assert_eq!(setup.read("user/.bashrc"), "rc");
}

#[tokio::test]
async fn h43_a_link_made_inside_leads_no_write_outside() {
    let setup = HostileFixture::new();
    setup
        .bash("ln -s \"$OUT\" esc; echo x > esc/outside/y; echo x > esc/outside/kept; ls -l esc")
        .await;
    assert!(
        setup.path("work/esc").is_symlink(),
        "the command may make the link itself"
    );
    assert!(!setup.path("outside/y").exists());
    assert_eq!(setup.read("outside/kept"), "kept");
}

#[tokio::test]
async fn h44_a_hidden_file_gets_no_second_name() {
    let setup = HostileFixture::new();
    setup.bash("ln ~/.netrc here; ln ~/notes/list list").await;
    assert!(!setup.path("work/here").exists() && !setup.path("work/list").exists());
    assert_eq!(
        setup.path("user/.netrc").metadata().expect("there").nlink(),
        1
    );
}

#[tokio::test]
async fn h45_a_file_of_the_users_is_not_moved_away() {
    let setup = HostileFixture::new();
    setup.bash("mv ~/.gitconfig .; mv ~/notes notes").await;
    assert!(setup.path("user/.gitconfig").exists() && setup.path("user/notes/list").exists());
}

#[tokio::test]
async fn h46_nothing_outside_is_reached_by_any_kind_of_socket() {
    for network in [
        NetworkAccess::None,
        NetworkAccess::Loopback,
        NetworkAccess::Ask,
    ] {
        let setup = HostileFixture::with_rules(network, |_| {});
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a port");
        let udp = UdpSocket::bind("127.0.0.1:0").expect("a port");
        tcp.set_nonblocking(true).expect("set");
        udp.set_nonblocking(true).expect("set");
        let port = |address: std::net::SocketAddr| address.port();
        let to_tcp = port(tcp.local_addr().expect("an address"));
        let to_udp = port(udp.local_addr().expect("an address"));
        let text = setup
            .bash(&format!(
                "(echo x > /dev/tcp/127.0.0.1/{to_tcp}); (echo x > /dev/udp/127.0.0.1/{to_udp}); \
                 (echo x > /dev/tcp/192.0.2.1/80); curl -sS -m 5 http://127.0.0.1:{to_tcp}; true"
            ))
            .await;
        assert!(tcp.accept().is_err(), "{network:?}: {text}");
        assert!(udp.recv(&mut [0; 8]).is_err(), "{network:?}: {text}");
        for kind in ["vsock", "icmp", "packet"] {
            let told = setup.escape(kind).await;
            assert_eq!(told, format!("{kind} EPERM"), "{network:?}");
        }
    }
}

#[tokio::test]
async fn h47_the_variables_that_lead_to_agents_and_daemons_are_not_there() {
    let setup = HostileFixture::new();
    let text = setup
        .bash("env | grep -E '^(SSH_|DOCKER_|DBUS_|XDG_RUNTIME)' || echo none")
        .await;
    assert_eq!(text, "none");
}

#[tokio::test]
async fn h47_no_socket_of_a_hidden_daemon_is_reached_nor_seen() {
    for network in [
        NetworkAccess::Loopback,
        NetworkAccess::None,
        NetworkAccess::Full,
    ] {
        let mut daemons = Vec::new();
        let setup = HostileFixture::with_rules(network, |rules| {
            let user = rules.user_home.clone().expect("a home");
            std::fs::create_dir_all(user.join(".docker/run")).expect("made");
            for socket in [".docker/run/docker.sock", "agent.sock"] {
                let daemon = UnixListener::bind(user.join(socket)).expect("a socket");
                daemon.set_nonblocking(true).expect("set");
                daemons.push(daemon);
            }
            rules.hide.push(user.join("agent.sock"));
        });
        for socket in ["user/.docker/run/docker.sock", "user/agent.sock"] {
            let told = setup
                .escape(&format!("path {}", setup.path(socket).display()))
                .await;
            assert_ne!(told, "path out", "{socket} with {network:?}");
        }
        assert!(
            daemons.iter().all(|daemon| daemon.accept().is_err()),
            "{network:?}"
        );
        let text = setup
            .bash("stat -c %a ../user/.docker ../user/.docker/run; chmod 700 ../user/.docker; pwd")
            .await;
        assert!(
            text.matches("No such file").count() == 3 && text.ends_with("/work"),
            "the working folder must not change: {text}"
        );
        assert!(
            setup.path("user/.docker/run/docker.sock").exists(),
            "the socket must still exist outside"
        );
    }
}

#[tokio::test]
async fn h47_terminals_and_agents_beside_a_workspace_for_a_while_are_not_reached() {
    let setup = HostileFixture::new();
    let beside = setup.path("..").canonicalize().expect("there");
    assert_eq!(
        beside,
        std::path::Path::new("/tmp"),
        "this test needs its workspace in /tmp, where terminals have their sockets"
    );
    let name = uuid::Uuid::new_v4().simple().to_string();
    let folder = beside.join(format!("tmux-{name}"));
    std::fs::create_dir_all(folder.join("deep/er")).expect("made");
    let places = [
        folder.join("deep/er/default"),
        folder.join("default"),
        beside.join(&name),
    ];
    let daemons = places
        .each_ref()
        .map(|place| UnixListener::bind(place).expect("a socket"));
    let text = setup
        .bash(&format!("ls {}; echo > own; ls", folder.display()))
        .await;
    let mut told = Vec::new();
    for place in &places {
        told.push(setup.escape(&format!("path {}", place.display())).await);
    }
    std::fs::remove_dir_all(&folder)
        .and(std::fs::remove_file(&places[2]))
        .expect("removed");
    for (daemon, told) in daemons.iter().zip(&told) {
        daemon.set_nonblocking(true).expect("set");
        assert!(daemon.accept().is_err() && told != "path out", "{told}");
    }
    assert_contains!(text, "No such file");
    assert_ends_with!(text, "own");
}

#[tokio::test]
async fn a_socket_for_a_while_that_the_owner_names_is_reached() {
    let place = std::path::Path::new("/tmp").join(uuid::Uuid::new_v4().simple().to_string());
    let daemon = UnixListener::bind(&place).expect("a socket");
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |rules| {
        rules.write.push(place.clone());
    });
    let told = setup.escape(&format!("path {}", place.display())).await;
    std::fs::remove_file(&place).expect("removed");
    daemon.set_nonblocking(true).expect("set");
    assert!(daemon.accept().is_ok() && told == "path out", "{told}");
}

#[tokio::test]
async fn h48_an_abstract_socket_outside_is_not_reached() {
    let setup = HostileFixture::new();
    let name = format!("punie-hostile-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
    let daemon = UnixListener::bind_addr(&address).expect("a socket");
    daemon.set_nonblocking(true).expect("set");
    let told = setup.escape(&format!("abstract {name}")).await;
    assert!(daemon.accept().is_err() && told != "abstract out", "{told}");
    // With the machine's own network, only the kernel's scope for abstract sockets blocks the connection.
    let setup = HostileFixture::with_rules(NetworkAccess::Full, |_| {});
    assert_eq!(
        setup.escape(&format!("abstract {name}")).await,
        "abstract EPERM"
    );
}

#[tokio::test]
async fn what_others_share_by_a_number_is_not_reached_and_nothing_is_typed_into_a_terminal() {
    for network in [NetworkAccess::Loopback, NetworkAccess::Full] {
        let setup = HostileFixture::with_rules(network, |_| {});
        let escapes = super::compile_program("escapes", &setup.path("outside"));
        let outside = |words: &[&str]| {
            let output = Command::new(&escapes)
                .args(words)
                .output()
                .expect("it starts");
            String::from_utf8(output.stdout)
                .expect("text")
                .trim()
                .to_owned()
        };
        // Databases and desktops share memory like this.
        let id = outside(&["share"]);
        let told = [
            setup.escape(&format!("memory {id}")).await,
            setup.escape(&format!("forget {id}")).await,
        ];
        assert_eq!(told, ["memory EINVAL", "forget EINVAL"], "{network:?}");
        assert_eq!(
            outside(&["memory", &id]),
            "memory out",
            "the shared memory still exists"
        );
        assert_eq!(outside(&["forget", &id]), "forget out");
        assert_eq!(setup.escape("type").await, "type EPERM");
    }
}

#[tokio::test]
async fn h49_neither_the_runner_nor_anybody_else_is_signalled() {
    let setup = HostileFixture::new();
    let mut stranger = ForeignProcess::new();
    assert_eq!(
        setup.escape(&format!("kill {}", stranger.0.id())).await,
        "kill EPERM"
    );
    // A command could also end the process by a limit on its processor time.
    let limited = setup
        .bash(&format!("prlimit --pid {} --nofile=1:1", stranger.0.id()))
        .await;
    assert_contains!(limited, "Operation not permitted");
    let text = setup
        .bash(&format!("kill -0 {}; kill -0 $PPID", std::process::id()))
        .await;
    assert_eq!(text.matches("Operation not permitted").count(), 2, "{text}");
    assert_contains!(text, "KillShell");
    // This signals all processes at once. The shell outside would write a line if it received the signal.
    let heard = setup.path("outside/heard");
    let listening = format!(
        "trap 'echo x >> {0}' WINCH; echo up > {0}; while :; do sleep 0.1; done",
        heard.display()
    );
    let shell = Command::new("bash")
        .args(["-c", &listening])
        .spawn()
        .expect("it starts");
    let _shell = ForeignProcess(shell);
    crate::harness::wait::wait_until("the listening shell", || {
        heard.exists() && setup.read("outside/heard") == "up\n"
    })
    .await;
    setup.escape("everybody").await;
    setup.bash("sleep 0.3").await;
    assert_eq!(setup.read("outside/heard"), "up\n");
    assert!(stranger.is_running());
}

#[tokio::test]
async fn h50_the_runners_memory_and_environment_are_not_read_and_it_is_not_traced() {
    let setup = HostileFixture::new();
    let runner = std::process::id();
    for file in ["mem", "environ", "maps", "root/etc/passwd", "cwd", "fd/0"] {
        let text = setup
            .bash(&format!("head -c 1 /proc/{runner}/{file} > got; ls -l got"))
            .await;
        assert!(
            !text.contains(" 1 ") || text.contains("denied"),
            "{file}: {text}"
        );
        assert_eq!(
            setup
                .path("work/got")
                .metadata()
                .map_or(0, |meta| meta.len()),
            0,
            "{file}: {text}"
        );
    }
    let traced = setup.escape(&format!("ptrace {runner}")).await;
    assert_starts_with!(traced, "ptrace EPERM\n");
    assert_contains!(traced, "cannot trace processes");
}

#[tokio::test]
async fn h51_no_namespace_no_mount_and_no_right_that_a_program_brings() {
    let setup = HostileFixture::new();
    for what in ["userns", "clone", "bpf", "userfaultfd", "keyctl"] {
        assert_eq!(setup.escape(what).await, format!("{what} EPERM"));
    }
    assert_eq!(setup.escape("mount .").await, "mount EPERM");
    let text = setup
        .bash("grep -E '^(NoNewPrivs|CapEff|CapPrm):' /proc/self/status | tr -s '\\t ' ' '; unshare -rm true")
        .await;
    assert_contains!(text, "NoNewPrivs: 1"; "set-user-ID programs must gain no rights");
    assert_eq!(text.matches(" 0000000000000000").count(), 2, "{text}");
    assert_contains!(text, "Operation not permitted");
}

#[tokio::test]
async fn h52_io_uring_is_said_not_to_exist() {
    assert_eq!(
        HostileFixture::new().escape("io_uring").await,
        "io_uring ENOSYS"
    );
}

#[tokio::test]
async fn h53_a_limit_of_processes_is_set_which_is_a_gap_for_root_and_without_namespaces() {
    let text = HostileFixture::new().bash("ulimit -u; ulimit -c").await;
    assert_eq!(text, "1024\n0");
}

#[tokio::test]
async fn h53_each_command_is_counted_in_a_user_namespace_of_its_own() {
    let setup = HostileFixture::new();
    let show = "readlink /proc/self/ns/user; cat /proc/self/uid_map | tr -s ' '; id -u";
    // Both run at the same time: the kernel may give the number of a finished namespace to the next one.
    let waiting = format!("{show}; touch shown; until [ -e go ]; do sleep 0.05; done");
    let beside = async {
        wait_until("the first command's namespace", || {
            setup.path("work/shown").exists()
        })
        .await;
        let other = setup.bash(show).await;
        std::fs::write(setup.path("work/go"), "").expect("written");
        other
    };
    let (one, other) = tokio::join!(setup.bash(&waiting), beside);
    let user = rustix::process::geteuid().as_raw();
    let rest = format!("\n {user} {user} 1\n{user}");
    for text in [&one, &other] {
        assert_starts_with!(text, "user:[");
        assert_ends_with!(text, &rest);
    }
    assert_ne!(one, other);
}

#[tokio::test]
async fn h54_what_left_its_session_and_its_environment_is_ended_with_its_command() {
    let setup = HostileFixture::new();
    // A number of seconds that no other process sleeps.
    let marker = format!("8{:07}054", std::process::id());
    let command = format!(
        "env -i setsid nohup sleep {marker} > /dev/null 2>&1 & setsid sleep {marker} & sleep 60"
    );
    assert_error!(
        setup
            .call(json!({"command": command, "timeout": 700}))
            .await
            .expect_err("a timeout"),
        Timeout
    );
    assert_eq!(processes_with_argument(&marker), Vec::<u32>::new());
}

#[tokio::test]
async fn h55_however_removal_is_spelled_what_is_outside_stays() {
    let setup = HostileFixture::new();
    for command in [
        "rm -rf \"$OUT\"/outside",
        "rm${IFS}-rf${IFS}$OUT/outside",
        "r\\m -r\"f\" \"$OUT\"/outsid?",
        "echo cm0gLXJmICIkT1VUIi9vdXRzaWRl | base64 -d | sh",
        "find \"$OUT\"/outside -delete",
        "python3 -c 'import os, shutil; shutil.rmtree(os.environ[\"OUT\"] + \"/outside\", True)'",
        "perl -e 'unlink \"$ENV{OUT}/outside/kept\"'",
        "echo \"$OUT\"/outside/kept | xargs -n1 truncate -s 0",
        "cd \"$OUT\"/outside && mv kept gone",
        "f() { rm -rf \"$1\"; }; f \"$OUT\"/outside",
    ] {
        setup.bash(command).await;
        assert_eq!(setup.read("outside/kept"), "kept", "{command}");
    }
}

#[tokio::test]
async fn h57_variables_that_load_code_are_refused() {
    let setup = HostileFixture::new();
    for name in [
        "BASH_ENV",
        "PROMPT_COMMAND",
        "LD_PRELOAD",
        "BASH_FUNC_ls%%",
        "ENV",
    ] {
        let refused = setup
            .call(json!({"command": "true", "env": {name: "x"}}))
            .await
            .expect_err(name);
        assert!(
            matches!(
                refused.stable_code(),
                ErrorCode::PolicyDenied | ErrorCode::InvalidArgs
            ),
            "{name}: {refused}"
        );
    }
}

#[tokio::test]
async fn h58_a_program_of_the_workspaces_in_the_place_of_another_is_confined_as_that() {
    let setup = HostileFixture::new();
    make_program(
        &setup.path("work/git"),
        "#!/bin/sh\necho ours; echo x > \"$OUT\"/outside/kept\n",
    );
    let text = setup.bash("PATH=.:$PATH; git status").await;
    assert_starts_with!(text, "ours");
    assert_eq!(setup.read("outside/kept"), "kept");
}

#[tokio::test]
async fn h59_no_command_begins_outside_or_behind_a_link_that_leads_there() {
    let setup = HostileFixture::new();
    std::os::unix::fs::symlink(setup.path("outside"), setup.path("work/link")).expect("a link");
    for folder in ["..", "/etc", "link", "link/.."] {
        let refused = setup
            .call(json!({"command": "pwd", "working_directory": folder}))
            .await;
        refused.expect_err(folder);
    }
}

#[tokio::test]
async fn h60_what_reads_input_gets_its_end_at_once() {
    assert_eq!(
        HostileFixture::new()
            .bash("cat; read -r x; echo \"code $?\"")
            .await,
        "code 1"
    );
}

#[tokio::test]
async fn h61_a_nul_byte_and_a_megabyte_are_refused_with_what_to_do() {
    let setup = HostileFixture::new();
    assert_error!(
        setup
            .call(json!({"command": "echo \0"}))
            .await
            .expect_err("a NUL"),
        InvalidArgs
    );
    for bytes in [1 << 20, 2 << 20] {
        assert_error!(
            setup
                .call(json!({"command": "x".repeat(bytes)}))
                .await
                .expect_err("too large"),
            TooLarge
        );
    }
}

#[tokio::test]
async fn h62_modes_times_and_attributes_outside_stay_and_no_set_id_bit_is_made() {
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |rules| {
        let outside = rules.workspaces[0].with_file_name("outside");
        rules.read.push(outside);
    });
    let kept = setup.path("outside/kept");
    let before = kept.metadata().expect("there");
    let text = setup
        .bash(
            "cd \"$OUT\"/outside; chmod 000 kept; touch -d 2001-01-01 kept; chown 1:1 kept; \
             python3 -c 'import os; os.setxattr(\"kept\", \"user.x\", b\"x\")'",
        )
        .await;
    assert_eq!(text.matches("Read-only file system").count(), 4, "{text}");
    let after = kept.metadata().expect("there");
    assert_eq!(after.mode(), before.mode());
    assert_eq!(after.mtime(), before.mtime());
    assert_eq!(after.ctime_nsec(), before.ctime_nsec());
    let python = "import os\nfor call in (lambda: os.chmod('sh', 0o4755), lambda: os.chmod('sh', 0o2755), \
                  lambda: os.open('new', os.O_CREAT | os.O_WRONLY, 0o4755), \
                  lambda: os.mknod('node', 0o104755)):\n try:\n  call(); print('made')\n except OSError as error: \
                  print(error.strerror)\n";
    std::fs::write(setup.path("work/bits.py"), python).expect("written");
    let text = setup
        .bash("cp /bin/bash sh; python3 bits.py; chmod 755 sh; ls -l sh")
        .await;
    assert_eq!(text.matches("Operation not permitted").count(), 4, "{text}");
    assert_contains!(text, "-rwxr-xr-x");
}
