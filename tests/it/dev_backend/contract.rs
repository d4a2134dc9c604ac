//! Runs the language-neutral cases of `tests/contract` against the embedded backend.

use serde_json::Value;

use super::cases::Run;

/// Runs every case of a file, each against an empty backend, and names all that fail.
async fn hold(file: &str) {
    let cases: Vec<Value> = serde_json::from_str(file).expect("an array of cases");
    assert!(!cases.is_empty());
    let mut failures = Vec::new();
    for case in &cases {
        let name = case["name"].as_str().expect("a case has a name");
        if let Err(failure) = Run::of(case).await {
            failures.push(format!("{name}\n    {failure}"));
        }
    }
    assert!(
        failures.is_empty(),
        "{} of {} cases fail:\n{}",
        failures.len(),
        cases.len(),
        failures.join("\n")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests() {
    hold(include_str!("../../contract/requests.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn poll() {
    hold(include_str!("../../contract/poll.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases() {
    hold(include_str!("../../contract/leases.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn results() {
    hold(include_str!("../../contract/results.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn devices() {
    hold(include_str!("../../contract/devices.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn catalog() {
    hold(include_str!("../../contract/catalog.json")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn permissions() {
    hold(include_str!("../../contract/permissions.json")).await;
}
