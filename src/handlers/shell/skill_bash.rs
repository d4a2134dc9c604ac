//! SkillBash: Bash in the folder of one of the owner's skills.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value, json};

use super::ShellDeps;
use super::bash::Bash;
use super::bash_keys;
use super::skill_secrets;
use punie_home::{CopyTexts, Home, HomeProblem, ProblemEffect, Skill, load_skills};
use punie_host::{RawPath, Workspace};
use punie_tool::{
    CommandFolder, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

const ABOUT: &str = "\
Run a command in an enabled skill's folder, as its instructions name it.

Takes Bash's other arguments, too. The secrets that the skill declares are in the variables and files (below \
$PUNIE_SECRETS) that it names, and masked in the output.";

/// The arguments: a skill, and those of Bash. Deserialization and schema are written by hand, because serde cannot
/// flatten a struct and reject unknown keys at the same time.
pub(super) struct SkillBash {
    skill_id: String,
    bash: Bash,
}

impl<'de> Deserialize<'de> for SkillBash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut fields = Map::deserialize(deserializer)?;
        let Some(Value::String(skill_id)) = fields.remove("skill_id") else {
            return Err(D::Error::custom("missing field `skill_id`"));
        };
        let bash = serde_path_to_error::deserialize(Value::Object(fields)).map_err(|bad| {
            let path = bad.path().to_string();
            let cause = bad.inner().to_string();
            D::Error::custom(if path == "." {
                cause
            } else {
                format!("`{path}`: {cause}")
            })
        })?;
        Ok(Self { skill_id, bash })
    }
}

impl JsonSchema for SkillBash {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("SkillBash")
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Bash::json_schema(generator);
        schema.insert("description".to_owned(), Value::from(ABOUT));
        if let Some(Value::Object(properties)) = schema.get_mut("properties") {
            // Bash describes them.
            let others = properties.iter_mut().filter(|(key, _)| *key != "command");
            others
                .filter_map(|(_, about)| about.as_object_mut())
                .for_each(|about| {
                    about.remove("description");
                });
            let about = "The name of the skill's folder.";
            properties.insert(
                "skill_id".to_owned(),
                json!({"type": "string", "description": about}),
            );
            if let Some(folder) = properties.get_mut("working_directory") {
                folder["description"] = Value::from("A folder; the skill's own if absent.");
            }
        }
        if let Some(Value::Array(required)) = schema.get_mut("required") {
            required.push(Value::from("skill_id"));
        }
        schema
    }
}

impl Tool for SkillBash {
    const NAME: &'static str = "SkillBash";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const ALIASES: &'static [(&'static str, &'static str)] = bash_keys::ALIASES;
    const ACCEPTED: &'static [&'static str] = bash_keys::ACCEPTED;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"skill_id":"invoices","command":"python3 scripts/list.py --year 2026"}"#,
        r#"{"skill_id":"site","command":"./build.sh","timeout":300000,"description":"Build the site"}"#,
    ];
    const LIMITS: &'static [&'static str] = bash_keys::LIMITS;
    type Deps = ShellDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let mut access = self.bash.access();
        if let Some(command) = &mut access.command {
            // The skill's own folder is resolved when the command runs.
            let given = self.bash.working_directory.as_ref();
            command.folder = CommandFolder::Unknown(given.map(|path| path.as_str().to_owned()));
        }
        access
    }

    fn normalize(arguments: &mut Map<String, Value>) {
        bash_keys::convert_arguments(arguments);
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let skill = find_skill(&deps.home, &self.skill_id).await?;
        let folder = resolve_skill_folder(&skill, deps, self.bash.working_directory.as_ref())?;
        let (mounted, warnings) = skill_secrets::mount_secrets(deps, &skill).await?;
        let bash = self.bash;
        let mut reply = bash
            .run_in_folder(cx, deps, folder, mounted, Self::NAME)
            .await?;
        reply.meta.warnings.extend(warnings);
        Ok(reply)
    }
}

/// Returns the skill, if its commands may run.
async fn find_skill(home: &Home, id: &str) -> Result<Skill, ToolError> {
    let id = id.trim().to_owned();
    if id.is_empty() {
        return Err(ToolError::invalid_args(
            "`skill_id` is empty; nothing was run.",
        ));
    }
    let home = home.clone();
    let reading = tokio::task::spawn_blocking(move || load_skills(&home, CopyTexts::No)).await;
    let (skills, problems) =
        reading.map_err(|panicked| ToolError::internal(panicked.to_string()))?;
    let Some(skill) = skills.iter().find(|skill| skill.id == id) else {
        return Err(unknown_skill_error(&id, &skills, &problems));
    };
    if !skill.enabled {
        return Err(ToolError::new(
            ErrorCode::PolicyDenied,
            format!(
                "The skill {id:?} is disabled by its owner (enabled: false in its head). Nothing was run."
            ),
        ));
    }
    Ok(skill.clone())
}

fn unknown_skill_error(id: &str, skills: &[Skill], problems: &[HomeProblem]) -> ToolError {
    let broken = problems
        .iter()
        .filter(|problem| problem.effect == ProblemEffect::NotLoaded)
        .find(|problem| problem.path.iter().any(|part| part == id));
    if let Some(HomeProblem { message: what, .. }) = broken {
        return ToolError::not_found(format!(
            "The skill {id:?} cannot be used: {what}. Nothing was run."
        ));
    }
    let known: Vec<&str> = skills
        .iter()
        .filter(|skill| skill.enabled)
        .map(|skill| skill.id.as_str())
        .collect();
    let hint = if known.is_empty() {
        "This device has no skills; run the command with Bash.".to_owned()
    } else {
        format!("There are: {}.", known.join(", "))
    };
    ToolError::not_found(format!("There is no skill {id:?}. {hint} Nothing was run."))
}

/// Returns the folder for the command. The skill's own folder is trusted only for running commands in it.
fn resolve_skill_folder(
    skill: &Skill,
    deps: &ShellDeps,
    asked: Option<&RawPath>,
) -> Result<PathBuf, ToolError> {
    let own = skill.file.parent().unwrap_or(Path::new(""));
    let own = Workspace::open_roots(&[own.to_owned()]).map_err(|cause| {
        ToolError::from_io(
            format_args!("the folder of the skill {:?}", skill.id),
            &cause,
        )
    })?;
    let Some(raw) = asked else {
        return Ok(own.first_root().to_owned());
    };
    // Only the workspace can expand the user's home folder.
    let from_home = raw.as_str().starts_with(['~', '$', '%']);
    let found = match own.resolve_inside(raw) {
        Err(refused)
            if from_home
                || (Path::new(raw.as_str()).is_absolute()
                    && refused.stable_code() == ErrorCode::OutsideWorkspace) =>
        {
            deps.workspace.resolve_inside(raw)?
        }
        inside => inside?,
    };
    Ok(found.absolute_path().to_owned())
}
