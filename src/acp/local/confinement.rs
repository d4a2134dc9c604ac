//! The confinement of this machine's processes: proven once in a life, then put on every command. Not here: what is
//! granted (sandbox), and taking it on (launch).

#[cfg(unix)]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;

#[cfg(unix)]
use super::guarded::Watch;
#[cfg(unix)]
use super::repositories::Repositories;
use crate::sandbox::{Cages, Level, Network, Require, Rules, hint};
use crate::tool::{ErrorCode, Meta, ToolError};

/// How commands are confined. Clones share it; the default confines nothing and requires nothing.
#[derive(Clone, Default)]
pub struct Confinement {
    shared: Option<Arc<Shared>>,
}

impl std::fmt::Debug for Confinement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Confinement").field("level", &self.in_words()).finish_non_exhaustive()
    }
}

struct Shared {
    setup: Setup,
    cages: Cages,
    proven: OnceCell<Level>,
    #[cfg(unix)]
    repositories: Repositories,
}

/// What the owner wants of it, and where it is proven.
#[derive(Debug)]
pub struct Setup {
    /// What commands may touch.
    pub rules: Rules,
    /// The least level at which they run.
    pub require: Require,
    /// Whether they are confined at all.
    pub confine: bool,
    /// Whether applications may be opened, which are not.
    pub apps: bool,
    /// The folder for self-tests, which is hidden from commands.
    pub self_test: PathBuf,
}

impl Confinement {
    /// By the owner's wish. Nothing is done yet.
    pub fn new(setup: Setup) -> Self {
        let cages = Cages::new(setup.rules.clone());
        let shared = Shared {
            setup,
            cages,
            proven: OnceCell::new(),
            #[cfg(unix)]
            repositories: Repositories::default(),
        };
        Self { shared: Some(Arc::new(shared)) }
    }

    /// How far commands are confined. The first to ask waits for the self-test, some tens of milliseconds.
    pub async fn level(&self) -> Level {
        let Some(shared) = &self.shared else { return Level::None };
        let level = shared.proven.get_or_init(|| async {
            let level = if shared.setup.confine { prove(shared).await } else { Level::None };
            let network = shared.cages.network().as_str();
            if level == Level::Full {
                tracing::debug!(level = %level, network, "the confinement of commands is known");
            } else {
                tracing::warn!(level = %level, network, "commands are not confined in full");
            }
            level
        });
        level.await.clone()
    }

    /// The level in words for results and heartbeats: `unproven` until the self-test has run.
    pub fn in_words(&self) -> String {
        match &self.shared {
            None => Level::None.to_string(),
            Some(shared) => shared.proven.get().map_or_else(|| "unproven".to_owned(), Level::to_string),
        }
    }

    /// Says no to what would run with less confinement than the owner requires, and yes to the rest.
    ///
    /// # Errors
    /// `policy_denied`, with the setting that would allow it.
    pub async fn permit(&self) -> Result<(), ToolError> {
        let Some(shared) = &self.shared else { return Ok(()) };
        let (level, required) = (self.level().await, shared.setup.require);
        if level.meets(required) {
            return Ok(());
        }
        let why = match (&level, shared.setup.confine) {
            (_, false) => " because confine = false is set".to_owned(),
            (Level::Partial(_), _) => ": what is named there gets through".to_owned(),
            _ => ": the system enforces nothing of it".to_owned(),
        };
        let text = format!(
            "Nothing was run. The owner requires confinement \"{}\" for what runs programs, and it is {level} here{why}. \
             The owner can allow it as it is: require = \"{}\" under [sandbox] in config.toml. Tools that read or edit \
             files work on.",
            required.as_str(),
            level.as_required().as_str(),
        );
        let meta = Meta { rule: Some("sandbox.require".to_owned()), ..Meta::default() };
        Err(ToolError::new(ErrorCode::PolicyDenied, text).with_meta(meta))
    }

    /// Says no to opening applications, which run unconfined and do what they are told, unless the owner allows it.
    ///
    /// # Errors
    /// `policy_denied`, with the setting that would allow it.
    pub fn permit_app(&self) -> Result<(), ToolError> {
        match &self.shared {
            Some(shared) if !shared.setup.apps && shared.setup.require != Require::None => {
                let text = "Nothing was opened. An application runs unconfined and with any arguments, so that opening \
                            one would undo the confinement of commands. The owner can allow it: apps = true under \
                            [sandbox] in config.toml.";
                Err(ToolError::new(ErrorCode::PolicyDenied, text))
            }
            _ => Ok(()),
        }
    }

    /// Tells package managers not to try again where commands have no network: npm waits 70 s before it gives up.
    #[cfg(unix)]
    pub(super) fn set_retries(&self, env: &mut BTreeMap<String, String>) {
        if self.network() == Network::Full {
            return;
        }
        // pip names the cause only when it tries again.
        let times = [
            ("npm_config_fetch_retries", "0"),
            ("PIP_RETRIES", "1"),
            ("CARGO_NET_RETRY", "0"),
            ("YARN_HTTP_RETRY", "0"),
        ];
        for (name, times) in times {
            env.entry(name.to_owned()).or_insert_with(|| times.to_owned());
        }
    }

    /// What of the workspaces is protected where a command starts, for it to be told of; none where nothing is confined.
    #[cfg(unix)]
    pub(super) async fn watch(&self, cwd: &Path) -> Option<Watch> {
        let shared = self.shared.clone().filter(|shared| shared.setup.confine)?;
        let cwd = cwd.to_owned();
        tokio::task::spawn_blocking(move || Watch::begin(&shared.setup.rules, &cwd, &shared.repositories))
            .await
            .ok()
    }

    /// Whether commands find the protected paths of the workspaces read-only. False where they are only looked at
    /// afterwards, and until the self-test has run.
    pub fn covers(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.proven.get().is_some_and(Level::keeps_protected))
    }

    /// Whether the processes of all commands are counted together and limited: apart from the user's others, and not for
    /// root. Not before the self-test has run.
    pub fn counts_processes(&self) -> bool {
        #[cfg(target_os = "linux")]
        return self.shared.as_ref().is_some_and(|shared| shared.cages.has_namespaces())
            && !rustix::process::geteuid().is_root();
        #[cfg(not(target_os = "linux"))]
        false
    }

    /// Why no command of this device's may run where nothing confines it, as in an editor's terminal; none where the
    /// owner allows that.
    pub fn keeps_commands_here(&self) -> Option<String> {
        let required = self.shared.as_ref()?.setup.require;
        (required != Require::None).then(|| {
            format!(
                "nothing confines commands there, and the owner requires confinement \"{}\". The owner can allow it: \
                 require = \"none\" under [sandbox] in config.toml",
                required.as_str()
            )
        })
    }

    /// The folder for temporary files, where commands are confined.
    pub fn temp(&self) -> Option<&Path> {
        let shared = self
            .shared
            .as_ref()
            .filter(|shared| cfg!(any(target_os = "linux", target_os = "macos")) && shared.setup.confine)?;
        Some(&shared.setup.rules.temp)
    }

    /// Where a command puts its temporary files, where it does not say itself. A compiler's cache that is not to be
    /// written goes there too, since without one that compiler refuses to work.
    #[cfg(unix)]
    pub(super) fn set_temp(&self, env: &mut BTreeMap<String, String>, asked: &[(String, String)]) {
        let Some(temp) = self.temp() else { return };
        let folder = temp.display().to_string();
        let cache = temp.join("go-build").display().to_string();
        for (name, value) in [("TMPDIR", &folder), ("TEMP", &folder), ("TMP", &folder), ("GOCACHE", &cache)] {
            if asked.iter().all(|(set, _)| set != name) {
                env.insert(name.to_owned(), value.clone());
            }
        }
    }

    /// The rules for commands in one sentence or two, for the model that writes them: before the self-test has run as the
    /// owner set them, then as they hold. `added` are the folders that the owner lets them write.
    pub fn describe_rules(&self, added: &[PathBuf]) -> String {
        const UNCONFINED: &str = "Nothing confines commands on this device.";
        let shared = self.shared.as_ref().filter(|shared| shared.setup.confine);
        let Some(shared) = shared.filter(|shared| shared.proven.get() != Some(&Level::None)) else {
            return UNCONFINED.to_owned();
        };
        let reach = match shared.cages.network() {
            Network::Full => "the network is open",
            Network::Loopback => "no network but between themselves",
            Network::None => "no network",
        };
        let ask = if shared.cages.network() == Network::Full {
            ""
        } else {
            " (the owner opens it by network = \"full\" under [sandbox] in config.toml)"
        };
        let folders: Vec<String> = added.iter().map(|folder| folder.display().to_string()).collect();
        let also =
            if folders.is_empty() { String::new() } else { format!(", and in {}", folders.join(", ")) };
        format!("Commands may write only in the workspaces and $TMPDIR{also}; {reach}{ask}.")
    }

    /// What to add to the output of a command that failed, where confinement may be why.
    pub fn hint(&self, output: &str, failed: bool) -> Option<String> {
        let shared = self.shared.as_ref()?;
        let level = shared.proven.get()?;
        let network = shared.cages.network();
        match *level {
            Level::None => None,
            _ if failed => hint::line(&shared.setup.rules, network, output),
            _ => hint::line_after_success(network, output),
        }
    }

    /// What commands reach, as far as it is known.
    pub fn network(&self) -> Network {
        let confining = self
            .shared
            .as_ref()
            .filter(|shared| shared.proven.get().is_none_or(|level| *level != Level::None));
        confining.map_or(Network::Full, |shared| shared.cages.network())
    }
}

/// Finds out what gets through.
async fn prove(shared: &Shared) -> Level {
    match tried(shared).await {
        Ok(Some(level)) => level,
        Ok(None) => {
            tracing::warn!("the self-test of confinement did not get to its end");
            Level::None
        }
        Err(cause) => {
            tracing::warn!(%cause, "commands cannot be confined");
            Level::None
        }
    }
}

#[cfg(target_os = "linux")]
use proof::tried;
#[cfg(target_os = "macos")]
use proof_by_words::tried;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
async fn tried(_shared: &Shared) -> std::io::Result<Option<Level>> {
    Ok(Some(Level::None))
}

#[cfg(all(unix, any(target_os = "macos", test)))]
#[path = "proof_by_words.rs"]
mod proof_by_words;

#[cfg(target_os = "linux")]
#[path = "proof.rs"]
mod proof;

#[cfg(not(any(target_os = "linux", target_os = "macos")))]
impl Confinement {
    /// None: this system's confinement is not built yet.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unused_async, reason = "as where there is something to wait for")]
    pub async fn words_before(&self, _cwd: &Path) -> Result<Vec<String>, ToolError> {
        Ok(Vec::new())
    }
}

#[cfg(not(target_os = "linux"))]
impl Confinement {
    /// Nothing: what confines a program here is the words before it, if anything does.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unused_async, reason = "as where there is something to wait for")]
    pub async fn confine(
        &self,
        _command: &mut tokio::process::Command,
        _writes: bool,
    ) -> Result<(), ToolError> {
        Ok(())
    }
}
