//! How the embedded backend holds up: ten thousand devices, and ten thousand, a hundred thousand and a million events
//! behind them. A poll must cost the same whatever lies behind it.
//!
//! `cargo bench --bench backend -- [EVENTS ...]`. Nothing here is asserted: it prints a table.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(clippy::cast_possible_wrap, reason = "a few million")]

#[expect(
    dead_code,
    reason = "shared with the bench of requests, which uses more of it"
)]
#[path = "requests/figures.rs"]
mod figures;
#[path = "requests/wire.rs"]
mod wire;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use figures::{Times, ms, per_second};
use rusqlite::{Connection, params};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use wire::Wire;

const DEVICES: usize = 10_000;
/// Polls that are held at once. One connection each, at both ends of a machine with 20,000 open files a process.
const HELD: usize = 9_000;
const ROUNDS: usize = 2_000;
/// The token of every device here.
const TOKEN: &str = "the same for all";

fn main() {
    // `cargo test` runs benchmarks too, and has no use for figures.
    let words: Vec<String> = std::env::args().skip(1).collect();
    if !words.iter().any(|word| word == "--bench") {
        return;
    }
    let mut sizes: Vec<usize> = words.iter().filter_map(|word| word.parse().ok()).collect();
    if sizes.is_empty() {
        sizes = vec![10_000, 100_000, 1_000_000];
    }
    println!("{DEVICES} devices; p50 / p99 of {ROUNDS} calls over one connection");
    println!("| events | file | RSS | poll, nothing new | poll, one event | listOpen | append |");
    println!("|---|---|---|---|---|---|---|");
    for events in sizes {
        measure(events);
    }
}

/// A backend as a process of its own.
struct Served {
    child: Child,
    url: String,
    caller: String,
}

impl Served {
    fn start(home: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_punie-runner"))
            .args([
                "backend",
                "--max-connections",
                "10000",
                "--json",
                "--log",
                "error",
                "--home",
            ])
            .arg(home)
            .stdout(Stdio::piped())
            .spawn()
            .expect("the backend starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("its stdout"))
            .read_line(&mut line)
            .expect("its first line");
        let ready: Value = serde_json::from_str(&line).expect("JSON");
        let text = |key: &str| ready[key].as_str().expect("text").to_owned();
        Self {
            url: text("url"),
            caller: text("callerToken"),
            child,
        }
    }

    fn resident_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))
            .unwrap_or_default();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS:"))
            .unwrap_or_default();
        line.split_whitespace()
            .nth(1)
            .and_then(|kib| kib.parse::<f64>().ok())
            .unwrap_or(0.0)
            / 1024.0
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // One that has ended already is only collected.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn device(n: usize) -> String {
    format!("device-{n}")
}

/// Events as they lie there after a long time: most answered, one in a hundred open, the devices in turn.
fn fill(file: &Path, events: usize) -> Vec<i64> {
    let mut db = Connection::open(file).expect("the database");
    let tx = db.transaction().expect("begun");
    let token = Sha256::digest(TOKEN);
    for n in 0..DEVICES {
        tx.prepare_cached(
            "INSERT INTO devices VALUES (?1, x'00', ?2, 'a device', 'linux', 0.0, 0)",
        )
        .and_then(|mut insert| insert.execute(params![device(n), token.as_slice()]))
        .expect("a device");
    }
    let args = json!({ "command": "x".repeat(200) }).to_string();
    let payload = json!({ "result": "x".repeat(500) }).to_string();
    let base: i64 = 1_700_000_000_000_000_000;
    let mut last = vec![0; DEVICES];
    for n in 0..events {
        let (device, id, seq) = (
            device(n % DEVICES),
            format!("request-{n}"),
            base + n as i64 * 1_000,
        );
        let state = if n % 100 == 0 { "open" } else { "finished" };
        let insert = |sql: &str, values: &[&dyn rusqlite::ToSql]| {
            tx.prepare_cached(sql)
                .and_then(|mut insert| insert.execute(values))
                .expect("a row");
        };
        insert(
            "INSERT INTO inbox VALUES (?1, ?2, 0, 'tool_request', ?3)",
            &[&device, &seq, &id],
        );
        insert(
            "INSERT INTO requests (request_id, device_id, seq, state, body_hash, tool_name, created_at_ms) \
             VALUES (?1, ?2, ?3, ?4, x'00', 'Bash', 0.0)",
            &[&id, &device, &seq, &state],
        );
        insert(
            "INSERT INTO request_args VALUES (?1, ?2)",
            &[&tx.last_insert_rowid(), &args],
        );
        if state == "finished" {
            let age = now_ms();
            insert(
                "INSERT INTO results VALUES (?1, x'00', 'ok', 0, ?2, ?3)",
                &[&id, &age, &payload],
            );
        }
        last[n % DEVICES] = seq;
    }
    tx.execute(
        "UPDATE clock SET last_seq = ?1",
        [base + events as i64 * 1_000],
    )
    .expect("the clock");
    tx.commit().expect("committed");
    last
}

fn now_ms() -> f64 {
    std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64() * 1_000.0)
}

/// The commit clock counts nanoseconds.
fn cursor_of_now() -> String {
    format!("{:.0}", now_ms() * 1e6)
}

fn measure(events: usize) {
    let home = tempfile::tempdir().expect("a folder");
    drop(Served::start(home.path()));
    let file = home.path().join("dev-backend.sqlite3");
    let last = fill(&file, events);
    let served = Served::start(home.path());
    let mut wire = Wire::open(&served.url);
    let mut timed = |call: &mut dyn FnMut(&mut Wire, usize)| {
        let mut times = Times::default();
        for round in 0..ROUNDS {
            // Far apart, so that no device is in anybody's cache because its neighbour was.
            let n = round * 7_919 % DEVICES;
            let begun = Instant::now();
            call(&mut wire, n);
            times.add(begun.elapsed());
        }
        times.shown()
    };
    let poll = |wire: &mut Wire, n: usize, cursor: i64| {
        let args = json!({ "deviceId": device(n), "token": TOKEN, "cursor": cursor.to_string() });
        wire.call("query", "events:listForDevice", &args)
    };
    let nothing = timed(&mut |wire, n| drop(poll(wire, n, last[n])));
    let one = timed(&mut |wire, n| drop(poll(wire, n, last[n] - 1)));
    let open = timed(&mut |wire, n| {
        drop(wire.call(
            "query",
            "events:listOpen",
            &json!({ "deviceId": device(n), "token": TOKEN }),
        ));
    });
    let mut number = 0;
    let append = timed(&mut |wire, n| {
        number += 1;
        drop(wire.call(
            "mutation",
            "events:appendRequest",
            &asked(&served.caller, &format!("new-{number}"), n),
        ));
    });
    let size = std::fs::metadata(&file).map_or(0, |meta| meta.len()) >> 20;
    println!(
        "| {events} | {size} MiB | {:.0} MiB | {nothing} | {one} | {open} | {append} |",
        served.resident_mib()
    );
    if events >= 1_000_000 {
        hold(&served, &mut wire);
    }
}

fn asked(caller: &str, id: &str, n: usize) -> Value {
    json!({ "callerToken": caller, "requestId": id, "deviceId": device(n), "toolName": "Read", "args": "{}" })
}

/// Thousands of polls held at once, and how soon each hears of a request.
fn hold(served: &Served, wire: &mut Wire) {
    let begun = Instant::now();
    let cursor = cursor_of_now();
    let mut held: Vec<TcpStream> = (0..HELD)
        .map(|n| held_poll(&served.url, n, &cursor))
        .collect();
    let taken = begun.elapsed();
    let mut times = Times::default();
    for round in 0..500 {
        let n = round * 17;
        let begun = Instant::now();
        wire.call(
            "mutation",
            "events:appendRequest",
            &asked(&served.caller, &format!("held-{round}"), n),
        );
        let mut answer = [0_u8; 1024];
        let read = held[n]
            .read(&mut answer)
            .expect("the held poll is answered");
        times.add(begun.elapsed());
        let answer = String::from_utf8_lossy(&answer[..read]);
        assert!(
            answer.contains("tool_request"),
            "it was held until then: {answer}"
        );
    }
    println!(
        "\n{HELD} polls held at once, taken at {:.0} a second, {:.0} MiB; from an append to the answer of its device's \
         poll: {} (p50 / p99, the append's own time included); the slowest {}",
        per_second(u32::try_from(HELD).unwrap_or(u32::MAX), taken),
        served.resident_mib(),
        times.shown(),
        ms(times.percentile(100)),
    );
}

fn held_poll(url: &str, n: usize, cursor: &str) -> TcpStream {
    let host = url.trim_start_matches("http://");
    let mut stream = TcpStream::connect(host).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(30)))
        .expect("an option of every socket");
    // Behind all that is there, or the poll would answer with that.
    let args = json!({ "deviceId": device(n), "token": TOKEN, "cursor": cursor, "waitMs": 25_000 });
    let body =
        json!({ "path": "events:listForDevice", "args": args, "format": "json" }).to_string();
    let head = format!(
        "POST /api/query HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all((head + &body).as_bytes())
        .expect("written");
    stream
}
