//! The settings and variables that every git gets, whatever its files say. They come from the environment of the
//! command, which git takes over every file. Not here: programs that have a name of the repository's choice (disarm).

/// By these a repository could have a program run.
pub(super) const SAFE: &[(&str, &str)] = &[
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
    // Nobody commits as a name that git guessed.
    ("user.useConfigOnly", "true"),
    // Nothing is to go on in the background.
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
];

/// No hook, for everything but a commit.
pub(super) const NO_HOOKS: (&str, &str) = ("core.hooksPath", "/dev/null");

/// By these the form of an answer would depend on whose repository it is.
pub(super) const PLAIN: &[(&str, &str)] = &[
    // Names as they are; control characters are still escaped.
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

/// Variables for git and for all that it starts.
pub(super) const VARIABLES: &[(&str, &str)] = &[
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
    // An object that a partial clone lacks is not fetched.
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
];
