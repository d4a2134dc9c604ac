//! The wire with as little between as possible: one kept connection, one call at a time, no HTTP library. For the
//! caller's side, whose own cost must not show in the figures.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

/// One connection to a backend on this machine.
pub struct Wire {
    stream: BufReader<TcpStream>,
    host: String,
}

impl Wire {
    /// Connects to `http://host:port`.
    pub fn open(url: &str) -> Self {
        let host = url.trim_start_matches("http://").to_owned();
        let stream = TcpStream::connect(&host).expect("the backend listens");
        stream
            .set_nodelay(true)
            .expect("an option of every TCP socket");
        Self {
            stream: BufReader::with_capacity(256 << 10, stream),
            host,
        }
    }

    /// Calls a function that must succeed, and returns its value.
    pub fn call(&mut self, kind: &str, path: &str, args: &Value) -> Value {
        let body = json!({"path": path, "args": args, "format": "json"}).to_string();
        let head = format!(
            "POST /api/{kind} HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            self.host,
            body.len()
        );
        self.stream
            .get_mut()
            .write_all((head + &body).as_bytes())
            .expect("the backend reads");
        let mut answer: Value = serde_json::from_slice(&self.answer()).expect("an answer is JSON");
        assert_eq!(answer["status"], "success", "{path}: {answer}");
        answer["value"].take()
    }

    fn answer(&mut self) -> Vec<u8> {
        let mut length = 0;
        let mut line = String::new();
        loop {
            line.clear();
            self.stream
                .read_line(&mut line)
                .expect("the backend answers");
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("the whole answer");
        body
    }
}
