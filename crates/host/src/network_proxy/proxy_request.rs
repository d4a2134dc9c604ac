//! The request of a proxy's client, read from its first bytes: HTTP with a whole address, HTTP's CONNECT, or SOCKS 5
//! with a user name.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::host_gate::NetworkTarget;
use punie_policy::HostName;

/// The most bytes of a request's head.
const MAX_HEAD: usize = 32 << 10;
/// The most header lines.
const MAX_HEADERS: usize = 100;
/// The time in which the whole head must arrive.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// The headers that are for the proxy, or that it sets itself.
const DROPPED_HEADERS: &[&str] = &[
    "host",
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authorization",
    "upgrade",
];

const SOCKS_VERSION: u8 = 5;
const SOCKS_USER_NAME: u8 = 2;
const SOCKS_CONNECT: u8 = 1;

/// A request of a client.
#[derive(Debug)]
pub struct ProxyRequest {
    /// The host and port to reach.
    pub target: NetworkTarget,
    /// The user name.
    pub user: Option<String>,
    /// The protocol, which decides on the answer.
    pub protocol: ProxyProtocol,
    /// The bytes for the host that were read already.
    pub first_bytes: Vec<u8>,
    /// The bytes for the host that may follow, if there is an end to them: what a client of HTTP sends then is a request
    /// of its own, perhaps for another host.
    pub body_left: Option<u64>,
}

/// The protocol between a client and the proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// A request with a whole address. The first bytes are the request for the host.
    Http,
    /// HTTP's CONNECT.
    Connect,
    /// SOCKS 5.
    Socks,
}

/// The reason why there is no request.
#[derive(Debug, PartialEq, Eq)]
pub enum BadRequest {
    /// The client is gone, or too slow, or sent what is no request of a known protocol.
    Silent,
    /// HTTP that the proxy does not serve: the status and the reason.
    Http(u16, &'static str),
    /// SOCKS that the proxy does not serve: the bytes of the answer.
    Socks(&'static [u8]),
}

/// Reads the request of a client.
///
/// # Errors
/// [`BadRequest`].
pub(super) async fn read_request(stream: &mut TcpStream) -> Result<ProxyRequest, BadRequest> {
    tokio::time::timeout(HEAD_TIMEOUT, read_any_request(stream))
        .await
        .unwrap_or(Err(BadRequest::Silent))
}

async fn read_any_request(stream: &mut TcpStream) -> Result<ProxyRequest, BadRequest> {
    let first = stream.read_u8().await.map_err(|_| BadRequest::Silent)?;
    if first == SOCKS_VERSION {
        return read_socks_request(stream).await;
    }
    let mut head = vec![first];
    loop {
        match parse_http_head(&head)? {
            Some(request) => return Ok(request),
            None if head.len() >= MAX_HEAD => {
                return Err(BadRequest::Http(431, "The request's head is too large."));
            }
            None => {}
        }
        let room = MAX_HEAD - head.len();
        let read = (&mut *stream).take(room as u64).read_buf(&mut head).await;
        if read.map_err(|_| BadRequest::Silent)? == 0 {
            return Err(BadRequest::Silent);
        }
    }
}

/// Reads a head of HTTP; `None` if it is not complete yet.
fn parse_http_head(bytes: &[u8]) -> Result<Option<ProxyRequest>, BadRequest> {
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut head = httparse::Request::new(&mut headers);
    let length = match head.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(BadRequest::Http(431, "The request has too many headers."));
        }
        Err(_) => return Err(BadRequest::Http(400, "This is no request of HTTP.")),
    };
    let (Some(method), Some(address), Some(version)) = (head.method, head.path, head.version)
    else {
        return Ok(None);
    };
    let user = head
        .headers
        .iter()
        .find(|header| header.name.eq_ignore_ascii_case("proxy-authorization"))
        .and_then(|header| basic_user(header.value));
    let no_host = BadRequest::Http(400, "The request names no host that can be reached.");
    if method == "CONNECT" {
        let target = parse_authority(address, None).ok_or(no_host)?;
        return Ok(Some(ProxyRequest {
            target,
            user,
            protocol: ProxyProtocol::Connect,
            first_bytes: bytes[length..].to_vec(),
            body_left: None,
        }));
    }
    let (authority, path) = split_address(address)?;
    let target = parse_authority(authority, Some(80)).ok_or(no_host)?;
    let mut request = format!("{method} {path} HTTP/1.{version}\r\nHost: {authority}\r\n");
    // One request a connection: the next one may be for another host.
    request.push_str("Connection: close\r\n");
    let mut request = request.into_bytes();
    let is_kept = |name: &str| {
        let mut dropped = DROPPED_HEADERS.iter();
        !dropped.any(|header| name.eq_ignore_ascii_case(header))
    };
    for header in head.headers.iter().filter(|header| is_kept(header.name)) {
        request.extend([header.name.as_bytes(), b": ", header.value, b"\r\n"].concat());
    }
    request.extend(b"\r\n");
    let sent = &bytes[length..];
    let body = body_length(head.headers)?;
    let first = body.map_or(sent.len(), |body| {
        sent.len().min(usize::try_from(body).unwrap_or(usize::MAX))
    });
    request.extend(&sent[..first]);
    Ok(Some(ProxyRequest {
        body_left: body.map(|body| body - first as u64),
        target,
        user,
        protocol: ProxyProtocol::Http,
        first_bytes: request,
    }))
}

/// Returns the length of a request's body; `None` for one whose end the body itself says.
fn body_length(headers: &[httparse::Header<'_>]) -> Result<Option<u64>, BadRequest> {
    let value_of = |name: &str| {
        let mut named = headers.iter();
        named.find(|header| header.name.eq_ignore_ascii_case(name))
    };
    if value_of("transfer-encoding").is_some() {
        return Ok(None);
    }
    let Some(length) = value_of("content-length") else {
        return Ok(Some(0));
    };
    let length = std::str::from_utf8(length.value).ok();
    let length = length.and_then(|text| text.trim().parse().ok());
    let wrong = BadRequest::Http(400, "The request's Content-Length is no number.");
    length.map(Some).ok_or(wrong)
}

/// Splits a whole address into its host with port and its path.
fn split_address(address: &str) -> Result<(&str, String), BadRequest> {
    let (scheme, rest) = address.split_once("://").ok_or(BadRequest::Http(
        400,
        "This is a proxy: name a whole address.",
    ))?;
    if !scheme.eq_ignore_ascii_case("http") {
        return Err(BadRequest::Http(
            400,
            "The proxy makes requests of http only; use CONNECT for others.",
        ));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let path = path.split('#').next().unwrap_or_default();
    let root = if path.starts_with('/') { "" } else { "/" };
    let authority = authority.rsplit('@').next().unwrap_or_default();
    Ok((authority, format!("{root}{path}")))
}

/// Reads a host with its port.
fn parse_authority(text: &str, default_port: Option<u16>) -> Option<NetworkTarget> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().ok()?),
        _ => (text, default_port?),
    };
    (port != 0).then_some(())?;
    let host = HostName::parse(host)?;
    Some(NetworkTarget { host, port })
}

/// Returns the user name of HTTP's basic authentication.
fn basic_user(value: &[u8]) -> Option<String> {
    let (scheme, encoded) = value.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let text = STANDARD.decode(encoded.trim_ascii()).ok()?;
    let user = text.split(|byte| *byte == b':').next()?;
    String::from_utf8(user.to_vec()).ok()
}

/// Reads the rest of a request of SOCKS 5, whose version was read. Only a client with a user name is served.
async fn read_socks_request(stream: &mut TcpStream) -> Result<ProxyRequest, BadRequest> {
    let methods = read_counted(stream).await?;
    if !methods.contains(&SOCKS_USER_NAME) {
        return Err(BadRequest::Socks(&[SOCKS_VERSION, 0xff]));
    }
    write_bytes(stream, &[SOCKS_VERSION, SOCKS_USER_NAME]).await?;
    read_byte(stream).await?;
    let user = read_counted(stream).await?;
    let _password = read_counted(stream).await?;
    write_bytes(stream, &[1, 0]).await?;
    let [version, command, _, kind] = read_array::<4>(stream).await?;
    if version != SOCKS_VERSION {
        return Err(BadRequest::Silent);
    }
    let host = match kind {
        1 => Some(HostName::Address(read_array::<4>(stream).await?.into())),
        4 => {
            let address = std::net::IpAddr::from(read_array::<16>(stream).await?);
            Some(HostName::Address(address.to_canonical()))
        }
        3 => {
            let name = read_counted(stream).await?;
            std::str::from_utf8(&name).ok().and_then(HostName::parse)
        }
        // There is no such kind of address.
        _ => return Err(BadRequest::Socks(SOCKS_BAD_ADDRESS)),
    };
    let port = u16::from_be_bytes(read_array::<2>(stream).await?);
    if command != SOCKS_CONNECT {
        return Err(BadRequest::Socks(SOCKS_BAD_COMMAND));
    }
    let host = host.filter(|_| port != 0);
    let host = host.ok_or(BadRequest::Socks(SOCKS_BAD_ADDRESS))?;
    Ok(ProxyRequest {
        target: NetworkTarget { host, port },
        user: String::from_utf8(user).ok(),
        protocol: ProxyProtocol::Socks,
        first_bytes: Vec::new(),
        body_left: None,
    })
}

const SOCKS_BAD_COMMAND: &[u8] = &[SOCKS_VERSION, 7, 0, 1, 0, 0, 0, 0, 0, 0];
const SOCKS_BAD_ADDRESS: &[u8] = &[SOCKS_VERSION, 8, 0, 1, 0, 0, 0, 0, 0, 0];

/// Returns the answer of SOCKS 5 with this code.
pub(super) fn socks_reply(code: u8) -> [u8; 10] {
    [SOCKS_VERSION, code, 0, 1, 0, 0, 0, 0, 0, 0]
}

async fn read_byte(stream: &mut TcpStream) -> Result<u8, BadRequest> {
    stream.read_u8().await.map_err(|_| BadRequest::Silent)
}

async fn read_array<const N: usize>(stream: &mut TcpStream) -> Result<[u8; N], BadRequest> {
    let mut bytes = [0; N];
    let read = stream.read_exact(&mut bytes).await;
    read.map(|_| bytes).map_err(|_| BadRequest::Silent)
}

/// Reads a length in one byte, and so many bytes.
async fn read_counted(stream: &mut TcpStream) -> Result<Vec<u8>, BadRequest> {
    let mut bytes = vec![0; usize::from(read_byte(stream).await?)];
    let read = stream.read_exact(&mut bytes).await;
    read.map(|_| bytes).map_err(|_| BadRequest::Silent)
}

async fn write_bytes(stream: &mut TcpStream, bytes: &[u8]) -> Result<(), BadRequest> {
    let written = stream.write_all(bytes).await;
    written.map_err(|_| BadRequest::Silent)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> ProxyRequest {
        let request = parse_http_head(text.as_bytes()).expect("a request");
        request.expect("complete")
    }

    fn target(text: &str) -> Option<String> {
        parse_authority(text, None).map(|target| target.to_string())
    }

    #[test]
    fn a_whole_address_becomes_a_request_for_its_host() {
        let request = parse(
            "POST http://u:p@A.org:8080/x?y=1#z HTTP/1.1\r\nHost: evil.org\r\nProxy-Authorization: Basic a2V5Ong=\r\n\
             Proxy-Connection: keep-alive\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nab",
        );
        assert_eq!(request.target.to_string(), "a.org:8080");
        assert_eq!(request.user.as_deref(), Some("key"));
        assert_eq!(
            String::from_utf8(request.first_bytes).expect("text"),
            "POST /x?y=1 HTTP/1.1\r\nHost: A.org:8080\r\nConnection: close\r\nContent-Length: 2\r\n\r\nab"
        );
        let root = parse("GET http://a.org?q HTTP/1.0\r\n\r\n");
        assert!(
            root.first_bytes
                .starts_with(b"GET /?q HTTP/1.0\r\nHost: a.org\r\n")
        );
        assert_eq!((root.target.port, root.user), (80, None));
        // A second request on the same connection goes nowhere.
        let two = parse("GET http://a.org/ HTTP/1.1\r\n\r\nGET http://b.org/ HTTP/1.1\r\n\r\n");
        assert!(
            !String::from_utf8(two.first_bytes)
                .expect("text")
                .contains("b.org")
        );
        assert_eq!(two.body_left, Some(0));
        let upload = parse("PUT http://a.org/ HTTP/1.1\r\nContent-Length: 9\r\n\r\nab");
        assert_eq!(upload.body_left, Some(7));
        let chunked = parse("PUT http://a.org/ HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2");
        assert_eq!(chunked.body_left, None);
    }

    #[test]
    fn a_tunnel_needs_a_port_and_keeps_what_follows() {
        let request = parse("CONNECT a.org:443 HTTP/1.1\r\nHost: a.org:443\r\n\r\nhello");
        assert_eq!(request.protocol, ProxyProtocol::Connect);
        assert_eq!(request.first_bytes, b"hello");
        assert_eq!(target("[::1]:80").as_deref(), Some("[::1]:80"));
        assert_eq!(
            target("[::ffff:10.0.0.1]:80").as_deref(),
            Some("10.0.0.1:80")
        );
        for text in [
            "a.org",
            "a.org:0",
            "a.org:99999",
            "a.org:",
            ":80",
            "a b:80",
            "[::1]",
            "",
        ] {
            assert_eq!(target(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_not_served_gets_its_reason() {
        let status = |text: &str| match parse_http_head(text.as_bytes()) {
            Err(BadRequest::Http(status, _)) => status,
            other => panic!("{other:?}"),
        };
        assert_eq!(status("GET / HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status("GET https://a.org/ HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(status("\u{16}\u{3}\u{1}\u{2}\u{0}"), 400);
        let many = "a: b\r\n".repeat(MAX_HEADERS + 1);
        assert_eq!(
            status(&format!("GET http://a.org/ HTTP/1.1\r\n{many}\r\n")),
            431
        );
        let long = "a".repeat(1_000);
        assert_eq!(status(&format!("CONNECT {long}:443 HTTP/1.1\r\n\r\n")), 400);
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_http_head(&bytes);
            let head = [b"GET http://a.org/", bytes.as_slice(), b" HTTP/1.1\r\n\r\n"].concat();
            if let Ok(Some(request)) = parse_http_head(&head) {
                prop_assert!(request.first_bytes.starts_with(b"GET /"));
            }
        }
    }
}
