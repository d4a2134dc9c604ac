//! This machine's terminals as ACP defines them: ids that belong to a session, the reported exit, and output limits
//! that keep the end of the output.

use super::*;
use crate::harness::running::is_alive;
use crate::harness::wait::PATIENCE;
use punie_editor::protocol::{
    CreateTerminalRequest, EnvVariable, Error, KillTerminalRequest, ReleaseTerminalRequest,
    TerminalExitStatus, TerminalId, TerminalOutputRequest, TerminalOutputResponse,
    WaitForTerminalExitRequest,
};

const MISSING: i32 = -32_002;

struct LentTerminals<'a>(&'a dyn ClientTools, &'static str);

impl LentTerminals<'_> {
    fn bash(&self, line: &str) -> CreateTerminalRequest {
        CreateTerminalRequest::new(self.1, "bash").args(vec!["-c".to_owned(), line.to_owned()])
    }

    async fn create(&self, request: CreateTerminalRequest) -> TerminalId {
        self.0
            .create_terminal(request)
            .await
            .expect("started")
            .terminal_id
    }

    async fn wait(&self, id: &TerminalId) -> Result<TerminalExitStatus, Error> {
        let request = WaitForTerminalExitRequest::new(self.1, id.clone());
        self.0
            .wait_for_terminal_exit(request)
            .await
            .map(|answer| answer.exit_status)
    }

    async fn output(&self, id: &TerminalId) -> Result<TerminalOutputResponse, Error> {
        self.0
            .terminal_output(TerminalOutputRequest::new(self.1, id.clone()))
            .await
    }

    async fn kill(&self, id: &TerminalId) -> Result<(), Error> {
        self.0
            .kill_terminal(KillTerminalRequest::new(self.1, id.clone()))
            .await
            .map(drop)
    }

    async fn release(&self, id: &TerminalId) -> Result<(), Error> {
        self.0
            .release_terminal(ReleaseTerminalRequest::new(self.1, id.clone()))
            .await
            .map(drop)
    }

    /// Runs a command to its end and returns its output.
    async fn run(&self, request: CreateTerminalRequest) -> TerminalOutputResponse {
        let id = self.create(request).await;
        self.wait(&id).await.expect("an end");
        self.output(&id).await.expect("text")
    }
}

fn error_code(error: Result<impl std::fmt::Debug, Error>) -> i32 {
    error.expect_err("an error").code.value()
}

#[tokio::test]
async fn a_command_is_created_waited_for_read_and_released() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let id = lent
        .create(lent.bash("echo out; echo err >&2; echo out again; exit 5"))
        .await;
    assert!(id.to_string().starts_with("term-"), "{id}");
    assert_eq!(lent.wait(&id).await.expect("an end").exit_code, Some(5));
    let output = lent.output(&id).await.expect("text");
    assert_eq!(
        output.output, "out\nerr\nout again\n",
        "one pipe for both keeps the order"
    );
    assert_eq!(output.exit_status.expect("it ended").exit_code, Some(5));
    assert!(!output.truncated);
    lent.release(&id).await.expect("released");
    for gone in [
        error_code(lent.output(&id).await),
        error_code(lent.wait(&id).await),
        error_code(lent.kill(&id).await),
        error_code(lent.release(&id).await),
    ] {
        assert_eq!(gone, MISSING);
    }
}

#[tokio::test]
async fn its_environment_is_added_to_what_commands_have() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let request = lent.bash("echo \"$GREETING ${PATH:+has a path}\"");
    let output = lent
        .run(request.env(vec![EnvVariable::new("GREETING", "hi")]))
        .await;
    assert_eq!(output.output, "hi has a path\n");
    let refused = lent
        .bash("true")
        .env(vec![EnvVariable::new("LD_PRELOAD", "/x.so")]);
    assert!(lent.0.create_terminal(refused).await.is_err());
}

#[tokio::test]
async fn it_starts_at_the_top_of_the_workspace_or_where_it_is_told() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    std::fs::create_dir(bench.root.join("sub")).expect("a folder");
    assert_eq!(
        lent.run(lent.bash("pwd")).await.output.trim(),
        bench.root.display().to_string()
    );
    let there = lent
        .run(lent.bash("pwd").cwd(bench.root.join("sub")))
        .await
        .output;
    assert_eq!(there.trim(), bench.root.join("sub").display().to_string());
}

#[tokio::test]
async fn what_is_killed_stays_to_be_read_and_dies_by_a_signal() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let id = lent.create(lent.bash("echo before; exec sleep 60")).await;
    let answered = crate::harness::wait::wait_for_some("the first output", async || {
        lent.output(&id)
            .await
            .ok()
            .filter(|output| output.output == "before\n")
    });
    assert!(answered.await.exit_status.is_none(), "it runs");
    lent.kill(&id).await.expect("killed");
    let status = lent.wait(&id).await.expect("an end");
    assert!(
        status.exit_code.is_none() && status.signal.is_some(),
        "{status:?}"
    );
    assert_eq!(
        lent.output(&id).await.expect("still there").output,
        "before\n"
    );
    lent.kill(&id).await.expect("twice does no harm");
    lent.release(&id).await.expect("released");
}

#[tokio::test]
async fn releasing_ends_what_runs() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let id = lent.create(lent.bash("echo $$; exec sleep 60")).await;
    let pid = crate::harness::wait::wait_for_some("the process id", async || {
        lent.output(&id)
            .await
            .ok()
            .map(|output| output.output)
            .filter(|text| text.ends_with('\n'))
    });
    let pid = pid.await;
    lent.release(&id).await.expect("released");
    assert!(!is_alive(pid.trim()));
}

#[tokio::test]
async fn a_wait_does_not_wait_for_what_holds_the_pipe() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let id = lent.create(lent.bash("sleep 60 & echo left; exit 0")).await;
    let ended = tokio::time::timeout(PATIENCE, lent.wait(&id)).await;
    let status = ended.expect("an end in time").expect("an end");
    assert_eq!(status.exit_code, Some(0));
    lent.release(&id)
        .await
        .expect("released, with the process that holds the pipe");
}

#[tokio::test]
async fn it_can_be_read_while_another_waits() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let id = lent
        .create(lent.bash("echo early; until [ -e go ]; do :; done; echo late"))
        .await;
    let (status, ()) = tokio::join!(lent.wait(&id), async {
        crate::harness::wait::wait_for_some("the first output", async || {
            lent.output(&id)
                .await
                .ok()
                .filter(|output| output.output == "early\n")
        })
        .await;
        bench.put("go", "");
    });
    assert_eq!(status.expect("an end").exit_code, Some(0));
    assert_eq!(
        lent.output(&id).await.expect("text").output,
        "early\nlate\n"
    );
}

#[tokio::test]
async fn a_limit_keeps_the_end_on_a_characters_border() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let output = lent
        .run(
            lent.bash("printf 'begin%05000dend: äöü' 0")
                .output_byte_limit(8),
        )
        .await;
    assert_eq!((output.output.as_str(), output.truncated), (": äöü", true));
    let output = lent
        .run(lent.bash("printf 'äöü'").output_byte_limit(5))
        .await;
    assert_eq!((output.output.as_str(), output.truncated), ("öü", true));
    let output = lent
        .run(lent.bash("printf '\\xff\\xff\\xff'").output_byte_limit(5))
        .await;
    assert!(output.output.len() <= 5, "{output:?}");
    let whole = lent.run(lent.bash("printf '%050000d' 0")).await;
    assert_eq!(
        (whole.output.len(), whole.truncated),
        (50_000, false),
        "output without a limit comes whole"
    );
}

#[tokio::test]
async fn an_id_belongs_to_its_session() {
    let bench = EditorBench::new();
    let (one, two) = (
        LentTerminals(&bench.local, "one"),
        LentTerminals(&bench.local, "two"),
    );
    let id = one.create(one.bash("echo mine")).await;
    one.wait(&id).await.expect("an end");
    for refused in [
        error_code(two.output(&id).await),
        error_code(two.kill(&id).await),
        error_code(two.release(&id).await),
        error_code(two.wait(&id).await),
    ] {
        assert_eq!(refused, MISSING);
    }
    assert_eq!(one.output(&id).await.expect("still there").output, "mine\n");
    assert_ne!(id, two.create(two.bash("true")).await);
}

#[tokio::test]
async fn a_program_is_started_as_it_is_named() {
    let bench = EditorBench::new();
    let lent = LentTerminals(&bench.local, "s");
    let words =
        CreateTerminalRequest::new("s", "printf").args(vec!["%s|".to_owned(), "a b".to_owned()]);
    assert_eq!(lent.run(words).await.output, "a b|");
    let line = CreateTerminalRequest::new("s", "echo two words");
    assert_eq!(
        error_code(lent.0.create_terminal(line).await),
        MISSING,
        "no shell reads it"
    );
}
