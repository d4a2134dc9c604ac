//! The network by consent: a proxy in the runner, which commands reach in their network namespace only. It connects to
//! the hosts that the owner's rules or a person allow.

mod address_check;
mod call_network;
mod connection_shares;
mod host_gate;
mod host_question;
mod on_link;
mod proxy_connection;
mod proxy_request;
mod refusal;
mod tunnel;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use crate::blocking::run_blocking;
use punie_core::host_traffic::HostTraffic;
use punie_core::ids::RequestId;

pub use call_network::{CallNetwork, NetworkCaller};
use connection_shares::{ConnectionShares, MAX_CONNECTIONS};
pub use host_gate::{HostGate, NetworkTarget, ResolveName};
pub use host_question::{HostAsker, MaskText, Patience};

/// The port of the proxy on the loopback of commands.
pub const PROXY_PORT: u16 = 13_128;

/// The most clients at a time; more wait. Beside those with a connection, some are being read or answered.
const MAX_CLIENTS: usize = MAX_CONNECTIONS + 64;
/// The calls whose processes may still use the proxy. A process of an older call is refused.
const MAX_CALLS: usize = 4_096;

/// Variables with the proxy's address.
const PROXY_VARIABLES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
];
/// Variables that package managers and Node need beside it: they use the proxy, and wait for a person's answer.
const OTHER_VARIABLES: &[(&str, &str)] = &[
    ("NO_PROXY", "localhost,127.0.0.1,127.0.0.0/8,::1"),
    ("no_proxy", "localhost,127.0.0.1,127.0.0.0/8,::1"),
    ("NODE_USE_ENV_PROXY", "1"),
    ("CARGO_HTTP_TIMEOUT", "600"),
    ("PIP_DEFAULT_TIMEOUT", "600"),
    ("npm_config_fetch_timeout", "600000"),
];
/// The options of every Java machine, which tells of them on its standard error.
pub(crate) const JAVA_OPTIONS: &str = "JAVA_TOOL_OPTIONS";
/// Variables with options for a Java machine, which reads no address of a proxy. The last one is for those that no other
/// reaches.
const JAVA_VARIABLES: &[&str] = &["MAVEN_OPTS", "GRADLE_OPTS", "SBT_OPTS", JAVA_OPTIONS];

/// Returns the user name at the proxy of the processes that made a connection from this address. It names none itself.
/// Blocks.
pub type FindUserName = Arc<dyn Fn(SocketAddr) -> Option<String> + Send + Sync>;

/// The proxy of a runner. Clones share it.
#[derive(Clone, Default)]
pub struct NetworkProxy {
    shared: Arc<ProxyShared>,
}

#[derive(Default)]
struct ProxyShared {
    gate: OnceLock<HostGate>,
    calls: Mutex<KnownCalls>,
    /// Held while the process of a connection is looked for, which takes a look at all processes.
    finding: tokio::sync::Mutex<()>,
    shares: Arc<ConnectionShares>,
}

/// The calls by their user names, the oldest first in `order`.
#[derive(Default)]
struct KnownCalls {
    by_key: HashMap<String, Arc<CallNetwork>>,
    order: VecDeque<String>,
}

impl fmt::Debug for NetworkProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkProxy").finish_non_exhaustive()
    }
}

impl NetworkProxy {
    /// Sets the gate that decides on hosts. Without one no host is allowed.
    pub fn set_gate(&self, gate: HostGate) {
        // Called once, at assembly.
        let _ = self.shared.gate.set(gate);
    }

    fn gate(&self) -> &HostGate {
        self.shared.gate.get_or_init(|| HostGate::new(None, None))
    }

    /// Admits the command of a call. Its processes may use the proxy as long as they live.
    pub fn admit_call(&self, caller: NetworkCaller) -> Arc<CallNetwork> {
        self.admit_with_key(caller, CallNetwork::new_key())
    }

    /// Admits a call of a service, whose processes have one user name for all its calls. [`NetworkProxy::dismiss_call`]
    /// ends it.
    pub fn admit_with_key(&self, caller: NetworkCaller, key: String) -> Arc<CallNetwork> {
        let call = Arc::new(CallNetwork::new(caller, key));
        let mut calls = self.shared.calls.lock();
        if calls.order.len() >= MAX_CALLS
            && let Some(oldest) = calls.order.pop_front()
        {
            calls.by_key.remove(&oldest);
        }
        calls.order.push_back(call.key().to_owned());
        calls
            .by_key
            .insert(call.key().to_owned(), Arc::clone(&call));
        call
    }

    /// Refuses the processes of a service from now on. The traffic of open connections is still counted for the call.
    pub fn dismiss_call(&self, call: &Arc<CallNetwork>) {
        let mut calls = self.shared.calls.lock();
        if calls.by_key.remove(call.key()).is_some() {
            calls.order.retain(|key| key != call.key());
            let unused = CallNetwork::new_key();
            calls.order.push_back(unused.clone());
            calls.by_key.insert(unused, Arc::clone(call));
        }
    }

    /// Notes the traffic that the answer of a request tells.
    pub fn note_told_traffic(&self, request: &RequestId, told: &[HostTraffic]) {
        let calls = self.shared.calls.lock();
        let of_request = |call: &&Arc<CallNetwork>| call.caller.request == *request;
        for call in calls.by_key.values().filter(of_request) {
            call.note_told_traffic(told.to_vec());
        }
    }

    /// Returns all traffic of those commands that had more after their call's answer, by request. It then counts as told.
    pub fn take_later_traffic(&self) -> Vec<(RequestId, Vec<HostTraffic>)> {
        let calls = self.shared.calls.lock();
        let later = |call: &Arc<CallNetwork>| {
            Some((call.caller.request.clone(), call.take_later_traffic()?))
        };
        calls.by_key.values().filter_map(later).collect()
    }

    fn find_call(&self, key: &str) -> Option<Arc<CallNetwork>> {
        self.shared.calls.lock().by_key.get(key).cloned()
    }

    /// Finds the call of a connection that names none.
    async fn find_call_by_process(
        &self,
        client: SocketAddr,
        find_user_name: &FindUserName,
    ) -> Option<Arc<CallNetwork>> {
        let _only = self.shared.finding.lock().await;
        let find = Arc::clone(find_user_name);
        let found = run_blocking(move || find(client)).await;
        self.find_call(&found.ok()??)
    }

    /// Serves the clients of a listener, until the future is dropped.
    pub async fn serve_listener(&self, listener: TcpListener, find_user_name: FindUserName) {
        let mut clients = JoinSet::new();
        loop {
            while clients.try_join_next().is_some() {}
            if clients.len() >= MAX_CLIENTS {
                clients.join_next().await;
            }
            let Ok((client, address)) = listener.accept().await else {
                // Out of descriptors, which others give back.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let proxy = self.clone();
            let find = Arc::clone(&find_user_name);
            clients.spawn(async move {
                let by_process = proxy.find_call_by_process(address, &find);
                proxy_connection::serve_client(&proxy, client, by_process).await;
            });
        }
    }
}

/// Adds the variables by which programs find the proxy as this user. Those that are set stay.
pub fn add_proxy_variables(key: &str, env: &mut BTreeMap<String, String>) {
    let address = format!("http://{key}:x@127.0.0.1:{PROXY_PORT}");
    let of_java = match env.remove(JAVA_OPTIONS) {
        Some(trust) => format!("{trust} {}", java_options()),
        None => java_options(),
    };
    let ours = PROXY_VARIABLES.iter().map(|name| (*name, address.as_str()));
    let java = JAVA_VARIABLES.iter().map(|name| (*name, of_java.as_str()));
    for (name, value) in ours.chain(OTHER_VARIABLES.iter().copied()).chain(java) {
        env.entry(name.to_owned())
            .or_insert_with(|| value.to_owned());
    }
}

/// Returns the options by which a Java machine finds the proxy. It takes no user name from them.
fn java_options() -> String {
    let proxy = ["http", "https"]
        .map(|scheme| format!("-D{scheme}.proxyHost=127.0.0.1 -D{scheme}.proxyPort={PROXY_PORT}"));
    // The resolver of Maven from version 3.9 on does not look at these by itself.
    let of_maven = "-Daether.connector.http.useSystemProperties=true";
    format!("{} {of_maven}", proxy.join(" "))
}

/// Returns the user name that [`add_proxy_variables`] put into the environment of a process; `None` if there are several.
pub fn user_name_in_environment(environment: &[u8]) -> Option<String> {
    let address_end = format!(":x@127.0.0.1:{PROXY_PORT}");
    let mut names = environment.split(|byte| *byte == 0).filter_map(|entry| {
        let (name, value) = std::str::from_utf8(entry).ok()?.split_once('=')?;
        let user = value.strip_prefix("http://")?.strip_suffix(&address_end)?;
        PROXY_VARIABLES.contains(&name).then_some(user)
    });
    let name = names.next()?;
    names.all(|other| other == name).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_that_a_command_has_already_stay() {
        let name = "MAVEN_OPTS".to_owned();
        let value = "-Dtoken=x".to_owned();
        let mut env = BTreeMap::from([(name.clone(), value.clone())]);
        add_proxy_variables("key", &mut env);
        assert_eq!(env[&name], value);
        assert!(env["HTTPS_PROXY"].contains("key"), "{env:?}");
    }
}
