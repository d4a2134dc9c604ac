//! Certificates that must not be trusted: the runner refuses them before it sends anything, and the error names the
//! reason.

use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use rustls::ServerConfig;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::harness::process::{EndedProgram, ProcessSetting, RunningProgram};
use crate::harness::stage::RunnerFixture;
use crate::harness::worker::WorkerProcess;

pub(crate) type Authority = CertifiedIssuer<'static, KeyPair>;

/// Creates a certificate authority of this name.
pub(crate) fn make_authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::<String>::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().expect("a key")).expect("signed")
}

/// Creates a certificate for this name, valid or expired, signed by this authority or by itself.
pub(crate) fn make_certificate(
    name: &str,
    expired: bool,
    by: Option<&Authority>,
) -> (CertificateDer<'static>, KeyPair) {
    let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
    params
        .distinguished_name
        .push(DnType::CommonName, "a server");
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = if expired {
        date_time_ymd(2021, 1, 1)
    } else {
        date_time_ymd(2100, 1, 1)
    };
    let key = KeyPair::generate().expect("a key");
    let signed = match by {
        Some(authority) => params.signed_by(&key, authority),
        None => params.self_signed(&key),
    };
    (signed.expect("signed").der().clone(), key)
}

/// Starts a TLS server with this certificate before a plain backend, and returns its address.
pub(crate) async fn start_tls_gate(
    upstream: &str,
    certificate: (CertificateDer<'static>, KeyPair),
) -> (String, JoinSet<()>) {
    // The first test to get here installs the provider. A second attempt changes nothing.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(certificate.1.serialize_der()));
    let config = ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.0], key);
    let acceptor = TlsAcceptor::from(Arc::new(config.expect("a usable certificate")));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("https://{}", listener.local_addr().expect("an address"));
    let upstream = upstream.trim_start_matches("http://").to_owned();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let mut open = JoinSet::new();
        while let Ok((socket, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            let upstream = upstream.clone();
            open.spawn(async move {
                // Most of these tests are about a refused handshake.
                let Ok(mut near) = acceptor.accept(socket).await else {
                    return;
                };
                let Ok(mut far) = TcpStream::connect(upstream).await else {
                    return;
                };
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (url, serving)
}

async fn run_once(setup: &RunnerFixture, url: &str, roots: &Path) -> EndedProgram {
    let setting = ProcessSetting {
        url: url.to_owned(),
        roots: Some(roots.to_owned()),
        ..setup.setting.clone()
    };
    RunningProgram::start(&setting, &["--once"]).end().await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f37_a_certificate_that_is_expired_self_signed_or_of_another_is_refused_by_name() {
    let setup = RunnerFixture::new().await;
    let ours = make_authority("ours");
    let roots = setup.setting.logs.join("roots.pem");
    std::fs::write(&roots, ours.pem()).expect("written");
    let id = setup.ask_bash("echo ran >> effects").await;
    for (what, bad, reason) in cases! {
        ("expired", make_certificate("127.0.0.1", true, Some(&ours)), "expired"),
        ("self-signed", make_certificate("127.0.0.1", false, None), "UnknownIssuer"),
        (
            "of another authority",
            make_certificate("127.0.0.1", false, Some(&make_authority("theirs"))),
            "UnknownIssuer",
        ),
        (
            "of another host",
            make_certificate("elsewhere.test", false, Some(&ours)),
            "elsewhere.test",
        ),
    } {
        let asked = setup.faults.calls("events:listForDevice");
        let (url, _serving) = start_tls_gate(&setup.setting.url, bad).await;
        let ended = run_once(&setup, &url, &roots).await;
        assert_eq!(ended.code, Some(69), "{what}: {ended:?}");
        assert_contains!(ended.log, "certificate", reason; "{what}");
        assert_eq!(
            setup.faults.calls("events:listForDevice"),
            asked,
            "{what}: something was said"
        );
    }
    let (url, _serving) = start_tls_gate(
        &setup.setting.url,
        make_certificate("127.0.0.1", false, Some(&ours)),
    )
    .await;
    let ended = run_once(&setup, &url, &roots).await;
    assert_eq!(
        ended.code,
        Some(0),
        "the test's own authority is trusted: {ended:?}"
    );
    assert_eq!(setup.answer(&id).await.outcome, "ok");
    assert_eq!(setup.read("effects"), "ran\n");
}

#[cfg(feature = "websocket")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_websocket_is_opened_through_tls_to_a_trusted_certificate_and_to_no_other() {
    let worker = WorkerProcess::new().await;
    let ours = make_authority("ours");
    let theirs = make_authority("theirs");
    let roots = worker.setting.logs.join("roots.pem");
    std::fs::write(&roots, ours.pem()).expect("written");
    let plain = worker
        .setting
        .url
        .replace("ws://", "http://")
        .replace("/device", "");
    let through = |url: &str| ProcessSetting {
        url: format!("{}/device", url.replace("https://", "wss://")),
        roots: Some(roots.clone()),
        ..worker.setting.clone()
    };
    let (url, _serving) =
        start_tls_gate(&plain, make_certificate("127.0.0.1", false, Some(&theirs))).await;
    let refused = RunningProgram::start(&through(&url), &["--once"])
        .end()
        .await;
    assert!(
        refused.code != Some(0) && refused.log.contains("certificate"),
        "{refused:?}"
    );
    let (url, _serving) =
        start_tls_gate(&plain, make_certificate("127.0.0.1", false, Some(&ours))).await;
    let _runner = RunningProgram::start(&through(&url), &["run"]);
    let mut line = worker.accept().await;
    line.done(
        "w",
        "write_file",
        &serde_json::json!({"path": "note", "content": "x"}),
    )
    .await;
    assert_eq!(worker.read("note"), "x");
}
