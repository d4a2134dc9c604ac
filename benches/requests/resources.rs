//! What a device costs while it does nothing, and what the largest work makes of its memory.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::Duration;

use serde_json::json;

use super::caller::{Ask, Caller, Results};
use super::device::{Device, Kind};
use super::figures::ms;
use super::stage::Stage;

/// How long nothing is done.
const WINDOW: Duration = Duration::from_secs(30);

/// Memory, processor time and wake-ups while a poll is held.
pub fn rest(runner: &Path) {
    println!("| at rest for 30 s | RSS | CPU an hour | wake-ups a second |\n|---|---|---|---|");
    for kind in Kind::BOTH {
        let stage = Stage::set();
        let device = Device::start(kind, &stage, runner);
        let (results, mut caller) = (Results::watch(&stage), Caller::new(&stage));
        for _ in 0..3 {
            caller.ask(&results, &Ask::read());
        }
        drop(results);
        // By then the threads that calls needed have ended.
        std::thread::sleep(Duration::from_secs(15));
        let before = device.usage();
        std::thread::sleep(WINDOW);
        let after = device.usage();
        // Threads that were there before and ended take what they used with them.
        let cpu = after.cpu.saturating_sub(before.cpu) * 120;
        let switches =
            u32::try_from(after.switches.saturating_sub(before.switches)).expect("a small number");
        println!(
            "| {} | {} KiB | {} | {:.2} |",
            kind.name(),
            device.status_kib("VmRSS"),
            ms(cpu),
            f64::from(switches) / WINDOW.as_secs_f64()
        );
    }
}

/// How far large work lifts the runner's memory above what it holds at rest.
pub fn memory(runner: &Path) {
    let stage = Stage::set();
    let mut sparse = File::create(stage.workspace().join("sparse.txt")).expect("a file");
    sparse
        .seek(SeekFrom::Start(5_000_000_000))
        .expect("a place");
    sparse.write_all(b"\nthe end\n").expect("a line");
    let device = Device::start(Kind::Runner, &stage, runner);
    let (results, mut caller) = (Results::watch(&stage), Caller::new(&stage));
    for ask in [Ask::read(), Ask::bash("true")].iter().cycle().take(20) {
        caller.ask(&results, ask);
    }
    std::thread::sleep(Duration::from_secs(2));
    println!("at rest: {} KiB\n", device.status_kib("VmRSS"));
    println!("| | peak above rest | after | time |\n|---|---|---|---|");
    let end_of_sparse = json!({"file_path": "sparse.txt", "offset": -2}).to_string();
    let grep = json!({"pattern": "the end", "path": "sparse.txt"}).to_string();
    let asks = [
        (
            "1 GB in lines of 80",
            Ask::bash("head -c 1000000000 /dev/zero | tr '\\0' 'a' | fold"),
        ),
        ("1 GB of short lines", Ask::bash("yes | head -c 1G")),
        (
            "1 GB without a line",
            Ask::bash("head -c 1000000000 /dev/zero | tr '\\0' 'a'"),
        ),
        (
            "the end of a 5 GB file",
            Ask {
                tool: "Read",
                args: end_of_sparse,
            },
        ),
        (
            "a word in a 5 GB file",
            Ask {
                tool: "Grep",
                args: grep,
            },
        ),
        ("a 40 KB file", Ask::read()),
    ];
    for (name, ask) in asks {
        let rest = device.status_kib("VmRSS");
        device.forget_peak();
        let took = caller.ask(&results, &ask);
        let peak = device.status_kib("VmHWM").saturating_sub(rest);
        std::thread::sleep(Duration::from_millis(500));
        println!(
            "| {name} | {peak} KiB | {} KiB | {} |",
            device.status_kib("VmRSS"),
            ms(took)
        );
    }
}
