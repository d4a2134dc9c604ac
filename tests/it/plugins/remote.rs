//! MCP servers over HTTP, on a real socket, with the server of the rmcp crate.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool, ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

use super::{listed_plugins, problem_text, text_of, until_offered};
use crate::harness::reserved_port::ReservedPort;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// A server whose list of tools grows.
#[derive(Clone, Default)]
struct RemoteTools {
    grown: Arc<AtomicBool>,
}

impl ServerHandler for RemoteTools {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _page: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = Arc::new(serde_json::Map::from_iter([(
            "type".to_owned(),
            json!("object"),
        )]));
        let mut names = vec!["greet", "grow", "hang", "flood"];
        if self.grown.load(Ordering::SeqCst) {
            names.push("new");
        }
        let tool = |name: &str| {
            let tool = Tool::new(name.to_owned(), "A tool.", Arc::clone(&schema));
            tool.with_annotations(ToolAnnotations::new().read_only(name == "greet"))
        };
        Ok(ListToolsResult::with_all_items(
            names.into_iter().map(tool).collect(),
        ))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let text = match request.name.as_ref() {
            "hang" => std::future::pending().await,
            "flood" => "x".repeat(9 << 20),
            "grow" => {
                self.grown.store(true, Ordering::SeqCst);
                let _ = context.peer.notify_tool_list_changed().await;
                "grown".to_owned()
            }
            _ => "hello".to_owned(),
        };
        let result = CallToolResult::success(vec![ContentBlock::text(text)]);
        Ok(CallToolResponse::Complete(result))
    }
}

/// Serves the tools until the result is dropped. Requests need a token.
fn serve_tools(listener: TcpListener) -> JoinSet<()> {
    let server = RemoteTools::default();
    let service = StreamableHttpService::new(
        move || Ok(server.clone()),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let check = from_fn(async |request: Request, next: Next| {
        let given = request.headers().get("authorization");
        if given.is_some_and(|given| given == "Bearer t0ken-of-the-test") {
            return next.run(request).await;
        }
        (StatusCode::UNAUTHORIZED, [("www-authenticate", "Bearer")]).into_response()
    });
    let routes = Router::new().route_service("/mcp", service).layer(check);
    let mut serving = JoinSet::new();
    serving.spawn(async move { axum::serve(listener, routes).await.expect("served") });
    serving
}

fn plugin_table(address: std::net::SocketAddr, token: &str) -> String {
    format!(
        "[mcp.servers.web]\nurl = \"http://{address}/mcp\"\ntimeout = 5\nheaders = {{ Authorization = \"Bearer {token}\" }}\n"
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_over_http_lists_calls_and_changes_its_tools() {
    let port = ReservedPort::new();
    let mut serving = serve_tools(port.listen());
    let setup =
        RunnerFixture::with_config(&plugin_table(port.address(), "t0ken-of-the-test")).await;
    let runner = setup.run();
    let body = until_offered(&setup, "web__greet").await;
    assert_eq!(
        body["effect"], "reads",
        "a remote server cannot write the workspaces"
    );
    let ask = async |tool: &str| setup.call_tool(tool, &json!({})).await;
    assert_eq!(text_of(&ask("web__greet").await), "hello");
    ask("web__hang").await.expect_error("timeout");
    let answer = ask("web__flood").await;
    assert_eq!(answer.outcome, "error", "{answer:?}");
    assert_contains!(answer.text(), "web__flood"; "not a timeout");
    assert_eq!(text_of(&ask("web__grow").await), "grown");
    until_offered(&setup, "web__new").await;
    assert_eq!(text_of(&ask("web__new").await), "hello");

    serving.shutdown().await;
    let answer = ask("web__greet").await;
    answer.expect_error("interrupted");
    let log = runner.log();
    assert_lacks!(log, "t0ken");
    let _again = serve_tools(port.listen());
    wait_for_some("an answer of the restarted server", async || {
        (ask("web__greet").await.outcome == "ok").then_some(())
    })
    .await;
    runner.terminate();
    runner.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_refuses_or_does_not_answer_is_named() {
    let port = ReservedPort::new();
    let mut serving = serve_tools(port.listen());
    let setup = RunnerFixture::with_config(&plugin_table(port.address(), "wrong")).await;
    let said = problem_text(&listed_plugins(&setup).await["mcp.web"]);
    assert_contains!(said, "it wants authorization (HTTP 401)");
    serving.shutdown().await;
    let said = problem_text(&listed_plugins(&setup).await["mcp.web"]);
    assert_contains!(said, "it cannot be reached (Connection refused");
    assert_lacks!(said, "wrong");
}
