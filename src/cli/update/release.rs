//! The newest release at an address: its signed checksums, which carry the version and the date, and its archive. The
//! format is that of packaging/release: `SHA256SUMS`, and `SHA256SUMS.sig`, an Ed25519 signature (RFC 8032) over that file.

use std::path::Path;

use anyhow::Context as _;
use ed25519_dalek::{Signature, VerifyingKey};
use reqwest::Client;
use semver::Version;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::cli::exit::{CommandError, Exit};
use crate::config::{BackendUrl, Config, PublicKey};
use punie_core::durable::{Readers, replace_file};
use punie_core::ids::to_hex;
use punie_engine::backend::build_download_client;

/// The address and the key that the release workflow builds in. A program that was built otherwise has none.
const RELEASE_URL: Option<&str> = option_env!("PUNIE_RELEASE_URL");
const RELEASE_KEY: Option<&str> = option_env!("PUNIE_RELEASE_PUBLIC_KEY");

const PROGRAM: &str = "punie-runner";
const ENDING: &str = ".tar.gz";
/// The most bytes of the list of checksums.
const MAX_SUMS_BYTES: usize = 1 << 20;
/// The most bytes of an archive.
const MAX_ARCHIVE_BYTES: usize = 256 << 20;

/// The address of the releases, and the key that signs them.
pub(super) struct ReleaseSource {
    url: String,
    key: VerifyingKey,
    client: Client,
}

/// The first line of the list of checksums: the version and the date, which the signature covers.
const LIST_HEAD: &str = "# punie-runner ";

/// The list of a release, as it was signed.
#[derive(Debug, PartialEq, Eq)]
struct ListHead {
    version: Version,
    /// As `2026-11-30T12:00:00Z`, so that the order of texts is that of times.
    date: String,
}

/// The newest list that an update has seen, by the key that signed it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct SeenList {
    key: String,
    date: String,
}

/// A release that has an archive for this machine.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Release {
    pub version: Version,
    /// The name of the archive, without its ending.
    name: String,
    /// The SHA-256 of the archive, in hexadecimal.
    sum: String,
}

impl Release {
    /// Returns the name of the folder in the archive.
    pub fn folder_name(&self) -> &str {
        &self.name
    }
}

impl ReleaseSource {
    /// Takes the configured address and key, else those that were built in.
    pub fn from_config(config: &Config) -> anyhow::Result<Self> {
        let url = match (&config.update.url, RELEASE_URL) {
            (Some(url), _) => url.clone(),
            (None, Some(url)) => BackendUrl::parse(url).map_err(anyhow::Error::msg)?,
            (None, None) => return Err(missing_setting("update.url")),
        };
        let key = match (config.update.public_key, RELEASE_KEY) {
            (Some(key), _) => key,
            (None, Some(key)) => PublicKey::parse(key).map_err(anyhow::Error::msg)?,
            (None, None) => return Err(missing_setting("update.public_key")),
        };
        if url.is_websocket() {
            let text = format!(
                "update.url must begin with https://, not with {}://",
                url.scheme()
            );
            return Err(CommandError::with_exit(Exit::Config, text));
        }
        Ok(Self {
            client: build_download_client(&url.to_url(), &config.proxies)?,
            url: url.as_str().to_owned(),
            key: VerifyingKey::from_bytes(key.as_bytes())?,
        })
    }

    /// Returns the address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds the newest release that has an archive for this machine. `seen` is the file with the date of the newest list
    /// so far.
    ///
    /// # Errors
    /// The address does not answer, the signature is wrong, the list is older than one that was seen, or there is no such
    /// archive.
    pub async fn find_newest(&self, seen: Option<&Path>) -> anyhow::Result<Release> {
        let sums = self.download("SHA256SUMS", MAX_SUMS_BYTES).await?;
        let signature = self.download("SHA256SUMS.sig", MAX_SUMS_BYTES).await?;
        let is_signed = Signature::from_slice(&signature)
            .is_ok_and(|signature| self.key.verify_strict(&sums, &signature).is_ok());
        if !is_signed {
            anyhow::bail!(
                "the signature of {}/SHA256SUMS is wrong: the files of the release were changed, or are not those of \
                 this project. Nothing was changed here",
                self.url
            );
        }
        let sums = str::from_utf8(&sums).context("SHA256SUMS is not a text")?;
        let head =
            read_list_head(sums).context("SHA256SUMS does not begin with a version and a date")?;
        if let Some(seen) = seen {
            self.check_date(&head, seen)?;
        }
        find_archive(sums, &head.version, &archive_targets()).with_context(|| {
            format!(
                "the release at {} has no archive for this machine ({})",
                self.url,
                archive_targets().join(", ")
            )
        })
    }

    /// Refuses a list that is older than one that was seen, as a mirror may offer it for ever, and remembers its date.
    fn check_date(&self, head: &ListHead, seen: &Path) -> anyhow::Result<()> {
        let key = to_hex(self.key.as_bytes());
        let stored = std::fs::read(seen).ok();
        let stored: Option<SeenList> = stored.and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(newest) = stored.filter(|newest| newest.key == key)
            && head.date < newest.date
        {
            anyhow::bail!(
                "{} offers the list of {}, and one of {} was seen before: the mirror is out of date, or hides newer \
                 releases. Nothing was changed here",
                self.url,
                head.date,
                newest.date
            );
        }
        let newest = SeenList {
            key,
            date: head.date.clone(),
        };
        let text = serde_json::to_vec(&newest)?;
        replace_file(seen, &text, Readers::OwnerOnly)
            .with_context(|| format!("cannot write {}", seen.display()))
    }

    /// Downloads the archive of a release and checks it.
    ///
    /// # Errors
    /// The address does not answer, or the checksum is wrong.
    pub async fn download_archive(&self, release: &Release) -> anyhow::Result<Vec<u8>> {
        let name = format!("{}{ENDING}", release.name);
        let archive = self.download(&name, MAX_ARCHIVE_BYTES).await?;
        if to_hex(&Sha256::digest(&archive)) != release.sum {
            anyhow::bail!(
                "the checksum of {name} is wrong: the download is damaged or was changed. Nothing was changed here"
            );
        }
        Ok(archive)
    }

    async fn download(&self, name: &str, max_bytes: usize) -> anyhow::Result<Vec<u8>> {
        let url = format!("{}/{name}", self.url);
        self.read_body(&url, max_bytes).await.map_err(|error| {
            let text = format!(
                "cannot download {url}: {error:#}. Is the network up, and is there a proxy to set (HTTPS_PROXY)?"
            );
            CommandError::with_exit(Exit::Unreachable, text)
        })
    }

    async fn read_body(&self, url: &str, max_bytes: usize) -> anyhow::Result<Vec<u8>> {
        let mut response = self.client.get(url).send().await?.error_for_status()?;
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await? {
            anyhow::ensure!(
                body.len() + chunk.len() <= max_bytes,
                "it has more than {max_bytes} bytes"
            );
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn missing_setting(key: &str) -> anyhow::Error {
    let text = format!(
        "this program was not built by a release, so it does not know where releases are. Update it in the way in which \
         you installed it, or set {key} in the configuration"
    );
    CommandError::with_exit(Exit::Config, text)
}

/// Returns the targets whose archives run on this machine, the best first: a static program runs with every libc.
fn archive_targets() -> Vec<String> {
    let arch = std::env::consts::ARCH;
    if cfg!(windows) {
        vec![format!("{arch}-pc-windows-msvc")]
    } else if cfg!(target_os = "macos") {
        vec!["universal-apple-darwin".to_owned()]
    } else {
        ["musl", "gnu"]
            .map(|libc| format!("{arch}-unknown-linux-{libc}"))
            .to_vec()
    }
}

/// Reads the version and the date of a list.
fn read_list_head(sums: &str) -> Option<ListHead> {
    let head = sums.lines().next()?.strip_prefix(LIST_HEAD)?;
    let (version, date) = head.split_once(' ')?;
    let form = |c: char| if c.is_ascii_digit() { '0' } else { c };
    let is_date = date.chars().map(form).eq("0000-00-00T00:00:00Z".chars());
    Some(ListHead {
        version: Version::parse(version).ok()?,
        date: is_date.then(|| date.to_owned())?,
    })
}

/// Finds the archive of this version for the first of the targets that has one.
fn find_archive(sums: &str, version: &Version, targets: &[String]) -> Option<Release> {
    let read_line = |line: &str, target: &str| {
        let (sum, file) = line.split_once([' ', '\t'])?;
        let name = file
            .trim_start()
            .trim_start_matches('*')
            .strip_suffix(ENDING)?;
        let named = name
            .strip_prefix(PROGRAM)?
            .strip_prefix('-')?
            .strip_suffix(target)?
            .strip_suffix('-')?;
        let named = Version::parse(named).ok()?;
        (named == *version).then(|| Release {
            version: named,
            name: name.to_owned(),
            sum: sum.to_owned(),
        })
    };
    targets
        .iter()
        .find_map(|target| sums.lines().find_map(|line| read_line(line, target)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_archive_has_its_version_and_target() {
        let sums = "11  install.sh\n22  punie-runner-0.2.0-x-gnu.tar.gz\n33 *punie-runner-0.2.0-rc.1-x-musl.tar.gz\n\
                    44  punie-runner-x-musl.tar.gz\n55  other-9.0.0-x-musl.tar.gz\n";
        let found = |version: &str, targets: &[&str]| {
            let targets: Vec<String> = targets.iter().map(|&target| target.to_owned()).collect();
            let version = Version::parse(version).expect("a version");
            find_archive(sums, &version, &targets).map(|release| release.sum)
        };
        let sum = |sum: &str| Some(sum.to_owned());
        assert_eq!(found("0.2.0-rc.1", &["x-musl", "x-gnu"]), sum("33"));
        assert_eq!(found("0.2.0", &["x-musl", "x-gnu"]), sum("22"));
        assert_eq!(found("0.2.0", &["y-musl"]), None);
        assert_eq!(found("0.3.0", &["x-musl", "x-gnu"]), None);
    }

    #[test]
    fn a_list_begins_with_its_version_and_its_date() {
        let read =
            |text: &str| read_list_head(text).map(|head| (head.version.to_string(), head.date));
        let version = "0.2.0".to_owned();
        let date = "2026-11-30T12:00:00Z".to_owned();
        let head = format!("# punie-runner {version} {date}");
        assert_eq!(read(&format!("{head}\n11  x\n")), Some((version, date)));
        for text in [
            "",
            "11  x\n",
            "# punie-runner 0.2.0\n",
            "# punie-runner x 2026-11-30T12:00:00Z\n",
            "# punie-runner 0.2.0 2026-11-30\n",
            "# punie-runner 0.2.0 2026-11-30T12:00:00Z x\n",
            "11  x\n# punie-runner 0.2.0 2026-11-30T12:00:00Z\n",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
