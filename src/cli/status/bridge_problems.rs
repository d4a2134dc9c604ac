//! The bridges that do not run as the owner wants.

#[cfg(not(feature = "bridges"))]
use crate::config::optional_parts::left_out_text;
use punie_home::Home;
#[cfg(feature = "bridges")]
use punie_home::{BridgeStore, WantedState};

/// Lists what is wrong with the bridges. Without a runner none is expected to run.
#[cfg(feature = "bridges")]
pub(super) fn list_bridge_problems(home: &Home, running: bool) -> Vec<String> {
    let store = BridgeStore::in_home(home);
    let (state, runs) = match (store.read_state(), store.read_runs()) {
        (Ok(state), Ok(runs)) => (state, runs),
        (Err(error), _) | (_, Err(error)) => return vec![format!("no bridge is started: {error}")],
    };
    let wanted = state
        .bridges
        .iter()
        .filter(|(_, record)| running && record.wanted == WantedState::Started);
    let trouble = wanted.filter_map(|(name, _)| {
        let trouble = runs.get(name)?.describe_trouble()?;
        Some(format!("the bridge {name} {trouble}"))
    });
    trouble.collect()
}

/// Says that the bridges of this home are not started, if one is to run.
#[cfg(not(feature = "bridges"))]
pub(super) fn list_bridge_problems(home: &Home, running: bool) -> Vec<String> {
    let state = std::fs::read_to_string(home.bridges_file()).unwrap_or_default();
    let is_wanted = running && state.contains("\"started\"");
    let text = left_out_text("bridges");
    let problem = is_wanted.then(|| format!("no bridge is started or ended: {text}"));
    problem.into_iter().collect()
}
