//! The facts in the journal that the status shows.

use std::str::FromStr;

use crate::cli::wiring::{self, SettingsInForce};
use crate::config::Config;
use punie_engine::journal::{
    DamageReport, HealthProblem, JournalReader, JournalShellState, OpenRequestCounts,
    PendingRequests, ShellRow, WaitingBackend,
};
use punie_home::{Home, RunnerLock};
use punie_host::local::process_identity::ProcessIdentity;

#[derive(Debug, Default)]
pub(in crate::cli) struct JournalFacts {
    pub counts: OpenRequestCounts,
    pub undelivered_bytes: u64,
    pub sending_bytes: Option<u64>,
    pub pending: PendingRequests,
    pub last_contact_ms: Option<i64>,
    pub last_poll_ms: Option<i64>,
    pub clock_skew_ms: Option<i64>,
    pub epoch: Option<u64>,
    pub trouble: Option<String>,
    pub link: Option<String>,
    pub salvage: Option<DamageReport>,
    pub other_backends: Vec<WaitingBackend>,
    /// The background shells that run.
    pub shells: Vec<ShellRow>,
    /// The problems that the runner recorded last.
    pub degraded: Vec<HealthProblem>,
    /// The runner's own attempts that failed, if `canary` is one of the problems.
    pub canary: String,
}

impl JournalFacts {
    /// Reads the facts that are still true: without those of a runner that has ended, and without contacts that an
    /// earlier process had.
    pub fn read_current(
        config: &Config,
        home: &Home,
        is_running: bool,
        in_force: Option<&SettingsInForce>,
    ) -> anyhow::Result<Self> {
        let mut facts = Self::read(config, home, is_running)?;
        if !is_running {
            facts.degraded.clear();
            (facts.trouble, facts.link, facts.sending_bytes) = (None, None, None);
        }
        if let Some(in_force) = in_force {
            facts.forget_contacts_before(in_force.started_at_ms);
        }
        Ok(facts)
    }

    /// Reads the facts of the runner's backend; without a runner, of the configured one; without that, of the last
    /// one.
    fn read(config: &Config, home: &Home, is_running: bool) -> anyhow::Result<Self> {
        let Some(reader) = JournalReader::find(&home.journal_file())? else {
            return Ok(Self::default());
        };
        let reader = match &config.backend.url {
            Some(url) if !is_running => {
                let id = wiring::backend_tokens(config, home)?.id();
                reader.for_backend(url.as_str(), id.as_deref())?
            }
            _ => reader.for_last_backend()?,
        };
        Ok(Self {
            counts: reader.count_beside_runner(find_live_run(home, &reader)?)?,
            undelivered_bytes: reader.undelivered_bytes()?,
            sending_bytes: read_number(&reader, "sending_bytes")?,
            pending: reader.read_pending()?,
            last_contact_ms: read_number(&reader, "last_contact_ms")?,
            last_poll_ms: read_number(&reader, "last_poll_ms")?,
            clock_skew_ms: read_number(&reader, "clock_offset_ms")?,
            epoch: read_number(&reader, "epoch")?,
            trouble: reader.read_fact("backend_trouble")?,
            link: reader.read_fact("backend_link")?,
            salvage: reader.damage_report()?,
            other_backends: reader.other_waiting_backends()?,
            shells: reader
                .list_shell_rows()?
                .into_iter()
                .filter(|row| {
                    row.state == JournalShellState::Running && (is_running || is_alive(row))
                })
                .collect(),
            degraded: HealthProblem::from_fact(&reader.read_fact("degraded")?.unwrap_or_default()),
            canary: reader.read_fact("canary")?.unwrap_or_default(),
        })
    }

    /// Removes the times of contacts with the backend that an earlier process had.
    fn forget_contacts_before(&mut self, started_at_ms: i64) {
        for at in [&mut self.last_contact_ms, &mut self.last_poll_ms] {
            *at = at.filter(|at| *at >= started_at_ms);
        }
    }
}

/// Returns the number of the run of the runner that lives; `None` if no runner runs.
pub(in crate::cli) fn find_live_run(
    home: &Home,
    reader: &JournalReader,
) -> anyhow::Result<Option<u32>> {
    match RunnerLock::find_holder(home)? {
        Some(_) => read_number(reader, "epoch"),
        None => Ok(None),
    }
}

/// Returns whether the process of a shell may live. Another process with the same number is not it.
fn is_alive(row: &ShellRow) -> bool {
    let identity = row.trace.as_ref().map(|trace| trace.identity.parse());
    identity.is_none_or(|identity: Result<ProcessIdentity, _>| {
        identity.is_ok_and(|process| process.may_be_alive())
    })
}

fn read_number<T: FromStr>(reader: &JournalReader, key: &str) -> anyhow::Result<Option<T>> {
    Ok(reader.read_fact(key)?.and_then(|text| text.parse().ok()))
}
