//! Clients that send malformed data or too many requests: the proxy still serves the others.

use std::net::SocketAddr;
use std::sync::Arc;

use punie_core::ids::{ConversationId, RequestId};
use punie_host::network_proxy::{CallNetwork, FindUserName, NetworkCaller, NetworkProxy};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::super::HostileFixture;
use super::{ALLOW, FileServer, asking_yard, host_gate, one_file, open_home};
use crate::harness::wait::wait_for_some;

fn admit_call(proxy: &NetworkProxy, conversation: Option<&str>) -> Arc<CallNetwork> {
    proxy.admit_call(NetworkCaller {
        tool: "Bash".into(),
        command: "a test".to_owned(),
        request: RequestId::new(),
        conversation: conversation.map(|id| ConversationId::parse(id).expect("an id")),
    })
}

/// A call that reaches a proxy on a port of this test.
pub(super) struct ProxyClient {
    at: SocketAddr,
    proxy: NetworkProxy,
    call: Arc<CallNetwork>,
    _serving: JoinSet<()>,
    /// Keeps the home with the rules until the client ends.
    _yard: Option<HostileFixture>,
}

impl ProxyClient {
    pub(super) fn of(proxy: NetworkProxy) -> Self {
        let call = admit_call(&proxy, None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("set");
        let at = listener.local_addr().expect("an address");
        let listener = TcpListener::from_std(listener).expect("a listener");
        let mut serving = JoinSet::new();
        let nobody: FindUserName = Arc::new(|_| None);
        let serves = proxy.clone();
        serving.spawn(async move { serves.serve_listener(listener, nobody).await });
        Self {
            at,
            proxy,
            call,
            _serving: serving,
            _yard: None,
        }
    }

    fn allowed() -> (Self, FileServer) {
        let setup = asking_yard(ALLOW);
        let proxy = NetworkProxy::default();
        proxy.set_gate(host_gate(&open_home(&setup)));
        let client = Self {
            _yard: Some(setup),
            ..Self::of(proxy)
        };
        (client, one_file())
    }

    /// Replaces the call with a new one of that conversation.
    fn call_of(&mut self, conversation: &str) {
        self.call = admit_call(&self.proxy, Some(conversation));
    }

    /// Opens a tunnel, or returns the whole answer as `Err`.
    async fn open_tunnel(&self, port: u16) -> Result<TcpStream, String> {
        let head = format!(
            "CONNECT packages.test:{port} HTTP/1.1\r\nProxy-Authorization: Basic {}\r\n\r\n",
            self.credentials()
        );
        let mut stream = TcpStream::connect(self.at).await.expect("it listens");
        stream.write_all(head.as_bytes()).await.expect("sent");
        let mut status = [0; 12];
        stream.read_exact(&mut status).await.expect("an answer");
        if &status == b"HTTP/1.1 200" {
            return Ok(stream);
        }
        let mut answer = String::from_utf8_lossy(&status).into_owned();
        stream.read_to_string(&mut answer).await.expect("text");
        Err(answer)
    }

    fn credentials(&self) -> String {
        use base64::Engine as _;
        let user = format!("{}:x", self.call.key());
        base64::engine::general_purpose::STANDARD.encode(user)
    }

    /// Sends bytes and returns the whole answer.
    async fn send(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.at).await.expect("it listens");
        // The proxy may answer and close before it has read everything.
        let _ = stream.write_all(bytes).await;
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        answer
    }

    pub(super) async fn get(&self, url: &str) -> String {
        let user = self.credentials();
        let head = format!("GET {url} HTTP/1.1\r\nProxy-Authorization: Basic {user}\r\n\r\n");
        String::from_utf8(self.send(head.as_bytes()).await).expect("text")
    }
}

#[tokio::test]
async fn garbage_gets_an_answer_or_an_end() {
    let (client, server) = ProxyClient::allowed();
    let long = "a".repeat(1 << 20);
    let socks = |rest: &[u8]| [b"\x05\x01\x02\x01\x01a\x01b".as_slice(), rest].concat();
    for (bytes, begins) in cases! {
        (b"\0\0\0\0".to_vec(), "HTTP/1.1 400"),
        (b"\x16\x03\x01\x02\0\x01\0".to_vec(), "HTTP/1.1 400"),
        (b"SSH-2.0-OpenSSH_9\r\n".to_vec(), "HTTP/1.1 400"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        (b"CONNECT a.org HTTP/1.1\r\n\r\n".to_vec(), "HTTP/1.1 400"),
        (format!("CONNECT {long}:443 HTTP/1.1\r\n\r\n").into_bytes(), "HTTP/1.1 431"),
        (format!("GET http://a.org/ HTTP/1.1\r\nx: {long}\r\n\r\n").into_bytes(), "HTTP/1.1 431"),
        (b"GET http://a.org/ HTTP/1.1\r\n\r\n".to_vec(), "HTTP/1.1 407"),
        (b"\x05\x01\x00".to_vec(), "\u{5}\u{fffd}"),
        (b"\x05\x00".to_vec(), "\u{5}\u{fffd}"),
        (socks(b"\x05\x01\x00\x09"), "\u{5}\u{2}\u{1}\0\u{5}\u{8}"),
        (socks(b"\x05\x02\x00\x01\x7f\0\0\x01\0\x50"), "\u{5}\u{2}\u{1}\0\u{5}\u{7}"),
        (socks(b"\x05\x01\x00\x01\x7f\0\0\x01\0\x50"), "\u{5}\u{2}\u{1}\0\u{5}\u{2}"),
        (b"\x04\x01\0\x50\x7f\0\0\x01\0\r\n".to_vec(), "HTTP/1.1 400"),
    } {
        let answer = client.send(&bytes).await;
        let answer = String::from_utf8_lossy(&answer);
        let sent = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        assert_starts_with!(answer, begins; "{sent:?}");
    }
    let url = format!("http://packages.test:{}/file", server.port);
    assert_ends_with!(client.get(&url).await, "served\n");
}

#[tokio::test]
async fn idle_tunnels_of_two_conversations_leave_connections_for_a_third() {
    let (mut client, server) = ProxyClient::allowed();
    let mut open = Vec::new();
    for (conversation, share) in [("a", 128), ("b", 64)] {
        let before = open.len();
        // The calls of a conversation share its limit.
        for call in 0..200 {
            if call % 50 == 0 {
                client.call_of(conversation);
            }
            match client.open_tunnel(server.port).await {
                Ok(tunnel) => open.push(tunnel),
                Err(answer) => {
                    assert_starts_with!(answer, "HTTP/1.1 503");
                    let why = format!("this conversation has {share} connections open");
                    assert_contains!(answer, &why);
                    let told = client.call.failure_text().expect("a failure text");
                    assert_contains!(told, &why);
                }
            }
        }
        assert_eq!(open.len() - before, share, "{conversation}");
    }
    client.call_of("c");
    let url = format!("http://packages.test:{}/file", server.port);
    assert_ends_with!(client.get(&url).await, "served\n");
    drop(open);
    client.call_of("a");
    wait_for_some("a free connection", async || {
        client.get(&url).await.ends_with("served\n").then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_thousand_clients_that_say_nothing_hold_up_the_others_for_seconds_only() {
    let setup = asking_yard(ALLOW);
    let server = one_file();
    let script = "import resource, socket, subprocess, sys\n\
                  most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]\n\
                  resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))\n\
                  silent = []\n\
                  for n in range(1000):\n\
                  \x20   s = socket.socket()\n\
                  \x20   s.setblocking(False)\n\
                  \x20   s.connect_ex(('127.0.0.1', 13128))\n\
                  \x20   silent.append(s)\n\
                  subprocess.run(['curl', '-sS', sys.argv[1]])\n";
    std::fs::write(setup.path("work/silent.py"), script).expect("written");
    let url = format!("http://packages.test:{}/file", server.port);
    let text = setup.bash(&format!("python3 silent.py {url}")).await;
    assert_eq!(text, "served");
}
