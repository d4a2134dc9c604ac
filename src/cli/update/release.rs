//! The newest release at an address: its signed checksums, whose names carry the version, and its archive. The format is
//! that of packaging/release: `SHA256SUMS`, and `SHA256SUMS.sig`, an Ed25519 signature (RFC 8032) over that file.

use anyhow::Context as _;
use ed25519_dalek::{Signature, VerifyingKey};
use reqwest::Client;
use semver::Version;
use sha2::{Digest, Sha256};

use crate::cli::exit::{CommandError, Exit};
use crate::cli::wiring::proxy_rules;
use crate::config::{BackendUrl, Config, PublicKey};
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
            (None, Some(url)) => BackendUrl::parse_url(url).map_err(anyhow::Error::msg)?,
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
            client: build_download_client(&url.to_url(), &proxy_rules(config))?,
            url: url.as_str().to_owned(),
            key: VerifyingKey::from_bytes(key.as_bytes())?,
        })
    }

    /// Returns the address.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Finds the newest release that has an archive for this machine.
    ///
    /// # Errors
    /// The address does not answer, the signature is wrong, or there is no such archive.
    pub async fn find_newest(&self) -> anyhow::Result<Release> {
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
        find_archive(sums, &archive_targets()).with_context(|| {
            format!(
                "the release at {} has no archive for this machine ({})",
                self.url,
                archive_targets().join(", ")
            )
        })
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

/// Finds the newest archive for the first of the targets that has one.
fn find_archive(sums: &str, targets: &[String]) -> Option<Release> {
    let read_line = |line: &str, target: &str| {
        let (sum, file) = line.split_once([' ', '\t'])?;
        let name = file
            .trim_start()
            .trim_start_matches('*')
            .strip_suffix(ENDING)?;
        let version = name
            .strip_prefix(PROGRAM)?
            .strip_prefix('-')?
            .strip_suffix(target)?
            .strip_suffix('-')?;
        Some(Release {
            version: Version::parse(version).ok()?,
            name: name.to_owned(),
            sum: sum.to_owned(),
        })
    };
    targets.iter().find_map(|target| {
        let archives = sums.lines().filter_map(|line| read_line(line, target));
        archives.max_by(|one, other| one.version.cmp(&other.version))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_an_archive_has_its_version_and_target() {
        let sums = "11  install.sh\n22  punie-runner-0.2.0-x-gnu.tar.gz\n33 *punie-runner-0.2.0-rc.1-x-musl.tar.gz\n\
                    44  punie-runner-x-musl.tar.gz\n55  other-9.0.0-x-musl.tar.gz\n";
        let found = |targets: &[&str]| {
            let targets: Vec<String> = targets.iter().map(|&target| target.to_owned()).collect();
            find_archive(sums, &targets).map(|release| (release.version.to_string(), release.sum))
        };
        let pair = |version: &str, sum: &str| Some((version.to_owned(), sum.to_owned()));
        assert_eq!(found(&["x-musl", "x-gnu"]), pair("0.2.0-rc.1", "33"));
        assert_eq!(found(&["y-musl", "x-gnu"]), pair("0.2.0", "22"));
        assert_eq!(found(&["y-musl"]), None);
    }
}
