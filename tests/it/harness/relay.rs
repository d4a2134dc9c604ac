//! A relay between the runner and its backend. It can fail single calls, and it records each call.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::caller::http_client;

/// The way in which the relay handles a call.
pub enum CallFate {
    /// It is passed on, and so is its answer.
    Pass,
    /// It is passed on, and this function changes its answer.
    Alter(fn(&mut Value)),
    /// It is passed on, and the connection is closed without an answer.
    AnswerLost,
    /// It is passed on, and the connection is reset after so many bytes of the answer.
    Cut(usize),
    /// It is dropped, and the connection is closed.
    Unheard,
    /// It is dropped, and the connection stays open.
    Hang,
    /// It is dropped, and the relay answers with exactly these bytes.
    Say(String),
}

impl CallFate {
    /// Answers with this status, these headers and this body.
    pub fn say(status: &str, headers: &str, body: &str) -> Self {
        Self::Say(format!(
            "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Answers as a backend function that throws this data.
    pub fn refuse(data: &Value) -> Self {
        let body =
            serde_json::json!({ "status": "error", "errorMessage": "refused", "errorData": data });
        Self::say(
            "200 OK",
            "content-type: application/json\r\n",
            &body.to_string(),
        )
    }
}

/// A call that the relay received.
#[derive(Debug, Clone)]
pub struct RelayedCall {
    pub path: String,
    pub args: Value,
    /// The backend's answer, or null if the call was not passed on.
    pub answer: Value,
    /// The time at which the relay received it.
    pub at: Instant,
}

type Rule = Box<dyn FnMut(&str, &Value) -> CallFate + Send>;

struct SharedRelay {
    upstream: String,
    http: reqwest::Client,
    rule: Mutex<Rule>,
    calls: Mutex<Vec<RelayedCall>>,
}

pub struct Relay {
    pub url: String,
    shared: Arc<SharedRelay>,
    _serving: JoinSet<()>,
}

impl Relay {
    /// Starts a relay to the backend at this address.
    pub async fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(SharedRelay {
            upstream: upstream.to_owned(),
            http: http_client(),
            rule: Mutex::new(Box::new(|_, _| CallFate::Pass)),
            calls: Mutex::default(),
        });
        let mut serving = JoinSet::new();
        let serves = Arc::clone(&shared);
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((socket, _)) = listener.accept().await {
                let shared = Arc::clone(&serves);
                open.spawn(async move {
                    // Many tests end the runner in the middle of a call.
                    let _ = serve_connection(&shared, socket).await;
                });
            }
        });
        Self {
            url,
            shared,
            _serving: serving,
        }
    }

    /// Sets the rule that decides the fate of each later call.
    pub fn rule(&self, rule: impl FnMut(&str, &Value) -> CallFate + Send + 'static) {
        *self.shared.rule.lock() = Box::new(rule);
    }

    /// The received calls of one function, in order.
    pub fn calls(&self, path: &str) -> Vec<RelayedCall> {
        let calls = self.shared.calls.lock();
        calls
            .iter()
            .filter(|call| call.path == path)
            .cloned()
            .collect()
    }

    /// Counts the posts of results for this request, and those that the backend stored.
    pub fn posts(&self, id: &str) -> (usize, usize) {
        let posts = self.calls("events:appendResult");
        let posts: Vec<_> = posts
            .iter()
            .filter(|call| call.args["requestId"] == id)
            .collect();
        let stored = posts
            .iter()
            .filter(|call| call.answer["value"]["stored"] == true)
            .count();
        (posts.len(), stored)
    }
}

async fn serve_connection(shared: &SharedRelay, mut socket: TcpStream) -> Option<()> {
    let head = read_head(&mut socket).await?;
    if head
        .to_ascii_lowercase()
        .contains("\r\nupgrade: websocket\r\n")
    {
        return splice_streams(shared, socket, &head).await;
    }
    let (route, body) = read_request(&mut socket, &head).await?;
    let call: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = call["path"].as_str().unwrap_or_default().to_owned();
    let fate = shared.rule.lock()(&path, &call["args"]);
    let mut seen = RelayedCall {
        path,
        args: call["args"].clone(),
        answer: Value::Null,
        at: Instant::now(),
    };
    let reply = match fate {
        CallFate::Pass => forward_call(shared, &route, body, &mut seen, |_| {}).await,
        CallFate::Alter(change) => forward_call(shared, &route, body, &mut seen, change).await,
        CallFate::AnswerLost => forward_call(shared, &route, body, &mut seen, |_| {})
            .await
            .and(None),
        CallFate::Cut(bytes) => forward_call(shared, &route, body, &mut seen, |_| {})
            .await
            .map(|reply| reply[..bytes.min(reply.len())].to_vec()),
        CallFate::Unheard => None,
        CallFate::Hang => std::future::pending().await,
        CallFate::Say(reply) => Some(reply.into_bytes()),
    };
    shared.calls.lock().push(seen);
    socket.write_all(&reply?).await.ok()?;
    socket.shutdown().await.ok()
}

/// Reads the request line and the headers of one request.
async fn read_head(socket: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(socket.read_u8().await.ok()?);
    }
    String::from_utf8(head).ok()
}

/// Copies the bytes of a WebSocket both ways until it ends. TCP_NODELAY sends each packet at once: the kernel would
/// delay small ones by 40 ms, and stepped time does not wait that long.
async fn splice_streams(shared: &SharedRelay, mut near: TcpStream, head: &str) -> Option<()> {
    let mut far = TcpStream::connect(shared.upstream.trim_start_matches("http://"))
        .await
        .ok()?;
    near.set_nodelay(true).and(far.set_nodelay(true)).ok()?;
    far.write_all(head.as_bytes()).await.ok()?;
    tokio::io::copy_bidirectional(&mut near, &mut far)
        .await
        .ok()
        .map(drop)
}

/// Reads the body of one request, and returns its route and its body.
async fn read_request(socket: &mut TcpStream, head: &str) -> Option<(String, Vec<u8>)> {
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse().ok())?
    });
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).await.ok()?;
    Some((head.split_whitespace().nth(1)?.to_owned(), body))
}

/// Passes a call on. Returns the changed answer as bytes, or `None` if the backend does not answer.
async fn forward_call(
    shared: &SharedRelay,
    route: &str,
    body: Vec<u8>,
    seen: &mut RelayedCall,
    change: fn(&mut Value),
) -> Option<Vec<u8>> {
    let post = shared
        .http
        .post(format!("{}{route}", shared.upstream))
        .body(body);
    let reply = post
        .header("content-type", "application/json")
        .send()
        .await
        .ok()?;
    let status = reply.status();
    let text = reply.text().await.ok()?;
    seen.answer = serde_json::from_str(&text).unwrap_or_default();
    change(&mut seen.answer);
    let text = if seen.answer.is_null() {
        text
    } else {
        seen.answer.to_string()
    };
    match CallFate::say(status.as_str(), "content-type: application/json\r\n", &text) {
        CallFate::Say(reply) => Some(reply.into_bytes()),
        _ => None,
    }
}
