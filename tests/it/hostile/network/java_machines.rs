//! Java programs: they read no proxy address from a variable, and send the proxy no user name. Skipped if Java or Maven
//! is not installed, unless `PUNIE_REQUIRE_JAVA=1`.

use std::net::Ipv4Addr;
use std::process::Command;

use punie_core::approval_answer::ApprovalOption;
use serde_json::json;

use super::super::HostileFixture;
use super::{ALLOW, ASK, AnsweringPerson, DENY, FileServer, asking_yard, asking_yard_in, one_file};
use crate::faults::tls::{make_authority, make_certificate, start_tls_gate};
use crate::harness::left_out::can_be_tried_with;
use crate::harness::tools;

const PROGRAM: &str = r#"
import java.net.URI;
import java.net.http.*;

public class Reach {
    public static void main(String[] words) throws Exception {
        URI uri = URI.create(words[1]);
        if (words[0].equals("connection")) {
            System.out.write(uri.toURL().openConnection().getInputStream().readAllBytes());
            System.out.flush();
        } else {
            HttpRequest request = HttpRequest.newBuilder(uri).build();
            var answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
            System.out.print(answer.body());
        }
    }
}
"#;

/// A Maven project whose parent lies in the repository.
const PROJECT: &str = "<project><modelVersion>4.0.0</modelVersion><parent><groupId>demo</groupId><artifactId>parent\
                       </artifactId><version>1.0</version></parent><artifactId>own</artifactId><packaging>pom</packaging>\
                       </project>";
const PARENT: &str = "<project><modelVersion>4.0.0</modelVersion><groupId>demo</groupId><artifactId>parent</artifactId>\
                      <version>1.0</version><packaging>pom</packaging></project>";

/// Returns true if these programs are installed, and reports the first that is missing.
fn are_installed(programs: &[&str]) -> bool {
    let is_missing = |name: &&&str| Command::new(name).arg("--version").output().is_err();
    let missing = programs.iter().find(is_missing);
    let why = missing.map(|name| format!("{name} is not installed"));
    can_be_tried_with("PUNIE_REQUIRE_JAVA", "a Java machine", why.as_deref())
}

fn maven_repository() -> FileServer {
    FileServer::start_at(Ipv4Addr::LOCALHOST, |path, _| {
        (path == "/maven2/demo/parent/1.0/parent-1.0.pom").then(|| PARENT.into())
    })
}

/// Writes the project, and returns the command that builds it from a repository at this port.
fn lay_out_project(setup: &HostileFixture, port: u16) -> &'static str {
    // Maven reads a repository over plain HTTP only if its settings name it.
    let settings = format!(
        "<settings><mirrors><mirror><id>own</id><mirrorOf>*</mirrorOf><url>http://packages.test:{port}/maven2</url>\
         </mirror></mirrors></settings>"
    );
    std::fs::write(setup.path("work/settings.xml"), settings).expect("written");
    std::fs::write(setup.path("work/pom.xml"), PROJECT).expect("written");
    "rm -rf local; mvn -B -s settings.xml -Dmaven.repo.local=$PWD/local validate 2>&1"
}

#[tokio::test]
async fn a_java_program_reaches_an_allowed_host_and_its_call_is_known() {
    if !are_installed(&["java"]) {
        return;
    }
    let company = make_authority("A company");
    let server = one_file();
    let upstream = format!("http://127.0.0.1:{}", server.port);
    let own = make_certificate("packages.test", false, Some(&company));
    let (address, _serving) = start_tls_gate(&upstream, own).await;
    let folder = HostileFixture::lay_out();
    let file = folder
        .path()
        .canonicalize()
        .expect("real")
        .join("user/company.pem");
    std::fs::write(&file, company.pem()).expect("written");
    let named = ("REQUESTS_CA_BUNDLE".to_owned(), file.display().to_string());
    let setup = asking_yard_in(folder, ALLOW, &[named]);
    std::fs::write(setup.path("work/Reach.java"), PROGRAM).expect("written");
    for way in ["connection", "client"] {
        for url in [
            format!("http://packages.test:{}", server.port),
            address.replace("127.0.0.1", "packages.test"),
        ] {
            let command = format!("java Reach.java {way} {url}/file");
            let reply = setup.call(json!({"command": command})).await.expect(way);
            let text = tools::reply_text(&reply);
            assert_contains!(text, "served"; "{command}");
            let host = url.split_once("://").expect("an address").1;
            let hosts: Vec<&str> = reply
                .meta
                .network
                .iter()
                .map(|of| of.host.as_str())
                .collect();
            assert_eq!(hosts, [host], "{command}");
        }
    }
    let own = "java -Djavax.net.ssl.trustStore= Reach.java client";
    let command = format!(
        "{own} {}/file 2>&1",
        address.replace("127.0.0.1", "packages.test")
    );
    let text = setup.bash(&command).await;
    assert_contains!(text, "PKIX"; "the program's own option must win");
}

#[tokio::test]
async fn maven_asks_like_any_other_program() {
    if !are_installed(&["mvn"]) {
        return;
    }
    let repository = maven_repository();
    for (policy, answers, expected) in [
        (ALLOW, &[][..], "BUILD SUCCESS"),
        (ASK, &[ApprovalOption::AllowOnce], "BUILD SUCCESS"),
        (ASK, &[ApprovalOption::RejectOnce], "refused by the person"),
        (DENY, &[], "not today"),
    ] {
        let setup = asking_yard(policy);
        let command = lay_out_project(&setup, repository.port);
        let person = (!answers.is_empty()).then(|| AnsweringPerson::answering(&setup, answers));
        let text = setup.bash(command).await;
        assert_contains!(text, expected; "{policy}");
        if let Some(person) = person {
            assert_eq!(person.questions().await.len(), 1);
        }
    }
}

/// Uses curl without a user name for the proxy, so it needs no Java.
#[tokio::test]
async fn a_connection_without_a_name_belongs_to_the_process_that_made_it() {
    let setup = asking_yard(ALLOW);
    let server = one_file();
    let curl = format!(
        "curl -sS --proxy http://127.0.0.1:13128 http://packages.test:{}/file",
        server.port
    );
    let reply = setup.call(json!({"command": curl})).await.expect("it runs");
    assert_eq!(tools::reply_text(&reply), "served");
    assert_eq!(reply.meta.network.len(), 1, "{:?}", reply.meta.network);
    let unclear = "It is not clear to which call the connection belongs";
    // A process without a call's name, and one that shares its connection with a process of another name.
    let text = setup.bash(&format!("env -i {curl}")).await;
    assert_contains!(text, unclear);
    let shared = format!(
        "exec 3<>/dev/tcp/127.0.0.1/13128; \
         HTTP_PROXY=http://other:x@127.0.0.1:13128 bash -c 'touch ready; until [ -e over ]; do sleep 0.02; done' & \
         until [ -e ready ]; do :; done; \
         printf 'GET http://packages.test:{}/file HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3; touch over; wait",
        server.port
    );
    let text = setup.bash(&shared).await;
    assert_contains!(text, unclear);
    assert_eq!(server.requests(), 1);
}
