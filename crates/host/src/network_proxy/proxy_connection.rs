//! One connection of a command through the proxy, from its request to its end. Not here: the decision (host_gate).

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;

use super::NetworkProxy;
use super::call_network::{CallNetwork, HostCounts};
use super::host_gate::NetworkTarget;
use super::proxy_request::{BadRequest, ProxyProtocol, ProxyRequest, read_request, socks_reply};
use super::refusal::ConnectionFailure;
use super::tunnel::copy_both_ways;

/// The longest wait for a connection to one address.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which a client must take an answer of the proxy.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The most bytes that are read of a refused client, so that it gets the answer before the end of the connection.
const MAX_DRAINED: usize = 1 << 20;

const NO_USER_TEXT: &str = "It is not clear to which call the connection belongs, so nothing was connected. Use the address \
                            in the variable HTTPS_PROXY as it is, with its user name.";

/// Serves a client. `by_process` finds its call if the client names none.
pub(super) async fn serve_client(
    proxy: &NetworkProxy,
    mut client: TcpStream,
    by_process: impl Future<Output = Option<Arc<CallNetwork>>>,
) {
    let _ = client.set_nodelay(true);
    let request = match read_request(&mut client).await {
        Ok(request) => request,
        Err(BadRequest::Silent) => return,
        Err(BadRequest::Http(status, text)) => {
            return answer_and_close(client, &http_answer(status, text)).await;
        }
        Err(BadRequest::Socks(bytes)) => return answer_and_close(client, bytes).await,
    };
    let call = match request.user.as_deref() {
        Some(user) => proxy.find_call(user),
        None => by_process.await,
    };
    let Some(call) = call else {
        let answer = match request.protocol {
            ProxyProtocol::Socks => socks_reply(2).to_vec(),
            _ => http_answer(407, NO_USER_TEXT),
        };
        return answer_and_close(client, &answer).await;
    };
    let _share = match proxy.shared.shares.open_connection(&call.caller) {
        Ok(share) => share,
        Err(open) => {
            let shown = request.target.to_string();
            let failure = ConnectionFailure::beyond_share(&shown, open);
            call.record_failure(&shown, &failure);
            return answer_failure(client, request.protocol, 503, failure.text()).await;
        }
    };
    // A client that goes away withdraws its question.
    let connected = tokio::select! {
        connected = connect_permitted(proxy, &call, &request.target) => connected,
        () = wait_for_close(&client) => return,
    };
    match connected {
        Ok((host, counts)) => forward_connection(client, host, request, &counts).await,
        Err(failure) => {
            let status = match &failure {
                ConnectionFailure::Refused(_) => 403,
                ConnectionFailure::Unreachable(_) => 502,
            };
            answer_failure(client, request.protocol, status, failure.text()).await;
        }
    }
}

/// Connects to a target, if the gate permits it.
async fn connect_permitted(
    proxy: &NetworkProxy,
    call: &Arc<CallNetwork>,
    target: &NetworkTarget,
) -> Result<(TcpStream, Arc<HostCounts>), ConnectionFailure> {
    let shown = target.to_string();
    let connected = async {
        let addresses = proxy.gate().permit_target(call, target).await?;
        connect_to_one(&addresses).await.map_err(|cause| {
            ConnectionFailure::Unreachable(format!("{shown} was not reached: {cause}."))
        })
    };
    match connected.await {
        Ok(host) => Ok((host, call.count_connection(&shown))),
        Err(failure) => {
            tracing::info!(request.id = %call.caller.request, reason = failure.text(), "a command did not reach a host");
            call.record_failure(&shown, &failure);
            Err(failure)
        }
    }
}

/// Connects to the first address that answers.
async fn connect_to_one(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        match tokio::time::timeout(CONNECT_TIMEOUT, TcpStream::connect(address)).await {
            Ok(Ok(host)) => return Ok(host),
            Ok(Err(cause)) => last = cause,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

/// Completes when the client has closed its side. One that sends further bytes is not watched any more.
async fn wait_for_close(client: &TcpStream) {
    match client.peek(&mut [0]).await {
        Ok(0) | Err(_) => {}
        Ok(_) => std::future::pending().await,
    }
}

/// Tells the client that the connection stands, and passes bytes on until it ends.
async fn forward_connection(
    mut client: TcpStream,
    mut host: TcpStream,
    request: ProxyRequest,
    counts: &HostCounts,
) {
    let _ = host.set_nodelay(true);
    let begun = async {
        match request.protocol {
            ProxyProtocol::Http => {}
            ProxyProtocol::Connect => {
                let answer = b"HTTP/1.1 200 Connection established\r\n\r\n";
                client.write_all(answer).await?;
            }
            ProxyProtocol::Socks => client.write_all(&socks_reply(0)).await?,
        }
        host.write_all(&request.first_bytes).await
    };
    if begun.await.is_ok() {
        let sent = request.first_bytes.len() as u64;
        counts
            .sent
            .fetch_add(sent, std::sync::atomic::Ordering::Relaxed);
        copy_both_ways(client, host, request.body_left, counts).await;
    }
}

async fn answer_failure(client: TcpStream, protocol: ProxyProtocol, status: u16, text: &str) {
    let answer = match (protocol, status) {
        (ProxyProtocol::Socks, 403) => socks_reply(2).to_vec(),
        (ProxyProtocol::Socks, 502) => socks_reply(4).to_vec(),
        (ProxyProtocol::Socks, _) => socks_reply(1).to_vec(),
        _ => http_answer(status, text),
    };
    answer_and_close(client, &answer).await;
}

fn http_answer(status: u16, text: &str) -> Vec<u8> {
    let reason = match status {
        400 => "Bad Request",
        403 => "Forbidden",
        407 => "Proxy Authentication Required",
        431 => "Request Header Fields Too Large",
        502 => "Bad Gateway",
        _ => "Service Unavailable",
    };
    let challenge = if status == 407 {
        "Proxy-Authenticate: Basic realm=\"punie-runner\"\r\n"
    } else {
        ""
    };
    let body = format!("punie-runner: {text}\n");
    format!(
        "HTTP/1.1 {status} {reason}\r\n{challenge}Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Sends an answer and ends the connection. What the client still sends is read for a moment, because the system would
/// otherwise discard the answer.
async fn answer_and_close(mut client: TcpStream, answer: &[u8]) {
    let closing = async {
        client.write_all(answer).await?;
        client.shutdown().await?;
        let mut drained = 0;
        let mut buffer = [0; 4096];
        while drained < MAX_DRAINED {
            client.readable().await?;
            match client.try_read(&mut buffer) {
                Ok(0) => break,
                Ok(read) => drained += read,
                Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => {}
                Err(cause) => return Err(cause),
            }
        }
        Ok(())
    };
    let _ = tokio::time::timeout(ANSWER_TIMEOUT, closing).await;
}
