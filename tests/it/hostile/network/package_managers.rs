//! Real package managers against a server that plays their registries: each installs after a yes, and prints the reason
//! after a refusal. Those that are not installed on this machine are skipped.

use std::collections::HashMap;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use punie_core::approval_answer::ApprovalOption;
use sha2::{Digest as _, Sha256};

use super::super::HostileFixture;
use super::{ALLOW, ASK, AnsweringPerson, DENY, FileServer, asking_yard};
use crate::harness::archive::tar_gz;

fn make_zip(files: &[(&str, &str)]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (path, text) in files {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(*path, options).expect("packed");
        archive.write_all(text.as_bytes()).expect("packed");
    }
    archive.finish().expect("packed").into_inner()
}

fn encode_hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    let digest = Sha256::digest(bytes);
    digest.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Returns the files of a bare repository with one commit, as git's plain HTTP protocol serves them.
fn go_repository() -> HashMap<String, Vec<u8>> {
    let folder = tempfile::tempdir().expect("a folder");
    let git = |args: &[&str]| {
        let done = Command::new("git")
            .args([
                "-c",
                "user.name=a",
                "-c",
                "user.email=a@b",
                "-c",
                "init.defaultBranch=main",
            ])
            .args(args)
            .current_dir(folder.path())
            .output()
            .expect("git");
        assert!(done.status.success(), "{args:?}: {done:?}");
    };
    git(&["init", "-q", "one"]);
    std::fs::write(folder.path().join("one/file"), "cloned\n").expect("written");
    git(&["-C", "one", "add", "file"]);
    git(&["-C", "one", "commit", "-q", "-m", "one"]);
    git(&["clone", "-q", "--bare", "one", "demo.git"]);
    git(&["-C", "demo.git", "update-server-info"]);
    let root = folder.path().join("demo.git");
    let mut files = HashMap::new();
    let mut folders = vec![root.clone()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(&root).expect("inside").display();
                let bytes = std::fs::read(&path).expect("readable");
                files.insert(format!("/demo.git/{name}"), bytes);
            }
        }
    }
    files
}

/// Starts a server that plays the registries of all package managers.
pub(super) fn serve_registries() -> FileServer {
    let npm = tar_gz(&[
        (
            "package/package.json",
            r#"{"name":"demo","version":"1.0.0"}"#,
        ),
        ("package/index.js", "module.exports = 'demo';\n"),
    ]);
    let wheel = make_zip(&[
        ("demo.py", "NAME = 'demo'\n"),
        (
            "demo-1.0.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: demo\nVersion: 1.0.0\n",
        ),
        (
            "demo-1.0.0.dist-info/WHEEL",
            "Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        ),
        (
            "demo-1.0.0.dist-info/RECORD",
            "demo.py,,\ndemo-1.0.0.dist-info/METADATA,,\ndemo-1.0.0.dist-info/WHEEL,,\ndemo-1.0.0.dist-info/RECORD,,\n",
        ),
    ]);
    let krate = tar_gz(&[
        (
            "demo-1.0.0/Cargo.toml",
            "[package]\nname = \"demo\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
        ),
        ("demo-1.0.0/src/lib.rs", ""),
    ]);
    let module = make_zip(&[
        (
            "example.org/demo@v1.0.0/go.mod",
            "module example.org/demo\n",
        ),
        ("example.org/demo@v1.0.0/demo.go", "package demo\n"),
    ]);
    let crate_line = format!(
        "{{\"name\":\"demo\",\"vers\":\"1.0.0\",\"deps\":[],\"cksum\":\"{}\",\"features\":{{}},\"yanked\":false}}\n",
        encode_hex(&krate)
    );
    let mut files = go_repository();
    for (path, bytes) in cases! {
        ("/npm/demo/-/demo-1.0.0.tgz", npm),
        (
            "/simple/demo/",
            b"<a href=\"/files/demo-1.0.0-py3-none-any.whl\">demo-1.0.0-py3-none-any.whl</a>"
                .to_vec(),
        ),
        ("/files/demo-1.0.0-py3-none-any.whl", wheel),
        ("/index/de/mo/demo", crate_line.into_bytes()),
        ("/crates/demo/1.0.0/download", krate),
        ("/go/example.org/demo/@v/list", b"v1.0.0\n".to_vec()),
        ("/go/example.org/demo/@v/v1.0.0.info", b"{\"Version\":\"v1.0.0\"}".to_vec()),
        ("/go/example.org/demo/@v/v1.0.0.mod", b"module example.org/demo\n".to_vec()),
        ("/go/example.org/demo/@v/v1.0.0.zip", module),
        ("/file", b"fetched\n".to_vec()),
    } {
        files.insert(path.to_owned(), bytes);
    }
    FileServer::start_at(std::net::Ipv4Addr::LOCALHOST, move |path, port| {
        let own = format!("http://packages.test:{port}");
        match path {
            "/npm/demo" => Some(
                format!(
                    "{{\"name\":\"demo\",\"dist-tags\":{{\"latest\":\"1.0.0\"}},\"versions\":{{\"1.0.0\":{{\"name\":\"demo\",\
                     \"version\":\"1.0.0\",\"dist\":{{\"tarball\":\"{own}/npm/demo/-/demo-1.0.0.tgz\"}}}}}}}}"
                )
                .into_bytes(),
            ),
            "/index/config.json" => Some(format!("{{\"dl\":\"{own}/crates\"}}").into_bytes()),
            path => files.get(path).cloned(),
        }
    })
}

/// The installed programs, each with a command that installs from the server and then prints `installed`.
fn install_commands(port: u16) -> Vec<(&'static str, String)> {
    let own = format!("http://packages.test:{port}");
    let toolchain = Path::new(env!("CARGO"))
        .parent()
        .expect("a folder")
        .display();
    let all = cases! {
        ("curl", format!("curl -sSf {own}/file -o f && grep -q fetched f && echo installed")),
        (
            "git",
            format!(
                "rm -rf c && git clone -q {own}/demo.git c && grep -q cloned c/file && echo installed"
            ),
        ),
        (
            "npm",
            format!(
                "rm -rf n && mkdir n && cd n && echo '{{}}' > package.json && npm install --no-audit --no-fund --no-update-notifier --cache ./cache --registry {own}/npm demo && node -e 'require(\"demo\")' && echo installed"
            ),
        ),
        (
            "pip",
            format!(
                "rm -rf p && python3 -m pip install -q --root-user-action ignore --no-cache-dir --disable-pip-version-check --trusted-host packages.test --index-url {own}/simple --target p demo; ls p/demo.py && echo installed"
            ),
        ),
        (
            "cargo",
            format!(
                "rm -rf r && mkdir -p r/src r/home && cd r && touch src/lib.rs && printf '[package]\\nname=\"r\"\\nversion=\"0.1.0\"\\nedition=\"2021\"\\n[dependencies]\\ndemo={{version=\"1\",registry=\"own\"}}\\n' > Cargo.toml && PATH={toolchain}:$PATH CARGO_HOME=$PWD/home CARGO_REGISTRIES_OWN_INDEX=sparse+{own}/index/ cargo fetch && echo installed"
            ),
        ),
        (
            "go",
            format!(
                "rm -rf g && mkdir g && cd g && printf 'module x\\n\\nrequire example.org/demo v1.0.0\\n' > go.mod && GOFLAGS=-modcacherw GOPATH=$PWD/path GOCACHE=$PWD/cache GOSUMDB=off GOPROXY={own}/go go mod download && echo installed"
            ),
        ),
    };
    let is_installed = |name: &str| {
        let found = Command::new(name).arg("--version").output();
        found.is_ok() || Command::new(name).arg("version").output().is_ok()
    };
    all.into_iter()
        .filter(|(name, _)| is_installed(name))
        .collect()
}

async fn run_install(setup: &HostileFixture, command: &str) -> String {
    setup.bash(&format!("({command}) 2>&1")).await
}

#[tokio::test]
async fn each_installs_by_a_rule() {
    let setup = asking_yard(ALLOW);
    let server = serve_registries();
    for (name, command) in install_commands(server.port) {
        let text = run_install(&setup, &command).await;
        assert_ends_with!(text, "installed"; "{name}");
    }
}

#[tokio::test]
async fn each_installs_after_one_yes() {
    let setup = asking_yard(ASK);
    let server = serve_registries();
    let all = install_commands(server.port);
    let answers = vec![ApprovalOption::AllowOnce; all.len()];
    let person = AnsweringPerson::answering(&setup, &answers);
    for (name, command) in &all {
        let text = run_install(&setup, command).await;
        assert_ends_with!(text, "installed"; "{name}");
    }
    assert_eq!(
        person.questions().await.len(),
        all.len(),
        "one question per program"
    );
}

#[tokio::test]
async fn each_is_refused_with_the_reason() {
    for (policy, reason) in [(ASK, "nobody can be asked"), (DENY, "not today")] {
        let setup = asking_yard(policy);
        let server = serve_registries();
        for (name, command) in install_commands(server.port) {
            let text = run_install(&setup, &command).await;
            assert_lacks!(text, "installed\n"; "{name}");
            assert_contains!(text, reason; "{name}");
        }
        assert_eq!(server.requests(), 0);
    }
}
