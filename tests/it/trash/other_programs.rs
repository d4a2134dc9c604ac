//! Programs other than a plain `rm` that remove files: all of their code runs, and removals through `rm` can be undone.

use super::OwnerFixture;

#[test]
fn w50_a_program_that_removes_a_file_runs_whole_and_is_undone() {
    let owner = OwnerFixture::with_snapshots();
    owner.write("work/old.txt", "old\n");
    let program = r#"unlink("old.txt") or die; open(F, ">", "new.txt"); print F "new"; close F; print "done""#;
    let (request, code, text) = owner.runs(&format!("perl -e '{program}'"));
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("done"), "{text}");
    assert!(!owner.path("work/old.txt").exists());
    assert_eq!(
        owner.read("work/new.txt"),
        "new",
        "the rest of the program ran"
    );
    owner.undo_request(&request);
    assert_eq!(owner.read("work/old.txt"), "old\n");
    assert!(!owner.path("work/new.txt").exists());
}

#[test]
fn w52_every_way_to_rm_is_kept_and_no_text_is_rewritten() {
    let owner = OwnerFixture::new();
    let names = ["a", "b", "c", "d", "e"].map(|name| format!("work/{name}.txt"));
    for name in &names {
        owner.write(name, name);
    }
    owner.write("work/script.sh", "#!/bin/sh\nrm c.txt\n");
    let (request, code, text) = owner.runs(
        "env rm a.txt && echo b.txt | xargs rm && sh ./script.sh && find . -name d.txt -exec rm {} + && perl -e \
         'system(\"rm\", \"e.txt\")' && echo 'rm -rf /bin/rm' | grep '/bin/rm'",
    );
    assert_eq!(code, 0, "{text}");
    assert!(text.contains("rm -rf /bin/rm"), "{text}");
    assert!(!names.iter().any(|name| owner.path(name).exists()));
    owner.undo_request(&request);
    for name in &names {
        assert_eq!(owner.read(name), *name);
    }
}
