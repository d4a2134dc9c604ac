//! The device of this home: the runner that its clients share, found or started anew whenever it is needed.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::link_connection::{LinkConnection, OutputSender};
use crate::cli::background::ensure_runner;
use crate::cli::caller_client::CallerRequest;
use crate::cli::context::CliContext;
use crate::cli::pause::is_restart_pause;
use crate::cli::wiring::{SettingsInForce, open_session_folders};
use crate::mcp::{LinkAnswer, LinkError};
use punie_core::ids::RequestId;
use punie_engine::journal::{JournalReader, RequestState};
use punie_home::{
    ClientPresence, EmbeddedBackendAddress, Home, OwnerSwitch, OwnerSwitches, RunnerLock,
    RunnerLockHolder, command_to_type,
};
use punie_host::LinkedRepository;
use punie_host::permission::{FolderVerdict, SessionFolders};

/// The longest wait for a runner to start, before a call.
const START_LIMIT: Duration = Duration::from_secs(30);
/// The longest wait for the runner after one that ended during a call.
const NEXT_RUNNER_LIMIT: Duration = Duration::from_secs(8);
/// The interval of looks at the runner during a call.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// The number of looks after which a call that a pause holds is given up. Tools that a pause does not hold begin before.
const HELD_CHECKS: u32 = 3;
/// The longest wait for the answer of a call that was given up.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

pub(super) struct HomeDevice {
    context: CliContext,
    opened: OnceLock<OpenedHome>,
    current: Mutex<Option<RunnerConnection>>,
}

/// The home, and the word that this client uses its runner.
struct OpenedHome {
    home: Home,
    _presence: Option<ClientPresence>,
}

#[derive(Clone)]
struct RunnerConnection {
    holder: RunnerLockHolder,
    link: LinkConnection,
    backend: RunnerBackend,
    /// The workspaces that it works in for clients of any folder.
    workspaces: Vec<PathBuf>,
}

#[derive(Clone, PartialEq)]
enum RunnerBackend {
    /// The one of this home, whose address differs from start to start.
    Embedded,
    /// The one at this address.
    At(Option<String>),
}

/// The end of a wait for an answer that has not come.
enum WaitEnd {
    RunnerEnded,
    /// The call has not begun, because of this.
    Held(String),
}

impl HomeDevice {
    /// Returns the device of this command's home.
    pub fn new(context: CliContext) -> Self {
        let device = Self {
            context,
            opened: OnceLock::new(),
            current: Mutex::default(),
        };
        // From now on the runner knows of this client. What is wrong is told with each call.
        let _ = device.home();
        device
    }

    fn home(&self) -> Result<&Home, LinkError> {
        if self.opened.get().is_none() {
            let open = || CliContext::config_home(&self.context.config_despite_faults()?);
            let home = open().map_err(|error| link_error(&error))?;
            let presence = ClientPresence::announce(&home);
            let presence = presence
                .inspect_err(
                    |error| tracing::warn!(%error, "the runner does not know of this client"),
                )
                .ok();
            let _ = self.opened.set(OpenedHome {
                home,
                _presence: presence,
            });
        }
        let opened = self.opened.get();
        opened
            .map(|opened| &opened.home)
            .ok_or_else(|| LinkError("the home could not be opened".to_owned()))
    }

    /// Connects to the runner, which is started if none runs.
    pub async fn connect(&self, limit: Duration) -> Result<LinkConnection, LinkError> {
        self.connect_to_runner(limit).await.map(|one| one.link)
    }

    /// Connects to the runner, as long as one may take to start.
    pub async fn connect_patiently(&self) -> Result<LinkConnection, LinkError> {
        self.connect(START_LIMIT).await
    }

    async fn connect_to_runner(&self, limit: Duration) -> Result<RunnerConnection, LinkError> {
        let home = self.home()?;
        let mut current = self.current.lock().await;
        if let Some(open) = &*current
            && find_runner(home) == Some(open.holder)
        {
            return Ok(open.clone());
        }
        *current = None;
        let connecting = async {
            let holder = ensure_runner(&self.context, home, limit).await?;
            self.open_connection(holder).await
        };
        let opened = connecting.await.map_err(|error| link_error(&error))?;
        Ok(current.insert(opened).clone())
    }

    async fn open_connection(&self, holder: RunnerLockHolder) -> anyhow::Result<RunnerConnection> {
        let (mut config, home) = self.context.caller_config()?;
        let in_force = SettingsInForce::read_for(holder, &home)
            .ok_or_else(|| anyhow::anyhow!("the runner has just ended"))?;
        let workspaces = in_force.workspaces.iter().map(PathBuf::from).collect();
        let embedded = EmbeddedBackendAddress::find(&home)?;
        let is_embedded = embedded.is_some() && embedded == in_force.backend.url;
        match &embedded {
            Some(url) if is_embedded => config.set_embedded_backend(url),
            _ => in_force.apply_backend(&mut config),
        }
        let caller = CliContext::caller_client(&config, &home)?;
        let device = self.context.resolve_device(&config, &home, &caller).await?;
        Ok(RunnerConnection {
            holder,
            link: LinkConnection::new(caller, device),
            backend: if is_embedded {
                RunnerBackend::Embedded
            } else {
                RunnerBackend::At(in_force.backend.url)
            },
            workspaces,
        })
    }

    /// Returns the owner's decision about sessions in a folder, as far as there is one.
    pub async fn judge_folder(&self, folder: &Path) -> Result<FolderVerdict, LinkError> {
        let folder = folder.to_owned();
        self.with_session_folders(move |folders| Ok(folders.judge_folder(&folder)))
            .await
    }

    /// Returns the repositories of a session's folders about which the owner has not decided.
    pub async fn undecided_repositories(
        &self,
        folders: &[PathBuf],
    ) -> Result<Vec<LinkedRepository>, LinkError> {
        let of_session = folders.to_vec();
        self.with_session_folders(move |folders| Ok(folders.undecided_repositories(&of_session)))
            .await
    }

    /// Makes a rule of the owner's answer about a folder.
    pub async fn answer_folder(&self, folder: &Path, is_allowed: bool) -> Result<(), LinkError> {
        let folder = folder.to_owned();
        let record = move |folders: &SessionFolders| {
            let recorded = folders.record_answer(&folder, is_allowed);
            recorded.map(drop).map_err(anyhow::Error::msg)
        };
        self.with_session_folders(record).await
    }

    async fn with_session_folders<T: Send + 'static>(
        &self,
        use_them: impl FnOnce(&SessionFolders) -> anyhow::Result<T> + Send + 'static,
    ) -> Result<T, LinkError> {
        let workspaces = self.connect_to_runner(START_LIMIT).await?.workspaces;
        let home = self.home()?.clone();
        let context = self.context.with_flags(|_| ());
        let using = tokio::task::spawn_blocking(move || {
            let mut config = context.config_despite_faults()?;
            config.workspaces = workspaces;
            let folders = open_session_folders(&config, &home, context.environment())?;
            use_them(&folders)
        });
        let used = using.await.map_err(|fault| LinkError(fault.to_string()))?;
        used.map_err(|error| link_error(&error))
    }

    /// Sends a call, and waits for its answer. If the runner ends meanwhile, the next one answers it.
    pub async fn run_call(
        &self,
        ask: &CallerRequest,
        mut output: Option<OutputSender>,
    ) -> Result<LinkAnswer, LinkError> {
        let home = self.home()?;
        let mut tried: Option<RunnerBackend> = None;
        let mut limit: Option<Instant> = None;
        loop {
            let connecting = self.connect_to_runner(START_LIMIT);
            let connection = match limit {
                None => connecting.await?,
                Some(limit) => match timeout_at(limit, connecting).await {
                    Ok(Ok(connection)) => connection,
                    Ok(Err(error)) => return Err(may_have_run(&ask.id, Some(&error))),
                    Err(_elapsed) => return Err(may_have_run(&ask.id, None)),
                },
            };
            let link = &connection.link;
            let backend = &connection.backend;
            if tried.get_or_insert_with(|| backend.clone()) != backend {
                // The next runner works for another backend, which does not know the call.
                return Err(may_have_run(&ask.id, None));
            }
            let running = async {
                // The backend knows one that was sent before by its id.
                link.send_call(ask).await?;
                link.wait_for_answer(&ask.id, output.as_mut()).await
            };
            let watching = watch_runner(home, connection.holder, &ask.id);
            let ended = tokio::select! {
                biased;
                answer = running => {
                    return answer.map(|answer| name_request(answer, &ask.id, limit.is_some()));
                }
                ended = watching => ended,
            };
            match ended {
                WaitEnd::RunnerEnded => limit = Some(Instant::now() + NEXT_RUNNER_LIMIT),
                WaitEnd::Held(why) => return give_up(link, &ask.id, why).await,
            }
        }
    }

    /// Lists the entries of the device's catalog, or fails if they are not there soon.
    pub async fn list_tools(&self, limit: Duration) -> Result<Vec<Value>, LinkError> {
        let listing = async {
            let link = self.connect(limit).await?;
            loop {
                let listed = link.list_catalog("tool").await?;
                if !listed.is_empty() {
                    return Ok(listed);
                }
                // A runner publishes its catalog a moment after its start.
                sleep(Duration::from_millis(50)).await;
            }
        };
        let late = |_elapsed| LinkError("the device has not named its tools in time".to_owned());
        timeout(limit, listing).await.map_err(late)?
    }
}

fn find_runner(home: &Home) -> Option<RunnerLockHolder> {
    RunnerLock::find_holder(home).ok().flatten()
}

/// Completes when the runner has ended, or a pause holds the call.
async fn watch_runner(home: &Home, holder: RunnerLockHolder, id: &RequestId) -> WaitEnd {
    let mut held = 0;
    loop {
        sleep(CHECK_INTERVAL).await;
        if find_runner(home) != Some(holder) {
            return WaitEnd::RunnerEnded;
        }
        match describe_pause(home).filter(|_| !has_begun(home, id)) {
            Some(_) if held < HELD_CHECKS => held += 1,
            Some(why) => return WaitEnd::Held(why),
            None => held = 0,
        }
    }
}

/// Says why no call begins now, if so.
fn describe_pause(home: &Home) -> Option<String> {
    let switches = OwnerSwitches::in_home(home);
    let resume = command_to_type("resume");
    if let Some(state) = switches.read_switch(OwnerSwitch::Paused) {
        if is_restart_pause(&state) {
            return None;
        }
        let reason = state.reason.map(|reason| format!(" ({reason})"));
        return Some(format!(
            "The owner has paused this device{}, so the call did not run. Calls run again after `{resume}`.",
            reason.unwrap_or_default()
        ));
    }
    switches.read_switch(OwnerSwitch::SafeMode).map(|_| {
        format!(
            "The runner ended several times in a row and starts no calls until the owner has looked, so the call did \
             not run. Calls run again after `{resume}`."
        )
    })
}

/// Returns whether a call has begun. If that cannot be found out, it may have.
fn has_begun(home: &Home, id: &RequestId) -> bool {
    let look = || {
        let Some(reader) = JournalReader::find(&home.journal_file())? else {
            return Ok(false);
        };
        reader
            .for_last_backend()?
            .request_record(id)
            .map(|record| record.is_some_and(|record| record.state != RequestState::Accepted))
    };
    look().unwrap_or(true)
}

/// Takes back a call that has not begun. Its answer counts, if it has begun all the same.
async fn give_up(
    link: &LinkConnection,
    id: &RequestId,
    why: String,
) -> Result<LinkAnswer, LinkError> {
    link.cancel_call(id).await?;
    match timeout(CANCEL_LIMIT, link.wait_for_answer(id, None)).await {
        Ok(Ok(answer)) if answer.payload["meta"]["code"] != "cancelled" => Ok(answer),
        _ => Err(LinkError(why)),
    }
}

/// Names the request in the answer of a call that may have run when its runner ended.
fn name_request(mut answer: LinkAnswer, id: &RequestId, has_ended: bool) -> LinkAnswer {
    if has_ended
        && answer.payload["meta"]["mayHaveRun"] == true
        && let Some(text) = answer.payload["error"].as_str()
    {
        let history = command_to_type(&format!("history {id}"));
        answer.payload["error"] = format!("{text} The owner sees it by `{history}`.").into();
    }
    answer
}

fn may_have_run(id: &RequestId, why: Option<&LinkError>) -> LinkError {
    let why = why.map_or_else(String::new, |why| format!(" The next one: {why}."));
    LinkError(format!(
        "The runner on this machine ended during the call, so the call may have run, in part or whole.{why} Look at what \
         it changed before you repeat it. The owner sees it by `{}`",
        command_to_type(&format!("history {id}"))
    ))
}

fn link_error(error: &anyhow::Error) -> LinkError {
    LinkError(format!("{error:#}"))
}
