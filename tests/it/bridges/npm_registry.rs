//! A registry of npm packages on loopback, with the packages that a test makes.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha512};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::archive::tar_gz;

/// A running registry. It ends when it is dropped.
pub struct NpmRegistry {
    pub url: String,
    _serving: JoinSet<()>,
}

type Files = BTreeMap<String, Vec<u8>>;

impl NpmRegistry {
    /// Serves these packages: the `package.json` of each, with this address in place of URL, and its `index.js`.
    pub async fn start(packages: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let mut files = Files::new();
        for (manifest, code) in packages {
            add_package(&mut files, &url, &manifest.replace("URL", &url), code);
        }
        let files = Arc::new(files);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut clients = JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                clients.spawn(answer_request(client, Arc::clone(&files)));
            }
        });
        Self {
            url,
            _serving: serving,
        }
    }
}

fn add_package(files: &mut Files, url: &str, manifest: &str, code: &str) {
    let mut version: Value = serde_json::from_str(manifest).expect("JSON");
    let name = json_text(&version["name"]);
    let number = json_text(&version["version"]);
    let archive = tar_gz(&[
        ("package/package.json", manifest),
        ("package/index.js", code),
    ]);
    let path = format!("/{name}/-/{name}-{number}.tgz");
    version["dist"] = json!({
        "tarball": format!("{url}{path}"),
        "integrity": format!("sha512-{}", STANDARD.encode(Sha512::digest(&archive))),
    });
    version["hasInstallScript"] = json!(version["scripts"].is_object());
    let about = json!({
        "name": name,
        "dist-tags": { "latest": number },
        "versions": { number.clone(): version },
    });
    files.insert(path, archive);
    files.insert(format!("/{name}"), about.to_string().into_bytes());
}

fn json_text(value: &Value) -> String {
    value.as_str().expect("a text").to_owned()
}

async fn answer_request(mut client: TcpStream, files: Arc<Files>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match client.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let target = head.split(' ').nth(1).unwrap_or_default();
    // A client that uses a proxy may send the whole URL.
    let path = target.split_once("://").map_or(target, |(_, rest)| {
        rest.find('/').map_or("/", |at| &rest[at..])
    });
    let (status, body) = match files.get(path) {
        Some(body) => ("200 OK", body.clone()),
        None => ("404 Not Found", b"{}".to_vec()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let _ = client.write_all(&[head.into_bytes(), body].concat()).await;
}
