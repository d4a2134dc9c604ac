//! The files that a person's approval is bound to: scripts in every form of a line. Where the file is unknown, the
//! approval holds for one call.

use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;

const ASKING: &str = "[policy]\nask = [\"executes\"]\n";

/// Asks for a line, changes a file after the question, says yes, and checks that the call is refused in these words.
async fn is_refused_after_change(
    setup: &RunnerFixture,
    line: &str,
    (file, bad): (&str, &str),
    words: &str,
) {
    let id = setup.ask_bash(line).await;
    let question = setup.caller.next_question().await;
    setup.write(file, bad);
    setup.caller.choose(&question, "allow_once").await;
    let answer = setup.answer(&id).await;
    assert_eq!(answer.verdict(), ("error", "policy_denied"), "{line}");
    assert_contains!(answer.text(), words; "{line}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_is_for_the_script_that_is_read_or_given_to_whichever_interpreter() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    for line in [
        "bash < script.sh",
        "bash 0<> script.sh",
        "{ bash; } < script.sh",
        "bash -c 'bash < script.sh'",
        "python3.11 script.sh",
        "python3 -W ignore script.sh",
        "nodejs script.sh",
        "pypy script.sh",
        "rbash script.sh",
        "ash script.sh",
        "Rscript script.sh",
        ". ./script.sh",
        ". script.sh",
        "source script.sh",
        "builtin . script.sh",
        "awk -f script.sh",
        "gawk -v a=b -fscript.sh data",
        "sed -n -f script.sh data",
        "make -f script.sh",
        "make all --file=script.sh",
        "make -C . -f script.sh",
    ] {
        setup.write("script.sh", "echo good > effect\n");
        let bad = ("script.sh", "echo bad > effect\n");
        is_refused_after_change(
            &setup,
            line,
            bad,
            "script.sh changed after a person had said yes",
        )
        .await;
    }
    assert_eq!(setup.read("effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_is_for_the_sourced_file_that_path_leads_to() {
    let setup = RunnerFixture::with_config(ASKING).await;
    std::fs::create_dir_all(setup.file("bin")).expect("made");
    let bin = setup.file("bin");
    let _runner = setup.run_after(&format!("export PATH={}:$PATH", bin.display()));
    for line in [". lib.sh", "source lib.sh", "bash lib.sh"] {
        setup.write("bin/lib.sh", "echo good > effect\n");
        let bad = ("bin/lib.sh", "echo bad > effect\n");
        is_refused_after_change(&setup, line, bad, "bin/lib.sh changed after").await;
    }
    assert_eq!(setup.read("effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_to_make_is_for_the_makefile_of_its_folder() {
    let setup = RunnerFixture::with_config(ASKING).await;
    std::fs::create_dir_all(setup.file("sub")).expect("made");
    let _runner = setup.run();
    for (line, changed) in [
        ("make", "Makefile"),
        ("make -C sub all", "sub/Makefile"),
        ("cd sub && make", "sub/Makefile"),
        // make reads GNUmakefile before Makefile.
        ("make all", "GNUmakefile"),
    ] {
        for name in ["Makefile", "sub/Makefile"] {
            setup.write(name, "all:\n\techo good > effect\n");
        }
        let bad = (changed, "all:\n\techo bad > effect\n");
        let said = format!("{changed} changed after a person had said yes");
        is_refused_after_change(&setup, line, bad, &said).await;
    }
    assert_eq!(setup.read("effect") + &setup.read("sub/effect"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_to_what_is_known_only_when_it_runs_is_for_that_one_call() {
    let setup = RunnerFixture::with_config(ASKING).await;
    std::fs::create_dir_all(setup.file("sub")).expect("made");
    // Files of the same names in the folder where the line starts. The line does not run them.
    for name in ["build", "run.sh"] {
        setup.write(name, "true\n");
    }
    let _runner = setup.run();
    let line = |text: &str| json!({ "command": text });
    let asks: &[(Value, &str)] = &cases! {
        (line("PATH=bin:$PATH build"), "which program `build` is"),
        (line("export \"PATH=bin\"; build"), "which program `build` is"),
        (json!({"command": "build x", "env": {"PATH": "bin"}}), "which program `build` is"),
        (line("for PATH in bin; do build; done"), "which program `build` is"),
        (line("env -C sub ./build"), "which file `./build` is"),
        (line("env --chdir=sub ./build"), "which file `./build` is"),
        (line("d=sub; cd \"$d\" && ./build"), "which file `./build` is"),
        (line("d=sub; cd \"$d\" && bash run.sh"), "which file `run.sh` is"),
        (line("d=sub; cd \"$d\" && bash < run.sh"), "which file `run.sh` is"),
        (line("f=run.sh; bash < \"$f\""), "which file `\"$f\"` is"),
    };
    for (args, words) in asks {
        for _ in 0..2 {
            let id = setup
                .ask(ToolCall::new("Bash", args).in_conversation("c"))
                .await;
            let question = setup.caller.next_question().await;
            let title = question["title"].as_str().unwrap_or_default();
            assert_contains!(title, words; "{args}");
            setup.caller.choose(&question, "allow_always").await;
            setup.answer(&id).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_yes_is_for_the_files_that_a_line_names_in_whatever_way() {
    let setup = RunnerFixture::with_config(ASKING).await;
    std::fs::create_dir_all(setup.file("t")).expect("made");
    let _runner = setup.run();
    for (line, changed) in [
        ("PATH=$PWD/t:$PATH prog", "t/prog"),
        ("export \"PATH=t:$PATH\"; prog", "t/prog"),
        ("BASH_ENV=f.sh bash -c true", "f.sh"),
        ("find . -name f.sh -exec sh {} ';'", "f.sh"),
        ("find f.sh -exec bash -c '. \"$0\"' {} ';'", "f.sh"),
        ("xargs sh <<< f.sh", "f.sh"),
        ("echo f.sh | xargs -n1 bash", "f.sh"),
        ("cat f.sh | sh", "f.sh"),
        ("eval \"$(cat f.sh)\"", "f.sh"),
        ("bash <(cat f.sh)", "f.sh"),
        ("ln -sf f.sh l; sh l", "f.sh"),
        ("f=f.sh; . ./$f", "f.sh"),
        ("git -c alias.z='!sh f.sh' z", "f.sh"),
        ("python3 -c 'exec(open(\"f.sh\").read())'", "f.sh"),
        ("npm run x", "package.json"),
        ("cd t && npm test", "package.json"),
        ("python3 -m m", "m.py"),
        ("just x", "justfile"),
    ] {
        setup.write(changed, "good\n");
        let said = format!("{changed} changed after a person had said yes");
        is_refused_after_change(&setup, line, (changed, "bad\n"), &said).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_says_what_a_yes_is_not_bound_to() {
    let setup = RunnerFixture::with_config(ASKING).await;
    let _runner = setup.run();
    for (line, words) in cases! {
        ("cat f | sh", Some("what `sh` runs is read only then")),
        ("find . -exec sh {} ';'", Some("what `sh {}` runs is read only then")),
        ("python3 -m m", Some("the module of `python3 -m m` is not in this folder")),
        ("bash f.sh", None),
    } {
        let id = setup.ask_bash(line).await;
        let question = setup.caller.next_question().await;
        let title = question["title"].as_str().unwrap_or_default();
        match words {
            Some(words) => assert!(title.contains(words), "{line}: {title}"),
            None => assert!(!title.contains("your yes"), "{line}: {title}"),
        }
        setup.caller.choose(&question, "reject_once").await;
        setup.answer(&id).await;
    }
}
