//! The confinement of this machine's processes: proven once in a life, then put on every command. Not here: what is
//! granted (sandbox), and taking it on (launch).

#[cfg(unix)]
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::OnceCell;

use crate::sandbox::{Cages, Level, Network, Require, Rules};
use crate::tool::{ErrorCode, ToolError};

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
        Self { shared: Some(Arc::new(Shared { setup, cages, proven: OnceCell::new() })) }
    }

    /// How far commands are confined. The first to ask waits for the self-test, some tens of milliseconds.
    pub async fn level(&self) -> Level {
        let Some(shared) = &self.shared else { return Level::None };
        let level = shared.proven.get_or_init(|| async {
            let level = if shared.setup.confine { prove(shared).await } else { Level::None };
            let network = shared.cages.network().as_str();
            tracing::info!(level = %level, network, "the confinement of commands is known");
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
        Err(ToolError::new(ErrorCode::PolicyDenied, text))
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

    /// The folder for temporary files, where commands are confined.
    pub fn temp(&self) -> Option<&Path> {
        let shared =
            self.shared.as_ref().filter(|shared| cfg!(target_os = "linux") && shared.setup.confine)?;
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

    /// What to add to the output of a command that failed, where confinement may be why.
    pub fn hint(&self, output: &str) -> Option<String> {
        let shared = self.shared.as_ref()?;
        let level = shared.proven.get()?;
        let network = shared.cages.network();
        if *level == Level::None {
            None
        } else {
            crate::sandbox::hint::line(&shared.setup.rules, network, output)
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

#[cfg(target_os = "linux")]
use linux::prove;

#[cfg(not(target_os = "linux"))]
async fn prove(_shared: &Shared) -> Level {
    Level::None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io::{self, Read};
    use std::path::Path;
    use std::time::{Duration, Instant};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::fs::{Mode, OFlags, open};

    use super::super::command::command_of;
    use super::super::process::{Plan, Spawned, Spawner};
    use super::super::shut_in;
    use super::super::ties::Ties;
    use super::{Confinement, Shared};
    use crate::acp::terminals::{Launch, WindowSize};
    use crate::sandbox::cage::{Cage, Namespaces};
    use crate::sandbox::self_test::{Outside, SCRIPT};
    use crate::sandbox::{Level, Network};
    use crate::tool::ToolError;

    /// How long the self-test may take on a machine that is busy.
    const PATIENCE: Duration = Duration::from_secs(20);

    impl Confinement {
        /// What the next process is to take on; none where nothing is confined. It alone may also read in `shown`.
        ///
        /// # Errors
        /// `io` where the kernel refuses what it gave before: nothing then runs in the open.
        pub(in crate::acp::local) async fn cage(
            &self,
            shown: Option<&Path>,
        ) -> Result<Option<Cage>, ToolError> {
            let Some(shared) = self.shared.as_ref().filter(|shared| shared.setup.confine) else {
                return Ok(None);
            };
            if self.level().await == Level::None {
                return Ok(None);
            }
            let made = match shown {
                Some(folder) => shared.cages.cage_showing(folder),
                None => shared.cages.cage(),
            };
            made.map(Some).map_err(|cause| ToolError::io("the confinement of the command", &cause))
        }

        /// Has a program that the standard library starts run confined, as commands are.
        ///
        /// # Errors
        /// As a command's confinement.
        pub async fn confine(&self, command: &mut tokio::process::Command) -> Result<(), ToolError> {
            if let Some(cage) = self.cage(None).await? {
                shut_in::confine(command, cage);
            }
            Ok(())
        }
    }

    /// Finds out what gets through.
    pub(super) async fn prove(shared: &Shared) -> Level {
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

    async fn tried(shared: &Shared) -> io::Result<Option<Level>> {
        let spawner = Spawner::new()?;
        if shared.setup.rules.network == Network::Loopback {
            let made = namespaces(&spawner).await;
            if let Err(cause) = &made {
                tracing::info!(%cause, "commands get no loopback of their own, and no network");
            }
            shared.cages.found(made.ok());
        }
        let outside = Outside::lay_out(&shared.setup.self_test.join(std::process::id().to_string()))?;
        let arguments = outside.arguments()?;
        let helper = spawner.spawn(script(SCRIPT, arguments, shared, Some(shared.cages.cage()?))?).await?;
        let said = tokio::task::spawn_blocking(move || read(helper)).await.map_err(io::Error::other)??;
        Ok(outside.level(&said, shared.cages.network()))
    }

    fn script(text: &str, arguments: Vec<String>, shared: &Shared, cage: Option<Cage>) -> io::Result<Plan> {
        let (program, mut args) = command_of(&Launch::Shell(text.to_owned()))
            .map_err(|error| io::Error::other(error.text().to_owned()))?;
        args.push("self-test".to_owned());
        args.extend(arguments);
        let env = [("PATH".to_owned(), "/usr/local/bin:/usr/bin:/bin".to_owned())].into();
        let cwd = shared.setup.rules.temp.clone();
        Ok(Plan { program, args, env, cwd, stdin: None, tty: None, ties: Ties::default(), cage })
    }

    /// Makes the namespaces in a process that waits until they are held here, and is ended then.
    async fn namespaces(spawner: &Spawner) -> io::Result<Namespaces> {
        let (program, args) = command_of(&Launch::Shell("read -r _".to_owned()))
            .map_err(|error| io::Error::other(error.text().to_owned()))?;
        let plan = Plan {
            program,
            args,
            env: std::collections::BTreeMap::new(),
            cwd: "/".into(),
            stdin: None,
            // Something to read from that never comes to an end.
            tty: Some(WindowSize::default()),
            ties: Ties::default(),
            cage: Some(Cage::to_make_namespaces()),
        };
        let maker = spawner.spawn(plan).await?;
        let held = |kind: &str| {
            let path = format!("/proc/{}/ns/{kind}", maker.child.pid());
            open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        };
        Ok(Namespaces { user: held("user")?, network: held("net")? })
    }

    /// Reads all that it prints. It is killed when it takes too long.
    fn read(spawned: Spawned) -> io::Result<String> {
        let until = Instant::now() + PATIENCE;
        let Spawned { child: _killed_in_the_end, output } = spawned;
        let mut file = std::fs::File::from(output);
        let mut text = Vec::new();
        while Instant::now() < until {
            let second = Timespec { tv_sec: 1, tv_nsec: 0 };
            poll(&mut [PollFd::new(&file, PollFlags::IN)], Some(&second))?;
            let mut piece = [0; 4096];
            match file.read(&mut piece) {
                Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
                Ok(count) => text.extend_from_slice(&piece[..count]),
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) => return Err(cause),
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

#[cfg(not(target_os = "linux"))]
impl Confinement {
    /// Nothing: this system's confinement is not built yet.
    ///
    /// # Errors
    /// None.
    #[expect(clippy::unused_async, reason = "as where there is something to wait for")]
    pub async fn confine(&self, _command: &mut tokio::process::Command) -> Result<(), ToolError> {
        Ok(())
    }
}
