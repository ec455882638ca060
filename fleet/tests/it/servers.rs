//! An S3 server that is there, away, slow, refuses and is cut off (acceptance 3).

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use causeway_testkit::temp_dir;

use crate::push::{ends_with, program, pushed, spool};
use crate::support::proxy::{Fate, Proxy};
use crate::support::servers::{BUCKET, S3};
use crate::support::world::{Kind, World};

const SECRET: &str = "wJalrXUtnFEMIK7MDENG";

pub fn with_s3(endpoint: &str) -> Command {
    let mut command = program();
    command
        .env("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", SECRET)
        .env("AWS_REGION", "us-east-1")
        .env("AWS_ENDPOINT", endpoint);
    command
}

fn push(endpoint: &str, prefix: &str, spool: &Path) -> Command {
    let mut command = with_s3(endpoint);
    command.arg("push").arg(format!("s3://{BUCKET}/{prefix}")).arg(spool).args(["--patience", "60"]);
    command
}

/// Names below the prefix, and tags.
fn below(s3: &S3, prefix: &str) -> Vec<(String, String)> {
    let strip =
        |(name, tag): (String, String)| (name.strip_prefix(&format!("{prefix}/")).unwrap().to_owned(), tag);
    s3.objects(&format!("{prefix}/")).into_iter().map(strip).collect()
}

#[test]
fn a_push_leaves_the_same_objects_however_often_it_is_killed_cut_off_and_repeated() {
    let Some(s3) = S3::start() else { return };
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), &World::new(Kind::Normal, 3, 3, 1));
    assert!(ends_with(&push(&s3.url(), "whole", &spool).output().unwrap(), 0).contains("3 new"));
    let whole = below(&s3, "whole");
    assert_eq!(whole.len(), 6);
    assert!(
        ends_with(&push(&s3.url(), "whole", &spool).output().unwrap(), 0).contains("0 new, 3 there already")
    );
    assert_eq!(whole, below(&s3, "whole"));

    // kill −9 at ten points: before and after the server does a request.
    for point in 0..10 {
        let prefix = format!("killed-{point}");
        let at = 1 + point / 2 * 3;
        let fate = if point % 2 == 0 { Fate::KillBefore } else { Fate::KillAfter };
        let proxy = Proxy::new(s3.address, move |number| if number == at { fate } else { Fate::Pass });
        let mut child =
            push(&proxy.url(), &prefix, &spool).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        proxy.kills(child.id());
        let status = child.wait().unwrap();
        assert_eq!(status.code(), None, "request {at} of {}: not killed but {status}", proxy.requests());
        // Rows imply their record.
        let left = below(&s3, &prefix);
        for (name, _) in left.iter().filter(|(name, _)| name.contains("/results/")) {
            let raw = name.replace("/results/", "/raw/").replace(".parquet", ".jsonl.zst");
            assert!(left.iter().any(|(name, _)| *name == raw), "{left:?}");
        }
        ends_with(&push(&s3.url(), &prefix, &spool).output().unwrap(), 0);
        assert_eq!(whole, below(&s3, &prefix), "killed at request {at}, {fate:?}");
    }

    // A proxy that fails in every way, each in turn.
    let faults = [
        Fate::Answer(503),
        Fate::LoseAnswer,
        Fate::Answer(409),
        Fate::LoseRequest,
        Fate::Answer(500),
        Fate::Answer(429),
    ];
    let proxy = Proxy::new(s3.address, move |number| {
        if number < 24 && number % 2 == 0 { faults[number / 2 % faults.len()] } else { Fate::Pass }
    });
    ends_with(&push(&proxy.url(), "faulty", &spool).output().unwrap(), 0);
    assert!(proxy.requests() > 24, "{}", proxy.requests());
    assert_eq!(whole, below(&s3, "faulty"));
}

#[test]
fn a_store_that_refuses_says_so_at_once_and_one_that_stays_away_is_to_be_tried_again() {
    let Some(s3) = S3::start() else { return };
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), &World::new(Kind::Normal, 1, 2, 1));
    let forbidden = Proxy::new(s3.address, |_| Fate::Answer(403));
    let said = ends_with(&push(&forbidden.url(), "a", &spool).output().unwrap(), 2);
    assert!(
        said.contains("the store refuses it")
            && said.contains("AWS_SECRET_ACCESS_KEY")
            && !said.contains(SECRET),
        "{said}"
    );
    let away = Proxy::new(s3.address, |_| Fate::Answer(503));
    let mut command = with_s3(&away.url());
    command.args(["push", &format!("s3://{BUCKET}/b")]).arg(&spool).args(["--patience", "1"]);
    let said = ends_with(&command.output().unwrap(), 75);
    assert!(said.contains("try again later") && !said.contains(SECRET), "{said}");
    let said = ends_with(
        &with_s3(&s3.url()).args(["push", "s3://no-such-bucket/x"]).arg(&spool).output().unwrap(),
        2,
    );
    assert!(said.contains("not found"), "{said}");
    for command in [["report", "s3://fleet/nothing"], ["report", "s3://no-such-bucket/x"]] {
        let said = ends_with(&with_s3(&s3.url()).args(command).output().unwrap(), 2);
        assert!(!said.contains(SECRET), "{said}");
    }
}

#[test]
fn a_slow_store_is_waited_for_and_read_as_a_folder_is() {
    let Some(s3) = S3::start() else { return };
    let folder = temp_dir("fleet");
    let spool = spool(folder.path(), &World::new(Kind::Normal, 6, 3, 1));
    let slow = Proxy::new(s3.address, |_| {
        std::thread::sleep(Duration::from_millis(300));
        Fate::Pass
    });
    ends_with(&push(&slow.url(), "slow", &spool).output().unwrap(), 0);
    let store = folder.path().join("store");
    pushed(&store, &spool);
    let json = |mut command: Command| {
        let output = command.args(["--format", "json"]).output().unwrap();
        ends_with(&output, 0);
        let mut value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        value["store"] = serde_json::Value::Null;
        value
    };
    let address = format!("s3://{BUCKET}/slow");
    let mut remote = with_s3(&slow.url());
    remote.args(["report", &address]);
    let mut local = program();
    local.arg("report").arg(&store);
    assert_eq!(json(remote), json(local));
    let query =
        "SELECT campaign, day, count(*) AS n, round(sum(value), 3) AS s FROM results GROUP BY campaign, day";
    let ask = |command: &mut Command| {
        let output = command.arg(query).args(["--format", "json"]).output().unwrap();
        ends_with(&output, 0);
        output.stdout
    };
    assert_eq!(ask(with_s3(&s3.url()).args(["sql", &address])), ask(program().arg("sql").arg(&store)));
}
