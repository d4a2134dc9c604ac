//! Who may do what with a file that was replaced: nobody more than before.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::io::Errno;
use serde_json::json;

use super::Bench;

const ACL: &str = "system.posix_acl_access";
const OF_FOLDER: &str = "system.posix_acl_default";
const NOBODY: u32 = 65_534;

/// A list as the kernel has it: the owner and this user by `user`, the owning group by `group`, all within the mask.
fn acl(user: u16, group: u16, mask: u16) -> Vec<u8> {
    let none = u32::MAX;
    let entries = [
        (0x01, 6, none),
        (0x02, user, NOBODY),
        (0x04, group, none),
        (0x10, mask, none),
        (0x20, 0, none),
    ];
    let mut bytes = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, id) in entries {
        bytes.extend(u16::to_le_bytes(tag));
        bytes.extend(u16::to_le_bytes(rights));
        bytes.extend(u32::to_le_bytes(id));
    }
    bytes
}

/// Sets an attribute; false where the file system takes none.
fn set(path: &Path, name: &str, value: &[u8]) -> bool {
    match setxattr(path, name, value, XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => {
            // Past the capture of a test that passes.
            let note = format!(
                "SKIPPED: keeping {name} is not tried: the tests' file system has no such attributes\n"
            );
            std::io::stderr().write_all(note.as_bytes()).unwrap();
            false
        }
        set => set.is_ok() || panic!("{name}: {set:?}"),
    }
}

fn attribute(path: &Path, name: &str) -> Option<Vec<u8>> {
    let mut value = vec![0_u8; 1 << 16];
    let length = getxattr(path, name, &mut value[..]).ok()?;
    value.truncate(length);
    Some(value)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[tokio::test]
async fn an_access_control_list_stays_and_its_mask_is_given_to_no_group() {
    let bench = Bench::new();
    let file = bench.put("f", "one\ntwo\n");
    let list = acl(6, 0, 6);
    if !set(&file, ACL, &list) {
        return;
    }
    let noted = set(&file, "user.note", b"kept");
    assert_eq!(mode(&file), 0o660, "the group's bits are the mask");
    for (tool, args) in cases! {
        ("Edit", json!({ "file_path": "f", "old_string": "one", "new_string": "1" })),
        ("Write", json!({ "file_path": "f", "content": "two\n" })),
        (
            "MultiEdit",
            json!({ "file_path": "f", "edits": [{ "old_string": "two", "new_string": "2" }] }),
        ),
        ("ApplyPatch", json!({ "patch": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-2\n+3\n" })),
    } {
        let reply = bench.ok(tool, args).await;
        assert!(
            reply.meta.warnings.is_empty(),
            "{tool}: {:?}",
            reply.meta.warnings
        );
        assert_eq!(attribute(&file, ACL).as_ref(), Some(&list), "{tool}");
        assert_eq!(mode(&file), 0o660, "{tool}");
        assert_eq!(attribute(&file, "user.note").is_some(), noted, "{tool}");
    }
    assert_eq!(bench.get("f"), "3\n");
    bench.assert_tidy();
}

#[tokio::test]
async fn a_file_without_a_list_gets_none_of_its_folder() {
    let bench = Bench::new();
    let file = bench.put("f", "one\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o664)).unwrap();
    if !set(&bench.root, OF_FOLDER, &acl(6, 6, 6)) {
        return;
    }
    let args = json!({ "file_path": "f", "old_string": "one", "new_string": "two" });
    bench.ok("Edit", args).await;
    assert_eq!((attribute(&file, ACL), mode(&file)), (None, 0o664));
    bench
        .ok("Write", json!({ "file_path": "new", "content": "x" }))
        .await;
    assert!(
        attribute(&bench.root.join("new"), ACL).is_some(),
        "a new file gets what its folder says"
    );
}
