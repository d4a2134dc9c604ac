//! The traffic of an idle device and of a short request with a metered backend. The tests compare it with the tables of
//! docs/hosted.md, so that the page stays true.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use punie_engine::journal::RequestState;
use punie_engine::runner::WakeupMode;
use punie_tool::ToolRegistry;
use serde_json::json;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::harness::caller::ToolCall;
use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::instant_backend::InstantBackend;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/hosted.md");
/// The hours of a month of 30 days.
const MONTH_HOURS: u64 = 720;
/// The simulated hours with the wake-up socket and without it: some 1,200 and 2,300 calls. Without it, the test misses
/// calls that are less frequent than every 12 hours.
const HOURS_LISTENING: u64 = 48;
const HOURS_POLLING: u64 = 12;
/// The runner jitters its waits by a fifth, and ends them together with other waits.
const CALLS_OFF_BY: f64 = 0.15;
/// Ports, ids and times differ in length.
const BYTES_OFF_BY: f64 = 0.1;

/// The traffic of one backend function.
#[derive(Debug, Default, Clone, Copy)]
struct FunctionTraffic {
    calls: u64,
    /// The bytes of requests and responses with their HTTP heads.
    bytes: u64,
}

type Counts = BTreeMap<String, FunctionTraffic>;

/// Forwards bytes between a device and its backend, and counts calls and bytes.
struct TrafficMeter {
    url: String,
    counts: Arc<Mutex<Counts>>,
    _serving: JoinSet<()>,
}

impl TrafficMeter {
    async fn before(upstream: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let upstream = upstream.trim_start_matches("http://").to_owned();
        let counts = Arc::new(Mutex::new(Counts::new()));
        let counting = Arc::clone(&counts);
        let mut serving = JoinSet::new();
        serving.spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let upstream = upstream.clone();
                let counts = Arc::clone(&counting);
                open.spawn(async move {
                    let Ok(far) = TcpStream::connect(upstream).await else {
                        return;
                    };
                    near.set_nodelay(true)
                        .and(far.set_nodelay(true))
                        .expect("set");
                    pass_connection(near, far, &counts).await;
                });
            }
        });
        Self {
            url,
            counts,
            _serving: serving,
        }
    }

    /// Returns the counts since the last call of `take`, and resets them.
    fn take(&self) -> Counts {
        std::mem::take(&mut self.counts.lock())
    }

    fn calls(&self, path: &str) -> u64 {
        let counts = self.counts.lock();
        counts.get(path).map_or(0, |seen| seen.calls)
    }
}

/// Forwards a connection until either end closes it. A connection carries one call at a time, so bytes belong to the
/// last requested function. On a sync socket each new value of the query is a run of its function.
async fn pass_connection(near: TcpStream, far: TcpStream, counts: &Mutex<Counts>) {
    let (from_near, to_near) = near.into_split();
    let (from_far, to_far) = far.into_split();
    let current = Mutex::new(String::new());
    let add = |path: &str, calls: u64, bytes: usize| {
        let mut counts = counts.lock();
        let seen = counts.entry(path.to_owned()).or_default();
        seen.calls += calls;
        seen.bytes += bytes as u64;
    };
    let mut head = 0;
    let asked = copy_bytes(from_near, to_far, |chunk| {
        let text = String::from_utf8_lossy(chunk);
        let mut current = current.lock();
        if text.starts_with("GET /api/sync") {
            "events:head".clone_into(&mut current);
        }
        // The body may come after the head.
        match text
            .split_once("\"path\":\"")
            .and_then(|(_, rest)| rest.split_once('"'))
        {
            Some((path, _)) => {
                path.clone_into(&mut current);
                add(path, 1, std::mem::take(&mut head) + chunk.len());
            }
            None if text.starts_with("POST ") => head = chunk.len(),
            None => add(&current, 0, chunk.len()),
        }
    });
    let answered = copy_bytes(from_far, to_near, |chunk| {
        let current = current.lock();
        let runs = String::from_utf8_lossy(chunk)
            .matches("\"QueryUpdated\"")
            .count() as u64;
        add(&current, runs, chunk.len());
    });
    tokio::select! {
        () = asked => {}
        () = answered => {}
    }
}

async fn copy_bytes(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut see: impl FnMut(&[u8]),
) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        see(&buffer[..read]);
        if to.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// The number of catalogs that are published at the first start: tools, skills, agents and plugins.
const CATALOGS: u64 = 4;

/// Measures the calls of an idle device in these hours, after its start.
async fn measure_idle(wakeup: WakeupMode, hours: u64) -> Counts {
    let setup = RunnerFixture::with_unheld_polls("").await;
    let meter = TrafficMeter::before(&setup.setting.url).await;
    let settings = settings_with(|settings| {
        settings.poll.wakeup = wakeup;
    });
    let none = ToolRegistry::new([]).expect("no tools");
    let runner = RunnerInProcess::with_at(&setup, &meter.url, none, settings, |parts| {
        parts.backend = Arc::new(InstantBackend(Arc::clone(&parts.backend)));
    });
    wait_until("the end of the start", || {
        let socket = wakeup == WakeupMode::Off || meter.calls("events:head") > 0;
        socket
            && meter.calls("catalog:upsertMany") == CATALOGS
            && meter.calls("devices:heartbeat") > 0
    })
    .await;
    tokio::time::pause();
    tokio::time::sleep(Duration::from_mins(20)).await;
    meter.take();
    tokio::time::sleep(Duration::from_hours(hours)).await;
    let counts = meter.take();
    tokio::time::resume();
    runner.stop().await;
    counts
}

/// The numbers in a table of the page, by the name in backticks in the first column.
fn read_table(heading: &str) -> BTreeMap<String, Vec<f64>> {
    let page = std::fs::read_to_string(PAGE).expect("the page");
    let (_, rest) = page
        .split_once(heading)
        .unwrap_or_else(|| panic!("the page has no {heading:?}"));
    let rows = rest
        .lines()
        .skip_while(|line| !line.starts_with('|'))
        .take_while(|line| line.starts_with('|'));
    let number = |cell: &str| cell.trim().replace(['*', ','], "").parse().ok();
    rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|');
        let first = cells.next()?;
        let name = first
            .split('`')
            .nth(1)
            .unwrap_or(first)
            .trim()
            .trim_matches('*')
            .to_owned();
        Some((name, cells.filter_map(number).collect()))
    })
    .collect()
}

fn is_near(counted: f64, said: f64, off_by: f64) -> bool {
    (counted - said).abs() <= said * off_by
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn to_float(n: u64) -> f64 {
    n as f64
}

/// Compares the traffic of an idle device, scaled to a month, with a column of the page.
fn compare_with_table(counts: &Counts, hours: u64, column: usize) {
    let per_month = to_float(MONTH_HOURS / hours);
    let said = read_table("An idle device");
    for (path, seen) in counts.iter().filter(|(_, seen)| seen.calls > 0) {
        let row = said
            .get(path)
            .unwrap_or_else(|| panic!("the page says nothing of {path}: {counts:?}"));
        let month = to_float(seen.calls) * per_month;
        assert!(
            is_near(month, row[column], CALLS_OFF_BY),
            "{path}: {month} calls, the page says {row:?}"
        );
        if path != "events:head" {
            let each = to_float(seen.bytes) / to_float(seen.calls);
            assert!(
                is_near(each, row[2], BYTES_OFF_BY),
                "{path}: {each:.0} bytes, the page says {row:?}"
            );
        }
    }
    for (path, row) in said
        .iter()
        .filter(|(path, row)| path.contains(':') && row[column] > 0.0)
    {
        assert!(
            counts.get(path).is_some_and(|seen| seen.calls > 0),
            "{path} is never called: {row:?}"
        );
    }
    let month = counts
        .values()
        .map(|seen| to_float(seen.calls))
        .sum::<f64>()
        * per_month;
    assert!(
        is_near(month, said["a device"][column], CALLS_OFF_BY),
        "{month} calls in all"
    );
}

#[tokio::test]
async fn an_idle_device_with_the_wake_up_socket_costs_what_the_page_says() {
    let counts = measure_idle(WakeupMode::Auto, HOURS_LISTENING).await;
    compare_with_table(&counts, HOURS_LISTENING, 0);
    let month = counts
        .values()
        .map(|seen| to_float(seen.calls))
        .sum::<f64>()
        * to_float(MONTH_HOURS / HOURS_LISTENING);
    assert!(month < 30_000.0, "{month} calls a month: {counts:?}");
}

#[tokio::test]
async fn an_idle_device_without_it_costs_what_the_page_says() {
    let counts = measure_idle(WakeupMode::Off, HOURS_POLLING).await;
    compare_with_table(&counts, HOURS_POLLING, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_short_request_costs_the_device_what_the_page_says() {
    let setup = RunnerFixture::with_unheld_polls("").await;
    setup.configure(
        "unauthorized_ms = 200",
        "unauthorized_ms = 200\nlistening_ms = 3600000",
    );
    let meter = TrafficMeter::before(&setup.setting.url).await;
    let runner = setup.run_at(&meter.url);
    runner.wait_for_log("the catalog is published").await;
    wait_for_some("the wake-up socket", async || {
        (setup.status().await["backend"]["link"] == "up").then_some(())
    })
    .await;
    wait_until("the first heartbeat", || {
        meter.calls("devices:heartbeat") > 0
    })
    .await;
    let said = read_table("A short request");
    setup.write("there.txt", "words\n");
    for ask in [
        ToolCall::bash("echo words"),
        ToolCall::new("Read", &json!({ "file_path": "there.txt" })),
    ] {
        // Each request is measured alone, because a wake-up may cause one more poll after the request before.
        meter.take();
        let id = setup.ask(ask).await;
        setup.answer(&id).await.expect_ok();
        setup.wait_for_state(&id, RequestState::Delivered).await;
        let counts = meter.take();
        let calls: BTreeMap<_, _> = counts
            .iter()
            // Heartbeats depend on the time, not on the request.
            .filter(|(path, seen)| seen.calls > 0 && **path != "devices:heartbeat")
            .map(|(path, seen)| (path, seen.calls))
            .collect();
        assert!(calls.values().sum::<u64>() <= 4, "{calls:?}");
        for (path, calls) in calls {
            let row = said
                .get(path)
                .unwrap_or_else(|| panic!("the page says nothing of {path}"));
            assert!(
                to_float(calls) <= row[0],
                "{path}: {calls} calls, the page says {row:?}"
            );
        }
    }
}
