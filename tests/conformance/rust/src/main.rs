//! The Rust client of Convex against a backend. Whoever starts this gives the backend in the environment, and does
//! what lines beginning with @ ask for.

use std::collections::BTreeMap;
use std::io::BufRead as _;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use convex::{ConvexClient, FunctionResult, QuerySubscription, Value};
use futures::StreamExt as _;
use serde_json::json;

type Args = BTreeMap<String, Value>;

struct Who(serde_json::Value);

impl Who {
    fn of(&self, name: &str) -> String {
        self.0[name].as_str().unwrap_or_default().to_owned()
    }

    fn caller(&self, more: &[(&str, Value)]) -> Args {
        args(&[("callerToken", self.of("callerToken").into())], more)
    }

    fn device(&self, more: &[(&str, Value)]) -> Args {
        args(&[("deviceId", self.of("deviceId").into()), ("token", self.of("deviceToken").into())], more)
    }

    fn append(&self, request: &str) -> Args {
        self.caller(&[
            ("requestId", request.into()),
            ("deviceId", self.of("deviceId").into()),
            ("toolName", "Read".into()),
            ("args", "{}".into()),
        ])
    }
}

fn args(first: &[(&str, Value)], more: &[(&str, Value)]) -> Args {
    first.iter().chain(more).map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

fn ask(line: &str) -> Result<serde_json::Value> {
    println!("@{line}");
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer)?;
    serde_json::from_str(&answer).with_context(|| format!("the answer to {line}: {answer:?}"))
}

/// An id that no earlier run has used.
fn fresh(name: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{name}-{}", now.as_nanos())
}

fn value(result: FunctionResult) -> Result<serde_json::Value> {
    match result {
        FunctionResult::Value(value) => Ok(value.export()),
        other => bail!("no value: {other:?}"),
    }
}

fn refused(result: FunctionResult, code: &str) -> Result<()> {
    match result {
        FunctionResult::ConvexError(error) if error.data.clone().export()["code"] == code => Ok(()),
        other => bail!("{code} was expected: {other:?}"),
    }
}

/// A mutation right after the server was gone. This client drops a call that finds the socket broken ("channel closed")
/// and sends it again all the same: whoever wants the answer calls once more, and must be able to.
async fn mutate_again(client: &mut ConvexClient, path: &str, args: Args) -> Result<serde_json::Value> {
    let first = client.mutation(path, args.clone()).await;
    match first {
        Err(dropped) if dropped.to_string() == "channel closed" => value(client.mutation(path, args).await?),
        answered => value(answered?),
    }
}

async fn until(
    subscription: &mut QuerySubscription,
    holds: impl Fn(&serde_json::Value) -> bool,
) -> Result<serde_json::Value> {
    while let Some(result) = subscription.next().await {
        let value = value(result)?;
        if holds(&value) {
            return Ok(value);
        }
    }
    bail!("the subscription has ended")
}

async fn finish(client: &mut ConvexClient, who: &Who, request: &str) -> Result<()> {
    let lease = [("requestId", Value::from(request)), ("leaseId", "lease".into())];
    value(client.mutation("events:claim", who.device(&lease)).await?)?;
    let piece = [&lease[..], &[("n", Value::Float64(0.0)), ("data", "half".into())]].concat();
    value(client.mutation("events:appendProgress", who.device(&piece)).await?)?;
    let payload = [&lease[..], &[("outcome", "ok".into()), ("payload", r#"{"result":"é"}"#.into())]].concat();
    let stored = value(client.mutation("events:appendResult", who.device(&payload)).await?)?;
    ensure!(stored["stored"] == true, "{stored}");
    Ok(())
}

async fn query_and_mutation(client: &mut ConvexClient, who: &Who) -> Result<()> {
    let listed = value(client.query("devices:list", who.caller(&[])).await?)?;
    ensure!(listed[0]["deviceId"] == who.0["deviceId"], "{listed}");
    let request = fresh("plain");
    let appended = value(client.mutation("events:appendRequest", who.append(&request)).await?)?;
    ensure!(appended == json!({ "requestId": request, "created": true }), "{appended}");
    let stranger = args(&[("callerToken", "x".into())], &[("requestId", request.as_str().into())]);
    refused(client.mutation("events:cancel", stranger.clone()).await?, "CALLER_UNAUTHORIZED")?;
    refused(client.query("events:getResult", stranger).await?, "CALLER_UNAUTHORIZED")?;
    for unknown in [
        client.query("events:nothing", Args::new()).await?,
        client.action("events:nothing", Args::new()).await?,
    ] {
        let FunctionResult::ErrorMessage(words) = unknown else { bail!("{unknown:?}") };
        ensure!(words.contains("Could not find public function"), "{words}");
    }
    Ok(())
}

async fn subscription(client: &mut ConvexClient, who: &Who) -> Result<()> {
    let request = fresh("live");
    let of_request = who.caller(&[("requestId", request.as_str().into())]);
    let mut result = client.subscribe("events:getResult", of_request.clone()).await?;
    let mut progress = client.subscribe("events:listProgress", of_request).await?;
    let mut head = client.subscribe("events:head", who.device(&[])).await?;
    until(&mut result, serde_json::Value::is_null).await?;
    let first = until(&mut head, serde_json::Value::is_string).await?;
    value(client.mutation("events:appendRequest", who.append(&request)).await?)?;
    until(&mut head, |newest| *newest != first).await?;
    finish(client, who, &request).await?;
    let told = until(&mut result, serde_json::Value::is_object).await?;
    ensure!(told["payload"] == r#"{"result":"é"}"#, "{told}");
    let told = until(&mut progress, |pieces| pieces[0].is_object()).await?;
    ensure!(told[0]["data"] == "half", "{told}");
    Ok(())
}

async fn lost_answer(client: &mut ConvexClient, who: &Who) -> Result<()> {
    let request = fresh("lost");
    let calls = ask("calls events:appendRequest")?.as_f64().context("a number")?;
    ask("drop events:appendRequest")?;
    // This client begins a new session with every socket: its second call is another one, which finds the first's work.
    let appended = value(client.mutation("events:appendRequest", who.append(&request)).await?)?;
    ensure!(appended["created"] == false, "{appended}");
    let after = ask("calls events:appendRequest")?.as_f64().context("a number")?;
    ensure!(after == calls + 2.0, "{calls} and then {after}");
    let open = value(client.query("events:listOpen", who.device(&[])).await?)?;
    let found =
        open.as_array().context("requests")?.iter().filter(|one| one["requestId"] == request.as_str());
    ensure!(found.count() == 1, "{open}");
    Ok(())
}

async fn restart(client: &mut ConvexClient, who: &Who) -> Result<()> {
    let request = fresh("restart");
    let of_request = who.caller(&[("requestId", request.as_str().into())]);
    let mut result = client.subscribe("events:getResult", of_request).await?;
    until(&mut result, serde_json::Value::is_null).await?;
    ask("restart")?;
    mutate_again(client, "events:appendRequest", who.append(&request)).await?;
    finish(client, who, &request).await?;
    until(&mut result, serde_json::Value::is_object).await?;
    Ok(())
}

async fn long_result(client: &mut ConvexClient, who: &Who) -> Result<()> {
    let body = "é\"".repeat(150_000);
    for page in 0..4 {
        let item = |n: u32| {
            Value::Object(args(
                &[("key", format!("{page}-{n}").into()), ("hash", "h".into())],
                &[("body", body.as_str().into())],
            ))
        };
        let upsert = who.device(&[
            ("kind", "tool".into()),
            ("revision", Value::Float64(f64::from(page))),
            ("complete", Value::Boolean(false)),
            ("items", Value::Array(vec![item(0), item(1), item(2)])),
        ]);
        value(client.mutation("catalog:upsertMany", upsert).await?)?;
    }
    let wanted = who.caller(&[("deviceId", who.of("deviceId").into()), ("kind", "tool".into())]);
    let long = value(client.query("catalog:list", wanted).await?)?;
    ensure!(long.as_array().context("items")?.iter().all(|item| item["body"] == body.as_str()));
    ensure!(long.as_array().map(Vec::len) == Some(12));
    Ok(())
}

async fn wiped(client: &mut ConvexClient) -> Result<()> {
    let who = Who(ask("wipe")?);
    let request = fresh("wiped");
    mutate_again(client, "events:appendRequest", who.append(&request)).await?;
    finish(client, &who, &request).await?;
    let told = value(
        client.query("events:getResult", who.caller(&[("requestId", request.as_str().into())])).await?,
    )?;
    ensure!(told["outcome"] == "ok", "{told}");
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = std::env::var("CONFORMANCE_URL")?;
    let who = Who(serde_json::from_str(&std::env::var("CONFORMANCE_WHO")?)?);
    let client = &mut ConvexClient::new(&url).await?;
    query_and_mutation(client, &who).await.context("query and mutation")?;
    client.set_admin_auth(who.of("adminKey"), None).await;
    subscription(client, &who).await.context("subscription")?;
    // The keys of a database go with it, and a client that shows a wrong one is refused.
    client.set_auth(None).await;
    lost_answer(client, &who).await.context("lost answer")?;
    restart(client, &who).await.context("restart")?;
    long_result(client, &who).await.context("long result")?;
    wiped(client).await.context("wiped database")?;
    println!("@passed 6");
    Ok(())
}
