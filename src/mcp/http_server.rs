//! The server over HTTP (the protocol's streamable transport), for clients of this machine that know the token.

use std::io;
use std::sync::Arc;

use axum::Router;
use axum::extract::Request;
use axum::http::{StatusCode, header};
use axum::middleware::{Next, from_fn};
use axum::response::{IntoResponse as _, Response};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::mcp_server::McpServer;

/// Serves clients at `/mcp` until `stop` is cancelled; each session has a server of its own. A request without the token, for
/// another host name, or from a web page (it has an origin) is refused.
///
/// # Errors
/// The listener fails.
pub async fn serve_http(
    listener: TcpListener,
    token: &str,
    make_server: impl Fn() -> McpServer + Send + Sync + 'static,
    stop: &CancellationToken,
) -> io::Result<()> {
    let config = StreamableHttpServerConfig::default()
        .enforce_origin_validation()
        .with_cancellation_token(stop.child_token());
    let sessions = Arc::new(LocalSessionManager::default());
    let service = StreamableHttpService::new(move || Ok(make_server()), sessions, config);
    let wanted = hash_text(&format!("Bearer {token}"));
    let routes =
        Router::new()
            .route_service("/mcp", service)
            .layer(from_fn(move |request, next| {
                check_token(wanted, request, next)
            }));
    axum::serve(listener, routes)
        .with_graceful_shutdown(stop.clone().cancelled_owned())
        .await
}

/// Passes on a request that has the token.
async fn check_token(wanted: [u8; 32], request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION);
    let given = given.and_then(|value| value.to_str().ok()).map(hash_text);
    if given == Some(wanted) {
        return next.run(request).await;
    }
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
    (
        StatusCode::UNAUTHORIZED,
        challenge,
        "the token is missing or wrong\n",
    )
        .into_response()
}

/// Hashes a text. The time of comparing two hashes tells nothing about the texts.
fn hash_text(text: &str) -> [u8; 32] {
    Sha256::digest(text).into()
}
