//! The audit and signed requests: the rows that the runner and its owner write, and the requests that a device with a
//! pinned key runs. `hNNN` in a test's name is the number of the hostile input.

mod rows;
mod signed;

use punie_engine::audit::AuditPaths;
use serde_json::Value;

use crate::harness::stage::RunnerFixture;

/// Returns the paths of the device's audit files.
fn audit_paths(setup: &RunnerFixture) -> AuditPaths {
    AuditPaths::within_folder(&setup.setting.home.join("state"))
}

/// Returns the audit rows of the device.
fn rows_of(setup: &RunnerFixture) -> Vec<Value> {
    let text = std::fs::read_to_string(audit_paths(setup).rows).unwrap_or_default();
    text.lines()
        .map(|line| serde_json::from_str(line).expect("a row is JSON"))
        .collect()
}

/// Returns the rows about a request, each as the values of these fields.
fn rows_about(setup: &RunnerFixture, id: &str, fields: &[&str]) -> Vec<String> {
    let rows = rows_of(setup)
        .into_iter()
        .filter(|row| row["requestId"] == id);
    let field = |row: &Value, name: &str| match &row[name] {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    rows.map(|row| {
        fields
            .iter()
            .map(|name| field(&row, name))
            .collect::<Vec<_>>()
            .join(" ")
    })
    .collect()
}
