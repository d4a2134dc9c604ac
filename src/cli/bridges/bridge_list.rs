//! `bridges list`: each bridge with its state.

use serde::Serialize;

use crate::cli::context::CliContext;
use crate::cli::exit::Exit;
use crate::cli::{console, display_time};
use punie_engine::runner::Clock;
use punie_home::{
    BridgeRecord, BridgeRun, BridgeStore, Home, RunnerLock, WantedState, command_to_type,
};

/// One bridge, as `--json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BridgeLine {
    name: String,
    /// `running`; `starting` before a start, the next one too; `wanted` where no runner runs; `stopped`.
    state: &'static str,
    pid: Option<u32>,
    since_ms: Option<i64>,
    restarts: u32,
    last_exit: Option<String>,
    last_exit_ms: Option<i64>,
    /// What needs the owner's attention.
    problem: Option<String>,
    sha256: String,
    dependencies: Vec<String>,
    /// The names of its secrets, by variable.
    secrets: std::collections::BTreeMap<String, String>,
    hosts: Vec<String>,
    log: String,
}

pub(super) fn print_bridges(
    home: &Home,
    store: &BridgeStore,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let has_runner = RunnerLock::find_holder(home)?.is_some();
    let mut runs = store.read_runs()?;
    let mut lines = Vec::new();
    for (name, record) in store.read_state()?.bridges {
        let run = runs.remove(&name).unwrap_or_default();
        let log = store.folders(&name)?.log_file().display().to_string();
        lines.push(describe_bridge((name, record, run), has_runner, log));
    }
    if context.is_json() {
        lines.iter().for_each(console::print_json);
    } else if lines.is_empty() {
        let deploy = command_to_type("bridges deploy NAME FOLDER");
        console::print_paragraph(
            "",
            &format!("There are no bridges. To deploy one: `{deploy}`"),
        );
    } else {
        print_lines(&lines);
    }
    Ok(Exit::Done)
}

fn describe_bridge(
    (name, record, run): (String, BridgeRecord, BridgeRun),
    has_runner: bool,
    log: String,
) -> BridgeLine {
    let pid = run.pid.filter(|_| has_runner);
    let state = match (record.wanted, pid) {
        (_, Some(_)) => "running",
        (WantedState::Stopped, None) => "stopped",
        (WantedState::Started, None) if has_runner => "starting",
        (WantedState::Started, None) => "wanted",
    };
    let is_wanted = record.wanted == WantedState::Started;
    BridgeLine {
        state,
        since_ms: run.since_ms.filter(|_| pid.is_some()),
        pid,
        restarts: run.restarts,
        problem: run.describe_trouble().filter(|_| is_wanted),
        last_exit: run.last_exit,
        last_exit_ms: run.last_exit_ms,
        sha256: record.sha256,
        dependencies: record.dependencies,
        secrets: record.secrets,
        hosts: record.hosts,
        log,
        name,
    }
}

fn print_lines(lines: &[BridgeLine]) {
    let now_ms = Clock::system().now_ms();
    let age =
        |at: Option<i64>| at.map_or_else(String::new, |at| display_time::format_age(at, now_ms));
    let row = |line: &BridgeLine| {
        let exit = line.last_exit.as_deref().unwrap_or("-");
        vec![
            line.name.clone(),
            line.state.to_owned(),
            age(line.since_ms),
            line.restarts.to_string(),
            console::cell_text(&format!("{exit} {}", age(line.last_exit_ms)), usize::MAX),
        ]
    };
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    console::print_table(&["NAME", "STATE", "SINCE", "RESTARTS", "LAST END"], &rows);
    for line in lines {
        if let Some(problem) = &line.problem {
            console::print_paragraph("", &format!("{} {problem}.", line.name));
        }
    }
    for line in lines {
        console::print_unwrapped(&format!("Output of {}: {}", line.name, line.log));
    }
}
