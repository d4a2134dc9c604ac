//! get_shell_info: what runs command lines here.

use super::*;

#[tokio::test]
async fn it_tells_shell_version_platform_folder_and_path() {
    let bench = Bench::new();
    let told = text(&bench, "get_shell_info", json!({})).await;
    let value = |name: &str| {
        let line = told
            .lines()
            .find_map(|line| line.strip_prefix(&format!("{name}: ")));
        line.unwrap_or_else(|| panic!("{name}: {told}")).to_owned()
    };
    assert_ends_with!(value("Shell"), "/bash");
    assert!(
        value("Version").starts_with(|c: char| c.is_ascii_digit()),
        "{told}"
    );
    assert_starts_with!(value("Platform"), "linux ("; "{told}");
    let workspace = bench
        .workspace
        .path()
        .canonicalize()
        .expect("its true name");
    assert_eq!(value("Working directory"), workspace.display().to_string());
    assert_eq!(value("PATH"), "/usr/local/bin:/usr/bin:/bin");
    assert_starts_with!(value("Login shell"), "/"; "{told}");
    let refused = call(&bench, "one", "get_shell_info", json!({"shell": "zsh"}))
        .await
        .expect_err("no arguments");
    assert_error!(refused, InvalidArgs);
}
