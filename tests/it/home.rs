//! The home on a real disk: modes, identity, tokens, the lock, skills and agents, and the signal that they changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use punie_runner::home::atomic::{self, Readers};
use punie_runner::home::{
    DeviceIdentity, Home, HomeError, LockError, Part, RunnerLock, TokenName, Tokens, Watch, fresh_token,
    load_agents, load_skills,
};
use punie_runner::redact::Secret;
use serde_json::Value;
use tempfile::TempDir;

fn home() -> (TempDir, Home) {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let home = Home::open(&dir.path().join("home")).expect("a new home");
    (dir, home)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn chmod(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("the mode can be set");
}

fn skill(home: &Home, id: &str, text: &str) {
    let dir = home.skills_dir().join(id);
    fs::create_dir_all(&dir).expect("a skill's folder");
    fs::write(dir.join("SKILL.md"), text).expect("a skill's file");
}

// Modes

#[test]
fn a_new_home_is_for_its_owner_alone_and_opens_again() {
    let (_dir, home) = home();
    for private in [home.root(), &home.state_dir(), &home.keys_dir(), &home.tokens_dir(), &home.outputs_dir()]
    {
        assert_eq!(mode(private), 0o700, "{}", private.display());
    }
    assert_eq!(Home::open(home.root()).expect("the same home"), home);
}

#[test]
fn looser_modes_are_refused_with_the_command_that_mends_them() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    let cases = [
        (home.state_dir(), 0o755, 0o700, "chmod 700"),
        (home.keys_dir(), 0o710, 0o700, "chmod 700"),
        (home.tokens_dir(), 0o704, 0o700, "chmod 700"),
        (home.key_file(), 0o644, 0o600, "chmod 600"),
        (home.key_file(), 0o640, 0o600, "chmod 600"),
        (home.root().to_owned(), 0o775, 0o755, "chmod go-w"),
        (home.skills_dir(), 0o777, 0o775, "chmod o-w"),
    ];
    for (path, loose, mended, command) in cases {
        chmod(&path, loose);
        let refused = Home::open(home.root()).expect_err("too open");
        assert!(matches!(refused, HomeError::TooOpen { .. }), "{refused}");
        assert_eq!(refused.exit_code(), 77);
        assert!(refused.to_string().contains(&format!("{command} {}", path.display())), "{refused}");
        chmod(&path, mended);
        Home::open(home.root()).expect("mended as told");
    }
}

#[test]
fn what_cannot_be_written_differs_from_what_is_wrong() {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let too_long = Home::open(&dir.path().join("n".repeat(300))).expect_err("no system has such names");
    assert_eq!((too_long.part(), too_long.exit_code()), (Part::Disk, 73), "{too_long}");

    let in_the_way = dir.path().join("file");
    fs::write(&in_the_way, "").expect("a file");
    for path in [in_the_way.clone(), in_the_way.join("below")] {
        let wrong = Home::open(&path).expect_err("a file in the way");
        assert_eq!((wrong.part(), wrong.exit_code()), (Part::Content, 78), "{wrong}");
    }
}

// Whole files

#[test]
fn a_file_is_written_whole_and_leaves_no_drafts() {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let file = dir.path().join("config.toml");
    atomic::write(&file, b"one", Readers::OwnerOnly).expect("written");
    assert_eq!(mode(&file), 0o600);
    chmod(&file, 0o640);
    atomic::write(&file, b"two", Readers::AsBefore).expect("written");
    assert_eq!((fs::read(&file).expect("there"), mode(&file)), (b"two".to_vec(), 0o640));
    atomic::write(&file, b"three", Readers::OwnerOnly).expect("written");
    assert_eq!(mode(&file), 0o600);

    let refused = atomic::create_new(&file, b"four", Readers::OwnerOnly).expect_err("there already");
    assert_eq!(refused.kind(), std::io::ErrorKind::AlreadyExists);
    assert!(atomic::write(&dir.path().join("no/such"), b"", Readers::OwnerOnly).is_err());
    atomic::write(dir.path(), b"", Readers::OwnerOnly).expect_err("a folder in the way");
    assert_eq!(fs::read(&file).expect("there"), b"three");
    assert_eq!(fs::read_dir(dir.path()).expect("a folder").count(), 1, "no drafts are left");
}

#[test]
fn a_link_is_replaced_and_not_written_through() {
    let dir = tempfile::tempdir().expect("a folder for the test");
    let (target, link) = (dir.path().join("target"), dir.path().join("link"));
    fs::write(&target, "untouched").expect("a file");
    symlink(&target, &link).expect("a link");
    atomic::write(&link, b"new", Readers::AsBefore).expect("written");
    assert_eq!(fs::read_to_string(&target).expect("there"), "untouched");
    assert_eq!(fs::read_to_string(&link).expect("there"), "new");
}

// Identity

#[test]
fn the_identity_is_made_once_and_signs() {
    let (_dir, home) = home();
    let first = DeviceIdentity::load_or_create(&home).expect("a new identity");
    let again = DeviceIdentity::load_or_create(&home).expect("the same identity");
    assert_eq!(first.id(), again.id());
    assert_eq!(first.created_at_ms(), again.created_at_ms());
    assert_eq!(mode(&home.key_file()), 0o600);

    let public = STANDARD.decode(again.public_key_base64()).expect("base64");
    let public = VerifyingKey::from_bytes(&public.try_into().expect("32 bytes")).expect("a key");
    let signature = STANDARD.decode(first.sign("a text")).expect("base64");
    let signature = Signature::from_slice(&signature).expect("64 bytes");
    public.verify_strict(b"a text", &signature).expect("its own signature");
    public.verify_strict(b"b text", &signature).expect_err("another text");

    let record: Value = serde_json::from_slice(&fs::read(home.device_file()).expect("there")).expect("JSON");
    assert_eq!(record["id"], first.id().as_str());
    assert_eq!(record["publicKey"], first.public_key_base64());
    assert!(record["createdAt"].as_u64().is_some_and(|ms| ms > 1_700_000_000_000), "{record}");
}

#[test]
fn eight_commands_at_once_get_one_identity() {
    let (_dir, home) = home();
    let together = Barrier::new(8);
    let ids: Vec<(String, String)> = thread::scope(|scope| {
        let commands: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let home = Home::open(home.root()).expect("the home");
                    together.wait();
                    let device = DeviceIdentity::load_or_create(&home).expect("an identity");
                    (device.id().to_string(), device.public_key_base64().to_owned())
                })
            })
            .collect();
        commands.into_iter().map(|command| command.join().expect("no panic")).collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn a_damaged_identity_is_refused_and_left_as_it_is() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    let (record, key) = (home.device_file(), home.key_file());
    let good = (fs::read(&record).expect("there"), fs::read(&key).expect("there"));
    let other = STANDARD.encode([7; 32]);
    let damages: [(&Path, &[u8]); 7] = [
        (&record, b""),
        (&record, b"{\"id\":\"../x\",\"publicKey\":\"\",\"createdAt\":1}"),
        (&record, b"\xff\xfe"),
        (&key, b""),
        (&key, &good.1[..20]),
        (&key, b"not base64!"),
        (&key, other.as_bytes()),
    ];
    for (path, damage) in damages {
        fs::write(path, damage).expect("damaged");
        let refused = DeviceIdentity::load_or_create(&home).expect_err("damaged");
        assert_eq!(refused.exit_code(), 78, "{refused}");
        assert!(refused.to_string().contains("backup"), "it says what to do: {refused}");
        assert!(
            !refused.to_string().contains("not base64!"),
            "it does not show what was in the file: {refused}"
        );
        assert_eq!(fs::read(path).expect("there"), damage, "untouched");
        fs::write(&record, &good.0).expect("mended");
        fs::write(&key, &good.1).expect("mended");
        DeviceIdentity::load_or_create(&home).expect("whole again");
    }
}

#[test]
fn half_an_identity_is_refused_and_the_other_half_not_made_up() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    for (gone, left) in [(home.device_file(), home.key_file()), (home.key_file(), home.device_file())] {
        let (aside, kept) = (home.root().join("aside"), fs::read(&left).expect("there"));
        fs::rename(&gone, &aside).expect("moved");
        let refused = DeviceIdentity::load_or_create(&home).expect_err("half");
        assert!(matches!(&refused, HomeError::HalfIdentity { missing, .. } if *missing == gone), "{refused}");
        assert!(!gone.exists(), "nothing was made up");
        assert_eq!(fs::read(&left).expect("there"), kept);
        fs::rename(&aside, &gone).expect("moved back");
    }
}

#[test]
fn a_creation_that_a_crash_cut_short_is_finished() {
    let (_dir, home) = home();
    let device = DeviceIdentity::load_or_create(&home).expect("a new identity");
    let unfinished = home.root().join("device.json.new");
    fs::rename(home.device_file(), &unfinished).expect("as if the last step had not happened");
    assert_eq!(DeviceIdentity::load_or_create(&home).expect("finished").id(), device.id());

    fs::remove_file(home.key_file()).expect("removed");
    fs::rename(home.device_file(), &unfinished).expect("as if only the first step had happened");
    let fresh = DeviceIdentity::load_or_create(&home).expect("nobody saw the first one");
    assert_ne!(fresh.id(), device.id());
}

#[test]
fn a_key_that_is_a_link_or_open_to_others_is_refused() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    chmod(&home.key_file(), 0o604);
    assert_eq!(DeviceIdentity::load_or_create(&home).expect_err("readable").exit_code(), 77);
    chmod(&home.key_file(), 0o600);
    let elsewhere = home.root().join("elsewhere");
    fs::rename(home.key_file(), &elsewhere).expect("moved");
    symlink(&elsewhere, home.key_file()).expect("a link");
    let refused = DeviceIdentity::load_or_create(&home).expect_err("a link");
    assert!(matches!(refused, HomeError::WrongKind { .. }), "{refused}");
}

#[test]
fn nothing_secret_shows_in_debug() {
    let (_dir, home) = home();
    let device = DeviceIdentity::load_or_create(&home).expect("a new identity");
    let seed = fs::read_to_string(home.key_file()).expect("there");
    assert!(!format!("{device:?}").contains(seed.trim()));
    let bytes = STANDARD.decode(seed.trim()).expect("base64");
    assert!(!format!("{device:?}").contains(&format!("{bytes:?}")));
    let token = fresh_token();
    assert!(!format!("{token:?}").contains(token.expose().as_str()));
}

// Tokens

#[test]
fn tokens_are_kept_for_the_owner_alone() {
    let (_dir, home) = home();
    let tokens = Tokens::of(&home);
    assert_eq!(tokens.read(TokenName::Caller).expect("readable"), None);
    let token = fresh_token();
    assert_eq!(token.expose().len(), 43, "32 bytes as base64url");
    assert_ne!(token, fresh_token());
    tokens.write(TokenName::Caller, &token).expect("written");
    assert_eq!(mode(&tokens.path(TokenName::Caller)), 0o600);
    assert_eq!(tokens.read(TokenName::Caller).expect("readable"), Some(token));
    assert_eq!(tokens.read(TokenName::Backend).expect("readable"), None);
}

#[test]
fn a_token_written_by_hand_may_end_with_a_line_and_must_be_closed_and_usable() {
    let (_dir, home) = home();
    let tokens = Tokens::of(&home);
    let path = tokens.path(TokenName::Backend);
    fs::write(&path, "abc\n").expect("written");
    chmod(&path, 0o644);
    assert_eq!(tokens.read(TokenName::Backend).expect_err("readable by all").exit_code(), 77);
    chmod(&path, 0o600);
    let read = tokens.read(TokenName::Backend).expect("closed now");
    assert_eq!(read, Some(Secret::new("abc".to_owned())));
    for unusable in ["", " \n", "two words", "a\r\nb", "\u{e9}", &"x".repeat(20_000)] {
        fs::write(&path, unusable).expect("written");
        assert_eq!(tokens.read(TokenName::Backend).expect_err("unusable").exit_code(), 78, "{unusable:.20}");
        let before = fs::read(&path).expect("there");
        tokens.write(TokenName::Backend, &Secret::new(unusable.to_owned())).expect_err("unusable");
        assert_eq!(fs::read(&path).expect("there"), before, "the old one was kept");
    }
}

#[test]
fn a_token_minted_by_several_at_once_is_one() {
    let (_dir, home) = home();
    let tokens = Tokens::of(&home);
    let together = Barrier::new(8);
    let minted: Vec<_> = thread::scope(|scope| {
        let all: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    together.wait();
                    tokens.read_or_mint(TokenName::Caller).expect("a token")
                })
            })
            .collect();
        all.into_iter().map(|one| one.join().expect("no panic")).collect()
    });
    assert!(minted.iter().all(|token| *token == minted[0]));
    assert_eq!(mode(&tokens.path(TokenName::Caller)), 0o600);
}

// The lock

#[test]
fn one_runner_holds_a_home_and_the_next_is_told_which() {
    let (_dir, home) = home();
    assert_eq!(RunnerLock::peek(&home).expect("readable"), None);
    let lock = RunnerLock::acquire(&home).expect("free");
    let us = Some(std::process::id());
    let held = RunnerLock::acquire(&home).expect_err("held");
    assert!(matches!(held, LockError::Held { pid } if pid == us), "{held}");
    assert_eq!(held.exit_code(), 75);
    assert!(held.to_string().contains(&std::process::id().to_string()));
    assert_eq!(RunnerLock::peek(&home).expect("readable").expect("held").pid, us);
    drop(lock);
    assert_eq!(RunnerLock::peek(&home).expect("readable"), None);
    RunnerLock::acquire(&home).expect("free again");
}

#[test]
fn a_number_left_by_a_crash_does_not_hold_the_home() {
    let (_dir, home) = home();
    fs::write(home.lock_file(), "1\n").expect("left behind");
    assert_eq!(RunnerLock::peek(&home).expect("readable"), None);
    RunnerLock::acquire(&home).expect("nobody holds it");
}

#[test]
fn somebody_who_looks_never_keeps_a_runner_from_starting() {
    let (_dir, home) = home();
    let done = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    RunnerLock::peek(&home).expect("readable");
                }
            });
        }
        let starts: Vec<_> = (0..300).map(|_| RunnerLock::acquire(&home).map(drop)).collect();
        done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(starts.iter().all(Result::is_ok), "{:?}", starts.iter().find(|start| start.is_err()));
    });
}

// Skills and agents

#[test]
fn skills_are_read_in_order_with_what_their_heads_say() {
    let (_dir, home) = home();
    skill(
        &home,
        "deploy",
        "---\nname: Deploy\ndescription: Ships it\nagent_types: general, coder\ntoolsAllowlist: [Read, Bash]\n\
         tags: [ops]\nversion: 1.10\nenabled: false\nlicense: MIT\n---\n# Deploy\nSteps.\n",
    );
    skill(&home, "bare", "# Bare\n\nDoes one thing.\nmore\n");
    fs::write(home.skills_dir().join("README.md"), "not a skill").expect("written");
    fs::create_dir(home.skills_dir().join(".git")).expect("made");
    let (skills, problems) = load_skills(&home);
    assert_eq!(problems, []);
    let [bare, deploy] = skills.as_slice() else { panic!("two skills: {skills:?}") };
    assert_eq!((bare.id.as_str(), bare.name.as_str()), ("bare", "bare"));
    assert_eq!(bare.description, "Does one thing.");
    assert_eq!((bare.enabled, bare.tools.clone()), (true, None));
    assert_eq!((deploy.name.as_str(), deploy.description.as_str()), ("Deploy", "Ships it"));
    assert_eq!(deploy.agent_types, ["general", "coder"]);
    assert_eq!(deploy.tools.as_deref(), Some(&["Read".to_owned(), "Bash".to_owned()][..]));
    assert_eq!((deploy.version.as_deref(), deploy.enabled), (Some("1.10"), false));
    assert_eq!(deploy.body, "# Deploy\nSteps.\n");
}

#[test]
fn one_bad_skill_never_hides_the_others() {
    let (dir, home) = home();
    skill(&home, "good", "Body");
    skill(&home, "unclosed", "---\nname: x\n");
    skill(&home, "broken", "---\nname: [\n---\n");
    skill(&home, "wrong-type", "---\nenabled: [maybe]\n---\n");
    skill(&home, "huge", &"x".repeat(1024 * 1024 + 1));
    skill(&home, "bad name", "Body");
    skill(&home, "-dash", "Body");
    fs::create_dir(home.skills_dir().join("empty")).expect("made");
    fs::create_dir_all(home.skills_dir().join("folder/SKILL.md")).expect("made");
    fs::create_dir(home.skills_dir().join("latin")).expect("made");
    fs::write(home.skills_dir().join("latin/SKILL.md"), b"caf\xe9").expect("written");
    let secret = dir.path().join("secret");
    fs::write(&secret, "the owner's secret").expect("written");
    fs::create_dir(home.skills_dir().join("leak")).expect("made");
    symlink(&secret, home.skills_dir().join("leak/SKILL.md")).expect("a link");
    symlink("/nowhere", home.skills_dir().join("dangling")).expect("a link");

    let (skills, problems) = load_skills(&home);
    let ids: Vec<&str> = skills.iter().map(|skill| skill.id.as_str()).collect();
    assert_eq!(ids, ["good"]);
    let all: Vec<String> = problems.iter().map(ToString::to_string).collect();
    for (id, why) in [
        ("unclosed", "no later line closes"),
        ("broken", "cannot be read"),
        ("wrong-type", "cannot be read"),
        ("huge", "longer than 1024 KiB"),
        ("bad name", "is not an id"),
        ("-dash", "is not an id"),
        ("empty", "has no SKILL.md"),
        ("folder", "not a plain file"),
        ("latin", "not UTF-8"),
        ("leak", "leads out of the home"),
        ("dangling", "has no SKILL.md"),
    ] {
        assert!(
            all.iter().any(|p| p.contains(&format!("/{id}/")) && p.contains(why)),
            "{id} should say {why:?}: {all:#?}"
        );
    }
    assert_eq!(problems.len(), 11, "{all:#?}");
    assert!(!all.iter().any(|p| p.contains("the owner's secret")));
}

#[test]
fn links_within_the_home_are_followed() {
    let (_dir, home) = home();
    skill(&home, "real", "Body");
    symlink(home.skills_dir().join("real"), home.skills_dir().join("alias")).expect("a link");
    let (skills, problems) = load_skills(&home);
    assert_eq!(problems, []);
    assert_eq!(skills.iter().map(|skill| skill.id.as_str()).collect::<Vec<_>>(), ["alias", "real"]);
}

#[test]
fn an_id_in_the_head_that_differs_is_reported_and_the_folder_counts() {
    let (_dir, home) = home();
    skill(&home, "mine", "---\nid: other\n---\nBody");
    let (skills, problems) = load_skills(&home);
    assert_eq!(skills[0].id, "mine");
    assert!(problems[0].what.contains("other"), "{}", problems[0]);
}

#[test]
fn agents_are_read_and_published_without_paths() {
    let (_dir, home) = home();
    let dir = home.agents_dir().join("reviewer");
    fs::create_dir(&dir).expect("made");
    let text =
        "---\r\nname: Reviewer\r\nmodel: large\r\nskills: a, b\r\nmaxTaskDepth: 2\r\n---\r\nYou review.\r\n";
    fs::write(dir.join("AGENT.md"), text).expect("written");
    let (agents, problems) = load_agents(&home);
    assert_eq!(problems, []);
    let item = agents[0].catalog_item();
    assert_eq!(item.key, "reviewer");
    assert_eq!(item.hash.len(), 64);
    let body: Value = serde_json::from_str(&item.body).expect("JSON");
    let wanted = serde_json::json!({
        "id": "reviewer", "name": "Reviewer", "description": "You review.", "agentTypes": [],
        "defaultSkills": ["a", "b"], "model": "large", "maxTaskDepth": 2, "tags": [], "enabled": true,
        "body": "You review.\n",
    });
    assert_eq!(body, wanted);

    fs::write(dir.join("AGENT.md"), text.replace("\r\n", "\n")).expect("written");
    assert_eq!(load_agents(&home).0[0].catalog_item(), item, "line ends do not change it");
    fs::write(dir.join("AGENT.md"), text.replace("large", "small")).expect("written");
    assert_ne!(load_agents(&home).0[0].catalog_item().hash, item.hash);
    fs::write(dir.join("AGENT.md"), "---\nmaxTaskDepth: 0\n---\n").expect("written");
    assert_eq!(load_agents(&home).1.len(), 1, "no depth of 0");
}

// The signal

/// Far longer than any change takes to be reported; only a signal that never comes runs into it.
const NEVER: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_change_is_reported_whether_file_new_folder_or_removal() {
    let (_dir, home) = home();
    skill(&home, "first", "one");
    let (mut watch, problems) = Watch::open(&home);
    assert_eq!(problems, []);
    let steps: [&dyn Fn(); 5] = [
        &|| skill(&home, "first", "two"),
        &|| fs::create_dir(home.agents_dir().join("new")).expect("made"),
        &|| {
            fs::write(home.agents_dir().join("new/AGENT.md"), "in a folder that was not there")
                .expect("written")
        },
        &|| fs::remove_dir_all(home.skills_dir().join("first")).expect("removed"),
        &|| skill(&home, "first", "back under the old name"),
    ];
    for (n, step) in steps.iter().enumerate() {
        step();
        tokio::time::timeout(NEVER, watch.changed())
            .await
            .unwrap_or_else(|_| panic!("step {n} was not reported"));
    }
    skill(&home, "first", "the folder that came back is watched");
    tokio::time::timeout(NEVER, watch.changed()).await.expect("reported");
}

#[tokio::test]
async fn a_wait_that_is_dropped_loses_no_change() {
    let (_dir, home) = home();
    skill(&home, "first", "one");
    let (mut watch, _) = Watch::open(&home);
    skill(&home, "first", "two");
    // Short waits, dropped while they wait for the change or for quiet.
    for _ in 0..5 {
        if tokio::time::timeout(Duration::from_millis(20), watch.changed()).await.is_ok() {
            return;
        }
    }
    tokio::time::timeout(NEVER, watch.changed()).await.expect("still reported");
}
