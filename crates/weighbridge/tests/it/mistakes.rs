//! What a user can get wrong: one sentence that says what and what to do, exit code 2, nothing left behind.

use std::path::Path;

use snapbox::cmd::OutputAssert;
use snapbox::{IntoData, str};

use crate::{files, folder, weighbridge};

fn refused(folder: &Path, words: &str, stderr: impl IntoData) -> OutputAssert {
    let before = files(folder);
    let assert = weighbridge(folder).args(words.split(' ')).assert().code(2).stdout_eq("").stderr_eq(stderr);
    assert_eq!(files(folder), before, "{words} left something behind");
    assert
}

#[test]
fn a_suite_that_does_not_exist() {
    refused(
        folder().path(),
        "run --suite quik",
        "error: --suite takes quick, [..], not `quik`; did you mean `quick`?\n",
    );
}

#[test]
fn a_glob_that_selects_nothing() {
    let folder = folder();
    refused(
        folder.path(),
        "run roundtrip/pip/*",
        "error: `roundtrip/pip/*` selects nothing; the nearest are roundtrip/pipe/1/same-cpu, \
         roundtrip/pipe/1/two-cpus, roundtrip/pipe/4096/same-cpu\n",
    );
    refused(
        folder.path(),
        "run unix-steam",
        "error: `unix-steam` selects nothing; the nearest is unix-stream\n",
    );
    refused(folder.path(), "run a/[x", "error: `a/[x` is not a glob: unclosed character class[..]\n");
    refused(folder.path(), "run akbench", "error: `akbench` is a suite; write --suite akbench\n");
    refused(
        folder.path(),
        "run roundtrip/pipe/64 --sizes 1,2",
        "error: the payload size is set twice, by --sizes and in `roundtrip/pipe/64`; leave one of them out\n",
    );
    refused(
        folder.path(),
        "run --suite quick fan-out/*",
        "error: `fan-out/*` selects nothing in suite quick; leave --suite out to select from all that `weighbridge \
         list` shows\n",
    );
    refused(
        folder.path(),
        "plan roundtrip/mock/1/nowhere",
        "error: no case `roundtrip/mock/1/nowhere`: there is no placement `nowhere`; there are same-cpu, [..]\n",
    );
}

#[test]
fn sizes_that_do_not_parse_or_that_no_memory_holds() {
    let folder = folder();
    refused(
        folder.path(),
        "run --sizes 1,4Q",
        "error: --sizes: `4Q` is not a size; write bytes as 64, 4K or 1MiB (K, M and G are powers of 1024)\n",
    );
    for words in ["run pipe --sizes 1,1048576G", "run pipe roundtrip/mock/1125899906842624/free -q"] {
        refused(
            folder.path(),
            words,
            "error: a payload of 1048576 GiB is more than an eighth of this machine's memory ([..] MiB); the largest \
             here is [..] MiB\n",
        );
    }
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --sizes 4",
        "error: --sizes and --place change what a GLOB or a suite selects, and every case named here is complete; \
         leave one or the other out\n",
    );
}

#[test]
fn placements_waits_and_axes_that_do_not_exist() {
    let folder = folder();
    refused(
        folder.path(),
        "run --place same-cup",
        "error: --place takes same-cpu, [..], not `same-cup`; did you mean `same-cpu`?\n",
    );
    refused(folder.path(), "run --wait sleep", "error: --wait takes block, poll, [..], not `sleep`\n");
    refused(
        folder.path(),
        "run pipe --set color=red",
        "error: no selected case has an axis `color`; there are wait, touch, [..]\n",
    );
    refused(
        folder.path(),
        "run pipe --set touch=all,some",
        "error: axis touch takes none, first, [..], not `some`\n",
    );
    refused(
        folder.path(),
        "run pipe --wait poll --set wait=epoll",
        "error: axis wait is set twice; give all its values at once, as in --set wait=V1,V2\n",
    );
    refused(
        folder.path(),
        "run roundtrip/ring-futex/1/free --wait poll",
        "error: ring-futex does not wait by poll; it offers [..]\n",
    );
}

#[test]
fn a_precision_a_budget_and_a_number_of_runs_that_make_no_sense() {
    let folder = folder();
    for (words, stderr) in [
        ("--precision 2", "error: --precision: `2` is not between 0 and 100 %[..]\n"),
        ("--precision fine", "error: --precision: `fine` is not a share; write 2% [..]\n"),
        ("--budget 90", "error: --budget: `90` is not a time; write a time with its unit[..]\n"),
        (
            "--budget 5ms",
            "error: --budget 5 ms is too small for one run, which takes about [..] ms; give more\n",
        ),
        ("--max-runs 0", "error: --max-runs takes 1 to 40, not `0`\n"),
    ] {
        refused(folder.path(), &format!("run roundtrip/mock/1/free {words}"), stderr);
    }
}

#[test]
fn cpus_that_this_process_may_not_use() {
    refused(folder().path(), "run roundtrip/mock/1/free --cpus 8191", "error: [..]\n");
}

#[test]
fn an_output_file_that_exists_is_left_as_it_is() {
    let folder = folder();
    std::fs::write(folder.path().join("mine"), "precious").unwrap();
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --out mine",
        "error: `mine` exists already; move it away, or give another name with --out\n",
    );
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --html mine",
        "error: `mine` exists already; move it away, or give another name with --html\n",
    );
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --out new.html",
        "error: record and page would both be `new.html`; give one of them another name, with --out or --html\n",
    );
    assert_eq!(std::fs::read_to_string(folder.path().join("mine")).unwrap(), "precious");
}

#[test]
fn an_output_file_that_cannot_be_written() {
    let folder = folder();
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --out no/such/r.jsonl",
        "error: cannot create `no/such/r.jsonl`: its folder does not exist; choose another with --out\n",
    );
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --html no/page.html",
        "error: cannot create `no/page.html`: its folder does not exist; choose another with --html\n",
    );
    // Even root may not create files here.
    refused(
        folder.path(),
        "run roundtrip/mock/1/free --out /proc/r.jsonl",
        "error: cannot create `/proc/r.jsonl`: [..] with --out\n",
    );
}

#[test]
fn a_selection_that_this_machine_skips_altogether() {
    let folder = folder();
    let why = "roundtrip/pipe/0/free: a byte stream cannot carry an empty message; the smallest is 1 byte";
    refused(
        folder.path(),
        "run roundtrip/pipe/0/free",
        format!("error: nothing is left to measure: the only case is skipped here, {why}\n").as_str(),
    );
    weighbridge(folder.path()).args(["plan", "roundtrip/pipe/0/free"]).assert().code(2).stdout_eq(str![[
        r#"
skipped:
  a byte stream cannot carry an empty message; the smallest is 1 byte
    pipe: 0 B at free (roundtrip)

understood:
  `roundtrip/pipe/0/free` (a complete case id): 1 case

0 of 1 cases would be measured.

"#
    ]]);
}

#[test]
fn the_entrance_for_peers_is_closed_to_users() {
    for words in ["__peer", "__peer x y"] {
        refused(folder().path(), words, "error: __peer is for this program itself\n");
    }
}
