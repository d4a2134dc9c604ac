//! Runs the cases of the contract (`tests/contract`) against each implementation. These are the embedded backend, the
//! hosted backend's functions on a Node server, and a deployment that the environment names. Tests of the embedded
//! backend alone are in `dev_backend`.

mod case;
mod matching;
mod node;
mod stage;

use std::io::Write as _;

use serde_json::{Map, Value};

use case::CaseRun;
use node::NodeServer;
pub use node::is_required as node_is_required;
use stage::{ContractFixture, HostedDeployment};

const PRELUDE: &str = include_str!("../../contract/prelude.json");

/// Every file of cases, by name.
const FILES: &[(&str, &str)] = &cases! {
    ("requests", include_str!("../../contract/requests.json")),
    ("poll", include_str!("../../contract/poll.json")),
    ("leases", include_str!("../../contract/leases.json")),
    ("results", include_str!("../../contract/results.json")),
    ("devices", include_str!("../../contract/devices.json")),
    ("catalog", include_str!("../../contract/catalog.json")),
    ("permissions", include_str!("../../contract/permissions.json")),
    ("parallel", include_str!("../../contract/parallel.json")),
    ("callers", include_str!("../../contract/callers.json")),
};

struct ContractCase {
    file: &'static str,
    name: String,
    /// The requirements of the case besides the functions. `clock`: a clock that moves only in steps. `empty`: a
    /// backend without other rows. `operator`: the admin key. `identities`: identity providers.
    needs: Vec<String>,
    steps: Value,
}

/// Loads the cases and the prelude. `named` rewrites the ids in their text for a run.
fn load_cases(named: impl Fn(&str) -> String) -> (Vec<ContractCase>, Map<String, Value>) {
    let prelude = serde_json::from_str(&named(PRELUDE)).expect("a map of steps");
    let mut cases = Vec::new();
    for (file, text) in FILES {
        let listed: Vec<Value> = serde_json::from_str(&named(text)).expect("an array of cases");
        assert!(!listed.is_empty(), "{file} holds no cases");
        for mut case in listed {
            let needs = case["needs"].as_array().into_iter().flatten();
            cases.push(ContractCase {
                file,
                name: case["name"].as_str().expect("a case has a name").to_owned(),
                needs: needs
                    .filter_map(|need| need.as_str().map(str::to_owned))
                    .collect(),
                steps: case["steps"].take(),
            });
        }
    }
    (cases, prelude)
}

/// Returns true if a step moves the clock, also a nested step.
fn moves_clock(steps: &Value) -> bool {
    match steps {
        Value::Array(steps) => steps.iter().any(moves_clock),
        Value::Object(step) => {
            step.contains_key("advanceMs") || step.get("steps").is_some_and(moves_clock)
        }
        _ => false,
    }
}

/// Prints to stderr directly: the test harness captures the output of `eprintln!`.
fn print_line(text: &str) {
    writeln!(std::io::stderr(), "{text}").expect("stderr is there");
}

/// The results of the cases on one backend.
#[derive(Default)]
struct CaseTally {
    passed: usize,
    left_out: usize,
    failures: Vec<String>,
}

impl CaseTally {
    fn note(&mut self, case: &ContractCase, outcome: Result<(), String>) {
        match outcome {
            Ok(()) => self.passed += 1,
            Err(failure) => self
                .failures
                .push(format!("{}: {}\n    {failure}", case.file, case.name)),
        }
    }

    fn judge(self, backend: &str) {
        let all = self.passed + self.failures.len();
        print_line(&format!(
            "contract cases on {backend}: {} of {all} passed, {} left out",
            self.passed, self.left_out
        ));
        assert!(all > 0, "no case was run");
        assert!(
            self.failures.is_empty(),
            "{} of {all} cases fail on {backend}:\n{}",
            self.failures.len(),
            self.failures.join("\n")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_backend_keeps_the_contract() {
    let (cases, prelude) = load_cases(str::to_owned);
    let mut tally = CaseTally::default();
    for case in &cases {
        if case.needs.iter().any(|need| need == "identities") {
            tally.left_out += 1;
            continue;
        }
        let setup = ContractFixture::embedded().await;
        tally.note(case, CaseRun::of(&setup, &prelude, &case.steps).await);
        setup.tear_down().await;
    }
    tally.judge("the embedded backend");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_convex_functions_keep_the_contract() {
    let server = match NodeServer::start().await {
        Ok(server) => server,
        Err(why) if node::is_required() => panic!("the cases must run against convex/, but {why}"),
        Err(why) => {
            return print_line(&format!(
                "SKIPPED: the contract's cases against convex/: {why}"
            ));
        }
    };
    let (cases, prelude) = load_cases(str::to_owned);
    let mut tally = CaseTally::default();
    for case in &cases {
        let setup = ContractFixture::node(&server).await;
        tally.note(case, CaseRun::of(&setup, &prelude, &case.steps).await);
    }
    tally.judge("the functions of convex/");
}

/// Runs the cases against a real deployment: `PUNIE_CONTRACT_URL`, `PUNIE_CALLER_TOKEN` and `PUNIE_PAIRING_CODE` name
/// it. It leaves its devices and requests there, under names of their own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a deployment; manual-tests/README.md says how"]
async fn only_by_name_a_deployment_keeps_the_contract() {
    let deployment = HostedDeployment::from_environment().expect("a deployment to run against");
    let (cases, prelude) = load_cases(|text| deployment.named(text));
    let mut tally = CaseTally::default();
    for case in &cases {
        if !case.needs.is_empty() || moves_clock(&case.steps) {
            tally.left_out += 1;
            continue;
        }
        let setup = ContractFixture::deployed(&deployment);
        tally.note(case, CaseRun::of(&setup, &prelude, &case.steps).await);
    }
    tally.judge(deployment.url());
}
