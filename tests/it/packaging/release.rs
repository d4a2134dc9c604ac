//! A release that the release scripts make for the tests, served on a loopback port. Its program is a shell script that
//! prints its version.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use tempfile::TempDir;

use super::{run_well, write_documents};

pub const VERSION: &str = env!("CARGO_PKG_VERSION");
/// The target of the static archive for this machine's processor.
pub const TARGET: &str = if cfg!(target_arch = "aarch64") {
    "aarch64-unknown-linux-musl"
} else {
    "x86_64-unknown-linux-musl"
};

/// The path below which the server sends the first half of an archive and closes the connection.
pub const CUT_PATH: &str = "/cut";

/// A folder with the files of a release, its server, and the key that signs it.
pub struct TestRelease {
    dir: TempDir,
    /// A copy of the repository's files that the scripts read.
    tree: PathBuf,
    version: String,
    pub url: String,
    key: PathBuf,
    public_key: PathBuf,
}

impl TestRelease {
    /// Makes a release of the current version whose program prints `version`, for these targets.
    pub fn new(version: &str, targets: &[&str]) -> Self {
        let text = format!("#!/bin/sh\necho punie-runner {version}\n");
        Self::of_version(VERSION, &text, targets)
    }

    /// Makes a release of this version with this program, for these targets.
    pub fn of_version(version: &str, program: &str, targets: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let tree = dir.path().join("tree");
        copy_tree(&tree, version);
        let out = dir.path().join("out");
        fs::create_dir(&out).expect("the release's folder");
        let url = serve_folder(out);
        let (key, public_key) = make_key(dir.path(), "release");
        let release = Self {
            dir,
            tree,
            version: version.to_owned(),
            url,
            key,
            public_key,
        };
        let documents = release.dir.path().join("documents");
        write_documents(&documents, "2026-12-31").expect("the documents");
        let binary = release.dir.path().join("punie-runner");
        fs::write(&binary, program).expect("the program");
        for target in targets {
            let mut archive = Command::new(release.script("archive.sh"));
            archive.arg(&binary).arg(target).arg(&documents);
            run_well(archive.arg(release.folder()));
        }
        let mut installer = Command::new(release.script("installer.sh"));
        installer.arg(&release.url).arg(release.folder());
        run_well(installer.env("PUNIE_RELEASE_PUBLIC_KEY_FILE", &release.public_key));
        release.seal();
        release
    }

    fn script(&self, name: &str) -> PathBuf {
        self.tree.join("packaging/release").join(name)
    }

    /// The public key as install.sh and the configuration write it.
    pub fn public_key(&self) -> String {
        middle_line(&self.public_key)
    }

    /// The folder that is served.
    pub fn folder(&self) -> PathBuf {
        self.dir.path().join("out")
    }

    pub fn archive(&self, target: &str) -> PathBuf {
        self.folder()
            .join(format!("punie-runner-{}-{target}.tar.gz", self.version))
    }

    /// Writes the checksums of all files in the folder.
    pub fn write_checksums(&self) {
        run_well(Command::new(self.script("checksums.sh")).arg(self.folder()));
    }

    /// Writes the checksums, and signs them.
    pub fn seal(&self) {
        self.write_checksums();
        self.sign();
    }

    /// Signs the file of checksums as it is.
    pub fn sign(&self) {
        run_well(&mut self.sign_command(&self.key));
    }

    /// A command that signs the checksums with this key.
    pub fn sign_command(&self, key: &Path) -> Command {
        let mut command = Command::new(self.script("sign.sh"));
        command
            .arg(self.folder())
            .env("PUNIE_RELEASE_KEY_FILE", key)
            .env("PUNIE_RELEASE_PUBLIC_KEY_FILE", &self.public_key);
        command
    }

    /// Makes another key pair. Returns the private key's file, and the public key as install.sh writes it.
    pub fn other_key(&self) -> (PathBuf, String) {
        let (key, public_key) = make_key(self.dir.path(), "other");
        let line = middle_line(&public_key);
        (key, line)
    }
}

fn middle_line(key: &Path) -> String {
    let text = fs::read_to_string(key).expect("the key");
    text.lines().nth(1).expect("the middle line").to_owned()
}

/// Copies the scripts and the files that they pack, and sets this version.
fn copy_tree(tree: &Path, version: &str) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR"));
    fs::create_dir(tree).expect("a folder");
    run_well(
        Command::new("cp")
            .arg("-R")
            .arg(from.join("packaging"))
            .arg(tree),
    );
    for name in [
        "README.md",
        "CHANGELOG.md",
        "LICENSE",
        "LICENSE-APACHE",
        "LICENSE-MIT",
    ] {
        fs::copy(from.join(name), tree.join(name)).expect("copied");
    }
    let manifest = fs::read_to_string(from.join("Cargo.toml")).expect("the manifest");
    let of = |version: &str| format!("\nversion = \"{version}\"\n");
    assert!(
        manifest.contains(&of(VERSION)),
        "the version has another form"
    );
    fs::write(
        tree.join("Cargo.toml"),
        manifest.replacen(&of(VERSION), &of(version), 1),
    )
    .expect("written");
}

fn make_key(dir: &Path, name: &str) -> (PathBuf, PathBuf) {
    let key = dir.join(format!("{name}.pem"));
    let public_key = dir.join(format!("{name}-public.pem"));
    let mut command = Command::new("openssl");
    command.args(["genpkey", "-algorithm", "ed25519", "-out"]);
    run_well(command.arg(&key));
    let mut command = Command::new("openssl");
    command.args(["pkey", "-pubout", "-in"]).arg(&key);
    run_well(command.arg("-out").arg(&public_key));
    (key, public_key)
}

/// Serves the files of a folder until the tests end, and returns the address.
fn serve_folder(folder: PathBuf) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client may close its connection early.
            let _ = answer_request(stream, &folder);
        }
    });
    format!("http://{address}")
}

fn answer_request(mut stream: TcpStream, folder: &Path) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut request = String::new();
    reader.read_line(&mut request)?;
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1).unwrap_or_default();
    let name = path.trim_start_matches(CUT_PATH).trim_start_matches('/');
    let (status, mut body) = match fs::read(folder.join(name)) {
        Ok(body) => ("200 OK", body),
        Err(_) => ("404 Not Found", Vec::new()),
    };
    let length = body.len();
    if path.starts_with(CUT_PATH) && name.ends_with(".tar.gz") {
        body.truncate(length / 2);
    }
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    )?;
    stream.write_all(&body)
}
