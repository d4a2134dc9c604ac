//! Credentials beside the programs of toolchains, in settings, caches and system folders: commands see the programs,
//! but no credentials. `manual-tests/planted_secrets.sh` tries more paths, and other ways to read them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::HostileFixture;

const CANARY: &str = "a-secret-beside-programs";

/// Files that only the owner may read, in toolchain folders and beside programs.
const SECRETS: &[&str] = &[
    ".local/share/uv/credentials/credentials.toml",
    ".local/share/uv/tools/ruff/uv-receipt.toml",
    ".local/share/uv/python/cpython-3.12/pip.conf",
    ".rye/credentials",
    ".rye/config.toml",
    ".opam/plugins/opam-publish/user.token",
    ".opam/repo/repos-config",
    ".opam/default/.opam-switch/sources/x/.git/config",
    ".dotnet/corefx/cryptography/x509stores/my/a.pfx",
    ".npm-global/etc/npmrc",
    ".npm-packages/etc/npmrc",
    ".nvm/versions/node/v20/etc/npmrc",
    ".nvm/.git/config",
    ".nodenv/versions/20/etc/npmrc",
    ".fnm/node-versions/v20/installation/etc/npmrc",
    ".volta/hooks.json",
    ".volta/tools/image/node/20/etc/npmrc",
    ".virtualenvs/web/pip.conf",
    ".virtualenvs/web/.env",
    ".virtualenvs/web/bin/postactivate",
    ".virtualenvs/web/src/x/.git/config",
    ".virtualenvs/postactivate",
    ".local/share/virtualenvs/web/pip.conf",
    ".pyenv/versions/3.12/pip.conf",
    ".pyenv/versions/3.12/etc/pip.conf",
    ".pyenv/.git/config",
    ".pyenv/plugins/own/.git/config",
    ".local/pipx/venvs/black/pip.conf",
    ".local/share/pipx/venvs/black/pipx_metadata.json",
    "miniconda3/.condarc",
    "miniconda3/conda-meta/state",
    "miniconda3/conda-meta/history",
    "miniconda3/envs/data/.condarc",
    "miniconda3/etc/conda/activate.d/env_vars.sh",
    "miniconda3/pkgs/urls.txt",
    "anaconda3/.condarc",
    "miniforge3/pip.conf",
    ".sdkman/candidates/maven/3.9/conf/settings.xml",
    ".sdkman/candidates/gradle/8/gradle.properties",
    ".sdkman/candidates/gradle/8/init.d/company.gradle",
    ".sdkman/candidates/java/17/conf/management/jmxremote.password",
    ".jdks/17/conf/management/jmxremote.password",
    ".m2/wrapper/dists/maven/1a2b/conf/settings.xml",
    ".rbenv/versions/3.3/etc/gemrc",
    ".rvm/user/db",
    ".gem/ruby/3.3.0/credentials",
    ".ghcup/config.yaml",
    ".elan/token",
    ".rustup/token",
    ".rustup/toolchains/stable/credentials",
    ".asdf/.git/config",
    ".asdf/installs/nodejs/20/etc/npmrc",
    ".asdf/plugins/nodejs/.git/config",
    ".local/share/mise/installs/node/20/etc/npmrc",
    ".local/share/mise/plugins/x/.git/config",
    ".swiftly/token",
    ".juliaup/token",
    ".linuxbrew/etc/service/password",
    ".linuxbrew/var/db/password",
    ".linuxbrew/Homebrew/Library/Taps/own/x/.git/config",
    ".goenv/.git/config",
    ".gvm/environments/default",
    "sdk/token",
    "sdk/android/keystore.jks",
    "tools/own/config/token",
    "tools/own/etc/npmrc",
    "bin/token",
    ".local/bin/deploy.key",
    "go/bin/netrc",
    ".ivy2/local/.credentials",
    ".gradle/wrapper/dists/gradle-8-bin/1a2b/gradle-8/gradle.properties",
    ".gradle/wrapper/dists/gradle-8-bin/1a2b/gradle-8/init.d/company.gradle",
    ".cache/pip/http/1/2/answer",
    ".cargo/credentials.toml",
];

/// Settings with a credential, which commands see without it.
const SETTINGS: &[(&str, &str)] = &cases! {
    (
        ".gitconfig",
        "[user]\n\tname = A Person\n[sendemail]\n\tsmtpPass = {}\n[alias]\n\tx = \"!curl -H {}\"\n[gitlab]\n\tprivate = {}\n",
    ),
    (".config/git/config", "[core]\n\taskPass = echo {}\n"),
    (".cargo/config.toml", "[build]\njobs = 7\n[registry]\ntoken = \"{}\"\n[env]\nAPI = \"{}\"\n"),
    (".cargo/env", "export PATH=x\nexport API={}\n"),
    (".config/mise/config.toml", "[tools]\nnode = \"20\"\n[env]\nAPI = \"{}\"\n"),
    (".cargo/git/db/one/config", "[remote \"origin\"]\n\turl = https://x:{}@example.com/a\n"),
    ("go/pkg/mod/cache/vcs/one/config", "[remote \"origin\"]\n\turl = https://{}@example.com/a\n"),
};

/// Files that commands need, although their names or modes look like those of secrets.
const NEEDED: &[(&str, u32)] = &cases! {
    (".pyenv/versions/3.12/lib/python3.12/token.py", 0o600),
    (".pyenv/versions/3.12/lib/python3.12/site-packages/certifi/cacert.pem", 0o600),
    (".pyenv/versions/3.12/openssl/ssl/cert.pem", 0o600),
    (".pyenv/shims/python", 0o700),
    (".nvm/versions/node/v20/lib/node_modules/js-tokens/index.js", 0o600),
    (".nvm/alias/default", 0o600),
    (".rustup/settings.toml", 0o600),
    (".rustup/toolchains/stable/lib/rustlib/components", 0o600),
    (".opam/default/lib/findlib.conf", 0o600),
    (".opam/default/.opam-switch/environment", 0o600),
    ("miniconda3/ssl/cacert.pem", 0o600),
    (".sdkman/bin/sdkman-init.sh", 0o600),
    (".sdkman/candidates/java/17/lib/security/cacerts", 0o600),
    (".sdkman/candidates/java/17/conf/security/java.security", 0o600),
    (".local/share/uv/python/cpython-3.12/lib/libpython3.12.so", 0o600),
    (".local/share/pipx/venvs/black/pyvenv.cfg", 0o600),
    (".volta/tools/user/platform.json", 0o600),
    (".dotnet/sdk/8/dotnet.dll", 0o600),
    ("tools/own/lib/x", 0o600),
    ("bin/program", 0o700),
    ("bin/module.py", 0o644),
    (".ivy2/local/own/ivy.xml", 0o600),
};

fn write_file(path: &Path, text: &str, mode: u32) {
    fs::create_dir_all(path.parent().expect("a parent folder")).expect("made");
    fs::write(path, text).expect("written");
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("set");
}

/// Starts a fixture whose PATH has a folder with the user's own programs.
fn furnished_yard() -> HostileFixture {
    let folder = HostileFixture::lay_out();
    let user = folder.path().canonicalize().expect("real").join("user");
    for path in SECRETS {
        write_file(&user.join(path), CANARY, 0o600);
    }
    for (path, text) in SETTINGS {
        write_file(&user.join(path), &text.replace("{}", CANARY), 0o600);
    }
    for (path, mode) in NEEDED {
        write_file(&user.join(path), &format!("needed {path}\n"), *mode);
    }
    write_file(
        &user.join("tools/own/bin/program"),
        "#!/bin/sh\necho of own tools\n",
        0o755,
    );
    let programs = user.join("tools/own/bin");
    HostileFixture::start_in(
        folder,
        punie_sandbox::NetworkAccess::Loopback,
        &[],
        |rules| {
            rules.search_path.push(programs);
        },
    )
}

#[tokio::test]
async fn no_credential_beside_a_toolchain_is_read_and_what_the_toolchain_needs_is() {
    let setup = furnished_yard();
    let paths = SECRETS.iter().chain(SETTINGS.iter().map(|(path, _)| path));
    let list: Vec<&str> = paths.copied().collect();
    fs::write(setup.path("work/list"), list.join("\n") + "\n").expect("written");
    let text = setup
        .bash(
            "cd; while read -r path; do cat \"$path\"; cp \"$path\" /tmp/copy && cat /tmp/copy; done < \"$OUT/work/list\" 2>/dev/null
             grep -rs a-secret-beside . /proc/self/root/tmp; git config --list; tar -cf - . 2>/dev/null | grep -a a-secret; echo end",
        )
        .await;
    assert!(!text.contains(CANARY) && text.ends_with("end"), "{text}");
    assert_contains!(
        text,
        "user.name=A Person",
        "jobs = 7",
        "node = \"20\"",
        "url = https://example.com/a"
    );
    let needed: Vec<&str> = NEEDED.iter().map(|(path, _)| *path).collect();
    fs::write(setup.path("work/needed"), needed.join("\n") + "\n").expect("written");
    let text = setup
        .bash("cd; while read -r path; do cat \"$path\" >/dev/null || echo \"no $path\"; done < \"$OUT/work/needed\" 2>&1; tools/own/bin/program")
        .await;
    assert_eq!(text, "of own tools");
    for path in SECRETS {
        assert_eq!(setup.read(&format!("user/{path}")), CANARY, "{path}");
    }
}

#[tokio::test]
async fn settings_are_read_anew_for_each_command_and_no_copy_of_them_stays() {
    let setup = HostileFixture::new();
    let user = setup.path("user");
    let settings = user.join(".cargo/config.toml");
    write_file(
        &settings,
        "[build]\njobs = 1\n[registry]\ntoken = \"a-secret-beside-programs\"\n",
        0o600,
    );
    write_file(&user.join(".gitconfig"), "[user]\n\tname = First\n", 0o600);
    let read = "cat ~/.cargo/config.toml; git config user.name";
    assert_eq!(
        setup.bash(read).await,
        "[build]\njobs = 1\n\n[registry]\nFirst"
    );
    // In place, as an editor may write it.
    fs::write(user.join(".gitconfig"), "[user]\n\tname = Second\n").expect("written");
    fs::remove_file(&settings).expect("removed");
    assert_eq!(setup.bash(read).await, "Second");
    let text = setup
        .bash("echo x > ~/.cargo/config.toml; ln -sf /etc/passwd ~/.cargo/config.toml; echo x >> ~/.gitconfig; cat ~/.cargo/config.toml; echo end")
        .await;
    assert_lacks!(text, "root:"; "a command must not write settings");
    assert_contains!(text, "end"; "a command must not write settings");
    let kept = Command::new("grep")
        .args(["-rl", CANARY])
        .arg(setup.path("punie"))
        .output()
        .expect("grep");
    assert!(kept.stdout.is_empty(), "{kept:?}");
}

#[tokio::test]
async fn no_command_writes_settings_that_a_tool_of_the_next_one_runs() {
    let setup = HostileFixture::new();
    let earlier = setup.path("punie/commands/home/.gradle/init.d/x.gradle");
    write_file(&earlier, "of an earlier command", 0o600);
    let text = setup
        .bash(
            "cd; for file in .gradle/init.gradle .gradle/init.gradle.kts .gradle/init.d/x.gradle .gradle/gradle.properties \
             .m2/settings.xml .julia/config/startup.jl .cargo/config.toml .cargo/config; do
             (echo x > $file) 2>/dev/null && echo wrote $file; rm -rf $file 2>/dev/null; cat $file; done 2>/dev/null
             mkdir -p .gradle/caches/own .m2/repository/own && echo caches are writable",
        )
        .await;
    assert_eq!(text, "<settings/>\ncaches are writable");
}

#[tokio::test]
async fn the_owners_own_files_in_the_system_are_not_read() {
    let own = format!("punie-{}", uuid::Uuid::new_v4().simple());
    let tops = [
        "/etc",
        "/opt",
        "/usr/local",
        "/srv",
        "/var/lib",
        "/var/cache",
    ];
    let made: Vec<PathBuf> = tops
        .iter()
        .map(|top| Path::new(top).join(&own))
        // An ordinary user cannot create folders in the system's folders.
        .filter(|folder| fs::create_dir_all(folder.join("deep")).is_ok())
        .collect();
    for folder in &made {
        for name in ["secret", "deep/secret"] {
            write_file(&folder.join(name), CANARY, 0o600);
        }
        write_file(&folder.join("open"), "for all", 0o644);
    }
    let setup = HostileFixture::new();
    let list: Vec<String> = made
        .iter()
        .map(|folder| folder.display().to_string())
        .collect();
    fs::write(setup.path("work/list"), list.join("\n") + "\n").expect("written");
    let text = setup
        .bash("while read -r f; do cat $f/secret $f/deep/secret; grep -rs a-secret $f; done < list 2>/dev/null; echo end; cat /etc/punie-*/open 2>/dev/null")
        .await;
    for folder in &made {
        let _ = fs::remove_dir_all(folder);
    }
    assert!(!text.contains(CANARY) && text.contains("end"), "{text}");
    let has_etc = made.iter().any(|folder| folder.starts_with("/etc"));
    assert_eq!(text.contains("for all"), has_etc, "{text}");
}
