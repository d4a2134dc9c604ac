//! Runs Convex's own clients against the embedded backend: a script for each client in `tests/conformance`, as a
//! process. Where a client is not installed, its test prints this and passes, unless `PUNIE_REQUIRE_CLIENTS=1`.

mod host;
mod script;

use std::process::Command;

use crate::harness::foreign::{find_installed, foreign_folder, has_node};
use script::ConformanceScript;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn npm() {
    let folder = foreign_folder("npm");
    let script = ConformanceScript {
        name: "npm",
        program: "node".into(),
        args: vec!["conformance.mjs".into()],
        folder,
    };
    let missing = match (
        has_node(),
        script.folder.join("node_modules/convex").exists(),
    ) {
        (true, true) => None,
        (false, _) => Some("there is no node"),
        (true, false) => Some("the packages are not there: npm ci in tests/conformance/npm"),
    };
    script.holds_unless(missing).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python() {
    let folder = foreign_folder("python");
    let program = find_installed("python/bin/python");
    let here = Command::new(&program)
        .args(["-c", "import convex"])
        .output()
        .is_ok_and(|said| said.status.success());
    let script = ConformanceScript {
        name: "python",
        program,
        args: vec!["-u".into(), "conformance.py".into()],
        folder,
    };
    script
        .holds_unless((!here).then_some(
            "the packages are not in target/conformance/python; .ci/run puts them there",
        ))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rust() {
    let folder = foreign_folder("rust");
    let program = find_installed("rust/debug/conformance-rust");
    let here = program.exists();
    let script = ConformanceScript {
        name: "rust",
        program,
        args: Vec::new(),
        folder,
    };
    script
        .holds_unless(
            (!here).then_some("it is not built into target/conformance/rust; .ci/run does"),
        )
        .await;
}
