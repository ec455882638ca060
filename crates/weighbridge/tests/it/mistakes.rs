//! What a user can get wrong: one sentence that says what and what to do, exit code 2, nothing left behind.

use crate::{files, folder, said, text};

/// A command line, and below it the sentence that refuses it. In the current folder is a file `mine`, and nothing else.
const REFUSED: &str = "
A suite, a glob or a case that is not there.

run --suite quik
    --suite takes quick, [..], not `quik`; did you mean `quick`?
run roundtrip/pip/*
    `roundtrip/pip/*` selects nothing; the nearest are roundtrip/pipe/1/same-cpu, roundtrip/pipe/1/two-cpus, roundtrip/pipe/4096/same-cpu
run unix-steam
    `unix-steam` selects nothing; the nearest is unix-stream
run a/[x
    `a/[x` is not a glob: unclosed character class[..]
run akbench
    `akbench` is a suite; write --suite akbench
run roundtrip/pipe/64 --sizes 1,2
    the payload size is set twice, by --sizes and in `roundtrip/pipe/64`; leave one of them out
run --suite quick fan-out/*
    `fan-out/*` selects nothing in suite quick; leave --suite out to select from all that `weighbridge list` shows
run ring-futx
    `ring-futx` selects nothing; the nearest is ring-futex
run carrier-pigeon
    `carrier-pigeon` selects nothing; see `weighbridge list` for what there is
run roundtrip/pip/1/same-cpu
    no case `roundtrip/pip/1/same-cpu`: there is no `pip` to roundtrip[..]; the nearest are roundtrip/pipe/1/same-cpu, [..]
run mo[c]k
    `mo[c]k` matches only `noop` (the harness) and `mock` (for tests); write a case id of theirs in full
run /
    an empty GLOB selects nothing; leave it out to select the suite `quick`
run roundtrip/pipe/4K/same-cpu
    a payload in a case id is in bytes: write 4096 for `4K`
run roundtrip/pipe/many/same-cpu
    `roundtrip/pipe/many/same-cpu` is not a case id: the third part is the payload[..]
run receivers
    `receivers` is an axis; give it a value, as in receivers=VALUE (`weighbridge list`)
run w*=poll
    `w*=poll` in `w*=poll` sets no axis; write the name of the axis in full, as in touch=none
run roundtrip/touch=none/pipe
    `pipe` in `roundtrip/touch=none/pipe` comes after an axis; axes are the last parts, each name=value
plan roundtrip/mock/1/nowhere
    no case `roundtrip/mock/1/nowhere`: there is no placement `nowhere`; there are same-cpu, [..]

Sizes that do not parse, or that no memory holds.

run --sizes 1,4Q
    --sizes: `4Q` is not a size; write bytes as 64, 4K or 1MiB (K, M and G are powers of 1024)
run pipe --sizes 1,1048576G
    a payload of 1048576 GiB is more than an eighth of this machine's memory ([..] MiB); the largest here is [..] MiB
run pipe roundtrip/mock/1125899906842624/free -q
    a payload of 1048576 GiB is more than an eighth of this machine's memory ([..] MiB); the largest here is [..] MiB
run roundtrip/mock/1/free --sizes 4
    --sizes and --place change what a GLOB or a suite selects, and every case named here is complete; leave one or the other out

Placements, ways to wait and axes that do not exist, and CPUs that this process may not use.

run --place same-cup
    --place takes same-cpu, [..], not `same-cup`; did you mean `same-cpu`?
run --wait sleep
    --wait takes block, poll, [..], not `sleep`
run pipe --set color=red
    no selected case has an axis `color`; there are wait, touch, [..]
run pipe --set touch=all,some
    axis touch takes none, first, [..], not `some`
run pipe --wait poll --set wait=epoll
    axis wait is set twice; give all its values at once, as in --set wait=V1,V2
run pipe/same-cpu --place free
    the placement is set twice, by --place and in `pipe/same-cpu`; leave one of them out
run roundtrip/pipe/wait=poll --set wait=epoll
    axis wait is set twice, by --set wait and in `roundtrip/pipe/wait=poll`; leave one of them out
run roundtrip/pipe/wait=z*
    no selected case takes a value like `z*` on an axis `wait`; see `weighbridge list wait`
run roundtrip/ring-futex/1/free --wait poll
    ring-futex does not wait by poll; it offers [..]
run roundtrip/mock/1/free --cpus 8191
    [..]

A precision, a budget and a number of runs that make no sense.

run roundtrip/mock/1/free --precision 2
    --precision: `2` is not between 0 and 100 %[..]
run roundtrip/mock/1/free --precision fine
    --precision: `fine` is not a share; write 2% [..]
run roundtrip/mock/1/free --budget 90
    --budget: `90` is not a time; write a time with its unit[..]
run roundtrip/mock/1/free --budget 5ms
    --budget 5 ms is too small for one run, which takes about [..] ms; give more
run roundtrip/mock/1/free --runs 0
    --runs takes 1 to 40, not `0`

An output file that is there, or cannot be. Even root may not create files in /proc.

run roundtrip/mock/1/free --out mine
    `mine` exists already; give another name with --out, or replace it with --force
run roundtrip/mock/1/free --html mine
    `mine` exists already; give another name with --html, or replace it with --force
run roundtrip/mock/1/free --out new.html
    record and page would both be `new.html`; give one of them another name, with --out or --html
run roundtrip/mock/1/free --out no/such/r.jsonl
    cannot create `no/such/r.jsonl`: its folder does not exist; choose another with --out
run roundtrip/mock/1/free --html no/page.html
    cannot create `no/page.html`: its folder does not exist; choose another with --html
run roundtrip/mock/1/free --out /proc/r.jsonl
    cannot create `/proc/r.jsonl`: [..] with --out

Commands, options and words that the command line does not have.

rn
    there is no command `rn`; did you mean `run`?; see `weighbridge --help`
zzz
    there is no command `zzz`; see `weighbridge --help`
run --sizs 1
    there is no option `--sizs`; did you mean `--sizes`?; see `weighbridge run --help`
run --budget
    --budget needs a value
run --seed 1 --seed 2
    --seed is given twice; see `weighbridge run --help`
list --format
    --format takes text, json
env pipe
    `pipe` is one word too many; see `weighbridge env --help`
completions
    [..]; see `weighbridge completions --help`

A selection that this machine skips altogether, and the entrance for peers.

run roundtrip/pipe/0/free
    nothing is left to measure: the only case is skipped here, roundtrip/pipe/0/free: a byte stream cannot carry an empty message; the smallest is 1 byte
__peer
    __peer is for this program itself
__peer x y
    __peer is for this program itself
";

#[test]
fn a_mistake_is_one_sentence_with_exit_code_2_and_leaves_nothing_behind() {
    let folder = folder();
    std::fs::write(folder.path().join("mine"), "precious").unwrap();
    let lines: Vec<&str> = REFUSED.lines().collect();
    let pairs: Vec<_> =
        lines.windows(2).filter_map(|of| Some((of[0], of[1].strip_prefix("    ")?))).collect();
    assert!(pairs.len() > 50);
    for (words, sentence) in pairs {
        said(folder.path(), words).with(2).shows("").says(format!("error: {sentence}\n"));
        assert_eq!(files(folder.path()), ["mine"], "{words} left something behind");
    }
    assert_eq!(text(folder.path().join("mine")), "precious");
}
