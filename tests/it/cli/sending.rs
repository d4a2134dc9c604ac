//! `send` as a person uses it: without an address, without JSON, with streamed output, and with Ctrl-C.

use std::io::Read as _;
use std::sync::{Arc, Mutex};

use punie_home::{ApproverPresence, Home};
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStderr};

use super::{CliUser, within_limit};
use crate::harness::terminal::open_terminal;
use crate::harness::wait::wait_until;

/// A `send` that waits, and the lines of its standard error.
struct WaitingSend {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
}

impl WaitingSend {
    fn start(user: &CliUser, args: &[&str]) -> Self {
        let mut child = user.command(args).spawn().expect("started");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        Self { child, lines }
    }

    /// Waits for a line that contains these words, and returns it.
    async fn wait_for_text(&mut self, words: &str) -> String {
        loop {
            let line = within_limit(self.lines.next_line())
                .await
                .expect("readable");
            let line = line.unwrap_or_else(|| panic!("it ended without {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    fn interrupt(&self) {
        let pid = self.child.id().and_then(|id| i32::try_from(id).ok());
        let pid = pid.and_then(Pid::from_raw).expect("it runs");
        kill_process(pid, Signal::INT).expect("it runs");
    }

    async fn ends(self) -> (i32, String) {
        let output = within_limit(self.child.wait_with_output())
            .await
            .expect("waited for");
        let text = String::from_utf8(output.stdout).expect("text");
        (output.status.code().unwrap_or(-1), text)
    }
}

#[tokio::test]
async fn dev_is_found_by_its_home_and_arguments_need_no_json() {
    let user = CliUser::new();
    user.write("work/notes.md", "one\ntwo\nthree\n");
    let dev = user.serves(&["dev", "--json"]).await;
    for verb in ["send", "call"] {
        for (args, words) in cases! {
            (&["Bash", "--", "printf", "%s;", "a b", "c'd"][..], "a b;c'd;"),
            (&["Bash", "timeout=5000", "--", "cat notes.md | tail -n 1"], "three"),
            (&["Glob", "pattern=*.md"], "notes.md"),
            (&["Read", "notes.md", "limit=1"], "\tone"),
            (&["Read", r#"{"file_path":"notes.md"}"#], "\ttwo"),
        } {
            let said = user.run_cli(&[&[verb], args].concat()).await.done();
            assert_contains!(said.out, words; "{args:?}");
        }
        user.run_cli(&[verb, "GitStatus", "what", "else"])
            .await
            .refused(
                2,
                "give key=value, a JSON object, or a command line behind --",
            );
    }
    let failed = user.run_cli(&["send", "Read", "gone.md"]).await;
    assert_eq!(failed.code, 1, "{failed:?}");
    assert_starts_with!(failed.err, "request ");
    let asked = user
        .run_cli(&["send", "Bash", "--wait", "0", "--", "true"])
        .await
        .done();
    let id = asked.out.trim();
    user.run_cli(&["cancel", id]).await.done();
    dev.stopped().await;
    user.run_cli(&["send", "Bash", "--", "true"])
        .await
        .refused(78, "punie-runner dev");
}

#[tokio::test]
async fn a_terminal_shows_output_as_it_comes_and_once() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let (mut ours, theirs) = open_terminal();
    let line = "echo first; until test -e go; do sleep 0.05; done; echo second; exit 7";
    let mut command = user.command(&["send", "Bash", "--", line]);
    command.stdout(theirs);
    let mut child = command.spawn().expect("started");
    drop(command);
    let screen = Arc::new(Mutex::new(Vec::new()));
    let filled = Arc::clone(&screen);
    let reading = std::thread::spawn(move || {
        let mut chunk = [0; 1024];
        while let Ok(read @ 1..) = ours.read(&mut chunk) {
            filled
                .lock()
                .expect("not poisoned")
                .extend_from_slice(&chunk[..read]);
        }
    });
    let shown = || String::from_utf8_lossy(&screen.lock().expect("not poisoned")).into_owned();
    wait_until("the first line", || shown().contains("first")).await;
    user.write("work/go", "");
    within_limit(child.wait()).await.expect("waited for");
    reading.join().expect("read");
    let text = shown();
    for words in ["first", "second", "Exit code 7"] {
        assert_eq!(text.matches(words).count(), 1, "{words}: {text}");
    }
    dev.stopped().await;
}

#[tokio::test]
async fn the_first_ctrl_c_cancels_the_request_and_the_second_leaves() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let mut sending = WaitingSend::start(&user, &["send", "Bash", "--", "sleep 600"]);
    let named = sending.wait_for_text("waiting; Ctrl-C").await;
    let id = named.split([' ', ':']).nth(1).expect("an id").to_owned();
    sending.interrupt();
    let said = sending.wait_for_text("cancelled ").await;
    assert_eq!(said, format!("cancelled {}", &id[id.len() - 8..]));
    let (code, answer) = sending.ends().await;
    assert!(
        code == 1 && answer.starts_with("Cancelled: "),
        "{code} {answer}"
    );
    dev.stopped().await;

    // No runner takes the request, so no answer comes.
    let backend = user.serves(&["backend", "--json"]).await;
    let mut sending = WaitingSend::start(&user, &["send", "Bash", "--", "true"]);
    sending.wait_for_text("waiting; Ctrl-C").await;
    sending.interrupt();
    sending.wait_for_text("cancelled ").await;
    sending.interrupt();
    sending.wait_for_text("left without its answer").await;
    assert_eq!(sending.ends().await.0, 1);
    backend.stopped().await;
}

#[tokio::test]
async fn a_request_that_waits_for_approval_says_so_and_how_to_answer() {
    let user = CliUser::new();
    user.write("home/config.toml", "[policy]\nask = [\"executes\"]\n");
    let dev = user.serves(&["dev", "--json"]).await;
    let args = ["send", "Bash", "--json", "--", "echo", "allowed"];
    // `send` itself cannot answer a question, so the call is refused.
    let refused = user.run_cli(&args).await;
    assert!(
        refused.code == 1 && !refused.err.contains("your approval"),
        "{refused:?}"
    );

    let mut watch = user
        .command(&["approvals", "--watch"])
        .spawn()
        .expect("started");
    let home = Home::open_home(&user.path("home")).expect("a home");
    wait_until("an approver", || ApproverPresence::is_announced(&home)).await;
    let mut sending = WaitingSend::start(&user, &args);
    let said = sending.wait_for_text("waiting for your approval").await;
    let id = said.split([' ', ':']).nth(1).expect("an id").to_owned();
    let answer = format!("To answer: punie-runner approvals allow {id} (");
    sending.wait_for_text(&answer).await;
    user.run_cli(&["approvals", "allow", &id]).await.done();
    let (code, answer) = sending.ends().await;
    let answer: serde_json::Value = serde_json::from_str(&answer).expect(&answer);
    assert!(
        code == 0 && answer["result"].to_string().contains("allowed"),
        "{code} {answer}"
    );
    watch.kill().await.expect("killed");
    dev.stopped().await;
}

#[tokio::test]
async fn ctrl_c_before_the_backend_has_the_request_ends_the_sending() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let url = dev.ready["url"].as_str().expect("an address").to_owned();
    dev.stopped().await;
    let args = ["--backend-url", &url, "send", "Bash", "--", "touch ran"];
    let mut sending = WaitingSend::start(&user, &args);
    sending.wait_for_text("sent again").await;
    sending.interrupt();
    sending.wait_for_text("it is not sent again").await;
    assert_eq!(sending.ends().await.0, 69);
}

#[tokio::test]
async fn a_backend_that_is_away_is_asked_again() {
    let user = CliUser::new();
    let dev = user.serves(&["dev", "--json"]).await;
    let url = dev.ready["url"].as_str().expect("an address").to_owned();
    dev.stopped().await;
    let args = [
        "--backend-url",
        &url,
        "send",
        "Bash",
        "--",
        "echo",
        "after",
        "all",
    ];
    let mut sending = WaitingSend::start(&user, &args);
    sending.wait_for_text("sent again").await;
    let port = url.rsplit(':').next().expect("a port");
    let dev = user.serves(&["dev", "--json", "--port", port]).await;
    let (code, answer) = sending.ends().await;
    assert!(code == 0 && answer.contains("after all"), "{code} {answer}");
    dev.stopped().await;
}
