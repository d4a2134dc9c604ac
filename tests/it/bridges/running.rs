//! A deployed bridge: the runner restarts it, confines it, and ends it with all its processes.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::{bridges_command, deploy_bridge, find_listed, lacks_node, read_data, write_bundle};
use crate::harness::process::RunningProgram;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// A bridge that reports which accesses succeed, starts a child in a session of its own, and does not end on SIGTERM.
const CURIOUS: &str = r#"
const fs = require("fs"), net = require("net"), { spawn } = require("child_process");
const data = process.env.PUNIE_BRIDGE_DATA, [work, declared, other] = ["WORK", DECLARED, OTHER];
process.on("SIGTERM", () => console.log("not yet"));
const child = spawn("sleep", ["600"], { detached: true, stdio: "ignore" });
const attempt = (work) => { try { work(); return "yes"; } catch (error) { return error.code; } };
const connect = (port) => new Promise((done) => {
  const proxy = new URL(process.env.HTTPS_PROXY || "http://127.0.0.1:1");
  const socket = net.connect(proxy.port, proxy.hostname, () => socket.write(
    `CONNECT 127.0.0.1:${port} HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic ` +
    Buffer.from(`${proxy.username}:${proxy.password}`).toString("base64") + "\r\n\r\n"));
  socket.on("data", (text) => { done(String(text).split(" ")[1]); socket.destroy(); });
  socket.on("error", (error) => done(error.code));
});
(async () => {
  const report = {
    pids: [process.pid, child.pid],
    ownFolder: attempt(() => fs.writeFileSync(__dirname + "/x", "")),
    workspace: attempt(() => fs.readFileSync(work + "/notes")),
    toolchain: attempt(() => fs.readFileSync("OWNER/.rustup/settings.toml")),
    program: attempt(() => fs.readFileSync("OWNER/bin/tool")),
    home: attempt(() => fs.readFileSync(data + "/../../../state/bridges/bridges.json")),
    home2: fs.realpathSync(process.env.HOME) === fs.realpathSync(data),
    declared: await connect(declared), other: await connect(other),
  };
  console.log("the secret is " + process.env.BOT_TOKEN);
  fs.writeFileSync(data + "/part", JSON.stringify(report));
  fs.renameSync(data + "/part", data + "/report");
})();
setInterval(() => {}, 1000);
"#;

async fn serve_once() -> (u16, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let serving = tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let _ = client.read(&mut [0; 64]).await;
            let _ = client.shutdown().await;
        }
    });
    (port, serving)
}

fn set_secret(setup: &RunnerFixture, name: &str, value: &str) {
    use punie_home::{Home, SecretStore};
    use punie_text::redact::Secret;
    let home = Home::open_home(&setup.setting.home).expect("a home");
    let secrets = SecretStore::in_home(&home);
    secrets
        .set_secret(name, &Secret::new(value.to_owned()))
        .expect("stored");
}

#[tokio::test]
async fn a_bridge_is_confined_and_a_stop_ends_all_its_processes() {
    if lacks_node() {
        return;
    }
    let setup = RunnerFixture::new().await;
    setup.write("notes", "private");
    // The folder of the logs is in the owner's home.
    let owner = &setup.setting.logs;
    for file in [".rustup/settings.toml", "bin/tool"] {
        let path = owner.join(file);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, "of the owner").expect("written");
    }
    let (declared, _serving) = serve_once().await;
    let (other, _others) = serve_once().await;
    let code = CURIOUS
        .replace("WORK", &setup.setting.workspace.display().to_string())
        .replace("OWNER", &owner.display().to_string())
        .replace("DECLARED", &declared.to_string())
        .replace("OTHER", &other.to_string());
    let bundle = write_bundle(&setup, "curious", &code);
    let host = format!("127.0.0.1:{declared}");
    let beside = ["--host", &host, "--secret", "BOT_TOKEN=bot"];
    let deployed = deploy_bridge(&setup, "curious", &bundle, &beside).await;
    assert_eq!(deployed.code, Some(0), "{deployed:?}");
    let runner = setup.run();
    wait_for_some("a runner", async || {
        setup.status().await["running"].as_bool().filter(|is| *is)
    })
    .await;
    // Without its secret the bridge is not started, and the command gives the reason.
    let started = setup.command(&["bridges", "start", "curious"]).await;
    assert_eq!(started.code, Some(1), "{started:?}");
    assert!(started.log.contains("secrets set bot"), "{started:?}");
    wait_for_some("the bridge that was not started in `status`", async || {
        let attention = setup.status().await["attention"].to_string();
        let words = "the bridge curious was not started";
        attention.contains(words).then_some(())
    })
    .await;
    set_secret(&setup, "bot", "value-of-the-bot-token");
    let started = bridges_command(&setup, &["start", "curious"]).await;
    assert_eq!(started.code, Some(0), "{started:?}");
    wait_for_some("the bridge to run", async || {
        let listed = find_listed(&setup, "curious").await;
        listed.filter(|line| line["state"] == "running")
    })
    .await;
    let report = read_data(&setup, "curious", "report").await;
    let report: serde_json::Value = serde_json::from_str(&report).expect("JSON");
    assert_eq!(report["declared"], "200", "{report}");
    assert_eq!(report["other"], "403", "{report}");
    assert_eq!(report["home2"], true, "{report}");
    for refused in ["ownFolder", "workspace", "toolchain", "program", "home"] {
        let code = report[refused].as_str().expect("a text");
        assert!(
            ["EACCES", "ENOENT", "EROFS"].contains(&code),
            "{refused}: {report}"
        );
    }
    let pids = report["pids"].as_array().expect("a list");
    let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
    assert!(pids.iter().all(|pid| is_alive(pid)), "{pids:?}");
    let stopped = bridges_command(&setup, &["stop", "--all"]).await;
    assert_eq!(stopped.json()["state"], "stopped");
    assert!(!pids.iter().any(|pid| is_alive(pid)), "{pids:?}");
    let log = setup.setting.home.join("logs/bridge-curious.log");
    let log = wait_for_some("the bridge's output in its log", async || {
        let log = std::fs::read_to_string(&log).ok()?;
        (log.contains("the secret is ") && log.contains("not yet")).then_some(log)
    })
    .await;
    assert!(!log.contains("value-of-the-bot-token"), "{log}");
    assert_eq!(
        find_listed(&setup, "curious").await.expect("one")["state"],
        "stopped"
    );
    drop(runner);
}

/// A bridge that appends its version and its process id to a file.
const COUNTING: &str = r#"
const fs = require("fs"), data = process.env.PUNIE_BRIDGE_DATA;
fs.appendFileSync(data + "/pids", `VERSION ${process.pid}\n`);
setInterval(() => {}, 1000);
"#;

async fn lines_of(setup: &RunnerFixture, name: &str, count: usize) -> Vec<String> {
    let path = setup
        .setting
        .home
        .join("bridges")
        .join(name)
        .join("data/pids");
    wait_for_some("enough starts of the bridge", async || {
        let text = std::fs::read_to_string(&path).ok()?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count && text.ends_with('\n')).then_some(lines)
    })
    .await
}

fn pid_of(line: &str) -> &str {
    line.rsplit(' ').next().expect("a word")
}

#[tokio::test]
async fn a_killed_runner_and_a_deployment_leave_one_copy() {
    if lacks_node() {
        return;
    }
    let setup = RunnerFixture::new().await;
    let version = |name: &str| write_bundle(&setup, name, &COUNTING.replace("VERSION", name));
    deploy_bridge(&setup, "counting", &version("one"), &[]).await;
    let started = bridges_command(&setup, &["start", "counting"]).await;
    assert_eq!(
        started.json()["state"],
        "wanted",
        "no runner runs: {started:?}"
    );
    let runner = setup.run();
    let first = lines_of(&setup, "counting", 1).await;
    assert!(is_alive(pid_of(&first[0])));
    runner.kill();
    let runner = setup.run();
    let second = lines_of(&setup, "counting", 2).await;
    assert!(
        !is_alive(pid_of(&second[0])),
        "the copy of the killed runner has ended"
    );
    assert!(is_alive(pid_of(&second[1])));
    let deployed = deploy_bridge(&setup, "counting", &version("two"), &[]).await;
    assert_eq!(deployed.code, Some(0), "{deployed:?}");
    let third = lines_of(&setup, "counting", 3).await;
    assert!(
        !is_alive(pid_of(&third[1])) && third[2].starts_with("two "),
        "{third:?}"
    );
    // The runner completes the deployment that a killed command had decided.
    let bundle = version("three").display().to_string();
    let args = ["bridges", "deploy", "counting", &bundle];
    let armed = [("PUNIE_FAILPOINTS", "bridge.decided=kill".as_ref())];
    let killed = RunningProgram::start_with(&setup.setting, &args, &armed)
        .end()
        .await;
    assert_eq!(killed.code, None, "{killed:?}");
    let fourth = lines_of(&setup, "counting", 4).await;
    assert!(
        !is_alive(pid_of(&fourth[2])) && fourth[3].starts_with("three "),
        "{fourth:?}"
    );
    let removed = bridges_command(&setup, &["remove", "counting"]).await;
    assert_eq!(removed.json()["state"], "removed");
    assert!(!is_alive(pid_of(&fourth[3])));
    assert!(!setup.setting.home.join("bridges/counting").exists());
    drop(runner);
}

#[tokio::test]
async fn a_bridge_that_ends_is_started_again_and_ends_with_the_runner() {
    if lacks_node() {
        return;
    }
    let setup = RunnerFixture::new().await;
    let once = "if (!fs.existsSync(data + '/again')) { fs.writeFileSync(data + '/again', ''); process.exit(3); }\n";
    let code = COUNTING.replace("setInterval", &format!("{once}setInterval"));
    deploy_bridge(
        &setup,
        "ending",
        &write_bundle(&setup, "ending", &code),
        &[],
    )
    .await;
    bridges_command(&setup, &["start", "ending"]).await;
    let runner = setup.run();
    let pids = lines_of(&setup, "ending", 2).await;
    let seen = wait_for_some("the restarted bridge on the list", async || {
        find_listed(&setup, "ending")
            .await
            .filter(|line| line["state"] == "running" && line["restarts"] == 1)
    })
    .await;
    assert_eq!(seen["lastExit"], "exit code 3", "{seen}");
    runner.stop().await;
    assert!(
        !is_alive(pid_of(&pids[1])),
        "the bridge ends with the runner"
    );
    assert_eq!(
        find_listed(&setup, "ending").await.expect("one")["state"],
        "wanted"
    );
}

#[tokio::test]
async fn a_damaged_state_file_stops_no_runner() {
    let setup = RunnerFixture::new().await;
    let bundle = write_bundle(&setup, "any", "");
    assert_eq!(
        deploy_bridge(&setup, "any", &bundle, &[]).await.code,
        Some(0)
    );
    let file = setup.setting.home.join("state/bridges/bridges.json");
    std::fs::write(&file, "{\"sha256\":").expect("a torn state file");
    let _runner = setup.run();
    wait_for_some("a runner that reports the damaged file", async || {
        let status = setup.status().await;
        let attention = status["attention"].to_string();
        let says_so = attention.contains("no bridge is started") && attention.contains("damaged");
        (status["running"] == true && says_so).then_some(())
    })
    .await;
    let listed = setup.command(&["bridges"]).await;
    assert_eq!(listed.code, Some(78), "{listed:?}");
    assert_eq!(std::fs::read(&file).expect("there"), b"{\"sha256\":");
}
