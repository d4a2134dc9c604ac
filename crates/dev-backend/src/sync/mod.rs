//! The sync protocol: sockets with subscriptions and mutations, compatible with Convex's own clients.
//!
//! - `client_socket`: one connection; `socket`: its protocol; `query_set`: its subscribed queries.
//! - `dedup`: a repeated mutation runs only once.
//! - `messages`, `timestamp`, `chunks`: the messages' encoding.
//!
//! Memory is bounded per socket: it holds no queue, and no value after sending it. A slow reader delays only its own
//! socket's queries.

mod chunks;
mod client_socket;
mod dedup;
mod messages;
mod query_set;
mod socket;
mod timestamp;

pub(super) use timestamp::CommitTimestamp;

use std::sync::Arc;

use axum::extract::ws::WebSocketUpgrade;
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};

use super::backend_state::BackendState;
use super::http::header_checks::check_client_header;
use super::http_refusal::{BODY_LIMIT, HttpRefusal};

/// The most sockets at once.
const MOST_SOCKETS: usize = 256;
/// The largest message: 16 MiB of arguments and their envelope.
const MESSAGE_BYTES: usize = BODY_LIMIT;

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// Accepts a socket of a client that names its version in a header.
pub(super) async fn accept_unversioned(
    State(backend): State<Arc<BackendState>>,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Response {
    accept_socket(backend, &headers, upgrade, false)
}

/// Accepts a socket of the npm client, which names its version in the address.
pub(super) async fn accept_versioned(
    State(backend): State<Arc<BackendState>>,
    Path(version): Path<String>,
    headers: HeaderMap,
    upgrade: Upgrade,
) -> Response {
    accept_socket(backend, &headers, upgrade, can_join_chunks(&version))
}

fn accept_socket(
    backend: Arc<BackendState>,
    headers: &HeaderMap,
    upgrade: Upgrade,
    chunks: bool,
) -> Response {
    if let Err(refusal) = check_client_header(headers) {
        return refusal.into_response();
    }
    let upgrade = match upgrade {
        Ok(upgrade) => upgrade,
        Err(not) => {
            return HttpRefusal::bad_request("WebSocketExpected", not.body_text()).into_response();
        }
    };
    if backend.sockets.len() >= MOST_SOCKETS || backend.sockets.is_closed() {
        let message = format!("at most {MOST_SOCKETS} sockets at once");
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return HttpRefusal::new(status, "TooManyConcurrentRequests", message).into_response();
    }
    let upgrade = upgrade
        .max_message_size(MESSAGE_BYTES)
        .max_frame_size(MESSAGE_BYTES);
    // Counted from here, so that a stop waits for sockets that are still being upgraded.
    let counted = backend.sockets.token();
    upgrade.on_upgrade(move |socket| async move {
        socket::serve_socket(backend, socket, chunks).await;
        drop(counted);
    })
}

/// Returns whether the npm client joins the parts of a long Transition, as it does from 1.28.0 on.
fn can_join_chunks(version: &str) -> bool {
    let mut numbers = version
        .split(['.', '-', '+'])
        .map_while(|part| part.parse::<u32>().ok());
    let major = numbers.next().unwrap_or(0);
    let minor = numbers.next().unwrap_or(0);
    (major, minor) >= (1, 28)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_clients_that_join_chunks_get_them() {
        for (version, joins) in [
            ("1.28.0", true),
            ("1.48.0", true),
            ("1.30.0-alpha.1", true),
            ("2.0.0", true),
            ("1.27.9", false),
            ("0.99.0", false),
            ("1", false),
            ("latest", false),
            ("", false),
        ] {
            assert_eq!(can_join_chunks(version), joins, "{version}");
        }
    }
}
