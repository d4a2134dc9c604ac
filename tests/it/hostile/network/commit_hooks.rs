//! The network of commit hooks: the same as that of a command.

use std::path::Path;
use std::process::Command;

use punie_core::ids::RequestId;
use punie_tool::ToolContext;
use serde_json::json;

use super::super::HostileFixture;
use super::{ALLOW, asking_yard, one_file};
use crate::harness::program::make_program;
use crate::harness::tools;
use crate::harness::wait::wait_until;

/// Creates a repository in the workspace, with these lines as its pre-commit hook.
fn lay_out_hook(setup: &HostileFixture, lines: &str) {
    let work = setup.path("work");
    for args in [
        &["init", "-q"][..],
        &["config", "user.name", "Ada"],
        &["config", "user.email", "ada@example.org"],
    ] {
        let git = Command::new("git").args(args).current_dir(&work).output();
        assert!(git.expect("git").status.success(), "{args:?}");
    }
    std::fs::write(work.join("file"), "new").expect("written");
    let hook = work.join(".git/hooks/pre-commit");
    make_program(Path::new(&hook), &format!("#!/bin/sh\n{lines}\n"));
}

#[tokio::test]
async fn a_hook_reaches_hosts_like_a_command() {
    let setup = asking_yard(ALLOW);
    let server = one_file();
    let target = format!("packages.test:{}", server.port);
    lay_out_hook(&setup, &format!("curl -sS http://{target}/file"));
    let args = json!({"message": "one", "paths": ["file"]});
    let reply = tools::call_tool(&setup.registry, "GitCommit", args).await;
    let reply = reply.expect("committed");
    let text = tools::reply_text(&reply);
    assert_ends_with!(text, "The hooks printed:\nserved");
    let hosts: Vec<&str> = reply
        .meta
        .network
        .iter()
        .map(|host| host.host.as_str())
        .collect();
    assert_eq!(hosts, [target]);
}

#[tokio::test]
async fn a_hook_that_is_refused_a_host_is_told_apart_from_one_that_says_no() {
    let setup = asking_yard("");
    let server = one_file();
    let url = format!("http://packages.test:{}/file", server.port);
    lay_out_hook(&setup, &format!("curl -sSf {url}"));
    let args = json!({"message": "one", "paths": ["file"]});
    let refused = tools::call_tool(&setup.registry, "GitCommit", args).await;
    let refused = refused.expect_err("the hook failed");
    let text = refused.model_text();
    let allow = format!(
        "punie-runner policy allow --host packages.test:{}",
        server.port
    );
    assert_starts_with!(text, "Nothing was committed");
    assert_contains!(text, &allow);
    // A hook that bypasses the proxy gets the reason why it has no network.
    lay_out_hook(&setup, &format!("curl -sS --noproxy '*' {url}"));
    let args = json!({"message": "one", "path": "."});
    let refused = tools::call_tool(&setup.registry, "GitCommit", args).await;
    let refused = refused.expect_err("the hook failed");
    let text = refused.model_text();
    assert_contains!(text, "only through the proxy in HTTPS_PROXY");
}

#[tokio::test]
async fn a_commit_that_is_stopped_tells_which_hosts_its_hooks_reached() {
    let setup = asking_yard(ALLOW);
    let server = one_file();
    let target = format!("packages.test:{}", server.port);
    let lines = format!(
        "curl -sS http://{target}/file > fetched.tmp\nmv fetched.tmp fetched\nexec sleep 600"
    );
    lay_out_hook(&setup, &lines);
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"message": "one", "paths": ["file"]});
    let fetched = setup.path("work/fetched");
    let stop = async {
        wait_until("the hook has fetched the file", || fetched.exists()).await;
        cancel.cancel();
    };
    let call = tools::call_with(&setup.registry, "GitCommit", args, cx);
    let (stopped, ()) = tokio::join!(call, stop);
    let stopped = stopped.expect_err("a cancel");
    assert_error!(stopped, Cancelled);
    let hosts = stopped
        .error_meta()
        .network
        .iter()
        .map(|host| host.host.as_str());
    assert_eq!(hosts.collect::<Vec<_>>(), [target]);
}
