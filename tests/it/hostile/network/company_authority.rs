//! A company's certificate authority, which issued the certificate of a server in its network. Programs find it through
//! the user's variables. No such variable opens any other file.

use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;

use super::super::HostileFixture;
use super::package_managers::serve_registries;
use super::{ALLOW, asking_yard_in};
use crate::faults::tls::{make_authority, make_certificate, start_tls_gate};
use crate::harness::left_out::tell_left_out;

/// Writes a folder of certificates, as OpenSSL expects it, into the user's home, with a key beside them.
fn write_authority(folder: &TempDir, pem: &str) {
    let certs = folder.path().join("user/certs");
    std::fs::create_dir(&certs).expect("made");
    for (file, text) in [
        ("company.pem", pem),
        ("key.pem", "-----BEGIN PRIVATE KEY-----\nxyz\n"),
        ("notes", "a note"),
    ] {
        std::fs::write(certs.join(file), text).expect("written");
    }
    let hashed = Command::new("openssl")
        .arg("rehash")
        .arg(&certs)
        .output()
        .expect("OpenSSL");
    assert!(hashed.status.success(), "{hashed:?}");
}

fn yard_with(folder: Arc<TempDir>, name: &str, path: &str) -> HostileFixture {
    let path = folder.path().canonicalize().expect("real").join(path);
    let variable = (name.to_owned(), path.display().to_string());
    asking_yard_in(folder, ALLOW, &[variable])
}

/// Returns a Node program that connects to a server through the proxy, and prints the error if it does not trust the
/// server.
fn node_program(url: &str) -> String {
    let target = url.trim_start_matches("https://");
    format!(
        "const name = btoa(new URL(process.env.HTTPS_PROXY).username + \":x\"); \
         require(\"http\").request({{port: 13128, method: \"CONNECT\", path: \"{target}\", \
         headers: {{\"Proxy-Authorization\": \"Basic \" + name}}}}).on(\"connect\", (_, socket) => \
         require(\"tls\").connect({{socket, servername: \"packages.test\"}}, () => process.exit(0)).on(\"error\", error => {{ \
         console.log(error.message); process.exit(1) }})).end()"
    )
}

/// The installed programs, each with a variable and a command that contacts the server. Reports programs that are not
/// installed.
fn client_commands(url: &str) -> Vec<(&'static str, &'static str, String)> {
    let all = cases! {
        ("curl", "CURL_CA_BUNDLE", format!("curl -sS {url}/file")),
        ("curl", "SSL_CERT_FILE", format!("curl -sS {url}/file")),
        ("git", "GIT_SSL_CAINFO", format!("git ls-remote {url}/demo.git main")),
        ("node", "NODE_EXTRA_CA_CERTS", format!("node -e '{}'", node_program(url))),
        (
            "pip",
            "PIP_CERT",
            format!("python3 -m pip download -q --no-cache-dir -d p --index-url {url}/simple demo"),
        ),
        (
            "python3",
            "REQUESTS_CA_BUNDLE",
            format!(
                "python3 -c 'import requests; requests.get(\"{url}/file\").raise_for_status()'"
            ),
        ),
    };
    let is_installed = |(name, _, command): &(&str, &str, String)| {
        let probe = if command.contains("requests") {
            &["-c", "import requests"][..]
        } else {
            &["--version"]
        };
        let probed = Command::new(name).args(probe).output();
        let is_there = probed.is_ok_and(|probed| probed.status.success());
        if !is_there {
            tell_left_out(&format!("`{name} {}`", probe.join(" ")), "it fails here");
        }
        is_there
    };
    all.into_iter().filter(is_installed).collect()
}

#[tokio::test]
async fn programs_trust_the_authority_that_the_users_variables_name() {
    let company = make_authority("A company");
    let server = serve_registries();
    let upstream = format!("http://127.0.0.1:{}", server.port);
    let own = make_certificate("packages.test", false, Some(&company));
    let (address, _serving) = start_tls_gate(&upstream, own).await;
    let url = address.replace("127.0.0.1", "packages.test");
    let by_folder = ("curl", "SSL_CERT_DIR", format!("curl -sS {url}/file"));
    for (program, name, command) in client_commands(&url).into_iter().chain([by_folder]) {
        let folder = HostileFixture::lay_out();
        write_authority(&folder, &company.pem());
        let named = if name == "SSL_CERT_DIR" {
            "user/certs"
        } else {
            "user/certs/company.pem"
        };
        let setup = yard_with(folder, name, named);
        let text = setup.bash(&format!("{command} 2>&1 && echo reached")).await;
        assert_ends_with!(text, "reached"; "{program} with {name}");
        let text = setup.bash(&format!("env -u {name} {command} 2>&1")).await;
        let text = text.to_ascii_lowercase();
        assert!(
            text.contains("certificate") || text.contains("issuer"),
            "{program}: {text}"
        );
    }
}

#[tokio::test]
async fn git_trusts_the_authority_that_its_settings_name() {
    let company = make_authority("A company");
    let server = serve_registries();
    let own = make_certificate("packages.test", false, Some(&company));
    let (address, _serving) =
        start_tls_gate(&format!("http://127.0.0.1:{}", server.port), own).await;
    let folder = HostileFixture::lay_out();
    write_authority(&folder, &company.pem());
    let settings = "[http]\n\tsslCAInfo = ~/certs/company.pem\n";
    std::fs::write(folder.path().join("user/.gitconfig"), settings).expect("written");
    let setup = asking_yard_in(folder, ALLOW, &[]);
    let url = address.replace("127.0.0.1", "packages.test");
    let text = setup
        .bash(&format!("git ls-remote {url}/demo.git main; ls ~/certs"))
        .await;
    assert_contains!(text, "refs/heads/main");
    assert_ends_with!(text, "\ncompany.pem");
}

#[tokio::test]
async fn a_variable_opens_certificates_read_only_and_nothing_beside_them() {
    let company = make_authority("A company");
    let start = |named: &str| {
        let folder = HostileFixture::lay_out();
        write_authority(&folder, &company.pem());
        std::fs::write(folder.path().join("user/.ssh/company.pem"), company.pem())
            .expect("written");
        yard_with(folder, "CURL_CA_BUNDLE", named)
    };
    let look = "cd $OUT/user; echo seen: $(cat certs/company.pem | grep -c BEGIN) $(ls certs); \
                cat certs/key.pem certs/notes .ssh/company.pem .ssh/id_rsa notes/list 2>/dev/null; \
                echo x 2>/dev/null >> certs/company.pem && echo written; \
                echo x 2>/dev/null > certs/new && echo written";
    let seen = "seen: 1 company.pem";
    for (named, seen) in [
        ("user/certs/company.pem", seen),
        ("user/certs/key.pem", "seen: 0"),
        ("user/.ssh/company.pem", "seen: 0"),
        ("user/.ssh/id_rsa", "seen: 0"),
        ("user/.ssh", "seen: 0"),
        ("user/notes", "seen: 0"),
        ("user", "seen: 0"),
        ("", "seen: 0"),
    ] {
        let text = start(named).bash(&format!("{look} 2>&1")).await;
        let lines: Vec<&str> = text
            .lines()
            .filter(|line| !line.contains("No such"))
            .collect();
        assert_eq!(lines.first(), Some(&seen), "{named}: {text}");
        assert_lacks!(text, "PRIVATE", "a note", "the-private-key", "written"; "{named}");
    }
    let text = start("user/certs").bash("ls $OUT/user/certs").await;
    assert!(text.lines().any(|line| line.ends_with(".0")), "{text}");
    assert_contains!(text, "company.pem");
    assert_lacks!(text, "key.pem");
}
