//! The commands' view of the file system: it has no secrets and no sockets, even those that no list names. At a level
//! without this view, the lists of hidden files apply. A test states which secrets stay readable then.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};

use punie_core::ids::{ConversationId, RequestId};
use punie_sandbox::NetworkAccess;
use punie_tool::ToolContext;
use serde_json::json;

use super::HostileFixture;
use super::absence::OtherKernel;
use crate::harness::tools;

/// Files in which programs store secrets.
const SECRETS: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/private-keys-v1.d/key",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".git-credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".bash_history",
    ".bashrc",
    ".config/gh/hosts.yml",
    ".config/age/keys.txt",
    ".config/solana/id.json",
    ".config/hub",
    ".config/heroku/token",
    ".config/Slack/Cookies",
    ".config/discord/token",
    ".config/Element/db",
    ".config/Code/User/globalStorage/state.vscdb",
    ".config/Cursor/state",
    ".config/JetBrains/c.kdbx",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".config/ngrok/ngrok.yml",
    ".config/stripe/config.toml",
    ".config/netlify/config.json",
    ".config/hcloud/cli.toml",
    ".config/argocd/config",
    ".config/rbw/config.json",
    ".config/filezilla/sitemanager.xml",
    ".config/remmina/x.remmina",
    ".config/configstore/x.json",
    ".config/io.datasette.llm/keys.json",
    ".config/google-chrome-beta/Default/Cookies",
    ".local/share/atuin/history.db",
    ".local/share/zsh/history",
    ".local/share/opencode/auth.json",
    ".local/share/com.vercel.cli/auth.json",
    ".librewolf/x/logins.json",
    ".zen/x/logins.json",
    "snap/bitwarden/current/data.json",
    ".bitcoin/wallet.dat",
    ".ethereum/keystore/key",
    ".android/adbkey",
    ".minikube/client.key",
    ".pulumi/credentials.json",
    ".oci/config",
    ".databrickscfg",
    ".kaggle/kaggle.json",
    ".terraformrc",
    ".vault_pass",
    ".authinfo",
    ".msmtprc",
    ".mbsyncrc",
    ".smbcredentials",
    ".nuget/NuGet/NuGet.Config",
    ".ivy2/.credentials",
    ".sbt/credentials",
    ".bundle/config",
    ".condarc",
    ".step/authorities/key",
    ".tsh/keys/key",
    ".vnc/passwd",
    ".wgetrc",
    ".curlrc",
    ".sqlite_history",
    ".rediscli_history",
    ".irb_history",
    ".lesshst",
    "Documents/passwords.txt",
    "Downloads/key.pem",
];

/// The files that the lists hide where there is no view.
const LISTED: &[&str] = &[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".gnupg/private-keys-v1.d/key",
    ".kube/config",
    ".docker/config.json",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".git-credentials",
    ".cargo/credentials.toml",
    ".m2/settings.xml",
    ".gradle/gradle.properties",
    ".bash_history",
    ".config/gh/hosts.yml",
];

const CANARY: &str = "a-secret-of-the-owner";

fn plant_secrets(home: &Path) -> Vec<PathBuf> {
    let random = (0..100).map(|number| {
        let name = uuid::Uuid::new_v4().simple().to_string();
        match number % 3 {
            0 => PathBuf::from(format!(".{name}")),
            1 => PathBuf::from(format!(".config/{name}/{number}")),
            _ => PathBuf::from(format!(".local/share/{name}/deep/{number}")),
        }
    });
    let named = SECRETS.iter().map(PathBuf::from);
    let paths: Vec<PathBuf> = named.chain(random).map(|path| home.join(path)).collect();
    for path in &paths {
        std::fs::create_dir_all(path.parent().expect("a parent folder")).expect("made");
        std::fs::write(path, CANARY).expect("written");
    }
    paths
}

#[tokio::test]
async fn no_tool_reads_a_secret_of_the_home_whether_a_list_names_it_or_not() {
    let setup = HostileFixture::new();
    let paths = plant_secrets(&setup.path("user"));
    let list: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    std::fs::write(setup.path("work/list"), list.join("\n") + "\n").expect("written");
    let text = setup
        .bash(
            "while read -r path; do cat \"$path\"; cp \"$path\" copy; ln \"$path\" link; done < list 2>/dev/null; \
             grep -rs a-secret-of \"$HOME\" /tmp /run /root /home /proc/1/root 2>/dev/null; cat copy link 2>/dev/null; \
             ls -A \"$HOME\"; echo end",
        )
        .await;
    assert!(!text.contains(CANARY) && text.ends_with("end"), "{text}");
    for name in [".ssh", ".aws", "Documents", ".netrc", ".bashrc"] {
        assert!(!text.lines().any(|line| line == name), "{name}: {text}");
    }
    for path in &paths {
        assert_eq!(std::fs::read_to_string(path).expect("there"), CANARY);
    }
}

#[test]
fn without_a_view_the_lists_hold_and_this_gets_through() {
    let config = "[sandbox]\nrequire = \"partial\"\n";
    let bare = OtherKernel::under("without", &["namespaces"], config);
    let paths = plant_secrets(&bare.path("user").canonicalize().expect("real"));
    let list: Vec<String> = paths
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    std::fs::write(bare.path("work/list"), list.join("\n") + "\n").expect("written");
    let command = "while read -r path; do cat \"$path\" >/dev/null 2>&1 && echo \"$path\"; done < list > open; wc -l < open";
    let args = json!({ "command": command }).to_string();
    let answer = bare.run_json(&["call", "Bash", &args]);
    let open = std::fs::read_to_string(bare.path("work/open")).expect("written");
    let open: Vec<&str> = open.lines().collect();
    let home = bare.path("user").canonicalize().expect("real");
    let kept: Vec<PathBuf> = paths
        .into_iter()
        .filter(|path| !open.contains(&&*path.display().to_string()))
        .map(|path| path.strip_prefix(&home).expect("in it").to_owned())
        .collect();
    let listed: Vec<PathBuf> = LISTED.iter().map(PathBuf::from).collect();
    assert_eq!(kept, listed, "{answer}");
    let level = bare.run_json(&["status"])["confinement"].to_string();
    assert_contains!(level, "read_home");
}

#[tokio::test]
async fn no_socket_of_another_program_is_reached_wherever_it_is() {
    let setup = HostileFixture::new();
    let own = uuid::Uuid::new_v4().simple().to_string();
    let mut folders = vec![
        setup.path("user/.cache/x"),
        setup.path("user/.config/app/run"),
        setup.path("user/.nvm/alias"),
    ];
    let elsewhere = [
        "/tmp", "/var/tmp", "/run", "/opt", "/srv", "/var/lib", "/dev/shm",
    ];
    folders.extend(elsewhere.map(|folder| Path::new(folder).join(&own)));
    let mut daemons = Vec::new();
    let mut paths = Vec::new();
    for folder in &folders {
        // An ordinary user cannot create folders in the system's folders.
        if std::fs::create_dir_all(folder).is_err() {
            continue;
        }
        for number in 0..4 {
            let path = folder.join(format!("s{number}"));
            daemons.push(UnixListener::bind(&path).expect("a socket"));
            paths.push(path.display().to_string());
        }
    }
    let names: Vec<String> = (0..4).map(|number| format!("{own}-{number}")).collect();
    for name in &names {
        let address = SocketAddr::from_abstract_name(name.as_bytes()).expect("a name");
        daemons.push(UnixListener::bind_addr(&address).expect("a socket"));
        paths.push(format!("@{name}"));
    }
    let python = "import socket, sys\nfor line in open('list'):\n path = line.strip().replace('@', '\\0')\n for kind in \
                  (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):\n  try:\n   s = \
                  socket.socket(socket.AF_UNIX, kind); s.connect(path); print('reached', line)\n  except OSError: pass\n\
                  print('end')\n";
    std::fs::write(setup.path("work/list"), paths.join("\n")).expect("written");
    std::fs::write(setup.path("work/dial.py"), python).expect("written");
    let text = setup.bash("python3 dial.py").await;
    let reached: Vec<bool> = daemons
        .iter()
        .map(|daemon| daemon.set_nonblocking(true).and(daemon.accept()).is_ok())
        .collect();
    for folder in folders.iter().filter(|folder| folder.ends_with(&own)) {
        let _ = std::fs::remove_dir_all(folder);
    }
    assert_eq!(text, "end");
    assert!(
        !reached.contains(&true) && daemons.len() >= 20,
        "{reached:?}"
    );
}

#[tokio::test]
async fn temporary_files_are_a_conversations_own_and_stay_for_its_next_command() {
    let setup = HostileFixture::new();
    let name = format!("punie-{}", uuid::Uuid::new_v4().simple());
    let write = format!(
        "for at in /tmp /var/tmp /dev/shm; do echo kept > $at/{name} || exit; done; echo $TMPDIR"
    );
    let bash = async |conversation: &str, command: &str| {
        let args = json!({ "command": command });
        let mut cx = ToolContext::for_detached_call(RequestId::new());
        cx.conversation = ConversationId::parse(conversation).expect("an id");
        let reply = tools::call_with(&setup.registry, "Bash", args, cx)
            .await
            .expect("it runs");
        tools::reply_text(&reply).to_owned()
    };
    assert_eq!(bash("one", &write).await, "/tmp");
    for at in ["/tmp", "/var/tmp", "/dev/shm"] {
        assert!(
            !Path::new(at).join(&name).exists(),
            "the machine's own {at} must not have the file"
        );
        let read = format!("cat {at}/{name}");
        assert_eq!(bash("one", &read).await, "kept");
        assert_contains!(bash("two", &read).await, "No such file"; "{at}");
    }
    let text = bash("one", "mktemp /tmp/x.XXXX >/dev/null && python3 -c 'import multiprocessing as m; m.Pool(2).close(); m.Lock(); print(1)'").await;
    assert_eq!(text, "1");
}

#[tokio::test]
async fn commands_reach_the_chosen_ports_of_this_machine_and_no_others() {
    use std::io::{Read as _, Write as _};

    let serve = || {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("its address").port();
        std::thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut asked = [0; 4];
                let _ = stream
                    .read_exact(&mut asked)
                    .and_then(|()| stream.write_all(&asked));
            }
        });
        port
    };
    let open = serve();
    let closed = serve();
    let setup = HostileFixture::with_rules(NetworkAccess::Loopback, |rules| {
        rules.local_ports = vec![open];
    });
    let ask = |port: u16| {
        format!("exec 3<>/dev/tcp/127.0.0.1/{port} && printf ping >&3 && head -c 4 <&3")
    };
    assert_eq!(setup.bash(&ask(open)).await, "ping");
    assert_eq!(setup.bash(&ask(open)).await, "ping", "a second connection");
    let text = setup.bash(&ask(closed)).await;
    assert_contains!(
        text,
        "Connection refused",
        &format!("local_ports = [{closed}]")
    );
}

#[tokio::test]
async fn odd_files_in_the_folders_of_commands_keep_no_later_command_from_running() {
    let setup = HostileFixture::new();
    let spoil = "cd; rm -rf .julia/* .cargo/* 2>/dev/null; mkfifo .julia/bin; echo x > .cargo/bin; ln -s /etc .cabal/bin; chmod 000 .npm .cache; \
                 echo spoilt";
    assert_eq!(setup.bash(spoil).await, "spoilt");
    for name in [".julia/bin", ".cargo/bin", ".cabal/bin"] {
        std::fs::create_dir_all(setup.path("user").join(name)).expect("made");
    }
    // A toolchain that is installed meanwhile requires a new view.
    std::fs::create_dir(setup.path("user/.nvm")).expect("made");
    let text = setup
        .bash("ls -d ~/.nvm && touch ~/.npm/x ~/.cache/x && echo ran")
        .await;
    assert_ends_with!(text, "ran");
    let conversation = "one";
    let bash = async |command: &str| {
        let mut cx = ToolContext::for_detached_call(RequestId::new());
        cx.conversation = ConversationId::parse(conversation).expect("an id");
        let args = json!({ "command": command });
        let reply = tools::call_with(&setup.registry, "Bash", args, cx).await;
        tools::reply_text(&reply.expect("it runs")).to_owned()
    };
    let exchange = "for at in \"$OUT\"/punie/tmp/c-*; do mv $at/tmp $at/gone; ln -s / $at/tmp; done 2>/dev/null; echo tried";
    let exchange = exchange.replace("\"$OUT\"", &setup.path("").display().to_string());
    assert_eq!(bash(&exchange).await, "tried");
    std::fs::create_dir(setup.path("user/.pyenv")).expect("made");
    assert_eq!(
        bash("echo x > /tmp/x && ls -d ~/.pyenv >/dev/null && echo ran").await,
        "ran"
    );
}
