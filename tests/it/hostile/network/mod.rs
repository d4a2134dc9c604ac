//! Network access by consent: the hosts that commands reach through the runner's proxy, and those that they do not.

mod bad_clients;
mod commit_hooks;
mod company_authority;
mod java_machines;
mod package_managers;

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_core::ids::{ConversationId, RequestId};
use punie_home::{
    ApprovalQuestions, ApproverPresence, Home, OpenQuestion, PeopleAsker, PersonReply, RunnerPeople,
};
use punie_host::active_rules::ActiveRules;
use punie_host::network_proxy::{HostAsker, HostGate};
use punie_host::permission::PermissionGate;
use punie_sandbox::NetworkAccess;
use punie_tool::request::ToolReply;
use punie_tool::{CallGate as _, GateDecision, ToolContext};
use serde_json::json;
use tempfile::TempDir;

use super::HostileFixture;
use crate::harness::tools;
use crate::harness::wait::{wait_for_some, wait_until};

/// Allows the hosts of a test's server: a name for this machine's loopback, and its address.
const ALLOW: &str = "[[rule]]\nname = \"packages\"\ndecision = \"allow\"\nhosts = [\"packages.test\", \"127.0.0.1\"]\n";
/// Asks about the same hosts.
const ASK: &str = "[[rule]]\nname = \"packages\"\ndecision = \"ask\"\nhosts = [\"packages.test\", \"127.0.0.1\"]\n";
const DENY: &str = "[[rule]]\nname = \"packages\"\ndecision = \"deny\"\nreason = \"not today\"\nhosts = [\"packages.test\"]\n";

/// A real HTTP server that serves files by their paths.
struct FileServer {
    port: u16,
    /// The heads of the requests so far.
    heads: Arc<Mutex<Vec<String>>>,
}

impl FileServer {
    fn start(files: HashMap<String, Vec<u8>>) -> Self {
        Self::start_at(Ipv4Addr::LOCALHOST, move |path, _| files.get(path).cloned())
    }

    /// Serves the function's answer to a path and the server's own port. An answer that begins with `http` is a
    /// redirect.
    fn start_at(
        address: Ipv4Addr,
        answer: impl Fn(&str, u16) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((address, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let heads = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&heads);
        let answer = Arc::new(answer);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let seen = Arc::clone(&seen);
                let answer = Arc::clone(&answer);
                thread::spawn(move || {
                    let stream = stream.expect("a connection");
                    let _ = serve_files(stream, &seen, &|path| answer(path, port));
                });
            }
        });
        Self { port, heads }
    }

    fn requests(&self) -> usize {
        self.heads.lock().len()
    }
}

fn serve_files(
    stream: TcpStream,
    seen: &Mutex<Vec<String>>,
    answer: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut stream = stream;
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        let path = path.split('?').next().unwrap_or_default().to_owned();
        let is_last = head.contains("Connection: close");
        seen.lock().push(head);
        let (status, more, body) = match answer(&path) {
            Some(to) if to.starts_with(b"http") => {
                let to = String::from_utf8(to).expect("an address");
                ("302 Found", format!("Location: {to}\r\n"), Vec::new())
            }
            Some(body) => ("200 OK", String::new(), body),
            None => ("404 Not Found", String::new(), b"not here".to_vec()),
        };
        let kind = if path.starts_with("/simple") {
            "text/html"
        } else {
            "application/octet-stream"
        };
        let length = body.len();
        // Without this header, the client may send its next request on a connection that ends.
        let end = if is_last { "Connection: close\r\n" } else { "" };
        write!(
            stream,
            "HTTP/1.1 {status}\r\n{more}{end}Content-Type: {kind}\r\nContent-Length: {length}\r\n\r\n"
        )?;
        stream.write_all(&body)?;
        if is_last {
            return Ok(());
        }
    }
}

fn one_file() -> FileServer {
    FileServer::start(HashMap::from([("/file".to_owned(), b"served\n".to_vec())]))
}

/// Starts a fixture whose commands ask about hosts by these rules.
fn asking_yard(policy: &str) -> HostileFixture {
    asking_yard_in(HostileFixture::lay_out(), policy, &[])
}

/// Starts it in this folder, for a user with these variables.
fn asking_yard_in(
    folder: Arc<TempDir>,
    policy: &str,
    variables: &[(String, String)],
) -> HostileFixture {
    let setup = HostileFixture::start_in(folder, NetworkAccess::Ask, variables, |rules| {
        let home = std::env::var_os("HOME").map(std::path::PathBuf::from);
        let tools = home
            .into_iter()
            .flat_map(|home| [".cargo", ".rustup", ".pyenv"].map(|folder| home.join(folder)));
        rules.read.extend(tools.filter(|folder| folder.is_dir()));
    });
    let home = open_home(&setup);
    std::fs::write(home.policy_file(), policy).expect("written");
    setup.confinement.network_proxy().set_gate(host_gate(&home));
    setup
}

fn open_home(setup: &HostileFixture) -> Home {
    Home::open_home(&setup.path("punie")).expect("the home")
}

fn host_gate(home: &Home) -> HostGate {
    let rules = ActiveRules::load_from_home(home, Vec::new(), Arc::new(|_: &str| true));
    let asker = HostAsker {
        people: PeopleAsker {
            questions: ApprovalQuestions::in_home(home),
            runner: RunnerPeople::default(),
        },
        mask: Arc::new(|text| text.replace("hunter2", "***")),
        patience: Arc::new(|| Duration::from_mins(2)),
    };
    // Names that end in `.test` lead to this machine, all others nowhere.
    let resolve = |name: String, port: u16| {
        let address = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
        let is_known = name.rsplit('.').next() == Some("test");
        let known = is_known.then(|| vec![address]);
        known.ok_or_else(|| std::io::ErrorKind::NotFound.into())
    };
    HostGate::new(Some(Arc::new(rules.expect("valid rules"))), Some(asker))
        .with_resolver(Arc::new(resolve))
}

/// A person who gives these answers in order. `questions` returns the answered questions.
struct AnsweringPerson {
    presence: ApproverPresence,
    answering: thread::JoinHandle<Vec<OpenQuestion>>,
}

impl AnsweringPerson {
    fn answering(setup: &HostileFixture, answers: &[ApprovalOption]) -> Self {
        let home = open_home(setup);
        let presence = ApproverPresence::announce(&home).expect("announced");
        let questions = ApprovalQuestions::in_home(&home);
        let answers = answers.to_vec();
        let answer_all = async move || {
            let mut answered: Vec<OpenQuestion> = Vec::new();
            for answer in answers {
                let is_new =
                    |question: &OpenQuestion| answered.iter().all(|known| known.id != question.id);
                let next = wait_for_some("a question", async || {
                    questions.open_questions().into_iter().find(is_new)
                });
                let next = next.await;
                questions
                    .answer_question(
                        &next,
                        &PersonReply::without_text(answer, AnswerPlace::Command),
                    )
                    .expect("answered");
                answered.push(next);
            }
            answered
        };
        let answering = thread::spawn(move || {
            let mut runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = runtime.enable_all().build().expect("a runtime");
            runtime.block_on(answer_all())
        });
        Self {
            presence,
            answering,
        }
    }

    async fn questions(self) -> Vec<OpenQuestion> {
        let joined = tokio::task::spawn_blocking(|| self.answering.join()).await;
        let answered = joined.expect("it runs").expect("all questions were asked");
        drop(self.presence);
        answered
    }
}

async fn in_conversation(setup: &HostileFixture, conversation: &str, command: &str) -> ToolReply {
    let cx = ToolContext {
        conversation: ConversationId::parse(conversation).expect("an id"),
        ..ToolContext::for_detached_call(RequestId::new())
    };
    let args = json!({"command": command});
    tools::call_with(&setup.registry, "Bash", args, cx)
        .await
        .expect(command)
}

#[tokio::test]
async fn an_allowed_host_is_reached_by_every_protocol_and_counted() {
    let setup = asking_yard(ALLOW);
    let server = one_file();
    let url = format!("http://packages.test:{}/file", server.port);
    for (name, options) in [
        ("http", ""),
        ("connect", "-p"),
        ("socks", "--proxy socks5h://${HTTP_PROXY#http://}"),
    ] {
        let args = json!({"command": format!("curl -sS {options} {url}")});
        let reply = setup.call(args).await.expect(name);
        assert_eq!(tools::reply_text(&reply), "served", "{name}");
        let [traffic] = reply.meta.network.as_slice() else {
            panic!("{name}: {:?}", reply.meta.network)
        };
        assert_eq!(traffic.host, format!("packages.test:{}", server.port));
        assert_eq!((traffic.connections, traffic.refused), (1, 0), "{name}");
        assert!(
            traffic.sent_bytes > 50 && traffic.received_bytes > 50,
            "{traffic:?}"
        );
    }
    assert!(
        server
            .heads
            .lock()
            .iter()
            .all(|head| !head.contains("Proxy-"))
    );
}

#[tokio::test]
async fn a_host_is_refused_at_once_with_the_reason_where_nobody_can_be_asked() {
    let server = one_file();
    let url = format!("http://packages.test:{}/file", server.port);
    let both = format!("curl -sS {url}; curl -sS -p {url}; echo ended");
    let text = asking_yard("").bash(&both).await;
    let command = format!(
        "punie-runner policy allow --host packages.test:{}",
        server.port
    );
    assert_eq!(
        text.matches(&command).count(),
        2,
        "the body and the hint must name the command: {text}"
    );
    assert_contains!(
        text,
        "no rule names this host",
        "nobody can be asked",
        "403",
        "ended"
    );
    // No allow rule overrides a rule that asks, so none is proposed.
    let text = asking_yard(ASK).bash(&both).await;
    assert_contains!(text, "nobody can be asked");
    assert_lacks!(text, "policy allow");
    let text = asking_yard(DENY).bash(&both).await;
    assert_contains!(text, "rule \"packages\" denies it (not today)");
    assert_eq!(server.requests(), 0);
}

#[tokio::test]
async fn an_answer_says_why_an_allowed_host_was_not_reached() {
    let setup = asking_yard(&ALLOW.replace(".test", ".nowhere"));
    let text = setup.bash("curl -sS -p http://packages.nowhere/").await;
    let last = text.lines().last().expect("a line");
    assert!(
        last.starts_with("packages.nowhere:80 was not reached: its name cannot be resolved"),
        "{text}"
    );
}

#[tokio::test]
async fn several_connections_of_a_call_are_one_question() {
    let setup = asking_yard(ASK);
    let server = one_file();
    let url = format!("http://packages.test:{}/file", server.port);
    let person = AnsweringPerson::answering(
        &setup,
        &[ApprovalOption::AllowOnce, ApprovalOption::RejectOnce],
    );
    let many = format!("for n in 1 2 3 4 5; do curl -sS {url}?hunter2 & done; wait");
    let text = setup.bash(&many).await;
    assert_eq!(text.matches("served").count(), 5, "{text}");
    let text = setup.bash(&many).await;
    assert_contains!(text, "refused by the person");
    assert_lacks!(text, "served");
    let asked = person.questions().await;
    let shown = format!(
        "packages.test:{}: Bash wants to reach this host. Its command: \"for n in 1 2",
        server.port
    );
    for question in &asked {
        assert_starts_with!(question.title, &shown);
        assert!(!format!("{question:?}").contains("hunter2"), "{question:?}");
    }
    assert_eq!(asked.len(), 2);
    assert_eq!(
        ApprovalQuestions::in_home(&open_home(&setup)).open_questions(),
        []
    );
}

#[tokio::test]
async fn an_answer_for_the_conversation_holds_in_it_only() {
    let setup = asking_yard(ASK);
    let server = one_file();
    let curl = format!("curl -sS http://packages.test:{}/file", server.port);
    let person = AnsweringPerson::answering(
        &setup,
        &[ApprovalOption::AllowAlways, ApprovalOption::RejectAlways],
    );
    let mut texts = Vec::new();
    for conversation in ["one", "one", "two", "two"] {
        let reply = in_conversation(&setup, conversation, &curl).await;
        texts.push(tools::reply_text(&reply).to_owned());
    }
    assert_eq!(person.questions().await.len(), 2);
    assert!(texts[..2].iter().all(|text| text == "served"), "{texts:?}");
    assert!(
        texts[2..].iter().all(|text| text.contains("refused")),
        "{texts:?}"
    );
}

/// The caller chooses request ids and conversation names, so the two may be equal.
#[tokio::test]
async fn an_answer_holds_for_no_call_that_names_or_is_named_like_its_scope() {
    use ApprovalOption::{AllowAlways, AllowOnce, RejectOnce};
    for (answer, first, others) in [
        // A call alone, and a call of a conversation with the same name.
        (AllowOnce, ("r1", None), ("r2", Some("r1"))),
        (AllowAlways, ("r1", None), ("r2", Some("r1"))),
        (AllowOnce, ("r1", Some("talk")), ("r2", Some("r1"))),
        // A conversation, and a call with the same name.
        (AllowAlways, ("r1", Some("talk")), ("talk", None)),
        (AllowAlways, ("r1", Some("talk")), ("talk", Some("other"))),
    ] {
        let setup = asking_yard(ASK);
        let server = one_file();
        let curl = format!("curl -sS http://packages.test:{}/file", server.port);
        let person = AnsweringPerson::answering(&setup, &[answer, RejectOnce]);
        let mut texts = Vec::new();
        for (request, conversation) in [first, others] {
            let alone = ToolContext::for_detached_call(RequestId::parse(request).expect("an id"));
            let named = conversation.map(|name| ConversationId::parse(name).expect("a name"));
            let cx = ToolContext {
                conversation: named.unwrap_or_else(|| alone.conversation.clone()),
                ..alone
            };
            let args = json!({ "command": curl });
            let reply = tools::call_with(&setup.registry, "Bash", args, cx).await;
            texts.push(tools::reply_text(&reply.expect("it ran")).to_owned());
        }
        let case = format!("{answer:?} {first:?} {others:?}: {texts:?}");
        assert!(
            texts[0] == "served" && texts[1].contains("refused"),
            "{case}"
        );
        assert_eq!(person.questions().await.len(), 2, "{case}");
    }
}

#[tokio::test]
async fn a_question_goes_when_the_command_that_waits_for_it_ends() {
    let setup = asking_yard(ASK);
    let server = one_file();
    let presence = ApproverPresence::announce(&open_home(&setup)).expect("announced");
    let command = format!(
        "timeout 1 curl -sS http://packages.test:{}/file",
        server.port
    );
    let text = setup.bash(&command).await;
    assert_contains!(text, "Exit code 124");
    let questions = ApprovalQuestions::in_home(&open_home(&setup));
    wait_until("no question", || questions.open_questions().is_empty()).await;
    drop(presence);
}

#[tokio::test]
async fn addresses_that_are_not_public_are_reached_by_a_rule_for_the_address_only() {
    let anything =
        "[[rule]]\nname = \"all\"\ndecision = \"allow\"\nhosts = [\"*\", \"packages.test\"]\n";
    let setup = asking_yard(anything);
    let server = one_file();
    let inner = FileServer::start_at(Ipv4Addr::new(127, 0, 0, 2), |_, _| Some(b"inner".to_vec()));
    let [port, inner_port] = [server.port, inner.port];
    for host in [
        format!("packages.test:{port}"),
        format!("127.0.0.2:{inner_port}"),
        format!("[::ffff:127.0.0.2]:{inner_port}"),
        format!("[::1]:{port}"),
        format!("0.0.0.0:{port}"),
        format!("0x7f000002:{inner_port}"),
        format!("2130706434:{inner_port}"),
        "10.0.0.1:80".to_owned(),
        "169.254.169.254:80".to_owned(),
        "[fe80::1]:80".to_owned(),
    ] {
        for options in ["", "-p", "--proxy socks5h://${HTTP_PROXY#http://}"] {
            let command = format!("curl -gsS --noproxy '' {options} 'http://{host}/file'");
            let text = setup.bash(&command).await;
            assert_contains!(text, "only by a rule that names the address"; "{command}");
        }
    }
    // Without the proxy, no host is reachable.
    let text = setup.bash(&format!("curl -sS --noproxy '*' http://127.0.0.2:{inner_port}/; echo x > /dev/tcp/127.0.0.2/{inner_port}; echo x > /dev/udp/127.0.0.53/53 && echo sent; getent hosts localhost.localdomain example.com")).await;
    assert_lacks!(text, "inner");
    assert_contains!(text, "Connection refused");
    assert_eq!((server.requests(), inner.requests()), (0, 0));
}

#[tokio::test]
async fn a_redirect_is_a_connection_like_any_other() {
    let setup = asking_yard(ALLOW);
    let inner = FileServer::start_at(Ipv4Addr::new(127, 0, 0, 2), |_, _| Some(b"inner".to_vec()));
    let to = format!("http://127.0.0.2:{}/", inner.port);
    let server = FileServer::start(HashMap::from([("/file".to_owned(), to.into_bytes())]));
    let text = setup
        .bash(&format!(
            "curl -sSL --noproxy '' http://packages.test:{}/file",
            server.port
        ))
        .await;
    assert_contains!(text, "an address of this machine");
    assert_lacks!(text, "inner");
    assert_eq!((server.requests(), inner.requests()), (1, 0));
}

#[tokio::test]
async fn the_proxy_connects_to_the_address_that_it_checked() {
    let setup = asking_yard("");
    let server = one_file();
    std::fs::write(
        open_home(&setup).policy_file(),
        ALLOW.replace("packages.test", "*.test"),
    )
    .expect("written");
    let asked: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
    let counted = Arc::clone(&asked);
    // A name server that returns another address each time, the allowed one first.
    let resolve = move |name: String, port: u16| {
        let mut asked = counted.lock();
        let times = asked.entry(name.clone()).or_default();
        *times += 1;
        let addresses: &[[u8; 4]] = match (name.as_str(), *times) {
            ("anew.test", 1) => &[[127, 0, 0, 1]],
            ("both.test", _) => &[[127, 0, 0, 1], [127, 0, 0, 2]],
            _ => &[[127, 0, 0, 2]],
        };
        let addresses = addresses
            .iter()
            .map(|address| SocketAddr::new(IpAddr::from(*address), port));
        Ok(addresses.collect())
    };
    let proxy = punie_host::network_proxy::NetworkProxy::default();
    proxy.set_gate(host_gate(&open_home(&setup)).with_resolver(Arc::new(resolve)));
    let client = bad_clients::ProxyClient::of(proxy);
    let answer = async |host: &str| {
        let url = format!("http://{host}:{}/file", server.port);
        client.get(&url).await
    };
    assert_ends_with!(answer("anew.test").await, "served\n");
    assert_eq!(asked.lock()["anew.test"], 1, "one lookup per connection");
    assert_contains!(answer("anew.test").await, "leads to 127.0.0.2");
    assert_contains!(answer("both.test").await, "leads to 127.0.0.2");
    assert_eq!(server.requests(), 1);
}

#[tokio::test]
async fn only_a_yes_gives_a_call_the_whole_network() {
    let setup = asking_yard("");
    let inner = FileServer::start_at(Ipv4Addr::new(127, 0, 0, 2), |_, _| Some(b"inner".to_vec()));
    let command = format!(
        "curl -sS http://127.0.0.2:{}/; echo proxy=$HTTP_PROXY",
        inner.port
    );
    // Without a gate before it, the tool gives the network that the call requests.
    let args =
        json!({"command": command, "network": true, "network_reason": "ssh to the build host"});
    let reply = setup.call(args.clone()).await.expect("it runs");
    assert_eq!(tools::reply_text(&reply), "innerproxy=");
    let decide = async |setup: &HostileFixture, args: &serde_json::Value| {
        let gate = PermissionGate::default().with_confinement(setup.confinement.clone());
        let entry = setup.registry.find("Bash").expect("it is there");
        let text = args.to_string();
        let ready = entry.decode_call(&text).expect("decoded");
        let cx = ToolContext::for_detached_call(RequestId::new());
        gate.permit_call(&cx, entry.tool_spec(), ready.as_gate_input(&text))
            .await
    };
    let GateDecision::NeedsApproval(asked) = decide(&setup, &args).await.expect("a question")
    else {
        panic!("a call for the whole network must be asked about");
    };
    assert_contains!(
        asked.why.expect("a reason"),
        "whole network of this machine, because: ssh to"
    );
    assert_eq!(asked.rule.as_deref(), Some("network"));
    let no_reason = json!({"command": "true", "network": true});
    let refused = decide(&setup, &no_reason).await.expect_err("no reason");
    assert_error!(refused, InvalidArgs);
    let plain = json!({"command": "true"});
    assert_eq!(
        decide(&setup, &plain).await.expect("allowed"),
        GateDecision::Allowed
    );
    for network in [NetworkAccess::None, NetworkAccess::Loopback] {
        let refused = decide(&HostileFixture::with_rules(network, |_| {}), &args)
            .await
            .expect_err("the owner said no");
        assert_error!(refused, PolicyDenied);
    }
    let full = HostileFixture::with_rules(NetworkAccess::Full, |_| {});
    assert_eq!(
        decide(&full, &args).await.expect("allowed"),
        GateDecision::Allowed
    );
}

/// Run it with `cargo test --test it -- --ignored --nocapture the_cost_of_a_command`.
#[tokio::test]
#[ignore = "a measurement"]
#[expect(clippy::print_stdout, reason = "its figures are its result")]
async fn only_by_name_the_cost_of_a_command_with_the_proxy_is_that_without() {
    let plain = HostileFixture::with_rules(NetworkAccess::Loopback, |_| {});
    let asking = asking_yard(ALLOW);
    let mut took = [Vec::new(), Vec::new()];
    // In turns, so that other load on the machine affects both.
    for _ in 0..400 {
        for (setup, took) in [&plain, &asking].into_iter().zip(&mut took) {
            let begun = std::time::Instant::now();
            setup.bash("true").await;
            took.push(begun.elapsed());
        }
    }
    let [plain, asking] = took.map(|mut times| {
        times.sort();
        times[times.len() / 2]
    });
    println!("without the proxy {plain:?}, with it {asking:?}");
}
