//! The files of certificate authorities that the user's variables and git's settings name: commands may read these,
//! wherever they lie.

use std::fs;
use std::path::{Path, PathBuf};

use super::sandbox_rules::SandboxRules;
use super::untrusted_links::WritableFolders;
use punie_core::bounded_file::{FinalLink, read_regular_file};

/// The most bytes of a file. The bundles of systems have about 300 KB.
const MAX_BYTES: u64 = 2 << 20;
/// The most files of one folder.
const MAX_FILES: usize = 1_000;
/// The blocks of PEM that a file may hold.
const PUBLIC_BLOCKS: &[&str] = &[
    "CERTIFICATE-----",
    "TRUSTED CERTIFICATE-----",
    "X509 CERTIFICATE-----",
    "X509 CRL-----",
];

/// Returns those of the named files, and of the files in the named folders, that hold certificates and no other PEM block.
/// A file in a hidden place is not among them, nor one to which a link leads that a command may have made, nor one that
/// commands read anyway.
pub(super) fn certificate_files(
    rules: &SandboxRules,
    hidden: &[PathBuf],
    is_read_anyway: impl Fn(&Path) -> bool,
) -> Vec<PathBuf> {
    let trusted = WritableFolders::from_rules(rules);
    let is_hidden = |path: &PathBuf| hidden.iter().any(|folder| path.starts_with(folder));
    let places = |path: &Path| Some([path.to_owned(), trusted.resolve_trusted(path)?]);
    let is_wanted = |path: &&PathBuf| {
        places(path).is_some_and(|places| !places.iter().all(|place| is_read_anyway(place)))
    };
    let is_shown = |path: &PathBuf| {
        places(path).is_some_and(|places| {
            !places.iter().any(is_hidden) && holds_only_certificates(&places[1])
        })
    };
    rules
        .certificates
        .iter()
        .filter(is_wanted)
        .flat_map(|path| list_files(path))
        .filter(is_shown)
        .collect()
}

/// Lists the files in a folder. For a file, this is the file.
fn list_files(path: &Path) -> Vec<PathBuf> {
    match fs::read_dir(path) {
        Ok(folder) => {
            let entries = folder.filter_map(Result::ok).take(MAX_FILES);
            entries.map(|entry| entry.path()).collect()
        }
        Err(_) => vec![path.to_owned()],
    }
}

fn holds_only_certificates(path: &Path) -> bool {
    let read = read_regular_file(path, FinalLink::Follow, MAX_BYTES);
    read.is_ok_and(|text| has_only_certificates(&String::from_utf8_lossy(&text)))
}

fn has_only_certificates(text: &str) -> bool {
    let mut blocks = text.split("-----BEGIN ").skip(1).peekable();
    let is_public = |block: &str| PUBLIC_BLOCKS.iter().any(|label| block.starts_with(label));
    blocks.peek().is_some() && blocks.all(is_public) && !text.contains("PRIVATE KEY")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::super::hidden_paths::hidden_paths;
    use super::*;

    const CERTIFICATE: &str =
        "# A company\n-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    const KEY: &str = "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n";

    #[test]
    fn files_of_certificates_are_shown_and_nothing_beside_them() {
        let place = tempfile::tempdir().expect("a folder");
        let home = place.path().canonicalize().expect("real");
        for folder in [".ssh", ".punie", "certs", "work", "hidden", "notes"] {
            fs::create_dir(home.join(folder)).expect("made");
        }
        for (file, text) in [
            ("company.pem", CERTIFICATE.to_owned()),
            ("certs/one.pem", CERTIFICATE.repeat(2)),
            ("certs/key.pem", KEY.to_owned()),
            ("certs/readme", "about these".to_owned()),
            (".ssh/company.pem", CERTIFICATE.to_owned()),
            (".punie/company.pem", CERTIFICATE.to_owned()),
            ("hidden/company.pem", CERTIFICATE.to_owned()),
            ("key.pem", KEY.to_owned()),
            ("both.pem", format!("{CERTIFICATE}{KEY}")),
            ("notes/list", "a note".to_owned()),
        ] {
            fs::write(home.join(file), text).expect("written");
        }
        for (link, target) in [
            ("certs/0a1b2c3d.0", "one.pem"),
            ("certs/key.0", "key.pem"),
            ("linked.pem", ".ssh/company.pem"),
            (".ssh/own.pem", "../company.pem"),
            ("work/theirs.pem", "../company.pem"),
        ] {
            symlink(target, home.join(link)).expect("a link");
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, home.join("pipe"), 0o600.into()).expect("a pipe");
        let shown = |named: &str| {
            let rules = SandboxRules {
                certificates: vec![home.join(named)],
                workspaces: vec![home.join("work")],
                user_home: Some(home.clone()),
                hide: vec![home.join("hidden")],
                ..SandboxRules::minimal(home.join(".punie"), home.join(".punie/tmp"))
            };
            let mut files = certificate_files(&rules, &hidden_paths(&rules).paths, |_| false);
            files.sort();
            let below = |path: &PathBuf| path.strip_prefix(&home).expect("below").to_owned();
            files.iter().map(below).collect::<Vec<_>>()
        };
        let paths = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (named, files) in [
            ("company.pem", &["company.pem"][..]),
            ("certs", &["certs/0a1b2c3d.0", "certs/one.pem"]),
            ("key.pem", &[]),
            ("both.pem", &[]),
            ("certs/key.pem", &[]),
            ("notes", &[]),
            ("notes/list", &[]),
            ("absent.pem", &[]),
            ("pipe", &[]),
            (".ssh", &[]),
            (".ssh/company.pem", &[]),
            ("linked.pem", &[]),
            (".ssh/own.pem", &[]),
            (".punie/company.pem", &[]),
            ("hidden/company.pem", &[]),
            ("work/theirs.pem", &[]),
            // The home itself opens no more than the certificates that lie in it.
            ("", &["company.pem"]),
            ("/", &[]),
        ] {
            assert_eq!(shown(named), paths(files), "{named:?}");
        }
    }
}
