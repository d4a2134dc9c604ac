//! Settings and environment variables for every git. They are set in the environment, which overrides all files. Not
//! here: programs under arbitrary keys of a repository.

/// Override settings that could run a program.
pub(super) const SAFE_SETTINGS: &[(&str, &str)] = &[
    ("core.fsmonitor", "false"),
    ("core.sshCommand", "false"),
    ("core.editor", "false"),
    ("sequence.editor", "false"),
    ("core.askPass", ""),
    ("core.pager", "cat"),
    ("core.alternateRefsCommand", "false"),
    ("core.gitProxy", ""),
    ("credential.helper", ""),
    ("log.showSignature", "false"),
    ("commit.gpgSign", "false"),
    ("gpg.program", "false"),
    ("gpg.ssh.program", "false"),
    ("gpg.ssh.defaultKeyCommand", "false"),
    ("gpg.x509.program", "false"),
    ("protocol.allow", "never"),
    ("protocol.ext.allow", "never"),
    ("safe.bareRepository", "explicit"),
    ("submodule.recurse", "false"),
    // Commits need a configured name; git must not guess one.
    ("user.useConfigOnly", "true"),
    // No maintenance in the background.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// The setting that names the folder of hooks.
pub(super) const HOOKS_PATH: &str = "core.hooksPath";
/// Disables hooks for everything except a commit.
pub(super) const NO_HOOKS_SETTING: (&str, &str) = (HOOKS_PATH, "/dev/null");

/// Override settings that change the output format.
pub(super) const PLAIN_OUTPUT_SETTINGS: &[(&str, &str)] = &[
    // Names are not quoted, but control characters are still escaped.
    ("core.quotePath", "false"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.submodule", "short"),
    ("diff.noPrefix", "false"),
    ("diff.mnemonicPrefix", "false"),
    ("diff.relative", "false"),
    ("diff.renames", "true"),
    ("diff.wsErrorHighlight", "none"),
    ("status.submoduleSummary", "false"),
    ("status.renames", "true"),
    ("log.showRoot", "true"),
    ("log.follow", "false"),
    ("log.mailmap", "false"),
    ("add.ignoreErrors", "false"),
];

/// Environment variables for git and its child processes.
pub(super) const GIT_VARIABLES: &[(&str, &str)] = &[
    ("LANG", "C.UTF-8"),
    ("LC_ALL", "C.UTF-8"),
    ("TZ", "UTC"),
    ("TERM", "dumb"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_SEQUENCE_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_MERGE_AUTOEDIT", "no"),
    // Objects missing from a partial clone are not fetched.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];
