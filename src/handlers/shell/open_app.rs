//! OpenApp: opens an application on the desktop of the person at the machine.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Deserialize;

use super::ShellDeps;
use punie_host::local::desktop_apps::{AppRequest, OpenedApp};
use punie_host::terminals::{ExitStatus, exit_phrase};
use punie_host::{RawPath, WorkspacePath};
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, RequestedCommand, ResultMeta, Tool,
    ToolContext, ToolEffect, ToolError, ToolReply,
};

const MAX_NAME_CHARS: usize = 255;
const MAX_ARGS: usize = 100;
const MAX_ARG_BYTES: usize = 32 << 10;
/// Characters besides letters and digits that the name or the path of an application may contain.
const NAME_SIGNS: &str = " ._+-";
const PATH_SIGNS: &str = " ._+-/~@(),";

/// Open an application or a workspace file for the person at the machine.
///
/// It goes on by itself and its output is not kept. For commands use Bash.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenApp {
    /// Program or workspace file; no URL.
    app: String,
    /// Passed on as they are.
    args: Option<Vec<String>>,
    /// Else the first workspace.
    working_directory: Option<RawPath>,
}

impl Tool for OpenApp {
    const NAME: &'static str = "OpenApp";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("name", "app"),
        ("application", "app"),
        ("app_name", "app"),
        ("arguments", "args"),
        ("cwd", "working_directory"),
        ("workdir", "working_directory"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"app":"report.pdf"}"#,
        r#"{"app":"code","args":["--new-window","."]}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "255 characters of a name",
        "100 arguments of 32 KiB",
        "the application is watched for 2,000 ms, the desktop's opener for 10,000 ms",
    ];
    type Deps = ShellDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let app = self.app.trim().to_owned();
        let args = self.args.clone().unwrap_or_default();
        let folder = self.working_directory.as_ref().map(RawPath::as_str);
        let command =
            DeclaredAccess::running_command(RequestedCommand::Program(app.clone(), args), folder);
        DeclaredAccess {
            file_or_program: Some(app),
            ..command
        }
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!("Open {}", self.app)))
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let app = check_app_name(&self.app)?;
        let args = self.args.unwrap_or_default();
        check_args(&args)?;
        let folder = match &self.working_directory {
            Some(raw) => existing_folder(&deps.workspace.resolve_inside(raw)?)?,
            None => deps.workspace.resolve_folder(None)?,
        };
        let request = build_request(deps, app, args, folder)?;
        if cx.is_cancelled() {
            return Err(ToolError::call_cancelled("Nothing was opened."));
        }
        // Not interrupted by a cancellation: it takes only a moment, and otherwise the outcome would be unknown.
        let opened = deps.apps.open_app(request).await?;
        build_app_reply(app, &opened)
    }
}

/// Returns the trimmed name, if it is valid.
fn check_app_name(app: &str) -> Result<&str, ToolError> {
    let app = app.trim();
    let signs = if app.contains('/') {
        PATH_SIGNS
    } else {
        NAME_SIGNS
    };
    let strange = |c: &char| !(c.is_alphanumeric() || signs.contains(*c));
    let count = app.chars().count();
    let why = if app.is_empty() {
        "it is empty.".to_owned()
    } else if app.contains("://") || app.starts_with("mailto:") {
        "an address is not opened; name a program, or a file of the workspace.".to_owned()
    } else if count > MAX_NAME_CHARS {
        format!("it has {count} characters; {MAX_NAME_CHARS} are the most.")
    } else if let Some(strange) = app.chars().find(strange) {
        format!("{strange:?} has no place in the name of an application; arguments go into `args`.")
    } else if app.starts_with('-') {
        "a name does not begin with -; arguments go into `args`.".to_owned()
    } else {
        return Ok(app);
    };
    Err(ToolError::invalid_args(format!(
        "`app`: {why} Nothing was opened."
    )))
}

fn check_args(args: &[String]) -> Result<(), ToolError> {
    if args.len() > MAX_ARGS {
        let text = format!(
            "`args` has {} entries; {MAX_ARGS} are the most. Nothing was opened.",
            args.len()
        );
        return Err(ToolError::new(ErrorCode::TooLarge, text));
    }
    for (at, arg) in args.iter().enumerate() {
        if arg.len() > MAX_ARG_BYTES {
            let text = format!(
                "`args[{at}]` has {} bytes; {MAX_ARG_BYTES} are the most. Nothing was opened.",
                arg.len()
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        // On Windows, cmd.exe parses the arguments before the application gets them.
        let strange = |c: char| c == '\0' || (cfg!(windows) && "\"&|<>^%!()\r\n".contains(c));
        if let Some(strange) = arg.chars().find(|c| strange(*c)) {
            let text = format!(
                "`args[{at}]` contains {strange:?}, which cannot be passed on. Nothing was opened."
            );
            return Err(ToolError::invalid_args(text));
        }
    }
    Ok(())
}

fn existing_folder(path: &WorkspacePath) -> Result<PathBuf, ToolError> {
    let (code, why) = match path.file_metadata() {
        Ok(metadata) if metadata.is_dir() => return Ok(path.absolute_path().to_owned()),
        Ok(_) => (ErrorCode::InvalidArgs, "is not a folder"),
        Err(_) => (ErrorCode::NotFound, "does not exist"),
    };
    let folder = path.display_text();
    let text = format!("The working directory {folder} {why}. Nothing was opened.");
    Err(ToolError::new(code, text))
}

/// Builds the request. The system looks up a bare name, and a path names itself. Both may mean a file of the
/// workspace.
fn build_request(
    deps: &ShellDeps,
    app: &str,
    args: Vec<String>,
    cwd: PathBuf,
) -> Result<AppRequest, ToolError> {
    let from_here = if app.starts_with(['/', '~']) {
        PathBuf::from(app)
    } else {
        cwd.join(app)
    };
    let inside = deps
        .workspace
        .resolve_inside(&RawPath::from(from_here.display().to_string().as_str()));
    let file = inside
        .as_ref()
        .ok()
        .filter(|path| path.existed_when_resolved())
        .map(|path| path.absolute_path().to_owned());
    let is_path = app.contains('/');
    let program = match (&file, is_path) {
        (Some(file), true) => file.display().to_string(),
        (None, true) if !Path::new(app).is_absolute() => {
            inside?;
            return Err(ToolError::not_found(format!(
                "There is no {app} in the workspace. Nothing was opened."
            )));
        }
        _ => app.to_owned(),
    };
    Ok(AppRequest {
        app: program,
        args,
        cwd,
        file,
    })
}

fn build_app_reply(app: &str, opened: &OpenedApp) -> Result<ToolReply, ToolError> {
    let OpenedApp {
        pid,
        opener: with,
        ended,
        display,
    } = opened;
    let dark = if *display {
        ""
    } else {
        " There is no display here (neither DISPLAY nor WAYLAND_DISPLAY is set where the runner was started), so a \
         program that needs one cannot show its windows."
    };
    let text = match (with, ended) {
        (None, None) => format!("Opened {app} (pid {pid}); it goes on by itself.{dark}"),
        (None, Some(ExitStatus::Code(0))) => format!(
            "{app} was started (pid {pid}) and has ended already, with exit code 0, as programs do that hand over to \
             one that runs already.{dark}"
        ),
        (Some(with), None | Some(ExitStatus::Code(0))) => {
            format!("Opened {app} with the application that {with} has for it.")
        }
        (_, Some(status)) => {
            let who = with.map_or_else(
                || app.to_owned(),
                |with| format!("{with}, asked to open {app},"),
            );
            let text = format!(
                "{who} ended at once: {}.{dark} What it printed is not kept; run it with Bash to see it.",
                exit_phrase(status)
            );
            let meta = ResultMeta {
                may_have_run: true,
                ..ResultMeta::default()
            };
            return Err(ToolError::new(ErrorCode::Io, text).with_meta(meta));
        }
    };
    Ok(ToolReply::from_text(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_name_and_nothing_a_shell_would_read() {
        for good in [
            "firefox",
            " Google Chrome ",
            "gtk-4.0_demo",
            "./tool",
            "/usr/bin/x",
            "Übersicht",
            "a/b (1).pdf",
        ] {
            assert!(check_app_name(good).is_ok(), "{good}");
        }
        for bad in [
            "",
            "  ",
            "-a",
            "--help",
            "a;b",
            "a|b",
            "$(x)",
            "`x`",
            "a\nb",
            "a\0",
            "a&b",
            "x>y",
            "a*",
            "https://x.org",
            "mailto:a@b",
            "C:\\x",
            "a@b",
            "\"x\"",
            "ev'il",
        ] {
            assert_eq!(
                check_app_name(bad).expect_err(bad).stable_code(),
                ErrorCode::InvalidArgs,
                "{bad}"
            );
        }
        assert!(check_app_name(&"x".repeat(256)).is_err());
    }
}
