//! Builds the environment of commands from nothing. Not here: the names (variable_names), the capture of the user's values
//! (login_environment), and the decision whether a command may run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

#[cfg(unix)]
use super::variable_names::DESKTOP_NAMES;
use super::variable_names::{
    RUNNER_SETTINGS, SECRET_WORDS, can_hold_secret, is_passed_on, names_authorities, refusal_reason,
};
use crate::network_proxy::{CallNetwork, JAVA_OPTIONS};
use punie_core::variable_name::is_variable_name;
use punie_home::{FOLDER_VARIABLE, MountedSecrets};
#[cfg(target_os = "linux")]
use punie_sandbox::LoginPaths;
use punie_tool::{ErrorCode, ToolError};

/// The PATH if the user's environment has none.
pub(super) const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What the programs of a request find beside files.
pub(super) struct RequestEnvironment {
    pub variables: BTreeMap<String, String>,
    /// The folder for temporary files of the conversation, if it has a name.
    pub temp: Option<PathBuf>,
    /// Their network, if they reach other hosts through the proxy.
    pub network: Option<Arc<CallNetwork>>,
}

/// A user's environment, reduced to the variables that commands may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserEnvironment {
    passed: BTreeMap<String, String>,
    /// The options of Java machines for authorities.
    java_options: Option<String>,
}

impl UserEnvironment {
    /// Reduces an environment to the names that are passed on.
    pub fn from_entries(entries: impl IntoIterator<Item = (String, String)>) -> Self {
        let passed = entries
            .into_iter()
            .filter(|(name, value)| {
                names_authorities(name, value)
                    || is_passed_on(name) && refusal_reason(name).is_none()
            })
            .map(|(name, value)| {
                if name == "PATH" {
                    (name, keep_absolute_entries(&value))
                } else {
                    (name, value)
                }
            })
            .collect();
        Self {
            passed,
            java_options: None,
        }
    }

    /// Makes Java machines in commands trust the authorities in this store.
    #[cfg(target_os = "linux")]
    pub(super) fn with_java_trust_store(mut self, store: Option<PathBuf>) -> Self {
        let path = store.map(|store| store.display().to_string());
        // A path with blanks cannot stand in these options.
        let path = path.filter(|path| !path.contains(char::is_whitespace));
        self.java_options = path.map(|path| {
            format!("-Djavax.net.ssl.trustStore={path} -Djavax.net.ssl.trustStoreType=jks")
        });
        self
    }

    /// Returns a value that is passed on.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.passed.get(name).map(String::as_str)
    }

    /// Returns the paths that these variables name.
    #[cfg(target_os = "linux")]
    pub(super) fn login_paths(&self) -> LoginPaths {
        let of_authorities = |(name, value): &(&String, &String)| names_authorities(name, value);
        let named = self.passed.iter().filter(of_authorities);
        LoginPaths {
            java_trust_store: None,
            search_path: std::env::split_paths(self.get("PATH").unwrap_or_default()).collect(),
            certificates: named
                .flat_map(|(_, value)| std::env::split_paths(value))
                .collect(),
        }
    }

    /// Builds the environment of a desktop application: the variables passed on, and those of the runner that lead to
    /// the screen. The runner's settings for commands are left out, because a person watches an application.
    #[cfg(unix)]
    pub(super) fn for_app(&self, own: &[(String, String)]) -> BTreeMap<String, String> {
        let mut all = self.passed.clone();
        all.extend(
            own.iter()
                .filter(|(name, _)| DESKTOP_NAMES.contains(&name.as_str()))
                .cloned(),
        );
        all
    }

    /// Builds the environment of one command: the variables passed on, then the call's, then the runner's settings.
    ///
    /// # Errors
    /// `invalid_args` for a name or a value that cannot be set, `policy_denied` for one that must not.
    pub fn for_command(
        &self,
        asked: &[(String, String)],
    ) -> Result<BTreeMap<String, String>, ToolError> {
        let mut all = self.passed.clone();
        if let Some(options) = &self.java_options {
            all.insert(JAVA_OPTIONS.to_owned(), options.clone());
        }
        for (name, value) in asked {
            check_entry(name, value)?;
            all.insert(name.clone(), value.clone());
        }
        all.extend(
            RUNNER_SETTINGS
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
        );
        Ok(all)
    }
}

#[cfg(unix)]
impl UserEnvironment {
    /// Returns the entries that a command in an editor's terminal gets beside the editor's environment. They are the
    /// call's, and the runner's settings except TERM, which belongs to the editor.
    ///
    /// # Errors
    /// As [`UserEnvironment::for_command`].
    pub(super) fn entries_for_editor(
        &self,
        asked: &[(String, String)],
    ) -> Result<Vec<(String, String)>, ToolError> {
        let mut entries: BTreeMap<String, String> = asked.iter().cloned().collect();
        let all = self.for_command(asked)?;
        entries.extend(
            RUNNER_SETTINGS
                .iter()
                .filter_map(|(name, _)| all.get_key_value(*name))
                .map(|(n, v)| (n.clone(), v.clone())),
        );
        entries.remove("TERM");
        Ok(entries.into_iter().collect())
    }
}

/// Returns the runner's environment without refused names, for systems whose programs need variables that no list
/// has.
#[cfg(not(unix))]
pub(super) fn without_refused_names(own: &[(String, String)]) -> BTreeMap<String, String> {
    own.iter()
        .filter(|(name, value)| names_authorities(name, value) || refusal_reason(name).is_none())
        .cloned()
        .collect()
}

/// Removes relative entries from a PATH: they would find programs in whatever folder a command starts in.
fn keep_absolute_entries(path: &str) -> String {
    path.split(':')
        .filter(|entry| entry.starts_with('/'))
        .collect::<Vec<_>>()
        .join(":")
}

fn check_entry(name: &str, value: &str) -> Result<(), ToolError> {
    if !is_variable_name(name) {
        return Err(ToolError::invalid_args(format!(
            "env: {name:?} is not a variable's name; use letters, digits and _, not beginning with a digit."
        )));
    }
    if value.contains('\0') {
        return Err(ToolError::invalid_args(format!(
            "env: the value of {name} contains a NUL byte."
        )));
    }
    match refusal_reason(name) {
        None => Ok(()),
        Some(why) => Err(ToolError::new(
            ErrorCode::PolicyDenied,
            format!("env: {name} may not be set: {why}. Nothing was run; leave the entry out."),
        )),
    }
}

/// Inserts a command's secrets into its environment.
///
/// # Errors
/// `policy_denied` for a name that is not for secrets: one that changes which code programs load, or one that
/// commands get a value for anyway.
pub(super) fn insert_secrets(
    env: &mut BTreeMap<String, String>,
    mounted: &MountedSecrets,
) -> Result<(), ToolError> {
    for (name, value) in mounted.variables() {
        if !can_hold_secret(name) && name != FOLDER_VARIABLE {
            let text = format!(
                "The skill mounts a secret as the variable {name}, which commands are given for another purpose or which \
                 changes which code programs load. Nothing was run. The owner can name another variable under \
                 secretMounts in the skill's SKILL.md."
            );
            return Err(ToolError::new(ErrorCode::PolicyDenied, text));
        }
        env.insert(name.to_owned(), value.to_owned());
    }
    Ok(())
}

/// Receives the values of variables that commands do not get because they are secrets.
pub type WithheldObserver = Arc<dyn Fn(Vec<String>) + Send + Sync>;

/// Returns the values of variables that are withheld because their names mark them as secrets, except values that
/// also occur in ordinary text.
pub fn withheld_values<'e>(entries: impl IntoIterator<Item = &'e (String, String)>) -> Vec<String> {
    let secret = |name: &str| {
        SECRET_WORDS
            .iter()
            .any(|word| name.to_ascii_uppercase().contains(word))
    };
    let entries = entries
        .into_iter()
        .filter(|(name, value)| secret(name) && is_distinctive(value));
    entries.map(|(_, value)| value.clone()).collect()
}

/// Returns whether a value is distinctive, so that finding it in a text means something. Words (`disabled`), short
/// numbers, existing paths, and addresses without a password are not: variables like `KEYBOARD_LAYOUT` and
/// `SSH_ASKPASS` have such values.
fn is_distinctive(value: &str) -> bool {
    let value = value.trim();
    let only = |fits: fn(char) -> bool| value.chars().all(fits);
    let is_word = only(|c| c.is_alphabetic() || " _-.,".contains(c))
        && value.chars().skip(1).all(|c| !c.is_uppercase());
    let is_written_large = only(|c| c.is_ascii_uppercase() || " _-.".contains(c));
    let is_number = only(|c| c.is_ascii_digit() || ".:-".contains(c));
    let is_address = value.contains("://") && !value.contains('@');
    let is_path = value.split(':').next().is_some_and(|path| {
        path.starts_with(['~', '.'])
            || (path.starts_with('/') && std::path::Path::new(path).exists())
    });
    let is_short = value.len() < 20;
    !(is_short && (is_word || is_written_large || is_number))
        && !is_address
        && !is_path
        && value.len() >= 8
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn only_listed_names_pass_and_secrets_never() {
        let environment = UserEnvironment::from_entries(entries(&[
            ("HOME", "/home/a"),
            ("LC_ALL", "C"),
            ("LC_API_KEY", "x"),
            ("AWS_SECRET_ACCESS_KEY", "x"),
            ("LD_PRELOAD", "/x.so"),
            ("SOMETHING", "x"),
        ]));
        assert_eq!(environment.get("HOME"), Some("/home/a"));
        assert_eq!(environment.get("LC_ALL"), Some("C"));
        assert_eq!(environment.passed.len(), 2, "{environment:?}");
    }

    #[test]
    fn a_relative_path_entry_is_dropped() {
        let environment =
            UserEnvironment::from_entries(entries(&[("PATH", ".:/usr/bin::bin:/bin")]));
        assert_eq!(environment.get("PATH"), Some("/usr/bin:/bin"));
    }

    #[test]
    fn entries_that_change_what_programs_load_are_refused() {
        let environment = UserEnvironment::from_entries([]);
        for name in [
            "LD_PRELOAD",
            "DYLD_INSERT_LIBRARIES",
            "BASH_ENV",
            "ENV",
            "GIT_EXTERNAL_DIFF",
            "API_TOKEN",
            "ld_preload",
        ] {
            let refused = environment
                .for_command(&entries(&[(name, "x")]))
                .expect_err(name);
            assert_eq!(refused.stable_code(), ErrorCode::PolicyDenied, "{name}");
            assert!(refused.model_text().contains(name), "{refused}");
        }
        for name in ["", "1A", "A-B", "A=B", "BASH_FUNC_x%%", "Ä"] {
            let refused = environment
                .for_command(&entries(&[(name, "x")]))
                .expect_err(name);
            assert_eq!(refused.stable_code(), ErrorCode::InvalidArgs, "{name}");
        }
    }

    #[test]
    fn what_the_list_denies_is_neither_passed_on_nor_set() {
        let names = [
            "API_KEY",
            "MYKEYS",
            "A_TOKEN",
            "TOKENS",
            "SECRET",
            "DB_SECRETS",
            "PASSWORD",
            "PGPASSFILE",
            "LD_AUDIT",
            "DYLD_LIBRARY_PATH",
            "BASH_ENV",
            "ENV",
            "GIT_SSH_COMMAND",
            "SSH_AUTH_SOCK",
            "DOCKER_HOST",
            "DBUS_SESSION_BUS_ADDRESS",
            "PYTHONSTARTUP",
            "NODE_OPTIONS",
        ];
        let given = names.map(|name| (name.to_owned(), "x".to_owned()));
        assert_eq!(UserEnvironment::from_entries(given.clone()).passed.len(), 0);
        for entry in given {
            let refused = UserEnvironment::from_entries([])
                .for_command(std::slice::from_ref(&entry))
                .expect_err(&entry.0);
            assert_eq!(
                refused.stable_code(),
                ErrorCode::PolicyDenied,
                "{}",
                entry.0
            );
        }
    }

    #[test]
    fn what_the_list_allows_is_passed_on_and_nothing_else() {
        let names = [
            "PATH",
            "HOME",
            "USER",
            "SHELL",
            "LANG",
            "LC_TIME",
            "TZ",
            "TMPDIR",
            "CARGO_HOME",
            "RUSTUP_HOME",
            "GOPATH",
            "JAVA_HOME",
            "NVM_DIR",
            "PYENV_ROOT",
        ];
        let given = names.map(|name| (name.to_owned(), "/x".to_owned()));
        let others = [
            "EDITOR",
            "TERM",
            "HISTFILE",
            "AWS_PROFILE",
            "http_proxy",
            "PS1",
            "OLDPWD",
            "XDG_RUNTIME_DIR",
        ];
        let others = others.map(|name| (name.to_owned(), "/x".to_owned()));
        let passed = UserEnvironment::from_entries(given.into_iter().chain(others)).passed;
        let mut expected = names.to_vec();
        expected.sort_unstable();
        assert_eq!(
            passed.keys().map(String::as_str).collect::<Vec<_>>(),
            expected
        );
    }

    #[test]
    fn paths_of_certificate_authorities_pass_from_the_user_and_not_from_a_caller() {
        let given = [
            ("NODE_EXTRA_CA_CERTS", "/c.pem"),
            ("REQUESTS_CA_BUNDLE", "/c.pem"),
            ("CURL_CA_BUNDLE", "/c.pem"),
            ("PIP_CERT", "/c.pem"),
            ("GIT_SSL_CAINFO", "/c.pem"),
            ("GIT_SSL_CAPATH", "/certs"),
            ("GIT_PROXY_SSL_CAINFO", "/c.pem"),
            ("AWS_CA_BUNDLE", "/c.pem"),
            ("CARGO_HTTP_CAINFO", "/c.pem"),
            ("DENO_CERT", "/c.pem"),
            ("SSL_CERT_DIR", "/certs:/etc/ssl/certs"),
            ("SSL_CERT_FILE", "/c.pem"),
            ("npm_config_cafile", "/c.pem"),
            ("COMPOSER_CAFILE", "/c.pem"),
        ];
        let passed = UserEnvironment::from_entries(entries(&given)).passed;
        assert_eq!(passed.len(), given.len(), "{passed:?}");
        let others = [
            ("GIT_SSL_CERT", "/c.pem"),
            ("GIT_SSL_KEY", "/k.pem"),
            ("GIT_CA_TOKEN", "/c.pem"),
            ("CA_KEY", "/k.pem"),
            ("LD_CA", "/c.so"),
            ("GIT_LD_CA", "/c.so"),
            ("DOCKER_CERT_PATH", "/certs"),
            ("PIP_CLIENT_CERT", "/c.pem"),
            ("REQUESTS_CA_BUNDLE", "c.pem"),
            ("SSL_CERT_DIR", "/certs:certs"),
            ("MY_CA", "hunter2"),
            ("LOCATION", "/x"),
            ("A B_CA", "/c.pem"),
            ("1_CA", "/c.pem"),
        ];
        let passed = UserEnvironment::from_entries(entries(&others)).passed;
        assert!(passed.is_empty(), "{passed:?}");
        let asked = entries(&[("GIT_SSL_CAINFO", "/c.pem")]);
        let refused = UserEnvironment::from_entries([]).for_command(&asked);
        let refused = refused.expect_err("a caller");
        assert_eq!(refused.stable_code(), ErrorCode::PolicyDenied, "{refused}");
    }

    #[test]
    fn withheld_values_are_told_but_for_those_that_innocent_text_has() {
        let random = "/Kd83+hdJ/29dkeidKDL38dkLeo39dkEO3/kd8Qx";
        for (name, value, told) in [
            ("API_KEY", "hunter2hunter2", true),
            ("aws_secret_access_key", random, true),
            ("DB_PASSWORD", "CorrectHorse", true),
            ("PASSPHRASE", "correct horse battery staple", true),
            ("TOKEN_URL", "https://me:hunter2@example.com/", true),
            ("TOKEN_URL", "https://example.com/oauth/token", false),
            ("TOKEN", "short", false),
            ("TOKEN_CHECK", "disabled", false),
            ("PASSWORD_POLICY", "Required", false),
            ("KEY_MODE", "ENABLED_ALWAYS", false),
            ("KEYTIMEOUT", "1000000000", false),
            ("SSH_ASKPASS", "/bin/sh", false),
            ("KEY_FILES", "/etc/passwd:/etc/group", false),
            ("PASSWORD_STORE_DIR", "~/.password-store", false),
            ("EDITOR", "hunter2hunter2", false),
        ] {
            let entry = (name.to_owned(), value.to_owned());
            assert_eq!(
                !withheld_values([&entry]).is_empty(),
                told,
                "{name}={value}"
            );
        }
    }

    #[test]
    fn ours_win_over_what_is_asked_for() {
        let environment = UserEnvironment::from_entries([]);
        let all = environment
            .for_command(&entries(&[("PAGER", "less"), ("RUST_LOG", "debug")]))
            .expect("allowed");
        assert_eq!(all["PAGER"], "cat");
        assert_eq!(all["RUST_LOG"], "debug");
        assert_eq!(all["TERM"], "dumb");
    }
}
