//! The network of one call: its user name in the proxy's address, its traffic by host, and what was refused.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::refusal::ConnectionFailure;
use punie_core::host_traffic::HostTraffic;
use punie_core::ids::{ConversationId, RequestId};

/// The most hosts that are counted apart; the rest is counted together.
const MAX_HOSTS: usize = 100;
/// The name under which the rest is counted.
const OTHER_HOSTS: &str = "other hosts";
/// The most failures that an answer tells.
const MAX_FAILURES: usize = 3;

/// The call whose command uses the proxy.
#[derive(Debug, Clone)]
pub struct NetworkCaller {
    /// The tool.
    pub tool: String,
    /// The command.
    pub command: String,
    /// The request.
    pub request: RequestId,
    /// Its conversation, if it belongs to one.
    pub conversation: Option<ConversationId>,
}

/// The network of one call.
#[derive(Debug)]
pub struct CallNetwork {
    /// The call.
    pub caller: NetworkCaller,
    key: String,
    hosts: Mutex<BTreeMap<String, Arc<HostCounts>>>,
    failures: Mutex<Vec<String>>,
    /// The traffic that was told last; None before the call's answer.
    told: Mutex<Option<Vec<HostTraffic>>>,
}

/// The counted traffic with one host.
#[derive(Debug, Default)]
pub struct HostCounts {
    connections: AtomicU64,
    refused: AtomicU64,
    /// Bytes from the command to the host.
    pub sent: AtomicU64,
    /// Bytes from the host to the command.
    pub received: AtomicU64,
}

impl CallNetwork {
    /// Creates the network of a call with this user name.
    pub fn new(caller: NetworkCaller, key: String) -> Self {
        Self {
            caller,
            key,
            hosts: Mutex::default(),
            failures: Mutex::default(),
            told: Mutex::default(),
        }
    }

    /// Creates a user name that nobody can guess.
    pub fn new_key() -> String {
        uuid::Uuid::new_v4().simple().to_string()
    }

    /// Returns its user name, which only this call's processes know.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Counts a connection to a host. Returns its counters.
    pub(super) fn count_connection(&self, host: &str) -> Arc<HostCounts> {
        let counts = self.host_counts(host);
        counts.connections.fetch_add(1, Ordering::Relaxed);
        counts
    }

    /// Records a connection that was not made, with the reason for the answer of the call.
    pub(super) fn record_failure(&self, host: &str, failure: &ConnectionFailure) {
        if matches!(failure, ConnectionFailure::Refused(_)) {
            let counts = self.host_counts(host);
            counts.refused.fetch_add(1, Ordering::Relaxed);
        }
        let mut failures = self.failures.lock();
        let reason = failure.text();
        if failures.len() < MAX_FAILURES && !failures.iter().any(|known| known == reason) {
            failures.push(reason.to_owned());
        }
    }

    fn host_counts(&self, host: &str) -> Arc<HostCounts> {
        let mut hosts = self.hosts.lock();
        let is_known = hosts.contains_key(host) || hosts.len() < MAX_HOSTS;
        let name = if is_known { host } else { OTHER_HOSTS };
        Arc::clone(hosts.entry(name.to_owned()).or_default())
    }

    /// Returns the reasons for which the first connections were not made, one a line; `None` if there are none.
    pub fn failure_text(&self) -> Option<String> {
        let failures = self.failures.lock();
        (!failures.is_empty()).then(|| failures.join("\n"))
    }

    /// Returns the traffic so far.
    pub fn traffic(&self) -> Vec<HostTraffic> {
        let hosts = self.hosts.lock();
        let traffic = |(host, counts): (&String, &Arc<HostCounts>)| HostTraffic {
            host: host.clone(),
            connections: counts.connections.load(Ordering::Relaxed),
            sent_bytes: counts.sent.load(Ordering::Relaxed),
            received_bytes: counts.received.load(Ordering::Relaxed),
            refused: counts.refused.load(Ordering::Relaxed),
        };
        hosts.iter().map(traffic).collect()
    }

    pub(super) fn note_told_traffic(&self, told: Vec<HostTraffic>) {
        *self.told.lock() = Some(told);
    }

    /// Returns all traffic, if some came after the call's answer that was not told yet. It then counts as told.
    pub(super) fn take_later_traffic(&self) -> Option<Vec<HostTraffic>> {
        let mut told = self.told.lock();
        let now = self.traffic();
        let is_news = told.as_ref().is_some_and(|told| *told != now);
        is_news.then(|| told.insert(now).clone())
    }
}
