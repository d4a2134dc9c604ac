//! The HTTP protocol: envelopes, statuses, headers and spellings, as official clients see them.

use reqwest::StatusCode;
use serde_json::{Value, json};

use super::server::TestBackend;

/// Posts a body and returns the status and the body of the answer.
async fn post_body(
    server: &TestBackend,
    path: &str,
    headers: &[(&str, &str)],
    body: impl Into<reqwest::Body>,
) -> (StatusCode, String) {
    let mut request = server
        .wire
        .http
        .post(format!("{}{path}", server.wire.url))
        .body(body);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let reply = request.send().await.expect("a reply");
    (reply.status(), reply.text().await.expect("a body"))
}

const JSON: (&str, &str) = ("content-type", "application/json");

fn parse_refusal(body: &str) -> (String, Value) {
    let refusal: Value = serde_json::from_str(body).expect("a refusal is JSON");
    assert!(refusal["message"].is_string(), "{refusal}");
    (
        refusal["code"].as_str().expect("a code").to_owned(),
        refusal,
    )
}

fn cancel_arguments(server: &TestBackend) -> Value {
    json!({ "callerToken": server.caller_token, "requestId": "none" })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn args_come_as_an_object_or_in_an_array() {
    let server = TestBackend::start().await;
    for args in [
        cancel_arguments(&server),
        json!([cancel_arguments(&server)]),
    ] {
        for format in [json!("json"), json!("convex_encoded_json"), Value::Null] {
            let body =
                json!({ "path": "events.js:cancel", "args": args, "format": format }).to_string();
            let (status, reply) = post_body(&server, "/api/mutation", &[JSON], body).await;
            assert_eq!(
                (status.as_u16(), reply.as_str()),
                (200, r#"{"status":"success","value":{"state":"unknown"}}"#)
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_may_name_the_function() {
    let server = TestBackend::start().await;
    let body = json!({ "args": cancel_arguments(&server) }).to_string();
    let (status, reply) = post_body(&server, "/api/run/events/cancel", &[JSON], body.clone()).await;
    assert_eq!(status, 200);
    assert_contains!(reply, "unknown");
    let (status, reply) = post_body(&server, "/api/run/events", &[JSON], body).await;
    assert_eq!(
        (status.as_u16(), parse_refusal(&reply).0.as_str()),
        (400, "BadConvexFunctionIdentifier")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn numbers_travel_as_floats() {
    let server = TestBackend::start().await;
    let device = server.pair("dev-1").await;
    server.caller().append("req-1", &device.id, "{}").await;
    for format in ["json", "convex_encoded_json"] {
        let args = json!({ "deviceId": device.id, "token": device.token, "requestId": "req-1", "leaseId": "l", "leaseMs": 30000 });
        let body = json!({ "path": "events:claim", "args": args, "format": format }).to_string();
        let (_, reply) = post_body(&server, "/api/mutation", &[JSON], body).await;
        assert_contains!(reply, r#""attempt":1.0"#, r#""expiresInMs":30000.0"#);
    }
    let args = json!({ "deviceId": device.id, "token": device.token });
    let body = json!({ "path": "events:listOpen", "args": args }).to_string();
    let (_, reply) = post_body(&server, "/api/query", &[JSON], body).await;
    assert_contains!(reply, r#""createdAtMs":1763000000000.0"#);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_no_call_is_a_status_with_a_code() {
    let server = TestBackend::start().await;
    let good = json!({ "path": "events:cancel", "args": cancel_arguments(&server) }).to_string();
    let bad_bodies = [
        "not json".to_owned(),
        "[]".to_owned(),
        json!({ "path": "events:cancel" }).to_string(),
        json!({ "path": "events:cancel", "args": null }).to_string(),
        json!({ "path": "events:cancel", "args": [] }).to_string(),
        json!({ "path": "events:cancel", "args": [{}, {}] }).to_string(),
        json!({ "args": {} }).to_string(),
        json!({ "path": 7, "args": {} }).to_string(),
    ];
    for body in bad_bodies {
        let (status, reply) = post_body(&server, "/api/mutation", &[JSON], body.clone()).await;
        assert_eq!(status.as_u16(), 400, "{body}");
        assert_eq!(parse_refusal(&reply).0.as_str(), "BadJsonBody", "{body}");
    }
    let (status, reply) = post_body(
        &server,
        "/api/mutation",
        &[("content-type", "text/plain")],
        good.clone(),
    )
    .await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "BadJsonBody");
    let (status, reply) = post_body(&server, "/api/mutation", &[], good.clone()).await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "BadJsonBody");
    let (status, _) = post_body(
        &server,
        "/api/mutation",
        &[("content-type", "application/x+json; charset=utf-8")],
        good,
    )
    .await;
    assert_eq!(status, 200);

    let odd =
        json!({ "path": "events:cancel", "args": cancel_arguments(&server), "format": "xml" })
            .to_string();
    let (status, reply) = post_body(&server, "/api/mutation", &[JSON], odd).await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "BadFormat");
    let odd = json!({ "path": "../events:cancel", "args": {} }).to_string();
    let (status, reply) = post_body(&server, "/api/mutation", &[JSON], odd).await;
    assert_eq!(
        (status.as_u16(), parse_refusal(&reply).0.as_str()),
        (400, "BadConvexFunctionIdentifier")
    );
    let (status, reply) = post_body(&server, "/api/nothing", &[JSON], "{}").await;
    assert_eq!(status.as_u16(), 404);
    assert_eq!(parse_refusal(&reply).0.as_str(), "NotFound");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_has_a_limit() {
    let server = TestBackend::start().await;
    let call = |filler: usize| {
        let args = json!({ "callerToken": "x".repeat(filler), "requestId": "none" });
        json!({ "path": "events:cancel", "args": args }).to_string()
    };
    let limit = 16 * 1024 * 1024 + 2000;
    let around = call(0).len();
    let (status, reply) = post_body(&server, "/api/mutation", &[JSON], call(limit - around)).await;
    assert_eq!(status, 200);
    assert_contains!(reply, "CALLER_UNAUTHORIZED");
    let (status, reply) =
        post_body(&server, "/api/mutation", &[JSON], call(limit - around + 1)).await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "BadJsonBody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_are_checked_before_the_function_runs() {
    let server = TestBackend::start().await;
    let body = json!({ "path": "events:cancel", "args": cancel_arguments(&server) }).to_string();
    let admin = format!("Convex {}", server.backend.admin_key());
    let acting = format!("{admin}:eyJzdWJqZWN0IjoieCJ9");
    let cases: [(&str, &str, u16, &str); 10] = cases! {
        ("convex-client", "punie-runner-0.1.0", 200, ""),
        ("convex-client", "punie", 400, "InvalidClientVersion"),
        ("authorization", "Convex some-admin-key", 401, "BadAdminKey"),
        ("authorization", &admin, 200, ""),
        ("authorization", &acting, 200, ""),
        ("authorization", "Convex", 400, "InvalidHeaderFailure"),
        ("authorization", "Bearer opaque-device-token", 401, "InvalidAuthHeader"),
        ("authorization", "Bearer e30.e30.e30", 401, "NoAuthProvider"),
        ("authorization", "Basic dXNlcjpwYXNz", 401, "InvalidAuthHeader"),
        ("convex-request-id", "anything", 200, ""),
    };
    for (name, value, status, code) in cases {
        let (got, reply) = post_body(
            &server,
            "/api/mutation",
            &[JSON, (name, value)],
            body.clone(),
        )
        .await;
        assert_eq!(got.as_u16(), status, "{name}: {value}: {reply}");
        if status != 200 {
            assert_eq!(parse_refusal(&reply).0, code, "{name}: {value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_that_it_is_there() {
    let server = TestBackend::start().await;
    assert_starts_with!(server.backend.listen_url(), "http://127.0.0.1:");
    for path in ["/", "/version", "/instance_name"] {
        let reply = server
            .wire
            .http
            .get(format!("{}{path}", server.wire.url))
            .send()
            .await
            .expect("a reply");
        assert_eq!(reply.status(), 200, "{path}");
        assert!(!reply.text().await.expect("a body").is_empty(), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_calls_any_function_and_nobody_else_does() {
    let server = TestBackend::start().await;
    let admin = format!("Convex {}", server.backend.admin_key());
    let call = |component: &str| {
        json!({ "path": "events:cancel", "args": [cancel_arguments(&server)], "componentPath": component })
            .to_string()
    };
    let (status, reply) = post_body(
        &server,
        "/api/function",
        &[JSON, ("authorization", &admin)],
        call(""),
    )
    .await;
    assert_eq!(status.as_u16(), 200, "{reply}");
    assert!(reply.contains("unknown"), "{reply}");
    let (status, reply) = post_body(&server, "/api/function", &[JSON], call("")).await;
    assert_eq!(status.as_u16(), 401);
    assert_eq!(parse_refusal(&reply).0.as_str(), "Unauthenticated");
    let (status, reply) = post_body(
        &server,
        "/api/function",
        &[JSON, ("authorization", &admin)],
        call("part"),
    )
    .await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "ComponentNotFound");

    let key = server.backend.admin_key().to_owned();
    let server = server.restart().await;
    assert_eq!(server.backend.admin_key(), key, "made once for a database");
    let other = TestBackend::start().await;
    assert_ne!(other.backend.admin_key(), key);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queries_of_one_snapshot_see_the_same() {
    let server = TestBackend::start().await;
    let (_, named) = post_body(&server, "/api/query_ts", &[], "").await;
    let named: Value = serde_json::from_str(&named).expect("JSON");
    server.pair("dev-1").await;
    let list = async |ts: &Value| {
        let args = json!({ "callerToken": server.caller_token });
        let body = json!({ "path": "devices:list", "args": [args], "ts": ts }).to_string();
        post_body(&server, "/api/query_at_ts", &[JSON], body).await
    };
    assert_eq!(
        list(&named["ts"]).await,
        (
            StatusCode::OK,
            r#"{"status":"success","value":[]}"#.to_owned()
        )
    );
    let (_, later) = post_body(&server, "/api/query_ts", &[], "").await;
    let later: Value = serde_json::from_str(&later).expect("JSON");
    assert_contains!(list(&later["ts"]).await.1, "dev-1");
    let (status, reply) = list(&json!("//////////8=")).await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "SnapshotTooOld");
    let (status, reply) = list(&json!("soon")).await;
    assert_eq!(status.as_u16(), 400);
    assert_eq!(parse_refusal(&reply).0.as_str(), "BadJsonBody");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_this_machine_may_read_answers_and_no_others() {
    let server = TestBackend::start().await;
    let body = json!({ "path": "events:cancel", "args": cancel_arguments(&server) }).to_string();
    let ask = async |method: reqwest::Method, headers: &[(&str, &str)]| {
        let url = format!("{}/api/mutation", server.wire.url);
        let mut request = server
            .wire
            .http
            .request(method, url)
            .header("content-type", "application/json");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(body.clone()).send().await.expect("a reply")
    };
    let page = ("origin", "http://localhost:5173");
    let reply = ask(reqwest::Method::POST, &[page]).await;
    assert_eq!(
        (
            reply.status().as_u16(),
            &reply.headers()["access-control-allow-origin"]
        ),
        (200, &page.1.parse().expect("a header"))
    );
    let asks = [
        page,
        ("access-control-request-method", "POST"),
        (
            "access-control-request-headers",
            "content-type,convex-client",
        ),
    ];
    let reply = ask(reqwest::Method::OPTIONS, &asks).await;
    assert_eq!(reply.status(), 204);
    assert_eq!(
        reply.headers()["access-control-allow-headers"],
        "content-type,convex-client"
    );
    assert_eq!(reply.headers()["access-control-allow-origin"], page.1);

    for method in [reqwest::Method::POST, reqwest::Method::OPTIONS] {
        for foreign in [
            ("origin", "http://example.com"),
            ("origin", "null"),
            ("host", "rebound.example.com"),
        ] {
            let reply = ask(method.clone(), &[foreign, asks[1], asks[2]]).await;
            assert!(matches!(reply.status().as_u16(), 403 | 421), "{foreign:?}");
            assert!(
                reply.headers().get("access-control-allow-origin").is_none(),
                "{foreign:?}"
            );
        }
    }
}
