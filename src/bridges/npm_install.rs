//! npm, which installs the dependencies of a staged bridge: confined to the staging folder and the registry, without the
//! scripts of packages, and without any settings but the registry's address. Not here: the lock file's check (home).

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::time::{Instant, timeout_at};

use super::bridge_copy::proxied_loopback;
use punie_core::ids::RequestId;
use punie_home::StagedBridge;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::local::service_launch::{
    ServiceFolders, ServiceHosts, ServiceLaunch, WorkspaceAccess,
};
use punie_host::local::service_process::ServiceProcess;
use punie_host::network_proxy::NetworkCaller;
use punie_host::terminals::{ExitStatus, StopSequence, exit_phrase};
use punie_policy::HostPattern;

/// The longest time for all of it.
const TIMEOUT: Duration = Duration::from_mins(2);
/// The most of npm's messages that an error shows, in bytes.
const MAX_MESSAGE: usize = 4_000;

/// What npm is told beside the command. Its files of settings are ones that are not there; those of the owner and of a
/// bundle are not read.
const OPTIONS: &[&str] = &[
    "--ignore-scripts",
    "--omit=dev",
    "--no-audit",
    "--no-fund",
    "--no-update-notifier",
    "--loglevel=error",
    "--logs-max=0",
    "--install-links=false",
    "--omit-lockfile-registry-resolved",
    "--replace-registry-host=always",
];

/// The address of a registry.
#[derive(Debug, Clone)]
pub struct RegistryAddress {
    url: String,
    /// The host with its port.
    target: String,
    host: HostPattern,
}

/// Reads the address of a registry.
///
/// # Errors
/// It is not one, or has a name and a password in it, which npm would show. An error is a part of a sentence.
pub fn check_registry(url: &str) -> Result<RegistryAddress, String> {
    let wrong = || {
        "the registry of npm's settings is not http://HOST/ or https://HOST/, without a password"
            .to_owned()
    };
    let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
    let port = match scheme {
        "http" => 80,
        "https" => 443,
        _ => return Err(wrong()),
    };
    let host = rest.split('/').next().unwrap_or_default();
    if host.is_empty() || url.contains(['@', '?', '#', '*', ' ']) {
        return Err(wrong());
    }
    let has_port = host
        .rsplit_once(':')
        .is_some_and(|(_, port)| !port.ends_with(']'));
    let target = if has_port {
        host.to_owned()
    } else {
        format!("{host}:{port}")
    };
    Ok(RegistryAddress {
        url: url.to_owned(),
        host: HostPattern::new(&target).map_err(|_| wrong())?,
        target,
    })
}

/// Installs the dependencies of a staged bridge: writes a lock file unless it has one, checks that, and installs what it
/// names. Nothing of it runs.
///
/// # Errors
/// npm cannot be started, fails or takes too long, or a package does not come from the registry. An error is a part of
/// a sentence.
pub async fn install_dependencies(
    terminals: &LocalTerminals,
    staged: &StagedBridge,
    registry: &RegistryAddress,
) -> Result<(), String> {
    let until = Instant::now() + TIMEOUT;
    if !staged.has_lock() {
        run_npm(
            terminals,
            staged,
            (registry, until),
            &["install", "--package-lock-only"],
        )
        .await?;
    }
    staged.check_lock()?;
    run_npm(terminals, staged, (registry, until), &["ci"]).await
}

async fn run_npm(
    terminals: &LocalTerminals,
    staged: &StagedBridge,
    (registry, until): (&RegistryAddress, Instant),
    command: &[&str],
) -> Result<(), String> {
    let request = RequestId::new();
    let mut launch = launch_npm(staged, registry, command);
    launch.caller = Some(NetworkCaller {
        tool: "bridges".to_owned(),
        command: format!("npm {}", command.join(" ")),
        request: request.clone(),
        conversation: None,
    });
    let started = terminals.start_service(&launch, &request).await;
    let ServiceProcess {
        input,
        output,
        errors,
        running,
    } = started.map_err(|error| error.model_text().to_owned())?;
    drop(input);
    let network = running.first_call();
    let working = async {
        let messages = tokio::join!(read_messages(output), read_messages(errors));
        (running.wait_for_exit(None).await, messages)
    };
    let ended = timeout_at(until, working).await;
    let refused = network.failure_text();
    let stopping = tokio::task::spawn_blocking(move || {
        running.stop_processes(&StopSequence::kill_at_once());
    });
    stopping.await.map_err(|error| error.to_string())?;
    let Ok((status, (_, messages))) = ended else {
        return Err(format!(
            "npm {} took longer than {} s, and was ended",
            command[0],
            TIMEOUT.as_secs()
        ));
    };
    match status {
        Some(ExitStatus::Code(0)) => Ok(()),
        status => {
            let how = status
                .as_ref()
                .map_or_else(|| "an unknown end".to_owned(), exit_phrase);
            let refused = refused.map_or_else(String::new, |refused| format!("\n{refused}"));
            Err(format!(
                "npm {} failed ({how}):\n{}{refused}",
                command[0],
                messages.trim()
            ))
        }
    }
}

fn launch_npm(
    staged: &StagedBridge,
    registry: &RegistryAddress,
    command: &[&str],
) -> ServiceLaunch {
    let npm = staged.npm_dir();
    let own = [
        format!("--registry={}", registry.url),
        format!("--cache={}", npm.join("cache").display()),
        format!("--userconfig={}", npm.join("no-user-settings").display()),
        format!(
            "--globalconfig={}",
            npm.join("no-global-settings").display()
        ),
        format!("--prefix={}", staged.code_dir().display()),
    ];
    let words = command.iter().chain(OPTIONS);
    let home = npm.display().to_string();
    let mut env = vec![("HOME".to_owned(), home)];
    env.extend(proxied_loopback(std::slice::from_ref(&registry.target)));
    ServiceLaunch {
        name: "bridge.npm".to_owned(),
        program: "npm".to_owned(),
        args: words.map(|word| (*word).to_owned()).chain(own).collect(),
        folder: staged.code_dir(),
        workspaces: WorkspaceAccess::Hidden,
        own: Some(ServiceFolders {
            writes: staged.folder(),
            home: npm,
            programs: ["node", "npm"].map(str::to_owned).to_vec(),
        }),
        network: ServiceHosts::Declared(vec![registry.host.clone()]),
        env,
        caller: None,
    }
}

/// Reads messages to their end. Returns the end of them.
async fn read_messages(mut stream: impl AsyncRead + Unpin) -> String {
    let mut kept = Vec::new();
    let mut chunk = vec![0; 16 << 10];
    while let Ok(read) = stream.read(&mut chunk).await
        && read > 0
    {
        kept.extend_from_slice(&chunk[..read]);
        let surplus = kept.len().saturating_sub(MAX_MESSAGE);
        kept.drain(..surplus);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_registry_alone_is_named() {
        for (url, target) in [
            ("https://registry.npmjs.org/", "registry.npmjs.org:443"),
            ("http://127.0.0.1:4873", "127.0.0.1:4873"),
            ("http://[::1]/npm/", "[::1]:80"),
        ] {
            assert_eq!(check_registry(url).expect(url).target, target);
        }
        for bad in [
            "",
            "x",
            "file:///x",
            "https://",
            "https://me:pw@x.org/",
            "https://x.org/?a",
            "https://*/",
        ] {
            check_registry(bad).expect_err(bad);
        }
    }
}
