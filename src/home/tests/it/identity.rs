//! Who the device is, and its tokens: made once, kept closed, never replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Barrier;
use std::thread;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use punie_home::{
    BackendTokens, DeviceIdentity, Home, HomeError, MachineId, TokenName, random_token,
    set_identity_aside,
};
use punie_text::redact::Secret;
use serde_json::Value;

use super::{chmod, home, mode};

#[test]
fn a_home_has_no_folder_that_nothing_uses() {
    let (_dir, home) = home();
    for used in [home.skills_dir(), home.agents_dir(), home.plugins_dir()] {
        assert!(used.is_dir(), "{}", used.display());
    }
    assert!(!home.root_dir().join("canvas").exists());
}

#[test]
fn the_identity_is_made_once_and_signs() {
    let (_dir, home) = home();
    let first = DeviceIdentity::load_or_create(&home).expect("a new identity");
    let again = DeviceIdentity::load_or_create(&home).expect("the same identity");
    assert_eq!(first.device_id(), again.device_id());
    assert_eq!(first.created_at_ms(), again.created_at_ms());
    assert_eq!(mode(&home.key_file()), 0o600);

    let public = STANDARD.decode(again.public_key_base64()).expect("base64");
    let public = VerifyingKey::from_bytes(&public.try_into().expect("32 bytes")).expect("a key");
    let signature = STANDARD
        .decode(first.sign_base64("a text"))
        .expect("base64");
    let signature = Signature::from_slice(&signature).expect("64 bytes");
    public
        .verify_strict(b"a text", &signature)
        .expect("its own signature");
    public
        .verify_strict(b"b text", &signature)
        .expect_err("another text");

    let record: Value =
        serde_json::from_slice(&fs::read(home.device_file()).expect("there")).expect("JSON");
    assert_eq!(record["id"], first.device_id().as_str());
    assert_eq!(record["publicKey"], first.public_key_base64());
    assert!(
        record["createdAt"]
            .as_u64()
            .is_some_and(|ms| ms > 1_700_000_000_000),
        "{record}"
    );
}

#[test]
fn eight_commands_at_once_get_one_identity() {
    let (_dir, home) = home();
    let together = Barrier::new(8);
    let ids: Vec<(String, String)> = thread::scope(|scope| {
        let commands: Vec<_> = (0..8)
            .map(|_| {
                scope.spawn(|| {
                    let home = Home::open_home(home.root_dir()).expect("the home");
                    together.wait();
                    let device = DeviceIdentity::load_or_create(&home).expect("an identity");
                    (
                        device.device_id().to_string(),
                        device.public_key_base64().to_owned(),
                    )
                })
            })
            .collect();
        commands
            .into_iter()
            .map(|command| command.join().expect("no panic"))
            .collect()
    });
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[test]
fn a_damaged_identity_is_refused_and_left_as_it_is() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    let record = home.device_file();
    let key = home.key_file();
    let good = (
        fs::read(&record).expect("there"),
        fs::read(&key).expect("there"),
    );
    let other = STANDARD.encode([7; 32]);
    let damages: [(&Path, &[u8]); 7] = [
        (&record, b""),
        (
            &record,
            b"{\"id\":\"../x\",\"publicKey\":\"\",\"createdAt\":1}",
        ),
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
        assert!(
            refused.to_string().contains("backup"),
            "it says what to do: {refused}"
        );
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
    for (gone, left) in [
        (home.device_file(), home.key_file()),
        (home.key_file(), home.device_file()),
    ] {
        let aside = home.root_dir().join("aside");
        let kept = fs::read(&left).expect("there");
        fs::rename(&gone, &aside).expect("moved");
        let refused = DeviceIdentity::load_or_create(&home).expect_err("half");
        assert!(
            matches!(&refused, HomeError::HalfIdentity { missing, .. } if *missing == gone),
            "{refused}"
        );
        assert!(!gone.exists(), "nothing was made up");
        assert_eq!(fs::read(&left).expect("there"), kept);
        fs::rename(&aside, &gone).expect("moved back");
    }
}

#[test]
fn a_creation_that_a_crash_cut_short_is_finished() {
    let (_dir, home) = home();
    let device = DeviceIdentity::load_or_create(&home).expect("a new identity");
    let unfinished = home.root_dir().join("device.json.new");
    fs::rename(home.device_file(), &unfinished).expect("as if the last step had not happened");
    assert_eq!(
        DeviceIdentity::load_or_create(&home)
            .expect("finished")
            .device_id(),
        device.device_id()
    );

    fs::remove_file(home.key_file()).expect("removed");
    fs::rename(home.device_file(), &unfinished).expect("as if only the first step had happened");
    let fresh = DeviceIdentity::load_or_create(&home).expect("nobody saw the first one");
    assert_ne!(fresh.device_id(), device.device_id());
}

#[test]
fn an_identity_belongs_to_the_machine_that_first_used_it() {
    let (_dir, home) = home();
    let here = MachineId::from_id("0123456789abcdef\n");
    let there = MachineId::from_id("4567");
    let device =
        DeviceIdentity::load_on_machine(&home, &MachineId::unknown()).expect("a new identity");
    let record = || fs::read_to_string(home.device_file()).expect("there");
    assert!(
        !record().contains("machine"),
        "a machine that does not tell binds nothing: {}",
        record()
    );
    DeviceIdentity::load_on_machine(&home, &here).expect("bound now");
    let bound = record();
    assert!(
        bound.contains("machine") && !bound.contains("0123456789abcdef"),
        "the id itself is nobody's business: {bound}"
    );
    let refused = DeviceIdentity::load_on_machine(&home, &there).expect_err("another machine");
    assert!(
        matches!(refused, HomeError::OtherMachine { .. }) && refused.exit_code() == 77,
        "{refused}"
    );
    assert_eq!(record(), bound);
    for same in [
        &here,
        &MachineId::unknown(),
        &MachineId::from_id("uninitialized\n"),
    ] {
        assert_eq!(
            DeviceIdentity::load_on_machine(&home, same)
                .expect("nothing speaks against it")
                .device_id(),
            device.device_id()
        );
    }
    set_identity_aside(&home).expect("moved");
    let fresh = DeviceIdentity::load_on_machine(&home, &there).expect("a device of its own");
    assert_ne!(fresh.device_id(), device.device_id());
    let of_old = fs::read_dir(home.root_dir())
        .expect("the home")
        .filter_map(Result::ok);
    let aside = of_old.filter(|entry| {
        entry
            .file_name()
            .to_string_lossy()
            .starts_with("device.json.aside-")
    });
    assert_eq!(aside.count(), 1, "the old one is still there for its owner");
}

#[test]
fn a_key_that_is_a_link_or_open_to_others_is_refused() {
    let (_dir, home) = home();
    DeviceIdentity::load_or_create(&home).expect("a new identity");
    chmod(&home.key_file(), 0o604);
    assert_eq!(
        DeviceIdentity::load_or_create(&home)
            .expect_err("readable")
            .exit_code(),
        77
    );
    chmod(&home.key_file(), 0o600);
    let elsewhere = home.root_dir().join("elsewhere");
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
    let token = random_token();
    assert!(!format!("{token:?}").contains(token.expose().as_str()));
}

// Tokens

#[test]
fn tokens_are_kept_for_the_owner_alone() {
    let (_dir, home) = home();
    let tokens = BackendTokens::for_backend(&home, "https://a.example");
    assert_eq!(tokens.read(TokenName::Caller).expect("readable"), None);
    let token = random_token();
    assert_eq!(token.expose().len(), 43, "32 bytes as base64url");
    assert_ne!(token, random_token());
    tokens.write(TokenName::Caller, &token).expect("written");
    assert_eq!(mode(&tokens.path(TokenName::Caller)), 0o600);
    assert_eq!(
        tokens.read(TokenName::Caller).expect("readable"),
        Some(token)
    );
    assert_eq!(tokens.read(TokenName::Backend).expect("readable"), None);
}

#[test]
fn a_token_written_by_hand_may_end_with_a_line_and_must_be_closed_and_usable() {
    let (_dir, home) = home();
    let tokens = BackendTokens::for_backend(&home, "https://a.example");
    tokens
        .write(TokenName::Backend, &random_token())
        .expect("its folder is made");
    let path = tokens.path(TokenName::Backend);
    fs::write(&path, "abc\n").expect("written");
    chmod(&path, 0o644);
    assert_eq!(
        tokens
            .read(TokenName::Backend)
            .expect_err("readable by all")
            .exit_code(),
        77
    );
    chmod(&path, 0o600);
    let read = tokens.read(TokenName::Backend).expect("closed now");
    assert_eq!(read, Some(Secret::new("abc".to_owned())));
    for unusable in [
        "",
        " \n",
        "two words",
        "a\r\nb",
        "\u{e9}",
        &"x".repeat(20_000),
    ] {
        fs::write(&path, unusable).expect("written");
        assert_eq!(
            tokens
                .read(TokenName::Backend)
                .expect_err("unusable")
                .exit_code(),
            78,
            "{unusable:.20}"
        );
        let before = fs::read(&path).expect("there");
        tokens
            .write(TokenName::Backend, &Secret::new(unusable.to_owned()))
            .expect_err("unusable");
        assert_eq!(
            fs::read(&path).expect("there"),
            before,
            "the old one was kept"
        );
    }
}
