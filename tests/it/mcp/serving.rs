//! Tools, their answers, and everything else that a server offers.

use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, GetPromptRequestParams,
    ReadResourceRequestParams, ResourceContents,
};
use rmcp::service::PeerRequestOptions;
use serde_json::json;

use super::{McpUser, TestClient, request_id, result_text};
use crate::harness::wait::wait_until;

#[tokio::test]
async fn tools_have_hints_and_their_calls_are_journalled_and_can_be_undone() {
    let user = McpUser::new();
    let client = user.connects(TestClient::default(), &[]).await;
    let tools = client.service.list_all_tools().await.expect("tools");
    let hints = |name: &str| {
        let tool = tools.iter().find(|tool| tool.name == name).expect(name);
        tool.annotations.as_ref().expect("hints").read_only_hint
    };
    assert_eq!(hints("Read"), Some(true));
    assert_eq!(hints("Write"), Some(false));
    assert_eq!(hints("Bash"), Some(false));
    assert!(
        tools.iter().all(|tool| tool.name != "read_file"),
        "compatibility names are left out"
    );

    let path = user.path("work/new.txt");
    let written = client
        .call("Write", json!({"file_path": "new.txt", "content": "one\n"}))
        .await;
    assert_eq!(written.is_error, Some(false), "{written:?}");
    assert_eq!(std::fs::read_to_string(&path).expect("written"), "one\n");
    let request = request_id(&written);
    let history = user.run_cli(&["history", "--json"]).await;
    assert_contains!(history, &request);
    let audit = user.run_cli(&["audit", "--json"]).await;
    assert_contains!(audit, &request);
    user.run_cli(&["undo", &request]).await;
    assert!(!path.exists(), "the write is undone");

    let missing = client.call("Read", json!({"file_path": "gone"})).await;
    assert_eq!(missing.is_error, Some(true), "{missing:?}");
    let unknown = client.call("NoSuchTool", json!({})).await;
    assert_eq!(unknown.is_error, Some(true), "{unknown:?}");
    client.close().await;
}

#[tokio::test]
async fn output_is_progress_and_a_cut_answer_links_to_all_of_it() {
    let user = McpUser::new();
    let watching = TestClient::default();
    let client = user.connects(watching.clone(), &[]).await;
    let command = "echo first; until [ -e go ]; do sleep 0.05; done; seq 1 20000";
    let calling = client.call("Bash", json!({"command": command}));
    let seen = wait_until("the first line", || {
        let pieces = watching.progress.lock();
        pieces.iter().any(|text| text.contains("first"))
    });
    let release = async {
        seen.await;
        user.write("work/go", "");
    };
    let (answer, ()) = tokio::join!(calling, release);
    let link = answer
        .content
        .iter()
        .find_map(|block| block.as_resource_link());
    let uri = link.expect("a link to the whole output").uri.clone();
    let mut lines = Vec::new();
    let mut page = uri.clone();
    loop {
        let read = ReadResourceRequestParams::new(page);
        let read = client.service.read_resource(read).await.expect("read");
        let ResourceContents::TextResourceContents { text, .. } = &read.contents[0] else {
            panic!("{read:?}");
        };
        let numbered = text.lines().filter_map(|line| line.split_once('\t'));
        lines.extend(numbered.map(|(_, line)| line.to_owned()));
        let Some((_, next)) = text.rsplit_once("Continue with offset=") else {
            break;
        };
        page = format!("{uri}?offset={}", next.trim_end_matches('.'));
    }
    let printed = (1..=20_000).map(|number| number.to_string());
    let printed: Vec<String> = std::iter::once("first".to_owned()).chain(printed).collect();
    assert!(
        lines == printed,
        "{} lines, {:?}",
        lines.len(),
        lines.last()
    );
    let listed = client.service.list_all_resources().await.expect("listed");
    assert!(listed.iter().any(|one| one.uri == uri), "{listed:?}");
    let none = ReadResourceRequestParams::new("punie-output://out_000000000000");
    client
        .service
        .read_resource(none)
        .await
        .expect_err("there is no such output");
    client.close().await;
}

#[tokio::test]
async fn a_cancelled_call_ends_its_command() {
    let user = McpUser::new();
    let client = user.connects(TestClient::default(), &[]).await;
    let command = "echo $$ > pid; until [ -e never ]; do sleep 0.05; done; touch ended";
    let args = json!({"command": command})
        .as_object()
        .expect("arguments")
        .clone();
    let call = CallToolRequestParams::new("Bash").with_arguments(args);
    let request = ClientRequest::CallToolRequest(CallToolRequest::new(call));
    let options = PeerRequestOptions::no_options();
    let sent = client
        .service
        .send_cancellable_request(request, options)
        .await
        .expect("sent");
    wait_until("the command runs", || user.path("work/pid").exists()).await;
    sent.cancel(None).await.expect("cancelled");
    let mut history = String::new();
    while !history.contains("\"cancelled\"") {
        history = user.run_cli(&["history", "--json"]).await;
    }
    user.write("work/never", "");
    let after = client
        .call("Bash", json!({"command": "echo still here"}))
        .await;
    assert_contains!(result_text(&after), "still here");
    assert!(!user.path("work/ended").exists());
    client.close().await;
}

#[tokio::test]
async fn what_is_told_beside_an_answer_reaches_the_model_once() {
    let user = McpUser::new();
    let old = b"caf\xe9, gar\xe7on, d\xe9j\xe0 vu\n";
    std::fs::write(user.path("work/old.txt"), old).expect("a file");
    user.write("work/plain.txt", "say \"hi\"\n");
    let client = user.connects(TestClient::default(), &[]).await;
    let texts = |result: &CallToolResult| -> Vec<String> {
        let blocks = result.content.iter().filter_map(|block| block.as_text());
        blocks.map(|text| text.text.clone()).collect()
    };
    let read = texts(&client.call("Read", json!({"file_path": "old.txt"})).await);
    assert!(
        read.len() == 2 && read[1].starts_with("Note: That it is windows-1252 is told"),
        "{read:?}"
    );
    let edit =
        json!({"file_path": "plain.txt", "old_string": "say “hi”", "new_string": "say “ho”"});
    let edited = texts(&client.call("Edit", edit).await);
    let told = edited.concat().matches("typographic").count();
    assert_eq!((edited.len(), told), (1, 1), "{edited:?}");
    client.close().await;
}

#[cfg(feature = "documents")]
#[tokio::test]
async fn an_image_is_content_and_a_skill_is_a_prompt() {
    let user = McpUser::new();
    let png = image::RgbImage::new(2, 3);
    png.save(user.path("work/dot.png")).expect("an image");
    let skill = "---\ndescription: Says hello.\n---\nGreet the person.\n";
    user.write("home/skills/greet/SKILL.md", skill);
    let client = user.connects(TestClient::default(), &[]).await;
    let read = client.call("Read", json!({"file_path": "dot.png"})).await;
    let block = read.content.iter().find_map(|block| block.as_image());
    let block = block.unwrap_or_else(|| panic!("{read:?}"));
    assert_eq!(block.mime_type, "image/png");
    let structured = read.structured_content.expect("metadata");
    assert_fields!(structured, {"width": 2, "data": null});

    let mut prompts = Vec::new();
    while prompts.is_empty() {
        // The runner publishes the catalog after its start.
        prompts = client.service.list_all_prompts().await.expect("prompts");
    }
    assert_eq!(prompts[0].name, "greet");
    let got = GetPromptRequestParams::new("greet");
    let got = client.service.get_prompt(got).await.expect("the skill");
    assert!(format!("{got:?}").contains("Greet the person."), "{got:?}");
    client.close().await;
}
