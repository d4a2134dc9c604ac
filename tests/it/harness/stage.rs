//! Sets up one backend in this process, one device paired with it, and one caller. Most tests of the runner begin with
//! this fixture.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use punie_core::ids::RequestId;
use punie_dev_backend::{
    BackendClock, CallerPermission, DevBackend, DevBackendOptions, FaultInjector, MAX_CONNECTIONS,
    PairingTerms,
};
use punie_engine::journal::{JournalReader, RequestState};
use punie_home::{ApproverPresence, Home};
use punie_text::output::OutputStore;
use serde_json::Value;
use tempfile::TempDir;

use super::caller::{CallAnswer, TestCaller, ToolCall};
use super::pairing::pair_home;
use super::process::{EndedProgram, ProcessSetting, RunningProgram};
use super::reserved_port::ReservedPort;
use super::wait::{wait_for_some, wait_until};

/// Retry delays that are short enough for tests, and no safe mode after crashes.
const QUICK: &str = "
[backend.poll]
error_base_ms = 20
error_cap_ms = 200
function_error_min_ms = 50
function_error_max_ms = 200
unauthorized_ms = 200
[safe_mode]
crashes = 0
";

/// A backend with a device and a caller.
pub struct RunnerFixture {
    backend: Option<DevBackend>,
    options: DevBackendOptions,
    /// The backend's port, reserved while the backend is stopped.
    _port: ReservedPort,
    ahead_ms: Arc<AtomicI64>,
    pairing_code: String,
    /// The faults that a test injects into the backend.
    pub faults: FaultInjector,
    pub caller: TestCaller,
    pub setting: ProcessSetting,
    dir: TempDir,
}

impl RunnerFixture {
    /// Sets up a device with the default configuration, except for the short retry delays.
    pub async fn new() -> Self {
        Self::with_config("").await
    }

    /// Sets up a device with these lines added to its configuration. The caller reads the open questions once, so the
    /// runner can ask it for a minute.
    pub async fn with_config(config: &str) -> Self {
        let setup = Self::without_listener(config).await;
        setup.caller.questions().await;
        setup
    }

    /// Sets up a caller that does not read the open questions.
    pub async fn without_listener(config: &str) -> Self {
        Self::with_unpaired_device(config)
            .await
            .pair_with_backend()
            .await
    }

    /// Sets up a backend whose clock is ahead of the device's by `ms`, or behind it if `ms` is negative.
    pub async fn with_skewed_clock(ms: i64) -> Self {
        let setup = Self::with_unpaired_device("").await;
        setup.advance_backend(ms);
        setup.pair_with_backend().await
    }

    async fn pair_with_backend(self) -> Self {
        let mut setup = self;
        let device = pair_home(&setup.setting, &setup.pairing_code).await;
        let token = setup
            .backend()
            .mint_caller_token("test", CallerPermission::Both)
            .expect("a token");
        setup.caller = TestCaller::new(&setup.setting.url, token, device);
        setup
    }

    /// Sets up a backend that answers every poll at once, as Convex does.
    pub async fn with_unheld_polls(config: &str) -> Self {
        Self::set(config, false).await.pair_with_backend().await
    }

    /// Sets up a device that the backend does not know yet, and that can receive no calls.
    pub async fn with_unpaired_device(config: &str) -> Self {
        Self::set(config, true).await
    }

    async fn set(config: &str, holds: bool) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let ahead_ms = Arc::new(AtomicI64::new(0));
        let ahead = Arc::clone(&ahead_ms);
        let faults = FaultInjector::new();
        let port = ReservedPort::new();
        let options = DevBackendOptions {
            db: dir.path().join("backend.sqlite3"),
            port: port.address().port(),
            clock: BackendClock::new(move || {
                system_ms() + to_float_ms(ahead.load(Ordering::SeqCst))
            }),
            holds,
            max_connections: MAX_CONNECTIONS,
            faults: Some(faults.clone()),
        };
        let backend = DevBackend::start_server(options.clone())
            .await
            .expect("started");
        let url = backend.listen_url().to_owned();
        let config = format!("{QUICK}{config}");
        let setting = ProcessSetting::with_folders(dir.path(), url.clone(), &config);
        Self {
            options,
            _port: port,
            pairing_code: backend
                .renew_pairing_code(PairingTerms::LARGEST)
                .expect("a code"),
            backend: Some(backend),
            ahead_ms,
            faults,
            caller: TestCaller::new(&url, String::new(), String::new()),
            setting,
            dir,
        }
    }

    fn backend(&self) -> &DevBackend {
        self.backend.as_ref().expect("the backend runs")
    }

    pub fn pairing_code(&self) -> &str {
        &self.pairing_code
    }

    /// Creates another caller, with a token of this name.
    pub fn caller_named(&self, name: &str) -> TestCaller {
        let token = self
            .backend()
            .mint_caller_token(name, CallerPermission::Both)
            .expect("a token");
        TestCaller::new(&self.setting.url, token, self.caller.device.clone())
    }

    /// Stops the backend. Its address stays reserved for a restart.
    pub async fn stop_backend(&mut self) {
        self.backend
            .take()
            .expect("the backend runs")
            .stop_server()
            .await;
    }

    /// Starts the backend again, with the same database and address.
    pub async fn start_backend(&mut self) {
        self.backend = Some(
            DevBackend::start_server(self.options.clone())
                .await
                .expect("started again"),
        );
    }

    /// Moves only the backend's clock.
    pub fn advance_backend(&self, ms: i64) {
        self.ahead_ms.fetch_add(ms, Ordering::SeqCst);
    }

    /// Runs the backend's housekeeping, which answers the requests that are overdue by its clock.
    pub async fn close_overdue(&self) {
        self.backend().housekeep().await.expect("done");
    }

    /// Opens the backend's database, for rows that no caller can store. A running backend notices such rows only with
    /// the next append.
    pub fn database(&self) -> rusqlite::Connection {
        let db = rusqlite::Connection::open(&self.options.db).expect("the backend's database");
        db.busy_timeout(std::time::Duration::from_secs(30))
            .expect("set");
        db
    }

    /// Starts the runner in the background.
    pub fn run(&self) -> RunningProgram {
        RunningProgram::start(&self.setting, &["run"])
    }

    /// Starts the runner in the background, with another address of the same backend.
    pub fn run_at(&self, url: &str) -> RunningProgram {
        RunningProgram::start(&self.setting_at(url), &["run"])
    }

    /// Starts the runner in the background with this address and with these failpoints, at which it ends.
    pub fn run_armed(&self, url: &str, points: &str) -> RunningProgram {
        let setting = self.setting_at(url);
        RunningProgram::start_with(&setting, &["run"], &[("PUNIE_FAILPOINTS", points.as_ref())])
    }

    /// The setting with another address of the same backend.
    fn setting_at(&self, url: &str) -> ProcessSetting {
        ProcessSetting {
            url: url.to_owned(),
            ..self.setting.clone()
        }
    }

    /// Replaces a part of the configuration, for programs that start later.
    pub fn configure(&self, from: &str, to: &str) {
        let file = self.setting.home.join("config.toml");
        let text = std::fs::read_to_string(&file).expect("a configuration");
        assert!(text.contains(from), "{from:?} is not in {text}");
        std::fs::write(file, text.replace(from, to)).expect("written");
    }

    /// The fact that the journal stores under this key.
    pub fn journal_note(&self, key: &str) -> Option<String> {
        self.journal()?.read_fact(key).expect("readable")
    }

    /// Runs one command to its end, with another address of the same backend.
    pub async fn command_at(&self, url: &str, args: &[&str]) -> EndedProgram {
        let program = RunningProgram::start(&self.setting_at(url), args);
        program.end().await
    }

    /// The JSON output of `status`.
    pub async fn status(&self) -> Value {
        self.command(&["--json", "status"]).await.json()
    }

    /// Starts the runner in the background, from a shell that first runs these commands.
    pub fn run_after(&self, words: &str) -> RunningProgram {
        RunningProgram::start_after(&self.setting, words, &["run"])
    }

    /// Waits until the device lists exactly one question, and returns it.
    pub async fn listed_question(&self) -> Value {
        let listed = async || {
            let out = self.command(&["approvals", "--json"]).await.out;
            serde_json::from_str(out.trim())
                .ok()
                .filter(|question: &Value| question["id"].is_string())
        };
        wait_for_some("a question on the device's list", listed).await
    }

    /// Starts `approvals --watch` without a terminal, and waits until the runner can find it.
    pub async fn watch_approvals(&self) -> RunningProgram {
        let watch = RunningProgram::start(&self.setting, &["--json", "approvals", "--watch"]);
        self.until_asker_announced().await;
        watch
    }

    /// Waits until a process announces that it asks a person at this device.
    pub async fn until_asker_announced(&self) {
        let home = Home::open_home(&self.setting.home).expect("a home");
        wait_until("an announced process that asks a person", || {
            ApproverPresence::is_announced(&home)
        })
        .await;
    }

    /// Runs one command to its end.
    pub async fn command(&self, args: &[&str]) -> EndedProgram {
        RunningProgram::start(&self.setting, args).end().await
    }

    /// The output of `history ID`, with one blank between words.
    pub async fn shown_history(&self, id: &str) -> String {
        let shown = self.command(&["history", id]).await.out;
        shown.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    /// Runs `--once`, which must succeed, and returns its report.
    pub async fn once(&self) -> Value {
        let ended = self.command(&["--once", "--json"]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        ended.json()
    }

    pub async fn ask(&self, ask: ToolCall) -> String {
        self.caller.ask(ask).await
    }

    /// Stores a call of Bash and returns its id.
    pub async fn ask_bash(&self, command: &str) -> String {
        self.ask(ToolCall::bash(command)).await
    }

    pub async fn answer(&self, id: &str) -> CallAnswer {
        self.caller.answer(id).await
    }

    /// Stores a call and waits for its answer.
    pub async fn call(&self, call: ToolCall) -> CallAnswer {
        self.caller.call_and_wait(call).await
    }

    /// Calls a tool and waits for the answer.
    pub async fn call_tool(&self, tool: &str, args: &Value) -> CallAnswer {
        self.call(ToolCall::new(tool, args)).await
    }

    /// Runs a command and waits for the answer.
    pub async fn bash(&self, command: &str) -> CallAnswer {
        self.call(ToolCall::bash(command)).await
    }

    /// The path of a file in the workspace.
    pub fn file(&self, name: &str) -> PathBuf {
        self.setting.workspace.join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.file(name), text).expect("written");
    }

    /// The text of a file in the workspace, or an empty text if there is no such file.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.file(name)).unwrap_or_default()
    }

    /// Waits until a file in the workspace holds a whole line, and returns the line.
    pub async fn wait_for_line_in(&self, name: &str) -> String {
        wait_until(&format!("a line in {name}"), || {
            self.read(name).contains('\n')
        })
        .await;
        self.read(name).trim().to_owned()
    }

    /// Waits until the stored output of a call contains these words. A crash loses only output that is not stored yet.
    pub async fn wait_for_stored_output(&self, id: &str, words: &str) {
        let handle = OutputStore::handle_for(&RequestId::parse(id).expect("an id"), 0);
        let kept = self
            .setting
            .home
            .join("state/outputs")
            .join(handle.as_str());
        let holds = || std::fs::read_to_string(&kept).is_ok_and(|kept| kept.contains(words));
        wait_until(&format!("{words:?} in the stored output"), holds).await;
    }

    /// Opens the journal, or returns `None` before a runner has created it.
    pub fn journal(&self) -> Option<JournalReader> {
        JournalReader::open_read_only(&self.setting.home.join("state/journal.sqlite3")).ok()
    }

    /// The state of a request in the journal.
    pub fn state(&self, id: &str) -> Option<RequestState> {
        let id = RequestId::parse(id).expect("an id");
        // A journal that a runner is just creating may have no tables yet.
        self.journal()?
            .request_record(&id)
            .ok()?
            .map(|life| life.state)
    }

    /// Waits until a request has this state in the journal.
    pub async fn wait_for_state(&self, id: &str, state: RequestState) {
        wait_until(&format!("{id} to be {}", state.as_str()), || {
            self.state(id) == Some(state)
        })
        .await;
    }
}

impl Drop for RunnerFixture {
    fn drop(&mut self) {
        // Keeps the logs of a failed test.
        self.dir.disable_cleanup(std::thread::panicking());
    }
}

fn system_ms() -> f64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs_f64()
        * 1_000.0
}

#[expect(
    clippy::cast_precision_loss,
    reason = "milliseconds are far below 2^53"
)]
fn to_float_ms(ms: i64) -> f64 {
    ms as f64
}
