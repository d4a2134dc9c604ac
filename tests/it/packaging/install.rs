//! install.sh with a release on a loopback port: installations, and refusals that change nothing.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::release::{CUT_PATH, TARGET, TestRelease, VERSION};
use super::{run_command, run_well, script_path};
use crate::harness::program::make_program;

/// A script in place of the version that the user already has.
const OLD: &str = "#!/bin/sh\necho the old one\n";

/// A user with a home of their own.
struct InstallingUser {
    home: TempDir,
    /// Programs that come before the system's on PATH.
    programs: TempDir,
}

impl InstallingUser {
    fn new() -> Self {
        let make = || tempfile::tempdir().expect("a folder");
        let home = make();
        let programs = make();
        Self { home, programs }
    }

    fn program(&self) -> PathBuf {
        self.home.path().join(".local/bin/punie-runner")
    }

    fn put_old_program(&self) {
        let program = self.program();
        fs::create_dir_all(program.parent().expect("its folder")).expect("the folder");
        make_program(&program, OLD);
    }

    /// Puts a program before the system's on PATH.
    fn replace_program(&self, name: &str, text: &str) {
        make_program(&self.programs.path().join(name), text);
    }

    /// A command that runs install.sh with this shell.
    fn install(&self, shell: &str, release: &TestRelease) -> Command {
        let path = std::env::var("PATH").expect("a PATH");
        let mut command = Command::new(shell);
        command
            .arg(release.folder().join("install.sh"))
            .current_dir(self.home.path())
            .env_clear()
            .env("HOME", self.home.path())
            .env("PATH", format!("{}:{path}", self.programs.path().display()));
        command
    }

    /// The names of all files in the user's folder of programs.
    fn programs_there(&self) -> Vec<String> {
        let folder = self.home.path().join(".local/bin");
        let entries = fs::read_dir(folder).expect("the folder");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Checks that the command fails with this text and changes nothing.
    fn refuse(&self, command: &mut Command, part: &str) {
        let (succeeded, said) = run_command(command);
        assert!(!succeeded, "{part}: {said}");
        assert_contains!(said, part);
        assert_contains!(said, "Nothing was installed or changed.");
        let program = fs::read_to_string(self.program()).expect("the old program");
        assert_eq!(program, OLD, "{part}: the program was replaced");
        assert_eq!(self.programs_there(), ["punie-runner"], "{part}");
        assert!(!self.home.path().join(".local/share").exists(), "{part}");
    }
}

fn append_text(file: &Path, text: &str) {
    let mut file = fs::OpenOptions::new()
        .append(true)
        .open(file)
        .expect("the file");
    file.write_all(text.as_bytes()).expect("written");
}

#[test]
fn a_release_is_installed_and_replaces_the_one_before() {
    let release = TestRelease::new(VERSION, &[TARGET]);
    for shell in ["sh", "dash", "bash"] {
        if shell == "dash" && !Path::new("/bin/dash").exists() {
            continue;
        }
        let user = InstallingUser::new();
        user.put_old_program();
        for _ in 0..2 {
            let said = run_well(&mut user.install(shell, &release));
            assert_contains!(said, "is not on your PATH", "Next: punie-runner");
            let version = run_well(&mut Command::new(user.program()));
            assert_eq!(version, format!("punie-runner {VERSION}\n"));
            assert_eq!(user.programs_there(), ["punie-runner"]);
        }
        let share = user.home.path().join(".local/share");
        for file in [
            "man/man1/punie-runner.1",
            "man/man1/punie-runner-send.1",
            "bash-completion/completions/punie-runner",
            "fish/vendor_completions.d/punie-runner.fish",
            "zsh/site-functions/_punie-runner",
        ] {
            assert!(share.join(file).is_file(), "{shell}: {file}");
        }
    }
}

#[test]
fn another_folder_can_be_named() {
    let release = TestRelease::new(VERSION, &[TARGET]);
    let user = InstallingUser::new();
    let mut command = user.install("sh", &release);
    run_well(command.args(["--prefix", "a folder"]));
    let there = user.home.path().join("a folder");
    assert!(there.join("bin/punie-runner").is_file());
    assert!(there.join("share/man/man1/punie-runner.1").is_file());
    assert!(!user.home.path().join(".local").exists());
}

#[test]
fn files_that_were_changed_are_refused() {
    let user = InstallingUser::new();
    user.put_old_program();

    let release = TestRelease::new(VERSION, &[TARGET]);
    let install = || user.install("sh", &release);
    append_text(&release.archive(TARGET), "x");
    user.refuse(&mut install(), "the checksum of punie-runner-");

    // An attacker who changes an archive can change its checksum too, but cannot sign the checksums.
    release.write_checksums();
    user.refuse(&mut install(), "cannot download");
    let (other, _) = release.other_key();
    let (signed, said) = run_command(&mut release.sign_command(&other));
    assert!(!signed, "{said}");
    assert!(!release.folder().join("SHA256SUMS.sig").exists());

    release.seal();
    append_text(&release.folder().join("SHA256SUMS"), "x\n");
    user.refuse(&mut install(), "the signature of http://");

    release.seal();
    let (_, key) = release.other_key();
    let mut command = install();
    user.refuse(
        command.env("PUNIE_INSTALL_KEY", key),
        "the signature of http://",
    );

    fs::write(release.archive(TARGET), "no archive").expect("a file");
    release.seal();
    user.refuse(&mut install(), "cannot unpack");
}

#[test]
fn a_transfer_that_breaks_off_changes_nothing_and_the_next_run_installs() {
    let release = TestRelease::new(VERSION, &[TARGET]);
    let user = InstallingUser::new();
    user.put_old_program();

    let url = format!("{}{CUT_PATH}", release.url);
    let mut command = user.install("sh", &release);
    user.refuse(
        command.env("PUNIE_INSTALL_URL", &url),
        &format!("cannot download {url}/punie-runner-{VERSION}-{TARGET}.tar.gz"),
    );

    run_well(&mut user.install("sh", &release));
    assert_eq!(
        run_well(&mut Command::new(user.program())),
        format!("punie-runner {VERSION}\n")
    );
}

#[test]
fn a_program_that_does_not_run_or_is_another_replaces_nothing() {
    let user = InstallingUser::new();
    user.put_old_program();
    let release = TestRelease::new("0.0.1", &[TARGET]);
    user.refuse(
        &mut user.install("sh", &release),
        "it says punie-runner 0.0.1",
    );
    let release = TestRelease::new("x; exit 3", &[TARGET]);
    user.refuse(
        &mut user.install("sh", &release),
        "does not run on this machine",
    );
}

#[test]
fn a_machine_without_an_archive_is_told_so() {
    let user = InstallingUser::new();
    user.put_old_program();
    let glibc = TARGET.replace("musl", "gnu.2.28");
    let release = TestRelease::new(VERSION, &[&glibc]);
    let install = || user.install("sh", &release);

    user.replace_program("getconf", "#!/bin/sh\necho glibc 2.17\n");
    user.refuse(
        &mut install(),
        "needs glibc 2.28 or newer, and here is 2.17",
    );
    user.replace_program("getconf", "#!/bin/sh\nexit 1\n");
    user.refuse(&mut install(), "and here is another libc");
    user.replace_program("getconf", "#!/bin/sh\necho glibc 3.0\n");

    for (system, machine, part) in [
        ("Linux", "riscv64", "no archive for the processor riscv64"),
        ("FreeBSD", "amd64", "no archive for the system FreeBSD"),
        ("Darwin", "arm64", "has no archive for this machine"),
    ] {
        let text = format!("#!/bin/sh\n[ \"$1\" = -m ] && echo {machine} || echo {system}\n");
        user.replace_program("uname", &text);
        user.refuse(&mut install(), part);
    }
    fs::remove_file(user.programs.path().join("uname")).expect("the fake uname");
    run_well(&mut install());
}

#[test]
fn nothing_is_installed_without_a_network_a_folder_or_a_verifier() {
    let release = TestRelease::new(VERSION, &[TARGET]);
    let user = InstallingUser::new();
    user.put_old_program();
    let install = || user.install("sh", &release);

    let closed = "http://127.0.0.1:1";
    user.refuse(
        install().env("PUNIE_INSTALL_URL", closed),
        "cannot download http://127.0.0.1:1/SHA256SUMS",
    );
    let file = user.home.path().join("a file");
    fs::write(&file, "").expect("a file");
    user.refuse(install().arg("--prefix").arg(&file), "cannot write to");
    user.refuse(install().arg("--no-signature"), "must begin with https://");
    user.refuse(install().arg("--colour"), "unknown option: --colour");
    user.replace_program("openssl", "#!/bin/sh\necho no such option\n");
    user.replace_program("openssl3", "#!/bin/sh\necho no such option\n");
    user.refuse(&mut install(), "OpenSSL 3 is not installed");

    let mut unfilled = Command::new("sh");
    unfilled
        .arg(script_path("install.sh"))
        .env("HOME", user.home.path());
    user.refuse(&mut unfilled, "was not made by a release");
}
