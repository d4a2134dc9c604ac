//! Latency, throughput, bursts and one pass, each for the floor and for the runner in turn.

use std::path::Path;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use punie_core::ids::RequestId;
use rusqlite::Connection;

use super::caller::{Ask, Caller, Results};
use super::device::{Device, Kind};
use super::figures::{Times, ms, per_second, ratio};
use super::stage::Stage;

/// All devices, in the order of measuring.
pub const IN_TURN: [Kind; 3] = [Kind::Floor, Kind::Journal, Kind::Runner];

/// Requests under way at once.
const IN_FLIGHT: usize = 8;

/// A device that has answered a few of these already.
fn warm(kind: Kind, stage: &Stage, runner: &Path, asks: &[Ask]) -> (Device, Results, Caller) {
    let device = Device::start(kind, stage, runner);
    let (results, mut caller) = (Results::watch(stage), Caller::new(stage));
    for ask in asks.iter().cycle().take(asks.len() * 10) {
        caller.ask(&results, ask);
    }
    let (id, ask) = (RequestId::new(), &asks[asks.len() - 1]);
    caller.append(&id, ask);
    while caller.payload(&id).is_empty() {}
    (device, results, caller)
}

/// One request at a time, with pauses of 5 to 50 ms.
pub fn latency(runner: &Path) {
    let asks = [
        ("nothing", Ask::nothing()),
        ("Read 40 KB", Ask::read()),
        ("Bash true", Ask::bash("true")),
    ];
    rounds(runner, &asks, 400, |n| {
        Duration::from_millis(5 + n * 7 % 46)
    });
}

/// One request at a time, each after two to three seconds without any.
pub fn idle(runner: &Path) {
    let asks = [
        ("Read 40 KB", Ask::read()),
        ("Bash true", Ask::bash("true")),
    ];
    rounds(runner, &asks, 20, |n| {
        Duration::from_millis(2_000 + n * 70 % 1_000)
    });
}

/// One request at a time, after 50 to 100 ms without any, of a backend that holds no polls, to a runner that polls by the
/// hour: only the wake-up socket can bring it. From the append to the stored result, which is after the start.
pub fn wakeup(runner: &Path) {
    const HOURLY: &str = "[backend.poll]\nactive_ms = 3600000\nrecent_ms = 3600000\nidle_ms = 3600000\nlistening_ms = 3600000\n";
    let stage = Stage::with(false);
    std::fs::write(stage.home().join("config.toml"), HOURLY).expect("a configuration");
    let asks = [
        ("nothing", Ask::nothing()),
        ("Read 40 KB", Ask::read()),
        ("Bash true", Ask::bash("true")),
    ];
    let all: Vec<Ask> = asks.iter().map(|(_, ask)| ask.clone()).collect();
    let (_device, results, mut caller) = warm(Kind::Runner, &stage, runner, &all);
    println!("| woken by the socket | append to result p50 / p99 |\n|---|---|");
    for (name, ask) in &asks {
        let mut times = Times::default();
        for n in 0..200 {
            std::thread::sleep(Duration::from_millis(50 + n * 7 % 51));
            times.add(caller.ask(&results, ask));
        }
        println!("| {name} | {} |", times.shown());
    }
}

fn rounds(runner: &Path, asks: &[(&str, Ask)], count: u64, pause: impl Fn(u64) -> Duration) {
    let mut times: [_; 3] = std::array::from_fn(|_| vec![Times::default(); asks.len()]);
    // In turn, so that a machine that gets slower meanwhile slows both.
    for _round in 0..4 {
        for (kind, times) in IN_TURN.into_iter().zip(&mut times) {
            let stage = Stage::set();
            let all: Vec<Ask> = asks.iter().map(|(_, ask)| ask.clone()).collect();
            let (_device, results, mut caller) = warm(kind, &stage, runner, &all);
            for n in 0..count / 4 {
                for (ask, times) in all.iter().zip(times.iter_mut()) {
                    std::thread::sleep(pause(n));
                    times.add(caller.ask(&results, ask));
                }
            }
        }
    }
    println!(
        "| one at a time | floor p50 / p99 | floor with a journal | runner | ratio | ratio to that with a journal |\n\
         |---|---|---|---|---|---|"
    );
    for (at, (name, _)) in asks.iter().enumerate() {
        let [floor, journal, runner] = &times;
        let (floor, journal, runner) = (&floor[at], &journal[at], &runner[at]);
        let ratios = (runner.ratio(floor), runner.ratio(journal));
        let (floor, journal, runner) = (floor.shown(), journal.shown(), runner.shown());
        println!(
            "| {name} | {floor} | {journal} | {runner} | {} | {} |",
            ratios.0, ratios.1
        );
    }
}

/// Eight callers, each asking again as soon as it is answered.
pub fn throughput(runner: &Path) {
    println!(
        "| {IN_FLIGHT} in flight | floor /s | runner /s | ratio | CPU a request | ratio |\n|---|---|---|---|---|---|"
    );
    let asks = [
        ("nothing", Ask::nothing(), 8_000),
        ("Read 40 KB", Ask::read(), 4_000),
        ("Bash true", Ask::bash("true"), 1_600),
        ("Bash sleep 0.1", Ask::bash("sleep 0.1"), 240),
    ];
    for (name, ask, count) in asks {
        let [floor, runner] = Kind::BOTH.map(|kind| {
            let stage = Stage::set();
            let (device, results, _) = warm(kind, &stage, runner, std::slice::from_ref(&ask));
            let before = device.usage().cpu;
            let rate = per_second(count, in_flight(&stage, &results, &ask, count));
            (rate, device.usage().cpu.saturating_sub(before) / count)
        });
        println!(
            "| {name} | {:.0} | {:.0} | {:.2} | {} and {} | {:.2} |",
            floor.0,
            runner.0,
            runner.0 / floor.0,
            ms(floor.1),
            ms(runner.1),
            ratio(runner.1, floor.1)
        );
    }
}

fn in_flight(stage: &Stage, results: &Results, ask: &Ask, count: u32) -> Duration {
    let ready = Barrier::new(IN_FLIGHT + 1);
    let begun = std::thread::scope(|scope| {
        for _ in 0..IN_FLIGHT {
            scope.spawn(|| {
                let mut caller = Caller::new(stage);
                ready.wait();
                for _ in 0..count as usize / IN_FLIGHT {
                    caller.ask(results, ask);
                }
            });
        }
        ready.wait();
        Instant::now()
    });
    begun.elapsed()
}

/// Many at once: to a device that holds a poll, and to one that comes back to them.
pub fn burst(runner: &Path) {
    println!("| at once | floor | runner | ratio | answered | |\n|---|---|---|---|---|---|");
    for (count, away) in [(100, false), (1_000, false), (10_000, true)] {
        let mut times = [Duration::ZERO; 2];
        let mut answered = [0; 2];
        for (at, kind) in Kind::BOTH.into_iter().enumerate() {
            (times[at], answered[at]) = burst_of(kind, runner, count, away);
        }
        println!(
            "| {count} | {} | {} | {:.2} | {} and {} | {} |",
            ms(times[0]),
            ms(times[1]),
            ratio(times[1], times[0]),
            answered[0],
            answered[1],
            if away {
                "from its start, having been away"
            } else {
                "from the first append"
            }
        );
    }
}

fn burst_of(kind: Kind, runner: &Path, count: u32, away: bool) -> (Duration, u32) {
    let stage = Stage::set();
    let (mut device, results, mut caller) = warm(kind, &stage, runner, &[Ask::read_little()]);
    let before = answers(&stage);
    if away {
        drop(device);
        // The floor has no memory: it would take what it has answered again.
        append_all(&mut caller, count);
        let begun = Instant::now();
        device = Device::start(kind, &stage, runner);
        let done = wait_for(&stage, before + count);
        drop((device, results));
        return (done.duration_since(begun), answers(&stage) - before);
    }
    let begun = Instant::now();
    append_all(&mut caller, count);
    let done = wait_for(&stage, before + count);
    drop((device, results));
    (done.duration_since(begun), answers(&stage) - before)
}

fn append_all(caller: &mut Caller, count: u32) {
    for _ in 0..count {
        caller.append(&RequestId::new(), &Ask::read_little());
    }
}

/// The requests with a result; the table holds each once.
fn answers(stage: &Stage) -> u32 {
    let db = Connection::open(stage.database()).expect("the backend's database");
    db.query_row("select count(*) from results", [], |row| row.get(0))
        .expect("a count")
}

fn wait_for(stage: &Stage, count: u32) -> Instant {
    let db = Connection::open(stage.database()).expect("the backend's database");
    let mut look = db
        .prepare("select count(*) from results")
        .expect("the table");
    loop {
        let there: u32 = look.query_row([], |row| row.get(0)).expect("a count");
        if there >= count {
            return Instant::now();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The whole life of a process that finds one request and answers it.
pub fn once(runner: &Path) {
    let [floor, runner] = Kind::BOTH.map(|kind| {
        let stage = Stage::set();
        let mut times = Times::default();
        let mut caller = None;
        for n in 0..21 {
            // The device is known to the backend only after the first pass.
            let caller = caller.get_or_insert_with(|| {
                let paired = kind
                    .command(&stage, runner, true)
                    .status()
                    .expect("a first pass");
                assert!(
                    paired.success(),
                    "the first pass fails: see {}",
                    stage.log().display()
                );
                Caller::new(&stage)
            });
            caller.append(&RequestId::new(), &Ask::read());
            let begun = Instant::now();
            let ended = kind.command(&stage, runner, true).status().expect("a pass");
            let took = begun.elapsed();
            assert!(ended.success(), "a pass of the {} fails", kind.name());
            if n > 0 {
                times.add(took);
            }
        }
        times
    });
    println!("| one pass with one Read | floor p50 / p99 | runner | ratio |\n|---|---|---|---|");
    println!(
        "| whole process | {} | {} | {} |",
        floor.shown(),
        runner.shown(),
        runner.ratio(&floor)
    );
}
