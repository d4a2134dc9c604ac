//! check-glibc.sh, on files that the C compiler links against made-up versions of glibc.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{run_command, run_well, script_path};

/// Links a library that needs one function of each of these versions of glibc.
fn link_against(dir: &Path, versions: &[&str]) -> PathBuf {
    let mut definitions = String::new();
    let mut map = String::new();
    let mut calls = String::new();
    for (number, version) in versions.iter().enumerate() {
        let _ = writeln!(definitions, "int wanted_{number}(void) {{ return 0; }}");
        let _ = writeln!(map, "GLIBC_{version} {{ global: wanted_{number}; }};");
        let _ = writeln!(
            calls,
            "int wanted_{number}(void);\nint user_{number}(void) {{ return wanted_{number}(); }}"
        );
    }
    let libc = dir.join("libc.so.6");
    let file = dir.join("program.so");
    fs::write(dir.join("libc.c"), definitions).expect("a source");
    fs::write(dir.join("libc.map"), map).expect("the versions");
    fs::write(dir.join("program.c"), calls).expect("a source");
    let link = |from: &str, to: &Path, with: &[&str]| {
        let mut command = Command::new("cc");
        command
            .args(["-shared", "-fPIC", "-nostdlib", "-o"])
            .arg(to);
        run_well(command.arg(from).args(with).current_dir(dir));
    };
    let soname = ["-Wl,-soname,libc.so.6", "-Wl,--version-script=libc.map"];
    link("libc.c", &libc, &soname);
    link("program.c", &file, &["libc.so.6"]);
    file
}

fn check_program(file: &Path) -> (bool, String) {
    run_command(
        Command::new(script_path("release/check-glibc.sh"))
            .arg(file)
            .arg("2.28"),
    )
}

#[test]
fn a_file_that_needs_a_newer_glibc_is_found() {
    for (versions, fits, part) in [
        (&["2.2.5", "2.17"][..], true, "needs glibc 2.17"),
        (&["2.28", "2.9"], true, "needs glibc 2.28"),
        (&["2.17", "2.29"], false, "newer glibc than 2.28: 2.29"),
        (&["2.28.1"], false, "2.28.1"),
        (&["2.100", "3.0"], false, "2.100 3.0"),
        (&["2.17", "ABI_DT_RELR"], false, "ABI_DT_RELR"),
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let (accepted, said) = check_program(&link_against(dir.path(), versions));
        assert_eq!(accepted, fits, "{versions:?}: {said}");
        assert_contains!(said, part; "{versions:?}");
    }
}

#[test]
fn a_static_file_needs_no_glibc_and_a_text_is_no_program() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = dir.path().join("one.c");
    let object = dir.path().join("one.so");
    fs::write(&source, "int one(void) { return 1; }\n").expect("a source");
    let mut command = Command::new("cc");
    command
        .args(["-shared", "-fPIC", "-nostdlib", "-o"])
        .arg(&object);
    run_well(command.arg(&source));
    let (accepted, said) = check_program(&object);
    assert!(accepted && said.contains("needs no glibc"), "{said}");

    for missing in [&source, &dir.path().join("nothing")] {
        let (accepted, said) = check_program(missing);
        assert!(!accepted, "{said}");
    }
}

#[test]
fn the_debian_package_and_install_sh_ask_for_the_same_glibc() {
    let installer = fs::read_to_string(script_path("install.sh")).expect("the script");
    let mut lines = installer.lines();
    let least = lines.find_map(|line| line.strip_prefix("LEAST_GLIBC="));
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let manifest = fs::read_to_string(manifest).expect("the manifest");
    let wanted = format!("\ndepends = \"libc6 (>= {})\"\n", least.expect("its value"));
    assert!(manifest.contains(&wanted), "Cargo.toml has no {wanted}");
}
