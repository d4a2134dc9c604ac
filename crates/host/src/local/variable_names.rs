//! The names of variables that commands get from the user, those that they never get, and those that the runner sets.

use punie_core::variable_name::is_variable_name;

/// Names that commands get from the user's own environment.
const PASSED_NAMES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    // Locations of toolchains and their caches.
    "ANDROID_HOME",
    "ANDROID_SDK_ROOT",
    "ASDF_DATA_DIR",
    "ASDF_DIR",
    "BUN_INSTALL",
    "CARGO_HOME",
    "COMPOSER_HOME",
    "CONDA_DEFAULT_ENV",
    "CONDA_PREFIX",
    "CPATH",
    "DENO_INSTALL",
    "DOTNET_ROOT",
    "FLUTTER_ROOT",
    "FNM_DIR",
    "FNM_MULTISHELL_PATH",
    "GEM_HOME",
    "GEM_PATH",
    "GOBIN",
    "GOPATH",
    "GOROOT",
    "GRADLE_HOME",
    "GRADLE_USER_HOME",
    "HOMEBREW_CELLAR",
    "HOMEBREW_PREFIX",
    "HOMEBREW_REPOSITORY",
    "JAVA_HOME",
    "LIBRARY_PATH",
    "M2_HOME",
    "MANPATH",
    "MAVEN_HOME",
    "MISE_DATA_DIR",
    "NIX_PATH",
    "NIX_PROFILES",
    "NVM_BIN",
    "NVM_DIR",
    "PKG_CONFIG_PATH",
    "PNPM_HOME",
    "PYENV_ROOT",
    "RBENV_ROOT",
    "RUSTUP_HOME",
    "RUSTUP_TOOLCHAIN",
    "SDKMAN_DIR",
    "VIRTUAL_ENV",
    "VOLTA_HOME",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    // Programs take the system's certificate authorities in place of their own.
    "DENO_TLS_CA_STORE",
    "NODE_USE_SYSTEM_CA",
    "UV_NATIVE_TLS",
    "UV_SYSTEM_CERTS",
];

/// The words of a name, between its underscores, that say that it leads to certificate authorities: `GIT_SSL_CAINFO`.
const AUTHORITY_WORDS: &[&str] = &["CA", "CAFILE", "CAINFO", "CAPATH", "CACERT", "CACERTS"];
/// The names without such a word that lead there, too.
const AUTHORITY_NAMES: &[&str] = &[
    "DENO_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "NIX_SSL_CERT_FILE",
    "PGSSLROOTCERT",
    "PIP_CERT",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "SYSTEM_CERTIFICATE_PATH",
];

/// Variables by which an application finds the screen and the desktop session. Commands do not get these.
#[cfg(unix)]
pub(super) const DESKTOP_NAMES: &[&str] = &[
    "DBUS_SESSION_BUS_ADDRESS",
    "DESKTOP_SESSION",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XAUTHORITY",
    "XDG_CURRENT_DESKTOP",
    "XDG_DATA_DIRS",
    "XDG_RUNTIME_DIR",
    "XDG_SESSION_TYPE",
];

/// Variables set after all others: no program waits for a person, and output is plain.
pub(super) const RUNNER_SETTINGS: &[(&str, &str)] = &[
    ("PAGER", "cat"),
    ("GIT_PAGER", "cat"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("NO_COLOR", "1"),
    ("TERM", "dumb"),
    ("PUNIE_RUNNER", "1"),
];

/// Returns whether every command gets this entry anyway.
pub fn is_runner_setting(name: &str, value: &str) -> bool {
    RUNNER_SETTINGS.contains(&(name, value))
}

/// Variables that make a program, a shell or an interpreter load or run other code.
const LOADER_NAMES: &[&str] = &[
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "IFS",
    "PS4",
    "PROMPT_COMMAND",
    "NODE_OPTIONS",
    "PYTHONSTARTUP",
    "PERL5OPT",
    "PERL5LIB",
    "RUBYOPT",
    "JAVA_TOOL_OPTIONS",
    "SSH_AUTH_SOCK",
    "DOCKER_HOST",
];
const LOADER_PREFIXES: &[&str] = &["LD_", "DYLD_", "BASH_FUNC_", "GIT_", "DBUS_", "PUNIE_"];
pub(super) const SECRET_WORDS: &[&str] = &["KEY", "TOKEN", "SECRET", "PASS"];

/// Returns whether a variable of the user's environment names files or folders of certificate authorities. Commands get
/// these, also the ones of git, whose other variables are refused.
pub fn names_authorities(name: &str, value: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let has_word = || upper.split('_').any(|word| AUTHORITY_WORDS.contains(&word));
    let own_name = upper.strip_prefix("GIT_").unwrap_or(&upper);
    (AUTHORITY_NAMES.contains(&upper.as_str()) || has_word())
        && is_variable_name(name)
        && refusal_reason(own_name).is_none()
        && std::env::split_paths(value).all(|path| path.is_absolute())
}

/// Returns two bash patterns: the names that are never passed on, and those of them that are all the same. Match them
/// without regard to case.
pub fn refused_name_patterns() -> (String, String) {
    let names = LOADER_NAMES.iter().map(|name| (*name).to_owned());
    let prefixes = LOADER_PREFIXES.iter().map(|prefix| format!("{prefix}*"));
    let words = SECRET_WORDS.iter().map(|word| format!("*{word}*"));
    let refused: Vec<String> = names.chain(prefixes).chain(words).collect();
    let ours = RUNNER_SETTINGS.iter().map(|(name, _)| (*name).to_owned());
    let of_git = AUTHORITY_WORDS.iter().map(|word| format!("GIT_*_{word}"));
    let passed: Vec<String> = ours.chain(of_git).collect();
    (refused.join("|"), passed.join("|"))
}

pub(super) fn is_passed_on(name: &str) -> bool {
    PASSED_NAMES.contains(&name) || name.starts_with("LC_")
}

/// Returns whether a secret may be given to a program in this variable: programs get it for nothing else, and it does not
/// change which code they load.
pub fn can_hold_secret(name: &str) -> bool {
    let is_ours = RUNNER_SETTINGS.iter().any(|(known, _)| *known == name)
        || is_passed_on(name)
        || AUTHORITY_NAMES.contains(&name);
    !is_ours && !is_loader_name(name)
}

fn is_loader_name(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    LOADER_NAMES.contains(&upper.as_str())
        || LOADER_PREFIXES
            .iter()
            .any(|prefix| upper.starts_with(prefix))
}

/// Returns why a name is never set or passed on, or `None` if it may be.
pub(super) fn refusal_reason(name: &str) -> Option<&'static str> {
    let upper = name.to_ascii_uppercase();
    if is_loader_name(name) {
        return Some("it changes which code other programs load, or whom they talk to");
    }
    if SECRET_WORDS.iter().any(|word| upper.contains(word)) {
        return Some("its name says that it is a secret, and arguments are recorded");
    }
    None
}
