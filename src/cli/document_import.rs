//! `skills import`, `skills update`, and the same for agents and plugins.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::console;
use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::table::Column;
use punie_handlers::git::clone_repository;
use punie_home::{
    DocumentImport, DocumentKind, HomeError, ImportHelp, ImportLine, ImportOptions, ImportResult,
    ImportSource, Plugin,
};
use punie_text::output::number_format::format_count;

/// The folders below the user's own that other programs keep documents in, the first one first.
const DEFAULT_FOLDERS: &[&str] = &[".agents", ".claude"];

#[derive(Debug, Clone, Args)]
pub struct ImportArgs {
    /// Folders, archives (.tar.gz, .tgz, .tar, .zip) or addresses of git repositories
    ///
    /// If none is named: ~/.agents and ~/.claude, where they have some.
    #[arg(value_name = "SOURCE")]
    sources: Vec<String>,
    #[command(flatten)]
    options: ImportFlags,
}

#[derive(Debug, Clone, Args)]
pub struct InstallArgs {
    /// Folders, archives (.tar.gz, .tgz, .tar, .zip) or addresses of git repositories
    #[arg(value_name = "SOURCE", required = true)]
    sources: Vec<String>,
    #[command(flatten)]
    options: ImportFlags,
    /// Do not ask whether a plugin may run
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Args)]
pub struct UpdatePluginsArgs {
    #[command(flatten)]
    update: UpdateArgs,
    /// Do not ask whether a plugin may run
    #[arg(long)]
    yes: bool,
}

#[derive(Debug, Clone, Args)]
pub struct UpdateArgs {
    /// The ids; all that were imported if none is named
    ids: Vec<String>,
    #[command(flatten)]
    options: ImportFlags,
}

#[derive(Debug, Clone, Args)]
struct ImportFlags {
    /// Say what would happen, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Replace what you changed or have from elsewhere, too
    #[arg(long)]
    force: bool,
}

/// Imports documents of one kind.
pub fn run_import(
    kind: DocumentKind,
    args: &ImportArgs,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let sources = if args.sources.is_empty() {
        default_sources(kind, context)?
    } else {
        parse_sources(&args.sources)?
    };
    run_with(kind, &args.options, context, &|_, _| false, |import| {
        import.run(&sources)
    })
}

/// Installs plugins. The owner is asked about each, unless they said yes already.
pub fn run_install(args: &InstallArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let sources = parse_sources(&args.sources)?;
    check_terminal(args.yes, &args.options, context)?;
    let allow = |plugin: &Plugin, replaces: bool| args.yes || ask_about_plugin(plugin, replaces);
    let kind = DocumentKind::Plugin;
    run_with(kind, &args.options, context, &allow, |import| {
        import.run(&sources)
    })
}

/// Updates installed plugins. The owner is asked about each, unless they said yes already.
pub fn run_plugin_update(args: &UpdatePluginsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let options = &args.update.options;
    check_terminal(args.yes, options, context)?;
    let allow = |plugin: &Plugin, replaces: bool| args.yes || ask_about_plugin(plugin, replaces);
    let kind = DocumentKind::Plugin;
    run_with(kind, options, context, &allow, |import| {
        import.update(&args.update.ids)
    })
}

fn parse_sources(texts: &[String]) -> anyhow::Result<Vec<ImportSource>> {
    let parse = |text: &String| {
        let source = ImportSource::parse(text);
        source.map_err(|why| CommandError::with_exit(Exit::Usage, why))
    };
    texts.iter().map(parse).collect()
}

/// Refuses to install where nobody can be asked.
fn check_terminal(yes: bool, options: &ImportFlags, context: &CliContext) -> anyhow::Result<()> {
    let is_asked = !yes && !options.dry_run;
    if is_asked && (context.is_json() || !std::io::stdin().is_terminal() || !console::is_terminal())
    {
        let text = "a plugin is a program, and nobody can be asked about it without a terminal. Look at it with \
                    --dry-run, and add --yes";
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    Ok(())
}

/// Shows what a plugin asks for, and asks whether it may be installed.
fn ask_about_plugin(plugin: &Plugin, replaces: bool) -> bool {
    let text = |text: &str| console::cell_text(text, usize::MAX);
    console::print_line(&text(&format!("{} {}", plugin.id, plugin.version)));
    for line in super::plugins::describe_access(plugin) {
        console::print_paragraph("  ", &text(&line));
    }
    let question = if replaces {
        "Replace the installed one?"
    } else {
        "Install it?"
    };
    console::ask_yes_no(question).unwrap_or(false)
}

/// Updates imported documents of one kind.
pub fn run_update(
    kind: DocumentKind,
    args: &UpdateArgs,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    run_with(kind, &args.options, context, &|_, _| false, |import| {
        import.update(&args.ids)
    })
}

fn default_sources(kind: DocumentKind, context: &CliContext) -> anyhow::Result<Vec<ImportSource>> {
    let user = context.environment().user_dir().unwrap_or(Path::new(""));
    let folders: Vec<PathBuf> = DEFAULT_FOLDERS
        .iter()
        .map(|folder| user.join(folder).join(kind.plural()))
        .collect();
    let there = folders.iter().filter(|folder| folder.is_dir());
    let sources: Vec<ImportSource> = there
        .filter_map(|folder| ImportSource::parse(folder.to_str()?).ok())
        .collect();
    if sources.is_empty() {
        let text = format!(
            "neither {} nor {} is there. Name a folder, an archive or the address of a git repository",
            folders[0].display(),
            folders[1].display()
        );
        return Err(CommandError::with_exit(Exit::Usage, text));
    }
    Ok(sources)
}

fn run_with(
    kind: DocumentKind,
    flags: &ImportFlags,
    context: &CliContext,
    allow_plugin: &dyn Fn(&Plugin, bool) -> bool,
    run: impl FnOnce(DocumentImport<'_>) -> Result<Vec<ImportLine>, HomeError>,
) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let options = ImportOptions {
        dry_run: flags.dry_run,
        force: flags.force,
    };
    let variables = context.environment().variables();
    let clone = |address: &str, into: &Path| clone_repository(address, into, variables);
    let help = ImportHelp {
        clone: &clone,
        allow_plugin,
    };
    let lines = run(DocumentImport::begin(&home, kind, options, help)?)?;
    let refused = lines
        .iter()
        .any(|line| line.result == ImportResult::Refused);
    if context.is_json() {
        lines.iter().for_each(console::print_json);
    } else {
        print_lines(kind, &lines, flags, context.environment().user_dir());
    }
    Ok(if refused { Exit::Failed } else { Exit::Done })
}

fn print_lines(kind: DocumentKind, lines: &[ImportLine], flags: &ImportFlags, user: Option<&Path>) {
    let row = |line: &ImportLine| {
        let from = Path::new(&line.source).join(&line.path);
        let from = from.display().to_string();
        let from = console::shorten_path(Path::new(from.trim_end_matches('/')), user);
        vec![
            console::cell_text(&line.id, usize::MAX),
            line.result.as_word().to_owned(),
            console::cell_text(&from, usize::MAX),
        ]
    };
    let columns = [
        Column::text("ID"),
        Column::text("RESULT"),
        Column::path("FROM"),
    ];
    let rows: Vec<Vec<String>> = lines.iter().map(row).collect();
    let empty = format!("No {} were imported before.", kind.plural());
    console::print_list(&columns, &rows, &empty);
    // The table says which one was taken instead.
    let explained = lines
        .iter()
        .filter(|line| line.result != ImportResult::LeftOut);
    for line in explained {
        if let Some(note) = &line.note {
            let what = if line.id.is_empty() {
                &line.source
            } else {
                &line.id
            };
            let word = match line.result {
                ImportResult::Imported | ImportResult::Updated => "warning",
                result => result.as_word(),
            };
            console::print_paragraph(
                "",
                &console::cell_text(&format!("{word}: {what}: {note}"), usize::MAX),
            );
        }
    }
    let count = |result: ImportResult| lines.iter().filter(|line| line.result == result).count();
    let counts: Vec<String> = [
        ImportResult::Imported,
        ImportResult::Updated,
        ImportResult::Unchanged,
        ImportResult::Kept,
        ImportResult::LeftOut,
        ImportResult::Refused,
        ImportResult::Gone,
    ]
    .into_iter()
    .filter(|result| count(*result) > 0)
    .map(|result| format!("{} {}", count(result), result.as_word()))
    .collect();
    if !counts.is_empty() {
        let total = format_count(lines.len() as u64, kind.singular());
        let end = if flags.dry_run {
            " Nothing was changed: this was a dry run."
        } else {
            ""
        };
        console::print_line(&format!("{total}: {}.{end}", counts.join(", ")));
    }
}
