//! The caller's side: appends requests and learns of their results by looking into the backend's database, which
//! costs a few microseconds a look and no request.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use punie_core::ids::RequestId;
use rusqlite::{Connection, OpenFlags};
use serde_json::json;

use super::stage::Stage;
use super::wire::Wire;

/// Between two looks. The system adds some 50 us to it.
const PAUSE: Duration = Duration::from_micros(20);
/// When a request counts as lost.
const PATIENCE: Duration = Duration::from_mins(2);

/// A tool and its arguments.
#[derive(Debug, Clone)]
pub struct Ask {
    pub tool: &'static str,
    pub args: String,
}

impl Ask {
    /// The shells that run: none do, so nothing is done.
    pub fn nothing() -> Self {
        Self {
            tool: "ShellStatus",
            args: "{}".to_owned(),
        }
    }

    /// The whole file of the stage.
    pub fn read() -> Self {
        Self {
            tool: "Read",
            args: json!({"file_path": "file.txt", "max_chars": 100_000}).to_string(),
        }
    }

    /// The first lines of it.
    pub fn read_little() -> Self {
        Self {
            tool: "Read",
            args: json!({"file_path": "file.txt", "limit": 3}).to_string(),
        }
    }

    /// A command line.
    pub fn bash(command: &str) -> Self {
        Self {
            tool: "Bash",
            args: json!({"command": command}).to_string(),
        }
    }
}

type Waiting = Arc<Mutex<HashMap<String, mpsc::Sender<Instant>>>>;

/// Looks for new results all the time, until dropped.
pub struct Results {
    waiting: Waiting,
    stop: Arc<AtomicBool>,
    looking: Option<JoinHandle<()>>,
}

impl Results {
    /// Of this stage's backend.
    pub fn watch(stage: &Stage) -> Self {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db =
            Connection::open_with_flags(stage.database(), flags).expect("the backend's database");
        db.busy_timeout(Duration::from_secs(5)).expect("a setting");
        let (waiting, stop) = (Waiting::default(), Arc::new(AtomicBool::new(false)));
        let (told, asked) = (Arc::clone(&waiting), Arc::clone(&stop));
        let looking = std::thread::spawn(move || look(&db, &told, &asked));
        Self {
            waiting,
            stop,
            looking: Some(looking),
        }
    }

    fn expect(&self, id: &RequestId) -> mpsc::Receiver<Instant> {
        let (found, result) = mpsc::channel();
        self.waiting
            .lock()
            .expect("no panic")
            .insert(id.to_string(), found);
        result
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(looking) = self.looking.take() {
            drop(looking.join());
        }
    }
}

fn look(db: &Connection, waiting: &Waiting, stop: &AtomicBool) {
    let mut statement = db
        .prepare("select rowid, request_id from results where rowid > ? order by rowid")
        .expect("the table");
    let mut last = 0_i64;
    while !stop.load(Ordering::Relaxed) {
        let mut rows = statement.query([last]).expect("a look");
        let mut found = Vec::new();
        while let Some(row) = rows.next().expect("a row") {
            last = row.get(0).expect("a number");
            found.push(row.get::<_, String>(1).expect("an id"));
        }
        drop(rows);
        if found.is_empty() {
            std::thread::sleep(PAUSE);
            continue;
        }
        let now = Instant::now();
        let mut waiting = waiting.lock().expect("no panic");
        for sender in found.iter().filter_map(|id| waiting.remove(id)) {
            // Who stopped waiting gave up.
            let _ = sender.send(now);
        }
    }
}

/// One caller with a connection of its own.
pub struct Caller {
    wire: Wire,
    token: String,
    device: String,
}

impl Caller {
    pub fn new(stage: &Stage) -> Self {
        Self {
            wire: Wire::open(&stage.url),
            token: stage.caller_token.clone(),
            device: stage.device_id.clone(),
        }
    }

    /// Appends a request, in a conversation of its own.
    pub fn append(&mut self, id: &RequestId, ask: &Ask) {
        let args = json!({
            "callerToken": self.token, "requestId": id.as_str(), "deviceId": self.device,
            "toolName": ask.tool, "args": ask.args,
        });
        self.wire.call("mutation", "events:appendRequest", &args);
    }

    /// Appends a request and waits for its result; how long both took.
    pub fn ask(&mut self, results: &Results, ask: &Ask) -> Duration {
        self.ask_as(results, &RequestId::new(), ask)
    }

    /// The same under a name of the caller's.
    pub fn ask_as(&mut self, results: &Results, id: &RequestId, ask: &Ask) -> Duration {
        let result = results.expect(id);
        let begun = Instant::now();
        self.append(id, ask);
        let stored = result
            .recv_timeout(PATIENCE)
            .expect("a result within two minutes");
        stored.duration_since(begun)
    }

    /// The text of a stored result, to see that the right thing was measured.
    pub fn payload(&mut self, id: &RequestId) -> String {
        let args = json!({"callerToken": self.token, "requestId": id.as_str()});
        let result = self.wire.call("query", "events:getResult", &args);
        result["payload"].as_str().unwrap_or_default().to_owned()
    }
}
