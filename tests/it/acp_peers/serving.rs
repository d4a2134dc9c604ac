//! This machine as the editor of an agent that is a script.

use std::process::Stdio;
use std::sync::Arc;

use punie_editor::LocalClient;
use punie_editor::agent::open_line_transport;
use punie_editor::client_server::{initialize_agent, serve_client};
use punie_editor::local_client_tools::LocalPolicy;
use punie_editor::protocol::{
    ClientCapabilities, ContentBlock, FileSystemCapabilities, NewSessionRequest, PromptRequest,
    StopReason,
};
use punie_host::Workspace;
use punie_host::local::child_log::NoChildLog;
use punie_host::local::local_terminals::{LocalTerminalSetup, LocalTerminals};
use punie_text::output::OutputStore;
use punie_text::output::stream_filter::UnfilteredStream;

use super::{PATIENCE, PeerScript};

/// Starts the agent, serves its requests during one turn, closes its input, and checks that it ends well.
pub async fn run_session(mut script: PeerScript, name: &str) -> PeerScript {
    let base = std::fs::canonicalize(script.dir.path()).expect("it is there");
    let root = base.join("work");
    std::fs::create_dir(&root).expect("a folder");
    let path = std::env::var("PATH").expect("a search path");
    let terminals = LocalTerminals::new(LocalTerminalSetup {
        base_env: vec![("PATH".to_owned(), path)],
        store: OutputStore::open_output_folder(&base.join("outputs")).expect("a store"),
        filters: Arc::new(|| Box::new(UnfilteredStream)),
        log: Arc::new(NoChildLog),
        confinement: punie_host::local::confinement::Confinement::default(),
    });
    let workspace = Workspace::open_roots(std::slice::from_ref(&root)).expect("a workspace");
    let client = LocalClient::new(
        terminals.expect("a thread"),
        workspace,
        LocalPolicy::AllowOnce,
    );
    let client = Arc::new(client);

    let err = script.file("stderr");
    let mut agent = script
        .command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(err)
        .spawn()
        .expect(name);
    let (stdout, stdin) = (
        agent.stdout.take().expect("piped"),
        agent.stdin.take().expect("piped"),
    );
    let fs = FileSystemCapabilities::new()
        .read_text_file(true)
        .write_text_file(true);
    let capabilities = ClientCapabilities::new().fs(fs).terminal(true);
    let introduced = Arc::clone(&client);
    let serving = serve_client(
        client.clone(),
        open_line_transport(stdout, stdin, Arc::default()),
        async |agent| {
            initialize_agent(&*introduced, &agent, capabilities).await?;
            let session = agent
                .send_request(NewSessionRequest::new(root))
                .block_task()
                .await?;
            let words = vec![ContentBlock::from("try all of it".to_owned())];
            agent
                .send_request(PromptRequest::new(session.session_id, words))
                .block_task()
                .await
        },
    );
    let answer = tokio::time::timeout(PATIENCE, serving).await;
    let ended_well = matches!(&answer, Ok(Ok(answer)) if answer.stop_reason == StopReason::EndTurn);
    assert!(ended_well, "{answer:?}\n{}", script.said());
    assert_eq!(
        client.connected_agent().expect("it was introduced").name,
        name
    );
    let ended = tokio::time::timeout(PATIENCE, agent.wait()).await;
    script.went_well(matches!(&ended, Ok(Ok(status)) if status.success()));
    script
}
